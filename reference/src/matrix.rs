//! Matrices in their stored form, and the panels of rows in which their numbers are taken out of it.
//!
//! A panel is the one place where stored bytes become numbers, for the reference and for the CUDA path.

mod encoding;

use std::borrow::Cow;

use ndarray::{Array2, ArrayView2};

use crate::{Real, Storage};
pub use encoding::Encoding;

/// A matrix in its stored form, row by row.
#[derive(Debug, Clone)]
pub struct Matrix<'a> {
    rows: usize,
    columns: usize,
    encoding: Encoding,
    bytes: Cow<'a, [u8]>,
    /// What each element is rounded to, to nearest, when it is taken out.
    held: Storage,
}

impl<'a> Matrix<'a> {
    /// A matrix of so many rows and columns over bytes; `None` if their number does not fit.
    pub fn new((rows, columns): (usize, usize), encoding: Encoding, bytes: impl Into<Cow<'a, [u8]>>) -> Option<Self> {
        let bytes = bytes.into();
        let fits = encoding.bytes_of(rows.checked_mul(columns)?)? == bytes.len();
        fits.then_some(Matrix { rows, columns, encoding, bytes, held: Storage::Real })
    }

    /// The matrix with each element rounded to nearest in `storage`; f32 if that is [`Storage::Real`].
    pub fn stored(values: ArrayView2<'_, f64>, storage: Storage) -> Matrix<'static> {
        let encoding = Encoding::from(storage);
        let bytes = encoding.narrow(values.iter().copied());
        Matrix::new(values.dim(), encoding, bytes).expect("each element was written")
    }

    /// The same matrix as an implementation has it that holds its elements in `storage`: each is rounded to nearest when it is
    /// taken out. The bytes stay as they are.
    #[must_use]
    pub fn held_in(self, storage: Storage) -> Self {
        let exact = [Storage::Real, Storage::F32, self.encoding.storage()].contains(&storage);
        Matrix { held: if exact { self.held } else { storage }, ..self }
    }

    /// The same matrix, over these bytes.
    pub fn view(&self) -> Matrix<'_> {
        Matrix { bytes: Cow::Borrowed(&self.bytes), ..*self }
    }

    /// The same matrix, over bytes of its own.
    pub fn into_owned(self) -> Matrix<'static> {
        Matrix { bytes: Cow::Owned(self.bytes.into_owned()), ..self }
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// How its elements are stored.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The type whose values its elements are.
    pub fn storage(&self) -> Storage {
        if self.held == Storage::Real { self.encoding.storage() } else { self.held }
    }

    /// The bytes, row by row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Row i, widened exactly (or rounded to nearest, if T is f32 and the element is wider).
    pub fn row_into<T: Real>(&self, i: usize, out: &mut [T]) {
        let row = self.encoding.bytes_of(self.columns).expect("checked when made");
        self.encoding.widen(&self.bytes[i * row..(i + 1) * row], out);
        if self.held != Storage::Real {
            for x in out {
                *x = T::of(self.held.nearest(x.wide()));
            }
        }
    }

    /// Rows `first..first + count`, widened.
    pub fn panel<T: Real>(&self, first: usize, count: usize) -> Array2<T> {
        let mut panel = Array2::zeros((count, self.columns));
        for (i, mut row) in panel.rows_mut().into_iter().enumerate() {
            self.row_into(first + i, row.as_slice_mut().expect("rows of a new array are contiguous"));
        }
        panel
    }

    /// All of it, widened.
    pub fn dense<T: Real>(&self) -> Array2<T> {
        self.panel(0, self.rows)
    }
}
