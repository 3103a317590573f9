//! One block of two tensors, small enough for the first cache: everything in one pass over it.

use multiversion::multiversion;

use crate::compare::kind::Kind;

/// Elements of a block.
pub(super) const BLOCK: usize = 4096;

/// Independent sums, so that the processor's vectors are full and no sum is long.
const LANES: usize = 16;

/// Magnitudes outside of this, squared, leave f32.
const SAFE: std::ops::Range<f32> = 1e-15..1e18;

/// Sums and extremes of a block of finite values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) difference: f64,
    pub(super) squares: f64,
    pub(super) a_squares: f64,
    pub(super) b_squares: f64,
    pub(super) products: f64,
    pub(super) max_absolute: f64,
    pub(super) max_relative: f64,
    pub(super) max_steps: u32,
    pub(super) unequal: usize,
}

/// The sums of a block, or `None` where f32 sums would lose something: a type is wider, a value is not finite, or
/// squares leave f32.
pub(super) fn sums((a, a_kind): (&[u8], Kind), (b, b_kind): (&[u8], Kind)) -> Option<Sums> {
    let raw = match (a_kind, b_kind) {
        (Kind::F32, Kind::F32) if a == b => alike::<F32>(a),
        (Kind::Bf16, Kind::Bf16) if a == b => alike::<Bf16>(a),
        (Kind::F16, Kind::F16) if a == b => alike::<F16>(a),
        (Kind::F32, Kind::F32) => fused::<F32, F32>(a, b),
        (Kind::Bf16, Kind::Bf16) => fused::<Bf16, Bf16>(a, b),
        (Kind::F16, Kind::F16) => fused::<F16, F16>(a, b),
        (Kind::F32, Kind::Bf16) => fused::<F32, Bf16>(a, b),
        (Kind::Bf16, Kind::F32) => fused::<Bf16, F32>(a, b),
        (Kind::F32, Kind::F16) => fused::<F32, F16>(a, b),
        (Kind::F16, Kind::F32) => fused::<F16, F32>(a, b),
        (Kind::F16, Kind::Bf16) => fused::<F16, Bf16>(a, b),
        (Kind::Bf16, Kind::F16) => fused::<Bf16, F16>(a, b),
        (Kind::F64 | Kind::Widened, _) | (_, Kind::F64 | Kind::Widened) => return None,
    };
    let safe = raw.finite && (raw.largest == 0.0 || SAFE.contains(&raw.largest));
    safe.then_some(raw.sums)
}

/// A stored type that f32 holds.
trait Narrow {
    /// Its bytes.
    type Raw: Copy;

    fn elements(bytes: &[u8]) -> &[Self::Raw];

    fn widen(raw: Self::Raw) -> f32;
}

struct F32;
struct F16;
struct Bf16;

impl Narrow for F32 {
    type Raw = [u8; 4];

    #[inline]
    fn elements(bytes: &[u8]) -> &[[u8; 4]] {
        bytes.as_chunks().0
    }

    #[inline]
    fn widen(raw: [u8; 4]) -> f32 {
        f32::from_le_bytes(raw)
    }
}

impl Narrow for F16 {
    type Raw = [u8; 2];

    #[inline]
    fn elements(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    #[inline]
    fn widen(raw: [u8; 2]) -> f32 {
        half::f16::from_le_bytes(raw).to_f32()
    }
}

impl Narrow for Bf16 {
    type Raw = [u8; 2];

    #[inline]
    fn elements(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }

    #[inline]
    fn widen(raw: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(raw)) << 16)
    }
}

struct Raw {
    sums: Sums,
    finite: bool,
    largest: f32,
}

/// The lanes of every sum.
struct Lanes {
    difference: [f32; LANES],
    squares: [f32; LANES],
    a_squares: [f32; LANES],
    b_squares: [f32; LANES],
    products: [f32; LANES],
    max_absolute: [f32; LANES],
    max_relative: [f32; LANES],
    largest: [u32; LANES],
    steps: [u32; LANES],
    equal: [u32; LANES],
}

