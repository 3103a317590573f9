//! Cases for property tests: matrices by fill, size and seed, so that a failing case prints on one line, and contracts.

use std::fmt;
use std::ops::Deref;

use ndarray::{Array1, Array2};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::accumulator::{Accumulator, TensorCore};
use reference::bound::ErrorBound;
use reference::rounding::{
    ActivationRound, AttentionRound, Chain, ExpertSum, GateRound, NormInput, RmsRound, RoutingRound,
};
use reference::{Real, RoundingContract, Storage, Tracked};

/// How a matrix is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Bell-shaped, each row with a scale of its own, one element in 64 an outlier.
    Activation,
    /// All zero.
    Zero,
    /// Bell-shaped, and one element of each row 2¹⁴ times larger (2⁶ times in f16).
    OneHuge,
    /// Below the smallest normal number.
    Subnormal,
    /// a, −a, a, −a, …
    Alternating,
    /// Large elements whose sum is zero, small ones in between.
    Cancelling,
    /// One value everywhere.
    Equal,
    /// Whole numbers from −8 to 8: sums of up to 2¹⁸ products of two are exact in f32, in any order.
    Whole,
    /// Plus or minus the largest finite number. Operators overflow on it, so it is drawn only where asked for.
    Largest,
}

impl Fill {
    /// Those on which a correct implementation does not overflow.
    pub const FINITE: [Fill; 8] = [
        Fill::Activation,
        Fill::Zero,
        Fill::OneHuge,
        Fill::Subnormal,
        Fill::Alternating,
        Fill::Cancelling,
        Fill::Equal,
        Fill::Whole,
    ];

    /// Those on which errors are as good as independent. Where elements are equal or opposite, so are their roundings.
    pub const RANDOM: [Fill; 6] =
        [Fill::Activation, Fill::Zero, Fill::OneHuge, Fill::Subnormal, Fill::Cancelling, Fill::Whole];
}

/// A matrix whose elements are values of `storage` (of f32, if that is [`Storage::Real`]).
#[derive(Clone)]
pub struct Matrix {
    value: Array2<f64>,
    fill: Fill,
    storage: Storage,
    range: Storage,
    seed: u64,
}

impl Matrix {
    /// The same matrix for the same arguments, always.
    pub fn new(dim: (usize, usize), fill: Fill, storage: Storage, seed: u64) -> Self {
        Matrix::ranging(dim, fill, storage, storage, seed)
    }

    /// A matrix whose elements are of the size that `range` has room for, to the precision of `storage`.
    pub fn ranging((n, d): (usize, usize), fill: Fill, storage: Storage, range: Storage, seed: u64) -> Self {
        let real = |storage| if storage == Storage::Real { Storage::F32 } else { storage };
        let (storage, range) = (real(storage), real(range));
        // Products of two elements, and their sums, shall stay below f16's 65,504.
        let (top, large) = if range == Storage::F16 { (0, 64.0) } else { (3, 16_384.0) };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut value = Array2::zeros((n, d));
        for mut row in value.rows_mut() {
            let scale = 2.0_f64.powi(rng.random_range(-3..=top));
            let (equal, huge) = (scale * bell(&mut rng), rng.random_range(0..d.max(1)));
            for (j, x) in row.iter_mut().enumerate() {
                *x = storage.nearest(match fill {
                    Fill::Activation => scale * bell(&mut rng) * if rng.random_ratio(1, 64) { 32.0 } else { 1.0 },
                    Fill::Zero => 0.0,
                    Fill::OneHuge => scale * bell(&mut rng) * if j == huge { large } else { 1.0 },
                    Fill::Subnormal => range.smallest_normal() * bell(&mut rng) / 8.0,
                    Fill::Alternating => equal * if j % 2 == 0 { 1.0 } else { -1.0 },
                    Fill::Cancelling => match j % 4 {
                        0 => large / 16.0 * equal,
                        2 => -large / 16.0 * equal,
                        _ => bell(&mut rng) / 16.0,
                    },
                    Fill::Equal => equal,
                    Fill::Whole => f64::from(rng.random_range(-8..=8)),
                    Fill::Largest => largest(storage) * if rng.random::<bool>() { 1.0 } else { -1.0 },
                });
            }
        }
        Matrix { value, fill, storage, range, seed }
    }

    /// The values, to change.
    pub fn values(&self) -> Array2<f64> {
        self.value.clone()
    }

