//! The blocks of keys that each token really saw, where attention is to chosen ones.
//!
//! ```text
//! o(h,i) = Σ pⱼ·v(g,j)        over the j ≤ i with ⌊j/b⌋ in C(i)        solved for C(i), from what was chosen on
//! ```
//!
//! of query head h and its key head g, with o \[heads, d\] of token i, weights p by the softmax of its scores, values v
//! \[groups, n, d\], and blocks of b keys. [`seen`] finds the blocks of one token; [`told`] says what tokens have in common
//! in them.

mod seen;
mod told;

use reference::config::Attention;

use self::seen::Blocks;
use self::told::tell;
use super::solution::Solution;
use super::weighing::{self, Heads};
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Multiplications that are spent on blocks: some seconds of a processor.
const BUDGET: usize = 20_000_000_000;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let (Some(heads), Some(chosen), Some(index)) =
        (Heads::of(bench, Attention::BlockSparse)?, &bench.twin.blocks, bench.config().index)
    else {
        return Ok(Vec::new());
    };
    let n = bench.candidate.nrows();
    if chosen.nrows() != n * index.choices {
        return Ok(Vec::new());
    }
    let blocks = Blocks { heads: &heads, chosen, choices: index.choices, size: index.blocks.size };
    let off: Vec<usize> = (0..n).filter(|row| bench.row_is_off(*row)).collect();
    // A block more or less, or one for another, of each choice, a few times.
    let (visible, each) = (n.div_ceil(index.blocks.size), heads.count * heads.d * bench.candidate.ncols());
    let tried = off.len().min(BUDGET / (index.choices * visible * index.blocks.top_k * each).max(1));
    let mut found = Vec::new();
    let mut values = bench.ideal.clone();
    for &row in &off[off.len() - tried..] {
        let Some((differs, own)) = blocks.of_row(row, bench) else { continue };
        values.row_mut(row).assign(&own);
        found.push((row, differs));
    }
    let said = tell(&found, tried, off.len(), index.blocks.size);
    if said.is_empty() {
        // Of the first tokens all blocks are chosen: what their keys say is not of a choice.
        return Ok(weighing::of_rows(&heads, |row| blocks.are_all(row), bench));
    }
    Ok(vec![Solution::new(said, values)])
}
