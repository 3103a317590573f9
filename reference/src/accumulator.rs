//! How a device adds up the products of a dot product, as far as an error bound needs to know.
//!
//! With A = Σ|aₖ||bₖ| over `terms` products, a sum ŝ of s = Σ aₖbₖ keeps |ŝ − s| ≤ c·A. For additions that round to
//! nearest, c = γ = nu / (1 − nu) in any order (Higham, section 3.1, products fused or rounded). Tensor cores align all
//! addends of a step to the largest exponent and truncate (MMA-Sim), so their errors add with one sign, and no law
//! with √n holds.
//!
//! The sums of split products (split-K, stream-K) are f32 additions, of which a chain of steps without a promotion has
//! more than they cost. A library that rounds those partial sums to bf16 (PyTorch's reduced-precision reductions) has a
//! rounding more than any accumulator here.
//!
//! The tensor cores' parameters are MMA-Sim's (arXiv 2511.10909, `mmasim/simulator/nv_ptx.py`), which holds them bit for bit
//! against the hardware; that Hopper's 8-bit sums keep 13 bits is in DeepSeek-V3's report too (arXiv 2412.19437, section
//! 3.3.2), as is the promotion after 128 products that `DeepGEMM` makes.

use std::fmt;
use std::str::FromStr;

use crate::Real;
use crate::error::ParseError;
use crate::storage::{FLUSHED, Mode, drawn};

/// An accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// f64 additions.
    F64,
    /// f32 additions in any order, to nearest.
    F32,
    /// The same, where factors, products and sums below the smallest normal number count as zero.
    F32Flushed,
    /// A tensor core that sums k products and the accumulator in one step.
    TensorCore(TensorCore),
    /// Of a device that nobody named: as far off as the worst [device](DEVICES) in use, and with no probable part. AMD's and
    /// Apple's matrix units are not among them, because no model of them is known here.
    Unknown,
}

/// The parameters of a tensor core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorCore {
    /// Products summed in one step.
    pub k: u32,
    /// F: bits kept below the largest addend's exponent; what is below is cut off.
    pub fraction: i32,
    /// f: fraction bits of the step's result; what is below is cut off.
    pub result: i32,
    /// After so many products the sum is added to an f32, to nearest, and starts anew; `None` if it never does.
    pub promote: Option<u32>,
}

impl Accumulator {
    /// c of |ŝ − s| ≤ c·A.
    pub fn certain(self, terms: usize) -> f64 {
        match self {
            Accumulator::F64 => gamma(terms, f64::UNIT_ROUNDOFF),
            Accumulator::F32 | Accumulator::F32Flushed => gamma(terms, f32::UNIT_ROUNDOFF),
            Accumulator::TensorCore(core) => core.certain(terms),
            Accumulator::Unknown => worst(terms),
        }
    }

    /// v of Var(ŝ) ≤ v·(Σ(aₖbₖ)² + s²), for roundings that are independent and centred; `None` where they are not, or
    /// where nobody knows.
    ///
    /// A partial sum sₜ of a random walk with drift has E Σsₜ² ≤ n/2·(Σ(aₖbₖ)² + s²), and a rounding to nearest has a
    /// variance of at most u²sₜ²/3.
    #[inline]
    pub fn variance(self, terms: usize) -> Option<f64> {
        let unit = match self {
            Accumulator::F64 => f64::UNIT_ROUNDOFF,
            Accumulator::F32 | Accumulator::F32Flushed => f32::UNIT_ROUNDOFF,
            Accumulator::TensorCore(_) | Accumulator::Unknown => return None,
        };
        Some(unit * unit / 3.0 * (terms as f64 / 2.0 + 1.0))
    }

