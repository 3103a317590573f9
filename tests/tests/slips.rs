//! Slips of ports, which operators compute as variants: what they compute, and that f32 stays within their bounds.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::config::Coefficients;
use reference::grid::Grid;
use reference::media::Medium;
use reference::ops::axial_rope::{AxialRope, axial_rope};
use reference::ops::gelu::{self, Share};
use reference::ops::masked_scatter::{marked, order};
use reference::ops::moe::{Moe, weighed_input, within_capacity};
use reference::ops::rms_norm::{RmsNorm, centred};
use reference::ops::router::{Router, choice, chosen, scores, top_k, weights};
use reference::ops::swiglu::{GateFunction, Swiglu, swiglu};
use reference::ops::swiglu_oai::{SwigluOai, swiglu_oai};
use reference::semantics::{
    AxialAxes, AxialOrder, AxialPair, ChunkTime, Expert, ExpertChoice, ExpertGroups, FeaturePlaces, GateClamp,
    RouterScore, RoutingWeights, Semantics, UpClamp,
};
use reference::{Rounding, RoundingContract, Tracked};
use tests::judge::within;
use tests::strategy::{Contract, Matrix, Noise, contract, filled, finite, noise};

fn router(semantics: &Semantics, k: usize) -> Router {
    Router::under(&RoundingContract::IDEAL, semantics, k)
}

/// The best two of four groups of two: 0.5 + 0.4 and 0.6 + 0.2, of which the best three are 0.6, 0.5 and 0.4.
#[test]
fn experts_of_the_best_groups() {
    let groups = Some(ExpertGroups { groups: 4, chosen: 2 });
    let p = router(&Semantics { expert_groups: groups, ..Semantics::DOCUMENTS }, 3);
    let r = array![[0.5, 0.4, 0.7, 0.0, 0.6, 0.2, 0.3, 0.3]];
    let c = choice(&p, r.view(), Array2::zeros((1, 8)).row(0)).expect("good");
    assert_eq!(
        c,
        array![[0.5, 0.4, f64::NEG_INFINITY, f64::NEG_INFINITY, 0.6, 0.2, f64::NEG_INFINITY, f64::NEG_INFINITY]]
    );
    assert_eq!(top_k(3, c.view()), array![[4, 0, 1]]);
    let wrong = Some(ExpertGroups { groups: 3, chosen: 2 });
    let p = router(&Semantics { expert_groups: wrong, ..Semantics::DOCUMENTS }, 3);
    assert_eq!(
        p.check(8, 8).expect_err("3 do not divide 8").to_string(),
        "router C3: groups = 3, expected a divisor of E = 8"
    );
}

#[test]
fn the_first_or_last_expert_is_left_out_or_the_best_is_all() {
    let of = |expert_choice| {
        let p = router(&Semantics { expert_choice, ..Semantics::DOCUMENTS }, 2);
        let c = choice(&p, array![[0.9, 0.1, 0.95]].view(), array![0.0, 0.0, 0.0].view()).expect("good");
        chosen(&p, c.view())
    };
    assert_eq!(of(ExpertChoice::Distinct), array![[2, 0]]);
    assert_eq!(of(ExpertChoice::NotFirst), array![[2, 1]]);
    assert_eq!(of(ExpertChoice::NotLast), array![[0, 1]]);
    assert_eq!(of(ExpertChoice::Best), array![[2, 2]]);
}

