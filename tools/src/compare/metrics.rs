//! How far two tensors are apart, in one fused pass at memory speed.
//!
//! The figures are for reading, never for judging: similarity scores hide real faults.

mod block;

use super::kind::Kind;
use block::{BLOCK, Sums};
use rayon::prelude::*;
use serde::Serialize;

/// A tensor's elements, little-endian, as they are stored.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    /// The stored bytes.
    pub bytes: &'a [u8],
    /// Their type.
    pub kind: Kind,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Metrics {
    /// Elements.
    pub count: usize,
    /// Elements that differ as numbers.
    pub unequal: usize,
    /// The first of them.
    pub first_unequal: Option<usize>,
    /// Largest |a − b| of finite pairs, and where.
    pub max_absolute: f64,
    /// The index of that.
    pub worst: Option<usize>,
    /// Largest |a − b| / max(|a|, |b|).
    pub max_relative: f64,
    /// Largest distance in steps of the coarser type.
    pub max_ulp: u64,
    /// Mean of a − b.
    pub bias: f64,
    /// Root mean square of a − b.
    pub rms: f64,
    /// Root mean square of b.
    pub signal: f64,
    /// Cosine of the angle between a and b; for the record only.
    pub cosine: f64,
    /// Signal to noise in dB: 20·log₁₀(‖b‖ / ‖a − b‖); none where nothing differs.
    pub snr: Option<f64>,
    /// Values of a that are not a number.
    pub nan: [usize; 2],
    /// Values of a and b that are infinite.
    pub infinite: [usize; 2],
}

/// Elements that one thread takes at a time.
const CHUNK: usize = 1 << 20;

impl Kind {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Kind::F16 | Kind::Bf16 => 2,
            Kind::F32 => 4,
            Kind::F64 | Kind::Widened => 8,
        }
    }

    /// Steps of f32 in one step of this type, as a power of two; f16 within its normal range.
    fn step(self) -> u32 {
        match self {
            Kind::F32 | Kind::F64 | Kind::Widened => 0,
            Kind::F16 => 13,
            Kind::Bf16 => 16,
        }
    }
}

impl<'a> Elements<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn slice(&self, first: usize, count: usize) -> Elements<'a> {
        let size = self.kind.size();
        Elements { bytes: &self.bytes[first * size..(first + count) * size], kind: self.kind }
    }

    fn get(&self, i: usize) -> f64 {
        let element = self.slice(i, 1).bytes;
        match *element {
            [a, b] if self.kind == Kind::F16 => half::f16::from_le_bytes([a, b]).to_f64(),
            [a, b] => f64::from(f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16)),
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            _ => f64::from_le_bytes(element.try_into().expect("elements have two, four or eight bytes")),
        }
    }
}

/// Compares a with b; `None` if they have different lengths.
pub fn metrics(a: Elements<'_>, b: Elements<'_>) -> Option<Metrics> {
    let count = a.len();
    if b.len() != count {
        return None;
    }
    let starts: Vec<usize> = (0..count).step_by(CHUNK).collect();
    let parts = starts.par_iter().map(|&first| Part::of(a, b, first, CHUNK.min(count - first)));
    // In their order, for sums of roundings depend on it.
    let total = parts.collect::<Vec<Part>>().into_iter().fold(Part::default(), Part::merged);
    Some(total.finished(count, a.kind.step().max(b.kind.step())))
}

/// The sums of a run of elements.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    sums: Sums,
    max_steps: u64,
    first_unequal: Option<usize>,
    worst: Option<usize>,
    nan: [usize; 2],
    infinite: [usize; 2],
}

impl Part {
    fn of(a: Elements<'_>, b: Elements<'_>, first: usize, count: usize) -> Part {
        let mut part = Part::default();
        for start in (first..first + count).step_by(BLOCK) {
            let n = BLOCK.min(first + count - start);
            let (a, b) = (a.slice(start, n), b.slice(start, n));
            match block::sums((a.bytes, a.kind), (b.bytes, b.kind)) {
                Some(sums) => part.add_block(sums, a, b, start),
                None => part.add_slowly(a, b, start),
            }
        }
        part
    }

