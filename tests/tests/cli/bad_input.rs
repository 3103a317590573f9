//! What is wrong with the input is said, with exit code 2, and nothing is written.

use std::fs;
use std::path::Path;

use super::{Ran, assert_ran, assert_refused, case, parity};

/// A copy of a case's model.
pub(super) fn model(folder: &Path) {
    fs::create_dir(folder.join("model")).expect("writable");
    for file in fs::read_dir(case("m2-mha-top1-f32").join("model")).expect("there") {
        let file = file.expect("readable");
        fs::copy(file.path(), folder.join("model").join(file.file_name())).expect("writable");
    }
}

/// Runs on a changed model; the model is all that there is afterwards, too.
fn refused(change: impl Fn(&Path), arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    model(folder.path());
    change(&folder.path().join("model"));
    let ran = parity(folder.path(), arguments);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("readable").map(|f| f.expect("readable").file_name()).collect();
    assert_eq!(left, ["model"], "{ran}");
    ran
}

const DECODE: [&str; 4] = ["decode", "model", "--tokens", "1,2,3"];

/// Replaces text in the configuration.
pub(super) fn configure(model: &Path, from: &str, to: &str) {
    let path = model.join("config.json");
    let text = fs::read_to_string(&path).expect("readable");
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).expect("writable");
}

/// Replaces the weights.
pub(super) fn reweigh(model: &Path, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let path = model.join("model.safetensors");
    fs::write(&path, change(fs::read(&path).expect("readable"))).expect("writable");
}

/// What becomes of a file's bytes.
type Damage = fn(Vec<u8>) -> Vec<u8>;

#[test]
fn a_damaged_checkpoint() {
    let damages: [(&str, Damage); 4] = [
        ("truncated", |bytes| bytes[..bytes.len() - 5].to_vec()),
        ("empty", |_| Vec::new()),
        ("header_beyond_the_end", |mut bytes| {
            bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
            bytes
        }),
        ("not_a_number", |mut bytes| {
            let end = bytes.len();
            bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
            bytes
        }),
    ];
    for (name, damage) in damages {
        assert_ran!(refused(|model| reweigh(model, damage), &DECODE), format!("checkpoint_{name}"));
    }
    assert_ran!(
        refused(|model| fs::remove_file(model.join("model.safetensors")).expect("there"), &DECODE),
        "checkpoint_none"
    );
}

#[test]
fn a_configuration_that_does_not_work_out() {
    let heads = |model: &Path| configure(model, "\"num_key_value_heads\": 5", "\"num_key_value_heads\": 3");
    assert_ran!(refused(heads, &DECODE), "config_heads");
    let size = |model: &Path| configure(model, "\"hidden_size\": 52", "\"hidden_size\": 56");
    assert_ran!(refused(size, &DECODE), "config_other_shapes");
    let text = |model: &Path| configure(model, "\"hidden_size\"", "hidden_size");
    assert_ran!(refused(text, &DECODE), "config_not_json");
}

#[test]
fn a_prompt_that_cannot_be() {
    for (name, tokens) in
        [("empty", ""), ("words", "one,two"), ("beyond_the_vocabulary", "1,99999"), ("no_file", "@missing.json")]
    {
        assert_ran!(refused(|_| (), &["decode", "model", "--tokens", tokens]), format!("prompt_{name}"));
    }
    assert_ran!(refused(|_| (), &["decode", "model"]), "prompt_none");
    let short =
        |model: &Path| configure(model, "\"max_position_embeddings\": ", "\"max_position_embeddings\": 4, \"was\": ");
    assert_ran!(refused(short, &["decode", "model", "--tokens", "1,2,3,4,5"]), "prompt_too_long");
    assert_ran!(
        refused(short, &["run", "model", "--tokens", "1,2,3", "--decode", "9", "--out", "dump"]),
        "decode_too_long"
    );
    let optimized = ["decode", "model", "--tokens", "1,2,3,4,5", "--backend", "optimized", "--device", "emulated"];
    assert_ran!(refused(short, &optimized), "prompt_too_long_for_the_device");
}

