//! What is one percent off in a bf16 model: no fault, but suspicious, and told by `verify` and `diagnose`.

use std::fs;
use std::path::Path;

use super::{case, change_tensor, parity};

/// Copies a model, of which the values of one tensor are one percent larger.
fn one_percent_more(model: &Path, to: &Path, tensor: &str) {
    fs::create_dir(to).expect("writable");
    let mut found = 0;
    for entry in fs::read_dir(model).expect("a folder") {
        let from = entry.expect("readable").path();
        let copy = to.join(from.file_name().expect("a file"));
        fs::copy(&from, &copy).expect("writable");
        if from.extension().is_some_and(|extension| extension == "safetensors") {
            found += usize::from(change_tensor(&copy, tensor, |bytes| bytes.chunks_exact_mut(2).for_each(larger)));
        }
    }
    assert_eq!(found, 1, "{tensor} is in one file");
}

fn larger(value: &mut [u8]) {
    let larger = half::bf16::from_le_bytes([value[0], value[1]]).to_f32() * 1.01;
    value.copy_from_slice(&half::bf16::from_f32(larger).to_le_bytes());
}

#[test]
fn a_quiet_fault_is_suspicious_and_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (model, other) = (case("m3-sharded-bf16").join("model"), folder.path().join("other"));
    one_percent_more(&model, &other, "language_model.model.layers.0.mlp.down_proj.weight");
    let tokens = format!("@{}", case("m3-sharded-bf16").join("case.json").display());
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (model, other) = (text(&model), text(&other));
    let run = ["run", &other, "--tokens", &tokens, "--precision", "eager_bf16", "--out", "dump.safetensors"];
    let ran = parity(folder.path(), &run);
    assert_eq!(ran.code, Some(0), "{ran}");
    let verify = ["verify", &model, "dump.safetensors"];
    let ran = parity(folder.path(), &verify);
    assert_eq!(ran.code, Some(0), "{ran}");
    let told = "model.layers.0.mlp.down_proj (local): values are 0.98 % larger than this precision gives";
    assert!(ran.stdout.contains(told) && ran.stdout.contains("SUSPICIOUS"), "{ran}");
    assert_eq!(parity(folder.path(), &[&verify[..], &["--deny", "suspicious"]].concat()).code, Some(1));
    let ran = parity(folder.path(), &["diagnose", &model, "dump.safetensors"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("suspicious   model.layers.0.mlp.down_proj: values are 0.98 % larger"), "{ran}");
    assert!(ran.stdout.contains("weight_scaled (down_proj of the dense network in layer 0 is 1.01"), "{ran}");
    assert!(ran.stdout.ends_with("nothing is left unexplained\n"), "{ran}");
    let ran = parity(folder.path(), &["diagnose", &model, "dump.safetensors", "--json", "-"]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let explained = &told["diagnosis"]["explained"][0];
    assert_eq!(
        (&explained["layers"], &explained["is_local"]),
        (&serde_json::json!([0]), &serde_json::json!(true)),
        "{ran}"
    );
    let [before, under] = [0, 1].map(|i| explained["reproduced"][i]["equal"].as_u64().expect("a number"));
    assert!(under > 2 * before, "{ran}");
}

/// One rounding fewer than the precision has, in every value of one operator: each fault is as small as a rounding, and it is said.
#[test]
fn roundings_in_other_places_are_told_as_such() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = ["run", "m2-sharded-bf16", "--precision", "transformers_bf16", "--out", "dump.safetensors"];
    assert_eq!(parity(folder.path(), &run).code, Some(0));
    let verify = |precision: &str| {
        let verify = ["verify", "m2-sharded-bf16", "dump.safetensors", "--lens", "local", "--precision", precision];
        parity(folder.path(), &verify)
    };
    let said = "every fault is as small as a rounding to bf16 (mlp.experts.hidden)";
    let ran = verify("transformers_bf16,swiglu=once");
    assert!(ran.code == Some(1) && ran.stdout.contains(said), "{ran}");
    let ran = verify("transformers_bf16");
    assert!(ran.code == Some(0) && !ran.stdout.contains("every fault"), "{ran}");
}

/// α = 1.7 for 1.702 in every layer, within every bound: the number that says so is told. Of a right run none is, nor of one that rounds
/// otherwise in every layer, where no number explains it, and that is said.
#[test]
fn a_number_that_is_off_in_every_layer_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let verified = |semantics: &str, precision: &str| {
        let run = ["run", "m3-sharded-bf16", "--semantics", semantics, "--precision", precision];
        let ran = parity(folder.path(), &[&run[..], &["--out", "dump.safetensors"]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        let verify = ["verify", "m3-sharded-bf16", "dump.safetensors", "--semantics", "released"];
        let ran = parity(folder.path(), &[&verify[..], &["--precision", "transformers_bf16"]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        ran.stdout
    };
    let told = verified("released,gate_alpha=1.7", "transformers_bf16");
    assert!(told.contains("SUSPICIOUS") && told.contains("with α = 1.70"), "{told}");
    assert!(told.contains("the configuration's 1.702"), "{told}");
    let ways = [("transformers_bf16", "PASS"), ("transformers_bf16,rope=once", "SUSPICIOUS")];
    for (precision, conclusion) in ways.into_iter().chain([("transformers_bf16,swiglu=once", "SUSPICIOUS")]) {
        let told = verified("released", precision);
        assert!(told.contains(conclusion) && !told.contains("configuration's"), "{precision}: {told}");
        assert_eq!(told.contains("rounds otherwise than this precision"), conclusion == "SUSPICIOUS", "{told}");
    }
}
