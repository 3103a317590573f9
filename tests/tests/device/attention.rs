//! `optimized/kernels/attention.cu` and `optimized/src/ops/attention.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::attention::{Cut, attention_cut};
use optimized::ops::qk_norm_rope::KeysValues;
use proptest::prelude::*;
use reference::ops::attention::{Attention, attention};
use reference::order::Tiles;
use reference::{Rounding, RoundingContract, Tracked};
use tests::bounds::{assert_within, bits, wide};
use tests::device::{devices, emulated_devices};
use tests::values::activations;

/// Heads, groups, channels; queries, and tokens before them.
#[derive(Debug, Clone, Copy)]
struct Case {
    heads: (usize, usize),
    d: usize,
    n: usize,
    first: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let heads = prop_oneof![Just((1, 1)), Just((6, 2)), Just((4, 4)), Just((5, 1)), Just((17, 1))];
    let d = prop_oneof![Just(1), Just(12), Just(16), Just(24), Just(64), Just(128)];
    (heads, d, 1..80_usize, 0..300_usize, any::<u64>()).prop_map(|(heads, d, n, first, seed)| Case {
        heads,
        d,
        n,
        first,
        seed,
    })
}

impl Case {
    fn layout(&self) -> HeadLayout {
        HeadLayout::new(self.heads.0, self.heads.1, self.d).expect("groups divide heads")
    }

    /// Those of the reference in the kernels' order.
    fn params(&self) -> Attention {
        Attention::under(&RoundingContract::PARITY.ordered().expect("it is fixed"), self.heads, self.d)
    }

    /// q, k and v without padding.
    fn inputs(&self) -> [Array2<bf16>; 3] {
        let all = self.first + self.n;
        let (h, g) = self.heads;
        [(0, self.n, h), (1, all, g), (2, all, g)]
            .map(|(i, rows, heads)| activations(self.seed.wrapping_add(i), (rows, heads * self.d)))
    }
}

/// o of the reference, in the order that the parameters fix.
fn in_order(p: &Attention, inputs: &[Array2<bf16>; 3]) -> Array2<f32> {
    let [q, k, v] = inputs.each_ref().map(|x| x.mapv(f32::from));
    attention(p, q.view(), k.view(), v.view()).expect("shapes fit")
}

/// Heads of d channels, each padded to D.
fn padded(layout: &HeadLayout, x: ArrayView2<'_, bf16>) -> Array2<bf16> {
    let (d, wide) = (layout.head_dim(), layout.padded());
    let mut y = Array2::from_elem((x.nrows(), x.ncols() / d * wide), bf16::ZERO);
    for ((i, j), &value) in x.indexed_iter() {
        y[[i, j / d * wide + j % d]] = value;
    }
    y
}

