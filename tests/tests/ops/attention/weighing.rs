//! What ports see, or do not see, beside the keys that they have to, and how they put splits of keys together, by hand.

use reference::semantics::{CacheHalf, Causal, Semantics};

use super::*;

/// Scores 0, ln 2, ln 4, ln 8 of four keys: right weights are 1, 2, 4 and 8 of 15.
fn keys() -> (Array2<f64>, Array2<f64>) {
    let k = array![[0.0], [2.0_f64.ln()], [4.0_f64.ln()], [8.0_f64.ln()]];
    (array![[1.0]], k)
}

/// The same in descending order.
fn descending() -> (Array2<f64>, Array2<f64>) {
    let (q, mut k) = keys();
    k.invert_axis(Axis(0));
    (q, k)
}

fn slipping(heads: Heads, field: &str, call: usize) -> Attention {
    let reads: Semantics = format!("released,{field}").parse().expect("a reading");
    Attention { call, ..heads.under(&RoundingContract::IDEAL).slipping(&reads, 0) }
}

/// The weights of the last token's four keys, in a call that begins at `call`.
fn weights(field: &str, call: usize) -> Vec<f64> {
    let (q, k) = keys();
    let p = slipping(ONE, field, call);
    let each = probabilities(&p, q.view(), k.view()).expect("good").row(0).to_vec();
    // The context is what these weights make of the values.
    let o = attention(&p, q.view(), k.view(), array![[1.0], [10.0], [100.0], [1000.0]].view()).expect("good");
    let sum: f64 = each.iter().zip([1.0, 10.0, 100.0, 1000.0]).map(|(p, v)| p * v).sum();
    assert!((o[[0, 0]] - sum).abs() < 1e-12 * sum, "{field}: {o} {sum}");
    each
}

fn near(field: &str, call: usize, want: [f64; 4]) {
    let each = weights(field, call);
    assert!(each.iter().zip(want).all(|(p, want)| (p - want).abs() < 1e-12), "{field}: {each:?}, expected {want:?}");
}

#[test]
fn keys_that_are_not_seen() {
    near("unseen=keys:1..3", 3, [1.0 / 9.0, 0.0, 0.0, 8.0 / 9.0]);
    near("unseen=before:1..3", 3, [1.0 / 9.0, 0.0, 0.0, 8.0 / 9.0]);
    near("unseen=before:2..9", 3, [0.0, 0.0, 4.0 / 12.0, 8.0 / 12.0]);
    near("unseen=seam:1", 3, [1.0 / 11.0, 2.0 / 11.0, 0.0, 8.0 / 11.0]);
    near("unseen=seam:1", 2, [1.0 / 13.0, 0.0, 4.0 / 13.0, 8.0 / 13.0]);
    near("unseen=context", 2, [0.0, 0.0, 4.0 / 12.0, 8.0 / 12.0]);
    near("unseen=prompt:1", 2, [0.0, 2.0 / 14.0, 4.0 / 14.0, 8.0 / 14.0]);
    // The prompt's own call sees it.
    near("unseen=prompt:3", 2, [1.0, 2.0, 4.0, 8.0].map(|w| w / 15.0));
    near("unseen=each:2/0", 3, [0.0, 2.0 / 10.0, 0.0, 8.0 / 10.0]);
    // Its own key a token sees in any case.
    near("unseen=keys:0..9", 3, [0.0, 0.0, 0.0, 1.0]);
    near("unseen=each:2/1", 3, [1.0 / 13.0, 0.0, 4.0 / 13.0, 8.0 / 13.0]);
}

/// A call's second token sees two keys, its own or not.
#[test]
fn a_mask_that_begins_with_the_call() {
    near("causal=call", 2, [1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0]);
    near("causal=call", 3, [1.0, 0.0, 0.0, 0.0]);
}

/// Each counts as a score of 0 does.
#[test]
fn zeros_that_are_seen() {
    near("unfilled=count:5", 3, [0.05, 0.1, 0.2, 0.4]);
    near("unfilled=tile:3", 3, [1.0, 2.0, 4.0, 8.0].map(|w| w / 17.0));
    near("unfilled=slots:9", 3, [0.05, 0.1, 0.2, 0.4]);
    near("unfilled=slots:4", 3, [1.0, 2.0, 4.0, 8.0].map(|w| w / 15.0));
    near("unfilled=tile:4", 3, [1.0, 2.0, 4.0, 8.0].map(|w| w / 15.0));
}