#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2+fma", "aarch64+neon"))]
fn fused<A: Narrow, B: Narrow>(a: &[u8], b: &[u8]) -> Raw {
    let mut lanes = Lanes {
        difference: [0.0; LANES],
        squares: [0.0; LANES],
        a_squares: [0.0; LANES],
        b_squares: [0.0; LANES],
        products: [0.0; LANES],
        max_absolute: [0.0; LANES],
        max_relative: [0.0; LANES],
        largest: [0; LANES],
        steps: [0; LANES],
        equal: [0; LANES],
    };
    let (a, b) = (A::elements(a), B::elements(b));
    let (a_full, a_rest) = a.as_chunks::<LANES>();
    let (b_full, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_full.iter().zip(b_full) {
        for i in 0..LANES {
            lanes.add(i, A::widen(a[i]), B::widen(b[i]));
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes.add(i, A::widen(*a), B::widen(*b));
    }
    lanes.finish(a.len())
}

/// What [`fused`] finds in a block that is the same in both tensors, bit for bit: of it only the squares are to be summed.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2+fma", "aarch64+neon"))]
fn alike<A: Narrow>(a: &[u8]) -> Raw {
    let (mut squares, mut largest) = ([0.0_f32; LANES], [0; LANES]);
    let mut add = |i: usize, raw: A::Raw| {
        let a = A::widen(raw);
        squares[i] += a * a;
        largest[i] = (a.to_bits() & MAGNITUDE).max(largest[i]);
    };
    let (full, rest) = A::elements(a).as_chunks::<LANES>();
    for raws in full {
        for (i, raw) in raws.iter().enumerate() {
            add(i, *raw);
        }
    }
    rest.iter().enumerate().for_each(|(i, raw)| add(i, *raw));
    let total = squares.iter().map(|x| f64::from(*x)).sum();
    let largest = f32::from_bits(largest.into_iter().fold(0, u32::max));
    let sums = Sums { a_squares: total, b_squares: total, products: total, ..Sums::default() };
    Raw { sums, finite: largest.is_finite(), largest }
}

impl Lanes {
    #[inline]
    fn add(&mut self, i: usize, a: f32, b: f32) {
        let d = a - b;
        let size = d.abs();
        let top = (a.to_bits() & MAGNITUDE).max(b.to_bits() & MAGNITUDE);
        let relative = if size > 0.0 { size / f32::from_bits(top) } else { 0.0 };
        self.difference[i] += d;
        self.squares[i] += d * d;
        self.a_squares[i] += a * a;
        self.b_squares[i] += b * b;
        self.products[i] += a * b;
        self.max_absolute[i] = if size > self.max_absolute[i] { size } else { self.max_absolute[i] };
        self.max_relative[i] = if relative > self.max_relative[i] { relative } else { self.max_relative[i] };
        self.largest[i] = self.largest[i].max(top);
        let (a, b) = (ordered(a), ordered(b));
        self.steps[i] = self.steps[i].max(a.max(b).wrapping_sub(a.min(b)).cast_unsigned());
        self.equal[i] += u32::from(a == b);
    }

    fn finish(self, count: usize) -> Raw {
        let total = |lanes: [f32; LANES]| lanes.iter().map(|x| f64::from(*x)).sum();
        let top = |lanes: [f32; LANES]| f64::from(lanes.iter().fold(0.0_f32, |top, x| top.max(*x)));
        let largest = f32::from_bits(self.largest.into_iter().fold(0, u32::max));
        let sums = Sums {
            difference: total(self.difference),
            squares: total(self.squares),
            a_squares: total(self.a_squares),
            b_squares: total(self.b_squares),
            products: total(self.products),
            max_absolute: top(self.max_absolute),
            max_relative: top(self.max_relative),
            max_steps: self.steps.into_iter().fold(0, u32::max),
            unequal: count - self.equal.iter().map(|n| *n as usize).sum::<usize>(),
        };
        Raw { sums, finite: largest.is_finite(), largest }
    }
}

/// All bits but the sign. In the order of these bits, infinities and NaN come last.
const MAGNITUDE: u32 = 0x7fff_ffff;

/// f32 in the order of the numbers, one integer a step; both zeros are 0.
#[inline]
fn ordered(x: f32) -> i32 {
    let bits = x.to_bits().cast_signed();
    if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
}
