//! Storage types of values, and rounding to them.

use std::fmt;
use std::str::FromStr;

use crate::Real;
use crate::error::ParseError;

/// What f32 arithmetic may flush to zero on a device, whatever its results are stored in.
pub const FLUSHED: f64 = f32::MIN_POSITIVE as f64;

/// What a value is stored in between two operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Not rounded at all.
    Real,
    /// IEEE binary32.
    F32,
    /// A binary32 with 10 bits of fraction: what tensor cores take f32 as. No tensor is stored in it.
    Tf32(Tf32),
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// Four bits of exponent, three of significand, no infinity: beyond 448 it is 448.
    E4m3,
    /// f16's exponents, two bits of fraction: beyond 57,344 it is that.
    E5m2,
}

/// How f32 becomes TF32, by PTX's words: instructions round, kernels do it themselves, and tensor cores that read f32 drop bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tf32 {
    /// To nearest, ties to even.
    Rn,
    /// To nearest, ties away from 0.
    Rna,
    /// Towards 0.
    Rz,
}

/// How a value is taken to its [`Storage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To the nearest, ties to even.
    Nearest,
    /// To one of the two neighbours, with a probability that makes the expectation exact. The choice is a function of
    /// the seed and the value, so that a run repeats and does not depend on the order of evaluation.
    Stochastic(u64),
    /// To the nearest; only the errors of sums are drawn at random, as if they were added in another order.
    Sums(u64),
    /// To the nearest; sums are taken in the order that the contract fixes, in the arithmetic of what adds them.
    Ordered,
}

impl Mode {
    /// Whether the errors of sums are drawn at random.
    pub fn draws(self) -> bool {
        matches!(self, Mode::Stochastic(_) | Mode::Sums(_))
    }

    /// y with an error of arithmetic that is no sum's: in a stochastic run it is drawn, of a variance of so many u²/3, u that of
    /// `size`. That of f64 is none.
    #[inline]
    pub(crate) fn strayed<T: Real>(self, y: T, size: f64, unit: f64, squares: f64) -> T {
        let Mode::Stochastic(seed) = self else { return y };
        if unit <= f64::UNIT_ROUNDOFF { y } else { T::of(drawn(seed, y.wide(), unit * size * (squares / 3.0).sqrt())) }
    }
}

/// A rounding point: a storage type and a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rounding {
    /// What the value is stored in.
    pub storage: Storage,
    /// How it is rounded to that.
    pub mode: Mode,
}

impl Storage {
    /// Significand bits, the hidden one included, and the exponent of the smallest normal number.
    #[inline]
    const fn format(self) -> (i32, i32, f64) {
        match self {
            Storage::Real => (53, -1022, f64::MAX),
            Storage::F32 => (24, -126, f32::MAX as f64),
            Storage::Tf32(_) => (11, -126, 3.401_162_134_214_653_5e38),
            Storage::F16 => (11, -14, 65504.0),
            Storage::Bf16 => (8, -126, 3.389_531_389_251_535_5e38),
            Storage::E4m3 => (4, -6, 448.0),
            Storage::E5m2 => (3, -14, 57_344.0),
        }
    }

    /// The largest number; of [`Storage::Real`] that of f64.
    pub const fn largest(self) -> f64 {
        self.format().2
    }

    /// u: the largest relative error of rounding a normal number, 2⁻ᵖ where that is to nearest; 0 for [`Storage::Real`].
    pub fn unit_roundoff(self) -> f64 {
        match self {
            Storage::Real => 0.0,
            Storage::Tf32(Tf32::Rz) => power_of_two(1 - self.format().0),
            _ => power_of_two(-self.format().0),
        }
    }

    /// The smallest positive normal number; below it a device may flush to zero. 0 for [`Storage::Real`].
    pub fn smallest_normal(self) -> f64 {
        match self {
            Storage::Real => 0.0,
            _ => power_of_two(self.format().1),
        }
    }

