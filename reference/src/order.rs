//! Sums in a fixed order, in the arithmetic of what adds them: where an implementation says both, its values are known to
//! the last bit.
//!
//! Functions of one value (exponentials, roots, the error function) are taken in f64 and rounded once, as the emulated
//! device takes them; a GPU's are off by an ulp or two.

use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::Real;
use crate::accumulator::TensorCore;
use crate::storage::{self, power_of_two};

/// How the terms of a sum are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nobody says: as is quickest, in the run's own type.
    Any,
    /// By lanes side by side.
    Lanes(Lanes),
    /// By steps of a tensor core.
    Steps(TensorCore),
}

/// Lanes that each take some terms, one after another. The lanes of a warp are then added in pairs, halves first, and the
/// warps upward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    /// How many.
    pub count: usize,
    /// Neighbouring terms that a lane takes before the next lane's.
    pub vector: usize,
}

/// How attention cuts a token's keys: each tile is attended by itself, a group merges its tiles upward, and the result its
/// groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Keys of a tile.
    pub keys: usize,
    /// Tiles of a group.
    pub group: usize,
    /// By what the weights of a tile are added up.
    pub weights: Lanes,
}

/// The orders of one implementation's sums. Those of products with weights are its
/// [accumulator's](crate::accumulator::Accumulator).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orders {
    /// Of a row's norm.
    pub row: Lanes,
    /// Of a norm over a token's whole query or key projection.
    pub projection: Lanes,
    /// Of a norm over one head.
    pub head: Lanes,
    /// Of an expert's logit.
    pub router: Lanes,
    /// Of attention.
    pub tiles: Tiles,
}

/// Lanes that are added in pairs.
pub const WARP: usize = 32;

/// Those of our kernels, which `optimized/kernels` state, too.
pub const PARITY: Orders = Orders {
    row: Lanes { count: 256, vector: 8 },
    projection: Lanes { count: 256, vector: 1 },
    head: Lanes { count: WARP, vector: 1 },
    router: Lanes { count: WARP, vector: 1 },
    tiles: Tiles { keys: 64, group: 4, weights: Lanes { count: 4, vector: 2 } },
};

impl Order {
    /// The sum of so many terms, where `add(sum, i)` adds term i to a sum.
    pub fn sum<T: Real>(self, terms: usize, add: impl Fn(T, usize) -> T) -> T {
        match self {
            Order::Lanes(lanes) => lanes.sum(terms, add),
            Order::Any | Order::Steps(_) => (0..terms).fold(T::zero(), add),
        }
    }

    /// a·b of a \[n, k\] and b \[k, m\]; `None` where nobody says how.
    pub fn product<T: Real>(self, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Option<Array2<T>> {
        let dot = |a: ArrayView1<'_, T>, b: ArrayView1<'_, T>| match self {
            Order::Any | Order::Lanes(_) => self.sum(a.len(), |sum, k| a[k].mul_add(b[k], sum)),
            Order::Steps(core) => T::of(core.dot(a.iter().zip(b).map(|(a, b)| (a.wide(), b.wide())))),
        };
        let of = |(i, j)| dot(a.row(i), b.column(j));
        (self != Order::Any).then(|| Array2::from_shape_fn((a.nrows(), b.ncols()), of))
    }
}

impl Lanes {
    fn sum<T: Real>(self, terms: usize, add: impl Fn(T, usize) -> T) -> T {
        let mut lanes = vec![T::zero(); self.count];
        for i in 0..terms {
            let lane = &mut lanes[i / self.vector % self.count];
            *lane = add(*lane, i);
        }
        lanes.chunks_mut(WARP).map(in_pairs).fold(T::zero(), |sum, warp| sum + warp)
    }
}

/// The sum of a power of two of lanes: the second half is added to the first until one is left.
fn in_pairs<T: Real>(lanes: &mut [T]) -> T {
    let mut width = lanes.len();
    while width > 1 {
        width /= 2;
        let (low, high) = lanes[..2 * width].split_at_mut(width);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
    }
    lanes[0]
}

impl TensorCore {
    /// Σ aₖbₖ as it comes out, of factors that an f32 holds: the chains' sums added in f32, upward.
    pub fn dot(self, products: impl Iterator<Item = (f64, f64)>) -> f64 {
        let (mut total, mut chain, mut summed) = (0.0_f32, 0.0, 0);
        let mut step = Vec::with_capacity(self.k as usize);
        let mut products = products.peekable();
        while products.peek().is_some() {
            step.clear();
            step.extend(products.by_ref().take(self.k as usize));
            chain = self.step(chain, &step);
            summed += self.k;
            if self.promote.is_some_and(|promote| promote <= summed) {
                total += f32::of(chain);
                (chain, summed) = (0.0, 0);
            }
        }
        match self.promote {
            Some(_) => f64::from(total + f32::of(chain)),
            None => chain,
        }
    }

    /// One step: products and sum are aligned to the largest of their exponents, where a product's is the sum of its factors'
    /// and a zero's is −126; each is cut off F bits below that; they are added exactly; and the result is cut off, too.
    fn step(self, sum: f64, products: &[(f64, f64)]) -> f64 {
        let plain = products.iter().fold(sum, |sum, (a, b)| sum + a * b);
        if !plain.is_finite() {
            return plain;
        }
        let largest = products.iter().fold(exponent(sum), |top, &(a, b)| top.max(exponent(a) + exponent(b)));
        // Whole numbers below 2³³, so that their sum is exact.
        let units = power_of_two(self.fraction - largest);
        let aligned = products.iter().fold((sum * units).trunc(), |sum, (a, b)| sum + (a * b * units).trunc());
        let result = aligned / units;
        let last = power_of_two(exponent(result) - self.result);
        // Plus zero, so that no zero is negative; what an f32 has no room for is infinite.
        if result == 0.0 { 0.0 } else { f32::of((result / last).trunc() * last + 0.0).wide() }
    }
}

/// The exponent of an f32, as hardware counts it: a subnormal number's, and zero's, is the smallest normal one's.
fn exponent(x: f64) -> i32 {
    if x == 0.0 { -126 } else { storage::exponent(x).max(-126) }
}
