//! The keys that each token really saw, and how attention weighed them.
//!
//! ```text
//! o(h,i) = Σⱼ pᵢⱼ·v(g,j)        with other p for one token after the other
//! ```
//!
//! Of the ways to weigh keys in [`way`], the one under which a token's row is the candidate's, and what tokens have in
//! common ([`told`]); [`heads`] computes them.

mod heads;
mod told;
mod way;

use self::heads::Heads;
use self::told::tell;
use self::way::Way;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Multiplications that are spent on ways.
const BUDGET: usize = 20_000_000_000;

pub(super) fn describe(bench: &Bench<'_, '_>) -> Result<Vec<String>, Failure> {
    let Some(heads) = Heads::of(bench)? else { return Ok(Vec::new()) };
    let n = bench.candidate.nrows();
    let off: Vec<usize> = (0..n).filter(|row| bench.row_is_off(*row)).collect();
    let cost = 3 * n * heads.count * heads.d * bench.candidate.ncols().max(n);
    let told: Vec<usize> = some(&off, BUDGET / cost.max(1));
    let mut found: Vec<(usize, Way)> = Vec::new();
    for &row in &told {
        let right = heads.output(heads.right(row).view());
        let is = bench.ideal.row(row);
        let apart = &right - &is;
        if apart.dot(&apart).sqrt() > 1e-6 * is.dot(&is).sqrt() {
            return Ok(Vec::new()); // there is more to its attention than what is solved here
        }
        found.extend(heads.ways(row, bench).into_iter().map(|way| (row, way)));
    }
    if found.is_empty() {
        return Ok(heads.slopes(&told, bench).into_iter().collect());
    }
    Ok(tell(&found, &told, &off))
}

/// So many of them, the first and the last.
fn some(rows: &[usize], most: usize) -> Vec<usize> {
    if rows.len() <= most {
        return rows.to_vec();
    }
    let (first, last) = (most.div_ceil(2), most / 2);
    rows[..first].iter().chain(&rows[rows.len() - last..]).copied().collect()
}
