//! What commands write is read by others.

use std::fs;

use serde_json::Value;

use super::{case, change_tensor, listing, parity};

/// Tokens of a built-in case's own decode.
fn expected_decode(name: &str) -> Value {
    let text = fs::read_to_string(case(name).join("case.json")).expect("readable");
    serde_json::from_str::<Value>(&text).expect("JSON")["decode"]["tokens"].clone()
}

#[test]
fn a_run_of_each_backend_and_their_drift() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = case("m2-sharded-bf16").join("model");
    let tokens = format!("@{}", case("m2-sharded-bf16").join("case.json").display());
    let run = |backend: &[&str], out: &str| {
        let fixed = ["run", model.to_str().expect("UTF-8"), "--tokens", &tokens, "--decode", "24", "--out", out];
        let ran = parity(folder.path(), &[&fixed, backend].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
    };
    run(&["--backend", "reference", "--precision", "f64"], "reference");
    run(&["--backend", "optimized", "--device", "emulated"], "optimized");
    for out in ["reference", "optimized"] {
        let text = fs::read_to_string(folder.path().join(out).join("parity.json")).expect("written");
        let manifest: Value = serde_json::from_str(&text).expect("JSON");
        let count = |field: &str| manifest["decode"][field].as_array().map(Vec::len);
        assert_eq!((count("tokens"), count("margins")), (Some(24), Some(24)), "{text}");
        if out == "reference" {
            assert_eq!(manifest["decode"]["tokens"], expected_decode("m2-sharded-bf16"));
        }
    }
    let ran = parity(folder.path(), &["diff", "optimized", "reference", "--json", "diff.json"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains("drift of the layers' outputs"), "{ran}");
    let text = fs::read_to_string(folder.path().join("diff.json")).expect("written");
    let pairs = serde_json::from_str::<Value>(&text).expect("JSON")["pairs"].as_array().map_or(0, Vec::len);
    assert!(pairs > 40, "{text}");
    let verify = ["verify", model.to_str().expect("UTF-8"), "optimized"];
    let ran = parity(folder.path(), &verify);
    assert_eq!(ran.code, Some(0), "{ran}");
    let twin = ran.stdout.lines().find_map(|line| line.strip_prefix("exact twin: exact at ")).expect("it is told");
    let (exact, sites) = twin.split_once(" sites").and_then(|(of, _)| of.split_once(" of ")).expect("two counts");
    assert!(exact == sites && sites.parse::<usize>().is_ok_and(|sites| sites > 40), "{ran}");
    let dump = folder.path().join("optimized/00000.safetensors");
    assert!(change_tensor(&dump, "logits", |bytes| bytes[0] ^= 1), "it is there");
    let ran = parity(folder.path(), &verify);
    assert_eq!(ran.code, Some(1), "one bit is as wrong as many: {ran}");
    assert!(ran.stdout.contains("1 site not the exact twin's"), "{ran}");
}

/// What the reference writes under a contract, or without any, is right under it.
#[test]
fn the_reference_verifies_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for model in ["m2-gqa3-f32", "m3-gqa4-f32", "vision-both-f32"] {
        for precision in ["f64", "f32", "eager_f32", "eager_bf16", "fused"] {
            let out = format!("{model}-{precision}.safetensors");
            let ran = parity(folder.path(), &["run", model, "--precision", precision, "--out", &out]);
            assert_eq!(ran.code, Some(0), "{model} {precision}: {ran}");
            let ran = parity(folder.path(), &["verify", model, &out]);
            assert_eq!(ran.code, Some(0), "{model} {precision}: {ran}");
        }
    }
}

