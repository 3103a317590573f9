//! MoE: adds up what a token's experts say, each by its weight, and what the expert that all share says.
//!
//! ```text
//! yᵢ = Σₛ ρ(wᵢₛ·eᵢₛ)        over the k experts that token i chose        zᵢ = ρ(ς·yᵢ) + hᵢ
//! ```
//!
//! - Shapes: e \[n·k, d\], row i·k + s the s-th choice of token i; w and C \[n, k\]; y, h and z \[n, d\].
//! - Dtypes: y, h and z bf16, and e, but f32 where it goes unrounded into its product with w (weighted, whole); w, the products and
//!   the sum f32. Of a rank that has some channels of each expert, e is what it makes of these, and y its part of the sum.
//! - Rounding: by how experts are added (D43). Once, whole: R2 at y alone. Products, weighted: R1 at ρ, R2 at y. Each: R1 at ρ and
//!   after each addition; running: after each addition alone. R3 at ς·y, unless ς is a power of two; R4 at z.
//! - Order: that of the choice; ascending experts, if added in the activations' type, also where an engine's is its own
//!   (`each_unordered`), for which the bound holds in any.
//! - Errors: C1 rows of e = n·k; C2 C has the shape of w; C3 h has the shape of y.
//! - Variants: D43 how they are added. Slips of ports: h is multiplied by ς, too, by 1/ς or by 2; another ς; w on the experts'
//!   inputs; w of 0 behind an expert's capacity.
//! - Source: spec A11, A14; `MiniMaxM2Experts.forward` and `MiniMaxM3VLSparseMoeBlock` in transformers 5.23. M2 has y
//!   alone.

use std::collections::BTreeMap;
use std::ops::Range;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, Zip};

