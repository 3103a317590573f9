//! What an RMS norm computes in fewer bits than it should, or divides by another number than its channels'.
//!
//! ```text
//! yᵢⱼ = mⱼ·ρ(xᵢⱼ·rᵢ)        rᵢ = 1/√(ε + (1/d)·Σₖ xᵢₖ²)        one of m, x, ρ, r, the squares and their sum rounded; solved for which
//! rᵢ = 1/√(ε + (1/c)·Σₖ xᵢₖ²)        c one less, as an unbiased variance has it, 1, or a width that channels are padded to
//! ```
//!
//! with x \[n, d\] what goes in and m \[d\] what is multiplied with: the weight, or 1 plus it. A row is a token's, or that of one
//! of its heads.

use std::fmt;

use ndarray::{Array1, Array2, ArrayView1, Axis, Zip, s};
use reference::Storage;
use reference::semantics::NormWeight;

use super::statistic::{divided, root};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// The share of the values that are not the twin's which are reproduced, at least.
const OF_UNEQUAL: f64 = 0.5;

/// The share of squares that are left, at most, where numbers have so many bits that few are reproduced.
const LEFT: f64 = 0.01;

/// How far the right values may be from those of this equation: what f64 leaves.
const OWN: f64 = 1e-9;

/// Squares that are added up in fewer bits, at most.
const LONGEST: usize = 256;

/// Channels of which rows are padded to a multiple.
const PADDED: [usize; 3] = [64, 128, 256];

/// What is rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rounded {
    /// What stands there already: a right norm, whether x·r is stored or not.
    Nothing,
    /// x.
    Input,
    /// m.
    Weight,
    /// x·r.
    Normalized,
    /// r.
    Root,
    /// The mean of squares.
    Mean,
    /// Nothing, but the sum of squares is divided by another number.
    Divided(usize),
    /// Squares.
    Squares,
    /// All of them, each as it is made: squares, their mean, that and ε, the root, and x·r.
    Throughout,
    /// Squares, and the sums of so many in a row; the sum of these, too, or not.
    Sums(usize, bool),
    /// Squares, and the sums of each that is so many behind the last; the sum of these, too, or not.
    Strided(usize, bool),
}

/// A way to round.
#[derive(Debug, Clone, Copy)]
struct Way {
    rounded: Rounded,
    to: Storage,
    /// ρ.
    normalized: Storage,
}

/// A norm's rows.
struct Rows<'a> {
    x: &'a Array2<f64>,
    m: &'a Array1<f64>,
    eps: Array2<f64>,
    output: Storage,
}

/// What is said of a norm that reads x, as it is stored, and multiplies with m, where that explains it; `unrounded` is what the right
/// values are of.
pub(super) fn solve(
    bench: &Bench<'_, '_>,
    x: &Array2<f64>,
    unrounded: &Array2<f64>,
    m: &Array1<f64>,
) -> Option<Solution> {
    let rows = Rows { x, ..Rows::of(bench, unrounded, m)? };
    let (way, values) = rows.found(bench, Way::all(m.len(), rows.output))?;
    let is_one_plus = bench.config().norm_weight == NormWeight::OnePlus;
    let said = match way.rounded {
        Rounded::Weight if is_one_plus => format!("1 plus the norm's weight is rounded to {}", way.to),
        rounded => format!("{rounded} rounded to {}", way.to),
    };
    Some(Solution::new(vec![said], values))
}

/// The same of a sum of squares that is divided by another number than that of its channels, whatever else may be.
pub(super) fn of_divisor(
    bench: &Bench<'_, '_>,
    x: &Array2<f64>,
    unrounded: &Array2<f64>,
    m: &Array1<f64>,
) -> Option<Solution> {
    let rows = Rows { x, ..Rows::of(bench, unrounded, m).filter(|_| m.len() > 1)? };
    let ways =
        divisors(m.len()).into_iter().flat_map(|count| Way::of(Rounded::Divided(count), rows.output, rows.output));
    let (way, values) = rows.found(bench, ways)?;
    let Rounded::Divided(count) = way.rounded else { return None };
    Some(Solution::new(vec![divided(m.len(), count as f64)], values))
}

