//! Linear: each row of x times the transpose of a weight.
//!
//! ```text
//! yᵢⱼ = Σₖ xᵢₖ · wⱼₖ
//! ```
//!
//! - Shapes: x \[n, k\], w \[m, k\], y \[n, m\].
//! - Dtypes: x, w and y bf16; the sum f32. A precision may have another type for x in products (`operands`), to which the
//!   caller narrows it; where w is quantized, x may be, too (`inputs`), by the caller.
//! - Rounding: R1 at w, where the operator takes it in another type than it is held in; R2 at y, unless an activation follows
//!   that rounds once with its projections.
//! - Errors: C1 n, k ≥ 1; C2 columns of w = k.
//! - Variants: D41 what the router's weight and its output are rounded to.
//! - Source: spec A4, A7, A9, A17; `nn.Linear` without bias.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, Zip, s};

use crate::accumulator::Accumulator;
use crate::bound::ErrorBound;
use crate::error::require;
use crate::matrix::Matrix;
use crate::order::{self, Order};
use crate::rounding::GateRound;
use crate::storage::Mode;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    /// R1.
    pub weight: Rounding,
    /// R2.
    pub output: Rounding,
    /// Of the sum.
    pub accumulator: Accumulator,
    /// Of the sum, where it is fixed.
    pub order: Order,
    /// Whether the sum's error is drawn at random, too.
    pub mode: Mode,
}

/// Rows of w that are widened at a time, for a few rows of x, or as many as take so many bytes.
const PANEL: (usize, usize) = (64, 1 << 18);

/// More rows of x than this are many: `dot` copies them for each panel, so panels are wide.
const MANY: usize = 256;

/// Bytes of a widened panel, at most, for many rows of x.
const PANEL_BYTES: usize = 32 << 20;

/// Up to so many rows of x are multiplied one by one: `dot` is slow for them.
const FEW: usize = 4;

/// y of x and w.
pub fn linear<T: Real>(p: &Linear, x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), w.dim())?;
    let mut y = Array2::zeros((x.nrows(), w.dim().0));
    let rows = panel_rows::<T>(x.nrows(), w.dim());
    y.axis_chunks_iter_mut(Axis(1), rows).into_par_iter().enumerate().for_each(|(i, mut y)| {
        let mut panel = w.panel::<T>(i * rows, y.ncols());
        if p.weight != Rounding::NONE {
            panel.mapv_inplace(|w| p.weight.round(w)); // R1
        }
        if let Some(product) = p.order.product(x, panel.t()) {
            y.assign(&product);
        } else if x.nrows() <= FEW {
            Zip::indexed(&mut y).for_each(|(i, j), y| *y = x.row(i).dot(&panel.row(j)));
        } else {
            general_mat_mul(T::one(), &x, &panel.t(), T::zero(), &mut y);
        }
        p.draw(x, panel, &mut y);
        y.mapv_inplace(|y| p.output.round(y)); // R2
    });
    Ok(y)
}

/// Rows of w \[m, k\] that are widened at a time, for n rows of x: where these are many, as many panels for each thread.
fn panel_rows<T>(n: usize, (m, k): (usize, usize)) -> usize {
    let rows_of = |bytes: usize| (bytes / (k * size_of::<T>())).max(PANEL.0);
    if n <= MANY {
        return rows_of(PANEL.1);
    }
    let most = rows_of(PANEL_BYTES);
    m.div_ceil(m.div_ceil(most).next_multiple_of(rayon::current_num_threads()))
}