    /// The largest error of rounding a number below the smallest normal one: a type with f32's exponents may be flushed
    /// to zero, while narrower ones keep their subnormal numbers on every device. 0 for [`Storage::Real`].
    pub fn underflow(self) -> f64 {
        match self {
            Storage::Real => 0.0,
            Storage::F16 | Storage::E4m3 | Storage::E5m2 => self.spacing(0.0) / 2.0,
            Storage::F32 | Storage::Tf32(_) | Storage::Bf16 => self.smallest_normal(),
        }
    }

    /// The largest error of rounding a number of magnitude up to |x|: half the distance of neighbours there, or all of it towards 0,
    /// and flushing to zero.
    pub fn rounding_error(self, x: f64) -> f64 {
        match self {
            Storage::Real => 0.0,
            _ if !x.is_finite() => x.abs(),
            Storage::E4m3 | Storage::E5m2 if x.abs() > self.beyond() => x.abs() - self.beyond(),
            Storage::Tf32(Tf32::Rz) => self.spacing(x) + self.underflow(),
            _ => self.spacing(x) / 2.0 + self.underflow(),
        }
    }

    /// The distance between the two neighbours of x in this storage.
    pub fn spacing(self, x: f64) -> f64 {
        let (bits, smallest, _) = self.format();
        power_of_two(exponent(x).max(smallest) - bits + 1)
    }

    /// x to the nearest value of this storage, ties to even, or as its [`Tf32`] says; beyond the largest, ±∞.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that cast rounds to nearest, ties to even")]
    pub fn nearest(self, x: f64) -> f64 {
        match self {
            Storage::Real => x,
            Storage::F32 => f64::from(x as f32),
            Storage::Tf32(Tf32::Rn) => Storage::Tf32(Tf32::Rn).nearest_of_bits(x),
            Storage::Tf32(Tf32::Rna) => self.carried(x, |dropped, _| 1 << (dropped - 1), f64::round),
            Storage::Tf32(Tf32::Rz) => self.carried(x, |_, _| 0, f64::trunc),
            Storage::F16 => Storage::F16.nearest_of_bits(x),
            Storage::Bf16 => Storage::Bf16.nearest_of_bits(x),
            Storage::E4m3 => Storage::E4m3.nearest_of_bits(x),
            Storage::E5m2 => Storage::E5m2.nearest_of_bits(x),
        }
    }

    /// The same by the bits that are dropped; inlined where the storage is known, so that all about it is constant.
    #[inline]
    fn nearest_of_bits(self, x: f64) -> f64 {
        // Adding just under half of the last kept bit, or half if that bit is odd, carries exactly when x rounds up.
        self.carried(x, |dropped, odd| (1 << (dropped - 1)) - 1 + odd, f64::round_ties_even)
    }

    /// x with something added to the bits that are dropped, by how many these are and the last of those that are kept; or in units.
    #[inline]
    fn carried(self, x: f64, added: impl Fn(i32, u64) -> u64, to_integer: fn(f64) -> f64) -> f64 {
        let (bits, smallest, largest) = self.format();
        if !is_between(x, smallest) {
            return self.on_grid(x, to_integer);
        }
        let dropped = 53 - bits;
        let odd = x.to_bits() >> dropped & 1;
        let rounded = f64::from_bits((x.to_bits() + added(dropped, odd)) >> dropped << dropped);
        if rounded.abs() > largest { self.beyond().copysign(x) } else { rounded }
    }

    /// x to one of its two neighbours in this storage, by random bits: to the farther from 0 as often as x is on the way to it. What
    /// drops bits is always off in one direction, in any run.
    #[inline]
    fn at_random(self, x: f64, random: u64) -> f64 {
        match self {
            Storage::Real => x,
            Storage::F32 => Storage::F32.at_random_of_bits(x, random),
            Storage::Tf32(Tf32::Rz) => self.nearest(x),
            Storage::Tf32(_) => Storage::Tf32(Tf32::Rn).at_random_of_bits(x, random),
            Storage::F16 => Storage::F16.at_random_of_bits(x, random),
            Storage::Bf16 => Storage::Bf16.at_random_of_bits(x, random),
            Storage::E4m3 => Storage::E4m3.at_random_of_bits(x, random),
            Storage::E5m2 => Storage::E5m2.at_random_of_bits(x, random),
        }
    }

