//! The router's three bounds: of scores, of sums with the bias, and of weights for a given choice.

use reference::semantics::Renormalize;

use super::*;

/// A kernel's scores: the exponential off by two ulps.
fn kernel(p: &Router, z: &Array2<f32>, seed: u64) -> Array2<f32> {
    let mut exp = Exponential::new(seed);
    match p.score {
        RouterScore::Sigmoid => z.mapv(|z| (1.0 + exp.base_2(z * -std::f32::consts::LOG2_E)).recip()),
        _ => scores(p, z.view()),
    }
}

/// Every step from inputs that are off, each against its own bound; the device's choice is replayed.
fn judge(
    case: &Case,
    each: impl Fn(&Array2<f64>, &Array2<f64>, &reference::bound::ErrorBound) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (p, ideal, b) = (case.params(), case.ideal(), case.bias());
    let wide = |x: &Array2<f32>| x.mapv(f64::from);
    let narrow = |x: &Array2<f64>| x.mapv(f32::of);

    let z = case.noise.on(&case.z, 0);
    let r = scores(&ideal, case.z.view());
    let bound = p.bound_scores(&z.tracked, &r);
    each(&wide(&scores(&p, z.f32().view())), &r, &bound)?;
    each(&wide(&kernel(&p, &z.f32(), 1)), &r, &bound)?;

    // No device's sigmoid or softmax is negative.
    let mut r = case.noise.on(&r.mapv(|r| f32::of(r).wide()), 1);
    if matches!(p.score, RouterScore::Sigmoid | RouterScore::Softmax | RouterScore::SqrtSoftplus) {
        r.moved.mapv_inplace(|r| r.max(0.0));
    }
    let c = choice(&ideal, r.tracked.view(), b.view()).expect("good");
    let bound = p.bound_choice(&r.tracked, &c);
    each(&wide(&choice(&p, r.f32().view(), b.mapv(f32::of).view()).expect("good")), &c, &bound)?;

    let c = case.noise.on(&c.mapv(|c| f32::of(c).wide()), 2);
    let chosen = top_k(case.k, narrow(&c.moved).view());
    let w = weights(&ideal, r.tracked.view(), c.tracked.view(), chosen.view());
    let bound = p.bound_weights(&r.tracked, &c.tracked, chosen.view(), &w);
    let got = wide(&weights(&p, r.f32().view(), c.f32().view(), chosen.view()));
    if w.iter().chain(&got).all(|w| w.is_finite()) {
        return each(&got, &w, &bound);
    }
    let nan = w.iter().chain(&got).any(|w| w.is_nan());
    prop_assert!(!nan || within(&got, &w, &bound).is_err(), "nothing over nothing has no bound");
    Ok(())
}

