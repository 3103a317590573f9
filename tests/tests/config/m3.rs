//! `reference/src/config/m3.rs`: SPEC B2, and the rules of B3 that touch M3.

use reference::config::Blocks;
use reference::config::Coefficients;
use reference::config::Patch;
use reference::config::m3::{M3, M3_TEXT};
use reference::config::{Attention, Config, FeedForward, Index, Layer, Vision};
use reference::semantics::{NormWeight, QkNorm};
use serde_json::{Value, json};

/// A model as the release is, of fewer layers.
const RELEASED: &str = r#"{
    "model_type": "minimax_m3_vl",
    "text_config": {
        "vocab_size": 200064, "hidden_size": 6144, "num_hidden_layers": 5, "num_attention_heads": 64,
        "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 3072, "dense_intermediate_size": 12288,
        "shared_intermediate_size": 3072, "num_local_experts": 128, "num_experts_per_tok": 4,
        "n_shared_experts": 1, "routed_scaling_factor": 2.0, "scoring_func": "sigmoid", "use_routing_bias": true,
        "moe_layer_freq": [0, 0, 0, 1, 1], "max_position_embeddings": 1048576, "rope_theta": 5000000,
        "rotary_dim": 64, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-6, "use_gemma_norm": true,
        "use_qk_norm": true, "qk_norm_type": "per_head", "attention_output_gate": false,
        "hidden_act": "swigluoai", "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "swiglu_beta": 1.0,
        "num_mtp_modules": 7, "tie_word_embeddings": false,
        "sparse_attention_config": {
            "use_sparse_attention": true, "sparse_index_dim": 128, "sparse_num_index_heads": 4,
            "sparse_topk_blocks": 16, "sparse_block_size": 128, "sparse_local_block": 1, "sparse_init_block": 0,
            "sparse_score_type": "max", "sparse_attention_freq": [0, 0, 0, 1, 1],
            "sparse_disable_index_value": [0, 0, 0, 1, 1]
        }
    },
    "vision_config": {
        "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 32, "intermediate_size": 5120,
        "patch_size": 14, "image_size": 2016, "projection_dim": 6144, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
        "num_channels": 3, "position_embedding_type": "rope", "rope_mode": "3d", "rope_theta": 10000,
        "model_type": "clip_vision_model", "vision_segment_max_frames": 4, "vocab_size": 32000,
        "img_token_compression_config": {
            "image_token_compression_method": "patch_merge", "spatial_merge_size": 2, "temporal_patch_size": 2
        }
    },
    "projector_hidden_act": "gelu", "projector_hidden_size": 6144, "multimodal_projector_bias": true,
    "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
    "image_token_index": 200025, "video_token_index": 200026, "eos_token_id": 200020, "tie_word_embeddings": false
}"#;

pub(crate) fn released() -> Value {
    serde_json::from_str(RELEASED).expect("it is JSON")
}

/// What transformers writes for the same text model.
fn own_fields() -> Value {
    let mut text = released()["text_config"].clone();
    let fields = text.as_object_mut().expect("an object");
    for gone in ["sparse_attention_config", "moe_layer_freq", "rotary_dim", "partial_rotary_factor", "rope_theta"] {
        fields.remove(gone);
    }
    let more = json!({
        "model_type": "minimax_m3_vl_text", "hidden_act": "silu", "eos_token_id": 200_020,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
        "mlp_layer_types": ["dense", "dense", "dense", "sparse", "sparse"],
        "layer_types": ["full_attention", "full_attention", "full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
        "index_n_heads": 4, "index_head_dim": 128, "index_block_size": 128, "index_topk_blocks": 16,
        "index_local_blocks": 1
    });
    fields.extend(more.as_object().expect("an object").clone());
    text
}

fn read(json: &Value) -> Config {
    Config::from_json(&json.to_string()).expect("a good config")
}

/// The problems of the released file with one field of an object changed, or left out if null.
fn problems(object: &str, field: &str, value: Value) -> Vec<String> {
    let mut json = released();
    let object = json.pointer_mut(object).and_then(Value::as_object_mut).expect("there");
    match value {
        Value::Null => drop(object.remove(field)),
        value => drop(object.insert(field.into(), value)),
    }
    Config::from_json(&json.to_string()).expect_err("a bad config").problems
}

const TEXT: &str = "/text_config";
const SPARSE: &str = "/text_config/sparse_attention_config";

#[test]
fn the_released_config() {
    let config = read(&released());
    assert_eq!((config.architecture, config.vocab_size, config.head_dim, config.rotary_dim), (M3, 200_064, 128, 64));
    assert_eq!((config.norm_weight, config.qk_norm), (NormWeight::OnePlus, QkNorm::PerHead));
    assert_eq!(config.swiglu_oai, Some(Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 }));
    let blocks = Blocks { size: 128, top_k: 16, local: 1, init: 0 };
    assert_eq!(config.index, Some(Index { heads: 4, head_dim: 128, choices: 4, blocks }));
    let dense = Layer { attention: Attention::Full, feed_forward: FeedForward::Dense };
    let sparse = Layer { attention: Attention::BlockSparse, feed_forward: FeedForward::Experts };
    assert_eq!(config.layers, [dense, dense, dense, sparse, sparse]);
    assert_eq!((config.dense_intermediate_size, config.shared_intermediate_size), (12288, 3072));
    assert_eq!((config.routed_scaling_factor, config.eos_token_id), (2.0, vec![200_020]));
}