    /// The same by the bits that are dropped; inlined where the storage is known.
    #[inline]
    fn at_random_of_bits(self, x: f64, random: u64) -> f64 {
        let (bits, smallest, largest) = self.format();
        if !is_between(x, smallest) {
            return self.on_grid(x, |units| {
                let (size, whole) = (units.abs(), units.abs().floor());
                let rounded = if size - whole > unit_interval(random) { whole + 1.0 } else { whole };
                rounded.copysign(units)
            });
        }
        // As many random bits as are dropped carry as often as what is dropped is of a neighbours' distance.
        let dropped = 53 - bits;
        let rounded = f64::from_bits((x.to_bits() + (random >> (64 - dropped))) >> dropped << dropped);
        if rounded.abs() > largest { self.beyond().copysign(x) } else { rounded }
    }

    /// What is beyond the largest number.
    fn beyond(self) -> f64 {
        if matches!(self, Storage::E4m3 | Storage::E5m2) { self.largest() } else { f64::INFINITY }
    }

    /// How far a number at most `error` from x may be from x when both are rounded to nearest.
    pub fn apart(self, x: f64, error: f64) -> f64 {
        let [low, middle, high] = [x - error, x, x + error].map(|x| self.nearest(x));
        (high - middle).max(middle - low)
    }

    /// Whether x is a value of this storage.
    pub fn holds(self, x: f64) -> bool {
        x.is_nan() || self.nearest(x) == x
    }

    /// x in units of its neighbours' distance, rounded by `to_integer`, and back. Scaling by a power of two is exact.
    #[cold]
    #[inline(never)]
    fn on_grid(self, x: f64, to_integer: impl Fn(f64) -> f64) -> f64 {
        if self == Storage::Real || x == 0.0 || x.is_nan() {
            return x;
        }
        if x.is_infinite() {
            return self.beyond().copysign(x);
        }
        let spacing = self.spacing(x);
        let rounded = to_integer(x / spacing) * spacing;
        if rounded.abs() > self.largest() { self.beyond().copysign(x) } else { rounded }
    }
}

impl Rounding {
    /// No rounding.
    pub const NONE: Rounding = Rounding { storage: Storage::Real, mode: Mode::Nearest };

    /// To the nearest of `storage`.
    pub const fn nearest(storage: Storage) -> Self {
        Rounding { storage, mode: Mode::Nearest }
    }

    /// x, rounded.
    #[inline]
    pub fn round<T: Real>(self, x: T) -> T {
        match (self.storage, self.mode) {
            (Storage::Real, _) => x,
            (Storage::F32, Mode::Nearest | Mode::Sums(_) | Mode::Ordered) => T::of(Storage::F32.nearest(x.wide())),
            _ => T::of(self.rounded(x.wide())),
        }
    }

    /// The same of all others, apart, so that [`Rounding::round`] is small enough to be inlined.
    fn rounded(self, x: f64) -> f64 {
        match self.mode {
            Mode::Nearest | Mode::Sums(_) | Mode::Ordered => self.storage.nearest(x),
            Mode::Stochastic(seed) => self.storage.at_random(x, random(seed, x)),
        }
    }

    /// Each of x, rounded: what it is rounded to is asked once, so that many are rounded at a time.
    pub fn round_all<T: Real>(self, x: &mut [T]) {
        match self.storage {
            Storage::Real => {}
            Storage::F32 => self.each(x, |x| Storage::F32.nearest(x), |x, bits| Storage::F32.at_random(x, bits)),
            Storage::Tf32(_) => self.each(x, |x| self.storage.nearest(x), |x, bits| self.storage.at_random(x, bits)),
            Storage::F16 => self.each(x, |x| Storage::F16.nearest(x), |x, bits| Storage::F16.at_random(x, bits)),
            Storage::Bf16 => self.each(x, |x| Storage::Bf16.nearest(x), |x, bits| Storage::Bf16.at_random(x, bits)),
            Storage::E4m3 => self.each(x, |x| Storage::E4m3.nearest(x), |x, bits| Storage::E4m3.at_random(x, bits)),
            Storage::E5m2 => self.each(x, |x| Storage::E5m2.nearest(x), |x, bits| Storage::E5m2.at_random(x, bits)),
        }
    }

