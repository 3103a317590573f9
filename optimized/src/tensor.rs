//! Matrices on a device.

use std::ops::Range;

use cudarc::driver::{CudaSlice, DeviceRepr, ValidAsZeroBits};
use half::bf16;
use ndarray::{Array2, ArrayView2, s};

use reference::contract::require;

use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::stated::VECTOR;

/// Rows are padded to a multiple of so many elements, which kernels read at once: 16 bytes of bf16.
pub const ROW_MULTIPLE: usize = VECTOR;

/// Bytes that kernels read at once.
const VECTOR_BYTES: usize = 16;

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::bf16 {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u8 {}
}

/// What a matrix holds: bf16, f32, i32 or bytes.
pub trait Element: sealed::Sealed + DeviceRepr + ValidAsZeroBits + Copy + Default + PartialEq {}
impl Element for bf16 {}
impl Element for f32 {}
impl Element for i32 {}
impl Element for u8 {}

/// A matrix on the device that made it, row by row. Every row begins 16-byte aligned, and what pads it is zero.
#[derive(Debug)]
pub struct Matrix<T> {
    data: CudaSlice<T>,
    rows: usize,
    cols: usize,
}

impl<T> Matrix<T> {
    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Elements from one row to the next: the leading dimension.
    pub fn ld(&self) -> usize {
        padded::<T>(self.cols)
    }

    /// The same elements, s rows side by side in each row. Of patches that come square by square it is `patch_merge`, which
    /// so needs no kernel.
    ///
    /// K2: s divides the rows. K3: these have no padding.
    pub fn side_by_side(self, s: usize) -> Result<Self, Error> {
        let Matrix { data, rows, cols } = self;
        let whole = s >= 1 && rows.is_multiple_of(s);
        require(whole, "matrix K2", "rows", rows, format!("a multiple of s = {s}"))?;
        require(cols.is_multiple_of(ROW_MULTIPLE), "matrix K3", "cols", cols, format!("a multiple of {ROW_MULTIPLE}"))?;
        Ok(Matrix { data, rows: rows / s, cols: cols * s })
    }

    /// The elements with their padding, for a launch that reads them.
    pub fn data(&self) -> &CudaSlice<T> {
        &self.data
    }

    /// The elements with their padding, for a launch that writes them. It leaves the padding zero.
    pub fn data_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.data
    }
}

impl Gpu {
    /// A matrix of zeros.
    pub fn zeros<T: Element>(&self, (rows, cols): (usize, usize)) -> Result<Matrix<T>, Error> {
        let data = self.stream().alloc_zeros(padded_len::<T>(rows, cols)?);
        let data = self.outcome(data, || format!("allocating {rows} × {cols}"))?;
        Ok(Matrix { data, rows, cols })
    }

    /// A matrix that a kernel is about to write, padding included.
    pub fn uninitialised<T: Element>(&self, (rows, cols): (usize, usize)) -> Result<Matrix<T>, Error> {
        #[expect(unsafe_code, reason = "memory that holds anything")]
        // SAFETY: any bits are a value of an `Element`.
        let data = unsafe { self.stream().alloc(padded_len::<T>(rows, cols)?) };
        let data = self.outcome(data, || format!("allocating {rows} × {cols}"))?;
        Ok(Matrix { data, rows, cols })
    }

    /// A matrix that a kernel is about to write but for its padding, which is zero.
    pub fn output<T: Element>(&self, (rows, cols): (usize, usize)) -> Result<Matrix<T>, Error> {
        let has_padding = padded::<T>(cols) != cols;
        if has_padding { self.zeros((rows, cols)) } else { self.uninitialised((rows, cols)) }
    }

    /// A copy of `values` on the device.
    pub fn upload<T: Element>(&self, values: ArrayView2<'_, T>) -> Result<Matrix<T>, Error> {
        let (rows, cols) = values.dim();
        padded_len::<T>(rows, cols)?;
        let mut padded = Array2::default((rows, padded::<T>(cols)));
        padded.slice_mut(s![.., ..cols]).assign(&values);
        let data = self.stream().clone_htod(padded.as_slice().expect("a fresh array is contiguous"));
        let data = self.outcome(data, || format!("copying {rows} × {cols} to the device"))?;
        Ok(Matrix { data, rows, cols })
    }

