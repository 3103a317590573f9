//! RMSNorm: scales each row to unit root mean square, then by a learned weight.
//!
//! ```text
//! yᵢⱼ = mⱼ · ρ(xᵢⱼ · rᵢ)        rᵢ = 1 / √(ε + (1/d)·Σₖ xᵢₖ²)        mⱼ = wⱼ, or 1 + wⱼ
//! ```
//!
//! - Shapes: x \[n, d\], w \[d\], y \[n, d\].
//! - Dtypes: x, w and y bf16; the sum, r and m f32. A precision may keep the stream that x is of in another type (`stream`).
//! - Rounding: R1 at ρ, unless 1 + w is made here, R2 at y; nothing else leaves f32. A stochastic run draws what f32 makes of
//!   r, of x·r, of 1 + w and of the product with m.
//! - Errors: C1 n, d ≥ 1; C2 len(w) = d; C3 ε > 0; C4 what the sum is divided by > 0.
//! - Variants: D08 what the weight is added to, and where: a loader may round 1 + w and hand over that less 1; D09 where ε
//!   stands; D10 whether R1 is there. Slips of ports: another ε; a sum that is divided by another
//!   number than d; x less its row's mean in the place of x.
//! - Source: spec A2, A3; `MiniMaxM2RMSNorm` and `MiniMaxM3VLRMSNorm` in transformers 5.23.

use ndarray::{Array2, ArrayView1, ArrayView2, Zip};

use crate::accumulator::gamma;
use crate::bound::elementary::euclidean;
use crate::bound::{ErrorBound, together};
use crate::error::require;
use crate::order::{self, Order};
use crate::reduction::Reduction;
use crate::rounding::{Autocast, OnePlus, RmsRound};
use crate::semantics::{EpsPlace, NormWeight};
use crate::storage::{FLUSHED, Mode};
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsNorm {
    /// ε, inside the root.
    pub eps: f64,
    /// How many times d the sum is divided by; 1.
    pub width: f64,
    /// D09.
    pub eps_place: EpsPlace,
    /// D08: m of w.
    pub weight: NormWeight,
    /// D08: where the 1 of 1 + w is added.
    pub one_plus: OnePlus,
    /// R1.
    pub normalized: Rounding,
    /// R2.
    pub output: Rounding,
    /// u of the sum and of r.
    pub unit: f64,
    /// Of the sum.
    pub reduction: Reduction,
    /// Of the sum, where it is fixed.
    pub order: Order,
    /// Whether the errors of the arithmetic are drawn.
    pub mode: Mode,
}

/// In u, the error of 1/√ on the device.
const ROOT: f64 = 4.0;

/// ε outside the root, as S3 has it.
const OUTSIDE: f64 = 1e-8;

/// y of x and w.
pub fn rms_norm<T: Real>(p: &RmsNorm, x: ArrayView2<'_, T>, w: ArrayView1<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), w.len())?;
    let (h, added) = (p.reduction.depth(x.ncols()) as f64, f64::from(u8::from(p.adds())));
    let mut y = Array2::zeros(x.dim());
    for (xi, mut yi) in x.rows().into_iter().zip(y.rows_mut()) {
        let strayed = |y: T, squares: f64| p.mode.strayed(y, y.wide(), p.unit, squares);
        let r = strayed(p.scale(xi), h / 4.0 + ROOT * ROOT);
        Zip::from(&mut yi).and(&xi).and(&w).for_each(|y, &x, &w| {
            let normalized = p.normalized.round(strayed(x * r, 1.0)); // R1
            *y = p.output.round(strayed(p.factor(w) * normalized, added + 1.0)); // R2
        });
    }
    Ok(y)
}

/// x less the mean of its row: a slip of ports, which take a `LayerNorm`.
pub fn centred<T: Real>(mut x: Array2<T>) -> Array2<T> {
    let d = T::of(x.ncols() as f64);
    for mut row in x.rows_mut() {
        let mean = row.iter().fold(T::zero(), |sum, &x| sum + x) / d;
        row.mapv_inplace(|x| x - mean);
    }
    x
}

