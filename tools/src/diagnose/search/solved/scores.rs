//! What was done to attention's scores, where its probabilities are shown.
//!
//! ```text
//! ln p′(h,i,j) − ln p(h,i,j) = θ·x(h,i,j) + c(h,i)        solved for θ
//! ```
//!
//! with the probabilities p \[heads·n, keys\] of each call, one head's rows below the other's: but for a number of each row the
//! difference is what was done to its scores. [`rows`] has it; [`masked`] says which keys are seen that must not be, or the
//! other way round, and [`finite`], by which number a mask or a sink counts; [`bias`], what scores are multiplied by or have added
//! to them; [`keys`], that some keys are others; [`angles`], how queries and keys are rotated; [`functions`], that the exponential
//! is another function.

mod angles;
mod bias;
mod finite;
mod functions;
mod keys;
mod masked;
mod rows;

use self::rows::Rows;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Some(rows) = Rows::of(bench) else { return Ok(Vec::new()) };
    if let Some(solution) = masked::solve(&rows, bench)? {
        return Ok(vec![solution]);
    }
    if let Some(solution) = bias::solve(&rows, bench) {
        return Ok(vec![solution]);
    }
    if let Some(solution) = keys::solve(&rows, bench)? {
        return Ok(vec![solution]);
    }
    if let Some(solution) = angles::solve(&rows, bench)? {
        return Ok(vec![solution]);
    }
    Ok(functions::solve(&rows, bench).into_iter().collect())
}
