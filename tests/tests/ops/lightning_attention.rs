//! `reference/src/ops/lightning_attention.rs`.

use ndarray::{Array2, Axis, array, concatenate, s};
use proptest::prelude::*;
use reference::accumulator::Accumulator;
use reference::ops::lightning_attention::{LightningAttention, State, lightning_attention, slopes};
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, Perturbed, contract, matrix, noise};

const HEADS: usize = 2;
const WIDTH: usize = 3;

#[derive(Debug)]
struct Case {
    contract: Contract,
    x: [Matrix; 3],
    layer: usize,
    noise: Noise,
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), noise(), 1..24_usize, 0..5_usize).prop_flat_map(|(contract, noise, n, layer)| {
        let x = || matrix((n, HEADS * WIDTH), contract.activations);
        (x(), x(), x()).prop_map(move |(q, k, v)| Case { contract, x: [q, k, v], layer, noise })
    })
}

fn ideal(layer: usize) -> LightningAttention {
    LightningAttention::under(&RoundingContract::IDEAL, slopes(HEADS, layer, 5), WIDTH)
}

fn oracle(p: &LightningAttention, [q, k, v]: [&Array2<f64>; 3]) -> Array2<f64> {
    lightning_attention(p, q.view(), k.view(), v.view()).expect("the case keeps the contract")
}

/// Every term of the sum by itself.
fn term_by_term(p: &LightningAttention, [q, k, v]: [&Array2<f64>; 3]) -> Array2<f64> {
    Array2::from_shape_fn(q.dim(), |(i, column)| {
        let head = column / p.head_dim;
        let own = s![head * p.head_dim..(head + 1) * p.head_dim];
        let term = |j: usize| {
            let product = q.row(i).slice(own).dot(&k.row(j).slice(own));
            (-p.slopes[head] * (i - j) as f64).exp() * product * v[[j, column]]
        };
        (0..=i).map(term).sum()
    })
}

proptest! {
    #[test]
    fn it_is_the_sum_of_its_terms_in_blocks_of_any_size(case in case(), block in 1..9_usize) {
        let (p, x) = (ideal(case.layer), case.x.each_ref().map(|x| &**x));
        let want = term_by_term(&p, x);
        let error = p.bound(&Tracked::exact(x[0].clone()), &Tracked::exact(x[1].clone()), &Tracked::exact(x[2].clone()), &want);
        let slack = 1e-12;
        let mut state = State::new(&p);
        let blocks: Vec<Array2<f64>> = (0..want.nrows()).step_by(block).map(|first| {
            let rows = first..(first + block).min(want.nrows());
            let [q, k, v] = x.map(|x| x.slice(s![rows.clone(), ..]));
            state.advance(&p, q, k, v).expect("the case keeps the contract")
        }).collect();
        let views: Vec<_> = blocks.iter().map(|block| block.view()).collect();
        let size = term_by_term(&p, x.map(|x| x.mapv(f64::abs)).each_ref());
        for got in [oracle(&p, x), concatenate(Axis(0), &views).expect("of one width")] {
            for ((got, want), size) in got.iter().zip(&want).zip(&size) {
                prop_assert!((got - want).abs() <= slack * size + f64::MIN_POSITIVE, "{got} {want}");
            }
        }
        prop_assert!(error.certain.iter().all(|bound| bound.is_finite()));
    }

    #[test]
    fn no_later_token_matters_exactly(case in case()) {
        let p = ideal(case.layer);
        let first = |x: &Array2<f64>| x.slice(s![..1, ..]).to_owned();
        let firsts = case.x.each_ref().map(|x| first(x));
        let whole = oracle(&p, case.x.each_ref().map(|x| &**x));
        prop_assert_eq!(first(&whole), oracle(&p, firsts.each_ref()));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let p = LightningAttention::under(&case.contract, slopes(HEADS, case.layer, 5), WIDTH);
        let mut number = 0;
        let x = case.x.each_ref().map(|x| { number += 1; case.noise.on(x, number - 1) });
        let want = oracle(&ideal(case.layer), case.x.each_ref().map(|x| &**x));
        let [q, k, v] = x.each_ref().map(Perturbed::f32);
        let got = lightning_attention(&p, q.view(), k.view(), v.view()).expect("good").mapv(f64::from);
        let bound = p.bound(&x[0].tracked, &x[1].tracked, &x[2].tracked, &want);
        // What f16 does not hold is a fault.
        if want.iter().all(|o| o.abs() < case.contract.activations.largest()) {
            within(&got, &want, &bound)?;
            likely(&got, &want, &bound)?;
        }
    }
}

