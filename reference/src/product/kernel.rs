//! The one product of the reference: rows of x with rows of w, in tiles that stay in registers.
//!
//! Each sum is added up from its first term to its last, whatever stands beside it, so that a row's values do not depend on how
//! many rows there are. Where a few rows are multiplied, w is read once and nothing is packed: there, sums are added in lanes.

use std::ops::Range;

use multiversion::multiversion;
use multiversion::target::target_cfg_f;
use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut2};

use crate::Real;

/// Rows of x in a tile.
const TILE: usize = 6;

/// Columns of x and w that are taken at a time, so that a tile's part of both stays in the nearest cache.
const BLOCK: usize = 256;

/// Up to so many rows of x are multiplied one by one.
const FEW: usize = 4;

/// Lanes in which the sum of one row with another is added.
const LANES: usize = 16;

/// Rows of x as they are multiplied with any number of rows.
#[derive(Debug)]
pub(crate) struct Packed<T> {
    x: Array2<T>,
    /// By blocks of columns and tiles of rows, column by column; rows that lack are zero.
    tiles: Vec<[T; TILE]>,
}

impl<T: Real> Packed<T> {
    /// Of x \[n, k\].
    pub(crate) fn of(x: ArrayView2<'_, T>) -> Self {
        let x = x.as_standard_layout().into_owned();
        let mut tiles = Vec::new();
        if x.nrows() > FEW {
            tiles.reserve_exact(x.nrows().div_ceil(TILE) * x.ncols());
            let rows: Vec<&[T]> = x.rows().into_iter().map(in_one_piece).collect();
            for first in (0..x.ncols()).step_by(BLOCK) {
                let columns = first..x.ncols().min(first + BLOCK);
                rows.chunks(TILE).for_each(|rows| pack(rows, columns.clone(), &mut tiles));
            }
        }
        Packed { x, tiles }
    }

    /// n.
    pub(crate) fn rows(&self) -> usize {
        self.x.nrows()
    }

    /// Whether rows are multiplied one by one.
    pub(crate) fn is_few(&self) -> bool {
        self.rows() <= FEW
    }

    /// y = x·wᵀ of few rows of x, where `widen` gives columns of a row of w from one on: what is in use stays in the nearest
    /// cache.
    pub(crate) fn times_rows(&self, widen: impl Fn((usize, usize), &mut [T]), y: &mut ArrayViewMut2<'_, T>) {
        let k = self.x.ncols();
        let mut widened = [T::zero(); BLOCK];
        for (j, mut y) in y.columns_mut().into_iter().enumerate() {
            let mut sums = [[[T::zero(); LANES / 4]; 4]; FEW];
            for first in (0..k).step_by(BLOCK) {
                let columns = first..k.min(first + BLOCK);
                let w = &mut widened[..columns.len()];
                widen((j, first), w);
                for (x, sums) in self.x.rows().into_iter().zip(&mut sums) {
                    dot(&x.to_slice().expect("its own are in standard layout")[columns.clone()], w, sums);
                }
            }
            for (sums, y) in sums.iter().zip(&mut y) {
                *y = sums.as_flattened().iter().fold(T::zero(), |all, &sum| all + sum);
            }
        }
    }

    /// y = x·wᵀ of rows of w that are widened.
    pub(crate) fn times(&self, w: ArrayView2<'_, T>, y: &mut ArrayViewMut2<'_, T>) {
        if self.is_few() {
            let row = |j: usize| in_one_piece(w.row(j));
            self.times_rows(|(j, first), part| part.copy_from_slice(&row(j)[first..first + part.len()]), y);
        } else if size_of::<T>() == size_of::<f32>() {
            self.in_tiles::<16>(w, y);
        } else {
            self.in_tiles::<8>(w, y);
        }
    }

    /// The same in tiles of so many rows of w.
    fn in_tiles<const W: usize>(&self, w: ArrayView2<'_, T>, y: &mut ArrayViewMut2<'_, T>) {
        let (n, k) = self.x.dim();
        let (tiles, groups) = (n.div_ceil(TILE), w.nrows().div_ceil(W));
        let rows: Vec<&[T]> = w.rows().into_iter().map(in_one_piece).collect();
        let mut sums = vec![[[T::zero(); W]; TILE]; tiles * groups];
        let mut packed = Vec::with_capacity(groups * BLOCK.min(k));
        for first in (0..k).step_by(BLOCK) {
            let count = BLOCK.min(k - first);
            packed.clear();
            rows.chunks(W).for_each(|rows| pack::<T, W>(rows, first..first + count, &mut packed));
            let of_block = &self.tiles[first * tiles..][..count * tiles];
            for (x, sums) in of_block.chunks(count).zip(sums.chunks_mut(groups)) {
                packed.chunks(count).zip(sums).for_each(|(w, sums)| add(w, x, sums));
            }
        }
        for (i, mut y) in y.rows_mut().into_iter().enumerate() {
            let sums = sums[i / TILE * groups..][..groups].iter().flat_map(|sums| &sums[i % TILE]);
            y.iter_mut().zip(sums).for_each(|(y, &sum)| *y = sum);
        }
    }
}

/// A row as a slice.
fn in_one_piece<T>(row: ArrayView1<'_, T>) -> &[T] {
    row.to_slice().expect("a row of a matrix in standard layout is in one piece")
}

/// Columns of so many rows at most, column by column; rows that lack are zero.
fn pack<T: Real, const N: usize>(rows: &[&[T]], columns: Range<usize>, packed: &mut Vec<[T; N]>) {
    let first = packed.len();
    packed.resize(first + columns.len(), [T::zero(); N]);
    for (i, row) in rows.iter().enumerate() {
        packed[first..].iter_mut().zip(&row[columns.clone()]).for_each(|(packed, &x)| packed[i] = x);
    }
}

/// Adds the products of columns of a tile's rows.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn add<T: Real, const W: usize>(w: &[[T; W]], x: &[[T; TILE]], sums: &mut [[T; W]; TILE]) {
    let mut own = *sums;
    for (w, x) in w.iter().zip(x) {
        for (own, &x) in own.iter_mut().zip(x) {
            for (sum, &w) in own.iter_mut().zip(w) {
                *sum = if target_cfg_f!(any(target_feature = "fma", target_feature = "neon")) {
                    x.mul_add(w, *sum)
                } else {
                    *sum + x * w
                };
            }
        }
    }
    *sums = own;
}

/// Adds the products of one row's columns with another's, in lanes: groups of as many as a register has.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn dot<T: Real>(x: &[T], w: &[T], sums: &mut [[T; LANES / 4]; 4]) {
    let mut own = *sums;
    let ((x, rest), (w, rest_of_w)) = (x.as_chunks::<LANES>(), w.as_chunks::<LANES>());
    for (x, w) in x.iter().zip(w) {
        let (x, w) = (x.as_chunks::<{ LANES / 4 }>().0, w.as_chunks::<{ LANES / 4 }>().0);
        for ((own, x), w) in own.iter_mut().zip(x).zip(w) {
            *own = std::array::from_fn(|i| {
                if target_cfg_f!(any(target_feature = "fma", target_feature = "neon")) {
                    x[i].mul_add(w[i], own[i])
                } else {
                    own[i] + x[i] * w[i]
                }
            });
        }
    }
    rest.iter().zip(rest_of_w).zip(own.as_flattened_mut()).for_each(|((&x, &w), sum)| *sum += x * w);
    *sums = own;
}
