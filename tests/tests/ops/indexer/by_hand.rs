//! Choices of which every score can be seen: one channel, so that a score is a product.

use super::*;

const NONE: Option<usize> = None;

fn some(blocks: &[usize]) -> Vec<Option<usize>> {
    blocks.iter().map(|&block| Some(block)).collect()
}

/// The last query's choice, of q = 1 and these keys.
fn last(p: &Indexer, keys: &[f64]) -> Vec<Option<usize>> {
    let k = Array2::from_shape_fn((keys.len(), 1), |(j, _)| keys[j]);
    indexer(p, array![[1.0]].view(), k.view()).expect("good").row(0).to_vec()
}

/// Blocks of two: maxima 5, 9, 7, 1, and the own one.
const KEYS: [f64; 9] = [5.0, -3.0, 2.0, 9.0, 7.0, 7.0, 1.0, 0.0, -50.0];

#[test]
fn the_best_blocks_and_the_own_one() {
    let p = params(Blocks { size: 2, top_k: 3, local: 1, init: 0 });
    assert_eq!(last(&p, &KEYS), some(&[4, 1, 2]));
    let two = Indexer { blocks: Blocks { local: 2, ..p.blocks }, ..p };
    assert_eq!(last(&two, &KEYS), some(&[3, 4, 1])); // both are ∞: the lowest first
    assert_eq!(last(&Indexer { local: MsaLocal::None, ..p }, &KEYS), some(&[1, 2, 0]));
    assert_eq!(last(&Indexer { local: MsaLocal::FirstBlock, ..p }, &KEYS), some(&[0, 1, 2]));
    let init = Indexer { blocks: Blocks { init: 1, ..p.blocks }, ..p };
    assert_eq!(last(&init, &KEYS), some(&[0, 4, 1])); // D23
}

/// Of nine keys the last block has one, of eight two.
#[test]
fn a_port_may_leave_out_a_block_that_is_not_full() {
    let p = Indexer { pad: MsaPad::Dropped, ..params(Blocks { size: 2, top_k: 3, local: 1, init: 0 }) };
    assert_eq!(last(&p, &KEYS), some(&[1, 2, 0]));
    assert_eq!(last(&p, &KEYS[..8]), some(&[3, 1, 2]));
}

/// Keys one late: maxima 2, 9, 7, 0, and none for the last block; one early: 5, 2, 9, 7, 0.
#[test]
fn a_port_may_take_blocks_of_other_keys() {
    let p = params(Blocks { size: 2, top_k: 2, local: 0, init: 0 });
    let keys = [5.0, -3.0, 2.0, 9.0, 8.0, 7.0, 1.0, 0.0, -50.0];
    assert_eq!(last(&Indexer { shift: 1, ..p }, &keys), some(&[1, 2]));
    assert_eq!(last(&Indexer { shift: -1, ..p }, &keys), some(&[2, 3]));
    let k = Array2::from_shape_fn((9, 1), |(j, _)| keys[j]);
    let late = block_max(&Indexer { shift: 1, ..p }, array![[1.0]].view(), k.view()).expect("good");
    assert_eq!(late, array![[2.0, 9.0, 7.0, 0.0, f64::NEG_INFINITY]]);
}

/// The last of eight keys ends its block: the next is the last that there is, or the fifth of nine keys.
#[test]
fn a_port_may_force_the_next_block() {
    let p = Indexer { local: MsaLocal::NextBlock, ..params(Blocks { size: 2, top_k: 1, local: 1, init: 0 }) };
    assert_eq!(last(&p, &KEYS[..8]), some(&[3]));
    let k = Array2::from_shape_fn((9, 1), |(j, _)| KEYS[j]);
    let chosen = indexer(&p, Array2::ones((2, 1)).view(), k.view()).expect("good");
    assert_eq!(chosen, array![[Some(4)], [Some(4)]]);
}