use crate::accumulator::gamma;
use crate::bound::{ErrorBound, together};
use crate::error::require;
use crate::rounding::ExpertSum;
use crate::semantics::{Semantics, SharedScale};
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract, Storage};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moe {
    /// D43.
    pub sum: ExpertSum,
    /// R1 or R2.
    pub stored: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// How y and h are put together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithShared {
    /// ς.
    pub scale: f64,
    /// What h is multiplied by: 1.
    pub shared: f64,
    /// R3 and R4.
    pub stored: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// y of e, w and C.
pub fn moe<T: Real>(
    p: &Moe,
    outputs: ArrayView2<'_, T>,
    w: ArrayView2<'_, T>,
    chosen: ArrayView2<'_, usize>,
) -> Result<Array2<T>, ContractError> {
    let (n, k) = w.dim();
    p.check(outputs.nrows(), w.dim(), chosen.dim())?;
    let mut y = Array2::zeros((n, outputs.ncols()));
    for (i, mut yi) in y.rows_mut().into_iter().enumerate() {
        for slot in p.order(chosen.row(i)) {
            let weight = w[[i, slot]];
            Zip::from(&mut yi).and(outputs.row(i * k + slot)).for_each(|y, &e| {
                *y = match p.sum {
                    ExpertSum::Each | ExpertSum::EachUnordered => p.stored.round(*y + p.stored.round(weight * e)), // R1
                    ExpertSum::Running => p.stored.round(weight.mul_add(e, *y)),                                   // R1
                    ExpertSum::Products | ExpertSum::Weighted => *y + p.stored.round(weight * e),                  // R1
                    ExpertSum::Once | ExpertSum::Whole => weight.mul_add(e, *y),
                };
            });
        }
        if !p.rounds_sums() {
            yi.mapv_inplace(|y| p.stored.round(y)); // R2
        }
    }
    Ok(y)
}

/// z of y and h.
pub fn with_shared<T: Real>(
    p: &WithShared,
    routed: ArrayView2<'_, T>,
    shared: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(routed.dim(), shared.dim())?;
    let scaled = |scale: f64, x: T| {
        let product = T::of(scale) * x;
        if is_power_of_two(scale) { product } else { p.stored.round(product) }
    };
    let mut z = Array2::zeros(routed.dim());
    Zip::from(&mut z).and(&routed).and(&shared).for_each(|z, &y, &h| {
        *z = p.stored.round(scaled(p.scale, y) + scaled(p.shared, h)); // R3, R4
    });
    Ok(z)
}

/// Whether a stored value is multiplied by it without a rounding.
fn is_power_of_two(scale: f64) -> bool {
    scale.abs().log2().fract() == 0.0
}

/// The tokens that chose `expert`, as rows of e.
pub fn rows_of(expert: usize, chosen: ArrayView2<'_, usize>) -> Vec<usize> {
    let k = chosen.ncols();
    chosen.indexed_iter().filter(|(_, chosen)| **chosen == expert).map(|((i, slot), _)| i * k + slot).collect()
}

/// ρ(w·x): what experts take where weights go on their inputs; a row of x a slot.
pub fn weighed_input<T: Real>(p: &Moe, x: ArrayView2<'_, T>, w: ArrayView2<'_, T>) -> Array2<T> {
    let k = w.ncols();
    Array2::from_shape_fn(x.dim(), |(row, j)| {
        let w = p.stored.round(w[[row / k, row % k]]);
        p.stored.round(w * x[[row, j]])
    })
}

/// Weights of 1.
pub fn ones<T: Real>(w: &Tracked<T>) -> Tracked<T> {
    let value = Array2::ones(w.dim());
    Tracked { error: w.error.as_ref().map(|_| ErrorBound::exact(w.dim())), value }
}

/// w, but 0 for an expert that so many tokens before took.
pub fn within_capacity<T: Real>(capacity: usize, mut w: Tracked<T>, chosen: ArrayView2<'_, usize>) -> Tracked<T> {
    let mut taken = BTreeMap::<usize, usize>::new();
    for (at, expert) in chosen.indexed_iter() {
        let taken = taken.entry(*expert).or_default();
        if *taken >= capacity {
            w.value[at] = T::zero();
            if let Some(error) = &mut w.error {
                (error.certain[at], error.sigma[at]) = (0.0, 0.0);
            }
        }
        *taken += 1;
    }
    w
}

/// w, but 0 for all experts but a rank's own.
pub fn of_rank<T: Real>(own: &Range<usize>, mut w: Tracked<T>, chosen: ArrayView2<'_, usize>) -> Tracked<T> {
    for (at, _) in chosen.indexed_iter().filter(|(_, expert)| !own.contains(expert)) {
        w.value[at] = T::zero();
        if let Some(error) = &mut w.error {
            (error.certain[at], error.sigma[at]) = (0.0, 0.0);
        }
    }
    w
}

/// What one expert adds to each token; 0 where it is not chosen.
pub fn contribution<T: Real>(
    expert: usize,
    outputs: ArrayView2<'_, T>,
    w: ArrayView2<'_, T>,
    chosen: ArrayView2<'_, usize>,
) -> Array2<T> {
    let k = w.ncols();
    let mut y = Array2::zeros((w.nrows(), outputs.ncols()));
    for row in rows_of(expert, chosen) {
        let (i, slot) = (row / k, row % k);
        y.index_axis_mut(Axis(0), i).assign(&outputs.row(row).mapv(|e| w[[i, slot]] * e));
    }
    y
}

impl WithShared {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, semantics: &Semantics, scale: f64) -> Self {
        let scale = semantics.routed_scale.unwrap_or(scale);
        let shared = match semantics.shared_scale {
            SharedScale::One => 1.0,
            SharedScale::Routed => scale,
            SharedScale::Reciprocal => scale.recip(),
            SharedScale::Twice => 2.0,
        };
        WithShared { scale, shared, stored: contract.stored(), unit: contract.unit() }
    }

    /// C3.
    pub fn check(&self, routed: (usize, usize), shared: (usize, usize)) -> Result<(), ContractError> {
        let (found, expected) = (format!("{shared:?}"), format!("that of y, {routed:?}"));
        require(shared == routed, "moe C3", "shape of h", found, expected)
    }

    /// Errors of y and h; ς and its product are rounded in the arithmetic's type, the sum too, then R3 and R4. A
    /// power of two multiplies without a rounding.
    pub fn bound(&self, routed: &Tracked<f64>, shared: &Tracked<f64>, z: &Array2<f64>) -> ErrorBound {
        let (ye, he) = (routed.error_or_exact(), shared.error_or_exact());
        let storage = self.stored.storage;
        let own = |scale: f64| match scale {
            _ if is_power_of_two(scale) => (0.0, storage.underflow().max(FLUSHED)),
            _ => (2.0 * self.unit + storage.unit_roundoff(), storage.underflow().max(FLUSHED)),
        };
        let mut error = ErrorBound::exact(z.dim());
        error.carried = ye.carried.max(he.carried);
        for (i, certain) in error.certain.indexed_iter_mut() {
            let term = |scale: f64, x: f64, e: f64, sigma: f64| {
                let ((own, floor), moved) = (own(scale), scale.abs() * e);
                let rounded = own * (1.0 + own) * (scale.abs() * x.abs() + moved) + floor;
                (moved + rounded, together(scale * sigma, rounded / 3.0_f64.sqrt()))
            };
            let (y, y_sigma) = term(self.scale, routed.value[i], ye.certain[i], ye.sigma[i]);
            let (h, h_sigma) = term(self.shared, shared.value[i], he.certain[i], he.sigma[i]);
            let sum = self.unit * (z[i].abs() + y + h) + FLUSHED;
            *certain = y + h + sum;
            error.sigma[i] = together(together(y_sigma, h_sigma), sum / 3.0_f64.sqrt()).min(*certain);
        }
        error.rounded(z.view(), storage)
    }
}