/// Tokenizers write a batch, and a mask of what is padding.
#[test]
fn a_prompt_with_padding() {
    let written = |json: &str| {
        let json = json.to_owned();
        move |model: &Path| fs::write(model.join("prompt.json"), &json).expect("writable")
    };
    let decode = ["decode", "model", "--tokens", "@model/prompt.json"];
    for (json, said) in [
        (
            r#"{"input_ids": [[0, 0, 7, 8]], "attention_mask": [[0, 0, 1, 1]]}"#,
            "the prompt is padded on the left: attention_mask is 0 for the first 2 of 4 tokens, expected 1",
        ),
        (
            r#"{"tokens": [7, 8, 0], "attention_mask": [1, 1, 0]}"#,
            "attention_mask is 0 for 1 of 3 tokens, expected 1 for each",
        ),
        (r#"{"tokens": [7, 8], "attention_mask": [1]}"#, "attention_mask is no list of 2 numbers, one for each token"),
        (r#"{"tokens": [7, 8], "decode": {"tokens": [-1]}}"#, "decode.tokens is no list of token ids of one prompt"),
        (r#"{"input_ids": [[7, 8], [7, 9]]}"#, "holds no list of token ids of one prompt"),
    ] {
        let ran = refused(written(json), &decode);
        assert!(ran.says(said), "{ran}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    model(folder.path());
    written(r#"{"input_ids": [[7, 8]], "attention_mask": [[1, 1]]}"#)(&folder.path().join("model"));
    let [tokenizers, ours] = [decode, ["decode", "model", "--tokens", "7,8"]].map(|arguments| {
        let ran = parity(folder.path(), &arguments);
        assert_eq!(ran.code, Some(0), "{ran}");
        ran.stdout
    });
    assert_eq!(tokenizers, ours);
}

#[test]
fn a_choice_that_is_none() {
    let tokens = ["--tokens", "1,2"];
    for (name, arguments) in [
        ("model", &["decode", "m2-gqa"][..]),
        ("device", &["check", "model", "--device", "tpu"]),
        ("layers", &["check", "model", "--layers", "7..3"]),
        ("sites", &["check", "model", "--sites", "layers.[", "--device", "emulated"]),
        ("semantics", &["check", "model", "--semantics", "release", "--device", "emulated"]),
        ("precision", &["decode", "model", "--precision", "fp8"]),
    ] {
        assert_ran!(refused(|_| (), &[arguments, &tokens].concat()), format!("choice_{name}"));
    }
}

#[test]
fn a_dump_of_something_else() {
    let of_other = case("m2-gqa3-f32").join("expected.safetensors");
    let of_other = of_other.to_str().expect("UTF-8");
    let ran = refused(|_| (), &["verify", "model", of_other, "--tokens", "1,2,3"]);
    assert!(ran.says("the dump was made from other tokens"), "{ran}");
    let ran = refused(|_| (), &["verify", "model", of_other]);
    assert!(ran.says("expected below vocab_size = 211"), "{ran}");
    let wide = |model: &Path| {
        configure(model, "\"head_dim\": 12", "\"head_dim\": 20");
        configure(model, "0.3333333333333333", "0.2");
        configure(model, "_heads\": 5", "_heads\": 3");
    };
    let own = case("m2-mha-top1-f32").join("expected.safetensors");
    let ran = refused(wide, &["verify", "model", own.to_str().expect("UTF-8")]);
    assert!(ran.says("self_attn.1: is [1, 5, 17, 17], expected [3, 17, 17]"), "{ran}");
    let ran = refused(|_| (), &["verify", "model", "missing.npz", "--tokens", "1,2,3"]);
    assert!(ran.stderr.contains("missing.npz"), "{ran}");
    let ran = refused(|_| (), &["diff", of_other, "model/model.safetensors"]);
    assert!(ran.stderr.contains("nothing was compared"), "{ran}");
}

#[test]
fn a_place_that_cannot_be_written() {
    let ran = refused(|_| (), &["run", "model", "--tokens", "1,2", "--out", "missing/dump.npz"]);
    assert!(ran.stderr.contains("missing/dump.npz"), "{ran}");
    let ran = refused(|_| (), &["synth", "model", "--out", "model"]);
    assert!(ran.stderr.contains("model"), "{ran}");
    let ran = refused(|_| (), &["decode", "model", "--tokens", "1", "--json", "missing/x.json"]);
    assert!(ran.stderr.contains("missing/x.json"), "{ran}");
}

#[test]
fn an_engine_without_a_maker() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkout = tests::repository::path("").display().to_string();
    let regenerate = ["fixtures", "regenerate", "--checkout", &checkout, "--dry-run", "--engines"];
    let ran = parity(folder.path(), &[&regenerate[..], &["tgi"]].concat());
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.stderr.contains("tgi: is no engine") && ran.stderr.contains("one of llama.cpp"), "{ran}");
    let ran = parity(folder.path(), &[&regenerate[..], &["--python", "python3"]].concat());
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.stderr.contains("--python: 1 given for 5 engines"), "{ran}");
}

/// A token that was lost between commas would be another prompt.
#[test]
fn nothing_between_commas_is_no_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for tokens in ["1,,2", "1, ,2", "1,2,", ",1"] {
        let ran = parity(folder.path(), &["decode", "m2-gqa3-f32", "--tokens", tokens, "-n", "1"]);
        assert_refused(&ran, &["nothing stands between two commas", tokens]);
    }
}
