//! Attention in numbers that can be checked by hand: rounding points, constraints, blocks.

use reference::ops::attention::temperature::{self, tempered};
use reference::semantics::{Causal, KeyHead, ScoreType, Semantics, Temperature};

use tests::torch::fexp_u20;

use super::*;

/// Scores that overflow leave nothing: ∞ − ∞ is NaN, not a choice of the largest.
#[test]
fn an_overflow_of_the_scores_is_nan() {
    let p = ONE.under(&RoundingContract::EAGER_F32);
    let (q, k) = (array![[3e38_f32]], array![[1.0_f32], [3e38]]);
    let o = attention(&p, q.view(), k.view(), array![[1.0_f32], [2.0]].view()).expect("good");
    assert!(o[[0, 0]].is_nan());
}

/// σ is 1/√d, in f64.
#[test]
fn scores_by_hand() {
    let p = Heads { dim: 4, ..ONE }.under(&RoundingContract::IDEAL);
    let (q, k) = (array![[1.0, 2.0, 3.0, 4.0]], array![[2.0, 0.0, 0.0, 1.0]]);
    assert_eq!(scores(&p, q.view(), k.view()), Ok(array![[3.0]]));
}

/// 1.0078125² = 1.0156860… is 1.015625 in bf16; unrounded it would stay.
#[test]
fn r1_rounds_the_product() {
    let x = array![[1.007_812_5]];
    let of = |contract| scores(&ONE.under(contract), x.view(), x.view());
    assert_eq!(of(&RoundingContract::EAGER_BF16), Ok(array![[1.015_625]]));
    assert_eq!(of(&RoundingContract::FUSED), Ok(array![[1.015_686_035_156_25]]));
}

/// 1.2578125·1.0078125 = 1.26763…, in bf16 1.265625, times 0.7071… is 0.89493…, in bf16 0.89453125. Rounded only once it
/// would be 0.89635…, in bf16 0.8984375.
#[test]
fn r1_rounds_the_product_and_then_the_score() {
    let p = Heads { dim: 2, ..ONE }.under(&RoundingContract::EAGER_BF16);
    let (q, k) = (array![[1.257_812_5, 0.0]], array![[1.007_812_5, 0.0]]);
    assert_eq!(scores(&p, q.view(), k.view()), Ok(array![[0.894_531_25]]));
}

/// Three equal keys: a third is 0.333984375 in bf16, times 3 is 1.001953125.
#[test]
fn r2_rounds_the_probabilities() {
    let p = Attention { output: Rounding::NONE, ..ONE.under(&RoundingContract::EAGER_BF16) };
    let (q, k, v) = (array![[0.0]], Array2::zeros((3, 1)), Array2::ones((3, 1)));
    assert_eq!(oracle(&p, &q, &k, &v), array![[1.001_953_125]]);
    assert_eq!(probabilities(&p, q.view(), k.view()), Ok(Array2::from_elem((1, 3), 0.333_984_375)));
}

/// e⁻¹ = 0.36788 is 0.3671875 in bf16, and the sum, 1.36788, is not rounded. After the division it would be 0.26953125.
#[test]
fn r2_rounds_before_the_division_in_flash() {
    let p = Attention { output: Rounding::NONE, ..ONE.under(&RoundingContract::FUSED) };
    let (q, k, v) = (array![[1.0]], array![[1.0], [0.0]], array![[0.0], [1.0]]);
    let e = (-1.0_f64).exp();
    assert_eq!(oracle(&p, &q, &k, &v), array![[0.367_187_5 / (1.0 + e)]]);
    // What a site shows are the probabilities before that.
    assert_eq!(probabilities(&p, q.view(), k.view()), Ok(array![[1.0 / (1.0 + e), e / (1.0 + e)]]));
}

