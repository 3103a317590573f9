//! What can be said of a fault that no known mistake explains: where it is, and what the values look like.

use std::collections::BTreeSet;

use ndarray::{Array2, ArrayView1};
use reference::config::Config;
use reference::site::{Axis, Extent};
use reference::{Site, Storage};

use crate::compare::metrics::unravel;
use crate::judge::judging::Kept;
use crate::report::figures::plural;

/// Numbers told one by one.
const TOLD: usize = 6;

/// Values of some rows and columns that have a factor in common, at least.
const SCALED: usize = 8;

/// The first and the last token with a value that is off.
pub(super) fn tokens_off(kept: &Kept, site: Site, config: &Config, extent: Extent) -> Option<(usize, usize)> {
    let token = site.axes().iter().position(|axis| *axis == Axis::Tokens)?;
    let off: Vec<usize> = indices(kept, site, config, extent).into_iter().map(|index| index[token]).collect();
    Some((*off.iter().min()?, *off.iter().max()?))
}

/// Sentences on a fault.
pub(super) fn describe(kept: &Kept, site: Site, config: &Config, extent: Extent) -> Vec<String> {
    let mut said = places(kept, site, config, extent);
    said.extend(infinite(kept));
    said.extend(constant_factor(kept));
    said.extend(clamped(kept));
    said.extend(another_row(kept));
    said.extend(permuted_columns(kept).or_else(|| reordered(kept)));
    said.extend(coarser(kept));
    #[cfg(feature = "lapack")]
    said.extend(super::rank::describe(kept));
    said
}

/// Which tokens, heads and channels are off, a sentence an axis.
pub(super) fn places(kept: &Kept, site: Site, config: &Config, extent: Extent) -> Vec<String> {
    let shape = site.shape(config, extent);
    let off = indices(kept, site, config, extent);
    if let [one] = &off[..] {
        return vec![format!("one value alone is off: {}", place(one, site, config))];
    }
    let mut said = Vec::new();
    for (i, (axis, &count)) in site.axes().iter().zip(&shape).enumerate() {
        let places = off.iter().map(|index| index[i]);
        if i == 1 && site.has_heads() {
            let d = config.head_dim;
            said.push(among("head", places.clone().map(|column| column / d), count / d));
            said.push(among("channel of a head", places.map(|column| column % d), d));
        } else {
            said.push(among(axis.name(), places, count));
        }
    }
    said
}

/// "token 19, head 2, channel of a head 5".
fn place(index: &[usize], site: Site, config: &Config) -> String {
    let of_axis = |(i, (axis, n)): (usize, (&Axis, &usize))| {
        if i == 1 && site.has_heads() {
            let d = config.head_dim;
            format!("head {}, channel of a head {}", n / d, n % d)
        } else {
            format!("{} {n}", axis.name())
        }
    };
    site.axes().iter().zip(index).enumerate().map(of_axis).collect::<Vec<_>>().join(", ")
}

/// The indices of the values that are off.
fn indices(kept: &Kept, site: Site, config: &Config, extent: Extent) -> Vec<Vec<usize>> {
    let shape = site.shape(config, extent);
    let columns = kept.reference.ncols();
    off(kept).map(|(row, column)| unravel(row * columns + column, &shape)).collect()
}

/// Where values are off.
fn off(kept: &Kept) -> impl Iterator<Item = (usize, usize)> {
    let Kept { candidate, reference, bound, .. } = kept;
    candidate.indexed_iter().filter(|(at, c)| !within(**c, reference[*at], bound[*at])).map(|(at, _)| at)
}

fn within(candidate: f64, reference: f64, bound: f64) -> bool {
    reference::compare::ratio(candidate, reference, bound) <= 1.0
}

/// "every token is off", "tokens 20 to 39 of 40 are off".
fn among(what: &str, found: impl Iterator<Item = usize>, count: usize) -> String {
    let found: BTreeSet<usize> = found.collect();
    let (Some(first), Some(last)) = (found.first(), found.last()) else { return format!("no {what} is off") };
    let plural = plural(what);
    if found.len() == count {
        return format!("every {what} is off");
    }
    if found.len() > 1 && last - first + 1 == found.len() {
        return format!("{plural} {first} to {last} of {count} are off");
    }
    let step = found.iter().nth(1).map(|second| second - first);
    let regular = step.filter(|step| found.len() > 2 && found.iter().enumerate().all(|(i, n)| *n == first + i * step));
    if let Some(step) = regular {
        return format!("one of every {step} {plural} is off, from {first} to {last}");
    }
    let listed: Vec<String> = found.iter().take(TOLD).map(ToString::to_string).collect();
    let more = if found.len() > TOLD { ", …" } else { "" };
    format!("{} of {count} {plural} are off: {}{more}", found.len(), listed.join(", "))
}

/// All values that are off are −∞, as those of tokens that a sampler suppresses, or another that is no number.
fn infinite(kept: &Kept) -> Option<String> {
    off(kept).next()?;
    let all = |is: fn(f64) -> bool| off(kept).all(|at| is(kept.candidate[at]));
    let what = if all(|x| x == f64::NEG_INFINITY) {
        "−∞: as of tokens that a sampler suppresses"
    } else if all(f64::is_nan) {
        "no number"
    } else if all(|x| !x.is_finite()) {
        "infinite, or no number"
    } else {
        return None;
    };
    Some(format!("every value that is off is {what}"))
}