    #[inline]
    fn each<T: Real>(self, x: &mut [T], nearest: impl Fn(f64) -> f64, at_random: impl Fn(f64, u64) -> f64) {
        let round = |x: f64| match self.mode {
            Mode::Nearest | Mode::Sums(_) | Mode::Ordered => nearest(x),
            Mode::Stochastic(seed) => at_random(x, random(seed, x)),
        };
        for x in x {
            *x = T::of(round(x.wide()));
        }
    }
}

/// Whether x is finite and not below the power of two of that exponent in magnitude.
#[inline]
fn is_between(x: f64, smallest: i32) -> bool {
    x.is_finite() && exponent(x) >= smallest
}

/// The exponent e of 2ᵉ ≤ |x| < 2ᵉ⁺¹, for a finite x that is not 0 (subnormal f64 count as the smallest).
#[inline]
pub(crate) fn exponent(x: f64) -> i32 {
    let biased = x.to_bits() >> 52 & 0x7ff;
    i32::try_from(biased).expect("eleven bits") - 1023
}

/// The power of two that is not below x; the least that there is, where x is not above 0.
pub fn power_above(x: f64) -> f64 {
    if x <= 0.0 {
        return power_of_two(-1074);
    }
    let below = power_of_two(exponent(x));
    if below < x { 2.0 * below } else { below }
}

/// 2ⁿ, for an n of a finite f64.
#[inline]
pub(crate) fn power_of_two(n: i32) -> f64 {
    f64::from_bits(match u64::try_from(n + 1022) {
        Ok(above_smallest) => (above_smallest + 1) << 52,
        Err(_) => 1 << u32::try_from(n + 1074).expect("no storage has numbers below f64's"),
    })
}

/// Bits that depend on the seed and on every bit of x (the finalizer of splitmix64).
#[inline]
fn random(seed: u64, x: f64) -> u64 {
    let mut z = x.to_bits() ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The number in [0, 1) that random bits stand for.
#[inline]
fn unit_interval(random: u64) -> f64 {
    f64::from_bits(1.0_f64.to_bits() | random >> 12) - 1.0
}

/// x with an error of such a standard deviation, each as probable as any other.
#[inline]
pub(crate) fn drawn(seed: u64, x: f64, deviation: f64) -> f64 {
    // √12: what is drawn from [0, 1) has a standard deviation of 1 of it.
    const WIDTH: f64 = 3.464_101_615_137_754_4;
    x + WIDTH * deviation * (unit_interval(random(seed, x)) - 0.5)
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Storage::Real => "real",
            Storage::F32 => "f32",
            Storage::Tf32(Tf32::Rn) => "tf32",
            Storage::Tf32(Tf32::Rna) => "tf32_rna",
            Storage::Tf32(Tf32::Rz) => "tf32_rz",
            Storage::F16 => "f16",
            Storage::Bf16 => "bf16",
            Storage::E4m3 => "e4m3",
            Storage::E5m2 => "e5m2",
        })
    }
}

impl FromStr for Storage {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        match s {
            "real" => Ok(Storage::Real),
            "f32" => Ok(Storage::F32),
            "tf32" => Ok(Storage::Tf32(Tf32::Rn)),
            "tf32_rna" => Ok(Storage::Tf32(Tf32::Rna)),
            "tf32_rz" => Ok(Storage::Tf32(Tf32::Rz)),
            "f16" => Ok(Storage::F16),
            "bf16" => Ok(Storage::Bf16),
            "e4m3" => Ok(Storage::E4m3),
            "e5m2" => Ok(Storage::E5m2),
            _ => Err(ParseError::new("storage", s, "real, f32, tf32, tf32_rna, tf32_rz, f16, bf16, e4m3 or e5m2")),
        }
    }
}
