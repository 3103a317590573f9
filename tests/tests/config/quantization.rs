//! `reference/src/config/quantization.rs`.

use reference::config::{Config, Quantization};
use serde_json::{Value, json};

use super::json;

fn read(quantization: &Value) -> Result<Config, Vec<String>> {
    let text = json(&[("quantization_config", &quantization.to_string())]);
    Config::from_json(&text).map_err(|error| error.problems)
}

/// As M2.7 and M3 say it (spec B, C4).
#[test]
fn the_released_schemes() {
    let fp8 = json!({
        "activation_scheme": "dynamic", "fmt": "float8_e4m3fn", "quant_method": "fp8", "weight_block_size": [128, 128],
        "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]
    });
    let fp8 = read(&fp8).expect("as released").quantization.expect("it is quantized");
    assert_eq!((fp8.block, fp8.powers), ((128, 128), false));
    let mxfp8 = json!({
        "activation_scheme": "dynamic", "quant_method": "mxfp8", "weight_block_size": [1, 32],
        "ignored_layers": ["lm_head", "model.embed_tokens", "vision_tower", "layers.3.block_sparse_moe.gate"]
    });
    let mxfp8 = read(&mxfp8).expect("as released").quantization.expect("it is quantized");
    assert_eq!((mxfp8.block, mxfp8.powers), ((1, 32), true));
    for (how, tensor, excluded) in [
        (&fp8, "model.layers.0.block_sparse_moe.gate.weight", true),
        (&fp8, "model.layers.0.block_sparse_moe.e_score_correction_bias", true),
        (&fp8, "lm_head.weight", true),
        (&fp8, "model.layers.0.mlp.gate_proj.weight", false),
        (&fp8, "model.layers.0.self_attn.q_proj.weight", false),
        (&mxfp8, "language_model.model.embed_tokens.weight", true),
        (&mxfp8, "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", true),
        (&mxfp8, "language_model.model.layers.3.block_sparse_moe.gate.weight", true),
        (&mxfp8, "language_model.model.layers.3.block_sparse_moe.experts.0.w1.weight", false),
        (&mxfp8, "language_model.model.layers.3.self_attn.index_q_proj.weight", false),
    ] {
        assert_eq!(how.excludes(tensor), excluded, "{tensor}");
    }
}

#[test]
fn what_is_written_is_read() {
    for scheme in ["fp8", "mxfp8"] {
        let released = Quantization::released(scheme).expect("a scheme");
        assert_eq!(read(&released.to_json()).expect("as written").quantization, Some(released));
    }
    assert_eq!(Quantization::released("awq"), None);
    assert_eq!(read(&Value::Null).expect("none").quantization, None);
}

#[test]
fn problems_are_told() {
    for (quantization, want) in [
        (json!("fp8"), "quantization_config = \"fp8\", expected an object"),
        (json!({}), "quantization_config.quant_method = null, expected fp8 or mxfp8"),
        (json!({"quant_method": "awq"}), "quantization_config.quant_method = \"awq\", expected fp8 or mxfp8"),
        (
            json!({"quant_method": "fp8", "activation_scheme": "static"}),
            "quantization_config.activation_scheme = \"static\", expected dynamic",
        ),
        (
            json!({"quant_method": "fp8", "fmt": "float8_e5m2"}),
            "quantization_config.fmt = \"float8_e5m2\", expected float8_e4m3fn or e4m3",
        ),
        (
            json!({"quant_method": "fp8", "weight_block_size": [128]}),
            "quantization_config.weight_block_size = [128], expected [rows, columns]",
        ),
        (
            json!({"quant_method": "fp8", "weight_block_size": [0, 128]}),
            "quantization_config.weight_block_size = [0,128], expected [rows, columns]",
        ),
        (
            json!({"quant_method": "fp8", "modules_to_not_convert": "gate"}),
            "quantization_config.modules_to_not_convert = \"gate\", expected a list of modules",
        ),
    ] {
        assert_eq!(read(&quantization).expect_err("a bad scheme"), [want]);
    }
}
