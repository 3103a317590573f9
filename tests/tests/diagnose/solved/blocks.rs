//! Blocks of keys that tokens do not see although they were chosen.

use fixtures::golden::Golden;
use ndarray::{Array1, Array2, s};
use reference::models::decoder::Decoder;
use reference::site::NONE;
use reference::{LayerSite, RoundingContract, Site};

use super::{Shown, Subject, has};

/// A layer whose tokens attend to chosen blocks.
const LAYER: usize = 2;

/// In f32, with the blocks that are chosen.
const M3: Subject = Subject { case: "m3-gqa4-f32", contract: RoundingContract::EAGER_F32, shows: &[LayerSite::Blocks] };

/// What is said where `sees` says of a token, the places of its blocks in its choice, and a block whether it sees that.
fn said(sees: impl Fn(usize, &[usize], usize) -> bool) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let config = model.config();
        let index = config.index.expect("M3 has one");
        let [q, k, v] = [LayerSite::QRope, LayerSite::KRope, LayerSite::VProj].map(|site| shown.of(LAYER, site));
        let chosen = &shown.chosen[&Site::Layer(LAYER, LayerSite::Blocks)];
        let (heads, groups, d, n) =
            (config.num_attention_heads, config.num_key_value_heads, config.head_dim, q.nrows());
        let mut o = Array2::zeros(q.dim());
        for (head, token) in (0..heads).flat_map(|head| (0..n).map(move |token| (head, token))) {
            let (own, group) = (head * d..(head + 1) * d, head * groups / heads);
            let columns = group * d..(group + 1) * d;
            let row = chosen.row(group % index.choices * n + token);
            let blocks: Vec<usize> = row.iter().copied().filter(|block| *block != NONE).collect();
            let weight = |j: usize| {
                let product = q.slice(s![token, own.clone()]).dot(&k.slice(s![j, columns.clone()]));
                let is_seen = j <= token && sees(token, &blocks, j / index.blocks.size);
                if is_seen { (product / (d as f32).sqrt()).exp() } else { 0.0 }
            };
            let weights: Array1<f32> = (0..n).map(weight).collect();
            let mean = weights.dot(&v.slice(s![.., columns.clone()])) / weights.sum();
            o.slice_mut(s![token, own]).assign(&mean);
        }
        o
    };
    M3.said(&[(Site::Layer(LAYER, LayerSite::Context), &port)])
}

#[test]
fn the_second_choice_is_not_seen() {
    let said = said(|_, blocks, block| blocks.iter().position(|own| *own == block).is_some_and(|place| place != 1));
    has(&said, "attention does not see the choice 2 of its blocks, which was chosen: ");
}

#[test]
fn the_first_block_is_seen_by_all() {
    let said = said(|_, blocks, block| block == 0 || blocks.contains(&block));
    has(&said, "attention sees block 0, which was not chosen: ");
}

/// A kernel scores blocks for the first query of each of its tiles alone.
#[test]
fn tiles_of_tokens_share_a_choice() {
    const TILE: usize = 4;
    let tokens = Golden::embedded().case(M3.case).expect("it is built in").tokens.len();
    let shared = |chosen: &Array2<usize>| {
        let row = |row: usize| row / tokens * tokens + row % tokens / TILE * TILE;
        Array2::from_shape_fn(chosen.dim(), |(of, slot)| chosen[[row(of), slot]])
    };
    let said = M3.said_of_choice(Site::Layer(LAYER, LayerSite::Blocks), &shared);
    has(&said, "each token has the choice of the first of its tile of 4: ");
}

/// What would be chosen where block 1 is never, but as a token's own.
#[test]
fn a_block_that_is_never_chosen() {
    let case = Golden::embedded().case(M3.case).expect("it is built in");
    let tokens = case.tokens.len();
    let size = case.checkpoint().expect("it is whole").config().index.expect("M3 has one").blocks.size;
    let barred = |chosen: &Array2<usize>| {
        let mut without = chosen.clone();
        for (row, mut own) in without.rows_mut().into_iter().enumerate() {
            let block = row % tokens / size;
            // The next best is a block that was not chosen.
            let next = (0..=block).find(|other| *other != 1 && !chosen.row(row).iter().any(|own| own == other));
            own.iter_mut().filter(|own| **own == 1 && block != 1).for_each(|own| *own = next.unwrap_or(NONE));
        }
        without
    };
    let said = M3.said_of_choice(Site::Layer(LAYER, LayerSite::Blocks), &barred);
    has(
        &said,
        "block 1 is never chosen, but as a token's own, whatever the score: missing where it is among the best: ",
    );
}

#[test]
fn an_index_head_chooses_a_block_less() {
    let case = Golden::embedded().case(M3.case).expect("it is built in");
    let index = case.checkpoint().expect("it is whole").config().index.expect("it has a branch");
    let (tokens, right) = (case.tokens.len(), index.blocks.top_k);
    let fewer =
        |chosen: &Array2<usize>| {
            let most = chosen.ncols() - 1;
            Array2::from_shape_fn(chosen.dim(), |(row, slot)| {
                if row / tokens == 1 && slot == most { NONE } else { chosen[[row, slot]] }
            })
        };
    let said = M3.said_of_choice(Site::Layer(LAYER, LayerSite::Blocks), &fewer);
    has(&said, &format!("of index head 1 no more than {} blocks are chosen, where {right} are right", right - 1));
}
