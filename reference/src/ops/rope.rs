//! RoPE: rotates pairs of a head's first channels by an angle that grows with the position.
//!
//! ```text
//! yᵢ = ρ(xᵢ·cᵢ) − ρ(xᵢ₊ₕ·sᵢ)        yᵢ₊ₕ = ρ(xᵢ₊ₕ·cᵢ₊ₕ) + ρ(xᵢ·sᵢ₊ₕ)        c, s = cos, sin of t·θ^(−2i/2h)
//! ```
//!
//! - Shapes: x \[n, heads·d\], c and s \[n, 2h\], y \[n, heads·d\]; position t of row n; i < h.
//! - Dtypes: x and y bf16; the angles, c and s f32.
//! - Rounding: R1 at c and s, R2 at ρ, R3 at y; R4 at the channels that do not rotate, where x was not stored.
//! - Errors: C1 columns of x = heads·d; C2 2h even and at most d, h a multiple of the runs; C3 a row of c and s for each of x.
//! - Variants: D01 first or last channels; D02 pairs i with i + h, or 2i with 2i + 1, or i with i + d/2; D52 pairs within each of three runs
//!   of channels. Slips of ports: t is off from some position on, or a bf16, or of another call; the exponent is divided by d;
//!   frequencies are divided by a number, or scaled for a longer context, or they or angles are bf16; c and s are multiplied by
//!   one; each in all layers or in some.
//! - Source: spec A6; `apply_rotary_pos_emb` in transformers 5.23. θ⁻²ⁱ⸍²ʰ and the angle are f32 there, and at a million
//!   positions that decides 0.03 rad; so the table is made once, here, and given to the kernels.

use ndarray::{Array2, ArrayView2};

use crate::bound::ErrorBound;
use crate::bound::elementary::rotation_table;
use crate::error::require;
use crate::parallel::{self, ELEMENT};
use crate::rounding::Chain;
use crate::semantics::{AngleType, PositionShift, RopeFrequency, RopePair, RopePart, RopePosition, RopeScaling};
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract, Storage};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// d: channels of a head.
    pub head_dim: usize,
    /// 2h: channels that rotate.
    pub rotary_dim: usize,
    /// θ.
    pub theta: f64,
    /// D01.
    pub part: RopePart,
    /// D02.
    pub pair: RopePair,
    /// D52: runs of channels, in each of which the first half pairs with the second.
    pub runs: usize,
    /// By what the exponent of a frequency is divided.
    pub frequency: RopeFrequency,
    /// What positions are kept in.
    pub position: RopePosition,
    /// Positions that are off.
    pub shift: Option<PositionShift>,
    /// By what frequencies are divided.
    pub linear: f64,
    /// By what frequencies, and c and s, are scaled for a longer context.
    pub scaling: Option<RopeScaling>,
    /// What frequencies and angles are kept in.
    pub kept: [AngleType; 2],
    /// By what c and s are multiplied.
    pub scale: f64,
    /// R1.
    pub table: Rounding,
    /// R2.
    pub product: Rounding,
    /// R3.
    pub output: Rounding,
    /// R4.
    pub passed: Rounding,
    /// u of the products.
    pub unit: f64,
}

/// c and s, one row a position; columns i and i + h hold the same angle.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeTable<T> {
    /// c \[n, 2h\].
    pub cos: Tracked<T>,
    /// s \[n, 2h\].
    pub sin: Tracked<T>,
}

impl<T: Real> RopeTable<T> {
    /// The table of the rotations the other way.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let sin = Tracked { value: self.sin.value.mapv(|s| -s), error: self.sin.error.clone() };
        RopeTable { cos: self.cos.clone(), sin }
    }
}

/// 1/θ^(2i/m) for i < h, in the f32 steps of the original: the exponent, the power and the reciprocal each rounded. m is
/// 2h, but for a port's slip.
pub fn inverse_frequencies(theta: f64, rotary_dim: usize, divisor: usize) -> Vec<f32> {
    (0..rotary_dim / 2)
        .map(|i| {
            let exponent = f32::of(2.0 * i as f64 / divisor as f64);
            f32::of(1.0 / f64::from(f32::of(f32::of(theta).wide().powf(exponent.wide()))))
        })
        .collect()
}