    /// A draw of what a correct device may compute instead of y = Σ aₖbₖ: off by a centred error of the variance above
    /// (that of f32 additions where there is none). Exactly y unless the mode is stochastic.
    #[inline]
    pub fn drawn<T: Real>(self, mode: Mode, terms: usize, squares: T, y: T) -> T {
        let (Mode::Stochastic(seed) | Mode::Sums(seed)) = mode else { return y };
        if self == Accumulator::F64 {
            return y;
        }
        let variance = Accumulator::F32.variance(terms).unwrap_or(0.0);
        let y = y.wide();
        T::of(drawn(seed, y, (variance * (squares.wide() + y * y)).sqrt()))
    }

    /// Below this a product or a sum may be flushed to zero.
    pub fn smallest_normal(self) -> f64 {
        match self {
            Accumulator::F64 => f64::MIN_POSITIVE,
            _ => FLUSHED,
        }
    }

    /// Below this a factor may count as zero, so that a product a·b is off by up to so much times |a| + |b|.
    pub fn flushed_factor(self) -> f64 {
        match self {
            Accumulator::F32Flushed | Accumulator::Unknown => FLUSHED,
            Accumulator::F64 | Accumulator::F32 | Accumulator::TensorCore(_) => 0.0,
        }
    }
}

impl TensorCore {
    /// c of |ŝ − s| ≤ c·A.
    ///
    /// In a step k + 1 addends lose up to 2^−F of the largest, and the result 2^−f of itself, both no more than A and the
    /// error so far: so with p = (k + 1)·2^−F + 2^−f, T steps are off by ((1 + p)ᵀ − 1)·A. f32 additions promote them.
    fn certain(self, terms: usize) -> f64 {
        let promote = self.promote.map_or(terms.max(1), |promote| promote as usize);
        let steps = terms.min(promote).div_ceil(self.k as usize) as f64;
        let per_step = f64::from(self.k + 1) * 2.0_f64.powi(-self.fraction) + 2.0_f64.powi(-self.result);
        let chain = (steps * per_step.ln_1p()).exp_m1();
        let promotions = self.promote.map_or(0, |_| terms.div_ceil(promote));
        chain + gamma(promotions, f32::UNIT_ROUNDOFF) * (1.0 + chain)
    }
}

/// γₙ = nu / (1 − nu).
pub fn gamma(n: usize, unit: f64) -> f64 {
    let nu = n as f64 * unit;
    nu / (1.0 - nu)
}

/// The name of a device, or the parameters of a tensor core that has none.
impl fmt::Display for Accumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (DEVICES.iter().find(|device| device.accumulator == *self), self) {
            (Some(device), _) => f.write_str(device.name),
            (None, Accumulator::TensorCore(TensorCore { k, fraction, result, promote })) => {
                write!(f, "tensor:{k}:{fraction}:{result}")?;
                promote.map_or(Ok(()), |promote| write!(f, ":{promote}"))
            }
            (None, Accumulator::F64) => f.write_str("f64"),
            (None, _) => f.write_str("unknown"),
        }
    }
}

impl FromStr for Accumulator {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let error = || {
            let names: Vec<&str> = DEVICES.iter().map(|device| device.name).collect();
            let expected = format!("unknown, f64, {} or tensor:K:FRACTION:RESULT[:PROMOTE]", names.join(", "));
            ParseError::new("accumulator", s, expected)
        };
        if let Some(device) = DEVICES.iter().find(|device| device.name == s) {
            return Ok(device.accumulator);
        }
        match s {
            "unknown" => return Ok(Accumulator::Unknown),
            "f64" => return Ok(Accumulator::F64),
            _ => {}
        }
        let numbers: Vec<i32> = s
            .strip_prefix("tensor:")
            .ok_or_else(error)?
            .split(':')
            .map(|n| n.parse().ok().filter(|n| (1..=1 << 20).contains(n)))
            .collect::<Option<_>>()
            .ok_or_else(error)?;
        let (k, fraction, result, promote) = match numbers[..] {
            [k, fraction, result] => (k, fraction, result, None),
            [k, fraction, result, promote] => (k, fraction, result, Some(promote)),
            _ => return Err(error()),
        };
        let positive = |n: i32| u32::try_from(n).expect("at least 1");
        Ok(Accumulator::TensorCore(TensorCore { k: positive(k), fraction, result, promote: promote.map(positive) }))
    }
}

