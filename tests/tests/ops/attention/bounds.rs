//! Attention's bounds: of the whole operator, of scores, of probabilities, and of the context of given probabilities.

use super::*;
use reference::semantics::{
    CacheHalf, Causal, KeyHead, Merge, Merged, OperandType, ScoreType, Semantics, Split, Unseen, Zeros,
};
use strum::VariantNames;
use tests::judge::{likely, reached};
use tests::simulated::{Kernel, Order};
use tests::strategy::Perturbed;

impl Case {
    fn inputs(&self) -> [Perturbed; 3] {
        [self.noise.on(&self.q, 0), self.noise.on(&self.k, 1), self.noise.on(&self.v, 2)]
    }

    fn kernels(&self) -> Vec<Kernel> {
        let orders = Order::of(self.contract.accumulator).into_iter().enumerate();
        orders.map(|(i, order)| Kernel { order, tile: 16 << (i % 3), seed: i as u64 }).collect()
    }
}

/// Whether no running sum of weighted values, whose weights are at most 1, leaves the range of what it is kept in.
fn holds(p: &Attention, v: &Array2<f64>) -> bool {
    let largest = v.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    p.sum == Storage::Real || 2.0 * v.nrows() as f64 * largest < 65504.0
}

fn in_f32(p: &Attention, [q, k, v]: [&Array2<f32>; 3]) -> Array2<f64> {
    attention(p, q.view(), k.view(), v.view()).expect("the case keeps the contract").mapv(f64::from)
}

/// What a port sees beside its keys, or does not see, and how it puts splits together.
fn weighing() -> impl Strategy<Value = Semantics> {
    let split = prop_oneof![(1..20_usize).prop_map(Split::Keys), (1..5_usize).prop_map(Split::Parts)];
    let splits = (prop::sample::select(Merge::VARIANTS), split);
    let splits = splits.prop_map(|(by, split)| Merged { by: by.parse().expect("a way"), split });
    let unseen = prop_oneof![
        (0..9_usize, 9..20_usize).prop_map(|(from, to)| Unseen::Keys(from, to)),
        (1..5_usize, 5..20_usize).prop_map(|(from, to)| Unseen::Before(from, to)),
        (2..5_usize, 0..2_usize).prop_map(|(size, at)| Unseen::Each(size, at)),
        Just(Unseen::Context),
        (1..9_usize).prop_map(Unseen::Prompt),
    ];
    let zeros = prop_oneof![(1..9_usize).prop_map(Zeros::Count), (2..20_usize).prop_map(Zeros::Tile)];
    let half = prop::sample::select(vec![None, Some(CacheHalf::Keys), Some(CacheHalf::Values)]);
    let narrow = prop::sample::select(vec![OperandType::Own, OperandType::E4m3, OperandType::Bf16]);
    let all = (prop::option::of(splits), prop::option::of(unseen), prop::option::of(zeros), half, narrow);
    all.prop_map(|(merged, unseen, unfilled, tiled_heads, probability_type)| Semantics {
        probability_type,
        merged,
        unseen,
        unfilled,
        tiled_heads,
        ..Semantics::DOCUMENTS
    })
}