/// The table for positions `first..first + n`. The angle is an f32; its cosine and sine are T's.
pub fn rope_table<T: Real>(p: &Rope, first: usize, n: usize) -> RopeTable<T> {
    let frequencies = p.frequencies();
    let angle = |row: usize, column: usize| p.angle(first + row, frequencies[column % frequencies.len()]);
    let table = |f: fn(f64) -> f64| {
        let value = |(i, j)| p.table.round(T::of(p.factor() * f(angle(i, j).wide()))); // R1
        Tracked::plain(Array2::from_shape_fn((n, p.rotary_dim), value))
    };
    RopeTable { cos: table(f64::cos), sin: table(f64::sin) }
}

/// y of x, c and s.
pub fn rope<T: Real>(
    p: &Rope,
    x: ArrayView2<'_, T>,
    cos: ArrayView2<'_, T>,
    sin: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), cos.dim(), sin.dim())?;
    let mut y = x.mapv(|x| p.passed.round(x)); // R4
    let rows = y.rows_mut().into_iter().zip(x.rows()).zip(cos.rows().into_iter().zip(sin.rows()));
    parallel::for_each(rows, ELEMENT * x.len(), |((mut yi, xi), (cos, sin))| {
        for (a, b, i) in p.pairs(x.ncols()) {
            let j = i + p.rotary_dim / 2;
            let product = |x: T, table: T| p.product.round(x * table); // R2
            yi[a] = p.output.round(product(xi[a], cos[i]) - product(xi[b], sin[i])); // R3
            yi[b] = p.output.round(product(xi[b], cos[j]) + product(xi[a], sin[j])); // R3
        }
    });
    Ok(y)
}

impl Rope {
    /// C1 to C3.
    pub fn check(
        &self,
        (n, width): (usize, usize),
        cos: (usize, usize),
        sin: (usize, usize),
    ) -> Result<(), ContractError> {
        let (d, r) = (self.head_dim, self.rotary_dim);
        require(d >= 1 && width.is_multiple_of(d), "rope C1", "columns of x", width, format!("a multiple of d = {d}"))?;
        require(r.is_multiple_of(2) && r <= d, "rope C2", "2h", r, format!("an even number up to d = {d}"))?;
        let runs = self.runs;
        require(r.is_multiple_of(2 * runs), "rope C2", "runs", runs, format!("a divisor of h = {}", r / 2))?;
        require(cos == (n, r), "rope C3", "shape of c", format!("{cos:?}"), format!("{:?}", (n, r)))?;
        require(sin == (n, r), "rope C3", "shape of s", format!("{sin:?}"), format!("{:?}", (n, r)))
    }

    /// The roundings of a contract.
    #[must_use]
    pub fn under(mut self, contract: &RoundingContract) -> Self {
        self.table = contract.between(contract.rope);
        self.product = contract.between(contract.rope);
        self.output = contract.stored();
        self.passed = match contract.qk_norm {
            Chain::Each => Rounding::NONE,
            Chain::Once => contract.stored(),
        };
        self.unit = contract.unit();
        self
    }

    fn frequencies(&self) -> Vec<f32> {
        let divisor = match self.frequency {
            RopeFrequency::RotaryDim => self.rotary_dim,
            RopeFrequency::HeadDim => self.head_dim,
        };
        let mut frequencies = inverse_frequencies(self.theta, self.rotary_dim, divisor);
        if let Some(scaling) = self.scaling {
            frequencies = scaling.of(&frequencies, self.rotary_dim, self.theta).into_iter().map(f32::of).collect();
        }
        for frequency in &mut frequencies {
            let divided = f32::of(frequency.wide() / self.linear);
            *frequency = f32::of(self.kept[0].storage().nearest(divided.wide()));
        }
        frequencies
    }

    /// By what c and s are multiplied.
    fn factor(&self) -> f64 {
        self.scale * self.scaling.map_or(1.0, |scaling| scaling.scale())
    }

    /// The angle of a position and a frequency.
    fn angle(&self, position: usize, frequency: f32) -> f32 {
        f32::of(self.kept[1].storage().nearest((self.position(position) * frequency).wide()))
    }

    /// t of a position.
    fn position(&self, position: usize) -> f32 {
        let taken = self.shift.map_or(position, |shift| shift.of(position)) as f64;
        match self.position {
            RopePosition::F32 => f32::of(taken),
            RopePosition::Bf16 => f32::of(Storage::Bf16.nearest(taken)),
        }
    }

    /// The two channels of each pair in a row, and the column of its angle.
    fn pairs(&self, width: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (d, h, pair) = (self.head_dim, self.rotary_dim / 2, self.pair);
        let first = match self.part {
            RopePart::First => 0,
            RopePart::Last => d - 2 * h,
        };
        let apart = h / self.runs;
        (0..width / d).flat_map(move |head| {
            let start = head * d + first;
            (0..h).map(move |i| match pair {
                RopePair::Half => {
                    let a = start + i + i / apart * apart;
                    (a, a + apart, i)
                }
                RopePair::Interleaved => (start + 2 * i, start + 2 * i + 1, i),
                RopePair::HalfHead => (head * d + i, head * d + i + d / 2, i),
            })
        })
    }