    /// A matrix whose elements, padding included, are `values` over and over: for timing, not for computing.
    pub fn repeated<T: Element>(&self, (rows, cols): (usize, usize), values: &[T]) -> Result<Matrix<T>, Error> {
        let what = || format!("filling {rows} × {cols}");
        let mut matrix = self.uninitialised((rows, cols))?;
        let all = matrix.data.len();
        let mut done = values.len().min(all);
        let mut first = matrix.data.slice_mut(..done);
        self.outcome(self.stream().memcpy_htod(&values[..done], &mut first), what)?;
        while done < all {
            let more = done.min(all - done);
            let (from, mut to) = matrix.data.split_at_mut(done);
            let copied = self.stream().memcpy_dtod(&from.slice(..more), &mut to.slice_mut(..more));
            self.outcome(copied, what)?;
            done += more;
        }
        Ok(matrix)
    }

    /// A copy of some rows of a matrix, with others below them that are as wide.
    ///
    /// K4: as wide.
    pub fn stacked<T: Element>(&self, parts: &[(&Matrix<T>, Range<usize>)]) -> Result<Matrix<T>, Error> {
        let cols = parts.first().map_or(0, |(part, _)| part.cols);
        let mut all = self.uninitialised((parts.iter().map(|(_, rows)| rows.len()).sum(), cols))?;
        let (what, mut done) = (|| "copying rows on the device".to_owned(), 0);
        for (part, rows) in parts {
            require(part.cols == cols, "matrix K4", "cols", part.cols, cols)?;
            let count = rows.len() * part.ld();
            let mut to = all.data.slice_mut(done..done + count);
            let from = part.data.slice(rows.start * part.ld()..rows.end * part.ld());
            self.outcome(self.stream().memcpy_dtod(&from, &mut to), what)?;
            done += count;
        }
        Ok(all)
    }

    /// A copy of `values`, as one row.
    pub fn upload_row<T: Element>(&self, values: impl IntoIterator<Item = T>) -> Result<Matrix<T>, Error> {
        let row: Vec<T> = values.into_iter().collect();
        let columns = row.len();
        self.upload(ArrayView2::from_shape((1, columns), &row).expect("one row of them"))
    }

    /// A copy of `matrix` on the host, after all that was launched before.
    pub fn download<T: Element>(&self, matrix: &Matrix<T>) -> Result<Array2<T>, Error> {
        self.download_rows(matrix, 0..matrix.rows)
    }

    /// A copy of some rows of `matrix` on the host.
    pub fn download_rows<T: Element>(&self, matrix: &Matrix<T>, rows: Range<usize>) -> Result<Array2<T>, Error> {
        let what = || format!("copying rows {rows:?} to the host");
        let part = matrix.data.slice(rows.start * matrix.ld()..rows.end * matrix.ld());
        let values = self.outcome(self.stream().clone_dtoh(&part), what)?;
        self.outcome(self.stream().synchronize(), what)?;
        let padded = Array2::from_shape_vec((rows.len(), matrix.ld()), values).expect("rows × ld elements were copied");
        Ok(padded.slice_move(s![.., ..matrix.cols]))
    }

    /// The same with the padding of the rows.
    pub fn download_padded<T: Element>(&self, matrix: &Matrix<T>) -> Result<Array2<T>, Error> {
        let (rows, cols) = matrix.dim();
        let what = || format!("copying {rows} × {cols} to the host");
        let values = self.outcome(self.stream().clone_dtoh(&matrix.data), what)?;
        self.outcome(self.stream().synchronize(), what)?;
        Ok(Array2::from_shape_vec((rows, matrix.ld()), values).expect("rows × ld elements were copied"))
    }
}

/// So many columns with their padding.
fn padded<T>(cols: usize) -> usize {
    cols.next_multiple_of(ROW_MULTIPLE.max(VECTOR_BYTES / size_of::<T>()))
}

/// Elements of a matrix with its padding.
fn padded_len<T>(rows: usize, cols: usize) -> Result<usize, Error> {
    require(rows.min(cols) >= 1, "matrix K1", "min(rows, cols)", rows.min(cols), "at least 1")?;
    Ok(rows * padded::<T>(cols))
}