    fn add_block(&mut self, sums: Sums, a: Elements<'_>, b: Elements<'_>, start: usize) {
        let difference = |i: usize| (a.get(i) - b.get(i)).abs();
        if sums.max_absolute > self.sums.max_absolute {
            self.worst = (0..a.len()).find(|&i| difference(i) >= sums.max_absolute).map(|i| start + i);
        }
        if sums.unequal > 0 && self.first_unequal.is_none() {
            self.first_unequal = (0..a.len()).find(|&i| a.get(i) != b.get(i)).map(|i| start + i);
        }
        self.max_steps = self.max_steps.max(u64::from(sums.max_steps));
        self.sums = self.sums.plus(sums);
    }

    fn add_slowly(&mut self, a: Elements<'_>, b: Elements<'_>, start: usize) {
        for i in 0..a.len() {
            let (x, y) = (a.get(i), b.get(i));
            for (side, value) in [x, y].into_iter().enumerate() {
                self.nan[side] += usize::from(value.is_nan());
                self.infinite[side] += usize::from(value.is_infinite());
            }
            let unequal = x != y;
            if unequal && self.first_unequal.is_none() {
                self.first_unequal = Some(start + i);
            }
            self.sums.unequal += usize::from(unequal);
            if !(x.is_finite() && y.is_finite()) {
                continue;
            }
            let (d, top) = (x - y, x.abs().max(y.abs()));
            if d.abs() > self.sums.max_absolute {
                self.worst = Some(start + i);
            }
            self.max_steps = self.max_steps.max(steps(x, y));
            self.sums = self.sums.plus(Sums {
                difference: d,
                squares: d * d,
                a_squares: x * x,
                b_squares: y * y,
                products: x * y,
                max_absolute: d.abs(),
                max_relative: if unequal { d.abs() / top } else { 0.0 },
                max_steps: 0,
                unequal: 0,
            });
        }
    }

    fn merged(self, later: Part) -> Part {
        let worst = if later.sums.max_absolute > self.sums.max_absolute { later.worst } else { self.worst };
        Part {
            sums: self.sums.plus(later.sums),
            max_steps: self.max_steps.max(later.max_steps),
            first_unequal: self.first_unequal.or(later.first_unequal),
            worst,
            nan: [self.nan[0] + later.nan[0], self.nan[1] + later.nan[1]],
            infinite: [self.infinite[0] + later.infinite[0], self.infinite[1] + later.infinite[1]],
        }
    }

    fn finished(self, count: usize, step: u32) -> Metrics {
        let Sums { difference, squares, a_squares, b_squares, products, .. } = self.sums;
        let n = count.max(1) as f64;
        let norms = (a_squares * b_squares).sqrt();
        Metrics {
            count,
            unequal: self.sums.unequal,
            first_unequal: self.first_unequal,
            max_absolute: self.sums.max_absolute,
            worst: self.worst,
            max_relative: self.sums.max_relative,
            max_ulp: self.max_steps >> step,
            bias: difference / n,
            rms: (squares / n).sqrt(),
            signal: (b_squares / n).sqrt(),
            cosine: if norms > 0.0 { products / norms } else { 1.0 },
            snr: (squares > 0.0).then(|| 10.0 * (b_squares / squares).log10()),
            nan: self.nan,
            infinite: self.infinite,
        }
    }
}

impl Sums {
    fn plus(self, more: Sums) -> Sums {
        Sums {
            difference: self.difference + more.difference,
            squares: self.squares + more.squares,
            a_squares: self.a_squares + more.a_squares,
            b_squares: self.b_squares + more.b_squares,
            products: self.products + more.products,
            max_absolute: self.max_absolute.max(more.max_absolute),
            max_relative: self.max_relative.max(more.max_relative),
            max_steps: self.max_steps.max(more.max_steps),
            unequal: self.unequal + more.unequal,
        }
    }
}

/// Steps of f32 in between two numbers of any size.
#[expect(clippy::cast_possible_truncation, reason = "counted in f32, which is what is said")]
fn steps(x: f64, y: f64) -> u64 {
    let ordered = |x: f64| {
        let bits = i64::from((x as f32).to_bits().cast_signed());
        if bits < 0 { i64::from(i32::MIN) - bits } else { bits }
    };
    ordered(x).abs_diff(ordered(y))
}

/// The index in a tensor of its flat-th element.
pub(crate) fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = shape.to_vec();
    for axis in index.iter_mut().rev() {
        let size = *axis;
        *axis = flat % size;
        flat /= size;
    }
    index
}