/// What a sum of so many squares may be divided by: one less, 1, the next power of two and the next multiples of some.
fn divisors(width: usize) -> Vec<usize> {
    let padded = PADDED.map(|each| width.next_multiple_of(each));
    let mut all: Vec<usize> = [width - 1, 1, width.next_power_of_two()].into_iter().chain(padded).collect();
    all.retain(|count| *count != width && *count > 0);
    all.sort_unstable();
    all.dedup();
    all
}

impl Way {
    fn all(width: usize, output: Storage) -> impl Iterator<Item = Way> {
        use Rounded::{Input, Mean, Normalized, Root, Squares, Throughout, Weight};
        let powers = || (1..).map(|power| 1_usize << power).take_while(move |count| *count <= LONGEST.min(width));
        let both = |of: fn(usize, bool) -> Rounded| powers().flat_map(move |count| [of(count, false), of(count, true)]);
        let sums = both(Rounded::Sums).chain([Rounded::Sums(width, false)]);
        let sums: Vec<Rounded> = sums.chain(both(Rounded::Strided)).collect();
        let rounded = [Weight, Input, Normalized, Root, Mean, Squares, Throughout].into_iter().chain(sums);
        let each = rounded.flat_map(|rounded| [Storage::Bf16, Storage::F16].map(|to| (rounded, to)));
        let each = each.filter(move |(rounded, to)| *rounded != Normalized || *to != output);
        each.flat_map(move |(rounded, to)| Way::of(rounded, to, output))
    }

    /// Where x·r is stored, and where it is not.
    fn of(rounded: Rounded, to: Storage, output: Storage) -> impl Iterator<Item = Way> {
        [output, Storage::Real].into_iter().map(move |normalized| Way { rounded, to, normalized })
    }
}

impl<'a> Rows<'a> {
    /// None where the right values do not follow from x and m.
    fn of(bench: &Bench<'_, '_>, x: &'a Array2<f64>, m: &'a Array1<f64>) -> Option<Self> {
        let (y, width) = (&bench.ideal, m.len());
        if x.dim() != y.dim() || !y.ncols().is_multiple_of(width) {
            return None;
        }
        let mut eps = Array2::zeros((y.nrows(), y.ncols() / width));
        let mut is_own = true;
        Zip::indexed(&mut eps).for_each(|(i, head), eps| {
            let of = |values: &Array2<f64>| values.row(i).iter().skip(head * width).take(width).copied().collect();
            let (x, y): (Array1<f64>, Array1<f64>) = (of(x), of(y));
            let (r, own) = root((&y / m).view(), x.view());
            *eps = own;
            let apart = &y - &(&x * m * r);
            is_own &= apart.dot(&apart) <= OWN * OWN * y.dot(&y);
        });
        let output = bench.contract().shown();
        is_own.then_some(Rows { x, m, eps, output })
    }

    /// Of some ways that which reproduces the most values, if it does most of those that no right norm has.
    fn found(&self, bench: &Bench<'_, '_>, ways: impl Iterator<Item = Way>) -> Option<(Way, Array2<f64>)> {
        let of = |way: Way| {
            let values = self.values(way);
            (bench.equal(&values).equal, bench.distance(&values), way, values)
        };
        // A right norm, as the twin rounds it or otherwise.
        let (mut right, mut before) = (bench.equal(&bench.twin.computed).equal, bench.off());
        for (equal, off, ..) in Way::of(Rounded::Nothing, self.output, self.output).map(of) {
            (right, before) = (right.max(equal), before.min(off));
        }
        let unequal = bench.candidate.len() - right;
        // The most values; of as many, as where next to none are, what is nearest.
        let (equal, off, way, values) = ways.map(of).reduce(|a, b| if (b.0, -b.1) > (a.0, -a.1) { b } else { a })?;
        let is_reproduced = equal as f64 - right as f64 >= OF_UNEQUAL * unequal as f64;
        (unequal > 0 && (is_reproduced || off <= LEFT * before)).then_some((way, values))
    }

