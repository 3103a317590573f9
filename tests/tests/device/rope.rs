//! `optimized/kernels/rope.cu` and `optimized/src/ops/rope.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::rope::{pad_heads, rope};
use proptest::prelude::*;
use reference::ops::axial_rope::{AxialRope, axial_rope};
use reference::ops::rope::{Rope, RopeTable, rope as oracle, rope_table};
use reference::semantics::{AxialAxes, AxialOrder, AxialPair, ChunkTime, RopePair, RopePart};
use reference::{Grid, Rounding, RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

/// The tower's, of heads of d channels.
fn axial(head_dim: usize) -> AxialRope {
    let (pair, time) = (AxialPair::Half, ChunkTime::Reset);
    let (order, axes) = (AxialOrder::Merged, AxialAxes::TimeHeightWidth);
    AxialRope { head_dim, theta: 1e4, side: 2, pair, time, order, axes, table: Rounding::NONE }
}

/// y without its padding, which is zero.
fn run(gpu: &Gpu, d: usize, x: ArrayView2<'_, bf16>, rotation: Option<(&Rope, &RopeTable<f32>)>) -> Array2<bf16> {
    let x = gpu.upload(x).expect("memory");
    let heads = x.dim().1 / d;
    let y = match rotation {
        None => pad_heads(gpu, d, &x),
        Some((p, table)) => {
            let upload = |table: &Tracked<f32>| gpu.upload(table.view()).expect("memory");
            rope(gpu, p, &x, &upload(&table.cos), &upload(&table.sin))
        }
    };
    let y = gpu.download_padded(&y.unwrap_or_else(|error| panic!("{error}"))).expect("memory");
    let padded = HeadLayout::new(heads, heads, d).expect("at most 128").padded();
    assert_eq!(y.ncols(), heads * padded);
    assert!(y.indexed_iter().all(|((_, j), &y)| j % padded < d || y == bf16::ZERO), "padding is zero");
    Array2::from_shape_fn((y.nrows(), heads * d), |(i, j)| y[[i, j / d * padded + j % d]])
}

fn bits(y: ArrayView2<'_, bf16>) -> Array2<u16> {
    y.mapv(bf16::to_bits)
}

/// Fails unless the devices' y is within the reference's bound, and passes what does not rotate.
fn demand_within(p: &Rope, x: &Array2<bf16>, table: &RopeTable<f32>, what: &str) {
    let of = |table: &Tracked<f32>| Tracked::exact(table.value.mapv(f64::from));
    let exact_table = RopeTable { cos: of(&table.cos), sin: of(&table.sin) };
    let exact = Tracked::exact(wide(x));
    let want = oracle(p, exact.view(), exact_table.cos.view(), exact_table.sin.view()).expect("shapes fit");
    let error = p.under(&RoundingContract::PARITY).bound(&exact, &exact_table, &want);
    for gpu in devices() {
        let y = run(&gpu, p.head_dim, x.view(), Some((p, table)));
        assert_within(&wide(&y), &want, &error, &format!("{} {what}", gpu.name()));
        for ((i, j), &y) in y.indexed_iter() {
            assert!(j % p.head_dim < p.rotary_dim || y == x[[i, j]], "{} {what}: channel {j} passes", gpu.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// By the table of patches.
    #[test]
    fn patches_are_within_the_bound((heads, d) in (1..20_usize, 6..129_usize), (t, h, w) in (1..3_usize, 1..3_usize, 1..3_usize), seed: u64) {
        let (axial, grids) = (axial(d), [Grid { t, h: 2 * h, w: 2 * w }, Grid { t: 1, h: 2, w: 2 }]);
        let table = axial_rope::<f32>(&axial, &grids).expect("sides are even");
        let x = activations(seed, (table.cos.dim().0, heads * d));
        demand_within(&axial.rotation(&RoundingContract::IDEAL), &x, &table, &format!("{heads} {d} {grids:?}"));
    }

    /// By the table of positions, and heads that rotate whole.
    #[test]
    fn positions_are_within_the_bound((heads, h) in (1..10_usize, 1..65_usize), (first, n) in (0..5000_usize, 1..6_usize), seed: u64) {
        let p = Rope { head_dim: 2 * h, rotary_dim: 2 * h, theta: 5e6, ..Rope::default() };
        let x = activations(seed, (n, heads * 2 * h));
        demand_within(&p, &x, &rope_table::<f32>(&p, first, n), &format!("{heads} {h} {first}"));
    }

    /// Nor heads: a row, or a head, that is not a number stays by itself.
    #[test]
    fn rows_and_heads_do_not_see_each_other((heads, d) in (2..12_usize, 6..129_usize), seed: u64) {
        let (axial, grid) = (axial(d), Grid { t: 1, h: 2, w: 2 });
        let table = axial_rope::<f32>(&axial, &[grid]).expect("sides are even");
        let p = axial.rotation(&RoundingContract::IDEAL);
        let x = activations(seed, (4, heads * d));
        let mut beside = x.clone();
        beside.row_mut(0).fill(bf16::NAN);
        beside.slice_mut(s![.., ..d]).fill(bf16::NAN);
        for gpu in devices() {
            let [alone, beside] = [&x, &beside].map(|x| run(&gpu, d, x.view(), Some((&p, &table))));
            prop_assert_eq!(bits(alone.slice(s![1.., d..])), bits(beside.slice(s![1.., d..])), "{}", gpu.name());
        }
    }

    #[test]
    fn padded_heads_are_as_they_were((n, heads, d) in (1..5_usize, 1..20_usize, 1..129_usize), seed: u64) {
        let x = activations(seed, (n, heads * d));
        for gpu in devices() {
            prop_assert_eq!(bits(run(&gpu, d, x.view(), None).view()), bits(x.view()), "{}", gpu.name());
        }
    }
}

/// A quarter turn, a half turn, and none.
#[test]
fn whole_turns_are_exact() {
    let p = Rope { head_dim: 6, rotary_dim: 4, ..Rope::default() };
    let of = |values: [[f32; 4]; 3]| Tracked::plain(Array2::from_shape_fn((3, 4), |(i, j)| values[i][j]));
    let (cos, sin) = ([[0.0; 4], [-1.0; 4], [1.0; 4]], [[1.0; 4], [0.0; 4], [0.0; 4]]);
    let table = RopeTable { cos: of(cos), sin: of(sin) };
    let x = Array2::from_shape_fn((3, 6), |(_, j)| bf16::from_f32(j as f32 + 1.0));
    let want = [[-3.0, -4.0, 1.0, 2.0, 5.0, 6.0], [-1.0, -2.0, -3.0, -4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]];
    let want = Array2::from_shape_fn((3, 6), |(i, j)| bf16::from_f32(want[i][j]));
    for gpu in devices() {
        assert_eq!(run(&gpu, 6, x.view(), Some((&p, &table))), want, "{}", gpu.name());
    }
}

#[test]
fn c1_to_c4_other_shapes_and_variants() {
    for gpu in devices() {
        let p = Rope { head_dim: 8, rotary_dim: 6, ..Rope::default() };
        let x = gpu.zeros((2, 16)).expect("memory");
        let refused = |p: &Rope, table| {
            let table = gpu.zeros(table).expect("memory");
            rope(&gpu, p, &x, &table, &table).expect_err("it does not fit").to_string()
        };
        assert_eq!(
            refused(&Rope { head_dim: 7, ..p }, (2, 6)),
            "rope C1: columns of x = 16, expected a multiple of d = 7"
        );
        assert_eq!(
            refused(&Rope { rotary_dim: 10, ..p }, (2, 10)),
            "rope C2: 2h = 10, expected an even number up to d = 8"
        );
        assert_eq!(refused(&p, (3, 6)), "rope C3: shape of c = (3, 6), expected (2, 6)");
        assert_eq!(refused(&Rope { part: RopePart::Last, ..p }, (2, 6)), "rope K5: rope_part = last, expected first");
        assert_eq!(
            refused(&Rope { pair: RopePair::Interleaved, ..p }, (2, 6)),
            "rope K5: rope_pair = interleaved, expected half"
        );
        assert_eq!(refused(&Rope { runs: 3, ..p }, (2, 6)), "rope K5: runs of rotated channels = 3, expected 1");
        let error = pad_heads(&gpu, 5, &x).expect_err("not whole heads").to_string();
        assert_eq!(error, "rope C1: columns of x = 16, expected a multiple of d = 5");
        let error = pad_heads(&gpu, 129, &gpu.zeros((1, 129)).expect("memory")).expect_err("too wide").to_string();
        assert_eq!(error, "heads K1: d = 129, expected at most 128");
    }
}