#[test]
fn transformers_fields_say_the_same() {
    let config = read(&own_fields());
    let blind = Config { vision: None, ..read(&released()) };
    assert_eq!(config, Config { architecture: M3_TEXT, ..blind.clone() });
    let mut nested = json!({"model_type": "minimax_m3_vl"});
    nested["text_config"] = own_fields();
    assert_eq!(read(&nested), blind);
}

/// B3.4: the release's coefficients where there are none. B3.5: without the fields no layer is block-sparse.
#[test]
fn what_may_be_absent() {
    let mut json = released();
    let text = json["text_config"].as_object_mut().expect("an object");
    for field in ["swiglu_alpha", "swiglu_limit", "swiglu_beta", "sparse_attention_config", "moe_layer_freq"] {
        text.remove(field);
    }
    let config = read(&json);
    assert_eq!(config.swiglu_oai, read(&released()).swiglu_oai);
    assert_eq!((config.index, config.dense_intermediate_size), (None, 0));
    assert!(config.layers.iter().all(|layer| *layer == Layer::default()));
    let mut json = released();
    json["text_config"]["sparse_attention_config"]["use_sparse_attention"] = json!(false);
    assert_eq!(read(&json).index, None);
    json = released();
    json["text_config"]["swiglu_beta"] = json!(0.5);
    assert_eq!(read(&json).swiglu_oai, Some(Coefficients { alpha: 1.702, limit: 7.0, beta: 0.5 }));
}

