//! `optimized/kernels/block_sparse_attention.cu` and `optimized/src/ops/block_sparse_attention.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::attention::{Cut, attention_cut};
use optimized::ops::block_sparse_attention::{Chosen, block_sparse_attention_cut};
use optimized::ops::qk_norm_rope::KeysValues;
use proptest::prelude::*;
use reference::ops::attention::Attention;
use reference::ops::block_sparse_attention::{BlockSparseAttention, block_sparse_attention};
use reference::semantics::{KeyHead, MsaLayout, MsaMask, MsaOwn};
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, bits, wide};
use tests::device::{devices, emulated_devices};
use tests::values::{Draw, activations};

const CUTS: [Cut; 2] = [Cut::Queries, Cut::Keys];

/// Heads, groups, channels; queries, and tokens before them; keys of a block, and how many are chosen at most.
#[derive(Debug, Clone, Copy)]
struct Case {
    heads: (usize, usize),
    d: usize,
    n: usize,
    first: usize,
    block: usize,
    top_k: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let heads = prop_oneof![Just((1, 1)), Just((6, 2)), Just((4, 4)), Just((16, 1)), Just((17, 1)), Just((32, 2))];
    let d = prop_oneof![Just(1), Just(12), Just(16), Just(24), Just(64), Just(128)];
    let block = prop_oneof![1..17_usize, Just(64), Just(70), Just(128)];
    (heads, d, 1..14_usize, 0..300_usize, block, 1..17_usize, any::<u64>())
        .prop_map(|(heads, d, n, first, block, top_k, seed)| Case { heads, d, n, first, block, top_k, seed })
}

impl Case {
    fn layout(&self) -> HeadLayout {
        HeadLayout::new(self.heads.0, self.heads.1, self.d).expect("groups divide heads")
    }

    /// q, k and v without padding.
    fn inputs(&self) -> [Array2<bf16>; 3] {
        let (all, (h, g)) = (self.first + self.n, self.heads);
        [(0, self.n, h), (1, all, g), (2, all, g)]
            .map(|(i, rows, heads)| activations(self.seed.wrapping_add(i), (rows, heads * self.d)))
    }

    /// Different blocks of each row, its own among them, in any order; −1 after the last.
    fn chosen(&self) -> Array2<i32> {
        let mut draw = Draw::new(self.seed);
        let columns = self.top_k.min((self.first + self.n).div_ceil(self.block));
        let mut chosen = Array2::from_elem((self.n * self.heads.1, columns), -1);
        for (row, mut out) in chosen.rows_mut().into_iter().enumerate() {
            let own = (self.first + row / self.heads.1) / self.block;
            let mut blocks: Vec<usize> = (0..own).collect();
            let others = columns.min(own + 1) - 1;
            for slot in 0..others {
                let other = slot + usize::try_from(draw.below((own - slot) as u64)).expect("few blocks");
                blocks.swap(slot, other);
            }
            blocks.truncate(others);
            let place = usize::try_from(draw.below(others as u64 + 1)).expect("few blocks");
            blocks.insert(place, own);
            out.iter_mut().zip(blocks).for_each(|(out, block)| *out = i32::try_from(block).expect("few blocks"));
        }
        chosen
    }