/// All values that are off, and those of their rows and columns, the reference's times one number.
///
/// With cₖ = f·(rₖ + eₖ) at the largest rₖ and |e| ≤ b, the quotient of these two is f·(1 + eₖ/rₖ), by which every other
/// value is off by at most |f|·(bᵢ + bₖ·|rᵢ/rₖ|). Each is doubled: a factor moves values to where rounding is twice as coarse.
fn constant_factor(kept: &Kept) -> Option<String> {
    let Kept { candidate, reference, bound, .. } = kept;
    let (rows, columns): (BTreeSet<usize>, BTreeSet<usize>) = off(kept).unzip();
    let (rows, columns): (Vec<usize>, Vec<usize>) = (rows.into_iter().collect(), columns.into_iter().collect());
    let places = || rows.iter().flat_map(|row| columns.iter().map(move |column| (*row, *column)));
    let is_all = (rows.len(), columns.len()) == reference.dim();
    if !is_all && places().count() < SCALED {
        return None; // few values have soon a factor in common
    }
    let (k, r_k) = places().map(|at| (at, reference[at])).max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
    let (factor, off_k) = (candidate[k] / r_k, bound[k] / r_k.abs());
    let largest = factor.abs() / (1.0 - off_k);
    if off_k >= 1.0 || (factor - 1.0).abs() <= off_k {
        return None; // it is the reference's as well
    }
    let limit = |at| 2.0 * largest * (bound[at] + off_k * f64::abs(reference[at]));
    let scaled = places().all(|at| within(candidate[at], factor * reference[at], limit(at)));
    let which = if is_all { "every value" } else { "each of these values" };
    scaled.then(|| format!("{which} is {factor:.6} times the reference's"))
}

/// All values that are off are one number, or it and another of the other sign, and the reference's lie beyond.
fn clamped(kept: &Kept) -> Option<String> {
    let off: Vec<(f64, f64)> = off(kept).map(|at| (kept.candidate[at], kept.reference[at])).collect();
    let (least, most) = off.iter().fold((0.0, 0.0), |(least, most): (f64, f64), (c, _)| (least.min(*c), most.max(*c)));
    let is_limited = |(c, r): &(f64, f64)| (*c == least && *r < *c || *c == most && *r > *c) && c.is_finite();
    let is_within = || kept.candidate.iter().all(|c| (least == 0.0 || *c >= least) && (most == 0.0 || *c <= most));
    if off.len() < SCALED || !off.iter().all(is_limited) || !is_within() {
        return None;
    }
    let limits: Vec<String> = [least, most].iter().filter(|limit| **limit != 0.0).map(ToString::to_string).collect();
    Some(format!(
        "every value that is off is {}, and the reference's is beyond: as a clamp makes it",
        limits.join(" or ")
    ))
}

/// Rows that are another row's.
fn another_row(kept: &Kept) -> Option<String> {
    let Kept { candidate, reference, bound, .. } = kept;
    let rows = reference.nrows();
    let is = |i: usize, j: usize| same(candidate.row(i), reference.row(j), bound.row(j));
    for shift in 1..rows.min(4) {
        if (shift..rows).all(|i| is(i, i - shift)) {
            return Some(format!("every row is the reference's {shift} before it"));
        }
        if (shift..rows).all(|i| is(i - shift, i)) {
            return Some(format!("every row is the reference's {shift} after it"));
        }
    }
    let wrong: BTreeSet<usize> = off(kept).map(|(row, _)| row).collect();
    let [a, b] = wrong.iter().copied().collect::<Vec<_>>().try_into().ok()?;
    (is(a, b) && is(b, a)).then(|| format!("rows {a} and {b} are exchanged"))
}

/// Columns that are another column's.
fn permuted_columns(kept: &Kept) -> Option<String> {
    let Kept { candidate, reference, bound, .. } = kept;
    let is = |i: usize, j: usize| same(candidate.column(i), reference.column(j), bound.column(j));
    let columns = reference.ncols();
    if reference.nrows() < 2 {
        return None; // one value is soon another's
    }
    let source = |i: usize| if is(i, i) { Some(i) } else { (0..columns).find(|&j| is(i, j)) };
    let sources: Vec<usize> = (0..columns).map(source).collect::<Option<_>>()?;
    let distinct: BTreeSet<usize> = sources.iter().copied().collect();
    let moved: Vec<String> =
        sources.iter().enumerate().filter(|(i, j)| i != *j).take(TOLD).map(|(i, j)| format!("{i} has {j}")).collect();
    (distinct.len() == columns && !moved.is_empty()).then(|| format!("columns are permuted: {}, …", moved.join(", ")))
}

/// Rows that have the reference's values in other places, in each row others.
fn reordered(kept: &Kept) -> Option<String> {
    let Kept { candidate, reference, bound, .. } = kept;
    let rows: BTreeSet<usize> = off(kept).map(|(row, _)| row).collect();
    let ascending = |values: ArrayView1<'_, f64>| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
        order
    };
    let is_reordered = |&row: &usize| {
        let (own, other) = (ascending(candidate.row(row)), ascending(reference.row(row)));
        own.iter().zip(&other).all(|(i, j)| within(candidate[[row, *i]], reference[[row, *j]], bound[[row, *j]]))
    };
    // Of a few values of one row this is soon so.
    (rows.len() > 1 && reference.ncols() > 1 && rows.iter().all(is_reordered))
        .then(|| "each row that is off has the reference's values in another order".to_owned())
}

fn same(candidate: ArrayView1<'_, f64>, reference: ArrayView1<'_, f64>, bound: ArrayView1<'_, f64>) -> bool {
    candidate.iter().zip(reference).zip(bound).all(|((c, r), b)| within(*c, *r, *b))
}

/// Values that lie on a coarser grid than they are stored in.
fn coarser(kept: &Kept) -> Option<String> {
    let on = |values: &Array2<f64>, storage: Storage| values.iter().all(|x| storage.nearest(*x) == *x);
    let found = [Storage::Bf16, Storage::F16].into_iter().find(|storage| on(&kept.candidate, *storage))?;
    Some(format!("every value is a {found}"))
}
