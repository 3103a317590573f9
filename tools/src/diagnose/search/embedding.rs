//! Tokens whose rows of the embedding are 0.

use std::collections::BTreeSet;

use reference::Site;
use reference::weights::Weight;

use super::suspects::Suspect;
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::Part;

/// Tokens that are named, at most.
const TOKENS: usize = 8;

/// Of the squares that the row has that is off the most, how many another that is off must have.
const SMALLEST: f64 = 1e-3;

/// The tokens whose rows are off.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let tokens = bench.tokens();
    let off = bench.off_by_row();
    if !bench.suspects.contains(&Site::Embedding) || off.len() != tokens.len() {
        return Vec::new();
    }
    let least = SMALLEST * off.iter().copied().fold(0.0, f64::max);
    let rows = off.iter().zip(tokens).filter(|(off, _)| **off > least).map(|(_, token)| token as usize);
    let rows: BTreeSet<usize> = rows.collect();
    if rows.is_empty() || rows.len() > TOKENS {
        return Vec::new();
    }
    let suspect = Suspect { of: Weight::Embedding, first: None, head: None };
    let zero = suspect.times(Part::Rows(rows.into_iter().collect()), 0.0);
    vec![bench.assumed(&kinds::ZERO, zero)]
}
