//! Tokens whose rows of the embedding are 0, one element of a token's row times a factor, and an embedding times the root of its
//! width, as Gemma's.

use std::collections::BTreeSet;

use reference::Site;
use reference::weights::Weight;

use super::factor::{Candidate, STEP, fit};
use super::suspects::Suspect;
use super::{Bench, element, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::Part;
use crate::failure::Failure;

const EMBEDDING: Suspect = Suspect { of: Weight::Embedding, first: None, head: None };

/// Tokens that are named, at most.
const TOKENS: usize = 8;

/// Channels in which an element is looked for, those first that are off the most.
const CHANNELS: usize = 4;

/// Of the squares that the row has that is off the most, how many another that is off must have.
const SMALLEST: f64 = 1e-3;

/// What the embedding may be multiplied by, where layers before the site leave little of a factor to least squares from 1.
pub(super) fn scaled(bench: &Bench<'_, '_>) -> Result<Option<Assumed>, Failure> {
    if !bench.suspects.contains(&Site::Embedding) || bench.site == Site::Embedding {
        return Ok(None);
    }
    let start = (bench.config().hidden_size as f64).sqrt();
    let times = |factor| bench.ideal_under(&[bench.assumed(&kinds::SCALED, EMBEDDING.times(Part::All, factor))]);
    let derivative = (times(start * (1.0 + STEP))? - times(start)?) / (start * STEP);
    let columns = (0..derivative.ncols()).collect();
    fit(bench, &Candidate { suspect: EMBEDDING, part: Part::All, columns, derivative, explained: 0.0, start })
}

/// The tokens whose rows are off: that these are 0, and of one, that an element is another.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let tokens = bench.tokens();
    let off = bench.off_by_row();
    if !bench.suspects.contains(&Site::Embedding) || off.len() != tokens.len() {
        return Ok(Vec::new());
    }
    let least = SMALLEST * off.iter().copied().fold(0.0, f64::max);
    let rows = off.iter().zip(tokens).filter(|(off, _)| **off > least).map(|(_, token)| token as usize);
    let rows: BTreeSet<usize> = rows.collect();
    if rows.is_empty() || rows.len() > TOKENS {
        return Ok(Vec::new());
    }
    let elements =
        if let [token] = rows.iter().copied().collect::<Vec<_>>()[..] { of_one(bench, token)? } else { Vec::new() };
    let zero = EMBEDDING.times(Part::Rows(rows.into_iter().collect()), 0.0);
    Ok(elements.into_iter().chain([bench.assumed(&kinds::ZERO, zero)]).collect())
}

/// Elements of a token's row times a factor, in the channels that are off the most.
fn of_one(bench: &Bench<'_, '_>, token: usize) -> Result<Vec<Assumed>, Failure> {
    let squares = bench.off_by_column();
    if squares.len() != bench.config().hidden_size {
        return Ok(Vec::new());
    }
    let mut columns: Vec<usize> = (0..squares.len()).collect();
    columns.sort_by(|a, b| squares[*b].total_cmp(&squares[*a]));
    let found = columns.into_iter().take(CHANNELS).map(|column| {
        let part = Part::Element(token, column);
        element::fitted(bench, EMBEDDING, part, column)
    });
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
