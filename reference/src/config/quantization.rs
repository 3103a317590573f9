//! How a model's weights are quantized: `quantization_config` (spec A30, A31, C).

use serde_json::{Map, Value};

use super::reader::Reader;

/// Blocks of weights in E4M3 with a scale each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantization {
    /// Rows and columns of a block.
    pub block: (usize, usize),
    /// Whether scales are powers of two.
    pub powers: bool,
    /// Modules that are not quantized, or ends of their names.
    pub excluded: Vec<String>,
}

/// A scheme's name, its block, and whether its scales are powers of two.
const SCHEMES: [(&str, (usize, usize), bool); 2] = [("fp8", (128, 128), false), ("mxfp8", (1, 32), true)];

impl Quantization {
    /// As the models of a scheme, `fp8` or `mxfp8`, are released.
    pub fn released(scheme: &str) -> Option<Self> {
        let (_, block, powers) = SCHEMES.into_iter().find(|(name, ..)| *name == scheme)?;
        let excluded = ["gate", "e_score_correction_bias", "lm_head", "embed_tokens"].map(str::to_owned);
        let of_vision = ["vision_tower", "multi_modal_projector", "patch_merge_mlp"].map(str::to_owned);
        Some(Quantization { block, powers, excluded: excluded.into_iter().chain(of_vision).collect() })
    }

    /// What a `config.json` says of it.
    pub fn to_json(&self) -> Value {
        let method = if self.powers { "mxfp8" } else { "fp8" };
        let fields = [
            ("quant_method", method.into()),
            ("activation_scheme", "dynamic".into()),
            ("fmt", "float8_e4m3fn".into()),
            ("weight_block_size", vec![self.block.0, self.block.1].into()),
            ("modules_to_not_convert", self.excluded.clone().into()),
        ];
        Value::Object(Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value))))
    }

    /// Whether a tensor's module is named as one that is not quantized: by its whole name, by that of what it is in, or by the end
    /// of its name.
    pub fn excludes(&self, tensor: &str) -> bool {
        let module = tensor.strip_suffix(".weight").unwrap_or(tensor);
        self.excluded.iter().any(|excluded| {
            let inside = module.strip_prefix(excluded.as_str()).is_some_and(|rest| rest.starts_with('.'));
            inside || module.ends_with(excluded.as_str())
        })
    }
}

impl Reader<'_> {
    /// The field, if there is one.
    pub(super) fn quantization(&mut self) -> Option<Quantization> {
        let mut read = Reader::new(self.object("quantization_config")?);
        let quantization = read.scheme();
        self.add("quantization_config", read);
        quantization
    }

    fn scheme(&mut self) -> Option<Quantization> {
        let names = SCHEMES.map(|(name, ..)| name);
        let method = self.value("quant_method").and_then(Value::as_str).unwrap_or_default();
        let scheme = SCHEMES.into_iter().find(|(name, ..)| *name == method);
        if scheme.is_none() {
            let found = self.value("quant_method").cloned().unwrap_or_default();
            self.require(false, || format!("quant_method = {found}, expected {}", names.join(" or ")));
        }
        let (_, block, powers) = scheme?;
        self.word("activation_scheme", &["dynamic"]);
        self.word("fmt", &["float8_e4m3fn", "e4m3"]);
        self.word("scale_fmt", &["float", "ue8m0"]);
        self.word("expert_dtype", &["fp8"]);
        let powers = powers || self.value("scale_fmt").is_some_and(|format| format == "ue8m0");
        let block = self.block(block);
        let excluded = self.modules("modules_to_not_convert").or_else(|| self.modules("ignored_layers"));
        Some(Quantization { block, powers, excluded: excluded.unwrap_or_default() })
    }

    fn block(&mut self, released: (usize, usize)) -> (usize, usize) {
        let Some(found) = self.value("weight_block_size") else { return released };
        let size = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let block = match found.as_array().map(Vec::as_slice) {
            Some([rows, columns]) => size(rows).zip(size(columns)),
            _ => None,
        };
        self.require(block.is_some(), || format!("weight_block_size = {found}, expected [rows, columns]"));
        block.unwrap_or(released)
    }

    fn modules(&mut self, field: &str) -> Option<Vec<String>> {
        let found = self.value(field)?;
        let name = |value: &Value| value.as_str().map(str::to_owned);
        let names = found.as_array().and_then(|names| names.iter().map(name).collect());
        self.require(names.is_some(), || format!("{field} = {found}, expected a list of modules"));
        names
    }
}
