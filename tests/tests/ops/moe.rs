//! `reference/src/ops/moe.rs`.

use ndarray::{Array2, Axis, array};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::ops::moe::{Moe, WithShared, contribution, moe, rows_of, with_shared};
use reference::rounding::ExpertSum;
use reference::semantics::{Semantics, SharedScale};
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// e \[n·k, d\], w and C \[n, k\], under a contract, with errors of e and w.
#[derive(Clone)]
struct Case {
    contract: Contract,
    outputs: Matrix,
    w: Array2<f64>,
    chosen: Array2<usize>,
    noise: Noise,
    seed: u64,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { contract, outputs, chosen, noise, seed, .. } = self;
        write!(f, "{contract:?}, e {outputs:?}, C {chosen}, {noise:?}, w of seed {seed}")
    }
}

impl Case {
    fn params(&self) -> Moe {
        Moe::under(&self.contract)
    }

    fn of(&self, p: &Moe) -> Array2<f64> {
        oracle(p, &self.outputs, &self.w, &self.chosen)
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let dims = (1..4_usize, 1..6_usize, 0..4_usize, 1..12_usize);
    (contract(), noise(), dims, any::<u16>()).prop_flat_map(move |(contract, noise, (n, k, more, d), seed)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.into());
        let mut chosen = Array2::zeros((n, k));
        for mut row in chosen.rows_mut() {
            let mut experts: Vec<usize> = (0..k + more).collect();
            experts.shuffle(&mut rng);
            row.iter_mut().zip(experts).for_each(|(out, expert)| *out = expert);
        }
        let w = Array2::from_shape_fn((n, k), |_| f32::of(rng.random_range(0.0..1.0)).wide());
        filled((n * k, d), fill.clone(), contract.activations).prop_map(move |outputs| Case {
            contract,
            outputs,
            w: w.clone(),
            chosen: chosen.clone(),
            noise,
            seed: seed.into(),
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn ideal() -> Moe {
    Moe::under(&RoundingContract::IDEAL)
}

fn oracle(p: &Moe, outputs: &Array2<f64>, w: &Array2<f64>, chosen: &Array2<usize>) -> Array2<f64> {
    moe(p, outputs.view(), w.view(), chosen.view()).expect("the case keeps the contract")
}

fn in_f32(p: &Moe, outputs: &Array2<f32>, w: &Array2<f32>, chosen: &Array2<usize>) -> Array2<f64> {
    moe(p, outputs.view(), w.view(), chosen.view()).expect("the case keeps the contract").mapv(f64::from)
}

proptest! {
    #[test]
    fn one_expert_of_weight_1_is_that_expert_exactly(case in case()) {
        let n = case.outputs.nrows();
        let chosen = Array2::from_shape_fn((n, 1), |(i, _)| 7 * i);
        prop_assert_eq!(&oracle(&case.params(), &case.outputs, &Array2::ones((n, 1)), &chosen), &*case.outputs);
    }

    #[test]
    fn a_permutation_of_tokens_permutes_outputs_exactly(case in case()) {
        let (n, k) = case.w.dim();
        let tokens: Vec<usize> = (0..n).rev().collect();
        let rows: Vec<usize> = tokens.iter().flat_map(|token| token * k..(token + 1) * k).collect();
        let of = |a: &Array2<f64>, rows: &[usize]| a.select(Axis(0), rows);
        let chosen = case.chosen.select(Axis(0), &tokens);
        let permuted = oracle(&case.params(), &of(&case.outputs, &rows), &of(&case.w, &tokens), &chosen);
        prop_assert_eq!(permuted, of(&case.of(&case.params()), &tokens));
    }

    /// D43: in ascending order of experts, whatever the order of choice.
    #[test]
    fn d43_adding_each_does_not_depend_on_the_order_of_choice(case in case()) {
        let p = Moe { sum: ExpertSum::Each, ..case.params() };
        let (n, k) = case.w.dim();
        let back: Vec<usize> = (0..k).rev().collect();
        let rows: Vec<usize> = (0..n).flat_map(|i| back.iter().map(move |slot| i * k + slot)).collect();
        let outputs = case.outputs.select(Axis(0), &rows);
        let chosen = Array2::from_shape_fn((n, k), |(i, slot)| case.chosen[[i, back[slot]]]);
        prop_assert_eq!(oracle(&p, &outputs, &case.w.select(Axis(1), &back), &chosen), case.of(&p));
    }

    #[test]
    fn whole_numbers_add_exactly(case in case_of(Just(Fill::Whole))) {
        let w = Array2::from_elem(case.w.dim(), 2.0);
        let k = w.ncols();
        let want = Array2::from_shape_fn((w.nrows(), case.outputs.ncols()), |(i, j)| {
            (0..k).map(|slot| 2.0 * case.outputs[[i * k + slot, j]]).sum::<f64>()
        });
        for p in [ideal(), case.params()] {
            prop_assert_eq!(oracle(&p, &case.outputs, &w, &case.chosen), &want);
        }
    }

    /// What each expert adds is nothing for a token that did not choose it, and all of it together is the sum.
    #[test]
    fn contributions_add_up(case in case()) {
        let mut sum = Array2::zeros((case.w.nrows(), case.outputs.ncols()));
        for expert in 0..10 {
            let part = contribution(expert, case.outputs.view(), case.w.view(), case.chosen.view());
            for (token, row) in part.rows().into_iter().enumerate() {
                let chose = case.chosen.row(token).iter().any(|&e| e == expert);
                prop_assert!(chose || row.iter().all(|&x| x == 0.0));
                prop_assert_eq!(rows_of(expert, case.chosen.view()).iter().any(|row| row / case.w.ncols() == token), chose);
            }
            sum += &part;
        }
        let mut bound = ideal().bound(&case.outputs.exact(), &Tracked::exact(case.w.clone()), &sum);
        bound.certain *= 2.0;
        within(&sum, &case.of(&ideal()), &bound)?;
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, e, w) = (case.params(), case.noise.on(&case.outputs, 0), case.noise.on(&case.w, 1));
        let want = case.of(&ideal());
        let bound = p.bound(&e.tracked, &w.tracked, &want);
        within(&in_f32(&p, &e.f32(), &w.f32(), &case.chosen), &want, &bound)?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, e, w) = (case.params(), case.noise.on(&case.outputs, 0), case.noise.on(&case.w, 1));
        let want = case.of(&ideal());
        let bound = p.bound(&e.tracked, &w.tracked, &want);
        likely(&in_f32(&p, &e.f32(), &w.f32(), &case.chosen), &want, &bound)?;
    }

    /// A device that adds each expert's share in the activations' type shows it rounded.
    #[test]
    fn a_contribution_stays_within_the_bound(case in case()) {
        let (p, e, w) = (case.params(), case.noise.on(&case.outputs, 0), case.noise.on(&case.w, 1));
        for expert in 0..10 {
            let want = contribution(expert, case.outputs.view(), case.w.view(), case.chosen.view());
            let got = contribution(expert, e.f32().view(), w.f32().view(), case.chosen.view());
            let bound = p.bound_contribution(expert, &e.tracked, &w.tracked, case.chosen.view());
            within(&got.mapv(|x| p.stored.round(x).wide()), &want, &bound)?;
            within(&got.mapv(f64::from), &want, &bound)?;
        }
    }

    #[test]
    fn nan_and_infinity_reach_their_token_only(case in case()) {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut outputs = case.outputs.values();
            outputs[[0, 0]] = bad;
            let y = oracle(&case.params(), &outputs, &case.w, &case.chosen);
            prop_assert!(!y[[0, 0]].is_finite());
            prop_assert_eq!(y.iter().filter(|y| !y.is_finite()).count(), 1);
            let mut w = case.w.clone();
            w[[0, 0]] = f64::NAN;
            let y = oracle(&case.params(), &case.outputs, &w, &case.chosen);
            prop_assert!(y.row(0).iter().all(|y| y.is_nan()));
            prop_assert!(y.rows().into_iter().skip(1).all(|row| row.iter().all(|y| y.is_finite())));
        }
    }
}

/// Of a token's 256 + 1 + 1, added in bf16, each 1 is lost; added in f32 the sum is 258.
fn lost() -> (Array2<f64>, Array2<f64>, Array2<usize>) {
    (array![[256.0], [1.0], [1.0]], array![[1.0, 1.0, 1.0]], array![[0, 1, 2]])
}

#[test]
fn r1_rounds_after_each_addition() {
    let (e, w, chosen) = lost();
    assert_eq!(oracle(&Moe::under(&RoundingContract::EAGER_BF16), &e, &w, &chosen), array![[256.0]]);
    // In ascending order of experts: as the last of them, 256 meets 2.
    assert_eq!(oracle(&Moe::under(&RoundingContract::EAGER_BF16), &e, &w, &array![[9, 1, 2]]), array![[258.0]]);
}

/// 1.0078125² is 1.015625 in bf16; less 1.015625, without R1 it would be 2⁻¹⁴.
#[test]
fn r1_rounds_the_products() {
    let p = Moe::under(&RoundingContract::EAGER_BF16);
    let (e, w) = (array![[1.007_812_5], [-1.015_625]], array![[1.007_812_5, 1.0]]);
    assert_eq!(oracle(&p, &e, &w, &array![[0, 1]]), array![[0.0]]);
    assert_eq!(oracle(&Moe::under(&RoundingContract::FUSED), &e, &w, &array![[0, 1]]), array![[2.0_f64.powi(-14)]]);
}

/// From 1 on numbers of bf16 are 2⁻⁷ apart: 0.00392 is more than half of that, and as a number of bf16, 0.00390625, half of it.
#[test]
fn r1_rounds_sums_of_products_that_are_not_rounded() {
    let of = |experts| Moe::under(&RoundingContract { experts, ..RoundingContract::EAGER_BF16 });
    let (e, w, chosen) = (array![[1.0], [1.0]], array![[1.0, 0.003_92]], array![[0, 1]]);
    assert_eq!(oracle(&of(ExpertSum::Running), &e, &w, &chosen), array![[1.007_812_5]]);
    assert_eq!(oracle(&of(ExpertSum::Each), &e, &w, &chosen), array![[1.0]]);
    assert_eq!(oracle(&of(ExpertSum::Weighted), &e, &w, &chosen), array![[1.0]]);
    assert_eq!(oracle(&of(ExpertSum::Whole), &e, &w, &chosen), array![[1.007_812_5]]);
    // In ascending order of experts: what is lost beside 1 is not beside itself.
    let (e, w) = (array![[1.0], [1.0], [1.0]], array![[1.0, 0.003, 0.003]]);
    assert_eq!(oracle(&of(ExpertSum::Running), &e, &w, &array![[0, 1, 2]]), array![[1.0]]);
    assert_eq!(oracle(&of(ExpertSum::Running), &e, &w, &array![[2, 0, 1]]), array![[1.007_812_5]]);
}

/// 256 + 0.75 + 0.5 is 257.25, between the bf16 256 and 258.
#[test]
fn r2_rounds_the_sum_once() {
    let p = Moe::under(&RoundingContract::FUSED);
    let (e, w) = (array![[256.0], [0.75], [0.5]], array![[1.0, 1.0, 1.0]]);
    assert_eq!(oracle(&p, &e, &w, &array![[0, 1, 2]]), array![[258.0]]);
    let (e, w, chosen) = lost();
    assert_eq!(oracle(&p, &e, &w, &chosen), array![[258.0]]);
}

fn ratio(p: &Moe, e: &Array2<f64>, w: &Array2<f64>) -> f64 {
    let chosen = Array2::from_shape_fn(w.dim(), |(_, slot)| slot);
    let want = oracle(&ideal(), e, w, &chosen);
    let got = in_f32(p, &e.mapv(f32::of), &w.mapv(f32::of), &chosen);
    reached(&got, &want, &p.bound(&Tracked::exact(e.clone()), &Tracked::exact(w.clone()), &want))
}

/// Eight experts; the first says 1, each of the others a little more than half an ulp of it, which rounds up. Of k + 1
/// roundings, k products and a first addition are exact.
#[test]
fn the_bound_is_reached_by_adding_each() {
    let mut e = Array2::from_elem((8, 1), 2.0_f64.powi(-8) * (1.0 + 2.0_f64.powi(-7)));
    e[[0, 0]] = 1.0;
    let ratio = ratio(&Moe::under(&RoundingContract::EAGER_BF16), &e, &Array2::ones((1, 8)));
    assert!((0.7..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_bound_is_reached_by_adding_once() {
    let ratio = ratio(&Moe::under(&RoundingContract::FUSED), &array![[1.0], [2.0_f64.powi(-8)]], &array![[1.0, 1.0]]);
    assert!((0.99..=1.0).contains(&ratio), "{ratio}");
}

/// A product that is rounded by f32's u and then by bf16's v is off by up to u + v + u·v: one that is off by exactly so much
/// is inside, and leaves nothing of the bound; u + v alone would call it a fault.
#[test]
fn two_roundings_have_a_product() {
    let p = Moe::under(&RoundingContract::EAGER_BF16);
    let (u, v) = (f32::UNIT_ROUNDOFF, Storage::Bf16.unit_roundoff());
    let (e, w, chosen) = (array![[1.0]], array![[1.0]], array![[0]]);
    let want = contribution(0, e.view(), w.view(), chosen.view());
    let bound = p.bound_contribution(0, &Tracked::exact(e), &Tracked::exact(w), chosen.view());
    let ratio = reached(&(&want * ((1.0 + u) * (1.0 + v))), &want, &bound);
    assert!((0.999_999_999..=1.0).contains(&ratio), "{ratio}");
    assert!(u + v < bound.certain[[0, 0]] && bound.certain[[0, 0]] < u + v + 1.001 * u * v);
}

#[test]
fn the_bound_is_reached_by_input_errors() {
    let with = |x: Array2<f64>, e: f64, carried| {
        let mut tracked = Tracked::exact(x);
        let error = tracked.error.as_mut().expect("exact is tracked");
        error.certain.fill(e);
        error.carried = carried;
        tracked
    };
    let (e, w) = (with(array![[1.0], [-2.0]], 0.25, 2), with(array![[0.5, 0.5]], 0.125, 1));
    let chosen = array![[0, 1]];
    let want = oracle(&ideal(), &e.value, &w.value, &chosen);
    let got = oracle(&ideal(), &array![[1.25], [-1.75]], &array![[0.625, 0.375]], &chosen);
    let bound = ideal().bound(&e, &w, &want);
    assert!(reached(&got, &want, &bound) > 0.85);
    assert_eq!((bound.carried, ideal().bound_contribution(0, &e, &w, chosen.view()).carried), (2, 2));
    let part = contribution(0, array![[1.25], [-1.75]].view(), array![[0.625, 0.375]].view(), chosen.view());
    let bound = ideal().bound_contribution(0, &e, &w, chosen.view());
    assert!(reached(&part, &contribution(0, e.view(), w.view(), chosen.view()), &bound) > 0.999);
}

#[test]
fn c1_rows_that_nobody_chose() {
    let err = moe(&ideal(), array![[1.0]].view(), array![[0.5, 0.5]].view(), array![[0, 1]].view())
        .expect_err("against the contract");
    assert_eq!(err.to_string(), "moe C1: rows of e = 1, expected n·k = 2");
}

#[test]
fn c2_weights_and_choices_of_different_shapes() {
    let (e, w) = (array![[1.0], [1.0]], array![[0.5, 0.5]]);
    let err = moe(&ideal(), e.view(), w.view(), array![[0]].view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "moe C2: shape of C = (1, 1), expected that of w, (1, 2)");
}

/// Any layout of the choices will do.
#[test]
fn choices_may_be_a_transposed_view() {
    let (e, w) = (array![[1.0], [2.0]], array![[0.5, 0.25]]);
    let columns = array![[1], [0]];
    assert_eq!(moe(&ideal(), e.view(), w.view(), columns.t()), Ok(array![[1.0]]));
    let rows = array![[0, 1], [2, 3]];
    let p = Moe::under(&RoundingContract { activations: Storage::F32, ..RoundingContract::EAGER_BF16 });
    let e = array![[1.0], [2.0], [3.0], [4.0]];
    assert_eq!(moe(&p, e.view(), Array2::ones((2, 2)).view(), rows.t()), Ok(array![[3.0], [7.0]]));
}

proptest! {
    /// A power of two scales exactly, so that only the sum rounds; and h is not scaled.
    #[test]
    fn the_shared_expert_is_added_to_twice_the_sum(case in case_of(finite())) {
        let (y, h) = (case.of(&case.params()), case.outputs.slice(ndarray::s![..case.w.nrows(), ..]));
        let p = WithShared::under(&case.contract, &Semantics::RELEASED, 2.0);
        let z = with_shared(&p, y.view(), h).expect("good");
        prop_assert_eq!(z, (&y * 2.0 + h).mapv(|z| p.stored.round(z)));
    }

    #[test]
    fn a_device_that_adds_the_shared_expert_stays_within_the_bound(case in case(), scale in 0.1..5.0_f64) {
        let (y, h) = (case.noise.on(&case.outputs, 0), case.noise.on(&case.outputs.mapv(|e| e / 2.0), 1));
        for scale in [scale, 2.0, 1.0] {
            let under = |contract: &RoundingContract| WithShared::under(contract, &Semantics::RELEASED, scale);
            let ideal = under(&RoundingContract::IDEAL);
            let want = with_shared(&ideal, y.tracked.view(), h.tracked.view()).expect("good");
            let p = under(&case.contract);
            let got = with_shared(&p, y.f32().view(), h.f32().view()).expect("good").mapv(f64::from);
            within(&got, &want, &p.bound(&y.tracked, &h.tracked, &want))?;
        }
    }

    #[test]
    fn random_errors_beside_the_shared_expert_stay_within_the_likely_bound(case in case_of(random())) {
        let (y, h) = (case.noise.on(&case.outputs, 0), case.noise.on(&case.outputs.mapv(|e| e / 2.0), 1));
        let under = |contract: &RoundingContract| WithShared::under(contract, &Semantics::RELEASED, 2.0);
        let want = with_shared(&under(&RoundingContract::IDEAL), y.tracked.view(), h.tracked.view()).expect("good");
        let p = under(&case.contract);
        let got = with_shared(&p, y.f32().view(), h.f32().view()).expect("good").mapv(f64::from);
        likely(&got, &want, &p.bound(&y.tracked, &h.tracked, &want))?;
    }
}

/// 3 · 1.0078125 = 3.0234375 is 3.03125 in bf16 (R3), which is not left of it where that is taken away; 3 + 2⁻⁹ is 3 (R4).
#[test]
fn r3_and_r4_round_the_product_and_the_sum() {
    let p = WithShared::under(&RoundingContract::FUSED, &Semantics::RELEASED, 3.0);
    let z = |y: f64, h: f64| with_shared(&p, array![[y]].view(), array![[h]].view()).expect("good")[[0, 0]];
    assert_eq!(z(1.007_812_5, 0.0), 3.03125);
    assert_eq!(z(1.007_812_5, -3.03125), 0.0);
    assert_eq!(z(1.0, 2.0_f64.powi(-9)), 3.0);
}

/// Slips of ports: 2·y + h = 11; without ς 8; ς for both 16; 1/ς for h 8.5; ς twice 17.
#[test]
fn slips_of_the_scale() {
    let z = |semantics: Semantics| {
        let p = WithShared::under(&RoundingContract::IDEAL, &semantics, 2.0);
        with_shared(&p, array![[3.0]].view(), array![[5.0]].view()).expect("good")[[0, 0]]
    };
    let released = Semantics::RELEASED;
    assert_eq!(z(released), 11.0);
    assert_eq!(z(Semantics { routed_scale: Some(1.0), ..released }), 8.0);
    assert_eq!(z(Semantics { routed_scale: Some(4.0), ..released }), 17.0);
    assert_eq!(z(Semantics { shared_scale: SharedScale::Routed, ..released }), 16.0);
    assert_eq!(z(Semantics { shared_scale: SharedScale::Reciprocal, ..released }), 8.5);
}

#[test]
fn the_bound_of_the_scaled_sum_is_reached() {
    let p = |contract| WithShared::under(contract, &Semantics::RELEASED, 3.0);
    let mut most = 0.0_f64;
    for i in 0..128 {
        let (y, h) = (array![[1.0 + f64::from(i) / 128.0]], array![[0.003]]);
        let want = with_shared(&p(&RoundingContract::IDEAL), y.view(), h.view()).expect("good");
        let got = with_shared(&p(&RoundingContract::FUSED), y.view(), h.view()).expect("good");
        let bound = p(&RoundingContract::FUSED).bound(&Tracked::exact(y), &Tracked::exact(h), &want);
        most = most.max(reached(&got, &want, &bound));
    }
    assert!((0.5..=1.0).contains(&most), "{most}");
}

#[test]
fn c3_a_shared_expert_of_another_shape() {
    let p = WithShared::under(&RoundingContract::IDEAL, &Semantics::RELEASED, 2.0);
    let error = with_shared(&p, array![[1.0, 2.0]].view(), array![[1.0]].view()).expect_err("against the contract");
    assert_eq!(error.to_string(), "moe C3: shape of h = (1, 1), expected that of y, (1, 2)");
}