/// Of nine keys the last two are a call, of which both tokens are in its first block of two.
#[test]
fn a_port_may_force_the_block_of_the_place_in_a_call() {
    let p = Indexer { local: MsaLocal::CallBlock, ..params(Blocks { size: 2, top_k: 1, local: 1, init: 0 }) };
    let k = Array2::from_shape_fn((9, 1), |(j, _)| KEYS[j]);
    let chosen = indexer(&p, Array2::ones((2, 1)).view(), k.view()).expect("good");
    assert_eq!(chosen, array![[Some(0)], [Some(0)]]);
}

/// Of nine keys the last two are a call, whose tokens see one key and two.
#[test]
fn a_port_may_count_positions_from_its_call() {
    let p = Indexer { call: RopeCall::Restarted, ..params(Blocks { size: 1, top_k: 3, local: 0, init: 0 }) };
    let k = Array2::from_shape_fn((9, 1), |(j, _)| KEYS[j]);
    let chosen = indexer(&p, Array2::ones((2, 1)).view(), k.view()).expect("good");
    let seen = |row: usize| chosen.row(row).iter().flatten().count();
    assert_eq!([seen(0), seen(1)], [1, 2]);
}

/// Two heads, whose blocks of one key have the scores 3, 2, 0 and −4, 2, 0.
#[test]
fn a_port_may_take_other_heads_scores() {
    let none = MsaLocal::None;
    let of = |of| {
        let blocks = Blocks { size: 1, top_k: 1, local: 0, init: 0 };
        let p = Indexer { heads: 2, groups: 2, head_dim: 2, of, local: none, ..params(blocks) };
        let (q, k) = (array![[1.0, 0.0, 0.0, 1.0]], array![[3.0, -4.0], [2.0, 2.0], [0.0, 0.0]]);
        indexer(&p, q.view(), k.view()).expect("good").column(0).to_vec()
    };
    assert_eq!(of(IndexHeads::Own), some(&[0, 1]));
    assert_eq!(of(IndexHeads::Next), some(&[1, 0]));
    assert_eq!(of(IndexHeads::Reversed), some(&[1, 0]));
    assert_eq!(of(IndexHeads::Sum), some(&[1, 1]));
    assert_eq!(of(IndexHeads::Mean), some(&[1, 1]));
    assert_eq!(of(IndexHeads::Max), some(&[0, 0]));
}

/// Two heads and blocks of two keys, of scores 3, 0 and 2, 2 of the first, and 0, 3 and 7, −7 of the second. The largest of the sums, 3,
/// 3 and 9, −5, are 3 and 9; the sums of the largest 6 and 9.
#[test]
fn a_port_may_choose_once_for_all_heads() {
    let p = params(Blocks { size: 2, top_k: 1, local: 0, init: 0 });
    let p = Indexer { heads: 2, groups: 2, head_dim: 2, local: MsaLocal::None, ..p };
    let (q, k) = (array![[1.0, 0.0, 0.0, 1.0]], array![[3.0, 0.0], [0.0, 3.0], [2.0, 7.0], [2.0, -7.0]]);
    let maxima = |of| block_max(&Indexer { of, ..p }, q.view(), k.view()).expect("good");
    assert_eq!(maxima(IndexHeads::Own), array![[3.0, 2.0], [3.0, 7.0]]);
    assert_eq!(maxima(IndexHeads::First), array![[3.0, 2.0], [3.0, 2.0]]);
    assert_eq!(maxima(IndexHeads::Max), array![[3.0, 7.0], [3.0, 7.0]]);
    assert_eq!(maxima(IndexHeads::Sum), array![[6.0, 9.0], [6.0, 9.0]]);
    assert_eq!(maxima(IndexHeads::TokenSum), array![[3.0, 9.0], [3.0, 9.0]]);
}