/// σ(ln 3) = 3/4; softplus(0) = ln 2; a softmax of logits 0 and ln 3 is 1/4 and 3/4.
#[test]
fn scores_and_weights_by_hand() {
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-15, "{a} {b}");
    let of = |router_score, routing_weights| {
        let p = router(&Semantics { router_score, routing_weights, ..Semantics::DOCUMENTS }, 2);
        let z = array![[0.0, 3.0_f64.ln()]];
        let r = scores(&p, z.view());
        let c = choice(&p, r.view(), array![3.0_f64.ln(), 0.0].view()).expect("good");
        let w = weights(&p, r.view(), c.view(), array![[0, 1]].view());
        (r, c, w)
    };
    let (_, c, w) = of(RouterScore::BiasedSigmoid, RoutingWeights::Unbiased);
    near(c[[0, 0]], 0.75);
    near(w[[0, 0]], 0.5);
    let (_, c, w) = of(RouterScore::SoftmaxChosen, RoutingWeights::Unbiased);
    near(c[[0, 0]], 0.5 + 3.0_f64.ln());
    near(w[[0, 0]], 0.25);
    near(of(RouterScore::SqrtSoftplus, RoutingWeights::Unbiased).0[[0, 0]], 2.0_f64.ln().sqrt());
    assert_eq!(of(RouterScore::Sigmoid, RoutingWeights::Ones).2, array![[1.0, 1.0]]);
    assert_eq!(of(RouterScore::Sigmoid, RoutingWeights::Uniform).2, array![[0.5, 0.5]]);
}