impl RmsNorm {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, eps: f64, eps_place: EpsPlace) -> Self {
        let normalized = match contract.rms {
            RmsRound::Two => contract.stored(),
            RmsRound::One => Rounding::NONE,
        };
        let weight = NormWeight::Plain;
        let (output, unit, reduction) = (contract.stored(), contract.unit(), contract.reduction);
        let order = contract.lanes(order::PARITY.row);
        let one_plus = contract.one_plus;
        let (width, mode) = (1.0, contract.mode);
        RmsNorm { eps, width, eps_place, weight, one_plus, normalized, output, unit, reduction, order, mode }
    }

    /// The same norm with such a weight; one that adds the 1 of 1 + w itself rounds once.
    #[must_use]
    pub fn weighing(self, weight: NormWeight) -> Self {
        let own = RmsNorm { weight, ..self };
        if own.adds() { RmsNorm { normalized: Rounding::NONE, ..own } } else { own }
    }

    /// The same of what autocast made in its type: R1 is of that type, and so is R2, unless w alone is multiplied by there, which has
    /// a type of its own.
    #[must_use]
    pub(super) fn of_products(self, contract: &RoundingContract) -> Self {
        if contract.autocast == Autocast::Off {
            return self;
        }
        let own = contract.of_products().stored();
        let normalized = if self.normalized == Rounding::NONE { Rounding::NONE } else { own };
        RmsNorm { normalized, output: if self.adds() { own } else { self.output }, ..self }
    }

    /// Whether 1 + w is made here: what was made when w was loaded is w + 1 exactly.
    fn adds(&self) -> bool {
        self.weight == NormWeight::OnePlus && self.one_plus == OnePlus::Norm
    }

    /// C1 to C4.
    pub fn check(&self, (n, d): (usize, usize), w: usize) -> Result<(), ContractError> {
        require(1 <= n.min(d), "rms_norm C1", "min(n, d)", n.min(d), "at least 1")?;
        require(w == d, "rms_norm C2", "len(w)", w, format!("d = {d}"))?;
        require(0.0 < self.eps, "rms_norm C3", "ε", self.eps, "above 0")?;
        require(0.0 < self.width, "rms_norm C4", "width", self.width, "above 0")
    }

    /// m.
    pub(super) fn factor<T: Real>(&self, w: T) -> T {
        match self.weight {
            NormWeight::Plain => w,
            NormWeight::OnePlus => T::one() + w,
        }
    }

    /// rᵢ.
    fn scale<T: Real>(&self, x: ArrayView1<'_, T>) -> T {
        self.scale_of(self.squares(x), x.len() as f64 * self.width)
    }

    /// Σₖ xₖ².
    pub(super) fn squares<T: Real>(&self, x: ArrayView1<'_, T>) -> T {
        self.order.sum(x.len(), |sum, k| x[k].mul_add(x[k], sum))
    }

    /// r of a sum of squares, and of what it is divided by.
    pub(super) fn scale_of<T: Real>(&self, squares: T, divisor: f64) -> T {
        let mean = squares / T::of(divisor);
        match self.eps_place {
            EpsPlace::Inside => (T::of(self.eps) + mean).reciprocal_root(),
            EpsPlace::Outside => (mean.sqrt() + T::of(OUTSIDE)).recip(),
        }
    }

    /// What ε adds to the norm below: the smallest value of 1 / r.
    fn floor(&self) -> f64 {
        match self.eps_place {
            EpsPlace::Inside => self.eps.sqrt(),
            EpsPlace::Outside => OUTSIDE,
        }
    }

    /// Own roundings: the sum has only positive terms, so it is within h·u, where h is the [`Reduction`]'s depth, in any
    /// order d; a fused or rounded square, /d and + ε add 3·u, and the root halves that; 1/√ is within 4·u on the device; two
    /// products add 2·u, 1 + w one more, then R1 and R2. What x·r loses where it is subnormal, or flushed, is not relative: |m|
    /// times that is added to both parts of the bound.
    ///
    /// An error δ of the inputs moves 1/r, which is a norm of x, by at most D = ‖δ‖/√d. So with s = 1/r and
    /// r̂ ≤ 1 / max(s − D, floor): |ŷ − y| ≤ |m|·(|δ|·r̂ + |x|·D·r·r̂).
    pub fn bound(&self, x: &Tracked<f64>, w: ArrayView1<'_, f64>, y: &Array2<f64>) -> ErrorBound {
        let (d, h) = (y.ncols() as f64, self.reduction.depth(y.ncols()) as f64);
        let (u, u1) = (self.unit, self.normalized.storage.unit_roundoff());
        let added = f64::from(u8::from(self.adds()));
        let first_order = (h + 3.0) * u / 2.0 + (ROOT + 2.0 + added) * u + u1;
        let own = first_order / (1.0 - first_order);
        let own_variance = ((h / 4.0 + 6.0 * 6.0 + added) * u * u + u1 * u1) / 3.0;
        let input = x.error_or_exact();
        let mut error = ErrorBound::exact(y.dim());
        error.carried = input.carried;
        for i in 0..y.nrows() {
            let (xi, delta, sigma) = (x.value.row(i), input.certain.row(i), input.sigma.row(i));
            let r = self.scale(xi);
            let moved = euclidean(delta.iter().copied()) / (d * self.width).sqrt();
            let largest = 1.0 / (1.0 / r - moved).max(self.floor());
            let spread = euclidean(xi.iter().zip(sigma).map(|(x, s)| x * s)) / (d * self.width);
            for j in 0..y.ncols() {
                let m = self.factor(w[j]);
                let (floor, carried) =
                    (self.normalized_floor(m), m.abs() * (delta[j] * largest + xi[j].abs() * moved * r * largest));
                error.certain[[i, j]] = carried + own * (y[[i, j]].abs() + carried) + floor;
                let first = m * r * together(sigma[j], xi[j] * r * r * spread);
                let likely = together(first, own_variance.sqrt() * y[[i, j]]);
                error.sigma[[i, j]] = together(likely, floor).min(error.certain[[i, j]]);
            }
        }
        error.rounded(y.view(), self.output.storage)
    }

    /// x less the mean of its row, which is off by the mean of what x is off by, by γ(d + 1) of the mean of |x|, and by a rounding
    /// of the difference; and by what underflows: of the mean, and of the difference.
    pub fn centred_bound(contract: &RoundingContract, x: Tracked<f64>) -> Tracked<f64> {
        let u = contract.unit();
        let mut error = x.error_or_exact();
        let d = x.value.ncols() as f64;
        for (i, row) in x.value.rows().into_iter().enumerate() {
            let size = row.iter().map(|x| x.abs()).sum::<f64>() / d;
            let moved = error.certain.row(i).sum() / d + gamma(x.value.ncols() + 1, u) * size + FLUSHED;
            let spread = euclidean(error.sigma.row(i).iter().copied()) / d + u * size + FLUSHED;
            for (j, x) in row.iter().enumerate() {
                let own = u * (x.abs() + size + moved) + FLUSHED;
                error.certain[[i, j]] += moved + own;
                error.sigma[[i, j]] = together(error.sigma[[i, j]], spread + own).min(error.certain[[i, j]]);
            }
        }
        Tracked { value: centred(x.value), error: Some(error) }
    }

    /// What R1, or the arithmetic, may flush to zero, times the weight.
    fn normalized_floor(&self, m: f64) -> f64 {
        m.abs() * self.normalized.storage.underflow().max(FLUSHED)
    }
}