proptest! {
    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, want) = (case.params(), case.want());
        let [q, k, v] = case.inputs();
        prop_assume!(holds(&p, &v.moved));
        let bound = p.bound(&q.tracked, &k.tracked, &v.tracked, &want);
        within(&in_f32(&p, [&q.f32(), &k.f32(), &v.f32()]), &want, &bound)?;
        for kernel in case.kernels() {
            within(&kernel.attention(&p, &q.moved, &k.moved, &v.moved), &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, want) = (case.params(), case.want());
        let [q, k, v] = case.inputs();
        prop_assume!(holds(&p, &v.moved));
        let bound = p.bound(&q.tracked, &k.tracked, &v.tracked, &want);
        for kernel in case.kernels() {
            likely(&kernel.attention(&p, &q.moved, &k.moved, &v.moved), &want, &bound)?;
        }
    }

    /// A port's slips have bounds of their own.
    #[test]
    fn a_device_that_slips_stays_within_the_bounds(
        case in case(),
        causal in prop::sample::select(vec![Causal::Ahead, Causal::Strict, Causal::All, Causal::Inclusive]),
        key_head in prop::sample::select(vec![KeyHead::Tiled, KeyHead::Grouped]),
        attention_softmax in prop::sample::select(vec![ScoreType::F32, ScoreType::Bf16]),
        soft_cap in prop::option::of(0.5..60.0),
        attention_sink in prop::option::of(-5.0..5.0),
        (window, prefix) in (prop::option::of(1..20_usize), prop::option::of(1..20_usize)),
        causal_tile in prop::option::of(1..20_usize),
        more in weighing(),
    ) {
        // What is rounded twice may be two steps apart: that bound takes no other slip.
        let (soft_cap, attention_sink) = match attention_softmax {
            ScoreType::F32 => (soft_cap, attention_sink),
            ScoreType::Bf16 => (None, None),
        };
        let more = if attention_softmax == ScoreType::F32 { more } else { Semantics::DOCUMENTS };
        let slips = Semantics { soft_cap, attention_sink, window, prefix, causal_tile, ..more };
        let semantics = Semantics { causal, key_head, attention_softmax, ..slips };
        let slip = |p: Attention| p.slipping(&semantics, 0);
        let (p, ideal) = (slip(case.params()), slip(case.ideal()));
        let [q, k, v] = case.inputs();
        let want = oracle(&ideal, &case.q, &case.k, &case.v);
        let bound = p.bound(&q.tracked, &k.tracked, &v.tracked, &want);
        within(&in_f32(&p, [&q.f32(), &k.f32(), &v.f32()]), &want, &bound)?;
        let want = probabilities(&ideal, case.q.view(), case.k.view()).expect("good");
        let got = probabilities(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound_probabilities(&q.tracked, &k.tracked, &want))?;
    }

    #[test]
    fn scores_stay_within_their_bound(case in case()) {
        let (p, [q, k, _]) = (case.params(), case.inputs());
        let want = scores(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let got = scores(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound_scores(&q.tracked, &k.tracked, &want))?;
    }

    #[test]
    fn random_errors_of_scores_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, [q, k, _]) = (case.params(), case.inputs());
        let want = scores(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let got = scores(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        likely(&got, &want, &p.bound_scores(&q.tracked, &k.tracked, &want))?;
    }

    #[test]
    fn probabilities_stay_within_their_bound(case in case()) {
        let (p, [q, k, _]) = (case.params(), case.inputs());
        let want = probabilities(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let got = probabilities(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound_probabilities(&q.tracked, &k.tracked, &want))?;
    }

    #[test]
    fn random_errors_of_probabilities_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, [q, k, _]) = (case.params(), case.inputs());
        let want = probabilities(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let got = probabilities(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        likely(&got, &want, &p.bound_probabilities(&q.tracked, &k.tracked, &want))?;
    }

    /// Of probabilities and values that are off.
    #[test]
    fn a_context_stays_within_its_bound(case in case()) {
        let (p, ideal) = (case.params(), case.ideal());
        let shown = probabilities(&ideal, case.q.view(), case.k.view()).expect("good").mapv(|p| f32::of(p).wide());
        let (shown, v) = (case.noise.on(&shown, 3), case.noise.on(&case.v, 2));
        let want = context(&ideal, shown.tracked.view(), case.v.view());
        let got = context(&p, shown.f32().view(), v.f32().view()).mapv(f64::from);
        within(&got, &want, &p.bound_context(&shown.tracked, &v.tracked, &want))?;
    }

    #[test]
    fn random_errors_of_a_context_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, ideal) = (case.params(), case.ideal());
        let shown = probabilities(&ideal, case.q.view(), case.k.view()).expect("good").mapv(|p| f32::of(p).wide());
        let (shown, v) = (case.noise.on(&shown, 3), case.noise.on(&case.v, 2));
        let want = context(&ideal, shown.tracked.view(), case.v.view());
        let got = context(&p, shown.f32().view(), v.f32().view()).mapv(f64::from);
        likely(&got, &want, &p.bound_context(&shown.tracked, &v.tracked, &want))?;
    }

    /// A device that shows its probabilities may still have rounded them before it divided (flash).
    #[test]
    fn a_device_that_shows_its_probabilities_stays_within_the_bound(case in case()) {
        let (p, [q, k, v]) = (case.params(), case.inputs().map(|x| x.f32()));
        let shown = probabilities(&p, q.view(), k.view()).expect("good").mapv(f64::from);
        let want = context(&case.ideal(), shown.view(), v.mapv(f64::from).view());
        let bound = p.bound_context(&Tracked::exact(shown), &Tracked::exact(v.mapv(f64::from)), &want);
        within(&in_f32(&p, [&q, &k, &v]), &want, &bound)?;
    }

    #[test]
    fn a_noisy_run_stays_within_the_likely_bound(case in case_of(Just(Fill::Activation)), seed in 1..1000_u64) {
        let p = case.heads.under(&case.contract.stochastic(seed));
        let want = case.want();
        let mut bound = p.bound(&case.q.exact(), &case.k.exact(), &case.v.exact(), &want);
        // A stochastic rounding goes to the further neighbour too: twice as far, with three times the variance.
        bound.certain *= 2.0;
        bound.sigma *= 2.0;
        likely(&oracle(&p, &case.q, &case.k, &case.v), &want, &bound)?;
    }
}