proptest! {
    #[test]
    fn a_device_stays_within_the_bounds(case in case()) {
        judge(&case, |got, want, bound| within(got, want, bound).map(|_| ()))?;
    }

    /// A port's slips have bounds of their own.
    #[test]
    fn a_device_that_slips_stays_within_the_bounds(case in case(), slip in 0..9_usize) {
        let (router_score, renormalize) = [
            (RouterScore::Softmax, Renormalize::Chosen),
            (RouterScore::Sigmoid, Renormalize::Nothing),
            (RouterScore::Sigmoid, Renormalize::All),
            (RouterScore::Softmax, Renormalize::All),
            (RouterScore::SoftmaxChosen, Renormalize::Chosen),
            (RouterScore::BiasedSigmoid, Renormalize::Chosen),
            (RouterScore::SqrtSoftplus, Renormalize::Chosen),
            (RouterScore::SqrtSoftplus, Renormalize::All),
            (RouterScore::Sigmoid, Renormalize::Chosen),
        ][slip];
        let routing_weights = if slip == 8 { RoutingWeights::Uniform } else { case.semantics.routing_weights };
        let semantics = Semantics { router_score, renormalize, routing_weights, ..case.semantics };
        judge(&Case { semantics, ..case }, |got, want, bound| within(got, want, bound).map(|_| ()))?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bounds(case in case_of(random())) {
        judge(&case, likely)?;
    }

    /// A device may choose otherwise only where sums are within their bounds of each other.
    #[test]
    fn a_devices_choice_is_explained_by_the_bound(case in case()) {
        let (p, ideal, b) = (case.params(), case.ideal(), case.bias());
        let z = case.noise.on(&case.z, 0);
        let (r, c, ..) = route(&ideal, &case.z, &b);
        let scored = Tracked { error: Some(p.bound_scores(&z.tracked, &r)), value: r };
        let bound = p.bound_choice(&scored, &c);
        let device = choice(&p, scores(&p, z.f32().view()).view(), b.mapv(f32::of).view()).expect("good");
        let chosen = top_k(case.k, device.view());
        for (i, chosen) in chosen.rows().into_iter().enumerate() {
            let end = |e: usize, sign: f64| c[[i, e]] + sign * bound.certain[[i, e]];
            let lowest = chosen.iter().map(|&e| end(e, 1.0)).fold(f64::INFINITY, f64::min);
            let others = (0..c.ncols()).filter(|e| chosen.iter().all(|c| c != e));
            prop_assert!(others.map(|e| end(e, -1.0)).all(|other| other <= lowest));
        }
    }
}

fn tracked(x: Array2<f64>, e: f64) -> Tracked<f64> {
    let mut tracked = Tracked::exact(x);
    let error = tracked.error.as_mut().expect("exact is tracked");
    error.certain.fill(e);
    error.carried = 4;
    tracked
}

fn ideal() -> Router {
    by_hand(&Semantics::DOCUMENTS)
}

/// The steepest place, the edge of a steeper one, and the tail.
#[test]
fn the_bound_of_scores_is_reached() {
    for (z, e, least) in [(0.0, 0.01, 0.99), (2.0, 2.0, 0.75), (-9.0, 0.5, 0.75)] {
        let (z, moved) = (array![[z]], array![[z + if z > 0.0 { -e } else { e }]]);
        let want = scores(&ideal(), z.view());
        let ratio = reached(&scores(&ideal(), moved.view()), &want, &ideal().bound_scores(&tracked(z, e), &want));
        assert!((least..=1.0).contains(&ratio), "{ratio}");
    }
}

/// Where scores are not small, the exponential is off by more: below 0 its error arrives nearly whole.
#[test]
fn the_bound_of_scores_is_reached_by_the_exponential() {
    let p = Router::under(&RoundingContract::EAGER_F32, &Semantics::DOCUMENTS, 2);
    let most = (0..200).map(|seed| {
        let z = Array2::from_elem((1, 64), -1.0 + seed as f64 / 256.0);
        let want = scores(&ideal(), z.view());
        reached(&kernel(&p, &z.mapv(f32::of), seed).mapv(f64::from), &want, &p.bound_scores(&Tracked::exact(z), &want))
    });
    let most = most.fold(0.0, f64::max);
    assert!((0.5..=1.0).contains(&most), "{most}");
}

/// Far below 0 a sigmoid made of a tangent, (1 + tanh(z/2))/2, is off by more than one made of an exponential: here by the tangent's
/// two units in the last place.
#[test]
fn the_bound_of_small_scores_is_reached_by_the_tangent() {
    let p = Router::under(&RoundingContract::EAGER_F32, &Semantics::DOCUMENTS, 2);
    let sigmoid = |z: &f64| {
        let tangent = f32::of((z / 2.0).tanh());
        f64::from(0.5 * (1.0 + f32::from_bits(tangent.to_bits() - 2)))
    };
    let most = (0..200).map(|step| {
        let z = Array2::from_elem((1, 64), -8.0 - f64::from(step) / 64.0);
        let want = scores(&ideal(), z.view());
        reached(&z.map(sigmoid), &want, &p.bound_scores(&Tracked::exact(z), &want))
    });
    let most = most.fold(0.0, f64::max);
    assert!((0.5..=1.0).contains(&most), "{most}");
}

/// Far below 0 σ and softplus are both 0 in f64; in f32 what is flushed of softplus is 2⁻¹²⁶ at most.
#[test]
fn roots_of_nothing_have_a_bound() {
    let p = Router {
        score: RouterScore::SqrtSoftplus,
        ..Router::under(&RoundingContract::FUSED, &Semantics::DOCUMENTS, 1)
    };
    for z in [-800.0, -87.4] {
        let z = array![[z]];
        let want = scores(&p, z.view());
        let bound = p.bound_scores(&tracked(z, 0.0), &want);
        let flushed = 2.0_f64.powi(-63);
        assert!((flushed..2.0 * flushed).contains(&bound.certain[[0, 0]]), "{bound:?}");
        assert!(bound.sigma[[0, 0]] >= flushed / 2.0 && reached(&array![[0.0]], &want, &bound) <= 1.0, "{bound:?}");
    }
}

#[test]
fn the_bound_of_the_choice_is_reached() {
    // The score is off by its bound; then the sum rounds by nearly half an ulp of f32.
    let p = Router::under(&RoundingContract::EAGER_BF16, &Semantics::DOCUMENTS, 1);
    let b = array![1.0];
    let want = choice(&ideal_of(1), array![[0.5]].view(), b.view()).expect("good");
    let got = choice(&p, array![[0.501]].view(), b.view()).expect("good");
    let ratio = reached(&got, &want, &p.bound_choice(&tracked(array![[0.5]], 0.001), &want));
    assert!((0.99..=1.0).contains(&ratio), "{ratio}");
    let p = Router::under(&RoundingContract::EAGER_F32, &Semantics::DOCUMENTS, 1);
    let (r, b) = (array![[2.0_f64.powi(-24)]], array![1.0]);
    let want = choice(&ideal_of(1), r.view(), b.view()).expect("good");
    let got = choice(&p, r.mapv(f32::of).view(), b.mapv(f32::of).view()).expect("good").mapv(f64::from);
    assert!(reached(&got, &want, &p.bound_choice(&Tracked::exact(r), &want)) > 0.99);
}

fn ideal_of(k: usize) -> Router {
    Router { top_k: k, ..ideal() }
}

/// One score up, the others down.
#[test]
fn the_bound_of_weights_is_reached() {
    let (r, moved) = (array![[0.5, 0.25, 0.25]], array![[0.625, 0.125, 0.125]]);
    let chosen = array![[0, 1, 2]];
    let p = ideal_of(3);
    let want = weights(&p, r.view(), r.view(), chosen.view());
    let got = weights(&p, moved.view(), moved.view(), chosen.view());
    let r = tracked(r, 0.125);
    let bound = p.bound_weights(&r, &r, chosen.view(), &want);
    assert!(reached(&got, &want, &bound) > 0.999);
    assert_eq!(bound.carried, 4);
}

/// D36: the largest logit up, the others down.
#[test]
fn d36_the_bound_of_weights_is_reached() {
    let p = Router { score: RouterScore::SoftmaxTopk, ..ideal_of(2) };
    let (z, moved) = (array![[0.0, 0.0]], array![[0.01, -0.01]]);
    let chosen = array![[0, 1]];
    let want = weights(&p, z.view(), z.view(), chosen.view());
    let got = weights(&p, moved.view(), moved.view(), chosen.view());
    let z = tracked(z, 0.01);
    let ratio = reached(&got, &want, &p.bound_weights(&z, &z, chosen.view(), &want));
    assert!((0.45..=1.0).contains(&ratio), "{ratio}");
}

/// k + 1 roundings and R1, of which R1 is nearly all.
#[test]
fn the_bound_of_weights_is_reached_by_r1() {
    let contract = RoundingContract { routing: RoutingRound::Activations, ..RoundingContract::EAGER_BF16 };
    let p = Router::under(&contract, &Semantics::DOCUMENTS, 2);
    // 129/512 and 383/512 of the sum.
    let r = array![[129.0 / 512.0, 383.0 / 512.0]];
    let chosen = array![[1, 0]];
    let want = weights(&ideal(), r.view(), r.view(), chosen.view());
    let got = weights(&p, r.view(), r.view(), chosen.view());
    let bound = p.bound_weights(&Tracked::exact(r.clone()), &Tracked::exact(r), chosen.view(), &want);
    assert!(reached(&got, &want, &bound) > 0.6);
}
