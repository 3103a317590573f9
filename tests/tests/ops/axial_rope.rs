//! `reference/src/ops/axial_rope.rs`, and `rope` by its table.

use ndarray::{Array2, Axis, array, s};
use proptest::prelude::*;
use reference::ops::axial_rope::{AxialRope, axial_rope};
use reference::ops::rope::{RopeTable, inverse_frequencies, rope};
use reference::semantics::{AxialAxes, AxialOrder, AxialPair, ChunkTime};
use reference::{Grid, Real, RoundingContract, Storage, Tracked};
use tests::judge::within;
use tests::strategy::{Contract, Fill, Matrix, contract};

/// Grids of patches of heads of d channels, under a contract.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    rope: AxialRope,
    grids: Vec<Grid>,
}

impl Case {
    fn table(&self) -> RopeTable<f64> {
        axial_rope(&self.rope, &self.grids).expect("the case keeps the contract")
    }

    fn axis(&self) -> usize {
        2 * (self.rope.head_dim / 3 / 2)
    }
}

const TOWER: AxialRope = AxialRope {
    head_dim: 80,
    theta: 10_000.0,
    side: 2,
    pair: AxialPair::Half,
    time: ChunkTime::Reset,
    order: AxialOrder::Merged,
    axes: AxialAxes::TimeHeightWidth,
    table: reference::Rounding::NONE,
};

fn case() -> impl Strategy<Value = Case> {
    let grid = (1..4_usize, 1..4_usize, 1..4_usize).prop_map(|(t, h, w)| Grid { t, h: 2 * h, w: 2 * w });
    let grids = proptest::collection::vec(grid, 1..4);
    let pair = prop_oneof![Just(AxialPair::Half), Just(AxialPair::AxisContiguous), Just(AxialPair::Interleaved)];
    (contract(), 6..90_usize, pair, grids).prop_map(|(contract, head_dim, pair, grids)| Case {
        contract,
        rope: AxialRope { head_dim, pair, ..TOWER },
        grids,
    })
}

proptest! {
    /// The definition: column j of either half has the angle of its axis's coordinate and frequency.
    #[test]
    fn the_table_has_time_then_height_then_width_twice(case in case()) {
        let (table, f) = (case.table(), inverse_frequencies(1e4, case.axis(), case.axis()));
        let places: Vec<[usize; 3]> = case.grids.iter().flat_map(|grid| grid.coordinates(2)).collect();
        prop_assert_eq!(table.cos.dim(), (places.len(), 3 * case.axis()));
        for (i, place) in places.iter().enumerate() {
            for half in 0..2 {
                for (axis, &at) in place.iter().enumerate() {
                    for (j, frequency) in f.iter().enumerate() {
                        let angle = f64::from(f32::of(at as f64) * frequency);
                        let column = (half * 3 + axis) * f.len() + j;
                        prop_assert_eq!(table.cos.value[[i, column]], angle.cos());
                        prop_assert_eq!(table.sin.value[[i, column]], angle.sin());
                    }
                }
            }
        }
    }

    /// Each grid begins anew: what stands before it does not matter.
    #[test]
    fn grids_do_not_see_each_other(case in case()) {
        let (all, last) = (case.table(), *case.grids.last().expect("at least one"));
        let alone = axial_rope::<f64>(&case.rope, &[last]).expect("good");
        let n = all.cos.dim().0 - alone.cos.dim().0;
        prop_assert_eq!(all.cos.value.slice(s![n.., ..]), alone.cos.value);
    }

    /// A port whose time goes on has the table of one long grid.
    #[test]
    fn time_that_goes_on_is_that_of_one_grid(case in case(), more in 1..3_usize) {
        let first = case.grids[0];
        let on = AxialRope { time: ChunkTime::Continued, ..case.rope };
        let chunks = axial_rope::<f64>(&on, &[first, Grid { t: more, ..first }]).expect("good");
        let one = axial_rope::<f64>(&case.rope, &[Grid { t: first.t + more, ..first }]).expect("good");
        prop_assert_eq!(chunks, one);
    }

    /// Channels beyond 3m pass; a pair's norm is kept; and D52: pairs are halves of all, or of each axis's run.
    #[test]
    fn d52_the_rotation_keeps_the_norm_of_each_pair(case in case(), heads in 1..3_usize, seed in any::<u8>()) {
        let (table, p) = (case.table(), case.rope.rotation(&RoundingContract::IDEAL));
        let (d, n, m) = (case.rope.head_dim, table.cos.dim().0, case.axis());
        let x = Matrix::new((n, heads * d), Fill::Activation, Storage::Bf16, seed.into());
        let y = rope(&p, x.view(), table.cos.view(), table.sin.view()).expect("good");
        for head in 0..heads {
            prop_assert_eq!(y.slice(s![.., head * d + 3 * m..(head + 1) * d]), x.slice(s![.., head * d + 3 * m..(head + 1) * d]));
            for i in 0..3 * m / 2 {
                let (a, b) = match case.rope.pair {
                    AxialPair::Half => (i, i + 3 * m / 2),
                    AxialPair::Interleaved => (2 * i, 2 * i + 1),
                    AxialPair::AxisContiguous => (i / (m / 2) * m + i % (m / 2), i / (m / 2) * m + i % (m / 2) + m / 2),
                };
                let (a, b) = (head * d + a, head * d + b);
                for row in 0..n {
                    let (c, s) = (table.cos.value[[row, i]], table.sin.value[[row, i]]);
                    prop_assert_eq!(y[[row, a]], x[[row, a]] * c - x[[row, b]] * s);
                    prop_assert_eq!(y[[row, b]], x[[row, b]] * c + x[[row, a]] * s);
                }
            }
        }
    }

    /// A candidate that makes the table itself, in f32, from frequencies that are two ulps off.
    #[test]
    fn a_device_that_makes_its_table_stays_within_the_bound(case in case(), up in any::<bool>()) {
        let (p, want) = (case.rope.under(&case.contract), case.table());
        let off = |f: f32| if up { f.next_up().next_up() } else { f.next_down().next_down() };
        let f: Vec<f32> = inverse_frequencies(1e4, case.axis(), case.axis()).into_iter().map(off).collect();
        let places: Vec<[usize; 3]> = case.grids.iter().flat_map(|grid| grid.coordinates(2)).collect();
        let made = |function: fn(f32) -> f32| Array2::from_shape_fn(want.cos.dim(), |(i, j)| {
            let j = j % (3 * f.len());
            p.table.round(function(f32::of(places[i][j / f.len()] as f64) * f[j % f.len()])).wide()
        });
        within(&made(f32::cos), &want.cos.value, &p.bound(&case.grids, &want.cos.value))?;
        within(&made(f32::sin), &want.sin.value, &p.bound(&case.grids, &want.sin.value))?;
    }
}

