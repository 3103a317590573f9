//! Values that look random, the same each time.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::Storage;

/// Draws values.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The same values for the same seed.
    pub(super) fn new(seed: u64) -> Self {
        Draw(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number from `low` up to, not including, `high`.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0.random_range(low..high)
    }

    /// A value from `size` to twice that, of so many significant bits.
    pub(super) fn short(&mut self, bits: i32, size: f64) -> f64 {
        let units = 2.0_f64.powi(bits - 1);
        size * self.between(units, 2.0 * units).floor() / units
    }

    /// A whole number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// Values as activations have them, of a storage: about normal, of that size.
    pub(super) fn activations(&mut self, count: usize, size: f64, storage: Storage) -> Vec<f64> {
        let mut one = || storage.nearest(size * (0..6).map(|_| self.between(-0.7, 0.7)).sum::<f64>());
        (0..count).map(|_| one()).collect()
    }

    /// Terms of both signs with 6 significant bits, in so many powers of two from `smallest` on.
    pub(super) fn terms(&mut self, count: usize, smallest: f64, powers: usize) -> Vec<f64> {
        let mut one = || {
            let size = smallest * 2.0_f64.powi(i32::try_from(self.below(powers)).expect("few"));
            let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
            sign * self.short(6, size)
        };
        (0..count).map(|_| one()).collect()
    }
}
