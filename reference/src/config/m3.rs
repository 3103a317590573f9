//! The fields of M3's text model.

use serde_json::{Map, Value};

use super::reader::Reader;
use super::{Architecture, Attention, Blocks, Coefficients, Config, FeedForward, Index, Layer};
use crate::semantics::{MtpTopology, NormWeight, QkNorm};

/// M3, whose text model is a part of it.
pub const M3: Architecture = Architecture {
    model_type: "minimax_m3_vl",
    hub_prefix: "language_model.",
    module_prefix: "model.language_model.",
    bias_module: "mlp.gate.",
    blind: "its checkpoint has no tensor of a vision tower",
    mtp: MtpTopology::VllmM3,
    mtp_modules: 7,
};

/// M3's text model alone.
pub const M3_TEXT: Architecture = Architecture {
    model_type: "minimax_m3_vl_text",
    hub_prefix: "",
    module_prefix: "model.",
    bias_module: "mlp.gate.",
    blind: "this is M3's text model alone",
    mtp: MtpTopology::VllmM3,
    mtp_modules: 7,
};

/// What is taken where SwiGLU-OAI's coefficients are absent (SPEC B3).
const RELEASED: Coefficients = Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 };

impl Reader<'_> {
    /// M3, whose text model is an object of its own, beside its vision tower.
    pub(super) fn m3(&mut self) -> Config {
        let empty = Map::new();
        let text = self.object("text_config");
        self.require(text.is_some(), || "text_config is missing".into());
        let mut read = Reader::new(text.unwrap_or(&empty));
        let mut config = read.m3_text(M3);
        if text.is_some() {
            self.add("text_config", read);
        }
        config.quantization = self.quantization().or(config.quantization);
        config.vision = self.vision();
        config.tie_word_embeddings |= self.flag("tie_word_embeddings");
        if config.eos_token_id.is_empty() {
            config.eos_token_id = self.tokens("eos_token_id");
        }
        config
    }

    /// The text model.
    pub(super) fn m3_text(&mut self, architecture: Architecture) -> Config {
        let common = self.common();
        self.word("qk_norm_type", &["per_head"]);
        self.word("hidden_act", &["swigluoai", "silu"]);
        self.only("use_gemma_norm", &Value::Bool(true), "true");
        self.only("attention_output_gate", &Value::Bool(false), "false");
        self.only("n_shared_experts", &Value::from(1), "1");
        let coefficient = |read: &mut Self, field, absent| match read.value(field) {
            Some(_) => read.number(field).unwrap_or(absent),
            None => absent,
        };
        let oai = Coefficients {
            alpha: coefficient(self, "swiglu_alpha", RELEASED.alpha),
            limit: coefficient(self, "swiglu_limit", RELEASED.limit),
            beta: coefficient(self, "swiglu_beta", RELEASED.beta),
        };
        self.require(oai.limit > 0.0, || format!("swiglu_limit = {}, expected above 0", oai.limit));
        let count = common.num_hidden_layers;
        let sparse = self.attention_layers(count);
        let experts = self.layers_of("moe_layer_freq", count, &freq);
        let named = self.layers_of("mlp_layer_types", count, &|v| word(v, "sparse", "dense"));
        let experts = self.agreed(["moe_layer_freq", "mlp_layer_types"], [experts, named]);
        let experts = experts.unwrap_or_else(|| vec![true; count]);
        let layers = sparse.iter().zip(&experts).map(|(&sparse, &experts)| Layer {
            attention: if sparse { Attention::BlockSparse } else { Attention::Full },
            feed_forward: if experts { FeedForward::Experts } else { FeedForward::Dense },
        });
        let layers: Vec<Layer> = layers.collect();
        let choices = common.num_key_value_heads;
        let index = if sparse.contains(&true) { Some(self.index(&sparse, choices)) } else { None };
        let (rotary, dim) = (common.rotary_dim, index.map_or(common.head_dim, |index| index.head_dim));
        self.require(rotary <= dim, || {
            format!("index heads have {dim} channels, expected at least rotary_dim = {rotary}")
        });
        let has = |kind| layers.iter().any(|layer| layer.feed_forward == kind);
        Config {
            architecture,
            norm_weight: NormWeight::OnePlus,
            qk_norm: QkNorm::PerHead,
            swiglu_oai: Some(oai),
            dense_intermediate_size: if has(FeedForward::Dense) { self.size("dense_intermediate_size") } else { 0 },
            shared_intermediate_size: self.size("shared_intermediate_size"),
            routed_scaling_factor: match self.number("routed_scaling_factor") {
                Some(factor) => factor,
                None => self.missing("routed_scaling_factor", 1.0),
            },
            index,
            layers,
            num_mtp_modules: self.mtp_modules(&architecture),
            ..common
        }
    }

    /// Which layers are block-sparse: none where no field says so.
    fn attention_layers(&mut self, count: usize) -> Vec<bool> {
        let named = self.layers_of("layer_types", count, &|v| word(v, "minimax_m3_sparse", "full_attention"));
        let mut given = None;
        if let Some(inside) = self.object("sparse_attention_config") {
            let mut read = Reader::new(inside);
            let used = read.value("use_sparse_attention") != Some(&Value::Bool(false));
            given = read.layers_of("sparse_attention_freq", count, &freq);
            given = given.map(|sparse| sparse.into_iter().map(|sparse| sparse && used).collect());
            read.only("sparse_score_type", &Value::from("max"), "max");
            self.add("sparse_attention_config", read);
        }
        let fields = ["sparse_attention_config.sparse_attention_freq", "layer_types"];
        self.agreed(fields, [given, named]).unwrap_or_else(|| vec![false; count])
    }

    /// The index branch, from the hub's object or from transformers' own fields.
    fn index(&mut self, sparse: &[bool], choices: usize) -> Index {
        let Some(inside) = self.object("sparse_attention_config") else {
            let blocks = Blocks {
                size: self.size("index_block_size"),
                top_k: self.size("index_topk_blocks"),
                local: self.count("index_local_blocks"),
                init: 0,
            };
            let (heads, head_dim) = (self.size("index_n_heads"), self.size("index_head_dim"));
            return Index { heads, head_dim, choices, blocks };
        };
        let mut read = Reader::new(inside);
        let blocks = Blocks {
            size: read.size("sparse_block_size"),
            top_k: read.size("sparse_topk_blocks"),
            local: read.count("sparse_local_block"),
            init: if read.value("sparse_init_block").is_some() { read.count("sparse_init_block") } else { 0 },
        };
        let (heads, head_dim) = (read.size("sparse_num_index_heads"), read.size("sparse_index_dim"));
        let values = read.layers_of("sparse_disable_index_value", sparse.len(), &freq);
        let no_values = values.is_none_or(|off| off.iter().zip(sparse).all(|(off, sparse)| *off || !sparse));
        read.require(no_values, || "sparse_disable_index_value, expected 1 in every block-sparse layer".into());
        self.add("sparse_attention_config", read);
        Index { heads, head_dim, choices, blocks }
    }

    /// A list of one entry a layer, if there is one.
    fn layers_of(&mut self, field: &str, count: usize, entry: &dyn Fn(&Value) -> Option<bool>) -> Option<Vec<bool>> {
        let value = self.value(field)?;
        let entries: Option<Vec<bool>> = value.as_array().and_then(|list| list.iter().map(entry).collect());
        let Some(entries) = entries else {
            self.require(false, || format!("{field} = {value}, expected a list of one kind a layer"));
            return None;
        };
        let fits = entries.len() == count;
        self.require(fits, || format!("{field} has {} entries, expected num_hidden_layers = {count}", entries.len()));
        fits.then_some(entries)
    }

    /// What two fields that say the same thing say.
    fn agreed(&mut self, fields: [&str; 2], said: [Option<Vec<bool>>; 2]) -> Option<Vec<bool>> {
        let [one, other] = said;
        if let (Some(one), Some(other)) = (&one, &other)
            && let Some(layer) = one.iter().zip(other).position(|(one, other)| one != other)
        {
            self.require(false, || {
                format!("{} and {} disagree on layer {layer}, expected the same", fields[0], fields[1])
            });
        }
        one.or(other)
    }
}

/// 0 or 1.
fn freq(value: &Value) -> Option<bool> {
    match value.as_u64() {
        Some(0) => Some(false),
        Some(1) => Some(true),
        _ => None,
    }
}

/// One of two words.
fn word(value: &Value, yes: &str, no: &str) -> Option<bool> {
    let found = value.as_str()?;
    if found == yes { Some(true) } else { (found == no).then_some(false) }
}
