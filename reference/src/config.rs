//! The configuration of a model, from the hub's `config.json`.

use serde_json::{Map, Value};

/// A `config.json` that cannot be used, with every reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("config: {}", problems.join("; "))]
pub struct ConfigError {
    /// Each names a field, what it is and what was expected.
    pub problems: Vec<String>,
}

/// MiniMax-M2, M2.1, M2.5 and M2.7.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// V.
    pub vocab_size: usize,
    /// H.
    pub hidden_size: usize,
    /// I, of one expert.
    pub intermediate_size: usize,
    /// L.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    pub num_key_value_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Channels of a head that rotate.
    pub rotary_dim: usize,
    /// θ.
    pub rope_theta: f64,
    /// ε.
    pub rms_norm_eps: f64,
    /// E.
    pub num_local_experts: usize,
    /// k.
    pub num_experts_per_tok: usize,
    /// Positions go below this.
    pub max_position_embeddings: usize,
    /// Whether the head is the embedding.
    pub tie_word_embeddings: bool,
    /// Tokens that end a text.
    pub eos_token_id: Vec<u32>,
}

impl Config {
    /// Reads the text of a `config.json`; all problems are reported together, and nothing is defaulted that changes
    /// the model.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let fields = match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(ConfigError { problems: vec!["expected a JSON object".into()] }),
            Err(error) => return Err(ConfigError { problems: vec![format!("not JSON: {error}")] }),
        };
        let mut read = Reader { fields: &fields, problems: Vec::new() };
        let config = read.m2();
        read.check(&config);
        if read.problems.is_empty() { Ok(config) } else { Err(ConfigError { problems: read.problems }) }
    }

    /// Width of all query heads.
    pub fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Width of all key heads, and of all value heads.
    pub fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

struct Reader<'a> {
    fields: &'a Map<String, Value>,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn m2(&mut self) -> Config {
        self.word("model_type", &["minimax_m2"]);
        let head_dim = self.size("head_dim");
        Config {
            vocab_size: self.size("vocab_size"),
            hidden_size: self.size("hidden_size"),
            intermediate_size: self.size("intermediate_size"),
            num_hidden_layers: self.size("num_hidden_layers"),
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
        }
    }

    /// SPEC B3, and what this model has no equation for.
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
        self.word("qk_norm_type", &["per_layer"]);
        self.word("hidden_act", &["silu"]);
        self.only("use_qk_norm", &Value::Bool(true), "true");
        self.only("use_routing_bias", &Value::Bool(true), "true");
        self.only("shared_intermediate_size", &Value::from(0), "0: M2 has no shared expert");
        let softmax = |v: &Value| v.as_array().is_some_and(|v| v.iter().all(|v| *v == 1));
        let layers = self.fields.get("attn_type_list");
        self.require(layers.is_none_or(softmax), || "attn_type_list, expected 1 (softmax attention) everywhere".into());
        self.require(self.fields.get("quantization_config").is_none_or(Value::is_null), || {
            "quantization_config: quantized weights are not read; expected BF16, F16 or F32 tensors".into()
        });
        let rope_type = self.fields.get("rope_parameters").and_then(|p| p.get("rope_type"));
        self.require(rope_type.is_none_or(|t| t == "default"), || {
            format!("rope_type = {}, expected default", rope_type.unwrap_or(&Value::Null))
        });
        self.only("rope_scaling", &Value::Null, "null");
    }

    fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    /// `instead`, and a problem.
    fn missing<T>(&mut self, field: &str, instead: T) -> T {
        self.problems.push(format!("{field} is missing"));
        instead
    }

    /// A positive integer that must be there.
    fn size(&mut self, field: &str) -> usize {
        if self.fields.contains_key(field) { self.size_if_any(field).unwrap_or(1) } else { self.missing(field, 1) }
    }

    /// A positive integer, if there is one.
    fn size_if_any(&mut self, field: &str) -> Option<usize> {
        let value = self.fields.get(field)?;
        let n = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=1 << 32).contains(n));
        self.require(n.is_some(), || format!("{field} = {value}, expected a positive integer"));
        n
    }

    /// A number, if there is one.
    fn number(&mut self, field: &str) -> Option<f64> {
        let value = self.fields.get(field)?;
        self.require(value.is_number(), || format!("{field} = {value}, expected a number"));
        value.as_f64().or(Some(1.0))
    }

    /// True or false; false if absent.
    fn flag(&mut self, field: &str) -> bool {
        let Some(value) = self.fields.get(field) else { return false };
        self.require(value.is_boolean(), || format!("{field} = {value}, expected true or false"));
        value == true
    }

    /// A field that stands at the top in the hub's files, and in `rope_parameters` in newer ones.
    fn rope(&mut self, field: &str) -> Option<f64> {
        let nested = self.fields.get("rope_parameters").and_then(|p| p.get(field)).and_then(Value::as_f64);
        self.number(field).or(nested)
    }

    /// At the top, in `rope_parameters`, or in both if they agree.
    fn rope_theta(&mut self) -> f64 {
        let nested = self.fields.get("rope_parameters").and_then(|p| p.get("rope_theta")).and_then(Value::as_f64);
        let Some(theta) = self.rope("rope_theta") else { return self.missing("rope_theta", 1.0) };
        self.require(nested.is_none_or(|nested| nested == theta), || {
            format!("rope_theta = {theta}, but rope_parameters.rope_theta = {}: expected equal", nested.unwrap_or(0.0))
        });
        theta
    }

    /// Given as such, as a share of `head_dim`, or both if they agree. Neither would rotate all channels in some
    /// engines and none in others, so it is refused.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "truncated as transformers does")]
    fn rotary_dim(&mut self, head_dim: usize) -> usize {
        let given = self.size_if_any("rotary_dim");
        let share = self.rope("partial_rotary_factor").map(|factor| (head_dim as f64 * factor) as usize);
        match (given, share) {
            (Some(given), Some(share)) if given != share => {
                self.problems.push(format!(
                    "rotary_dim = {given}, but head_dim · partial_rotary_factor = {share}: expected equal"
                ));
                given
            }
            (Some(n), _) | (None, Some(n)) => n,
            (None, None) if self.fields.contains_key("rotary_dim") => 2,
            (None, None) => {
                self.problems.push("rotary_dim and partial_rotary_factor are both missing".into());
                head_dim
            }
        }
    }

    /// A field that may be absent, but must say what this model computes if it is there.
    fn word(&mut self, field: &str, supported: &[&str]) {
        let found = self.fields.get(field).cloned();
        let known = found.as_ref().is_none_or(|v| v.as_str().is_some_and(|v| supported.contains(&v)));
        self.require(known, || format!("{field} = {}, expected {}", found.unwrap_or_default(), supported.join(" or ")));
    }

    /// A field that may be absent, but must have this value if it is there.
    fn only(&mut self, field: &str, value: &Value, expected: &str) {
        let found = self.fields.get(field).unwrap_or(value);
        self.require(found == value, || format!("{field} = {found}, expected {expected}"));
    }

    /// A token, a list of tokens, or nothing.
    fn tokens(&mut self, field: &str) -> Vec<u32> {
        let token = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let found = self.fields.get(field).unwrap_or(&Value::Null);
        let tokens = match found {
            Value::Null => Some(Vec::new()),
            Value::Array(tokens) => tokens.iter().map(token).collect(),
            value => token(value).map(|token| vec![token]),
        };
        self.require(tokens.is_some(), || format!("{field} = {found}, expected a token or a list of tokens"));
        tokens.unwrap_or_default()
    }
}
