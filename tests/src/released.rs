//! Released models with few of all.

use fixtures::synth::released::Released;
use serde_json::Value;

/// The configuration of one with so many layers, whose weights are not quantized, and that does not see; other numbers of its
/// decoder are laid over it.
pub fn with_few(name: &str, layers: usize, few: &Value) -> Value {
    let mut config = Released::named(name).expect("it is released").with_layers(layers);
    let fields = config.as_object_mut().expect("fields");
    fields.remove("quantization_config");
    fields.remove("vision_config");
    let decoder = if config.get("text_config").is_some() { &mut config["text_config"] } else { &mut config };
    decoder.as_object_mut().expect("fields").extend(few.as_object().expect("fields").clone());
    config
}
