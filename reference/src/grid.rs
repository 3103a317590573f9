//! Grids: how the patches of an image, or of one chunk of a video, lie.

use std::fmt;

/// Patches in time, height and width. An image has one in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// In time: pairs of frames.
    pub t: usize,
    /// In height.
    pub h: usize,
    /// In width.
    pub w: usize,
}

impl Grid {
    /// How many there are; none where the number has no room.
    pub fn patches(self) -> Option<usize> {
        self.t.checked_mul(self.h)?.checked_mul(self.w)
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

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}, {}]", self.t, self.h, self.w)
    }
}