fn run(gpu: &Gpu, cut: Cut, layout: &HeadLayout, first: usize, [q, k, v]: [ArrayView2<'_, bf16>; 3]) -> Array2<bf16> {
    let upload = |x| gpu.upload(padded(layout, x).view()).expect("memory");
    let kept = KeysValues { keys: upload(k), values: upload(v) };
    let o = attention_cut(gpu, cut, layout, &upload(q), first, &kept).unwrap_or_else(|error| panic!("{cut:?} {error}"));
    gpu.download(&o).expect("memory")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn it_is_within_the_bound(case in case()) {
        let inputs = case.inputs();
        let [q, k, v] = inputs.each_ref().map(wide);
        let p = |contract| Attention::under(contract, case.heads, case.d);
        let want = attention(&p(&RoundingContract::IDEAL), q.view(), k.view(), v.view()).expect("shapes fit");
        let [q, k, v] = [q, k, v].map(Tracked::exact);
        let error = p(&RoundingContract::PARITY).bound(&q, &k, &v, &want);
        for gpu in devices() {
            for cut in [Cut::Queries, Cut::Keys] {
                let got = run(&gpu, cut, &case.layout(), case.first, inputs.each_ref().map(|x| x.view()));
                assert_within(&wide(&got), &want, &error, &format!("{} {cut:?} {case:?}", gpu.name()));
            }
        }
    }

    /// Bit for bit what the reference computes in the order that `attention.cuh` promises.
    #[test]
    fn it_is_the_reference_in_its_order(case in case()) {
        let inputs = case.inputs();
        let want = in_order(&case.params(), &inputs);
        for gpu in emulated_devices() {
            for cut in [Cut::Queries, Cut::Keys] {
                let got = run(&gpu, cut, &case.layout(), case.first, inputs.each_ref().map(|x| x.view()));
                prop_assert_eq!(got.mapv(bf16::to_bits), bits(&want), "{} {:?} {:?}", gpu.name(), cut, case);
            }
        }
    }

    /// A query's bits depend neither on how the work is cut, nor on the queries beside it.
    #[test]
    fn queries_do_not_see_each_other(case in case(), skipped in 0..80_usize) {
        let skipped = skipped % case.n;
        let inputs = case.inputs();
        let [q, k, v] = inputs.each_ref().map(|x| x.view());
        for gpu in devices() {
            let whole = run(&gpu, Cut::Queries, &case.layout(), case.first, [q, k, v]);
            for cut in [Cut::Queries, Cut::Keys] {
                let part = run(&gpu, cut, &case.layout(), case.first + skipped, [q.slice(s![skipped.., ..]), k, v]);
                prop_assert_eq!(part.mapv(bf16::to_bits), whole.slice(s![skipped.., ..]).mapv(bf16::to_bits), "{:?}", cut);
            }
        }
    }
}

/// With keys merged in other groups, or a tile at a time, some bits are others: the test above can tell.
#[test]
fn another_order_is_seen() {
    let case = Case { heads: (2, 1), d: 24, n: 3, first: 700, seed: 1 };
    let (p, inputs) = (case.params(), case.inputs());
    let tiles = p.tiles.expect("the order is fixed");
    let unrounded = Attention { output: Rounding::NONE, ..p };
    let right = in_order(&unrounded, &inputs);
    for tiles in [Tiles { group: 3, ..tiles }, Tiles { group: 1, ..tiles }, Tiles { keys: 32, ..tiles }] {
        assert_ne!(in_order(&Attention { tiles: Some(tiles), ..unrounded }, &inputs), right, "{tiles:?}");
    }
    // Two groups exchanged: positions do not matter to a last query that sees all.
    let exchanged = inputs.each_ref().map(|x| match x.nrows() {
        703 => concatenate![Axis(0), x.slice(s![256..512, ..]), x.slice(s![..256, ..]), x.slice(s![512.., ..])],
        _ => x.clone(),
    });
    let last = |o: &Array2<f32>| o.row(2).to_owned();
    assert_ne!(last(&in_order(&unrounded, &exchanged)), last(&right));
}

/// More groups of keys than a warp has lanes.
#[test]
fn many_groups_are_merged_in_order() {
    let case = Case { heads: (3, 1), d: 12, n: 2, first: 8500, seed: 1 };
    let inputs = case.inputs();
    let want = in_order(&case.params(), &inputs);
    for gpu in emulated_devices() {
        let got = run(&gpu, Cut::Keys, &case.layout(), case.first, inputs.each_ref().map(|x| x.view()));
        assert_eq!(got.mapv(bf16::to_bits), bits(&want), "{}", gpu.name());
    }
}

/// Values that say where they are: with equal scores each output is the mean of what the query may see, and nothing else. A
/// query at position 2ᵖ − 1 sees 2ᵖ keys, whose weights are exact.
#[test]
fn equal_scores_give_the_mean_of_what_is_seen() {
    let layout = HeadLayout::new(4, 2, 16).expect("groups divide heads");
    for power in 0..9 {
        let all = 1 << power;
        let q = Array2::from_elem((1, 64), bf16::ZERO);
        let k = activations(1, (all, 32));
        let v = Array2::from_shape_fn((all, 32), |(j, c)| bf16::from_f32(if j == c * all / 32 { 128.0 } else { 0.0 }));
        let want = Array2::from_shape_fn((1, 64), |(_, c)| {
            let column = c / 32 * 16 + c % 16;
            let sum: f32 = v.column(column).iter().map(|x| x.to_f32()).sum();
            bf16::from_f32(sum / all as f32)
        });
        for gpu in devices() {
            for cut in [Cut::Queries, Cut::Keys] {
                assert_eq!(run(&gpu, cut, &layout, all - 1, [q.view(), k.view(), v.view()]), want, "{cut:?} {all}");
            }
        }
    }
}

/// A key that is not a number shows in every query that sees it, and in no other.
#[test]
fn a_key_that_is_not_a_number() {
    let layout = HeadLayout::new(1, 1, 16).expect("groups divide heads");
    let (q, mut k, v) = (activations(1, (100, 16)), activations(2, (100, 16)), activations(3, (100, 16)));
    k[[70, 3]] = bf16::NAN;
    for gpu in devices() {
        for cut in [Cut::Queries, Cut::Keys] {
            let o = run(&gpu, cut, &layout, 0, [q.view(), k.view(), v.view()]);
            for (i, row) in o.rows().into_iter().enumerate() {
                assert_eq!(row.iter().any(|x| x.is_nan()), i >= 70, "{cut:?} query {i}");
            }
        }
    }
}
