//! A contract's fields by name.

use super::RoundingContract;
use crate::error::ParseError;
use crate::words::{of_field, word};

/// Ranks at most.
const MOST_RANKS: usize = 64;

impl RoundingContract {
    /// Names and values of the fields that can be overridden.
    pub fn fields(&self) -> [(&'static str, String); 24] {
        [
            ("activations", self.activations.to_string()),
            ("accumulator", self.accumulator.to_string()),
            ("reduction", self.reduction.to_string()),
            ("stream", self.stream.to_string()),
            ("weights", self.weights.to_string()),
            ("one_plus", self.one_plus.to_string()),
            ("operands", self.operands.to_string()),
            ("inputs", self.inputs.to_string()),
            ("autocast", self.autocast.to_string()),
            ("convolutions", self.convolutions.to_string()),
            ("kv_cache", self.kv_cache.to_string()),
            ("rms", self.rms.to_string()),
            ("qk_rms", self.qk_rms.to_string()),
            ("qk_norm", self.qk_norm.to_string()),
            ("rope", self.rope.to_string()),
            ("attention", self.attention.to_string()),
            ("gate", self.gate.to_string()),
            ("routing", self.routing.to_string()),
            ("swiglu", self.swiglu.to_string()),
            ("experts", self.experts.to_string()),
            ("norm_input", self.norm_input.to_string()),
            ("ranks", self.ranks.to_string()),
            ("sharded", self.sharded.to_string()),
            ("saved", self.saved.to_string()),
        ]
    }

    /// The same contract with another value of one field.
    pub fn with(mut self, field: &str, value: &str) -> Result<Self, ParseError> {
        match field {
            "activations" => self.activations = of_field(field, value)?,
            "accumulator" => self.accumulator = value.parse()?,
            "reduction" => self.reduction = word(field, value)?,
            "stream" => self.stream = of_field(field, value)?,
            "weights" => self.weights = word(field, value)?,
            "one_plus" => self.one_plus = word(field, value)?,
            "operands" => self.operands = of_field(field, value)?,
            "inputs" => self.inputs = word(field, value)?,
            "autocast" => self.autocast = word(field, value)?,
            "convolutions" => self.convolutions = of_field(field, value)?,
            "kv_cache" => self.kv_cache = of_field(field, value)?,
            "rms" => self.rms = word(field, value)?,
            "qk_rms" => self.qk_rms = word(field, value)?,
            "qk_norm" => self.qk_norm = word(field, value)?,
            "rope" => self.rope = word(field, value)?,
            "attention" => self.attention = word(field, value)?,
            "gate" => self.gate = word(field, value)?,
            "routing" => self.routing = word(field, value)?,
            "swiglu" => self.swiglu = word(field, value)?,
            "experts" => self.experts = word(field, value)?,
            "norm_input" => self.norm_input = word(field, value)?,
            "ranks" => self.ranks = ranks(value)?,
            "sharded" => self.sharded = word(field, value)?,
            "saved" => self.saved = of_field(field, value)?,
            _ => {
                let names = self.fields().map(|(name, _)| name).join(", ");
                return Err(ParseError::new("precision field", field, format!("one of {names}")));
            }
        }
        Ok(self)
    }
}

/// A number of ranks.
fn ranks(text: &str) -> Result<usize, ParseError> {
    let count = text.parse().ok().filter(|count: &usize| (1..=MOST_RANKS).contains(count));
    count.ok_or_else(|| ParseError::new("ranks", text, format!("a number from 1 to {MOST_RANKS}")))
}