/// Of 16 bits torch takes a cubic for the exponential, eight keys at a time, and for what is left of them a library's; of f32 none.
#[test]
fn r2_takes_torch_s_exponential() {
    let x: [f32; 11] = [0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -6.25, -90.0, -0.5, -1.0, -1.5];
    let (q, k) = (array![[1.0]], Array2::from_shape_fn((x.len(), 1), |(key, _)| f64::from(x[key])));
    for preset in [RoundingContract::EAGER_BF16, RoundingContract::EAGER_F32] {
        let p = ONE.under(&RoundingContract { attention: AttentionRound::Sdpa, ..preset });
        let p = Attention { output: Rounding::NONE, probabilities: Rounding::NONE, ..p };
        let is_narrow = preset == RoundingContract::EAGER_BF16;
        let weight =
            |key: usize| if is_narrow && key < 8 { f64::from(fexp_u20(x[key])) } else { f64::from(x[key]).exp() };
        let weights: Vec<f64> = (0..x.len()).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        for (key, weight) in weights.iter().enumerate() {
            let v = Array2::from_shape_fn((x.len(), 1), |(other, _)| f64::from(u8::from(other == key)));
            assert!((oracle(&p, &q, &k, &v)[[0, 0]] - weight / sum).abs() < 1e-15, "key {key}");
        }
    }
}

/// Half of 257 is 128.5, in bf16 128.
#[test]
fn r3_rounds_the_output() {
    for contract in [RoundingContract::EAGER_BF16, RoundingContract::FUSED] {
        let p = ONE.under(&contract);
        let (q, k, v) = (array![[0.0]], array![[0.0], [0.0]], array![[1.0], [256.0]]);
        assert_eq!(oracle(&p, &q, &k, &v), array![[128.0]]);
        assert_eq!(context(&p, array![[0.5, 0.5]].view(), v.view()), array![[128.0]]);
    }
}

/// Contracts differ in what they round.
#[test]
fn contracts_by_hand() {
    let eager = ONE.under(&RoundingContract::EAGER_F16);
    assert_eq!((eager.scores, eager.order), (Rounding::nearest(Storage::F16), AttentionRound::Eager));
    let flash = ONE.under(&RoundingContract::FUSED);
    assert_eq!((flash.scores, flash.order), (Rounding::NONE, AttentionRound::Flash));
    assert_eq!(flash.scale, 1.0);
}

fn error(heads: Heads, q: (usize, usize), k: (usize, usize), v: (usize, usize)) -> String {
    let [q, k, v] = [q, k, v].map(Array2::<f64>::zeros);
    let err = attention(&heads.under(&RoundingContract::IDEAL), q.view(), k.view(), v.view())
        .expect_err("against the contract");
    if v.dim() == k.dim() {
        assert_eq!(probabilities(&heads.under(&RoundingContract::IDEAL), q.view(), k.view()).as_ref(), Err(&err));
        assert_eq!(scores(&heads.under(&RoundingContract::IDEAL), q.view(), k.view()).as_ref(), Err(&err));
    }
    err.to_string()
}

const HEADS: Heads = Heads { query: 4, key: 2, dim: 3 };

#[test]
fn c1_no_queries_or_more_than_keys() {
    assert_eq!(error(HEADS, (0, 12), (1, 6), (1, 6)), "attention C1: rows of q = 0, expected 1 to s = 1");
    assert_eq!(error(HEADS, (3, 12), (2, 6), (2, 6)), "attention C1: rows of q = 3, expected 1 to s = 2");
}

#[test]
fn c2_queries_of_another_width() {
    assert_eq!(error(HEADS, (1, 6), (2, 6), (2, 6)), "attention C2: columns of q = 6, expected 4 heads · 3");
}

#[test]
fn c3_keys_or_values_of_another_shape() {
    assert_eq!(error(HEADS, (1, 12), (2, 12), (2, 12)), "attention C3: columns of k = 12, expected 2 heads · 3");
    assert_eq!(error(HEADS, (1, 12), (2, 6), (3, 6)), "attention C3: shape of v = (3, 6), expected that of k, (2, 6)");
}