/// Without the largest, the mean of the first is 1, of the second 5.5, of the third 7, of the fourth 0.5.
#[test]
fn pools() {
    let p = Indexer { local: MsaLocal::None, ..params(Blocks { size: 2, top_k: 4, local: 1, init: 0 }) };
    assert_eq!(last(&Indexer { pool: MsaPool::Mean, ..p }, &KEYS), some(&[2, 1, 0, 3]));
    let absolute = Indexer { pool: MsaPool::Absolute, ..p };
    let maxima = block_max(&absolute, array![[1.0]].view(), array![[-7.0], [3.0]].view()).expect("good");
    assert_eq!(maxima[[0, 0]], 7.0);
    // The smallest: −3, 2, 7, 0, and −50 of the last, which is half a block.
    let smallest = Indexer { pool: MsaPool::Min, ..p };
    assert_eq!(last(&smallest, &KEYS), some(&[2, 1, 3, 0]));
    // ln(e² + e⁹) = 9.0009, ln 2 + 7 = 7.69.
    let p = Indexer { pool: MsaPool::Lse, ..p };
    assert_eq!(last(&p, &KEYS), some(&[1, 2, 0, 3]));
    let maxima = block_max(&p, array![[1.0]].view(), array![[7.0], [7.0]].view()).expect("good");
    assert!((maxima[[0, 0]] - 7.0 - 2.0_f64.ln()).abs() < 1e-15);
}

/// One key of 3 is the largest; two of 2.9 have a larger sum of exponentials, 2·e^2.9 = 36.3 against e³ + 1 = 21.1.
#[test]
fn another_pool_chooses_another_block() {
    let p = Indexer { local: MsaLocal::None, ..params(Blocks { size: 2, top_k: 1, local: 1, init: 0 }) };
    let keys = [3.0, 0.0, 2.9, 2.9];
    assert_eq!(last(&p, &keys), some(&[0]));
    assert_eq!(last(&Indexer { pool: MsaPool::Lse, ..p }, &keys), some(&[1]));
}

/// Token 0 sees one block, token 2 two of which the second is half its own.
#[test]
fn blocks_that_are_not_visible_are_none() {
    let p = params(Blocks { size: 2, top_k: 3, local: 1, init: 0 });
    let k = array![[1.0], [8.0], [3.0], [9.0], [0.0]];
    let chosen = indexer(&p, Array2::ones((5, 1)).view(), k.view()).expect("good");
    let rows: Vec<Vec<Option<usize>>> = chosen.rows().into_iter().map(|row| row.to_vec()).collect();
    assert_eq!(rows[0], [Some(0), NONE, NONE]);
    assert_eq!(rows[1], [Some(0), NONE, NONE]);
    assert_eq!(rows[2], [Some(1), Some(0), NONE]);
    assert_eq!(rows[4], [Some(2), Some(1), Some(0)]);
    let maxima = block_max(&p, Array2::ones((5, 1)).view(), k.view()).expect("good");
    // The second token of a block does not count for the first one.
    assert_eq!(maxima.row(0).to_vec(), [1.0, f64::NEG_INFINITY, f64::NEG_INFINITY]);
    assert_eq!(maxima.row(2).to_vec(), [8.0, 3.0, f64::NEG_INFINITY]);
}

#[test]
fn equal_blocks_go_to_the_lowest() {
    let p = Indexer { local: MsaLocal::None, ..params(Blocks { size: 1, top_k: 2, local: 0, init: 0 }) };
    assert_eq!(last(&p, &[3.0, 5.0, 3.0, 5.0, 5.0]), some(&[1, 3]));
    assert_eq!(last(&p, &[0.0; 5]), some(&[0, 1]));
}

/// A NaN is not lost: its block counts as the largest, as torch has it.
#[test]
fn nan_stays_visible() {
    let p = Indexer { local: MsaLocal::None, ..params(Blocks { size: 2, top_k: 2, local: 0, init: 0 }) };
    assert_eq!(last(&p, &[3.0, 5.0, f64::NAN, 1.0, 9.0]), some(&[1, 2]));
    let maxima =
        block_max(&p, array![[1.0]].view(), array![[f64::NAN], [5.0], [1.0], [f64::NAN]].view()).expect("good");
    assert!(maxima.iter().all(|m| m.is_nan()));
}