impl Linear {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        let (output, accumulator) = (contract.stored(), contract.accumulator);
        Linear { weight: Rounding::NONE, output, accumulator, order: contract.products(), mode: contract.mode }
    }

    /// The router's, under a contract: f32 throughout unless D41 says otherwise.
    pub fn router(contract: &RoundingContract) -> Self {
        let output = match contract.gate {
            GateRound::Stored | GateRound::Bias | GateRound::Weights => Rounding::NONE,
            GateRound::Activations => contract.stored(),
        };
        let accumulator = contract.scalar_accumulator();
        let order = contract.lanes(order::PARITY.router);
        Linear { weight: Rounding::NONE, output, accumulator, order, mode: contract.mode }
    }

    /// One whose output goes unrounded into the activation that follows, if that rounds once with them.
    pub fn before_activation(contract: &RoundingContract) -> Self {
        Linear { output: contract.before_activation(), ..Linear::under(contract) }
    }

    /// The sum's own error, in a stochastic run.
    fn draw<T: Real>(&self, x: ArrayView2<'_, T>, panel: Array2<T>, y: &mut ArrayViewMut2<'_, T>) {
        if !self.mode.draws() || self.accumulator == Accumulator::F64 {
            return;
        }
        let squares = x.mapv(|x| x * x).dot(&panel.mapv_into(|w| w * w).t());
        y.zip_mut_with(&squares, |y, &squares| *y = self.accumulator.drawn(self.mode, x.ncols(), squares, *y));
    }

    /// C1 and C2.
    pub fn check(&self, (n, k): (usize, usize), w: (usize, usize)) -> Result<(), ContractError> {
        require(1 <= n.min(k), "linear C1", "min(n, k)", n.min(k), "at least 1")?;
        require(w.1 == k, "linear C2", "columns of w", w.1, format!("k = {k}"))
    }

    /// With c and v of the accumulator, R1's u and an error δ of the inputs:
    /// |ŷ − y| ≤ Σ|wₖ|·(δₖ + (c + u + cu)·(|xₖ| + δₖ)), and what underflows, and what factors lose that count as zero; the
    /// variances of independent errors add.
    pub fn bound(&self, x: &Tracked<f64>, w: &Matrix<'_>, y: &Array2<f64>) -> ErrorBound {
        self.bound_with(x, w, None, y)
    }

    /// The same for a sum that has bⱼ in it, too: one term more.
    pub(super) fn bound_with(
        &self,
        x: &Tracked<f64>,
        w: &Matrix<'_>,
        b: Option<ArrayView1<'_, f64>>,
        y: &Array2<f64>,
    ) -> ErrorBound {
        let k = x.value.ncols() + usize::from(b.is_some());
        let u = self.weight.storage.unit_roundoff();
        let sums = self.accumulator.certain(k);
        let c = sums + u + sums * u;
        let input = x.error_or_exact();
        let mut worst = x.value.mapv(f64::abs);
        Zip::from(&mut worst).and(&input.certain).for_each(|x, &delta| *x = delta + c * (*x + delta));
        let own = self.accumulator.variance(k);
        let mut variance = input.sigma.mapv(|s| s * s);
        let per_product = own.unwrap_or(0.0) + u * u / 3.0;
        Zip::from(&mut variance).and(&x.value).for_each(|v, &x| *v += per_product * x * x);

        let mut error = ErrorBound::exact(y.dim());
        error.carried = input.carried + u32::from(!input.is_exact());
        let lost = input.certain.sum_axis(Axis(1)) + x.value.mapv(f64::abs).sum_axis(Axis(1));
        let flushed = self.accumulator.flushed_factor();
        let floor = lost * (self.weight.storage.underflow() + flushed) + k as f64 * self.accumulator.smallest_normal();
        let rows = panel_rows::<f64>(worst.nrows(), w.dim());
        let columns = error.certain.axis_chunks_iter_mut(Axis(1), rows).into_par_iter();
        columns.zip(error.sigma.axis_chunks_iter_mut(Axis(1), rows)).enumerate().for_each(|(i, (mut c, mut s))| {
            let panel = w.panel::<f64>(i * rows, c.ncols()).mapv_into(f64::abs);
            general_mat_mul(1.0, &worst, &panel.t(), 0.0, &mut c);
            c += &floor.view().insert_axis(Axis(1));
            let of_weights = (flushed > 0.0).then(|| panel.sum_axis(Axis(1)) * flushed);
            general_mat_mul(1.0, &variance, &panel.mapv_into(|w| w * w).t(), 0.0, &mut s);
            if let Some(of_weights) = of_weights {
                c += &of_weights;
                s += &of_weights.mapv(|lost| lost * lost / 3.0);
            }
            if let Some(b) = b {
                let b = b.slice_move(s![i * rows..i * rows + c.ncols()]);
                c += &b.mapv(|b| sums * b.abs());
                s += &b.mapv(|b| own.unwrap_or(0.0) * b * b);
            }
        });
        Zip::indexed(&mut error.sigma).and(&error.certain).and(y).for_each(|(i, _), sigma, &certain, &y| {
            *sigma = match own {
                Some(own) => (*sigma + own * y * y + floor[i].powi(2) / 3.0).sqrt().min(certain),
                None => certain,
            };
        });
        error.rounded(y.view(), self.output.storage)
    }
}
