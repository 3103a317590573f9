//! A kernel that adds products up in f32, in some order, and may have a fault.

use half::bf16;
use ndarray::{Array2, s};
use reference::{Real, Storage};
use tests::simulated::Order;

/// What may be wrong with any product of matrices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    TokensSwapped,
    SignFlipped,
    LastOfKDropped,
    TileOfKDropped,
    Bf16Accumulator,
    OnePercentMore,
    Truncated,
    NotANumber,
    Fp8Weights,
    ChannelOff,
    AllZero,
    ShiftedByAToken,
    LastTokenZero,
    ColumnsOfKSwapped,
}

impl Fault {
    pub(super) const ALL: [Fault; 14] = [
        Fault::TokensSwapped,
        Fault::SignFlipped,
        Fault::LastOfKDropped,
        Fault::TileOfKDropped,
        Fault::Bf16Accumulator,
        Fault::OnePercentMore,
        Fault::Truncated,
        Fault::NotANumber,
        Fault::Fp8Weights,
        Fault::ChannelOff,
        Fault::AllZero,
        Fault::ShiftedByAToken,
        Fault::LastTokenZero,
        Fault::ColumnsOfKSwapped,
    ];
}

/// Products that a kernel loads at a time; of a shorter sum, half.
const TILE: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub(super) order: Order,
    pub(super) fault: Option<Fault>,
}

impl Kernel {
    pub(super) fn right(order: Order) -> Self {
        Kernel { order, fault: None }
    }

    /// A kernel whose sums are right, after one that has the fault in its own.
    pub(super) fn beyond_sums(self) -> Self {
        let fault = self.fault.filter(|fault| *fault == Fault::Truncated);
        Kernel { fault, ..self }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Σ aₖ·bₖ.
    pub(super) fn sum(&self, a: &[f32], b: &[f32]) -> f32 {
        let last = a.len() - 1;
        let tile = TILE.min(a.len() / 2);
        let mut a = a.to_vec();
        match self.fault {
            Some(Fault::LastOfKDropped) => a[last] = 0.0,
            Some(Fault::TileOfKDropped) => a.iter_mut().skip(tile).take(tile).for_each(|a| *a = 0.0),
            Some(Fault::ColumnsOfKSwapped) => a.swap(last / 2, last),
            Some(Fault::Bf16Accumulator) => {
                let round = |x: f32| Storage::Bf16.nearest(x.wide());
                return a.iter().zip(b).fold(0.0, |sum, (a, b)| f32::of(round(a.mul_add(*b, sum))));
            }
            _ => {}
        }
        self.order.dot(&a, b)
    }

    /// The weights as they are multiplied.
    pub(super) fn weights(&self, w: &Array2<f32>) -> Array2<f32> {
        if self.has(Fault::Fp8Weights) { e4m3(w) } else { w.clone() }
    }

    /// A sum as it is stored.
    pub(super) fn store(&self, x: f32, storage: Storage) -> f64 {
        match storage {
            Storage::Bf16 if self.has(Fault::Truncated) => f32::from_bits(x.to_bits() & 0xffff_0000).wide(),
            _ => storage.nearest(x.wide()),
        }
    }

    /// A result, a row a token, as it is left.
    pub(super) fn leave(&self, mut y: Array2<f64>) -> Array2<f64> {
        let (n, m) = y.dim();
        let middle = [n / 2, m / 2];
        match self.fault {
            Some(Fault::TokensSwapped) => (0..m).for_each(|j| y.swap([0, j], [n / 2, j])),
            Some(Fault::SignFlipped) => y[middle] = -y[middle],
            Some(Fault::OnePercentMore) => y.mapv_inplace(|y| Storage::Bf16.nearest(1.01 * y)),
            Some(Fault::NotANumber) => y[middle] = f64::NAN,
            Some(Fault::ChannelOff) => y.column_mut(m / 2).mapv_inplace(|y| 1.5 * y),
            Some(Fault::AllZero) => y.fill(0.0),
            Some(Fault::ShiftedByAToken) => {
                let before = y.slice(s![..n - 1, ..]).to_owned();
                y.slice_mut(s![1.., ..]).assign(&before);
            }
            Some(Fault::LastTokenZero) => y.row_mut(n - 1).fill(0.0),
            _ => {}
        }
        y
    }
}

/// To the nearest of four significant bits, with 448 for the largest and a scale that is a power of two.
fn e4m3(w: &Array2<f32>) -> Array2<f32> {
    let largest = w.iter().fold(0.0_f32, |top, w| top.max(w.abs()));
    let scale = (448.0 / largest).log2().floor().exp2();
    w.mapv(|w| {
        let x = w * scale;
        let quantum = (x.abs().max(2.0_f32.powi(-6)).log2().floor() - 3.0).exp2();
        (x / quantum).round_ties_even() * quantum / scale
    })
}

/// A value as activations and weights are stored.
pub(super) fn stored(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}