fn ratio(p: &Attention, q: &Array2<f64>, k: &Array2<f64>, v: &Array2<f64>) -> f64 {
    let ideal = Heads { query: p.query_heads, key: p.key_heads, dim: p.head_dim }.under(&RoundingContract::IDEAL);
    let want = oracle(&ideal, q, k, v);
    let [q, k, v] = [q, k, v].map(|x| Tracked::exact(x.clone()));
    reached(&oracle(p, &q.value, &k.value, &v.value), &want, &p.bound(&q, &k, &v, &want))
}

/// Two keys with opposite values, and scores of 8.2035 and 8.5502 that both of R1's roundings move apart, to 8.25 and
/// 8.5.
#[test]
fn the_bound_is_reached_by_scores() {
    let p = Heads { dim: 2, ..ONE }.under(&RoundingContract::EAGER_BF16);
    let (q, k) = (array![[4.125, 4.718_75]], array![[2.8125, 0.0], [0.0, 2.5625]]);
    assert_eq!(scores(&p, q.view(), k.view()), Ok(array![[8.25, 8.5]]));
    let ratio = ratio(&p, &q, &k, &array![[1.0, 1.0], [-1.0, -1.0]]);
    assert!((0.5..=1.0).contains(&ratio), "{ratio}");
}

/// Many keys of one weight: all those of value 1 are rounded up, those of value −1 are the largest and not rounded.
#[test]
fn the_bound_is_reached_by_rounding_the_weights() {
    let p = ONE.under(&RoundingContract::FUSED);
    // e^−x just above the middle of two bf16 just above 1/2: 0.5·(1 + 2⁻⁸ + 2⁻¹¹).
    let x = -(0.5 * (1.0 + 2.0_f64.powi(-8) + 2.0_f64.powi(-11))).ln();
    let n = 64;
    let q = array![[1.0]];
    let k = Array2::from_shape_fn((3 * n, 1), |(j, _)| if j < n { 0.0 } else { -f32::of(x).wide() });
    let v = Array2::from_shape_fn((3 * n, 1), |(j, _)| if j < n { -1.0 } else { 1.0 });
    let ratio = ratio(&p, &q, &k, &v);
    assert!((0.4..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_bound_is_reached_by_input_errors() {
    let p = ONE.under(&RoundingContract::IDEAL);
    let with = |x: Array2<f64>, e: f64| {
        let mut tracked = Tracked::exact(x);
        let error = tracked.error.as_mut().expect("exact is tracked");
        error.certain.fill(e);
        error.carried = 1;
        tracked
    };
    let q = with(array![[2.0]], 0.0);
    let (k, v) = (with(array![[0.5], [0.5]], 0.01), with(array![[1.0], [-1.0]], 0.02));
    let want = oracle(&p, &q.value, &k.value, &v.value);
    let got = oracle(&p, &q.value, &array![[0.51], [0.49]], &array![[1.02], [-0.98]]);
    let bound = p.bound(&q, &k, &v, &want);
    let ratio = reached(&got, &want, &bound);
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
    assert_eq!(bound.carried, 2);
    // A query that is off moves both scores alike, as far as their keys are alike; against that there is no bound.
    let q = with(array![[2.0]], 0.01);
    let (k, v) = (with(array![[0.5], [-0.5]], 0.0), with(array![[1.0], [-1.0]], 0.0));
    let want = oracle(&p, &q.value, &k.value, &v.value);
    let got = oracle(&p, &array![[2.01]], &k.value, &v.value);
    let ratio = reached(&got, &want, &p.bound(&q, &k, &v, &want));
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
}

/// One key has all the weight, and its score is known so badly that another may have it: the mean is this key's value, but
/// for less than f64 tells. As far as no other can have it, the bound stays small.
#[test]
fn the_bound_holds_where_the_only_key_falls_behind() {
    let p = ONE.under(&RoundingContract::IDEAL);
    let (q, v) = (Tracked::exact(array![[1.0]]), Tracked::exact(array![[1.0], [3.0]]));
    for score in [40.0, 400.0, 4000.0] {
        let mut k = Tracked::exact(array![[score], [0.0]]);
        let want = oracle(&p, &q.value, &k.value, &v.value);
        let mut with = |off: f64| {
            let error = k.error.as_mut().expect("exact is tracked");
            error.certain[[0, 0]] = off;
            error.sigma[[0, 0]] = off;
            error.carried = 1;
            p.bound(&q, &k, &v, &want)
        };
        let bound = with(1.5 * score);
        let ratio = reached(&oracle(&p, &q.value, &array![[-score / 2.0], [0.0]], &v.value), &want, &bound);
        assert!((0.4..=1.0).contains(&ratio), "{score}: {ratio}");
        assert!(bound.sigma[[0, 0]] > 0.1, "{score}: {bound:?}");
        let bound = with(score / 4.0);
        assert!(bound.certain[[0, 0]] < 1e-12, "{score}: {bound:?}");
    }
}

#[test]
fn the_bounds_of_the_parts_are_reached() {
    let p = Heads { dim: 2, ..ONE }.under(&RoundingContract::EAGER_BF16);
    let ideal = Heads { dim: 2, ..ONE }.under(&RoundingContract::IDEAL);
    let (mut of_scores, mut of_probabilities, mut of_context) = (0.0_f64, 0.0_f64, 0.0_f64);
    for i in 0..512 {
        let (a, b) = (4.0 + f64::from(i) / 128.0, 4.0 - f64::from(i % 32) / 64.0);
        let (q, k) = (
            array![[a, b]].mapv(|x| Storage::Bf16.nearest(x)),
            array![[a, 0.0], [0.0, b]].mapv(|x| Storage::Bf16.nearest(x)),
        );
        let (tq, tk) = (Tracked::exact(q.clone()), Tracked::exact(k.clone()));
        let want = scores(&ideal, q.view(), k.view()).expect("good");
        let got = scores(&p, q.view(), k.view()).expect("good");
        of_scores = of_scores.max(reached(&got, &want, &p.bound_scores(&tq, &tk, &want)));
        let want = probabilities(&ideal, q.view(), k.view()).expect("good");
        let got = probabilities(&p, q.view(), k.view()).expect("good");
        of_probabilities = of_probabilities.max(reached(&got, &want, &p.bound_probabilities(&tq, &tk, &want)));
        let v = array![[a, b], [1.0, 1.0]];
        let shown = Tracked::exact(got);
        let want = context(&ideal, shown.view(), v.view());
        let got = context(&p, shown.view(), v.view());
        of_context = of_context.max(reached(&got, &want, &p.bound_context(&shown, &Tracked::exact(v), &want)));
    }
    assert!((0.7..=1.0).contains(&of_scores), "{of_scores}");
    assert!((0.5..=1.0).contains(&of_probabilities), "{of_probabilities}");
    assert!((0.9..=1.0).contains(&of_context), "{of_context}");
}
