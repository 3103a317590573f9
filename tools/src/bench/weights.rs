//! How weights are stored, and what they take.

use clap::ValueEnum;
use serde::Serialize;

/// Bytes of a bf16.
pub(super) const NARROW: f64 = 2.0;
/// Bytes of an f32, or of an index.
pub(super) const WIDE: f64 = 4.0;

/// How the weights of a layer's products are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// In bf16.
    #[default]
    Bf16,
    /// In E4M3 in blocks of 128 × 128, with f32 scales: as M2.7 is released.
    Fp8,
    /// In E4M3 in blocks of 32 of a row, with powers of two for scales: as M3 is released.
    Mxfp8,
}

impl Weights {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Weights::Bf16 => "bf16",
            Weights::Fp8 => "fp8",
            Weights::Mxfp8 => "mxfp8",
        }
    }

    /// Rows and columns that have a scale; none in bf16.
    pub fn block(self) -> Option<(usize, usize)> {
        match self {
            Weights::Bf16 => None,
            Weights::Fp8 => Some((128, 128)),
            Weights::Mxfp8 => Some((1, 32)),
        }
    }

    /// Bytes of a weight [m, k].
    pub fn bytes(self, m: f64, k: f64) -> f64 {
        let of_scale = if self == Weights::Mxfp8 { 1.0 } else { WIDE };
        self.block().map_or(NARROW * m * k, |(rows, columns)| {
            m * k + of_scale * (m / rows as f64).ceil() * (k / columns as f64).ceil()
        })
    }
}
