//! Matrices in their stored form, and the panels of rows in which their numbers are taken out of it.
//!
//! A panel is the one place where stored bytes become numbers, for the reference and for the CUDA path, but that its kernels
//! dequantize E4M3 themselves (`optimized/kernels/include/weights.cuh`).

mod eight_bits;
mod encoding;
mod parts;

use std::borrow::Cow;

use multiversion::multiversion;
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
    /// By what elements are multiplied when they are taken out, if the matrix is quantized.
    scales: Option<Box<Scales<'a>>>,
    /// What each element is rounded to, to nearest, when it is taken out.
    held: Storage,
}

/// Which matrix one is whose bytes are someone else's: for as long as they are there, no other matrix is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Lent {
    address: usize,
    dim: (usize, usize),
    encoding: Encoding,
    held: Storage,
    scales: Option<usize>,
}

/// By what the elements of each block of a quantized matrix are multiplied (spec A30, A31).
#[derive(Debug, Clone)]
pub struct Scales<'a> {
    /// Rows and columns of a block.
    pub block: (usize, usize),
    /// Rows of the first blocks that lie above the matrix, which is a part of a larger one.
    pub above: usize,
    /// One for each block.
    pub values: Matrix<'a>,
}

impl<'a> Matrix<'a> {
    /// A matrix of so many rows and columns over bytes; `None` if their number does not fit.
    pub fn new((rows, columns): (usize, usize), encoding: Encoding, bytes: impl Into<Cow<'a, [u8]>>) -> Option<Self> {
        let bytes = bytes.into();
        let fits = encoding.bytes_of(rows.checked_mul(columns)?)? == bytes.len();
        fits.then_some(Matrix { rows, columns, encoding, bytes, scales: None, held: Storage::Real })
    }

    /// The same matrix, each block of it multiplied by its scale; `None` if there is not one for each.
    pub fn scaled(self, scales: Scales<'a>) -> Option<Self> {
        let fits = Scales::count(self.dim(), scales.block, scales.above) == scales.values.dim();
        fits.then(|| Matrix { scales: Some(Box::new(scales)), ..self })
    }

    /// The matrix with each element rounded to nearest in `storage`; f32 if that is [`Storage::Real`].
    pub fn stored(values: ArrayView2<'_, f64>, storage: Storage) -> Matrix<'static> {
        let encoding = Encoding::from(storage);
        let bytes = encoding.narrow(values.iter().copied());
        Matrix::new(values.dim(), encoding, bytes).expect("each element was written")
    }

    /// The same matrix with other scales; `None` if it is not quantized, or there is not one for each block.
    pub fn rescaled(&self, values: Matrix<'a>) -> Option<Self> {
        let scales = self.scales()?;
        let fits = values.dim() == scales.values.dim();
        fits.then(|| Matrix { scales: Some(Box::new(Scales { values, ..*scales })), ..self.clone() })
    }

    /// The same matrix as an implementation has it that holds its elements in `storage`: each is rounded to nearest when it is
    /// taken out, one that was scaled from the f32 that everyone scales in. The bytes stay as they are.
    #[must_use]
    pub fn held_in(self, storage: Storage) -> Self {
        let has = |storage| [Storage::F32, self.encoding.storage()].contains(&storage);
        let exact = storage == Storage::Real || self.scales.is_none() && has(storage);
        Matrix { held: if exact { self.held } else { storage }, ..self }
    }

    /// The same matrix, over these bytes.
    pub fn view(&self) -> Matrix<'_> {
        let scales = self.scales.as_ref().map(|scales| Box::new(scales.view()));
        Matrix { bytes: Cow::Borrowed(&self.bytes), scales, ..*self }
    }

    /// The same matrix, over bytes of its own.
    pub fn into_owned(self) -> Matrix<'static> {
        let scales = self.scales.map(|scales| Box::new(scales.into_owned()));
        Matrix { bytes: Cow::Owned(self.bytes.into_owned()), scales, ..self }
    }

    /// Which one it is, unless it has bytes of its own.
    pub(crate) fn lent(&self) -> Option<Lent> {
        let address = |bytes: &Cow<'_, [u8]>| match bytes {
            Cow::Borrowed(bytes) => Some(bytes.as_ptr().addr()),
            Cow::Owned(_) => None,
        };
        let scales = match &self.scales {
            Some(scales) => Some(address(&scales.values.bytes)?),
            None => None,
        };
        let Matrix { encoding, held, .. } = *self;
        Some(Lent { address: address(&self.bytes)?, dim: self.dim(), encoding, held, scales })
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// How its elements are stored.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The type whose values its elements are; f32, the nearest, if they are scaled.
    pub fn storage(&self) -> Storage {
        match (self.held, &self.scales) {
            (Storage::Real, None) => self.encoding.storage(),
            (Storage::Real, Some(_)) => Storage::F32,
            (held, _) => held,
        }
    }

    /// Scales of its blocks, if it is quantized.
    pub fn scales(&self) -> Option<&Scales<'a>> {
        self.scales.as_deref()
    }

    /// The bytes, row by row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Row i, widened exactly (or rounded to nearest, if T is f32 and the element is wider).
    pub fn row_into<T: Real>(&self, i: usize, out: &mut [T]) {
        self.part_into((i, 0), out);
    }

    /// The same of row i from a column on, as much of it as there is room for.
    pub(crate) fn part_into<T: Real>(&self, (i, column): (usize, usize), out: &mut [T]) {
        let at = |element| self.encoding.bytes_of(element).expect("checked when made");
        let first = i * self.columns + column;
        self.encoding.widen(&self.bytes[at(first)..at(first + out.len())], out);
        if let Some(scales) = &self.scales {
            scales.scale((i, column), out);
        }
        match (self.held, &self.scales) {
            (Storage::Real, _) => {}
            (held, None) => out.iter_mut().for_each(|x| *x = T::of(held.nearest(x.wide()))),
            (held, Some(_)) => out.iter_mut().for_each(|x| *x = T::of(held.nearest(Storage::F32.nearest(x.wide())))),
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

impl Scales<'_> {
    /// How many scales a matrix has: blocks that lie in it in part count.
    pub fn count((rows, columns): (usize, usize), block: (usize, usize), above: usize) -> (usize, usize) {
        ((above + rows).div_ceil(block.0), columns.div_ceil(block.1))
    }

    /// Elements of row i of the matrix from a column on, scaled: exactly, or rounded to nearest in T.
    fn scale<T: Real>(&self, (i, column): (usize, usize), row: &mut [T]) {
        let (first, width) = (column / self.block.1, self.block.1);
        let mut scales = vec![0.0_f64; (column + row.len()).div_ceil(width) - first];
        self.values.part_into(((self.above + i) / self.block.0, first), &mut scales);
        let (part, rest) = row.split_at_mut(row.len().min((first + 1) * width - column));
        multiply(part, scales[0]);
        rest.chunks_mut(width).zip(&scales[1..]).for_each(|(part, &scale)| multiply(part, scale));
    }

    fn view(&self) -> Scales<'_> {
        Scales { values: self.values.view(), ..*self }
    }

    fn into_owned(self) -> Scales<'static> {
        Scales { values: self.values.into_owned(), ..self }
    }
}

#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn multiply<T: Real>(x: &mut [T], scale: f64) {
    for x in x {
        *x = T::of(x.wide() * scale);
    }
}
