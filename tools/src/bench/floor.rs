//! What no implementation of an operator can do without: bytes that must move, operations that must be done.

use optimized::timing::Limits;
use serde::Serialize;

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Tensor cores, on bf16.
    Tensor,
    /// The others, in f32.
    Scalar,
}

/// The least of an operator. Weights and inputs are read once, outputs written once; nothing between is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Floor {
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
    /// Operations: two for a multiply-add.
    pub operations: f64,
    /// What does them.
    pub unit: Unit,
}

/// How fast a device moves bytes and computes, at best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// Bytes a second.
    pub bandwidth: f64,
    /// Operations a second of the tensor cores on bf16.
    pub tensor: f64,
    /// Operations a second in f32.
    pub scalar: f64,
}

impl Floor {
    /// Bytes read and written.
    pub fn bytes(&self) -> f64 {
        self.read + self.written
    }

    /// Microseconds that it takes at these rates: those of the bytes, or of the operations.
    pub fn microseconds(&self, rates: &Rates) -> f64 {
        let rate = match self.unit {
            Unit::Tensor => rates.tensor,
            Unit::Scalar => rates.scalar,
        };
        1e6 * (self.bytes() / rates.bandwidth).max(self.operations / rate)
    }
}

/// Of the peak, what matrix products reach on Hopper.
const REACHED: f64 = 0.8;
/// Operations of a multiprocessor's f32 units in a clock, of which 0.9 are reached.
const SCALAR: f64 = 0.9 * 2.0 * 128.0;

impl Rates {
    /// As measured on an H200: a copy's 4.3 TB/s, a matrix product's 790 TFLOP/s in bf16, and 60 in f32.
    pub const H200: Rates = Rates { bandwidth: 4.3e12, tensor: 790e12, scalar: 60e12 };

    /// What a device says of itself, but for the bandwidth, which was measured. `None` if its tensor cores are not known.
    pub fn of(limits: &Limits, bandwidth: f64) -> Option<Self> {
        let in_a_clock = match limits.capability {
            (8, 0) => 2048.0,
            (8, _) => 1024.0,
            (9, _) => 4096.0,
            _ => return None,
        };
        let clocks = f64::from(limits.multiprocessors) * limits.clock;
        Some(Rates { bandwidth, tensor: REACHED * in_a_clock * clocks, scalar: SCALAR * clocks })
    }
}
