//! Grids: how the patches of an image, or of one chunk of a video, lie.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{ContractError, require};

/// Patches in time, height and width. An image has one in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grid {
    /// In time: pairs of frames.
    pub t: usize,
    /// In height.
    pub h: usize,
    /// In width.
    pub w: usize,
}

/// Axes that a patch has a place on: time, height and width.
pub const AXES: usize = 3;

/// Channels of a head of so many that rotate with a patch's place: an even number for each axis.
pub fn rotary_dim(head_dim: usize) -> usize {
    AXES * (2 * (head_dim / AXES / 2))
}

impl Grid {
    /// How many there are; none where the number has no room.
    pub fn patches(self) -> Option<usize> {
        self.t.checked_mul(self.h)?.checked_mul(self.w)
    }

    /// Ok if there is a patch.
    pub fn require_some(self, label: &'static str) -> Result<(), ContractError> {
        require(self.t.min(self.h).min(self.w) >= 1, label, "grid", self, "1 or more of each")
    }

    /// Ok if the patches of each time are whole squares of so many to a side.
    pub fn require_squares(self, side: usize, label: &'static str) -> Result<(), ContractError> {
        let whole = self.h.is_multiple_of(side) && self.w.is_multiple_of(side);
        require(whole, label, "grid", self, format!("height and width multiples of {side}"))
    }

    /// Time, height and width of each patch, in the order in which patches come: by time, then by squares of so many to
    /// a side, row by row, and within a square row by row. Sides are multiples of that.
    pub fn coordinates(self, side: usize) -> impl Iterator<Item = [usize; 3]> {
        let Grid { t, h, w } = self;
        let squares = (0..h / side).flat_map(move |row| (0..w / side).map(move |column| (row * side, column * side)));
        let patches = squares
            .flat_map(move |(top, left)| (0..side).flat_map(move |dh| (0..side).map(move |dw| (top + dh, left + dw))));
        (0..t).flat_map(move |t| patches.clone().map(move |(h, w)| [t, h, w]))
    }
}

/// Patches of several grids together.
pub fn patches(grids: &[Grid]) -> Option<usize> {
    grids.iter().try_fold(0_usize, |sum, grid| sum.checked_add(grid.patches()?))
}

/// Patches of each grid, where their pixels are there: they see each other.
pub fn segments(grids: &[Grid]) -> Vec<usize> {
    grids.iter().map(|grid| grid.patches().expect("as many as rows of pixels")).collect()
}

/// Patches of each time of each grid: each a picture.
pub fn frames(grids: &[Grid]) -> Vec<usize> {
    grids.iter().flat_map(|grid| std::iter::repeat_n(grid.h * grid.w, grid.t)).collect()
}

/// Ok if `rows` are the patches of the grids, one each.
pub fn require_patches(rows: usize, grids: &[Grid], label: &'static str, quantity: &str) -> Result<(), ContractError> {
    let all = patches(grids);
    let expected = all.map_or_else(|| "fewer than there are addresses".to_owned(), |all| all.to_string());
    require(all == Some(rows), label, quantity, rows, format!("{expected}, the patches of the grids"))
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}, {}]", self.t, self.h, self.w)
    }
}
