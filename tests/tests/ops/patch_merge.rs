//! `reference/src/ops/patch_merge.rs`, and the order of `reference/src/grid.rs`.

use half::bf16;
use ndarray::{Array2, array, s};
use proptest::prelude::*;
use reference::Grid;
use reference::bound::ErrorBound;
use reference::grid::patches;
use reference::ops::patch_merge::{PatchMerge, patch_merge};
use reference::semantics::MergeOrder;
use tests::bounds::wide;
use tests::device::devices;
use tests::values::activations;

const BLOCK: PatchMerge = PatchMerge { side: 2, order: MergeOrder::Block };
const ROWS: PatchMerge = PatchMerge { order: MergeOrder::RowMajor, ..BLOCK };

fn grids() -> impl Strategy<Value = Vec<Grid>> {
    let grid = (1..4_usize, 1..4_usize, 1..4_usize).prop_map(|(t, h, w)| Grid { t, h: 2 * h, w: 2 * w });
    proptest::collection::vec(grid, 1..4)
}

/// A row for each patch: its grid, time, height and width.
fn places(grids: &[Grid]) -> Array2<f64> {
    let rows = grids.iter().enumerate().flat_map(|(i, grid)| grid.coordinates(2).map(move |[t, h, w]| [i, t, h, w]));
    let rows: Vec<f64> = rows.flatten().map(|x| x as f64).collect();
    Array2::from_shape_vec((rows.len() / 4, 4), rows).expect("four numbers a patch")
}

proptest! {
    /// Each place of each grid, once.
    #[test]
    fn coordinates_are_a_permutation(grids in grids()) {
        for grid in &grids {
            let mut all: Vec<[usize; 3]> = grid.coordinates(2).collect();
            let at = |t, h| (0..grid.w).map(move |w| [t, h, w]);
            let by_rows: Vec<_> = (0..grid.t).flat_map(|t| (0..grid.h).flat_map(move |h| at(t, h))).collect();
            all.sort_unstable();
            prop_assert_eq!(all, by_rows);
        }
        prop_assert_eq!(Some(places(&grids).nrows()), patches(&grids));
    }

    /// What is merged are the four of a square of one image at one time: (0,0), (0,1), (1,0), (1,1) from its corner.
    #[test]
    fn neighbours_are_merged(grids in grids()) {
        let merged = patch_merge(&BLOCK, places(&grids).view(), &grids).expect("good");
        for row in merged.rows() {
            let corner = row.slice(s![..4]).to_owned();
            for (i, (dh, dw)) in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)].into_iter().enumerate() {
                prop_assert_eq!(&row.slice(s![4 * i..4 * i + 4]) - &corner, array![0.0, 0.0, dh, dw]);
            }
            prop_assert!(corner[2] % 2.0 == 0.0 && corner[3] % 2.0 == 0.0);
        }
    }

    /// A port's order is right for patches that come row by row, and equal where a grid is one square wide.
    #[test]
    fn row_major_is_for_patches_row_by_row(grids in grids()) {
        let rows = patches(&grids).expect("few");
        let mut by_rows = Array2::zeros((rows, 4));
        let mut first = 0;
        for (i, grid) in grids.iter().enumerate() {
            for (t, h, w) in (0..grid.t).flat_map(|t| (0..grid.h).flat_map(move |h| (0..grid.w).map(move |w| (t, h, w)))) {
                by_rows.row_mut(first).assign(&array![i, t, h, w].mapv(|x| x as f64));
                first += 1;
            }
        }
        let right = patch_merge(&BLOCK, places(&grids).view(), &grids).expect("good");
        prop_assert_eq!(patch_merge(&ROWS, by_rows.view(), &grids).expect("good"), &right);
        let slipped = patch_merge(&ROWS, places(&grids).view(), &grids).expect("good");
        prop_assert_eq!(slipped == right, grids.iter().all(|grid| grid.w == 2));
    }

    /// Errors go where their values go.
    #[test]
    fn errors_move_with_their_values(grids in grids()) {
        let x = places(&grids);
        let error = ErrorBound { certain: x.clone(), sigma: &x / 2.0, carried: 3 };
        for p in [BLOCK, ROWS] {
            let (bound, y) = (p.bound(&error, &grids), patch_merge(&p, x.view(), &grids).expect("good"));
            prop_assert_eq!((&bound.certain, &bound.sigma, bound.carried), (&y, &(&y / 2.0), 3));
        }
    }
}

/// A square of four rows, in the orders that a port may take it for.
#[test]
fn a_square_in_other_orders() {
    let x = array![[0.0], [1.0], [2.0], [3.0]];
    let of = |order| patch_merge(&PatchMerge { order, ..BLOCK }, x.view(), &[Grid { t: 1, h: 2, w: 2 }]).expect("good");
    assert_eq!(of(MergeOrder::ColumnMajor), array![[0.0, 2.0, 1.0, 3.0]]);
    assert_eq!(of(MergeOrder::RowsReversed), array![[2.0, 3.0, 0.0, 1.0]]);
    assert_eq!(of(MergeOrder::ColumnsReversed), array![[1.0, 0.0, 3.0, 2.0]]);
    assert_eq!(of(MergeOrder::Reversed), array![[3.0, 2.0, 1.0, 0.0]]);
}

/// Two images of 2 × 4: the columns 0 and 1 of a row of squares are one token, 2 and 3 the next.
#[test]
fn by_hand() {
    let grids = [Grid { t: 1, h: 2, w: 4 }; 2];
    let x = Array2::from_shape_fn((16, 1), |(i, _)| i as f64);
    let y = patch_merge(&BLOCK, x.view(), &grids).expect("good");
    assert_eq!(y, x.into_shape_with_order((4, 4)).expect("16"));
    let places: Vec<[usize; 3]> = grids[0].coordinates(2).collect();
    assert_eq!(places, [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 0, 2], [0, 0, 3], [0, 1, 2], [0, 1, 3]]);
}

#[test]
fn constraints() {
    let fails = |n: usize, grid: Grid| {
        patch_merge(&BLOCK, Array2::<f64>::zeros((n, 1)).view(), &[grid]).expect_err("against the contract").to_string()
    };
    let grid = Grid { t: 1, h: 2, w: 2 };
    assert_eq!(fails(5, grid), "patch_merge C1: rows of x = 5, expected 4, the patches of the grids");
    assert_eq!(
        fails(6, Grid { w: 3, ..grid }),
        "patch_merge C2: grid = [1, 2, 3], expected height and width multiples of 2"
    );
    let huge = Grid { t: usize::MAX, h: 2, w: 2 };
    assert!(fails(4, huge).contains("patch_merge C1"));
}

/// On a device it needs no kernel: rows that have no padding lie side by side.
#[test]
fn rows_on_a_device_are_side_by_side() {
    let grids = [Grid { t: 2, h: 4, w: 6 }, Grid { t: 1, h: 2, w: 2 }];
    let x = activations(1, (52, 24));
    let want = patch_merge(&BLOCK, wide(&x).view(), &grids).expect("good");
    for gpu in devices() {
        let merged = gpu.upload(x.view()).expect("memory").side_by_side(4).expect("52 is a multiple of 4");
        assert_eq!(wide(&gpu.download(&merged).expect("memory")), want, "{}", gpu.name());
        let refused = |dim, s| gpu.zeros::<bf16>(dim).expect("memory").side_by_side(s).expect_err("no fit").to_string();
        assert_eq!(refused((6, 8), 4), "matrix K2: rows = 6, expected a multiple of s = 4");
        assert_eq!(refused((8, 12), 4), "matrix K3: cols = 12, expected a multiple of 8");
    }
}
