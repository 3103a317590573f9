//! Fields of a `config.json`, and what is wrong with them.

use serde_json::{Map, Value};

/// A `config.json` that cannot be used, with every reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("config: {}", problems.join("; "))]
pub struct ConfigError {
    /// Each names a field, what it is and what was expected.
    pub problems: Vec<String>,
}

/// Sizes go up to here, so that the product of any two is far from what an integer holds.
const LARGEST: usize = i32::MAX as usize;

/// An object of a `config.json` that is being read.
pub(super) struct Reader<'a> {
    fields: &'a Map<String, Value>,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(fields: &'a Map<String, Value>) -> Self {
        Reader { fields, problems: Vec::new() }
    }

    /// What was read, unless there are problems.
    pub(super) fn finish<T>(self, read: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() { Ok(read) } else { Err(ConfigError { problems: self.problems }) }
    }

    /// A field, if it is there and not null.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A field that is an object, if there is one.
    pub(super) fn object(&mut self, field: &str) -> Option<&'a Map<String, Value>> {
        let value = self.value(field)?;
        self.require(value.is_object(), || format!("{field} = {value}, expected an object"));
        value.as_object()
    }

    /// Takes over what is wrong with an object of this one.
    pub(super) fn add(&mut self, inside: &str, other: Reader<'_>) {
        self.problems.extend(other.problems.into_iter().map(|problem| format!("{inside}.{problem}")));
    }

    pub(super) fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    /// `instead`, and a problem.
    pub(super) fn missing<T>(&mut self, field: &str, instead: T) -> T {
        self.problems.push(format!("{field} is missing"));
        instead
    }

    /// A positive integer that must be there.
    pub(super) fn size(&mut self, field: &str) -> usize {
        if self.fields.contains_key(field) { self.size_if_any(field).unwrap_or(1) } else { self.missing(field, 1) }
    }

    /// A positive integer that must be there, and no more than this; 1 where it is more.
    pub(super) fn size_up_to(&mut self, field: &str, most: usize) -> usize {
        let n = self.size(field);
        self.require(n <= most, || format!("{field} = {n}, expected at most {most}"));
        if n <= most { n } else { 1 }
    }

    /// A positive integer, if there is one.
    pub(super) fn size_if_any(&mut self, field: &str) -> Option<usize> {
        let value = self.fields.get(field)?;
        let n = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=LARGEST).contains(n));
        let up_to = if value.as_u64().is_some_and(|n| n > 0) { format!(" up to {LARGEST}") } else { String::new() };
        self.require(n.is_some(), || format!("{field} = {value}, expected a positive integer{up_to}"));
        n
    }

    /// A whole number, 0 too, that must be there.
    pub(super) fn count(&mut self, field: &str) -> usize {
        let Some(value) = self.value(field) else { return self.missing(field, 0) };
        let n = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= LARGEST);
        self.require(n.is_some(), || format!("{field} = {value}, expected a whole number"));
        n.unwrap_or(0)
    }

    /// A number, if there is one.
    pub(super) fn number(&mut self, field: &str) -> Option<f64> {
        let value = self.fields.get(field)?;
        self.require(value.is_number(), || format!("{field} = {value}, expected a number"));
        value.as_f64().or(Some(1.0))
    }

    /// True or false; false if absent.
    pub(super) fn flag(&mut self, field: &str) -> bool {
        let Some(value) = self.fields.get(field) else { return false };
        self.require(value.is_boolean(), || format!("{field} = {value}, expected true or false"));
        value == true
    }

    /// A field that stands at the top in the hub's files, and in `rope_parameters` in newer ones.
    pub(super) fn rope(&mut self, field: &str) -> Option<f64> {
        let nested = self.fields.get("rope_parameters").and_then(|p| p.get(field)).and_then(Value::as_f64);
        self.number(field).or(nested)
    }

    /// At the top, in `rope_parameters`, or in both if they agree.
    pub(super) fn rope_theta(&mut self) -> f64 {
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
    pub(super) fn rotary_dim(&mut self, head_dim: usize) -> usize {
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
    pub(super) fn word(&mut self, field: &str, supported: &[&str]) {
        let found = self.fields.get(field).cloned();
        let known = found.as_ref().is_none_or(|v| v.as_str().is_some_and(|v| supported.contains(&v)));
        self.require(known, || format!("{field} = {}, expected {}", found.unwrap_or_default(), supported.join(" or ")));
    }

    /// A field that may be absent, but must have this value if it is there.
    pub(super) fn only(&mut self, field: &str, value: &Value, expected: &str) {
        let found = self.fields.get(field).unwrap_or(value);
        self.require(found == value, || format!("{field} = {found}, expected {expected}"));
    }

    /// A token, a list of tokens, or nothing.
    pub(super) fn tokens(&mut self, field: &str) -> Vec<u32> {
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
