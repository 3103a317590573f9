//! `reference/src/ops/indexer.rs`.

use ndarray::{Array2, array, s};
use proptest::prelude::*;
use reference::config::Blocks;
use reference::ops::indexer::{Indexer, block_max, boosted, choose, indexer, token_scores};
use reference::semantics::{
    IndexHeads, IndexMask, MsaLocal, MsaPad, MsaPool, MsaScoreScale, MsaSelect, RopeCall, Semantics,
};
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

mod bounds;
mod by_hand;

/// q \[n, G·d\] and k \[s, d\], under a contract, with errors of both.
#[derive(Debug, Clone)]
pub(super) struct Case {
    contract: Contract,
    semantics: Semantics,
    groups: usize,
    blocks: Blocks,
    q: Matrix,
    k: Matrix,
    noise: Noise,
}

impl Case {
    fn under(&self, contract: &RoundingContract) -> Indexer {
        let d = self.k.ncols();
        Indexer::under(contract, &self.semantics, (self.groups, self.groups), d, self.blocks)
    }

    fn ideal(&self) -> Indexer {
        self.under(&RoundingContract::IDEAL)
    }

    /// The position of the token of a row.
    fn position(&self, row: usize) -> usize {
        self.k.nrows() - self.q.nrows() + row / self.groups
    }
}

fn semantics() -> impl Strategy<Value = Semantics> {
    use prop::sample::select;
    let select_for = select(vec![MsaSelect::PerGroup, MsaSelect::HeadMax]);
    let local = select(vec![MsaLocal::OwnBlock, MsaLocal::FirstBlock, MsaLocal::None]);
    let pool = select(vec![MsaPool::Max, MsaPool::Max, MsaPool::Mean, MsaPool::Lse, MsaPool::Absolute, MsaPool::Min]);
    let scale = select(vec![MsaScoreScale::One, MsaScoreScale::HeadDim]);
    (select_for, local, pool, scale).prop_map(|(msa_select, msa_local, msa_pool, msa_score_scale)| Semantics {
        msa_select,
        msa_local,
        msa_pool,
        msa_score_scale,
        ..Semantics::RELEASED
    })
}

