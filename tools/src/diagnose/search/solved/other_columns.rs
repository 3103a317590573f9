//! Channels that have the values of others so many behind or before them, as where a part of a fused weight begins at another row.
//!
//! ```text
//! yᵢⱼ = ŷᵢ,ⱼ₊ₛ        of most channels j that are off; solved for s
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values. The first or the last channels have nothing there.

use super::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;

/// Rows and channels, at least.
const ROWS: usize = 4;
const CHANNELS: usize = 8;

/// One channel in so many may be none of them.
const OTHERS: usize = 8;

/// By how many channels they are off, at most.
const FURTHEST: isize = 256;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    let (y, right) = (&bench.candidate, &bench.ideal);
    let (n, m) = y.dim();
    if n < ROWS || m < CHANNELS {
        return None;
    }
    let is = |j: usize, other: usize| {
        let (own, other) = (y.column(j), right.column(other));
        let apart = &own - &other;
        apart.dot(&apart).sqrt() <= bench.rounding() * own.dot(&own).sqrt()
    };
    let off: Vec<usize> = (0..m).filter(|j| !is(*j, *j)).collect();
    if off.len() < CHANNELS {
        return None;
    }
    let source = |j: usize, by: isize| j.checked_add_signed(by).filter(|other| *other < m);
    let found = |by: isize| -> Vec<(usize, usize)> {
        let pairs = off.iter().filter_map(|j| source(*j, by).map(|other| (*j, other)));
        pairs.filter(|(j, other)| is(*j, *other)).collect()
    };
    let all = (1..=FURTHEST).flat_map(|by| [-by, by]);
    let (by, pairs) =
        all.map(|by| (by, found(by))).find(|(_, pairs)| OTHERS * (off.len() - pairs.len()) <= off.len())?;
    let mut values = right.clone();
    for (j, other) in &pairs {
        values.column_mut(*j).assign(&right.column(*other));
    }
    let side = if by < 0 { "before" } else { "behind" };
    let without: Vec<usize> = off.iter().copied().filter(|j| pairs.iter().all(|(own, _)| own != j)).collect();
    let rest = if without.is_empty() {
        String::new()
    } else {
        format!("; those of {} are none of this product's: channel {}", without.len(), listed::listed(&without))
    };
    let said = format!("{} of {m} channels have the values of the one {} {side} them{rest}", pairs.len(), by.abs());
    Some(Solution::new(vec![said], values))
}