    fn params(&self, contract: &RoundingContract) -> BlockSparseAttention {
        let attention = Attention::under(contract, self.heads, self.d);
        let (mask, own) = (MsaMask::Token, MsaOwn::Once);
        let (group, layout) = (KeyHead::Grouped, MsaLayout::TokenMajor);
        BlockSparseAttention { attention, block: self.block, mask, own, group, layout, shift: None }
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

fn kept(gpu: &Gpu, layout: &HeadLayout, [k, v]: [ArrayView2<'_, bf16>; 2]) -> KeysValues {
    let [keys, values] = [k, v].map(|x| gpu.upload(padded(layout, x).view()).expect("memory"));
    KeysValues { keys, values }
}

fn run(
    gpu: &Gpu,
    cut: Cut,
    case: &Case,
    [q, k, v]: [ArrayView2<'_, bf16>; 3],
    first: usize,
    chosen: ArrayView2<'_, i32>,
) -> Array2<bf16> {
    let layout = case.layout();
    let q = gpu.upload(padded(&layout, q).view()).expect("memory");
    let blocks = gpu.upload(chosen).expect("memory");
    let chosen = Chosen { blocks: &blocks, size: case.block };
    let o = block_sparse_attention_cut(gpu, cut, &layout, &q, first, &kept(gpu, &layout, [k, v]), chosen);
    gpu.download(&o.unwrap_or_else(|error| panic!("{cut:?} {error}"))).expect("memory")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Bit for bit what the reference computes in the order that the kernel promises.
    #[test]
    fn it_is_the_reference_in_its_order(case in case()) {
        let (inputs, chosen) = (case.inputs(), case.chosen());
        let blocks = chosen.mapv(|block| usize::try_from(block).ok());
        let [q, k, v] = inputs.each_ref().map(|x| x.mapv(f32::from));
        let p = case.params(&RoundingContract::PARITY.ordered().expect("it is fixed"));
        let want = block_sparse_attention(&p, q.view(), k.view(), v.view(), blocks.view()).expect("shapes fit");
        for gpu in emulated_devices() {
            for cut in CUTS {
                let got = run(&gpu, cut, &case, inputs.each_ref().map(|x| x.view()), case.first, chosen.view());
                prop_assert_eq!(got.mapv(bf16::to_bits), bits(&want), "{} {:?} {:?}", gpu.name(), cut, case);
            }
        }
    }

    #[test]
    fn it_is_within_the_bound(case in case()) {
        let (inputs, chosen) = (case.inputs(), case.chosen());
        let blocks = chosen.mapv(|block| usize::try_from(block).ok());
        let [q, k, v] = inputs.each_ref().map(wide);
        let ideal = case.params(&RoundingContract::IDEAL);
        let want = block_sparse_attention(&ideal, q.view(), k.view(), v.view(), blocks.view()).expect("shapes fit");
        let [q, k, v] = [q, k, v].map(Tracked::exact);
        let error = case.params(&RoundingContract::PARITY).bound(&q, &k, &v, blocks.view(), &want);
        for gpu in devices() {
            for cut in CUTS {
                let got = run(&gpu, cut, &case, inputs.each_ref().map(|x| x.view()), case.first, chosen.view());
                assert_within(&wide(&got), &want, &error, &format!("{} {cut:?} {case:?}", gpu.name()));
            }
        }
    }

    /// A query's bits depend neither on how the work is cut, nor on the queries beside it, nor on the order of its blocks.
    #[test]
    fn queries_do_not_see_each_other(case in case(), skipped in 0..14_usize) {
        let skipped = skipped % case.n;
        let (inputs, chosen) = (case.inputs(), case.chosen());
        let [q, k, v] = inputs.each_ref().map(|x| x.view());
        for gpu in devices() {
            let whole = run(&gpu, Cut::Queries, &case, [q, k, v], case.first, chosen.view());
            let rest = (q.slice(s![skipped.., ..]), chosen.slice(s![skipped * case.heads.1.., ..;-1]));
            for cut in CUTS {
                let part = run(&gpu, cut, &case, [rest.0, k, v], case.first + skipped, rest.1);
                prop_assert_eq!(part.mapv(bf16::to_bits), whole.slice(s![skipped.., ..]).mapv(bf16::to_bits), "{:?}", cut);
            }
        }
    }

    /// One choice for all groups is that choice for each.
    #[test]
    fn one_choice_serves_all_groups(case in case()) {
        let inputs = case.inputs();
        let one = Case { heads: (case.heads.0, 1), ..case }.chosen();
        let each = Array2::from_shape_fn((case.n * case.heads.1, one.ncols()), |(row, slot)| one[[row / case.heads.1, slot]]);
        for gpu in devices() {
            for cut in CUTS {
                let [of_one, of_each] = [&one, &each]
                    .map(|chosen| run(&gpu, cut, &case, inputs.each_ref().map(|x| x.view()), case.first, chosen.view()));
                prop_assert_eq!(of_one.mapv(bf16::to_bits), of_each.mapv(bf16::to_bits), "{:?}", cut);
            }
        }
    }

    /// With all blocks chosen, and no tile cut short within the sequence, it is attention to the bit.
    #[test]
    fn all_blocks_are_attention(case in case(), whole in prop_oneof![Just(64_usize), Just(128)]) {
        let case = Case { block: whole, ..case };
        let inputs = case.inputs();
        let [q, k, v] = inputs.each_ref().map(|x| x.view());
        let count = (case.first + case.n).div_ceil(whole);
        let all = Array2::from_shape_fn((case.n * case.heads.1, count), |(_, c)| i32::try_from(c).expect("few blocks"));
        let layout = case.layout();
        for gpu in devices() {
            let rotated = gpu.upload(padded(&layout, q).view()).expect("memory");
            let kept = kept(&gpu, &layout, [k, v]);
            let dense = attention_cut(&gpu, Cut::Queries, &layout, &rotated, case.first, &kept).expect("shapes fit");
            let dense = gpu.download(&dense).expect("memory").mapv(bf16::to_bits);
            for cut in CUTS {
                let sparse = run(&gpu, cut, &case, [q, k, v], case.first, all.view());
                prop_assert_eq!(sparse.mapv(bf16::to_bits), &dense, "{:?}", cut);
            }
        }
    }

    /// What is not chosen cannot matter, be it a number or not.
    #[test]
    fn what_no_query_chose_is_not_read(case in case()) {
        let (inputs, chosen) = (case.inputs(), case.chosen());
        let [q, mut k, mut v] = inputs.clone();
        for ((j, c), x) in k.indexed_iter_mut() {
            let group = c / case.d;
            let is_chosen = chosen.rows().into_iter().skip(group).step_by(case.heads.1).any(|blocks| {
                blocks.iter().any(|&block| usize::try_from(block) == Ok(j / case.block))
            });
            if !is_chosen {
                *x = bf16::NAN;
                v[[j, c]] = bf16::NAN;
            }
        }
        for gpu in devices() {
            for cut in CUTS {
                let right = run(&gpu, cut, &case, inputs.each_ref().map(|x| x.view()), case.first, chosen.view());
                let got = run(&gpu, cut, &case, [q.view(), k.view(), v.view()], case.first, chosen.view());
                prop_assert_eq!(got.mapv(bf16::to_bits), right.mapv(bf16::to_bits), "{:?}", cut);
            }
        }
    }
}

#[test]
fn c3_a_choice_for_another_number_of_groups() {
    for gpu in devices() {
        let layout = HeadLayout::new(4, 2, 16).expect("groups divide heads");
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let kept = KeysValues { keys: zeros((3, 32)), values: zeros((3, 32)) };
        let blocks = gpu.zeros((4, 1)).expect("memory");
        let chosen = Chosen { blocks: &blocks, size: 4 };
        let error = block_sparse_attention_cut(&gpu, Cut::Keys, &layout, &zeros((3, 64)), 0, &kept, chosen);
        let error = error.expect_err("six rows are wanted");
        assert_eq!(error.to_string(), "block_sparse_attention C1: rows of C = 4, expected n·G = 6");
    }
}