    /// The values in the arithmetic of a device, exactly.
    pub fn f32(&self) -> Array2<f32> {
        self.value.mapv(f32::of)
    }

    /// The first row.
    pub fn vector(&self) -> Array1<f64> {
        self.value.row(0).to_owned()
    }

    /// The type of its elements.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The values as they are stored.
    pub fn stored(&self) -> reference::matrix::Matrix<'static> {
        reference::matrix::Matrix::stored(self.value.view(), self.storage)
    }

    /// The values, without error.
    pub fn exact(&self) -> Tracked<f64> {
        Tracked::exact(self.value.clone())
    }
}

impl Deref for Matrix {
    type Target = Array2<f64>;

    fn deref(&self) -> &Array2<f64> {
        &self.value
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Matrix { value, fill, storage, range, seed } = self;
        write!(f, "{fill:?} {storage} in {range} {}×{} seed {seed}", value.nrows(), value.ncols())
    }
}

/// The largest finite value.
pub fn largest(storage: Storage) -> f64 {
    match storage {
        Storage::Real => f64::MAX,
        Storage::F32 => f64::from(f32::MAX),
        Storage::Tf32(_) => f64::from(f32::from_bits(0x7f7f_e000)),
        Storage::F16 => half::f16::MAX.to_f64(),
        Storage::Bf16 => half::bf16::MAX.to_f64(),
        Storage::E4m3 => 448.0,
        Storage::E5m2 => 57_344.0,
    }
}

/// A number of mean 0 and variance 1, at most 6 (a sum of twelve uniform ones).
fn bell(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

/// A matrix of any finite fill.
pub fn matrix(dim: (usize, usize), storage: Storage) -> impl Strategy<Value = Matrix> {
    filled(dim, finite(), storage)
}

/// Any finite fill.
pub fn finite() -> impl Strategy<Value = Fill> + Clone {
    proptest::sample::select(&Fill::FINITE[..])
}

/// Any fill on which errors are as good as independent.
pub fn random() -> impl Strategy<Value = Fill> + Clone {
    proptest::sample::select(&Fill::RANDOM[..])
}

/// A matrix of such a fill.
pub fn filled(
    dim: (usize, usize),
    fill: impl Strategy<Value = Fill>,
    storage: Storage,
) -> impl Strategy<Value = Matrix> {
    ranging(dim, fill, storage, storage)
}

/// A matrix of such a fill, of the size that `range` has room for.
pub fn ranging(
    dim: (usize, usize),
    fill: impl Strategy<Value = Fill>,
    storage: Storage,
    range: Storage,
) -> impl Strategy<Value = Matrix> {
    (fill, any::<u16>()).prop_map(move |(fill, seed)| Matrix::ranging(dim, fill, storage, range, seed.into()))
}

/// How the errors of a [`Perturbed`] matrix are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// None.
    Exact,
    /// Anywhere up to the largest.
    Uniform,
    /// Each the largest, of either sign.
    Extreme,
}

/// A matrix, its error bound, and a value that has such errors.
pub struct Perturbed {
    /// The value before, with its bound.
    pub tracked: Tracked<f64>,
    /// The value after; exact in f32.
    pub moved: Array2<f64>,
}

impl Perturbed {
    /// Errors of up to `relative` of each element and `absolute` besides. The standard deviation is that of the draw.
    pub fn new(x: &Array2<f64>, errors: Errors, relative: f64, absolute: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut error = ErrorBound::exact(x.dim());
        let mut moved = x.clone();
        if errors != Errors::Exact {
            let sigma = if errors == Errors::Uniform { 3.0_f64.sqrt().recip() } else { 1.0 };
            for (i, x) in moved.indexed_iter_mut() {
                let limit = relative * x.abs() + absolute;
                let share = if errors == Errors::Uniform {
                    rng.random_range(-1.0..1.0)
                } else if rng.random::<bool>() {
                    1.0
                } else {
                    -1.0
                };
                let to = f32::of(*x + share * limit).wide();
                error.certain[i] = limit.max((to - *x).abs());
                error.sigma[i] = sigma * error.certain[i];
                *x = to;
            }
        }
        Perturbed { tracked: Tracked { value: x.clone(), error: Some(error) }, moved }
    }

    /// The value after, in the arithmetic of a device, exactly.
    pub fn f32(&self) -> Array2<f32> {
        self.moved.mapv(f32::of)
    }
}