/// The third token of expert 1 finds no room.
#[test]
fn later_tokens_of_a_full_expert_have_no_weight() {
    let chosen = array![[1, 0], [1, 2], [2, 1]];
    let w = within_capacity(2, Tracked::plain(Array2::<f64>::ones((3, 2))), chosen.view());
    assert_eq!(w.value, array![[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]);
}

#[test]
fn features_in_other_places() {
    let grids = [Grid { t: 1, h: 2, w: 2 }, Grid { t: 1, h: 2, w: 4 }];
    assert_eq!(order(false, &grids, 4), [0, 1, 2]);
    assert_eq!(order(true, &grids, 4), [1, 2, 0]);
    assert!(FeaturePlaces::ReversedVideos.is_reversed(Medium::Video));
    assert!(!FeaturePlaces::ReversedVideos.is_reversed(Medium::Image));
    let m = || vec![false, true, true, false];
    assert_eq!(marked(FeaturePlaces::Early, m()), [true, true, false, false]);
    assert_eq!(marked(FeaturePlaces::Late, m()), [false, false, true, true]);
}

/// Two times of 2×4 patches: of each the first four are the left square, so that the second time's fifth patch is at time 1,
/// height 0 and width 2. Row by row, four patches are a row, and it is at height 1 and width 0. Each axis has one angle, its place.
#[test]
fn axes_and_order_of_angles() {
    let of = |order, axes| {
        let (pair, time) = (AxialPair::Half, ChunkTime::Reset);
        let p = AxialRope { head_dim: 6, theta: 1e4, side: 2, pair, time, order, axes, table: Rounding::NONE };
        axial_rope::<f64>(&p, &[Grid { t: 2, h: 2, w: 4 }]).expect("good").sin.value.row(12).to_vec()
    };
    let twice = |places: &[f64]| [places, places].concat().into_iter().map(f64::sin).collect::<Vec<_>>();
    assert_eq!(of(AxialOrder::Merged, AxialAxes::TimeHeightWidth), twice(&[1.0, 0.0, 2.0]));
    assert_eq!(of(AxialOrder::Raster, AxialAxes::TimeHeightWidth), twice(&[1.0, 1.0, 0.0]));
    assert_eq!(of(AxialOrder::Merged, AxialAxes::TimeWidthHeight), twice(&[1.0, 2.0, 0.0]));
    assert_eq!(of(AxialOrder::Merged, AxialAxes::HeightWidthTime), twice(&[0.0, 2.0, 1.0]));
    assert_eq!(of(AxialOrder::Merged, AxialAxes::ZeroHeightWidth), twice(&[0.0, 0.0, 2.0]));
    assert_eq!(of(AxialOrder::Merged, AxialAxes::HeightWidth), twice(&[0.0, 2.0]));
}

/// x and y \[n, d\] under a contract, with errors of both.
fn pair() -> impl Strategy<Value = (Contract, Matrix, Matrix, Noise)> {
    (contract(), noise(), (1..4_usize, 1..20_usize)).prop_flat_map(|(contract, noise, dim)| {
        let storage = contract.activations;
        let drawn = (filled(dim, finite(), storage), filled(dim, finite(), storage));
        drawn.prop_map(move |(x, y)| (contract, x, y, noise))
    })
}

proptest! {
    /// A GELU in SiLU's place, without an up projection, is `gelu`.
    #[test]
    fn gates_are_gelus((contract, g, _, noise) in pair(), which in 0..3_usize) {
        let share = [Share::Erf, Share::Tanh, Share::Sigmoid][which];
        let function = GateFunction::Gelu(share);
        let p = Swiglu { function, ..Swiglu::under(&contract, Expert::Nongated) };
        let whole = gelu::Gelu::under(&contract, share);
        let g = noise.on(&g, 0);
        let got = swiglu(&p, g.f32().view(), g.f32().view()).expect("good");
        prop_assert_eq!(&got, &gelu::gelu(&whole, g.f32().view()));
    }

    /// The gate's other functions.
    #[test]
    fn gates_stay_within_the_bound((contract, g, u, noise) in pair(), which in 0..4_usize) {
        let shares = [Share::Erf, Share::Tanh, Share::Sigmoid];
        let function = shares.get(which).map_or(GateFunction::Relu, |share| GateFunction::Gelu(*share));
        let of = |contract: &RoundingContract| Swiglu { function, ..Swiglu::under(contract, Expert::Gated) };
        let want = swiglu(&of(&RoundingContract::IDEAL), g.view(), u.view()).expect("good");
        let (g, u) = (noise.on(&g, 0), noise.on(&u, 1));
        let p = of(&contract);
        let got = swiglu(&p, g.f32().view(), u.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound(&g.tracked, &u.tracked, &want))?;
    }

    /// Other clamps of the up projection, and one of the gate behind its sigmoid.
    #[test]
    fn clamps_stay_within_the_bound((contract, g, u, noise) in pair(), which in 0..4_usize, behind in any::<bool>()) {
        let up_clamp = [UpClamp::Symmetric, UpClamp::Upper, UpClamp::None, UpClamp::Sum][which];
        let semantics = Semantics { up_clamp, activated_limit: behind.then_some(1.3), ..Semantics::RELEASED };
        let coefficients = Coefficients { alpha: 1.702, limit: 2.3, beta: 1.0 };
        let of = |c: &RoundingContract| SwigluOai::under(c, coefficients, GateClamp::Upper).slipping(&semantics);
        let want = swiglu_oai(&of(&RoundingContract::IDEAL), g.view(), u.view()).expect("good");
        let (g, u) = (noise.on(&g, 0), noise.on(&u, 1));
        let p = of(&contract);
        let got = swiglu_oai(&p, g.f32().view(), u.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound(&g.tracked, &u.tracked, &want))?;
    }

    /// Weights on the experts' inputs; a weight is a column.
    #[test]
    fn weighed_inputs_stay_within_the_bound((contract, x, w, noise) in pair()) {
        let column = |m: &Array2<f64>| m.slice(ndarray::s![.., ..1]).to_owned();
        let want = weighed_input(&Moe::under(&RoundingContract::IDEAL), x.view(), column(&w).view());
        let (x, w) = (noise.on(&x, 0), noise.on(&w, 1));
        let p = Moe::under(&contract);
        let of_w = w.tracked.columns(0..1);
        let got = weighed_input(&p, x.f32().view(), w.f32().slice(ndarray::s![.., ..1])).mapv(f64::from);
        within(&got, &want, &p.bound_input(&x.tracked, &of_w))?;
    }

    #[test]
    fn centred_rows_stay_within_the_bound((contract, x, _, noise) in pair()) {
        let want = centred((*x).clone());
        let x = noise.on(&x, 0);
        let bound = RmsNorm::centred_bound(&contract, x.tracked.clone()).error_or_exact();
        within(&centred(x.f32()).mapv(f64::from), &want, &bound)?;
    }
}
