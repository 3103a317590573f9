//! `reference/src/ops/block_sparse_attention.rs`.

use ndarray::{Array2, Axis, array, s};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::ops::attention::{Attention, attention, probabilities, scores};
use reference::ops::block_sparse_attention::{self, BlockSparseAttention, block_sparse_attention};
use reference::semantics::{Causal, KeyHead, MsaLayout, MsaMask, MsaOwn};
use reference::{RoundingContract, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// q \[n, H·d\], k and v \[s, G·d\], C \[n·G, K\], under a contract, with errors of all.
#[derive(Clone)]
struct Case {
    contract: Contract,
    heads: (usize, usize),
    block: usize,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    chosen: Array2<Option<usize>>,
    noise: Noise,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { contract, heads, block, q, k, v, chosen, noise } = self;
        write!(
            f,
            "{contract:?}, heads {heads:?}, blocks of {block}, q {q:?}, k {k:?}, v {v:?}, {noise:?}, C {chosen:?}"
        )
    }
}

impl Case {
    fn under(&self, contract: &RoundingContract) -> BlockSparseAttention {
        params(contract, self.heads, self.k.ncols() / self.heads.1, self.block)
    }

    fn ideal(&self) -> BlockSparseAttention {
        self.under(&RoundingContract::IDEAL)
    }

    fn want(&self) -> Array2<f64> {
        oracle(&self.ideal(), &self.q, &self.k, &self.v, &self.chosen)
    }

    fn position(&self, row: usize) -> usize {
        self.k.nrows() - self.q.nrows() + row
    }

    /// All blocks, for each token and group.
    fn all(&self) -> Array2<Option<usize>> {
        let count = self.k.nrows().div_ceil(self.block);
        Array2::from_shape_fn((self.chosen.nrows(), count), |(_, block)| Some(block))
    }
}

fn params(contract: &RoundingContract, heads: (usize, usize), d: usize, block: usize) -> BlockSparseAttention {
    let attention = Attention::under(contract, heads, d);
    let (mask, own, shift) = (MsaMask::Token, MsaOwn::Once, None);
    BlockSparseAttention { attention, block, mask, own, group: KeyHead::Grouped, layout: MsaLayout::TokenMajor, shift }
}