/// Two tokens of one head of one channel whose slope is ln 2: 3·5·7 = 105; then 2·11·13 + ½·2·5·7 = 321.
#[test]
fn a_token_back_counts_half() {
    let p = LightningAttention { slopes: vec![2.0_f64.ln()], head_dim: 1, ..ideal(0) };
    let o = oracle(&p, [&array![[3.0], [2.0]], &array![[5.0], [11.0]], &array![[7.0], [13.0]]]);
    assert!((o[[0, 0]] - 105.0).abs() < 1e-12 && (o[[1, 0]] - 321.0).abs() < 1e-12, "{o}");
}

/// 2^(−8(h+1)/H): of 8 heads ½, ¼, …; in the last layer 10⁻⁵ of that.
#[test]
fn slopes_halve_from_head_to_head() {
    let first = slopes(8, 0, 4);
    assert!((first[0] / first[1] - 2.0).abs() < 1e-12 && (first[0] - 0.5 * (1.0 + 1e-5)).abs() < 1e-12, "{first:?}");
    let last = slopes(8, 3, 4);
    let depth = 1.0 - 3.0 / (3.0 + 1e-5) + 1e-5;
    assert!((last[0] - 0.5 * depth).abs() < 1e-18, "{last:?}");
}

#[test]
fn constraints_name_what_breaks_them() {
    let p = ideal(0);
    let x = |n: usize, width: usize| Array2::<f64>::zeros((n, width));
    let refused = |p: &LightningAttention, [q, k, v]: [Array2<f64>; 3]| {
        lightning_attention(p, q.view(), k.view(), v.view()).expect_err("against the contract").to_string()
    };
    assert!(refused(&p, [x(0, 6), x(0, 6), x(0, 6)]).starts_with("lightning_attention C1: min(n, H, d) = 0"));
    assert!(refused(&p, [x(2, 6), x(1, 6), x(2, 6)]).starts_with("lightning_attention C2: shape of k = (1, 6)"));
    let growing = LightningAttention { slopes: vec![0.5, -0.5], ..p.clone() };
    assert!(refused(&growing, [x(2, 6), x(2, 6), x(2, 6)]).starts_with("lightning_attention C3"));
    let nothing = LightningAttention { slopes: vec![0.5, f64::NAN], ..p };
    assert!(refused(&nothing, [x(2, 6), x(2, 6), x(2, 6)]).starts_with("lightning_attention C3"));
    let of_more = LightningAttention { slopes: vec![0.5; 3], head_dim: 2, ..ideal(0) };
    let mut state = State::<f64>::new(&of_more);
    let error = state.advance(&ideal(0), x(2, 6).view(), x(2, 6).view(), x(2, 6).view()).expect_err("another state");
    assert_eq!(error.to_string(), "lightning_attention C4: states = 3 of (2, 2), expected 2 of (3, 3)");
}

/// A prompt's f32 errors take a visible part of the probable bound, and that is well below the certain one.
#[test]
fn the_bound_is_near_what_is_seen() {
    let draw = |seed| Matrix::new((200, HEADS * 16), Fill::Activation, Storage::F32, seed).mapv(|x| x.clamp(-4.0, 4.0));
    let x = [draw(1), draw(2), draw(3)];
    let contract = RoundingContract { accumulator: Accumulator::F32, ..RoundingContract::IDEAL };
    let under = |contract| LightningAttention::under(contract, slopes(HEADS, 1, 5), 16);
    let want = oracle(&under(&RoundingContract::IDEAL), x.each_ref());
    let [q, k, v] = x.each_ref().map(|x| x.mapv(f32::of));
    let got = lightning_attention(&under(&contract), q.view(), k.view(), v.view()).expect("good").mapv(f64::from);
    let [q, k, v] = x.map(Tracked::exact);
    let bound = under(&contract).bound(&q, &k, &v, &want);
    let worst = |of: &Array2<f64>| (&got - &want).iter().zip(of).map(|(e, of)| e.abs() / of).fold(0.0, f64::max);
    let (certain, probable) = (worst(&bound.certain), worst(&bound.sigma));
    assert!((0.005..0.5).contains(&certain) && (0.2..6.0).contains(&probable), "{certain} {probable}");
}