/// Filled up with zeros, a last block of one negative key beats others, and is chosen before it is there.
#[test]
fn slip_of_a_last_block_filled_up_with_zeros() {
    let p = Indexer { local: MsaLocal::None, ..params(Blocks { size: 2, top_k: 1, local: 0, init: 0 }) };
    let zeros = Indexer { pad: MsaPad::Zero, ..p };
    assert_eq!(last(&p, &[-3.0, -1.0, -5.0]), some(&[0]));
    assert_eq!(last(&zeros, &[-3.0, -1.0, -5.0]), some(&[1]));
    assert_eq!(last(&zeros, &[-3.0, -1.0, -5.0, -4.0]), some(&[0]));
}

/// Token 0 of a block of two sees the second; token 4 has nothing to see.
#[test]
fn slip_of_later_tokens_of_the_own_block() {
    let p = params(Blocks { size: 2, top_k: 3, local: 1, init: 0 });
    let leaking = Indexer { mask: IndexMask::Block, ..p };
    let (q, k) = (Array2::ones((5, 1)), array![[1.0], [8.0], [3.0], [9.0], [0.0]]);
    let maxima = block_max(&leaking, q.view(), k.view()).expect("good");
    assert_eq!(maxima.row(0).to_vec(), [8.0, f64::NEG_INFINITY, f64::NEG_INFINITY]);
    assert_eq!(maxima.row(2).to_vec(), [8.0, 9.0, f64::NEG_INFINITY]);
    assert_eq!(maxima.row(4), block_max(&p, q.view(), k.view()).expect("good").row(4));
    let scores = token_scores(&leaking, q.view(), k.view()).expect("good");
    assert_eq!(scores.row(0).to_vec()[..3], [1.0, 8.0, f64::NEG_INFINITY]);
}

/// 1 + 2⁻⁹ is 1 in bf16: the first of equals is chosen.
#[test]
fn slip_of_scores_in_bf16() {
    let p = Indexer { local: MsaLocal::None, ..params(Blocks { size: 1, top_k: 1, local: 0, init: 0 }) };
    let bf16 = Indexer { kept: Storage::Bf16, ..p };
    let keys = [1.0, 1.0 + 2.0_f64.powi(-9), -5.0];
    assert_eq!((last(&p, &keys), last(&bf16, &keys)), (some(&[1]), some(&[0])));
}

/// D21: head 0 prefers block 0, head 1 block 2 by a larger score.
#[test]
fn d21_the_largest_of_all_heads() {
    let blocks = Blocks { size: 1, top_k: 1, local: 0, init: 0 };
    let of = |select| {
        let p = Indexer { heads: 2, groups: 2, head_dim: 2, select, ..params(blocks) };
        let (q, k) = (array![[1.0, 0.0, 0.0, 2.0]], array![[3.0, 0.0], [1.0, 1.0], [0.0, 4.0]]);
        indexer(&p, q.view(), k.view()).expect("good")
    };
    assert_eq!(of(MsaSelect::PerGroup), array![[Some(0)], [Some(2)]]);
    assert_eq!(of(MsaSelect::HeadMax), array![[Some(2)], [Some(2)]]);
}

/// D24: 1/√d of a dot product of four ones.
#[test]
fn d24_scales() {
    let of = |msa_score_scale| {
        let semantics = Semantics { msa_score_scale, ..Semantics::RELEASED };
        let blocks = Blocks { size: 1, top_k: 1, local: 0, init: 0 };
        let p = Indexer::under(&RoundingContract::IDEAL, &semantics, (1, 1), 4, blocks);
        let ones = Array2::<f64>::ones((1, 4));
        token_scores(&p, ones.view(), ones.view()).expect("good")
    };
    assert_eq!(of(MsaScoreScale::One), array![[4.0]]);
    assert_eq!(of(MsaScoreScale::HeadDim), array![[2.0]]);
}
