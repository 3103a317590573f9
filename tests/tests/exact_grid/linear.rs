//! The linear operator and the router's logits.

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::ops::linear::{Output, Tiling, linear_tiled};
use optimized::ops::router::router;
use reference::matrix::Matrix;
use reference::ops::linear::{Linear, linear};
use reference::{RoundingContract, Storage};
use tests::bounds::wide;
use tests::cuts::tilings;

use super::product::{Grid, Shape};
use super::{ROWS, device};

/// y of x and w on the device.
pub(super) fn on<T: Output + Into<f64>>(gpu: &Gpu, tiling: Tiling, x: &Array2<bf16>, w: &Array2<bf16>) -> Array2<f64> {
    let y = gpu.upload(x.view()).and_then(|x| linear_tiled::<T>(gpu, tiling, &x, &gpu.upload(w.view())?));
    let y = y.and_then(|y| gpu.download(&y)).unwrap_or_else(|error| panic!("{tiling:?}: {error}"));
    y.mapv(T::into)
}

/// z of x and the router's weight on the device.
pub(super) fn logits_on(gpu: &Gpu, x: &Array2<bf16>, w: &Array2<bf16>) -> Array2<f64> {
    let (gate, bias) = (w.mapv(f32::from), Array2::zeros((1, w.nrows())));
    let said =
        gpu.upload(x.view()).and_then(|x| router(gpu, &x, &gpu.upload(gate.view())?, &gpu.upload(bias.view())?, 1));
    let logits = said.and_then(|said| gpu.download(&said.logits)).unwrap_or_else(|error| panic!("{error}"));
    logits.mapv(f64::from)
}

/// The reference, with what `storage` its output has.
pub(super) fn reference(storage: Storage, x: &Array2<bf16>, w: &Array2<bf16>) -> Array2<f64> {
    let contract = RoundingContract { activations: storage, ..RoundingContract::PARITY };
    let w = Matrix::stored(wide(w).view(), Storage::Bf16);
    linear(&Linear::under(&contract), wide(x).view(), &w).expect("shapes fit")
}

/// Where sums have to be exact in f32, and where in bf16, too.
const F32_RANGE: (i8, i8) = (-7, 7);
const BF16_RANGE: (i8, i8) = (-1, 1);

pub(super) fn demand<T: Output + Into<f64>>(gpu: &Gpu, tiling: Tiling, shape: Shape) -> Result<(), String> {
    let (storage, range) = if size_of::<T>() == 2 { (Storage::Bf16, BF16_RANGE) } else { (Storage::F32, F32_RANGE) };
    let grid = Grid {
        shape,
        device: &|x, w| on::<T>(gpu, tiling, x, w),
        reference: &|x, w| reference(storage, x, w),
        range,
        made: &|_, _| true,
    };
    let what = |error| format!("{tiling:?} {storage} {shape:?}: {error}");
    grid.demand(shape.2 as u64).map_err(what)
}

pub(super) fn demand_logits(gpu: &Gpu, shape: Shape) -> Result<(), String> {
    let grid = Grid {
        shape,
        device: &|x, w| logits_on(gpu, x, w),
        reference: &|x, w| reference(Storage::F32, x, w),
        range: F32_RANGE,
        made: &|_, _| true,
    };
    grid.demand(shape.2 as u64).map_err(|error| format!("router {shape:?}: {error}"))
}

/// Columns of y and of x, so that each count of rows meets other remainders in both.
const SIDES: [(usize, usize); 9] =
    [(130, 1), (1, 64), (17, 513), (65, 65), (150, 63), (64, 700), (3, 1030), (129, 130), (66, 512)];

fn demand_all(gpu: &Gpu, sides: impl Iterator<Item = (usize, usize)> + Clone) {
    for (&n, (m, k)) in ROWS.iter().zip(sides) {
        for tiling in tilings(gpu, n) {
            demand::<bf16>(gpu, tiling, (n, m, k)).unwrap_or_else(|error| panic!("{error}"));
            demand::<f32>(gpu, tiling, (n, m, k)).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn every_tiling_is_exact() {
    demand_all(&device(), SIDES.into_iter());
    demand_all(&device(), SIDES.into_iter().rev());
}

#[test]
fn few_rows_are_exact_with_more_chunks_than_warps() {
    for n in [1, 8, 16] {
        demand::<bf16>(&device(), Tiling::FewRows, (n, 20, 9 * 512 + 3)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_routers_logits_are_exact() {
    for (&n, (experts, d)) in ROWS.iter().zip(SIDES.into_iter().cycle().skip(4)) {
        demand_logits(&device(), (n, experts, d)).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A row is exact beside rows that are not numbers.
#[test]
fn rows_beside_one_do_not_matter() {
    let alone = |n: usize, row: usize, x: &Array2<bf16>| {
        let mut beside = Array2::from_elem((n, x.ncols()), bf16::NAN);
        beside.row_mut(row).assign(&x.row(0));
        beside
    };
    let gpu = device();
    for (n, row) in [(2, 1), (9, 0), (16, 8), (65, 64), (130, 63)] {
        for tiling in tilings(&gpu, n) {
            let grid = Grid {
                shape: (1, 70, 130),
                device: &|x, w| on::<f32>(&gpu, tiling, &alone(n, row, x), w).slice(s![row..=row, ..]).to_owned(),
                reference: &|x, w| reference(Storage::F32, x, w),
                range: F32_RANGE,
                made: &|_, _| true,
            };
            grid.demand(n as u64).unwrap_or_else(|error| panic!("{tiling:?} row {row} of {n}: {error}"));
        }
    }
}

/// What the suite rests on: its whole numbers are small enough.
#[test]
fn the_grid_is_exact() {
    let (n, m, k) = (130, 150, 1030);
    for (storage, range) in [(Storage::F32, F32_RANGE), (Storage::Bf16, BF16_RANGE)] {
        let hold = |x: &Array2<bf16>, w: &Array2<bf16>| {
            let sizes = |a: &Array2<bf16>| wide(a).mapv(f64::abs);
            assert!(sizes(x).dot(&sizes(w).t()).iter().all(|&sum| sum <= f64::from(1 << 24)));
            let y = wide(x).dot(&wide(w).t());
            assert!(y.iter().all(|&y| storage.holds(y)), "{storage}");
            y
        };
        let grid = Grid { shape: (n, m, k), device: &hold, reference: &hold, range, made: &|_, _| true };
        grid.demand(1).expect("it is compared with itself");
    }
}
