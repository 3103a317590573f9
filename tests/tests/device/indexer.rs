//! `optimized/kernels/indexer.cu` and `optimized/src/ops/indexer.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::indexer::indexer;
use proptest::prelude::*;
use reference::config::Blocks;
use reference::ops::indexer::{Indexer, block_max, boosted, choose};
use reference::semantics::{MsaSelect, Semantics};
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::{activations, whole_numbers};

/// Heads, channels; queries, and tokens before them; blocks.
#[derive(Debug, Clone, Copy)]
struct Case {
    heads: usize,
    d: usize,
    n: usize,
    first: usize,
    blocks: Blocks,
    select: MsaSelect,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let d = prop_oneof![Just(1), Just(12), Just(16), Just(24), Just(64), Just(128)];
    let size = prop_oneof![1..9_usize, Just(16), Just(48), Just(64), Just(65), Just(128), Just(130)];
    let blocks = (size, 1..33_usize, 0..3_usize, 0..3_usize);
    let blocks = blocks.prop_map(|(size, top_k, local, init)| Blocks { size, top_k, local, init });
    let select = prop_oneof![Just(MsaSelect::PerGroup), Just(MsaSelect::HeadMax)];
    (1..5_usize, d, 1..40_usize, 0..400_usize, blocks, select, any::<u64>())
        .prop_map(|(heads, d, n, first, blocks, select, seed)| Case { heads, d, n, first, blocks, select, seed })
}

impl Case {
    fn layout(&self) -> HeadLayout {
        HeadLayout::new(self.heads, 1, self.d).expect("one group")
    }

    /// Rows of m of a token.
    fn choices(&self) -> usize {
        if self.select == MsaSelect::PerGroup { self.heads } else { 1 }
    }

    /// q and k without padding.
    fn inputs(&self) -> [Array2<bf16>; 2] {
        [(0, self.n, self.heads), (1, self.first + self.n, 1)]
            .map(|(i, rows, heads)| activations(self.seed.wrapping_add(i), (rows, heads * self.d)))
    }

    fn params(&self, contract: &RoundingContract) -> Indexer {
        let semantics = Semantics { msa_select: self.select, ..Semantics::RELEASED };
        Indexer::under(contract, &semantics, (self.heads, self.choices()), self.d, self.blocks)
    }