    fn values(&self, way: Way) -> Array2<f64> {
        let width = self.m.len();
        let mut values = Array2::zeros(self.x.dim());
        for ((i, head), eps) in self.eps.indexed_iter() {
            let columns = head * width..(head + 1) * width;
            let own = way.row(self.x.row(i).slice(s![columns.clone()]), self.m, *eps);
            values.row_mut(i).slice_mut(s![columns]).assign(&own.mapv(|y| self.output.nearest(y)));
        }
        values
    }
}

impl Way {
    /// A row of this way.
    fn row(self, x: ArrayView1<'_, f64>, m: &Array1<f64>, eps: f64) -> Array1<f64> {
        let to = |value: f64| self.to.nearest(value);
        let is_throughout =
            |own: Rounded| self.rounded == Rounded::Throughout && own != Rounded::Input && own != Rounded::Weight;
        let at = |own: Rounded, value: f64| if self.rounded == own || is_throughout(own) { to(value) } else { value };
        let x = x.mapv(|x| at(Rounded::Input, x));
        let squares = x.mapv(|x| x * x);
        let total = |parts: &mut dyn Iterator<Item = f64>, is_rounded: bool| {
            if is_rounded { added(parts, to) } else { parts.sum::<f64>() }
        };
        let sum = match self.rounded {
            Rounded::Squares | Rounded::Throughout => squares.mapv(to).sum(),
            Rounded::Sums(count, whole) => {
                total(&mut squares.axis_chunks_iter(Axis(0), count).map(|part| added(part.iter().copied(), to)), whole)
            }
            Rounded::Strided(count, whole) => {
                total(&mut (0..count).map(|first| added(squares.iter().copied().skip(first).step_by(count), to)), whole)
            }
            _ => squares.sum(),
        };
        let count = if let Rounded::Divided(count) = self.rounded { count } else { x.len() };
        let mean = at(Rounded::Mean, sum / count as f64);
        let r = at(Rounded::Root, at(Rounded::Throughout, mean + eps).sqrt().recip());
        Zip::from(&x).and(m).map_collect(|x, m| {
            let normalized = at(Rounded::Normalized, self.normalized.nearest(x * r));
            at(Rounded::Weight, *m) * normalized
        })
    }
}

/// Rounded numbers, added up and rounded after each.
fn added(values: impl Iterator<Item = f64>, to: impl Fn(f64) -> f64) -> f64 {
    values.fold(0.0, |sum, value| to(sum + to(value)))
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rounded::Nothing => f.write_str("nothing is"),
            Rounded::Input => f.write_str("what goes into the norm is"),
            Rounded::Weight => f.write_str("the norm's weight is"),
            Rounded::Normalized => f.write_str("what is normed is, before the weight,"),
            Rounded::Root => f.write_str("the reciprocal root of the mean square is"),
            Rounded::Mean => f.write_str("the mean square is"),
            Rounded::Divided(count) => write!(f, "the sum of squares, divided by {count}, is"),
            Rounded::Squares => f.write_str("squares are"),
            Rounded::Throughout => {
                f.write_str("squares, their mean, its sum with ε, the reciprocal root and what is normed are")
            }
            Rounded::Sums(count, false) => write!(f, "squares, and their sums of {count} in a row, are"),
            Rounded::Sums(count, true) => {
                write!(f, "squares, their sums of {count} in a row, and the sum of these are")
            }
            Rounded::Strided(count, false) => write!(f, "squares, and the sums of each {count}th of them, are"),
            Rounded::Strided(count, true) => {
                write!(f, "squares, the sums of each {count}th of them, and the sum of these are")
            }
        }
    }
}
