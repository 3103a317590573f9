//! What each token chose, experts or blocks of keys, as a picture.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::judge::spread::tile;
use crate::kept::as_matrix;

/// Rows and columns of a picture, at most; rows of one chooser are not put together with another's.
const SIZE: (usize, usize) = (96, 128);

/// The levels of shares: none, and so many parts of all.
pub const PARTS: u8 = 20;

/// How a token's choice stands to the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It is the same.
    Same,
    /// It is another that rounding can explain.
    Legal,
    /// It is another that rounding cannot explain.
    Illegal,
}

/// How many tokens of each tile chose, and how this stands to the reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Rows and choices: tokens, those of one chooser after another's.
    pub dim: (usize, usize),
    /// The tokens of one chooser.
    pub tokens: usize,
    /// The share of each tile that is chosen, in [`PARTS`] and rounded up; and above that the worst standing of what was
    /// chosen or left out there, times `PARTS` + 1.
    #[serde(with = "as_matrix")]
    pub map: Array2<u8>,
}

impl Chosen {
    /// Of rows of `choices`, of which `rows` tells which were chosen, and which the reference chose that were not.
    pub fn of(dim: (usize, usize), tokens: usize, rows: impl Iterator<Item = Row>) -> Self {
        let choosers = dim.0 / tokens.max(1);
        let tiles = (choosers * tokens.min((SIZE.0 / choosers.max(1)).max(1)), dim.1.min(SIZE.1));
        let mut chosen = Array2::<usize>::zeros(tiles);
        let mut of = Array2::<usize>::zeros(tiles);
        let mut standing = Array2::from_elem(tiles, Standing::Same);
        for (number, row) in rows.enumerate() {
            let down = tile(number, dim.0, tiles.0);
            (0..dim.1).for_each(|choice| of[[down, tile(choice, dim.1, tiles.1)]] += 1);
            for choice in row.chosen {
                chosen[[down, tile(choice, dim.1, tiles.1)]] += 1;
            }
            for choice in row.other {
                let worst = &mut standing[[down, tile(choice, dim.1, tiles.1)]];
                *worst = (*worst).max(row.standing);
            }
        }
        let level = |at| {
            let parts = (chosen[at] * usize::from(PARTS)).div_ceil(of[at].max(1));
            u8::try_from(parts).expect("a share") + (PARTS + 1) * standing[at] as u8
        };
        Chosen { dim, tokens, map: Array2::from_shape_fn(tiles, level) }
    }
}

/// One choice of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was chosen, of what there is.
    pub chosen: Vec<usize>,
    /// What only one of candidate and reference chose.
    pub other: Vec<usize>,
    /// How it stands to the reference's.
    pub standing: Standing,
}
