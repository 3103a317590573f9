//! `reference/src/config.rs`: SPEC B1, and the rules of B3 that touch M2; those of M3 are in `m3`.

use std::collections::BTreeMap;

use reference::config::Config;
use reference::config::m2::M2;
use reference::semantics::{NormWeight, QkNorm};

pub(crate) mod m3;
mod quantization;

/// M2.7's own, as far as it says what the model computes, without its quantization.
const RELEASED: &[(&str, &str)] = &[
    ("model_type", "\"minimax_m2\""),
    ("vocab_size", "200064"),
    ("hidden_size", "3072"),
    ("intermediate_size", "1536"),
    ("num_hidden_layers", "62"),
    ("num_attention_heads", "48"),
    ("num_key_value_heads", "8"),
    ("head_dim", "128"),
    ("rotary_dim", "64"),
    ("rope_theta", "5000000"),
    ("rms_norm_eps", "1e-06"),
    ("num_local_experts", "256"),
    ("num_experts_per_tok", "8"),
    ("max_position_embeddings", "204800"),
    ("tie_word_embeddings", "false"),
    ("attn_type_list", "[1, 1, 1]"),
    ("hidden_act", "\"silu\""),
    ("scoring_func", "\"sigmoid\""),
    ("qk_norm_type", "\"per_layer\""),
    ("use_qk_norm", "true"),
    ("use_routing_bias", "true"),
    ("use_mtp", "true"),
    ("shared_intermediate_size", "0"),
    ("eos_token_id", "200020"),
];