impl Moe {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        Moe { sum: contract.experts, stored: contract.stored(), unit: contract.unit() }
    }

    /// C1 and C2.
    pub fn check(&self, rows: usize, w: (usize, usize), chosen: (usize, usize)) -> Result<(), ContractError> {
        let choices = w.0 * w.1;
        require(rows == choices, "moe C1", "rows of e", rows, format!("n·k = {choices}"))?;
        require(chosen == w, "moe C2", "shape of C", format!("{chosen:?}"), format!("that of w, {w:?}"))
    }

    /// Whether every sum is stored, and not the last alone.
    fn rounds_sums(&self) -> bool {
        matches!(self.sum, ExpertSum::Each | ExpertSum::EachUnordered | ExpertSum::Running)
    }

    /// The slots of a token in the order in which they are added.
    fn order(&self, experts: ArrayView1<'_, usize>) -> Vec<usize> {
        let mut slots: Vec<usize> = (0..experts.len()).collect();
        if matches!(self.sum, ExpertSum::Each | ExpertSum::Running) {
            slots.sort_by_key(|&slot| experts[slot]);
        }
        slots
    }

    /// (1 + u)·(1 + v) − 1 = u + v + u·v: what a result is off by, relatively, that is rounded in the arithmetic's type and
    /// then in the activations'.
    fn twice_rounded(&self) -> f64 {
        let (u, v) = (self.unit, self.stored.storage.unit_roundoff());
        u + v + u * v
    }

    /// Of [`weighed_input`]: errors of weight and input, the product's rounding, and twice that to the stored type.
    pub fn bound_input(&self, x: &Tracked<f64>, w: &Tracked<f64>) -> ErrorBound {
        let (xe, we) = (x.error_or_exact(), w.error_or_exact());
        let (k, own) = (w.value.ncols(), gamma(2, self.twice_rounded()));
        let mut error = ErrorBound::exact(x.dim());
        error.carried = xe.carried.max(we.carried);
        for (i, certain) in error.certain.indexed_iter_mut() {
            let slot = [i.0 / k, i.0 % k];
            let (w, wc, x, xc) = (w.value[slot].abs(), we.certain[slot], x.value[i].abs(), xe.certain[i]);
            let moved = wc * x + w * xc + wc * xc;
            let rounded = own * (w * x + moved) + self.stored.storage.underflow().max(FLUSHED) * (1.0 + x + xc);
            *certain = moved + rounded;
            let spread = together(we.sigma[slot] * x, w * xe.sigma[i]);
            error.sigma[i] = together(spread, rounded / 3.0_f64.sqrt()).min(*certain);
        }
        error
    }

    /// Of [`contribution`]: errors of weight and output, and the product's roundings.
    pub fn bound_contribution(
        &self,
        expert: usize,
        outputs: &Tracked<f64>,
        w: &Tracked<f64>,
        chosen: ArrayView2<'_, usize>,
    ) -> ErrorBound {
        let (oe, we) = (outputs.error_or_exact(), w.error_or_exact());
        let k = w.value.ncols();
        let mut error = ErrorBound::exact((w.value.nrows(), outputs.value.ncols()));
        error.carried = oe.carried.max(we.carried);
        let own = self.twice_rounded();
        for row in rows_of(expert, chosen) {
            let (i, slot) = (row / k, row % k);
            let (w, wc) = (w.value[[i, slot]].abs(), we.certain[[i, slot]]);
            for j in 0..outputs.value.ncols() {
                let (e, ec) = (outputs.value[[row, j]].abs(), oe.certain[[row, j]]);
                let moved = wc * e + w * ec + wc * ec;
                error.certain[[i, j]] = moved + own * (w * e + moved) + self.stored.storage.underflow().max(FLUSHED);
            }
        }
        error.sigma.assign(&error.certain);
        error
    }

    /// Errors of weights and outputs, and k + 1 roundings of product and sums: in the arithmetic's type and then R2, or each
    /// twice.
    pub fn bound(&self, outputs: &Tracked<f64>, w: &Tracked<f64>, y: &Array2<f64>) -> ErrorBound {
        let (oe, we) = (outputs.error_or_exact(), w.error_or_exact());
        let k = w.value.ncols();
        let each = self.stored.storage;
        let (unit, underflow, storage) = match self.sum {
            ExpertSum::Once | ExpertSum::Whole => (self.unit, FLUSHED, each),
            ExpertSum::Each | ExpertSum::EachUnordered | ExpertSum::Running => {
                (self.twice_rounded(), each.underflow().max(FLUSHED), Storage::Real)
            }
            ExpertSum::Products | ExpertSum::Weighted => (self.twice_rounded(), each.underflow().max(FLUSHED), each),
        };
        let (own, floor) = (gamma(k + 1, unit), (k + 1) as f64 * underflow);
        let mut error = ErrorBound::exact(y.dim());
        error.carried = oe.carried.max(we.carried);
        Zip::indexed(&mut error.certain).and(&mut error.sigma).for_each(|(i, j), certain, sigma| {
            let (mut moved, mut total, mut variance) = (0.0, 0.0, 0.0);
            for slot in 0..k {
                let (w, wc, ws) = (w.value[[i, slot]], we.certain[[i, slot]], we.sigma[[i, slot]]);
                let row = [i * k + slot, j];
                let (e, ec, es) = (outputs.value[row], oe.certain[row], oe.sigma[row]);
                moved += wc * e.abs() + w.abs() * ec + wc * ec;
                total += (w.abs() + wc) * (e.abs() + ec);
                variance += (ws * e).powi(2) + (w * es).powi(2) + (ws * es).powi(2) + (w * e * unit).powi(2) / 3.0;
            }
            *certain = moved + own * total + floor;
            variance += (k as f64 * (unit * total).powi(2) + floor * floor) / 3.0;
            *sigma = variance.sqrt().min(*certain);
        });
        error.rounded(y.view(), storage)
    }
}
