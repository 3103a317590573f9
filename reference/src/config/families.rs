//! The families of decoders that are known, and which of them a configuration is of.

use serde_json::Value;

use super::m2::M2;
use super::m3::{M3, M3_TEXT};
use super::reader::Reader;
use super::{Architecture, Config, ConfigError};

/// Reads the fields of a family's configuration.
type Read = fn(&mut Reader<'_>) -> Config;

/// Every family, and how its fields are read. A configuration of no known type is held to the first one's.
const FAMILIES: [(Architecture, Read); 3] =
    [(M2, |read| read.m2()), (M3, |read| read.m3()), (M3_TEXT, |read| read.m3_text(M3_TEXT))];

/// Every family.
pub fn architectures() -> impl Iterator<Item = Architecture> {
    FAMILIES.into_iter().map(|(architecture, _)| architecture)
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
        let mut read = Reader::new(&fields);
        read.word("model_type", &FAMILIES.map(|(architecture, _)| architecture.model_type));
        let stated = fields.get("model_type").and_then(Value::as_str);
        let is_stated = |(architecture, _): &&(Architecture, Read)| stated == Some(architecture.model_type);
        let (_, fields_of) = FAMILIES.iter().find(is_stated).unwrap_or(&FAMILIES[0]);
        let config = fields_of(&mut read);
        read.finish(config)
    }
}
