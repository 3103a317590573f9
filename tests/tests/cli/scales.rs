//! Scales of quantized weights that are taken otherwise are named.

use std::fs;
use std::path::Path;

use tests::repository;

use super::{change_tensor, parity};

const TOKENS: &str = "5,9,2,33,17,21,4,11,38,0,26,8,99,101,77,54,3,120,61,7";

/// Copies the quantized model, of which scales are changed, each tensor's as rows × columns.
fn changed(to: &Path, tensors: &[&str], columns: usize, change: fn(&[f32], usize) -> Vec<f32>) {
    let model = repository::path("fixtures/golden-quantized/m2-fp8/model");
    fs::create_dir(to).expect("writable");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model.join(file), to.join(file)).expect("writable");
    }
    for tensor in tensors {
        let found = change_tensor(&to.join("model.safetensors"), &format!("{tensor}_scale_inv"), |bytes| {
            let scales: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            let changed: Vec<u8> = change(&scales, columns).into_iter().flat_map(f32::to_le_bytes).collect();
            bytes.copy_from_slice(&changed);
        });
        assert!(found, "{tensor} is there");
    }
}

fn divided(scales: &[f32], _: usize) -> Vec<f32> {
    scales.iter().map(|scale| 1.0 / scale).collect()
}

fn by_columns(scales: &[f32], columns: usize) -> Vec<f32> {
    let rows = scales.len() / columns;
    (0..scales.len()).map(|n| scales[n % columns * rows + n / columns]).collect()
}

fn shifted(scales: &[f32], columns: usize) -> Vec<f32> {
    scales.chunks(columns).flat_map(|row| row[1..].iter().chain(&row[..1]).copied().collect::<Vec<f32>>()).collect()
}

/// What an engine computed that takes scales otherwise: by the reference from a checkpoint that has them so.
#[test]
fn scales_that_are_misread_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let o = "model.layers.1.self_attn.o_proj.weight";
    let down = "model.layers.1.block_sparse_moe.experts.3.w2.weight";
    let right = repository::path("fixtures/golden-quantized/m2-fp8/model").display().to_string();
    let precision = ["--precision", "transformers_bf16,gate=bias"];
    for (number, (tensor, columns, change, want)) in [
        (o, 8, divided as fn(&[f32], usize) -> Vec<f32>, "the scales of o_proj in layer 1 divide instead of multiply"),
        (o, 8, by_columns, "the scales of o_proj in layer 1 are read as if they were stored by columns"),
        (down, 2, shifted, "the scales of down_proj of expert 3 in layer 1 are those of the next block"),
    ]
    .into_iter()
    .enumerate()
    {
        let (model, dump) = (format!("model-{number}"), format!("dump-{number}"));
        changed(&folder.path().join(&model), &[tensor], columns, change);
        let run = ["run", &model, "--backend", "reference", "--tokens", TOKENS, "--out", &dump];
        assert_eq!(parity(folder.path(), &[&run[..], &precision].concat()).code, Some(0));
        let ran = parity(folder.path(), &["diagnose", &right, &dump]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stdout.contains(&format!("mistake      scales_misread ({want})")), "{ran}");
        assert!(ran.stdout.contains("nothing is left unexplained"), "{ran}");
    }
}

/// What the library computed is, of a checkpoint that has 1/s for every s, what one would that divides.
#[test]
fn a_name_is_no_reason_to_divide() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let golden = repository::path("fixtures/golden-quantized/m2-fp8");
    let attention = ["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| format!("self_attn.{name}"));
    let expert = |e: usize| ["w1", "w2", "w3"].map(|name| format!("block_sparse_moe.experts.{e}.{name}"));
    let modules: Vec<String> = attention.into_iter().chain((0..8).flat_map(expert)).collect();
    let tensors =
        (0..2).flat_map(|layer| modules.iter().map(move |module| format!("model.layers.{layer}.{module}.weight")));
    let tensors: Vec<String> = tensors.collect();
    let tensors: Vec<&str> = tensors.iter().map(String::as_str).collect();
    changed(&folder.path().join("model"), &tensors, 1, divided);
    let dump = golden.join("dump.safetensors").display().to_string();
    let ran = parity(folder.path(), &["diagnose", "model", &dump]);
    assert_eq!(ran.code, Some(1), "{ran}");
    let want = "mistake      scales_misread (the scales of every quantized weight divide instead of multiply)";
    assert!(ran.stdout.contains(want) && ran.stdout.contains("nothing is left unexplained"), "{ran}");
}
