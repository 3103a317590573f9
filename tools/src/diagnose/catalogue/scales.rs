//! Mistakes with the scales of quantized weights (spec A30, A31, F5).

use std::fmt;

use ndarray::Array2;
use reference::Storage;
use reference::matrix::{Encoding, Matrix};
use reference::storage::power_above;

/// How scales are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleChange {
    /// Elements are divided by them.
    Divided,
    /// Those of columns for those of rows: stored by columns.
    Transposed,
    /// Each is the next block's in its row.
    Shifted,
    /// They are 1.
    Ignored,
    /// They are rounded up to powers of two.
    Powers,
    /// The byte of a power of two is taken for a number.
    Bytes,
}

impl ScaleChange {
    /// Every one.
    pub const ALL: [ScaleChange; 6] = [
        ScaleChange::Divided,
        ScaleChange::Transposed,
        ScaleChange::Shifted,
        ScaleChange::Ignored,
        ScaleChange::Powers,
        ScaleChange::Bytes,
    ];

    /// A quantized matrix as it is taken; any other as it is.
    pub(super) fn apply(self, w: Matrix<'_>) -> Matrix<'_> {
        let Some(scales) = w.scales() else { return w };
        let s: Array2<f64> = scales.values.dense();
        let (down, across) = s.dim();
        let changed = match self {
            ScaleChange::Divided => s.mapv(|s| if s == 0.0 { s } else { 1.0 / s }),
            ScaleChange::Transposed => {
                let stored: Vec<f64> = s.iter().copied().collect();
                Array2::from_shape_fn(s.dim(), |(i, j)| stored[j * down + i])
            }
            ScaleChange::Shifted => Array2::from_shape_fn(s.dim(), |(i, j)| s[[i, (j + 1) % across]]),
            ScaleChange::Ignored => Array2::ones(s.dim()),
            ScaleChange::Powers => s.mapv(|s| if s > 0.0 { power_above(s) } else { s }),
            ScaleChange::Bytes if scales.values.encoding() == Encoding::E8m0 => s.mapv(|s| s.log2() + 127.0),
            ScaleChange::Bytes => s,
        };
        w.rescaled(Matrix::stored(changed.view(), Storage::F32)).expect("as many as before")
    }
}

impl fmt::Display for ScaleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScaleChange::Divided => "divide instead of multiply",
            ScaleChange::Transposed => "are read as if they were stored by columns",
            ScaleChange::Shifted => "are those of the next block",
            ScaleChange::Ignored => "are left out",
            ScaleChange::Powers => "are rounded up to powers of two",
            ScaleChange::Bytes => "are bytes taken for numbers",
        })
    }
}