    /// The choice that follows from given maxima.
    fn choice(&self, maxima: &Array2<f32>) -> Array2<i32> {
        let p = self.params(&RoundingContract::PARITY);
        let boosted = boosted(&p, maxima.view(), self.first + self.n);
        choose(&p, boosted.view()).mapv(|block| block.map_or(-1, |block| i32::try_from(block).expect("few blocks")))
    }
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

/// Maxima and choice.
fn run(gpu: &Gpu, case: &Case, [q, k]: [ArrayView2<'_, bf16>; 2], first: usize) -> (Array2<f32>, Array2<i32>) {
    let layout = case.layout();
    let upload = |x| gpu.upload(padded(&layout, x).view()).expect("memory");
    let indexed = indexer(gpu, &layout, (&case.blocks, case.select), &upload(q), first, &upload(k));
    let indexed = indexed.unwrap_or_else(|error| panic!("{error}"));
    let padded = gpu.download_padded(&indexed.chosen).expect("memory");
    let count = indexed.chosen.dim().1;
    assert!(padded.slice(s![.., count..]).iter().all(|&block| block == 0), "padding is zero");
    (gpu.download(&indexed.maxima).expect("memory"), gpu.download(&indexed.chosen).expect("memory"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Maxima are within the bound; the choice is that which follows from them, to the last index.
    #[test]
    fn maxima_are_within_the_bound_and_the_choice_is_theirs(case in case()) {
        let inputs = case.inputs();
        let [q, k] = inputs.each_ref().map(wide);
        let want = block_max(&case.params(&RoundingContract::IDEAL), q.view(), k.view()).expect("shapes fit");
        let [q, k] = [q, k].map(Tracked::exact);
        let error = case.params(&RoundingContract::PARITY).bound_block_max(&q, &k, &want);
        for gpu in devices() {
            let (maxima, chosen) = run(&gpu, &case, inputs.each_ref().map(|x| x.view()), case.first);
            assert_within(&maxima.mapv(f64::from), &want, &error, &format!("{} {case:?}", gpu.name()));
            prop_assert_eq!(chosen, case.choice(&maxima), "{}", gpu.name());
        }
    }

    /// Whole numbers are added without rounding, and are often equal: the choice is the reference's.
    #[test]
    fn the_choice_among_whole_numbers_is_the_references(case in case()) {
        let q = whole_numbers(case.seed, (case.n, case.heads * case.d), 2);
        let k = whole_numbers(!case.seed, (case.first + case.n, case.d), 2);
        let p = case.params(&RoundingContract::IDEAL);
        let want = block_max(&p, wide(&q).view(), wide(&k).view()).expect("shapes fit");
        for gpu in devices() {
            let (maxima, chosen) = run(&gpu, &case, [q.view(), k.view()], case.first);
            prop_assert_eq!(&maxima.mapv(f64::from), &want, "{}", gpu.name());
            prop_assert_eq!(chosen, case.choice(&maxima), "{}", gpu.name());
        }
    }

    /// A query's bits do not depend on the queries beside it, nor on those in its pass.
    #[test]
    fn queries_do_not_see_each_other(case in case(), skipped in 0..40_usize) {
        let skipped = skipped % case.n;
        let inputs = case.inputs();
        let [q, k] = inputs.each_ref().map(|x| x.view());
        for gpu in devices() {
            let (maxima, chosen) = run(&gpu, &case, [q, k], case.first);
            let (part, part_chosen) = run(&gpu, &case, [q.slice(s![skipped.., ..]), k], case.first + skipped);
            let rest = s![skipped * case.choices().., ..];
            prop_assert_eq!(part.mapv(f32::to_bits), maxima.slice(rest).mapv(f32::to_bits));
            prop_assert_eq!(part_chosen, chosen.slice(rest));
        }
    }
}

/// A case of one head of 16 channels, whose first is the score of a key.
fn scored(scores: &[f32], size: usize, top_k: usize) -> (Case, [Array2<bf16>; 2]) {
    let blocks = Blocks { size, top_k, local: 1, init: 0 };
    let case = Case { heads: 1, d: 16, n: 1, first: scores.len() - 1, blocks, select: MsaSelect::PerGroup, seed: 0 };
    let value = |x: f32| bf16::from_f32(x);
    let q = Array2::from_shape_fn((1, 16), |(_, c)| value(if c == 0 { 1.0 } else { 0.0 }));
    let k = Array2::from_shape_fn((scores.len(), 16), |(j, c)| value(if c == 0 { scores[j] } else { 0.0 }));
    (case, [q, k])
}

fn chosen(scores: &[f32], size: usize, top_k: usize) -> Vec<Vec<i32>> {
    let (case, inputs) = scored(scores, size, top_k);
    devices()
        .iter()
        .map(|gpu| run(gpu, &case, inputs.each_ref().map(|x| x.view()), case.first).1.row(0).to_vec())
        .collect()
}

/// The own block first, then by largest score, of equals the lowest; 0 and −0 are equal.
#[test]
fn the_lowest_of_equal_blocks_goes_first() {
    for got in chosen(&[1.0, 3.0, 0.0, 3.0, 2.0, -1.0, -5.0, -5.0], 2, 3) {
        assert_eq!(got, [3, 0, 1]);
    }
    for got in chosen(&[-0.0, 0.0, -0.0, 0.0, -1.0], 1, 4) {
        assert_eq!(got, [4, 0, 1, 2]);
    }
}

/// More blocks than all warps of a row look at together, of which equal ones are far apart.
#[test]
fn the_best_of_many_blocks_are_chosen_in_order() {
    let mut scores: Vec<f32> = (0..2500_u16).map(|j| f32::from(j % 100)).collect();
    scores[2050] = 200.0;
    scores[130] = 150.0;
    scores[1200] = 150.0;
    for got in chosen(&scores, 1, 32) {
        let equal = (0..24).map(|i| 99 + 100 * i);
        let own = [2499, 2050, 130, 1200];
        let rest = [98, 198, 298, 398];
        assert_eq!(got, own.into_iter().chain(equal).chain(rest).collect::<Vec<i32>>());
    }
}

/// A block whose scores are not numbers is chosen: what is wrong shows.
#[test]
fn a_score_that_is_not_a_number_is_the_largest() {
    for got in chosen(&[1.0, 2.0, 9.0, 8.0, f32::NAN, -3.0, 7.0, 7.0, 0.0], 2, 3) {
        assert_eq!(got, [2, 4, 1]);
    }
}

/// −∞ is no choice, unless it is forced.
#[test]
fn blocks_without_a_score_are_left_out() {
    for got in chosen(&[f32::NEG_INFINITY, 5.0, f32::NEG_INFINITY, f32::NEG_INFINITY], 1, 4) {
        assert_eq!(got, [3, 1, -1, -1]);
    }
}

#[test]
fn c3_more_blocks_than_lanes() {
    for gpu in devices() {
        let layout = HeadLayout::new(1, 1, 16).expect("one group");
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let blocks = Blocks { size: 4, top_k: 33, local: 1, init: 0 };
        let error = indexer(&gpu, &layout, (&blocks, MsaSelect::PerGroup), &zeros((1, 16)), 0, &zeros((1, 16)))
            .expect_err("too many");
        assert_eq!(error.to_string(), "indexer K4: K = 33, expected at most 32");
    }
}
