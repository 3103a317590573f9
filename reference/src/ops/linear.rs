//! Linear: each row of x times the transpose of a weight.
//!
//! ```text
//! yᵢⱼ = Σₖ xᵢₖ · wⱼₖ
//! ```
//!
//! - Shapes: x \[n, k\], w \[m, k\], y \[n, m\].
//! - Dtypes: x, w and y bf16; the sum f32. A precision may have another type for x in products (`operands`), to which the
//!   caller narrows it; where w is quantized, x may be, too (`inputs`), by the caller. Runs that draw errors may be multiplied side
//!   by side, in f32 where y has 16 bits: `side_by_side`.
//! - Rounding: R1 at w, where the operator takes it in another type than it is held in; R2 at y, unless an activation follows
//!   that rounds once with its projections, or a product with an expert's weight that takes the sum as it is.
//! - Errors: C1 n, k ≥ 1; C2 columns of w = k.
//! - Variants: D41 what the router's weight and its output are rounded to.
//! - Source: spec A4, A7, A9, A17; `nn.Linear` without bias.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, Zip, concatenate};

use crate::accumulator::Accumulator;
use crate::bound::ErrorBound;
use crate::error::require;
use crate::matrix::Matrix;
use crate::order::{self, Order};
use crate::parallel::{self, ELEMENT};
use crate::product::{Absolute, Packed, Product, Scaled, panel_rows};
use crate::rounding::{ExpertSum, GateRound};
use crate::storage::Mode;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// What is stored with such an error or more, 2⁻¹², is stored in 16 bits.
const NARROW: f64 = 1.0 / (1 << 12) as f64;

/// How far a row of one run may be from another's, relative to it, for both to have the same squares: the standard deviation that is
/// drawn from these is then off by as much as the row is, typically.
const NEAR: f64 = 0.25;

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

/// y of x and w.
pub fn linear<T: Real>(p: &Linear, x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), w.dim())?;
    let squares = p.draws().then(|| Scaled::of_squares(x));
    Ok(multiplied::<T, T>(&|_| p, x, squares.as_ref(), w))
}