/// Errors and their size, relative to an element and absolute, as powers of two.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// How they are drawn.
    pub errors: Errors,
    /// Of the largest error relative to an element; the largest absolute one is 2⁻⁴ of it.
    pub size: f64,
    seed: u64,
}

impl Noise {
    /// None.
    pub const NONE: Noise = Noise { errors: Errors::Exact, size: 0.0, seed: 0 };

    /// `x` with such errors; `which` tells the operands of one operator apart.
    pub fn on(&self, x: &Array2<f64>, which: u64) -> Perturbed {
        Perturbed::new(x, self.errors, self.size, self.size / 16.0, self.seed << 3 | which)
    }
}

/// No errors, errors about those of bf16, or some that are far from linear.
pub fn noise() -> impl Strategy<Value = Noise> {
    let errors = prop_oneof![Just(Errors::Exact), Just(Errors::Uniform), Just(Errors::Extreme)];
    (errors, -20..=-2, any::<u16>()).prop_map(|(errors, exponent, seed)| Noise {
        errors,
        size: 2.0_f64.powi(exponent),
        seed: seed.into(),
    })
}

/// A rounding contract that prints as it is written on a command line.
#[derive(Clone, Copy)]
pub struct Contract(pub RoundingContract);

impl Deref for Contract {
    type Target = RoundingContract;

    fn deref(&self) -> &RoundingContract {
        &self.0
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The presets that round, each about one time in ten, and mixtures of them; but for that of our own kernels, whose sums of
/// rows are of one order.
pub fn contract() -> impl Strategy<Value = Contract> {
    let presets = RoundingContract::PRESETS.into_iter().filter(|(name, _)| !["ideal", "parity"].contains(name));
    let presets: Vec<Contract> = presets.map(|(_, contract)| Contract(contract)).collect();
    prop_oneof![proptest::sample::select(presets), mixture()]
}

/// Any combination of a contract's fields.
fn mixture() -> impl Strategy<Value = Contract> {
    let storage = prop_oneof![Just(Storage::F32), Just(Storage::F16), Just(Storage::Bf16)];
    let accumulator = prop_oneof![
        Just(Accumulator::F32),
        Just(Accumulator::HOPPER_512),
        (2..5_u32, 20..26, 20..24, prop::option::of(5..8_u32)).prop_map(|(k, fraction, result, promote)| {
            Accumulator::TensorCore(TensorCore { k: 1 << k, fraction, result, promote: promote.map(|p| 1 << p) })
        })
    ];
    let chain = || prop_oneof![Just(Chain::Each), Just(Chain::Once)];
    // A running sum of f16 overflows where other types do not: it has tests of its own.
    let attention = prop::sample::select(vec![
        AttentionRound::Eager,
        AttentionRound::Flash,
        AttentionRound::Sdpa,
        AttentionRound::Operands,
        AttentionRound::Uncast,
    ]);
    let experts = prop::sample::select(vec![
        ExpertSum::Once,
        ExpertSum::Each,
        ExpertSum::EachUnordered,
        ExpertSum::Running,
        ExpertSum::Products,
        ExpertSum::Weighted,
        ExpertSum::Whole,
    ]);
    let swiglu = prop::sample::select(vec![ActivationRound::Each, ActivationRound::Sigmoid, ActivationRound::Once]);
    let narrower = || prop::sample::select(vec![Storage::Real, Storage::F16, Storage::Bf16]);
    let rounds = (chain(), chain(), attention, experts, swiglu, narrower(), narrower());
    (storage, accumulator, rounds, any::<[bool; 7]>()).prop_map(move |(storage, accumulator, rounds, b)| {
        let (qk, rope, attention, experts, swiglu, operands, kv_cache) = rounds;
        Contract(RoundingContract {
            activations: storage,
            accumulator,
            rms: if b[0] { RmsRound::Two } else { RmsRound::One },
            qk_rms: if b[1] { RmsRound::Two } else { RmsRound::One },
            qk_norm: qk,
            rope,
            attention,
            gate: if b[2] { GateRound::Stored } else { GateRound::Activations },
            routing: if b[3] { RoutingRound::F32 } else { RoutingRound::Activations },
            swiglu,
            experts,
            operands,
            kv_cache,
            norm_input: match (b[6], b[4]) {
                (true, _) => NormInput::Stored,
                (false, true) => NormInput::Sum,
                (false, false) => NormInput::Fused,
            },
            ..RoundingContract::IDEAL
        })
    })
}