#[test]
fn c4_heads_that_cannot_be_grouped() {
    let three = Heads { query: 3, ..HEADS };
    assert_eq!(error(three, (1, 9), (1, 6), (1, 6)), "attention C4: H = 3, expected a multiple of G = 2");
    let none = Heads { key: 0, ..HEADS };
    assert_eq!(error(none, (1, 12), (1, 0), (1, 0)), "attention C4: H = 4, expected a multiple of G = 0");
}

/// Blocks of queries are an implementation's matter: 130 queries at once and one by one.
#[test]
fn blocks_of_queries_do_not_show() {
    let heads = Heads { query: 2, key: 1, dim: 4 };
    let p = heads.under(&RoundingContract::EAGER_BF16);
    let matrix =
        |rows, heads: usize, seed| Matrix::new((rows, heads * 4), Fill::Activation, Storage::Bf16, seed).values();
    let (q, k, v) = (matrix(130, 2, 1), matrix(135, 1, 2), matrix(135, 1, 3));
    let rows: Vec<Array2<f64>> = (0..130)
        .map(|i| {
            let keys = s![..135 - 129 + i, ..];
            oracle(&p, &q.slice(s![i..=i, ..]).to_owned(), &k.slice(keys).to_owned(), &v.slice(keys).to_owned())
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(|row| row.view()).collect();
    assert_eq!(oracle(&p, &q, &k, &v), concatenate(Axis(0), &rows).expect("same columns"));
    let whole = probabilities(&p, q.view(), k.view()).expect("good");
    let last = probabilities(&p, q.slice(s![129.., ..]), k.view()).expect("good");
    assert_eq!((whole.row(129), whole.row(259)), (last.row(0), last.row(1)));
}

/// Which keys each of three queries sees, as a port may have it.
#[test]
fn a_port_may_see_too_much_or_too_little() {
    let (q, k) = (array![[0.0], [0.0], [0.0]], array![[1.0], [2.0], [3.0]]);
    let of = |causal| {
        let p = Attention { causal, ..ONE.under(&RoundingContract::IDEAL) };
        probabilities(&p, q.view(), k.view()).expect("good")
    };
    let third = 1.0 / 3.0;
    assert_eq!(of(Causal::Inclusive), array![[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [third, third, third]]);
    assert_eq!(of(Causal::Ahead), array![[0.5, 0.5, 0.0], [third, third, third], [third, third, third]]);
    assert_eq!(of(Causal::Strict), array![[third, third, third], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]);
    assert_eq!(of(Causal::All), Array2::from_elem((3, 3), third));
}

/// 1 + 2⁻⁹ and 1 are the same score in bf16, where a third is 0.333984375; so it is under every contract.
#[test]
fn a_port_may_keep_its_softmax_in_bf16() {
    let semantics = Semantics { attention_softmax: ScoreType::Bf16, ..Semantics::DOCUMENTS };
    let (q, k) = (array![[1.0]], array![[1.0], [1.0 + 2.0_f64.powi(-9)], [1.0]]);
    for contract in [RoundingContract::IDEAL, RoundingContract::EAGER_F32, RoundingContract::FUSED] {
        let p = ONE.under(&contract).slipping(&semantics, 0);
        assert_eq!(scores(&p, q.view(), k.view()), Ok(array![[1.0, 1.0, 1.0]]));
        assert_eq!(probabilities(&p, q.view(), k.view()), Ok(Array2::from_elem((1, 3), 0.333_984_375)));
        let p = Attention { output: Rounding::NONE, ..p };
        assert_eq!(oracle(&p, &q, &k, &Array2::ones((3, 1))), array![[1.001_953_125]]);
    }
    // The bound is not bf16's, but where a score is near the middle of two.
    let p = ONE.under(&RoundingContract::EAGER_F32).slipping(&semantics, 0);
    let [q, near] = [&q, &k].map(|x| Tracked::exact(x.clone()));
    let far = Tracked::exact(array![[1.0], [1.001], [1.0]]);
    let largest = |k: &Tracked<f64>| {
        let shown = probabilities(&p, q.view(), k.view()).expect("good");
        p.bound_probabilities(&q, k, &shown).certain.iter().copied().fold(0.0, f64::max)
    };
    assert!(largest(&far) == 0.0 && largest(&near) == 0.0, "{} {}", largest(&far), largest(&near));
    let middle = Tracked::exact(array![[1.0], [1.0 + 2.0_f64.powi(-8)], [1.0]]);
    assert!(largest(&middle) > 1e-3);
}

/// Four query heads, two key heads: the second and third query heads change places.
#[test]
fn a_port_may_tile_the_key_heads() {
    let p = Heads { query: 4, key: 2, dim: 1 }.under(&RoundingContract::IDEAL);
    let (q, kv) = (array![[1.0, 1.0, 1.0, 1.0]], array![[5.0, 7.0]]);
    assert_eq!(attention(&p, q.view(), kv.view(), kv.view()).expect("good"), array![[5.0, 5.0, 7.0, 7.0]]);
    let tiled = Attention { key_head: KeyHead::Tiled, ..p };
    assert_eq!(attention(&tiled, q.view(), kv.view(), kv.view()).expect("good"), array![[5.0, 7.0, 5.0, 7.0]]);
}

/// 20·tanh(30/20) = 18.1029…; a sink of 0 beside a score of 0 has half of all; a window of two, a prefix of two, and tiles
/// of two.
#[test]
fn a_port_may_have_what_other_models_have() {
    let p = ONE.under(&RoundingContract::IDEAL);
    let of = |p: Attention, q: &Array2<f64>, k: &Array2<f64>| probabilities(&p, q.view(), k.view()).expect("good");
    let capped = scores(&Attention { cap: Some(20.0), ..p }, array![[30.0]].view(), array![[1.0]].view());
    assert_eq!(capped, Ok(array![[20.0 * 1.5_f64.tanh()]]));
    let sink = Attention { sink: Some(0.0), ..p };
    assert_eq!(of(sink, &array![[0.0]], &array![[1.0]]), array![[0.5]]);
    assert_eq!(oracle(&sink, &array![[0.0]], &array![[1.0]], &array![[3.0]]), array![[1.5]]);
    let (q, k, third) = (Array2::zeros((3, 1)), Array2::ones((3, 1)), 1.0 / 3.0);
    let window = of(Attention { window: Some(2), ..p }, &q, &k);
    assert_eq!(window, array![[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]);
    let prefix = of(Attention { prefix: Some(2), ..p }, &q, &k);
    assert_eq!(prefix, array![[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [third, third, third]]);
    let tile = of(Attention { tile: Some(2), ..p }, &q, &k);
    assert_eq!(tile, array![[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [third, third, third]]);
    let lost = Attention { lost: Some([1, 2]), ..p };
    assert_eq!(of(lost, &q, &k), array![[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]);
    let v = array![[1.0], [3.0], [5.0]];
    assert_eq!(oracle(&lost, &q, &k, &v), array![[1.0], [1.0], [3.0]]);
}

/// Positions 0 to 2 count as 1 to 3, of which two have been seen once from 1 on: ln 2 is added; written `+` they count from 0.
#[test]
fn a_port_may_have_a_temperature() {
    let of = |text: &str| [0, 1, 2, 3].map(|position| text.parse::<Temperature>().expect("one").of(position));
    let (one, two) = (1.0 + 0.5 * 1.0_f64.ln_1p(), 1.0 + 0.5 * 2.0_f64.ln_1p());
    assert_eq!(of("0.5/2"), [1.0, one, one, two]);
    assert_eq!(of("0.5/+2"), [1.0, 1.0, one, one]);
    let temperature: Temperature = "0.5/2".parse().expect("one");
    let y = tempered(&RoundingContract::IDEAL, temperature, array![[2.0], [3.0]].view(), 2);
    assert_eq!(y, array![[2.0 * one], [3.0 * two]]);
    let q = Tracked::exact(array![[2.0]]);
    let bound = temperature::bound(&RoundingContract::EAGER_F32, temperature, &q, 1, &array![[2.0 * one]]);
    assert!(bound.certain[[0, 0]] < 1e-5 && bound.certain[[0, 0]] > 1e-7);
}