/// The released file with some fields changed, or, where the value is empty, left out.
fn json(changes: &[(&str, &str)]) -> String {
    let kept = RELEASED.iter().filter(|(field, _)| changes.iter().all(|(changed, _)| changed != field));
    let fields = kept.chain(changes.iter().filter(|(_, value)| !value.is_empty()));
    let fields: Vec<String> = fields.map(|(field, value)| format!("\"{field}\": {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}

pub(crate) fn read(changes: &[(&str, &str)]) -> Config {
    Config::from_json(&json(changes)).expect("a good config")
}

fn problems(changes: &[(&str, &str)]) -> Vec<String> {
    Config::from_json(&json(changes)).expect_err("a bad config").problems
}

#[test]
fn the_released_config() {
    let config = read(&[]);
    let want = Config {
        architecture: M2,
        vocab_size: 200_064,
        hidden_size: 3072,
        intermediate_size: 1536,
        num_hidden_layers: 62,
        num_attention_heads: 48,
        num_key_value_heads: 8,
        head_dim: 128,
        rotary_dim: 64,
        rope_theta: 5e6,
        rms_norm_eps: 1e-6,
        num_local_experts: 256,
        num_experts_per_tok: 8,
        max_position_embeddings: 204_800,
        tie_word_embeddings: false,
        eos_token_id: vec![200_020],
        norm_weight: NormWeight::Plain,
        qk_norm: QkNorm::FullProjection,
        swiglu_oai: None,
        layers: Vec::new(),
        dense_intermediate_size: 0,
        shared_intermediate_size: 0,
        routed_scaling_factor: 1.0,
        index: None,
        vision: None,
        num_mtp_modules: 3,
        choosing: BTreeMap::new(),
        module: None,
        quantization: None,
    };
    assert_eq!(config, want);
    assert_eq!((config.query_width(), config.key_width()), (6144, 1024));
}

#[test]
fn what_may_be_absent() {
    let absent: Vec<(&str, &str)> = RELEASED[14..].iter().map(|(field, _)| (*field, "")).collect();
    let config = read(&absent);
    assert_eq!((config.tie_word_embeddings, config.eos_token_id.len()), (false, 0));
    assert_eq!(Config { eos_token_id: vec![200_020], ..config }, read(&[]));
    assert_eq!(read(&[("model_type", "")]), read(&[]));
}

/// Modules of multi-token prediction are announced, whether or not there are any.
#[test]
fn modules_that_are_announced() {
    let modules = |changes: &[(&str, &str)]| read(changes).num_mtp_modules;
    assert_eq!(modules(&[("num_mtp_modules", "5")]), 5);
    assert_eq!(modules(&[("num_mtp_modules", "null")]), 3);
    assert_eq!(modules(&[("num_mtp_modules", "5"), ("use_mtp", "false")]), 0);
    let refused = |value: &str| problems(&[("num_mtp_modules", value)]);
    assert_eq!(refused("-1"), ["num_mtp_modules = -1, expected a whole number"]);
    assert_eq!(refused("999999"), ["num_mtp_modules = 999999, expected at most 4096"]);
}

#[test]
fn what_must_be_there() {
    for (field, _) in RELEASED[1..14].iter().filter(|(field, _)| *field != "rotary_dim") {
        assert_eq!(problems(&[(field, "")])[0], format!("{field} is missing"));
    }
    assert_eq!(problems(&[("rotary_dim", "")]), ["rotary_dim and partial_rotary_factor are both missing"]);
}

/// Newer files have the rotation's parameters below `rope_parameters`.
#[test]
fn rope_parameters_may_be_nested() {
    let nested = r#"{"rope_type": "default", "rope_theta": 5000000.0, "partial_rotary_factor": 0.5}"#;
    assert_eq!(read(&[("rope_theta", ""), ("rotary_dim", ""), ("rope_parameters", nested)]), read(&[]));
    assert_eq!(read(&[("rope_parameters", nested)]), read(&[]));
    assert_eq!(read(&[("rotary_dim", ""), ("partial_rotary_factor", "0.5")]), read(&[]));
    assert_eq!(read(&[("tie_word_embeddings", "true"), ("eos_token_id", "[1, 2]")]).eos_token_id, [1, 2]);
    assert!(read(&[("tie_word_embeddings", "true")]).tie_word_embeddings);
}

/// B3, and what this model has no equation for: field, value, problem.
#[test]
fn each_problem_is_named() {
    for (field, value, want) in [
        // B3.1
        ("partial_rotary_factor", "0.25", "rotary_dim = 64, but head_dim · partial_rotary_factor = 32: expected equal"),
        ("rotary_dim", "63", "rotary_dim = 63, expected an even number up to head_dim = 128"),
        ("rotary_dim", "130", "rotary_dim = 130, expected an even number up to head_dim = 128"),
        ("rotary_dim", "64.5", "rotary_dim = 64.5, expected a positive integer"),
        ("rotary_dim", "\"64\"", "rotary_dim = \"64\", expected a positive integer"),
        // B3.2
        ("num_key_value_heads", "7", "num_attention_heads = 48, expected a multiple of num_key_value_heads = 7"),
        // B3.6
        ("scoring_func", "\"softmax\"", "scoring_func = \"softmax\", expected sigmoid"),
        ("qk_norm_type", "\"per_head\"", "qk_norm_type = \"per_head\", expected per_layer"),
        // Other models, or other equations.
        (
            "model_type",
            "\"minimax\"",
            "model_type = \"minimax\", expected minimax_m2 or minimax_m3_vl or minimax_m3_vl_text",
        ),
        ("hidden_act", "\"gelu\"", "hidden_act = \"gelu\", expected silu"),
        ("hidden_act", "3", "hidden_act = 3, expected silu"),
        ("use_qk_norm", "false", "use_qk_norm = false, expected true"),
        ("use_routing_bias", "false", "use_routing_bias = false, expected true"),
        ("shared_intermediate_size", "1536", "shared_intermediate_size = 1536, expected 0: M2 has no shared expert"),
        (
            "shared_intermediate_size",
            "\"1536\"",
            "shared_intermediate_size = \"1536\", expected 0: M2 has no shared expert",
        ),
        ("attn_type_list", "[1, 0]", "attn_type_list, expected 1 (softmax attention) everywhere"),
        ("attn_type_list", "1", "attn_type_list, expected 1 (softmax attention) everywhere"),
        ("rope_scaling", "{}", "rope_scaling = {}, expected null"),
        ("rope_parameters", r#"{"rope_type": "yarn"}"#, "rope_type = \"yarn\", expected default"),
        (
            "rope_parameters",
            r#"{"rope_theta": 10000}"#,
            "rope_theta = 5000000, but rope_parameters.rope_theta = 10000: expected equal",
        ),
        // Numbers that are none, or too small.
        ("vocab_size", "0", "vocab_size = 0, expected a positive integer"),
        ("vocab_size", "-3", "vocab_size = -3, expected a positive integer"),
        ("vocab_size", "2.5", "vocab_size = 2.5, expected a positive integer"),
        ("vocab_size", "null", "vocab_size = null, expected a positive integer"),
        ("hidden_size", "5000000000", "hidden_size = 5000000000, expected a positive integer up to 2147483647"),
        // What no machine could hold.
        ("num_hidden_layers", "1000000000", "num_hidden_layers = 1000000000, expected at most 4096"),
        ("num_local_experts", "1000000000", "62 layers of 1000000000 experts, expected at most 262144 experts in all"),
        (
            "intermediate_size",
            "2000000000",
            "num_local_experts · intermediate_size · hidden_size = 1572864000000000, expected at most 2^48",
        ),
        ("sliding_window", "4096", "sliding_window = 4096, expected null: every token attends to all before it"),
        ("num_experts_per_tok", "257", "num_experts_per_tok = 257, expected at most 256"),
        ("rope_theta", "0", "rope_theta = 0, expected above 0"),
        ("rope_theta", "\"5e6\"", "rope_theta = \"5e6\", expected a number"),
        ("rms_norm_eps", "-1e-6", "rms_norm_eps = -0.000001, expected above 0"),
        ("rms_norm_eps", "\"1e-6\"", "rms_norm_eps = \"1e-6\", expected a number"),
        ("tie_word_embeddings", "\"true\"", "tie_word_embeddings = \"true\", expected true or false"),
        ("eos_token_id", "\"end\"", "eos_token_id = \"end\", expected a token or a list of tokens"),
        ("eos_token_id", "[1, -1]", "eos_token_id = [1,-1], expected a token or a list of tokens"),
    ] {
        assert_eq!(problems(&[(field, value)]), [want], "{field} = {value}");
    }
}

#[test]
fn all_problems_are_reported_together() {
    let err = Config::from_json(&json(&[("hidden_size", ""), ("rotary_dim", "63"), ("scoring_func", "\"softmax\"")]));
    assert_eq!(
        err.expect_err("three problems").to_string(),
        "config: hidden_size is missing; rotary_dim = 63, expected an even number up to head_dim = 128; \
         scoring_func = \"softmax\", expected sigmoid"
    );
    assert!(Config::from_json("{}").expect_err("nothing there").problems.len() >= 13);
}

#[test]
fn what_is_no_object() {
    let err = Config::from_json("[]").expect_err("a list");
    assert_eq!(err.to_string(), "config: expected a JSON object");
    let err = Config::from_json("{").expect_err("cut off").to_string();
    assert!(err.starts_with("config: not JSON: EOF"), "{err}");
}
