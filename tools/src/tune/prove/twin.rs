//! What trials share: drawn operands, the twin's rounding, and the two sides next to each other.

use half::bf16;
use ndarray::Array2;
use optimized::error::Error;
use optimized::kernel::Kernel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::matrix::{Encoding, Matrix};
use reference::{ContractError, RoundingContract};

/// What a device gave, and what the exact twin gives, value by value.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Of the device.
    pub got: Vec<f32>,
    /// Of the twin.
    pub twin: Vec<f32>,
}

impl Trial {
    /// What of it is not the twin's, in words; nothing if every bit is.
    pub fn difference(&self) -> Option<String> {
        let different = |&i: &usize| self.got[i].to_bits() != self.twin[i].to_bits();
        if self.got.len() != self.twin.len() {
            return Some(format!("{} values, and the exact twin has {}", self.got.len(), self.twin.len()));
        }
        let all: Vec<usize> = (0..self.got.len()).filter(different).collect();
        let first = *all.first()?;
        Some(format!(
            "{} of {} values are not the exact twin's; the first is {:e}, not {:e}",
            all.len(),
            self.got.len(),
            self.got[first],
            self.twin[first]
        ))
    }

    pub(super) fn and(mut self, other: Trial) -> Self {
        self.got.extend(other.got);
        self.twin.extend(other.twin);
        self
    }

    pub(super) fn of(got: &Array2<bf16>, twin: &Array2<f32>) -> Self {
        Trial { got: got.iter().map(|&x| f32::from(x)).collect(), twin: twin.iter().copied().collect() }
    }
}

/// Why a trial has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum NoTrial {
    /// The device refused, or found a fault.
    #[error(transparent)]
    Device(#[from] Error),
    /// The trial itself is not possible.
    #[error(transparent)]
    Contract(#[from] ContractError),
}

/// Operands.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    pub(super) fn begin() -> Self {
        Draw(ChaCha8Rng::seed_from_u64(1))
    }

    pub(super) fn values(&mut self, dim: (usize, usize)) -> Array2<bf16> {
        Array2::from_shape_simple_fn(dim, || bf16::from_f32(self.0.random_range(-1.0..1.0)))
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }
}

pub(super) fn wide(x: &Array2<bf16>) -> Array2<f32> {
    x.mapv(f32::from)
}

/// A weight, as the reference has it.
pub(super) fn stored(w: &Array2<bf16>) -> Matrix<'static> {
    let bytes: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
    Matrix::new(w.dim(), Encoding::Bf16, bytes).expect("two bytes each")
}

/// The kernels' roundings and orders.
pub(super) fn contract() -> RoundingContract {
    RoundingContract::PARITY.ordered().expect("the kernels' order is fixed")
}

/// A constant, or 0, in sizes.
pub(super) fn size(kernel: &Kernel, name: &str) -> usize {
    kernel.get(name).unwrap_or(0) as usize
}
