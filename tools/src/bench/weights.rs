//! What weights take, as they are stored.

use fixtures::convert::types::Types;
use fixtures::quantize::scale_type;
use reference::config::Quantization;

/// Bytes of a bf16.
pub(super) const NARROW: f64 = 2.0;
/// Bytes of an f32, or of an index.
pub(super) const WIDE: f64 = 4.0;

/// How weights are quantized, if they are: as models are released.
pub(super) fn quantization(weights: Types) -> Option<Quantization> {
    weights.scheme().and_then(Quantization::released)
}

/// Bytes of a weight [m, k], with its scales.
pub(super) fn bytes(weights: Types, m: f64, k: f64) -> f64 {
    quantization(weights).map_or(NARROW * m * k, |how| {
        let scales = (m / how.block.0 as f64).ceil() * (k / how.block.1 as f64).ceil();
        m * k + scale_type(&how).size() as f64 * scales
    })
}