/// Some blocks of each row, its own among them, in any order, and none after the last.
fn choices(rng: &mut ChaCha8Rng, (n, groups): (usize, usize), before: usize, block: usize) -> Array2<Option<usize>> {
    let count = (n + before).div_ceil(block);
    let mut chosen = Array2::from_elem((n * groups, count), None);
    for (row, mut out) in chosen.rows_mut().into_iter().enumerate() {
        let own = (before + row / groups) / block;
        let mut blocks: Vec<usize> = (0..own).filter(|_| rng.random::<bool>()).chain([own]).collect();
        blocks.shuffle(rng);
        out.iter_mut().zip(blocks).for_each(|(out, block)| *out = Some(block));
    }
    chosen
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let sizes = (1..5_usize, 0..30_usize, 1..6_usize, (1..3_usize, 1..4_usize, 1..8_usize), any::<u16>());
    (contract(), noise(), sizes).prop_flat_map(move |(contract, noise, (n, before, block, (key, group, d), seed))| {
        let storage = contract.activations;
        let matrix = |rows, heads: usize| filled((rows, heads * d), fill.clone(), storage);
        let chosen = choices(&mut ChaCha8Rng::seed_from_u64(seed.into()), (n, key), before, block);
        let all = (matrix(n, key * group), matrix(n + before, key), matrix(n + before, key));
        all.prop_map(move |(q, k, v)| Case {
            contract,
            heads: (key * group, key),
            block,
            q,
            k,
            v,
            chosen: chosen.clone(),
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn oracle(
    p: &BlockSparseAttention,
    q: &Array2<f64>,
    k: &Array2<f64>,
    v: &Array2<f64>,
    chosen: &Array2<Option<usize>>,
) -> Array2<f64> {
    block_sparse_attention(p, q.view(), k.view(), v.view(), chosen.view()).expect("the case keeps the contract")
}

proptest! {
    /// Up to the order of sums that a gathering has: twice the ideal's own error.
    #[test]
    fn with_all_blocks_it_is_attention(case in case()) {
        let p = case.ideal();
        let want = attention(&p.attention, case.q.view(), case.k.view(), case.v.view()).expect("good");
        let mut bound = p.attention.bound(&case.q.exact(), &case.k.exact(), &case.v.exact(), &want);
        bound.certain *= 2.0;
        within(&oracle(&p, &case.q, &case.k, &case.v, &case.all()), &want, &bound)?;
    }

    /// The definition: softmax over what is chosen and seen, of attention's own scores.
    #[test]
    fn is_the_masked_softmax_by_definition(case in case()) {
        let p = case.ideal();
        let (n, d, groups) = (case.q.nrows(), p.attention.head_dim, case.heads.1);
        let dense = probabilities(&p.attention, case.q.view(), case.k.view()).expect("good");
        let want = case.want();
        let bound = p.bound(&case.q.exact(), &case.k.exact(), &case.v.exact(), case.chosen.view(), &want);
        for head in 0..case.heads.0 {
            let group = head * groups / case.heads.0;
            for i in 0..n {
                let kept = |j: usize| case.chosen.row(i * groups + group).iter().any(|b| *b == Some(j / case.block));
                let weights: Vec<f64> =
                    (0..case.k.nrows()).map(|j| if kept(j) { dense[[head * n + i, j]] } else { 0.0 }).collect();
                let sum: f64 = weights.iter().sum();
                if sum < 1e-3 {
                    continue; // what was kept had hardly any weight, and f64 has few digits of it
                }
                for c in 0..d {
                    let mean: f64 = weights.iter().enumerate().map(|(j, w)| w / sum * case.v[[j, group * d + c]]).sum();
                    let at = [i, head * d + c];
                    prop_assert!((mean - want[at]).abs() <= 1e4 * bound.certain[at]);
                }
            }
        }
    }

    /// Of attention's own scores, e^score of what is chosen and seen, divided by their sum; a device's are within the bound.
    #[test]
    fn probabilities_are_those_of_what_is_chosen(case in case()) {
        let (p, n, groups) = (case.ideal(), case.q.nrows(), case.heads.1);
        let got = block_sparse_attention::probabilities(&p, case.q.view(), case.k.view(), case.chosen.view());
        let got = got.expect("good");
        let mut want = scores(&p.attention, case.q.view(), case.k.view()).expect("good");
        for (row, mut want) in want.rows_mut().into_iter().enumerate() {
            let chosen = case.chosen.row(row % n * groups + row / n * groups / case.heads.0);
            for (j, score) in want.iter_mut().enumerate() {
                *score = if chosen.iter().any(|b| *b == Some(j / case.block)) { *score } else { f64::NEG_INFINITY };
            }
            let top = want.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            want.mapv_inplace(|score| (score - top).exp());
            want /= want.sum();
        }
        let mut own = p.bound_probabilities(&case.q.exact(), &case.k.exact(), case.chosen.view(), &want);
        own.certain *= 2.0;
        within(&got, &want, &own)?;

        let [q, k] = [case.noise.on(&case.q, 0), case.noise.on(&case.k, 1)];
        let p = case.under(&case.contract);
        let bound = p.bound_probabilities(&q.tracked, &k.tracked, case.chosen.view(), &want);
        let (q, k) = (q.f32(), k.f32());
        let got = block_sparse_attention::probabilities(&p, q.view(), k.view(), case.chosen.view()).expect("good");
        within(&got.mapv(f64::from), &want, &bound)?;
    }

    /// Keys and values of blocks that nobody chose are replaced by noise, bit for bit without effect.
    #[test]
    fn an_unselected_block_cannot_matter_exactly(case in case(), seed in any::<u16>()) {
        let p = case.under(&case.contract);
        let groups = case.heads.1;
        let noise = Matrix::new(case.k.dim(), Fill::Activation, case.k.storage(), seed.into());
        for i in 0..case.q.nrows() {
            for group in 0..groups {
                let row = case.chosen.row(i * groups + group);
                let (mut k, mut v) = (case.k.values(), case.v.values());
                for j in (0..k.nrows()).filter(|j| *j > case.position(i) || !row.iter().any(|b| *b == Some(j / case.block))) {
                    let columns = s![j, group * p.attention.head_dim..(group + 1) * p.attention.head_dim];
                    k.slice_mut(columns).assign(&noise.slice(columns));
                    v.slice_mut(columns).fill(f64::NAN);
                }
                let share = case.heads.0 / groups * p.attention.head_dim;
                let own = s![i, group * share..(group + 1) * share];
                let (with, without) = (oracle(&p, &case.q, &case.k, &case.v, &case.chosen), oracle(&p, &case.q, &k, &v, &case.chosen));
                prop_assert_eq!(with.slice(own), without.slice(own));
            }
        }
    }

    /// Each group of query heads reads its own key head and its own blocks: alone it computes the same.
    #[test]
    fn groups_do_not_see_each_other_exactly(case in case()) {
        let p = case.under(&case.contract);
        let (groups, d) = (case.heads.1, p.attention.head_dim);
        let share = case.heads.0 / groups;
        let one = params(&case.contract, (share, 1), d, case.block);
        let together = oracle(&p, &case.q, &case.k, &case.v, &case.chosen);
        for group in 0..groups {
            let of = |x: &Array2<f64>, heads: usize| x.slice(s![.., group * heads * d..(group + 1) * heads * d]).to_owned();
            let chosen = case.chosen.slice(s![group..;groups, ..]).to_owned();
            let alone = oracle(&one, &of(&case.q, share), &of(&case.k, 1), &of(&case.v, 1), &chosen);
            prop_assert_eq!(alone, of(&together, share));
        }
    }

    #[test]
    fn the_order_of_blocks_does_not_matter_exactly(case in case()) {
        let mut back = case.chosen.clone();
        back.invert_axis(Axis(1));
        let p = case.under(&case.contract);
        prop_assert_eq!(
            oracle(&p, &case.q, &case.k, &case.v, &back),
            oracle(&p, &case.q, &case.k, &case.v, &case.chosen)
        );
    }

    /// One query at a time is all at once.
    #[test]
    fn decode_is_prefill_exactly(case in case()) {
        // What is left of eight keys, which torch does not take together, are others in a longer sequence.
        let mut p = case.under(&case.contract);
        p.attention.exponential = case.ideal().attention.exponential;
        let whole = oracle(&p, &case.q, &case.k, &case.v, &case.chosen);
        let groups = case.heads.1;
        for i in 0..case.q.nrows() {
            let of = |x: &Array2<f64>| x.slice(s![..=case.position(i), ..]).to_owned();
            let (q, chosen) = (case.q.slice(s![i..=i, ..]), case.chosen.slice(s![i * groups..(i + 1) * groups, ..]));
            let step = oracle(&p, &q.to_owned(), &of(&case.k), &of(&case.v), &chosen.to_owned());
            prop_assert_eq!(step.row(0), whole.row(i));
        }
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, want) = (case.under(&case.contract), case.want());
        let [q, k, v] = [case.noise.on(&case.q, 0), case.noise.on(&case.k, 1), case.noise.on(&case.v, 2)];
        let bound = p.bound(&q.tracked, &k.tracked, &v.tracked, case.chosen.view(), &want);
        let got = block_sparse_attention(&p, q.f32().view(), k.f32().view(), v.f32().view(), case.chosen.view());
        within(&got.expect("good").mapv(f64::from), &want, &bound)?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, want) = (case.under(&case.contract), case.want());
        let [q, k, v] = [case.noise.on(&case.q, 0), case.noise.on(&case.k, 1), case.noise.on(&case.v, 2)];
        let bound = p.bound(&q.tracked, &k.tracked, &v.tracked, case.chosen.view(), &want);
        let got = block_sparse_attention(&p, q.f32().view(), k.f32().view(), v.f32().view(), case.chosen.view());
        likely(&got.expect("good").mapv(f64::from), &want, &bound)?;
    }

    /// A port's slips have bounds of their own.
    #[test]
    fn a_device_that_slips_stays_within_the_bounds(
        case in case(),
        own in prop::sample::select(vec![MsaOwn::Once, MsaOwn::Twice]),
        layout in prop::sample::select(vec![MsaLayout::TokenMajor, MsaLayout::HeadMajor, MsaLayout::Transposed]),
    ) {
        use block_sparse_attention::probabilities;
        let slip = |p: BlockSparseAttention| BlockSparseAttention { own, layout, ..p };
        let (p, ideal, chosen) = (slip(case.under(&case.contract)), slip(case.ideal()), case.chosen.view());
        let [q, k, v] = [case.noise.on(&case.q, 0), case.noise.on(&case.k, 1), case.noise.on(&case.v, 2)];
        let want = oracle(&ideal, &case.q, &case.k, &case.v, &case.chosen);
        let bound = p.bound(&q.tracked, &k.tracked, &v.tracked, chosen, &want);
        let got = block_sparse_attention(&p, q.f32().view(), k.f32().view(), v.f32().view(), chosen);
        within(&got.expect("good").mapv(f64::from), &want, &bound)?;
        let want = probabilities(&ideal, case.q.view(), case.k.view(), chosen).expect("good");
        let got = probabilities(&p, q.f32().view(), k.f32().view(), chosen).expect("good");
        within(&got.mapv(f64::from), &want, &p.bound_probabilities(&q.tracked, &k.tracked, chosen, &want))?;
    }

    /// A query's bound is attention's over the keys that it reads, and the depth is one more.
    #[test]
    fn the_bound_is_that_of_attention(case in case()) {
        let p = case.under(&case.contract);
        let [q, k, v] = [case.noise.on(&case.q, 0), case.noise.on(&case.k, 1), case.noise.on(&case.v, 2)].map(|x| x.tracked);
        let all = case.all();
        let want = oracle(&case.ideal(), &case.q, &case.k, &case.v, &all);
        let bound = p.bound(&q, &k, &v, all.view(), &want);
        let dense = p.attention.bound(&q, &k, &v, &want);
        prop_assert_eq!(bound.carried, dense.carried);
        // Of the last query; earlier ones are judged by the largest number of keys of their tile.
        let last = want.nrows() - 1;
        for (own, dense) in bound.certain.row(last).iter().zip(dense.certain.row(last)) {
            prop_assert!((own - dense).abs() <= 1e-6 * dense || own == dense);
        }
    }
}

/// Two blocks of one key: the weight of each is e^score; what is not chosen, or comes later, has none.
#[test]
fn by_hand() {
    let p = params(&RoundingContract::IDEAL, (1, 1), 1, 1);
    let (k, v) = (array![[0.0], [2.0], [3.0_f64.ln()]], array![[4.0], [100.0], [8.0]]);
    let q = array![[1.0]];
    let of = |chosen: Array2<Option<usize>>| oracle(&p, &q, &k, &v, &chosen)[[0, 0]];
    assert!((of(array![[Some(2), Some(0), None]]) - 7.0).abs() < 1e-14);
    assert_eq!(of(array![[Some(0), None, None]]), 4.0);
    assert_eq!(of(array![[Some(1)]]), 100.0);
}

/// Slips: the own block's later keys; every block; another group's blocks; nothing to see.
#[test]
fn slips() {
    let p = params(&RoundingContract::IDEAL, (1, 1), 1, 2);
    let (k, v) = (Array2::zeros((4, 1)), array![[1.0], [3.0], [5.0], [9.0]]);
    let q = Array2::zeros((4, 1));
    let own = array![[Some(0)], [Some(0)], [Some(1)], [Some(1)]];
    assert_eq!(oracle(&p, &q, &k, &v, &own), array![[1.0], [2.0], [5.0], [7.0]]);
    let leaking = BlockSparseAttention { mask: MsaMask::Block, ..p };
    assert_eq!(oracle(&leaking, &q, &k, &v, &own), array![[2.0], [2.0], [7.0], [7.0]]);
    let losing = BlockSparseAttention { attention: Attention { lost: Some([1, 3]), ..p.attention }, ..p };
    assert_eq!(oracle(&losing, &q, &k, &v, &own), array![[1.0], [1.0], [4.5], [9.0]]);
    let full = BlockSparseAttention { mask: MsaMask::All, ..p };
    assert_eq!(oracle(&full, &q, &k, &v, &own), array![[1.0], [2.0], [3.0], [4.5]]);
    let strict = BlockSparseAttention { attention: Attention { causal: Causal::Strict, ..p.attention }, ..p };
    assert_eq!(oracle(&strict, &q, &k, &v, &own), array![[4.5], [1.0], [4.5], [5.0]]);
    // Four heads in two groups: head 1 reads key head 0 in any case, and tiled the blocks of group 1.
    let p = params(&RoundingContract::IDEAL, (4, 2), 1, 1);
    let (q, k) = (Array2::zeros((1, 4)), Array2::zeros((2, 2)));
    let v = array![[1.0, 10.0], [2.0, 20.0]];
    let chosen = array![[Some(0)], [Some(1)]];
    assert_eq!(oracle(&p, &q, &k, &v, &chosen), array![[1.0, 1.0, 20.0, 20.0]]);
    let tiled = BlockSparseAttention { group: KeyHead::Tiled, ..p };
    assert_eq!(oracle(&tiled, &q, &k, &v, &chosen), array![[1.0, 2.0, 10.0, 20.0]]);
}

/// Of the keys 1, 3, 5, 9 in blocks of two, the last two count double; rows of three tokens and two groups change places, and
/// a token that is left with what comes later weighs all alike.
#[test]
fn slips_of_kernels_that_read_blocks() {
    let p = params(&RoundingContract::IDEAL, (1, 1), 1, 2);
    let (q, k, v) = (Array2::zeros((1, 1)), Array2::zeros((4, 1)), array![[1.0], [3.0], [5.0], [9.0]]);
    let twice = BlockSparseAttention { own: MsaOwn::Twice, ..p };
    let of = |chosen| oracle(&twice, &q, &k, &v, &chosen)[[0, 0]];
    // One key late, block 0 has the first three, and the token sees itself.
    let late = BlockSparseAttention { shift: Some(1), ..p };
    assert_eq!(oracle(&late, &q, &k, &v, &array![[Some(0)]]), array![[4.5]]);
    assert!((of(array![[Some(1), Some(0)]]) - 32.0 / 6.0).abs() < 1e-14);
    assert_eq!(of(array![[Some(0), None]]), 2.0);
    let shown = block_sparse_attention::probabilities(&twice, q.view(), k.view(), array![[Some(0), Some(1)]].view());
    let (sixth, third) = (1.0 / 6.0, 1.0 / 3.0);
    assert_eq!(shown, Ok(array![[sixth, sixth, third, third]]));

    let p = params(&RoundingContract::IDEAL, (2, 2), 1, 1);
    let (q, k) = (Array2::zeros((3, 2)), Array2::zeros((3, 2)));
    let v = array![[1.0, 10.0], [2.0, 20.0], [6.0, 60.0]];
    let chosen = array![[Some(0)], [Some(0)], [Some(0)], [Some(1)], [Some(2)], [Some(2)]];
    let read = |layout| oracle(&BlockSparseAttention { layout, ..p }, &q, &k, &v, &chosen);
    assert_eq!(read(MsaLayout::TokenMajor), array![[1.0, 10.0], [1.0, 20.0], [6.0, 60.0]]);
    assert_eq!(read(MsaLayout::HeadMajor), array![[1.0, 30.0], [1.0, 30.0], [1.0, 60.0]]);
    assert_eq!(read(MsaLayout::Transposed), array![[1.0, 10.0], [3.0, 10.0], [2.0, 60.0]]);
}

/// Two keys of two blocks with opposite values, and scores of 8.2035 and 8.5502 that both of R1's roundings move apart, to
/// 8.25 and 8.5; a third block in between.
#[test]
fn the_bound_is_reached() {
    let (q, k) = (array![[4.125, 4.718_75]], array![[2.8125, 0.0], [7.0, 7.0], [0.0, 2.5625]]);
    let v = array![[1.0, 1.0], [50.0, 50.0], [-1.0, -1.0]];
    let chosen = array![[Some(2), Some(0)]];
    let of = |contract| oracle(&params(contract, (1, 1), 2, 1), &q, &k, &v, &chosen);
    let (want, got) = (of(&RoundingContract::IDEAL), of(&RoundingContract::EAGER_BF16));
    let p = params(&RoundingContract::EAGER_BF16, (1, 1), 2, 1);
    let [q, k, v] = [&q, &k, &v].map(|x| Tracked::exact(x.clone()));
    let ratio = reached(&got, &want, &p.bound(&q, &k, &v, chosen.view(), &want));
    assert!((0.5..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn c1_to_c3() {
    let p = params(&RoundingContract::IDEAL, (2, 1), 1, 2);
    let of = |p: &BlockSparseAttention, chosen: Array2<Option<usize>>| {
        let (q, k) = (Array2::<f64>::zeros((1, 2)), Array2::zeros((3, 1)));
        let error = block_sparse_attention(p, q.view(), k.view(), k.view(), chosen.view());
        error.expect_err("against the contract").to_string()
    };
    let rows = array![[Some(0)], [Some(0)]];
    assert_eq!(of(&p, rows), "block_sparse_attention C1: rows of C = 2, expected n·G = 1");
    let expected = "expected one of 2 blocks, once in its row";
    assert_eq!(of(&p, array![[Some(2)]]), format!("block_sparse_attention C2: C[0, 0] = 2, {expected}"));
    let twice = array![[Some(1), None, Some(1)]];
    assert_eq!(of(&p, twice), format!("block_sparse_attention C2: C[0, 2] = 1, {expected}"));
    let none = BlockSparseAttention { block: 0, ..p };
    assert_eq!(of(&none, array![[Some(0)]]), "block_sparse_attention C3: b = 0, expected at least 1");
}
