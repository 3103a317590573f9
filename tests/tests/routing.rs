//! `tools/src/lens/routing.rs`: blocks that a candidate chose, by scores of its own queries and keys.

use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::models::decoder::Decoder;
use reference::ops::indexer::{Indexer, indexer};
use reference::{LayerSite, RoundingContract, Semantics, Site};
use tests::memory::{Memory, tiny_m3};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules};
use tools::judge::candidate::Live;
use tools::judge::lens::Lens;
use tools::judge::verdict::{Flip, SiteReport, Verdict};
use tools::judge::verification::Verification;

/// Two tokens in each of six blocks, all of a block with one score; a token's own block is forced.
const SCORES: [f32; 6] = [1.0, 4.0, 3.0, 3.0, 2.0, 0.0];

/// The layer, and the token, for whose second group other blocks are chosen. It would choose 5, 1, and 2 or 3.
const LAYER: usize = 2;
const TOKEN: usize = 11;

/// What is said of a candidate that shows rotated queries and keys that have these scores, and blocks.
fn chosen(blocks: [usize; 3]) -> SiteReport {
    let config = tiny_m3();
    let index = config.index.expect("it has an index branch");
    let n = SCORES.len() * index.blocks.size;
    let first = |column: usize| if column.is_multiple_of(index.head_dim) { 1.0 } else { 0.0 };
    let q = Array2::from_shape_fn((n, index.heads * index.head_dim), |(_, column)| first(column));
    let score = |(row, column): (usize, usize)| SCORES[row / index.blocks.size] * first(column);
    let k = Array2::from_shape_fn((n, index.head_dim), score);
    let contract = RoundingContract::EAGER_F32;
    let heads = (index.heads, index.choices);
    let p = Indexer::under(&contract, &Semantics::RELEASED, heads, index.head_dim, index.blocks);
    let own = indexer(&p, q.view(), k.view()).expect("it keeps the contract");
    let mut all = Array2::from_shape_fn((index.choices * n, own.ncols()), |(row, slot)| {
        own[[row % n * index.choices + row / n, slot]].unwrap_or(reference::site::NONE)
    });
    all.row_mut(n + TOKEN).iter_mut().zip(blocks).for_each(|(slot, block)| *slot = block);

    let mut candidate = Live::default();
    let site = |site| Site::Layer(LAYER, site);
    candidate.value(Site::Embedding, Array2::ones((n, config.hidden_size)));
    candidate.value(site(LayerSite::IndexQRope), q);
    candidate.value(site(LayerSite::IndexKRope), k);
    candidate.choices(site(LayerSite::Blocks), all);
    let memory = Memory::random(&config, 1);
    let verification = Verification {
        model: &Decoder::new(&config, Semantics::RELEASED, &memory).expect("it fits"),
        candidate: &candidate,
        contract,
        steps: &[vec![7; n]],
        prompt: n,
        lenses: &[Lens::Local],
        layers: 0..config.num_hidden_layers,
        keep: None,
    };
    let reports = verification.run(|| ()).expect("it can be read").sites;
    reports.into_iter().find(|report| report.site == site(LayerSite::Blocks)).expect("blocks are judged")
}

#[test]
fn the_reference_s_blocks_are_its_blocks_in_any_order() {
    for blocks in [[5, 1, 2], [2, 5, 1]] {
        let report = chosen(blocks);
        assert_eq!((report.verdict, report.equal, report.count), (Verdict::Exact, 24, 24));
    }
}

#[test]
fn a_block_of_the_same_score_is_a_tie() {
    let report = chosen([5, 1, 3]);
    assert_eq!((report.verdict, report.faults, report.equal), (Verdict::Tie, 0, 23));
    assert_eq!(report.flips, [Flip { token: TOKEN, legal: true }]);
}

#[test]
fn a_block_of_lower_score_is_a_fault() {
    let report = chosen([5, 1, 0]);
    assert_eq!((report.verdict, report.faults), (Verdict::Fault, 1));
    assert_eq!(report.flips, [Flip { token: TOKEN, legal: false }]);
    let note = report.note.expect("it is said why");
    let start = "token 11 chose block 0 (score 1.000000) over block 3 (score 3.000000), ";
    assert!(note.starts_with(start), "{note}");
    let worst = report.worst.expect("it is shown");
    assert_eq!((worst.index, worst.candidate, worst.reference), (vec![1, TOKEN, 0], 1.0, 3.0));
    assert!(worst.ratio > 1e3, "{}", worst.ratio);
}

/// The forced block has no score that another could come near.
#[test]
fn the_own_block_left_out_is_a_fault() {
    assert_eq!(chosen([1, 2, 3]).verdict, Verdict::Fault);
}

#[test]
fn a_block_chosen_twice_is_a_fault() {
    let report = chosen([5, 1, 1]);
    assert_eq!((report.verdict, report.faults), (Verdict::Fault, 1));
    assert_eq!(report.note.as_deref(), Some("token 11 chose a block twice"));
}

#[test]
fn a_block_that_there_is_not_is_a_fault() {
    let report = chosen([5, 1, 6]);
    assert_eq!((report.verdict, report.faults), (Verdict::Fault, 1));
    assert_eq!(report.note.as_deref(), Some("token 11 chose block 6 at [1, 11, 2], expected 0 to 5"));
}

/// What is wrong of a right run that shows routing weights in the order `order` makes of a row, and no experts.
fn weights_alone(order: fn(&mut [f64])) -> Vec<Site> {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let live = setting.with(&[]);
    let is = |site: Site, of: LayerSite| matches!(site, Site::Layer(_, site) if site == of);
    let shows = |site| !is(site, LayerSite::GateExperts) && modules(site) || is(site, LayerSite::GateWeights);
    let value = |site, mut value: Array2<f64>| {
        if is(site, LayerSite::GateWeights) {
            value.rows_mut().into_iter().for_each(|mut row| order(row.as_slice_mut().expect("a row")));
        }
        value
    };
    setting.compare(&Seen { live: &live, shows, value }, |comparison| {
        let reference = comparison.model().expect("it fits");
        let verification = comparison.verification(&reference, &[Lens::Local], 0..2);
        let sites = verification.run(|| ()).expect("it runs").sites;
        sites.into_iter().filter(|report| report.verdict == Verdict::Fault).map(|report| report.site).collect()
    })
}

/// An engine lists experts in an order of its own, which is not known where they are not shown.
#[test]
fn routing_weights_without_experts_are_of_any_order() {
    assert_eq!(weights_alone(<[f64]>::reverse), []);
    assert_eq!(weights_alone(|row| row.rotate_left(1)), []);
}

#[test]
fn a_wrong_routing_weight_is_a_fault_in_any_order() {
    let is_weights = |site: &Site| matches!(site, Site::Layer(_, LayerSite::GateWeights));
    let wrong = weights_alone(|row| {
        row.reverse();
        row[0] *= 1.001;
    });
    assert_eq!(wrong.iter().filter(|site| is_weights(site)).count(), 2, "{wrong:?}");
}