/// The tower's head: 26 channels an axis, 78 of 80 rotate; the first frequency is 1, the last 10⁻⁴·¹²⸍¹³.
#[test]
fn by_hand() {
    let table = axial_rope::<f64>(&TOWER, &[Grid { t: 2, h: 2, w: 4 }]).expect("good");
    assert_eq!((TOWER.rotary_dim(), table.cos.dim()), (78, (16, 78)));
    // Row 15 is at time 1, height 1, width 3.
    let angles = [(0, 1.0), (13, 1.0), (26, 3.0), (39, 1.0), (52, 1.0), (65, 3.0)];
    for (column, angle) in angles {
        assert_eq!(table.sin.value[[15, column]], f64::sin(angle), "{column}");
    }
    let slowest = 3.0 * 10.0_f64.powf(-48.0 / 13.0);
    assert!((table.sin.value[[15, 38]] - slowest).abs() < 4.0 * f32::UNIT_ROUNDOFF * slowest);
    assert_eq!(table.cos.value.index_axis(Axis(0), 0), Array2::<f64>::ones((1, 78)).row(0));
}

/// cos 1 = 0.5403…, in bf16 0.5390625; an engine that rotates in one step keeps it.
#[test]
fn r1_rounds_the_table() {
    let of = |contract| axial_rope::<f64>(&TOWER.under(contract), &[Grid { t: 2, h: 2, w: 2 }]).expect("good");
    assert_eq!(of(&RoundingContract::EAGER_BF16).cos.value[[4, 0]], 0.539_062_5);
    assert_eq!(of(&RoundingContract::FUSED).cos.value[[4, 0]], 1.0_f64.cos());
}

/// What the table lacks in exactness goes through the rotation.
#[test]
fn the_tables_errors_reach_what_is_rotated() {
    let (p, grids) = (TOWER.under(&RoundingContract::FUSED), [Grid { t: 1, h: 2, w: 2 }]);
    let table = axial_rope::<f64>(&p, &grids).expect("good");
    let bounded = |x: &Tracked<f64>| Tracked { error: Some(p.bound(&grids, &x.value)), value: x.value.clone() };
    let table = RopeTable { cos: bounded(&table.cos), sin: bounded(&table.sin) };
    let (x, rotation) = (Array2::ones((4, 80)), TOWER.rotation(&RoundingContract::IDEAL));
    let y = rope(&rotation, x.view(), table.cos.view(), table.sin.view()).expect("good");
    let bound = rotation.bound(&Tracked::exact(x), &table, &y);
    assert!(bound.certain[[3, 0]] > f32::UNIT_ROUNDOFF && bound.certain[[3, 79]] == 0.0);
}

#[test]
fn constraints() {
    let fails = |p: AxialRope, t: usize, h: usize, w: usize| {
        axial_rope::<f64>(&p, &[Grid { t, h, w }]).expect_err("against the contract").to_string()
    };
    assert_eq!(fails(AxialRope { head_dim: 5, ..TOWER }, 1, 2, 2), "axial_rope C1: d = 5, expected at least 6");
    assert_eq!(fails(TOWER, 0, 2, 2), "axial_rope C2: grid = [0, 2, 2], expected 1 or more of each");
    let odd = "axial_rope C3: grid = [1, 2, 3], expected height and width multiples of 2";
    assert_eq!(fails(TOWER, 1, 2, 3), odd);
    let three = reference::ops::rope::Rope { head_dim: 8, rotary_dim: 8, runs: 3, ..Default::default() };
    let (x, table) = (array![[0.0; 8]], array![[0.0; 8]]);
    let err = rope(&three, x.view(), table.view(), table.view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rope C2: runs = 3, expected a divisor of h = 4");
}