fn case_of(
    fill: impl Strategy<Value = Fill> + Clone,
    semantics: impl Strategy<Value = Semantics>,
) -> impl Strategy<Value = Case> {
    let n = prop_oneof![9 => 1..6_usize, 1 => 60..70_usize];
    let blocks = (1..6_usize, 1..6_usize, 0..3_usize, 0..2_usize);
    let blocks = blocks.prop_map(|(size, top_k, local, init)| Blocks { size, top_k, local, init });
    let sizes = (n, 0..30_usize, 1..4_usize, 1..10_usize, blocks);
    (contract(), semantics, noise(), sizes).prop_flat_map(move |(contract, semantics, noise, sizes)| {
        let (n, before, groups, d, blocks) = sizes;
        let storage = contract.activations;
        (filled((n, groups * d), fill.clone(), storage), filled((n + before, d), fill.clone(), storage))
            .prop_map(move |(q, k)| Case { contract, semantics, groups, blocks, q, k, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite(), semantics())
}

fn chosen(p: &Indexer, q: &Array2<f64>, k: &Array2<f64>) -> Array2<Option<usize>> {
    indexer(p, q.view(), k.view()).expect("the case keeps the contract")
}

proptest! {
    /// The definition, token by token.
    #[test]
    fn a_token_score_is_a_dot_product_of_what_was_seen(case in case()) {
        let p = Indexer { scale: 1.0, ..case.ideal() };
        let scores = token_scores(&p, case.q.view(), case.k.view()).expect("good");
        let bound = p.bound_scores(&case.q.exact(), &case.k.exact());
        let d = case.k.ncols();
        for ((row, j), &score) in scores.indexed_iter() {
            let (i, head) = (row / case.groups, row % case.groups);
            if j > case.position(row) {
                prop_assert_eq!(score, f64::NEG_INFINITY);
                continue;
            }
            let want: f64 = (0..d).map(|c| case.q[[i, head * d + c]] * case.k[[j, c]]).sum();
            prop_assert!((score - want).abs() <= 2.0 * bound.certain[[row, j]]);
        }
    }

    /// Each maximum is one of its block's scores, and no score is larger.
    #[test]
    fn a_block_has_the_largest_score_of_its_tokens_exactly(case in case()) {
        let p = Indexer { pool: MsaPool::Max, select: MsaSelect::PerGroup, ..case.ideal() };
        let scores = token_scores(&p, case.q.view(), case.k.view()).expect("good");
        let maxima = block_max(&p, case.q.view(), case.k.view()).expect("good");
        prop_assert_eq!(maxima.ncols(), case.k.nrows().div_ceil(case.blocks.size));
        for ((row, block), m) in maxima.indexed_iter() {
            let size = case.blocks.size;
            let own = scores.slice(s![row, block * size..((block + 1) * size).min(scores.ncols())]);
            prop_assert!(own.iter().any(|s| s == m) && own.iter().all(|s| s <= m));
        }
    }

    /// As many visible blocks as there are and may be chosen, each once, best first, and none after the last.
    #[test]
    fn the_choice_is_of_the_best_visible_blocks(case in case()) {
        let p = case.ideal();
        let maxima = block_max(&p, case.q.view(), case.k.view()).expect("good");
        let scores = boosted(&p, maxima.view(), case.k.nrows());
        for (row, blocks) in choose(&p, scores.view()).rows().into_iter().enumerate() {
            let visible = case.position(row) / case.blocks.size + 1;
            let valid: Vec<usize> = blocks.iter().copied().flatten().collect();
            prop_assert_eq!(valid.len(), visible.min(case.blocks.top_k));
            prop_assert!(blocks.iter().skip(valid.len()).all(Option::is_none));
            let order = |a: usize, b: usize| scores[[row, a]] > scores[[row, b]] || scores[[row, a]] == scores[[row, b]] && a < b;
            prop_assert!(valid.windows(2).all(|pair| order(pair[0], pair[1])));
            let last = valid[valid.len() - 1];
            prop_assert!((0..visible).all(|block| valid.contains(&block) || order(last, block)));
        }
    }

    /// D22: a token's own block is always among them, where it is forced and there is room.
    #[test]
    fn d22_the_own_block_is_always_chosen(case in case()) {
        let blocks = Blocks { local: case.blocks.local.max(1), init: 0, ..case.blocks };
        let p = Indexer { local: MsaLocal::OwnBlock, blocks, ..case.ideal() };
        let first = Indexer { local: MsaLocal::FirstBlock, ..p };
        for (p, forced) in [(p, None), (first, Some(0))] {
            for (row, blocks) in chosen(&p, &case.q, &case.k).rows().into_iter().enumerate() {
                let own = case.position(row) / case.blocks.size;
                let room = p.blocks.top_k >= p.blocks.local.min(own + 1);
                prop_assert!(!room || blocks.iter().any(|block| *block == Some(forced.unwrap_or(own))));
            }
        }
    }

    /// What comes later cannot matter: the choice of a longer sequence restricted to a prefix is that of the prefix.
    #[test]
    fn a_prefix_chooses_alike_exactly(case in case(), cut: prop::sample::Index) {
        let p = case.ideal();
        let whole = chosen(&p, &case.q, &case.k);
        let n = case.q.nrows();
        let kept = 1 + cut.index(n);
        let (q, k) = (case.q.slice(s![..kept, ..]), case.k.slice(s![..case.k.nrows() - n + kept, ..]));
        let prefix = indexer(&p, q, k).expect("good");
        for (longer, shorter) in whole.rows().into_iter().zip(prefix.rows()) {
            let shorter: Vec<usize> = shorter.iter().copied().flatten().collect();
            let longer: Vec<usize> = longer.iter().copied().flatten().collect();
            prop_assert_eq!(longer, shorter);
        }
    }

    /// One query at a time, as in a decode, is all at once.
    #[test]
    fn decode_chooses_as_prefill_does_exactly(case in case()) {
        let p = case.ideal();
        let whole = chosen(&p, &case.q, &case.k);
        for i in 0..case.q.nrows() {
            let seen = case.k.nrows() - case.q.nrows() + i + 1;
            let step = indexer(&p, case.q.slice(s![i..=i, ..]), case.k.slice(s![..seen, ..])).expect("good");
            for group in 0..case.groups {
                let valid = |row: ndarray::ArrayView1<'_, Option<usize>>| row.iter().copied().flatten().collect::<Vec<_>>();
                prop_assert_eq!(valid(step.row(group)), valid(whole.row(i * case.groups + group)));
            }
        }
    }

    /// D24: a positive factor changes scores and no choice; a power of two changes them exactly.
    #[test]
    fn d24_a_scale_chooses_alike(case in case()) {
        let p = Indexer { scale: 1.0, pool: MsaPool::Max, ..case.ideal() };
        let quarter = Indexer { scale: 0.25, ..p };
        prop_assert_eq!(chosen(&quarter, &case.q, &case.k), chosen(&p, &case.q, &case.k));
    }

    /// D21: with one head there is no difference; with more, each group's choice is its own, or one for all.
    #[test]
    fn d21_one_choice_for_all_groups(case in case()) {
        let p = Indexer { select: MsaSelect::HeadMax, ..case.ideal() };
        let blocks = chosen(&p, &case.q, &case.k);
        for rows in blocks.axis_chunks_iter(ndarray::Axis(0), case.groups) {
            prop_assert!(rows.rows().into_iter().all(|row| row == rows.row(0)));
        }
        let d = case.k.ncols();
        let per_group = Indexer { select: MsaSelect::PerGroup, ..case.ideal() };
        let one = Indexer { heads: 1, groups: 1, ..per_group };
        for group in 0..case.groups {
            let alone = indexer(&one, case.q.slice(s![.., group * d..(group + 1) * d]), case.k.view()).expect("good");
            let together = chosen(&per_group, &case.q, &case.k);
            prop_assert_eq!(alone, together.slice(s![group..;case.groups, ..]));
        }
    }
}

fn params(blocks: Blocks) -> Indexer {
    Indexer::under(&RoundingContract::IDEAL, &Semantics::RELEASED, (1, 1), 1, blocks)
}

/// Tokens 0 to 5 in blocks of two, in tiles of four: the local block of a tile's first or last token is forced.
#[test]
fn a_tile_may_share_its_local_block() {
    let blocks = Blocks { size: 2, top_k: 1, local: 1, init: 0 };
    let of = |tile: &str| -> Vec<Option<usize>> {
        let tile = Some(tile.parse().expect("a tile"));
        let p = Indexer { tile, ..params(blocks) };
        let (q, k) = (Array2::ones((6, 1)), Array2::<f64>::zeros((6, 1)));
        indexer(&p, q.view(), k.view()).expect("good").column(0).to_vec()
    };
    assert_eq!(of("local/4"), [0, 0, 0, 0, 2, 2].map(Some));
    assert_eq!(of("local_last/4"), [1, 1, 1, 1, 2, 2].map(Some));
    // What is chosen is shared behind the choice.
    assert_eq!(of("choice/4"), [0, 0, 1, 1, 2, 2].map(Some));
}

#[test]
fn c1_to_c5() {
    let p = params(Blocks { size: 2, top_k: 1, local: 1, init: 0 });
    let of = |p: &Indexer, q: (usize, usize), k: (usize, usize)| {
        let error = indexer(p, Array2::<f64>::zeros(q).view(), Array2::zeros(k).view());
        error.expect_err("against the contract").to_string()
    };
    assert_eq!(of(&p, (3, 1), (2, 1)), "indexer C1: rows of q = 3, expected 1 to s = 2");
    assert_eq!(of(&p, (0, 1), (2, 1)), "indexer C1: rows of q = 0, expected 1 to s = 2");
    assert_eq!(of(&p, (1, 2), (2, 1)), "indexer C2: columns of q = 2, expected 1 heads · 1");
    assert_eq!(of(&p, (1, 1), (2, 2)), "indexer C3: columns of k = 2, expected d = 1");
    let none = params(Blocks { size: 0, ..p.blocks });
    assert_eq!(of(&none, (1, 1), (2, 1)), "indexer C4: min(b, K) = 0, expected at least 1");
    let two = Indexer { heads: 2, ..p };
    let error = "indexer C5: H = 2, expected G = 1: each group has its own choice";
    assert_eq!(of(&two, (1, 2), (2, 1)), error);
    let all = Indexer { select: MsaSelect::HeadMax, ..two };
    assert!(indexer(&all, Array2::<f64>::zeros((1, 2)).view(), Array2::zeros((2, 1)).view()).is_ok());
}