#[test]
fn each_problem_is_named() {
    for (object, field, value, want) in [
        // B3.3
        (
            TEXT,
            "moe_layer_freq",
            json!([0, 1]),
            "text_config.moe_layer_freq has 2 entries, expected num_hidden_layers = 5",
        ),
        (
            SPARSE,
            "sparse_attention_freq",
            json!([0, 0, 0, 1, 1, 1]),
            "text_config.sparse_attention_config.sparse_attention_freq has 6 entries, expected num_hidden_layers = 5",
        ),
        (
            SPARSE,
            "sparse_attention_freq",
            json!([0, 0, 0, 2, 1]),
            "text_config.sparse_attention_config.sparse_attention_freq = [0,0,0,2,1], expected a list of one kind a layer",
        ),
        (
            TEXT,
            "layer_types",
            json!(["full_attention", "full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "minimax_m3_sparse"]),
            "text_config.sparse_attention_config.sparse_attention_freq and layer_types disagree on layer 2, expected the \
             same",
        ),
        (
            TEXT,
            "mlp_layer_types",
            json!(["dense", "dense", "dense", "dense", "sparse"]),
            "text_config.moe_layer_freq and mlp_layer_types disagree on layer 3, expected the same",
        ),
        // B3.6
        (TEXT, "scoring_func", json!("softmax"), "text_config.scoring_func = \"softmax\", expected sigmoid"),
        (TEXT, "qk_norm_type", json!("per_layer"), "text_config.qk_norm_type = \"per_layer\", expected per_head"),
        // Other equations.
        (TEXT, "use_gemma_norm", json!(false), "text_config.use_gemma_norm = false, expected true"),
        (TEXT, "attention_output_gate", json!(true), "text_config.attention_output_gate = true, expected false"),
        (TEXT, "n_shared_experts", json!(2), "text_config.n_shared_experts = 2, expected 1"),
        (TEXT, "hidden_act", json!("gelu"), "text_config.hidden_act = \"gelu\", expected swigluoai or silu"),
        (TEXT, "swiglu_limit", json!(0), "text_config.swiglu_limit = 0, expected above 0"),
        (TEXT, "swiglu_alpha", json!("x"), "text_config.swiglu_alpha = \"x\", expected a number"),
        (
            SPARSE,
            "sparse_score_type",
            json!("lse"),
            "text_config.sparse_attention_config.sparse_score_type = \"lse\", expected max",
        ),
        (
            SPARSE,
            "sparse_disable_index_value",
            json!([0, 0, 0, 0, 1]),
            "text_config.sparse_attention_config.sparse_disable_index_value, expected 1 in every block-sparse layer",
        ),
        (
            SPARSE,
            "sparse_index_dim",
            json!(32),
            "text_config.index heads have 32 channels, expected at least rotary_dim = 64",
        ),
        // What must be there.
        (TEXT, "routed_scaling_factor", Value::Null, "text_config.routed_scaling_factor is missing"),
        (TEXT, "dense_intermediate_size", Value::Null, "text_config.dense_intermediate_size is missing"),
        (TEXT, "shared_intermediate_size", Value::Null, "text_config.shared_intermediate_size is missing"),
        (SPARSE, "sparse_block_size", Value::Null, "text_config.sparse_attention_config.sparse_block_size is missing"),
        (
            SPARSE,
            "sparse_local_block",
            json!(-1),
            "text_config.sparse_attention_config.sparse_local_block = -1, expected a whole number",
        ),
        ("", "tie_word_embeddings", json!(1), "tie_word_embeddings = 1, expected true or false"),
    ] {
        assert_eq!(problems(object, field, value), [want]);
    }
    assert_eq!(problems("", "text_config", Value::Null), ["text_config is missing"]);
    assert_eq!(
        problems("", "text_config", json!(3)),
        ["text_config = 3, expected an object", "text_config is missing"]
    );
}

/// The released tower; and the same as transformers writes it, its defaults stated or left out.
#[test]
fn the_tower_is_read_in_both_forms() {
    let vision = read(&released()).vision.expect("it sees");
    let patch = Patch { channels: 3, frames: 2, side: 14 };
    let want = Vision {
        hidden_size: 1280,
        intermediate_size: 5120,
        num_hidden_layers: 32,
        num_attention_heads: 16,
        patch,
        spatial_merge_size: 2,
        layer_norm_eps: 1e-5,
        rope_theta: 1e4,
        axes: 3,
        projector_hidden_size: 6144,
        image_token: 200_025,
        video_token: 200_026,
    };
    assert_eq!(vision, want);
    assert_eq!((vision.head_dim(), vision.rotary_dim(), vision.merged(), patch.values()), (80, 78, 4, 1176));
    let sizes = json!({
        "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 32, "intermediate_size": 5120,
        "patch_size": 14
    });
    let mut stated = sizes.clone();
    let more = json!({
        "model_type": "minimax_m3_vl_vision", "hidden_act": "gelu", "layer_norm_eps": 1e-5, "num_channels": 3,
        "temporal_patch_size": 2, "spatial_merge_size": 2, "attention_dropout": 0.0, "image_size": 2016,
        "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0}
    });
    stated.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    for form in [sizes, stated] {
        let mut json = released();
        json["vision_config"] = form;
        json.as_object_mut().expect("an object").remove("image_token_index");
        assert_eq!(read(&json).vision.as_ref(), Some(&want));
    }
}

#[test]
fn a_model_without_a_tower_does_not_see() {
    let mut json = released();
    json.as_object_mut().expect("an object").remove("vision_config");
    assert_eq!(read(&json).vision, None);
    assert_eq!(read(&own_fields()).vision, None);
}

#[test]
fn a_tower_that_is_computed_otherwise_is_refused() {
    let tower = |field, value| problems("/vision_config", field, value);
    assert_eq!(tower("hidden_act", json!("gelu_new")), ["vision_config.hidden_act = \"gelu_new\", expected gelu"]);
    assert_eq!(tower("patch_size", Value::Null), ["vision_config.patch_size is missing"]);
    let disagree = "vision_config.spatial_merge_size = 4, but img_token_compression_config.spatial_merge_size = 2: \
                    expected equal";
    assert_eq!(tower("spatial_merge_size", json!(4)), [disagree]);
    let heads =
        "vision_config.hidden_size = 1280, expected a multiple of num_attention_heads = 17, six or more times it";
    assert_eq!(tower("num_attention_heads", json!(17)), [heads]);
    assert_eq!(
        tower("rope_parameters", json!({"rope_type": "default"})),
        ["vision_config.rope_type = \"default\", expected axial"]
    );
    let top = |field, value| problems("", field, value);
    assert_eq!(top("vision_feature_layer", json!(-2)), ["vision_feature_layer = -2, expected -1: the last layer"]);
    assert_eq!(top("projector_hidden_size", Value::Null), ["projector_hidden_size is missing"]);
    let same = "image_token_index and video_token_index are both 200026, expected two tokens";
    assert_eq!(top("image_token_index", json!(200_026)), [same]);
}
