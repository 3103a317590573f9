//! What a cache's keys or values become on a grid that has scales, or where they are clipped.
//!
//! ```text
//! y = s·ρ((x − z)/s) + z        s = max |x| / L, z = 0, or s = (max x − min x) / L, z = min x        over each group
//! ```
//!
//! with L the largest step of the grid, and ρ to its nearest. An x that is off by e is taken to the steps that x ± e are nearest
//! to, and the scale and z are off by no more than the elements that they are made of.

use ndarray::Array2;

use crate::bound::ErrorBound;
use crate::semantics::{CacheGrid, CacheSteps, ScaleOf};
use crate::tracked::Tracked;
use crate::{Real, Storage};

/// Roundings of f32 in a quotient, a product and a sum.
const STEPS: f64 = 4.0;

/// Rows \[n, G·d\] as they are kept, in heads of d channels.
pub fn kept<T: Real>(x: &Tracked<T>, grid: CacheGrid, head_dim: usize) -> Tracked<T> {
    let mut y = x.clone();
    let (steps, of) = match grid {
        CacheGrid::Scaled(steps, of) => (steps, of),
        CacheGrid::E5m2 => return y.performed(Storage::E5m2),
        CacheGrid::Clip(limit) => {
            y.value.mapv_inplace(|x| T::of(x.wide().clamp(-limit.abs(), limit.abs())));
            return y;
        }
    };
    for group in groups(x.dim(), of, head_dim) {
        let scale = Scale::of(x, steps, &group);
        for at in group {
            let off = x.error.as_ref().map_or(0.0, |error| error.certain[at]);
            let (value, apart) = scale.nearest(x.value[at].wide(), off);
            y.value[at] = T::of(value);
            if let Some(ErrorBound { certain, sigma, .. }) = &mut y.error {
                let own = apart + STEPS * Storage::F32.unit_roundoff() * value.abs();
                (certain[at], sigma[at]) = (own, own);
            }
        }
    }
    y
}

/// Rows \[n, G·d\] as a later call reads them that quantizes those before its own, from `first` on; `stored` is what these become then.
pub fn read<T: Real>(
    x: &Tracked<T>,
    (grid, head_dim): (CacheGrid, usize),
    first: usize,
    stored: impl FnOnce(Tracked<T>) -> Tracked<T>,
) -> Tracked<T> {
    let mut read = stored(kept(&x.rows(0..first), grid, head_dim));
    read.append(&x.rows(first..x.dim().0));
    read
}

/// The elements that have a scale in common.
fn groups((n, width): (usize, usize), of: ScaleOf, head_dim: usize) -> Vec<Vec<[usize; 2]>> {
    let d = head_dim.clamp(1, width.max(1));
    let number = |[i, j]: [usize; 2]| match of {
        ScaleOf::Head => i * width.div_ceil(d) + j / d,
        ScaleOf::Token => i,
        ScaleOf::Channel => j,
        ScaleOf::Call => 0,
    };
    let count = match of {
        ScaleOf::Head => n * width.div_ceil(d),
        ScaleOf::Token => n,
        ScaleOf::Channel => width,
        ScaleOf::Call => 1,
    };
    let mut groups = vec![Vec::new(); count];
    Array2::<u8>::zeros((n, width)).indexed_iter().for_each(|((i, j), _)| groups[number([i, j])].push([i, j]));
    groups
}

/// What a group's steps are multiplied by, and where they begin.
struct Scale {
    steps: CacheSteps,
    times: f64,
    zero: f64,
    /// How far these may be off: the scale as a share, and the zero.
    off: [f64; 2],
}

impl Scale {
    fn of<T: Real>(x: &Tracked<T>, steps: CacheSteps, group: &[[usize; 2]]) -> Self {
        let values = || group.iter().map(|at| x.value[*at].wide());
        let error =
            x.error.as_ref().map_or(0.0, |error| group.iter().fold(0.0, |e: f64, at| e.max(error.certain[*at])));
        let largest = match steps {
            CacheSteps::Int8 => 127.0,
            CacheSteps::Int4 => 7.0,
            CacheSteps::Uint8 => 255.0,
            CacheSteps::Uint4 => 15.0,
            CacheSteps::E4m3 => 448.0,
        };
        let is_beside = matches!(steps, CacheSteps::Uint8 | CacheSteps::Uint4);
        let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let (range, zero) = if is_beside { (high - low, low) } else { (high.abs().max(low.abs()), 0.0) };
        let share = if range > 0.0 { 2.0 * error / range } else { 0.0 };
        Scale { steps, times: range / largest, zero, off: [share, if is_beside { error } else { 0.0 }] }
    }

    /// What an x becomes that is off by so much, and how far that may be off.
    fn nearest(&self, x: f64, off: f64) -> (f64, f64) {
        if self.times == 0.0 {
            return (x, off);
        }
        let to = |step: f64| {
            if self.steps == CacheSteps::E4m3 { Storage::E4m3.nearest(step) } else { step.round_ties_even() }
        };
        let step = (x - self.zero) / self.times;
        let [share, of_zero] = self.off;
        let wide = (off + of_zero) / self.times + step.abs() * (share + STEPS * Storage::F32.unit_roundoff());
        let [low, middle, high] = [step - wide, step, step + wide].map(to);
        let apart = (high - middle).max(middle - low);
        let value = self.times * middle + self.zero;
        (value, self.times * apart + (self.times * middle).abs() * share + of_zero)
    }
}