/// The same of several runs' x, whose parameters are one but for how they draw. Runs that draw errors of sums, whose candidate adds in
/// f32 or less, and store them in 16 bits, are multiplied in f32: that error, √k·2⁻²⁴ of √Σ(xw)², is what is drawn for the candidate's
/// own adding, so that a run strays √2 times as far there at most, and what is rounded to 16 bits is 2¹² times larger but where y cancels.
/// Where rows are as many in each run, and near to one another, the squares that errors follow from are the first run's.
pub(crate) fn side_by_side<T: Real>(runs: &[(Linear, ArrayView2<'_, T>)], w: &Matrix<'_>) -> Vec<Array2<T>> {
    let x = concatenate(Axis(0), &runs.iter().map(|(_, x)| x.view()).collect::<Vec<_>>()).expect("as wide as w");
    let of_row: Vec<&Linear> = runs.iter().flat_map(|(p, x)| std::iter::repeat_n(p, x.nrows())).collect();
    let (p, first) = runs[0];
    let is_near = runs.iter().all(|(_, x)| x.dim() == first.dim() && are_near(first, *x));
    let drawn = if is_near { first } else { x.view() };
    let squares = p.draws().then(|| Scaled::of_squares(drawn));
    let params = |row: usize| of_row[row];
    let y = if p.draws() && p.output.storage.unit_roundoff() >= NARROW {
        multiplied::<T, f32>(&params, x.mapv(|x| f32::of(x.wide())).view(), squares.as_ref(), w)
    } else {
        multiplied::<T, T>(&params, x.view(), squares.as_ref(), w)
    };
    let mut below = y.view();
    runs.iter()
        .map(|(_, x)| {
            let (own, rest) = below.split_at(Axis(0), x.nrows());
            below = rest;
            own.to_owned()
        })
        .collect()
}

/// Whether no row is far from the other.
fn are_near<T: Real>(x: ArrayView2<'_, T>, other: ArrayView2<'_, T>) -> bool {
    let square = |x: T| x.wide() * x.wide();
    x.rows().into_iter().zip(other.rows()).all(|(x, other)| {
        let apart: f64 = x.iter().zip(other).map(|(x, other)| square(*x - *other)).sum();
        apart <= NEAR * NEAR * x.iter().map(|x| square(*x)).sum::<f64>()
    })
}

/// Products of x in its own type, each row with parameters of its own, whose errors are drawn by `squares`.
fn multiplied<'p, T: Real, F: Real>(
    of_row: &(impl Fn(usize) -> &'p Linear + Sync),
    x: ArrayView2<'_, F>,
    squares: Option<&Scaled>,
    w: &Matrix<'_>,
) -> Array2<T> {
    let p = of_row(0);
    let mut y = Array2::zeros((x.nrows(), w.dim().0));
    let rows = panel_rows::<F>(w.dim());
    let packed = (p.order == Order::Any).then(|| Packed::of(x));
    let (panels, multiplications) = (y.axis_chunks_iter_mut(Axis(1), rows).enumerate(), x.len() * w.dim().0);
    parallel::for_each(panels, multiplications, |(i, mut y)| {
        let mut sums = Array2::zeros(y.dim());
        if let (Some(packed), None) = (packed.as_ref().filter(|packed| packed.is_few()), &squares) {
            let widen = |(j, column), part: &mut [F]| {
                w.part_into((i * rows + j, column), part);
                p.weight.round_all(part); // R1
            };
            packed.times_rows(widen, &mut sums.view_mut());
            y.zip_mut_with(&sums, |y, sum| *y = T::of(sum.wide()));
        } else {
            let mut panel = w.panel::<F>(i * rows, y.ncols());
            p.weight.round_all(panel.as_slice_mut().expect("a new array is in one piece")); // R1
            if let Some(packed) = &packed {
                packed.times(panel.view(), &mut sums.view_mut());
            } else {
                let product = p.order.product(x, panel.t());
                sums.assign(&product.expect("any order but `Any` is computed in that order"));
            }
            y.zip_mut_with(&sums, |y, sum| *y = T::of(sum.wide()));
            if let Some(squares) = squares {
                let drawn = |row, squares, y| {
                    let p = of_row(row);
                    p.accumulator.drawn(p.mode, x.ncols(), T::of(squares), y)
                };
                squares.with_squares(panel.view(), &mut y, drawn);
            }
        }
        let rows = y.rows_mut().into_iter().enumerate();
        rows.for_each(|(row, y)| of_row(row).output.round_all(y.into_slice().expect("a row is in one piece"))); // R2
    });
    y
}

/// The same of a product that is known.
pub(crate) fn of_product<T: Real>(p: &Linear, product: &Product<T>) -> Array2<T> {
    let (mut y, terms) = (product.sums.clone(), product.terms());
    let elements = ELEMENT * y.len();
    parallel::for_each(y.axis_iter_mut(Axis(0)).enumerate(), elements, |(i, mut y)| {
        if p.draws() {
            let squares = |j| T::of(product.absolute.square((i, j)));
            y.indexed_iter_mut().for_each(|(j, y)| *y = p.accumulator.drawn(p.mode, terms, squares(j), *y));
        }
        p.output.round_all(y.into_slice().expect("a row is in one piece")); // R2
    });
    y
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
            GateRound::Activations | GateRound::Product => contract.stored(),
        };
        let accumulator = contract.scalar_accumulator();
        let order = contract.lanes(order::PARITY.router);
        Linear { weight: Rounding::NONE, output, accumulator, order, mode: contract.mode }
    }

    /// One whose output goes unrounded into the activation that follows, if that rounds once with them.
    pub fn before_activation(contract: &RoundingContract) -> Self {
        Linear { output: contract.before_activation(), ..Linear::under(contract) }
    }

    /// An expert's output, which goes unrounded into its product with a weight, if experts are added so.
    pub fn before_weight(contract: &RoundingContract) -> Self {
        let stored = Linear::under(contract);
        match contract.experts {
            ExpertSum::Weighted | ExpertSum::Whole => Linear { output: Rounding::NONE, ..stored },
            ExpertSum::Once | ExpertSum::Each | ExpertSum::EachUnordered | ExpertSum::Running | ExpertSum::Products => {
                stored
            }
        }
    }

    /// Whether runs with both may be multiplied together: they are one but for what is drawn.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let (mode, output) = (other.mode, Rounding { mode: other.output.mode, ..self.output });
        self.mode.draws() == mode.draws() && Linear { output, mode, ..*self } == *other
    }

    /// Whether the sum is that of the numbers themselves, in any order.
    pub(crate) fn is_free(&self) -> bool {
        self.weight == Rounding::NONE && self.order == Order::Any
    }

    fn draws(&self) -> bool {
        self.mode.draws() && self.accumulator != Accumulator::F64
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
        self.bound_with(x, w, (None, None::<&Product<f64>>), y)
    }

    /// The same for a sum that has bⱼ in it, too: one term more; and where the product is known, from its sums.
    pub(crate) fn bound_with<T: Real>(
        &self,
        x: &Tracked<f64>,
        w: &Matrix<'_>,
        (b, product): (Option<ArrayView1<'_, f64>>, Option<&Product<T>>),
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
        let made;
        let (absolute, factors) = match product {
            Some(product) if input.is_exact() => (&product.absolute, (c, per_product)),
            _ if input.is_exact() => {
                made = Absolute::of(x.value.mapv(f64::abs).view(), x.value.mapv(|x| x * x).view(), w);
                (&made, (c, per_product))
            }
            _ => {
                made = Absolute::of(worst.view(), variance.view(), w);
                (&made, (1.0, 1.0))
            }
        };
        let own_or_none = own.unwrap_or(0.0);
        let bound = |at: (usize, usize), certain: &mut f64, sigma: &mut f64, &y: &f64| {
            let of_weight = flushed * absolute.weights[at.1];
            let b = b.map_or(0.0, |b| b[at.1]);
            *certain = factors.0 * absolute.certain(at) + floor[at.0] + of_weight + sums * b.abs();
            let variance =
                factors.1 * absolute.square(at) + of_weight * of_weight / 3.0 + own_or_none * (b * b + y * y);
            *sigma = match own {
                Some(_) => (variance + floor[at.0] * floor[at.0] / 3.0).sqrt().min(*certain),
                None => *certain,
            };
        };
        let rows = error.certain.rows_mut().into_iter().zip(error.sigma.rows_mut()).zip(y.rows()).enumerate();
        parallel::for_each(rows, ELEMENT * y.len(), |(i, ((certain, sigma), y))| {
            Zip::indexed(certain).and(sigma).and(y).for_each(|j, certain, sigma, y| bound((i, j), certain, sigma, y));
        });
        error.rounded(y.view(), self.output.storage)
    }
}