/// A device, or a library on one, and how it adds up products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// What it is called where a precision is given.
    pub name: &'static str,
    /// How it adds.
    pub accumulator: Accumulator,
    /// What it adds products of.
    pub factors: Factors,
    /// In words.
    pub description: &'static str,
}

/// What is multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factors {
    /// f32, bf16, and what else an f32 holds.
    Any,
    /// bf16 and f16.
    Sixteen,
    /// bf16 alone.
    Bf16,
    /// f16 alone.
    F16,
    /// e4m3 and e5m2.
    Eight,
}

impl Accumulator {
    /// bf16 and f16 on a Hopper tensor core, `wgmma` or `mma.sync`, never promoted.
    pub const HOPPER: Accumulator = tensor_core(16, 25, 23, None);

    /// The same, chunks of 512 products added in f32: what our kernels do.
    pub const HOPPER_512: Accumulator = tensor_core(16, 25, 23, Some(512));

    /// bf16 and f16 on an Ampere or Ada tensor core: an instruction of 16 products is two steps.
    pub const AMPERE: Accumulator = tensor_core(8, 24, 23, None);
}

const fn tensor_core(k: u32, fraction: i32, result: i32, promote: Option<u32>) -> Accumulator {
    Accumulator::TensorCore(TensorCore { k, fraction, result, promote })
}

const fn device(name: &'static str, accumulator: Accumulator, factors: Factors, description: &'static str) -> Device {
    Device { name, accumulator, factors, description }
}

/// The devices that are known. Of equal ones the first gives its name to what is printed.
pub const DEVICES: [Device; 13] = [
    device("f32", Accumulator::F32, Factors::Any, "a processor, or a GPU without its tensor cores, in any order"),
    device(
        "avx512_bf16",
        Accumulator::F32Flushed,
        Factors::Bf16,
        "VDPBF16PS and AMX, as PyTorch multiplies bf16 on a processor that has them: products in pairs, subnormal numbers zero",
    ),
    device(
        "hopper",
        Accumulator::HOPPER,
        Factors::Sixteen,
        "wgmma and mma.sync, never promoted: cuBLAS, CUTLASS, Triton",
    ),
    device(
        "hopper_512",
        Accumulator::HOPPER_512,
        Factors::Sixteen,
        "mma.sync, promoted every 512 products: our kernels",
    ),
    device("ampere", Accumulator::AMPERE, Factors::Sixteen, "mma.sync"),
    device("ada", Accumulator::AMPERE, Factors::Sixteen, "mma.sync"),
    device("turing", Accumulator::AMPERE, Factors::F16, "mma.sync"),
    device("volta", tensor_core(4, 23, 23, None), Factors::F16, "mma.sync"),
    device("blackwell", Accumulator::HOPPER, Factors::Sixteen, "tcgen05"),
    device(
        "hopper_fp8",
        tensor_core(32, 13, 13, None),
        Factors::Eight,
        "wgmma, never promoted: cuBLAS with fast accumulation",
    ),
    device(
        "hopper_fp8_128",
        tensor_core(32, 13, 13, Some(128)),
        Factors::Eight,
        "wgmma, promoted every 128 products: DeepGEMM",
    ),
    device("hopper_fp8_mma", tensor_core(32, 25, 23, None), Factors::Eight, "mma.sync"),
    device("ada_fp8", tensor_core(16, 13, 13, None), Factors::Eight, "mma.sync"),
];

/// c of the worst device that multiplies f32 or bf16. One that adds 8-bit products, or knows no bf16, has to be named.
fn worst(terms: usize) -> f64 {
    let in_use = |device: &&Device| matches!(device.factors, Factors::Any | Factors::Sixteen | Factors::Bf16);
    DEVICES.iter().filter(in_use).map(|device| device.accumulator.certain(terms)).fold(0.0, f64::max)
}