/// Splits of two: the first has a largest weight of 2 and a sum of 3, the second 8 and 12.
#[test]
fn splits_that_are_put_together_otherwise() {
    near("merged=own/2", 3, [0.5, 1.0, 0.5, 1.0].map(|w| w / 3.0));
    near("merged=averaged/2", 3, [1.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0].map(|w| w / 2.0));
    // Three keys and one: largest weights of 4 and 8, sums beside them of 7/4 and 1.
    near("merged=unsummed/3", 3, [1.0, 2.0, 4.0, 14.0].map(|w| w / 21.0));
    near("merged=values_kept/2", 3, [0.5, 1.0, 0.5, 1.0].map(|w| w / (15.0 / 8.0)));
    near("merged=weights_kept/2", 3, [1.0, 2.0, 4.0, 8.0].map(|w| w / 8.0 / 3.0));
    near("merged=both_kept/2", 3, [0.5, 1.0, 0.5, 1.0].map(|w| w / 3.0));
    // Two parts of all, and of three.
    near("merged=own/x2", 3, [0.5, 1.0, 0.5, 1.0].map(|w| w / 3.0));
    near("merged=averaged/x2", 3, [1.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0].map(|w| w / 2.0));
    near("merged=own/x3", 3, [0.5, 1.0, 0.5, 1.0].map(|w| w / 3.0));
    // One split is all of them.
    for by in ["own", "averaged", "unsummed", "values_kept", "weights_kept", "both_kept"] {
        near(&format!("merged={by}/4"), 3, [1.0, 2.0, 4.0, 8.0].map(|w| w / 15.0));
    }
}

/// Where the largest score comes first, nothing has to be scaled again: what is kept is right then, and own sums are not.
#[test]
fn splits_whose_largest_score_comes_first() {
    let (q, k) = descending();
    let of = |field: &str| {
        let p = slipping(ONE, field, 3);
        probabilities(&p, q.view(), k.view()).expect("good").row(0).to_vec()
    };
    let near = |field: &str, want: [f64; 4]| {
        let each = of(field);
        assert!(
            each.iter().zip(want).all(|(p, want)| (p - want).abs() < 1e-12),
            "{field}: {each:?}, expected {want:?}"
        );
    };
    for by in ["values_kept", "weights_kept", "both_kept"] {
        near(&format!("merged={by}/2"), [8.0, 4.0, 2.0, 1.0].map(|w| w / 15.0));
    }
    near("merged=own/2", [1.0, 0.5, 1.0, 0.5].map(|w| w / 3.0));
}

/// What weighs values is rounded, with or without a division before it: 1/3 and 2/3 to E4M3, or 1/2 and 1, which it has.
#[test]
fn probabilities_in_a_narrower_type() {
    let (q, k) = (array![[1.0]], array![[0.0], [2.0_f64.ln()]]);
    for (attention, want) in [(AttentionRound::Eager, 0.6875), (AttentionRound::Flash, 2.0 / 3.0)] {
        let reads: Semantics = "released,probability_type=e4m3".parse().expect("a reading");
        let p = ONE.under(&RoundingContract { attention, ..RoundingContract::IDEAL }).slipping(&reads, 0);
        let o = super::attention(&p, q.view(), k.view(), array![[0.0], [1.0]].view()).expect("good");
        assert!((o[[0, 0]] - want).abs() < 1e-12, "{o}");
    }
}

/// Of four heads and two key heads, head 1 reads key head 0 and head 2 key head 1; if tiled, the other way round.
#[test]
fn values_alone_of_other_heads() {
    let heads = Heads { query: 4, key: 2, dim: 1 };
    let (q, k) = (array![[1.0, 1.0, 1.0, 1.0]], array![[0.0, 3.0_f64.ln()], [0.0, 0.0]]);
    let v = array![[1.0, 5.0], [3.0, 9.0]];
    let of = |half: &str| {
        let p = slipping(heads, &format!("tiled_heads={half}"), 1);
        attention(&p, q.view(), k.view(), v.view()).expect("good").row(0).to_vec()
    };
    let near = |a: Vec<f64>, b: [f64; 4]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?}, {b:?}");
    // Alike, keys count 1:1 in key head 0 and 3:1 in key head 1.
    near(of("config"), [2.0, 2.0, 6.0, 6.0]);
    near(of("values"), [2.0, 7.0, 1.5, 6.0]);
    near(of("keys"), [2.0, 1.5, 7.0, 6.0]);
    near(of("both"), [2.0, 6.0, 2.0, 6.0]);
    assert_eq!(slipping(heads, "tiled_heads=values", 1).tiled, Some(CacheHalf::Values));
    assert_eq!(slipping(ONE, "causal=call", 1).causal, Causal::Call);
}
