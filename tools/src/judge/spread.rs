//! How a site's errors are spread: over their sizes, and over rows and columns.

use ndarray::Array2;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::kept::{as_list, as_matrix};

/// Rows and columns of a map, at most.
pub const MAP: (usize, usize) = (48, 64);

/// The bins of a histogram: the first holds ratios below 2 to this power too, the last all that are above it.
pub const LOWEST: i32 = -24;

/// A bin an octave.
pub const BINS: usize = 40;

/// Ratios of error to bound, counted and located.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Values without an error.
    pub exact: usize,
    /// Values whose ratio is from 2^(LOWEST + i) to twice that.
    #[serde(with = "as_list")]
    pub bins: [usize; BINS],
    /// Values whose ratio is infinite: not a number, or off where nothing may be.
    pub infinite: usize,
    /// Rows and columns of the values.
    pub dim: (usize, usize),
    /// The largest ratio of each tile of values, as a [`level`].
    #[serde(with = "as_matrix")]
    pub map: Array2<u8>,
    /// The largest ratio of each row, as a [`level`].
    pub rows: Vec<u8>,
}

impl Spread {
    /// Of a matrix of these many rows and columns, whose ratios `ratio` knows. They are never NaN.
    pub fn of(dim: (usize, usize), ratio: impl Fn((usize, usize)) -> f64 + Sync) -> Self {
        let (rows, columns) = dim;
        let mut spread = Spread {
            exact: 0,
            bins: [0; BINS],
            infinite: 0,
            dim,
            map: Array2::zeros((rows.min(MAP.0), columns.min(MAP.1))),
            rows: Vec::with_capacity(rows),
        };
        let parts: Vec<Part> =
            (0..rows).into_par_iter().map(|row| Part::of(columns, |column| ratio((row, column)))).collect();
        for (row, part) in parts.into_iter().enumerate() {
            spread.exact += part.exact;
            spread.infinite += part.infinite;
            spread.bins.iter_mut().zip(part.bins).for_each(|(sum, count)| *sum += count);
            let tiles = spread.map.row_mut(tile(row, rows, MAP.0));
            tiles.into_iter().zip(&part.levels).for_each(|(tile, level)| *tile = (*tile).max(*level));
            spread.rows.push(part.levels.into_iter().max().unwrap_or(0));
        }
        spread
    }
}

/// Of one row.
struct Part {
    exact: usize,
    infinite: usize,
    bins: [usize; BINS],
    /// Of the tiles that it falls into.
    levels: Vec<u8>,
}

impl Part {
    fn of(columns: usize, ratio: impl Fn(usize) -> f64) -> Self {
        let (mut exact, mut bins, mut infinite) = (0, [0; BINS], 0);
        let mut largest = vec![0.0_f64; columns.min(MAP.1)];
        for column in 0..columns {
            let ratio = ratio(column);
            match ratio {
                0.0 => exact += 1,
                f64::INFINITY => infinite += 1,
                _ => bins[bin(ratio)] += 1,
            }
            let tile = &mut largest[tile(column, columns, MAP.1)];
            *tile = tile.max(ratio);
        }
        Part { exact, infinite, bins, levels: largest.into_iter().map(level).collect() }
    }
}

/// The tile that a row or column falls into.
pub(crate) fn tile(at: usize, of: usize, tiles: usize) -> usize {
    at * tiles.min(of) / of
}

/// The octave of a positive ratio, by its exponent.
fn bin(ratio: f64) -> usize {
    let exponent = i32::try_from((ratio.to_bits() >> 52) & 0x7ff).expect("11 bits") - 1023;
    let last = i32::try_from(BINS).expect("a few") - 1;
    usize::try_from((exponent - LOWEST).clamp(0, last)).expect("clamped")
}

/// The level of an infinite ratio, the last of all.
pub const INFINITE: u8 = 63;

/// The level of a ratio of 1, the last that passes.
pub const PASSES: u8 = 44;

/// A ratio as one of 64 levels: none for 0, [`INFINITE`], or two an octave, rounded up.
pub fn level(ratio: f64) -> u8 {
    match ratio {
        0.0 => 0,
        f64::INFINITY => INFINITE,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 62")]
        _ => ((2.0 * ratio.log2()).ceil() + f64::from(PASSES)).clamp(1.0, f64::from(INFINITE - 1)) as u8,
    }
}