/// Patches are not counted as tokens, whatever a dump has of them.
#[test]
fn dumps_of_what_is_seen_are_compared_by_site() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fixed = ["run", "vision-both-f32", "--precision"];
    for (precision, out, more) in
        [("f64", "a.npz", &[][..]), ("f32", "b.npz", &["--sites", "*multi_modal*", "--sites", "*norm*"])]
    {
        let ran = parity(folder.path(), &[&fixed[..], &[precision, "--out", out], more].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    for [one, other] in [["a.npz", "b.npz"], ["b.npz", "a.npz"], ["b.npz", "b.npz"]] {
        let options = ["diff", one, other, "--model", "vision-both-f32", "--limit", "1e-3", "--json", "d.json"];
        let ran = parity(folder.path(), &options);
        assert_eq!(ran.code, Some(0), "{one} {other}: {ran}");
        let text = fs::read_to_string(folder.path().join("d.json")).expect("written");
        let found: Value = serde_json::from_str(&text).expect("JSON");
        let pairs = found["pairs"].as_array().expect("a list");
        let names: Vec<&str> = pairs.iter().filter_map(|pair| pair["name"].as_str()).collect();
        for site in ["model.multi_modal_projector", "pass.1.model.vision_tower.layers.2.layer_norm2", "model.norm"] {
            assert!(names.contains(&site), "{site}: {names:?}");
        }
    }
}

#[test]
fn equal_dumps_and_unequal_ones() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |precision: &str, out: &str| {
        parity(folder.path(), &["run", "m2-mha-top1-f32", "--precision", precision, "--out", out, "--layers", "1"])
    };
    for (precision, out) in [("f64", "a.npz"), ("f64", "b.safetensors"), ("eager_bf16", "c.npz")] {
        assert_eq!(run(precision, out).code, Some(0));
    }
    let same = parity(folder.path(), &["diff", "a.npz", "b.safetensors", "--limit", "0"]);
    assert_eq!(same.code, Some(0), "{same}");
    assert!(same.stdout.contains("are equal, value by value"), "{same}");
    let other = parity(folder.path(), &["diff", "c.npz", "a.npz", "--limit", "1e-6"]);
    assert_eq!(other.code, Some(1), "{other}");
    // Eighty columns: names are whole, and something is left out.
    assert!(other.stdout.contains("model.layers.1.post_attention_layernorm "), "{other}");
    assert!(other.stdout.contains("no room for bias, cosine") && !other.stdout.contains(" bias "), "{other}");
    let by_site = parity(folder.path(), &["diff", "c.npz", "a.npz", "--model", "m2-mha-top1-f32"]);
    assert_eq!(by_site.code, Some(0), "{by_site}");
}

/// What the released models hold.
#[test]
fn checkpoints_like_the_released_models_would_be_as_large() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (like, said) in [
        ("minimax-m2.7", "96103 tensors, 228689764864 parameters, 230121630720 bytes\n"),
        ("minimax-m3", "45838 tensors, 427040140160 parameters, 443742085120 bytes\n"),
    ] {
        let ran = parity(folder.path(), &["synth", "--like", like, "--dry-run"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), said), "{ran}");
    }
    assert!(listing(folder.path()).is_empty());
}

/// Of a configuration whose `torch_dtype` is `float32`.
#[test]
fn a_synthetic_checkpoint_is_stored_as_its_configuration_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = case("m2-gqa3-f32").join("model");
    let said = |more: &[&str]| {
        let arguments = [&["synth", config.to_str().expect("UTF-8"), "--dry-run"], more].concat();
        parity(folder.path(), &arguments).stdout
    };
    assert_eq!(said(&[]), said(&["--dtype", "f32"]));
    assert_ne!(said(&[]), said(&["--dtype", "bf16"]));
}

#[test]
fn a_synthetic_checkpoint_is_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = case("m2-gqa3-f32").join("model");
    let ran = parity(folder.path(), &["synth", config.to_str().expect("UTF-8"), "--out", "made", "--seed", "7"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let ran = parity(folder.path(), &["show", "made"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let check =
        ["check", "made", "--tokens", "1,2,3,4,5,6,7", "--decode", "5", "--device", "emulated", "--json", "r.json"];
    let ran = parity(folder.path(), &check);
    assert_eq!(ran.code, Some(0), "{ran}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("r.json")).expect("written")).expect("JSON");
    assert_eq!(report["reports"][0]["schema"], 3);
}
