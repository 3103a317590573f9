//! The fields of M2, and those that all families have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::reader::Reader;
use super::sizes::{MOST_ELEMENTS, MOST_EXPERTS, MOST_LAYERS, elements};
use super::{Architecture, Config};
use crate::semantics::{MtpTopology, NormWeight, QkNorm};

/// M2, M2.1, M2.5 and M2.7.
pub const M2: Architecture = Architecture {
    model_type: "minimax_m2",
    hub_prefix: "",
    module_prefix: "model.",
    bias_module: "mlp.",
    blind: "M2 reads text alone",
    mtp: MtpTopology::Doc000,
    mtp_modules: 3,
};

impl Reader<'_> {
    /// M2, M2.1, M2.5 and M2.7.
    pub(super) fn m2(&mut self) -> Config {
        let config = Config { num_mtp_modules: self.mtp_modules(&M2), ..self.common() };
        self.word("qk_norm_type", &["per_layer"]);
        self.word("hidden_act", &["silu"]);
        self.only("shared_intermediate_size", &Value::from(0), "0: M2 has no shared expert");
        let softmax = |v: &Value| v.as_array().is_some_and(|v| v.iter().all(|v| *v == 1));
        let layers = self.value("attn_type_list");
        self.require(layers.is_none_or(softmax), || "attn_type_list, expected 1 (softmax attention) everywhere".into());
        config
    }

    /// What all families have, the rest as in M2.
    pub(super) fn common(&mut self) -> Config {
        let head_dim = self.size("head_dim");
        let config = Config {
            architecture: M2,
            vocab_size: self.size("vocab_size"),
            hidden_size: self.size("hidden_size"),
            intermediate_size: self.size("intermediate_size"),
            num_hidden_layers: self.size_up_to("num_hidden_layers", MOST_LAYERS),
            num_attention_heads: self.size("num_attention_heads"),
            num_key_value_heads: self.size("num_key_value_heads"),
            head_dim,
            rotary_dim: self.rotary_dim(head_dim),
            rope_theta: self.rope_theta(),
            rms_norm_eps: self.number("rms_norm_eps").unwrap_or_else(|| self.missing("rms_norm_eps", 1.0)),
            num_local_experts: self.size("num_local_experts"),
            num_experts_per_tok: self.size("num_experts_per_tok"),
            max_position_embeddings: self.size("max_position_embeddings"),
            tie_word_embeddings: self.flag("tie_word_embeddings"),
            eos_token_id: self.tokens("eos_token_id"),
            norm_weight: NormWeight::Plain,
            qk_norm: QkNorm::FullProjection,
            swiglu_oai: None,
            layers: Vec::new(),
            dense_intermediate_size: 0,
            shared_intermediate_size: 0,
            routed_scaling_factor: 1.0,
            index: None,
            vision: None,
            num_mtp_modules: 0,
            choosing: BTreeMap::new(),
            module: None,
            quantization: self.quantization(),
        };
        self.check(&config);
        config
    }

    /// SPEC B3, and what no family has an equation for.
    fn check(&mut self, c: &Config) {
        let heads = (c.num_attention_heads, c.num_key_value_heads);
        self.require(heads.0.is_multiple_of(heads.1.max(1)), || {
            format!("num_attention_heads = {}, expected a multiple of num_key_value_heads = {}", heads.0, heads.1)
        });
        self.require(c.rotary_dim.is_multiple_of(2) && (2..=c.head_dim).contains(&c.rotary_dim), || {
            format!("rotary_dim = {}, expected an even number up to head_dim = {}", c.rotary_dim, c.head_dim)
        });
        self.require(c.num_experts_per_tok <= c.num_local_experts, || {
            format!("num_experts_per_tok = {}, expected at most {}", c.num_experts_per_tok, c.num_local_experts)
        });
        self.require(c.rope_theta > 0.0, || format!("rope_theta = {}, expected above 0", c.rope_theta));
        self.require(c.rms_norm_eps > 0.0, || format!("rms_norm_eps = {}, expected above 0", c.rms_norm_eps));
        self.word("scoring_func", &["sigmoid"]);
        self.only("use_qk_norm", &Value::Bool(true), "true");
        self.only("use_routing_bias", &Value::Bool(true), "true");
        let rope_type = self.value("rope_parameters").and_then(|p| p.get("rope_type"));
        self.require(rope_type.is_none_or(|t| t == "default"), || {
            format!("rope_type = {}, expected default", rope_type.unwrap_or(&Value::Null))
        });
        self.only("rope_scaling", &Value::Null, "null");
        self.only("sliding_window", &Value::Null, "null: every token attends to all before it");
        self.fits(c);
    }

    /// What no machine could hold is refused before anything is made as large.
    fn fits(&mut self, c: &Config) {
        let [layers, experts] = [c.num_hidden_layers, c.num_local_experts];
        if layers.saturating_mul(experts) > MOST_EXPERTS {
            return self.require(false, || {
                format!("{layers} layers of {experts} experts, expected at most {MOST_EXPERTS} experts in all")
            });
        }
        let products = [
            ("vocab_size · hidden_size", [c.vocab_size, c.hidden_size, 1]),
            ("num_attention_heads · head_dim · hidden_size", [c.num_attention_heads, c.head_dim, c.hidden_size]),
            ("num_local_experts · intermediate_size · hidden_size", [experts, c.intermediate_size, c.hidden_size]),
        ];
        for (what, sizes) in products {
            self.require(elements(&sizes) <= MOST_ELEMENTS, || {
                format!("{what} = {}, expected at most 2^48", elements(&sizes))
            });
        }
    }
}