    /// How far another table, made with other f32 functions, may be from this one, for positions from `first` on; then R1.
    pub fn table_bound(&self, first: usize, table: &Array2<f64>) -> ErrorBound {
        let frequencies = self.frequencies();
        let u = f32::UNIT_ROUNDOFF;
        let angle = |(i, j): (usize, usize)| {
            let angle = f64::from(self.position(first + i)) * f64::from(frequencies[j % frequencies.len()]);
            // What is rounded is as far apart as it is in its type; a factor counts with its product's rounding.
            let kept = self.kept[1].storage();
            let apart = if kept == Storage::Real { 0.0 } else { kept.apart(angle, 3.0 * u * angle) / (6.0 * u) };
            let factor = self.factor();
            if factor == 1.0 { angle + apart } else { factor.abs() * (angle + apart + 1.0) }
        };
        rotation_table(table, angle, self.table)
    }

    /// The products and their sum round at most once in the arithmetic's type and once at R2; then R3. With errors δ of
    /// x and e of the table, |x̂ĉ − xc| ≤ δ|c| + |x|e + δe.
    pub fn bound(&self, x: &Tracked<f64>, table: &RopeTable<f64>, y: &Array2<f64>) -> ErrorBound {
        let (cos, sin) = (table.cos.error_or_exact(), table.sin.error_or_exact());
        let input = x.error_or_exact();
        let mut error = input.clone();
        let own = (self.unit + self.product.storage.unit_roundoff()) * (1.0 + self.unit) + self.unit;
        let floor = 2.0 * self.product.storage.underflow().max(FLUSHED);
        let term = |row: usize, channel: usize, column: usize, table: &Tracked<f64>, e: &ErrorBound| {
            let (x, delta, sigma) =
                (x.value[[row, channel]], input.certain[[row, channel]], input.sigma[[row, channel]]);
            let (c, ce, cs) = (table.value[[row, column]], e.certain[[row, column]], e.sigma[[row, column]]);
            let carried = delta * c.abs() + x.abs() * ce + delta * ce;
            let own = own * ((x * c).abs() + carried);
            (carried + own, (sigma * c).powi(2) + (x * cs).powi(2) + own * own / 3.0)
        };
        for row in 0..y.nrows() {
            for (a, b, i) in self.pairs(y.ncols()) {
                let j = i + self.rotary_dim / 2;
                let parts = [
                    (a, term(row, a, i, &table.cos, &cos), term(row, b, i, &table.sin, &sin)),
                    (b, term(row, b, j, &table.cos, &cos), term(row, a, j, &table.sin, &sin)),
                ];
                for (channel, one, two) in parts {
                    error.certain[[row, channel]] = one.0 + two.0 + floor;
                    error.sigma[[row, channel]] = (one.1 + two.1).sqrt().min(one.0 + two.0 + floor);
                }
            }
        }
        let passed = error.clone().rounded(y.view(), self.passed.storage);
        let mut rounded = error.rounded(y.view(), self.output.storage);
        for column in self.passed_columns(y.ncols()) {
            rounded.certain.column_mut(column).assign(&passed.certain.column(column));
            rounded.sigma.column_mut(column).assign(&passed.sigma.column(column));
        }
        rounded
    }

    /// The channels that do not rotate.
    fn passed_columns(&self, width: usize) -> impl Iterator<Item = usize> + use<> {
        let mut rotates = vec![false; width];
        for (a, b, _) in self.pairs(width) {
            (rotates[a], rotates[b]) = (true, true);
        }
        (0..width).filter(move |&column| !rotates[column])
    }
}

impl Default for Rope {
    /// Rotates nothing, rounds nothing.
    fn default() -> Self {
        Rope {
            head_dim: 1,
            rotary_dim: 0,
            theta: 1.0,
            part: RopePart::First,
            pair: RopePair::Half,
            runs: 1,
            frequency: RopeFrequency::RotaryDim,
            position: RopePosition::F32,
            shift: None,
            linear: 1.0,
            scaling: None,
            kept: [AngleType::F32; 2],
            scale: 1.0,
            table: Rounding::NONE,
            product: Rounding::NONE,
            output: Rounding::NONE,
            passed: Rounding::NONE,
            unit: 0.0,
        }
    }
}
