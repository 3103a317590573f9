//! `reference/src/ops/router.rs`.

use ndarray::{Array1, Array2, Axis, array};
use proptest::prelude::*;
use reference::ops::router::{Router, choice, chosen, scores, top_k, weights};
use reference::rounding::RoutingRound;
use reference::semantics::{ExpertChoice, RouterEps, RouterScore, RoutingWeights, Semantics};
use reference::{Real, Rounding, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::simulated::Exponential;
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random, ranging};

mod bounds;

/// z \[n, E\], b \[E\], under a contract, with errors of z.
#[derive(Debug, Clone)]
pub(super) struct Case {
    contract: Contract,
    semantics: Semantics,
    k: usize,
    z: Matrix,
    b: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> Router {
        Router::under(&self.contract, &self.semantics, self.k)
    }

    fn ideal(&self) -> Router {
        Router::under(&RoundingContract::IDEAL, &self.semantics, self.k)
    }

    fn bias(&self) -> Array1<f64> {
        self.b.vector()
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let score = prop_oneof![3 => Just(RouterScore::Sigmoid), 1 => Just(RouterScore::SoftmaxTopk)];
    let from = prop_oneof![3 => Just(RoutingWeights::Unbiased), 1 => Just(RoutingWeights::Biased)];
    let eps = prop_oneof![Just(RouterEps::Zero), Just(RouterEps::Tiny)];
    let dims = (1..4_usize, 1..5_usize, 0..12_usize);
    (contract(), score, from, eps, noise(), dims).prop_flat_map(
        move |(contract, score, from, eps, noise, (n, k, more))| {
            let semantics =
                Semantics { router_score: score, routing_weights: from, router_eps: eps, ..Semantics::DOCUMENTS };
            // Gate and bias are f32 tensors.
            (
                filled((n, k + more), fill.clone(), Storage::F32),
                ranging((1, k + more), fill.clone(), Storage::F32, contract.activations),
            )
                .prop_map(move |(z, b)| Case { contract, semantics, k, z, b, noise })
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn sigmoid(case: Case) -> Case {
    let semantics =
        Semantics { router_score: RouterScore::Sigmoid, routing_weights: RoutingWeights::Unbiased, ..case.semantics };
    Case { semantics, ..case }
}

/// r, r + b, C and w.
fn route(p: &Router, z: &Array2<f64>, b: &Array1<f64>) -> (Array2<f64>, Array2<f64>, Array2<usize>, Array2<f64>) {
    let r = scores(p, z.view());
    let c = choice(p, r.view(), b.view()).expect("the case keeps the contract");
    let chosen = top_k(p.top_k, c.view());
    let w = weights(p, r.view(), c.view(), chosen.view());
    (r, c, chosen, w)
}

/// NaN equals NaN: nothing over nothing is legal here.
fn bits(x: &Array2<f64>) -> Array2<u64> {
    x.mapv(f64::to_bits)
}

fn by_hand(semantics: &Semantics) -> Router {
    Router::under(&RoundingContract::IDEAL, semantics, 2)
}

proptest! {
    /// σ(z) + σ(−z) = 1: each is off by at most 3·u.
    #[test]
    fn scores_are_sigmoids(case in case()) {
        let p = sigmoid(case.clone()).ideal();
        let (r, mirrored) = (scores(&p, case.z.view()), scores(&p, (-&*case.z).view()));
        for (r, mirrored) in r.iter().zip(&mirrored) {
            prop_assert!((0.0..=1.0).contains(r) && (r + mirrored - 1.0).abs() <= 6.0 * f64::UNIT_ROUNDOFF);
        }
        prop_assert!(scores(&p, Array2::<f64>::zeros((1, 3)).view()).iter().all(|&r| r == 0.5));
    }

    /// The k largest of r + b, largest first, the lowest index first among equals.
    #[test]
    fn chooses_k_distinct_experts_of_the_largest_sums(case in case()) {
        let (_, c, chosen, _) = route(&case.params(), &case.z, &case.bias());
        for (c, chosen) in c.rows().into_iter().zip(chosen.rows()) {
            for (slot, pair) in chosen.windows(2).into_iter().enumerate() {
                let (a, b) = (pair[0], pair[1]);
                prop_assert!(c[a] > c[b] || c[a] == c[b] && a < b, "slot {}", slot);
            }
            let last = *chosen.last().expect("k ≥ 1");
            for e in (0..c.len()).filter(|e| chosen.iter().all(|c| c != e)) {
                prop_assert!(c[e] < c[last] || c[e] == c[last] && e > last);
            }
        }
    }

    /// k − 1 additions, a quotient each and the sum of these: fewer than 3·k roundings of numbers up to 1.
    #[test]
    fn weights_sum_to_one(case in case()) {
        let case = sigmoid(case);
        let (r, _, chosen, w) = route(&case.ideal(), &case.z, &case.bias());
        for (i, w) in w.rows().into_iter().enumerate() {
            let chosen_sum: f64 = chosen.row(i).iter().map(|&e| r[[i, e]]).sum();
            // Below 10⁻⁴ the ε of 10⁻²⁰ is more than u of the sum.
            prop_assume!(chosen_sum > 1e-4);
            prop_assert!((w.sum() - 1.0).abs() <= 3.0 * case.k as f64 * f64::UNIT_ROUNDOFF);
        }
    }

    /// Whatever the bias does, it does by the choice: a bias that every expert has changes nothing.
    #[test]
    fn the_bias_never_changes_the_weights_of_a_choice(case in case()) {
        let case = sigmoid(case);
        let p = case.ideal();
        let (r, c, chosen, w) = route(&p, &case.z, &case.bias());
        let without = weights(&p, r.view(), r.view(), chosen.view());
        prop_assert_eq!(bits(&w), bits(&without));
        let biased = weights(&Router { weights: RoutingWeights::Biased, ..p }, r.view(), c.view(), chosen.view());
        prop_assert_eq!(bits(&biased), bits(&weights(&p, c.view(), r.view(), chosen.view())));
    }

    /// Experts reordered are the same experts, unless two of them are equal, as large ones may be.
    #[test]
    fn the_order_of_experts_is_irrelevant(case in case_of(Just(Fill::Activation))) {
        let p = case.ideal();
        let back: Vec<usize> = (0..case.z.ncols()).rev().collect();
        let (_, c, chosen, w) = route(&p, &case.z, &case.bias());
        for row in c.rows() {
            let mut sorted = row.to_vec();
            sorted.sort_by(f64::total_cmp);
            prop_assume!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let (_, _, mirrored, v) = route(&p, &case.z.select(Axis(1), &back), &case.bias().select(Axis(0), &back));
        prop_assert_eq!(mirrored.mapv(|e| back[e]), chosen);
        // The sum over the chosen is in the order of choice.
        prop_assert_eq!(bits(&w), bits(&v));
    }

    #[test]
    fn tokens_do_not_see_each_other(case in case()) {
        let p = case.params();
        let rows: Vec<usize> = (0..case.z.nrows()).rev().collect();
        let (_, _, chosen, w) = route(&p, &case.z, &case.bias());
        let (_, _, mirrored, v) = route(&p, &case.z.select(Axis(0), &rows), &case.bias());
        prop_assert_eq!(mirrored, chosen.select(Axis(0), &rows));
        prop_assert_eq!(bits(&v), bits(&w.select(Axis(0), &rows)));
    }

    #[test]
    fn nan_is_chosen_first_and_stays_visible(case in case(), at in any::<prop::sample::Index>()) {
        let mut z = case.z.values();
        let expert = at.index(z.ncols());
        z[[0, expert]] = f64::NAN;
        let (_, _, chosen, w) = route(&case.params(), &z, &case.bias());
        prop_assert_eq!(chosen[[0, 0]], expert);
        prop_assert!(w.row(0).iter().all(|w| w.is_nan()));
    }
}

/// From z = 17 on an f32 sigmoid is 1, from 37 on an f64 one: experts tie, and the lowest wins.
#[test]
fn saturated_scores_tie() {
    let p = by_hand(&Semantics::DOCUMENTS);
    let z = array![[-20.0, 20.0, 40.0, 90.0, 90.0]];
    let none = Array1::<f64>::zeros(5);
    let (r, _, chosen, w) = route(&p, &z, &none);
    assert_eq!((r[[0, 2]], chosen, w), (1.0, array![[2, 3]], array![[0.5, 0.5]]));
    let r = scores(&p, z.mapv(f32::of).view());
    assert_eq!(r[[0, 1]], 1.0);
    let chosen = top_k(2, choice(&p, r.view(), none.mapv(f32::of).view()).expect("good").view());
    assert_eq!(chosen, array![[1, 2]]);
}

/// D35: where every chosen score underflows, 0 / 0 is NaN; with one engine's ε it is 0.
#[test]
fn d35_eps_decides_what_nothing_over_nothing_is() {
    let z = array![[-800.0, -800.0, -800.0]];
    let (r, _, _, w) = route(&by_hand(&Semantics::DOCUMENTS), &z, &Array1::zeros(3));
    assert!(r.iter().all(|&r| r == 0.0) && w.iter().all(|w| w.is_nan()));
    let tiny = by_hand(&Semantics { router_eps: RouterEps::Tiny, ..Semantics::DOCUMENTS });
    assert_eq!(route(&tiny, &z, &Array1::zeros(3)).3, array![[0.0, 0.0]]);
    // In f32 that happens at −90 already, and a comparison with f64's 1/2 must fail.
    let r = scores(&tiny, array![[-90.0_f32]].view());
    assert_eq!(r, array![[0.0]]);
}

/// ε counts where scores are as small: 10⁻²⁰ / (10⁻²⁰ + 10⁻²⁰) is a half, not 1.
#[test]
fn d35_eps_by_hand() {
    let tiny = by_hand(&Semantics { router_eps: RouterEps::Tiny, ..Semantics::DOCUMENTS });
    let r = array![[1e-20, 0.0]];
    assert_eq!(weights(&tiny, r.view(), r.view(), array![[0]].view()), array![[0.5]]);
    assert_eq!(weights(&by_hand(&Semantics::DOCUMENTS), r.view(), r.view(), array![[0]].view()), array![[1.0]]);
}

/// Scores 1/2 and 1/4, biases 0 and 3/4: weights 2/3 and 1/3, or, with the bias in them, 1/3 and 2/3.
#[test]
fn d35_bias_in_the_weights() {
    let (r, b) = (array![[0.5, 0.25]], array![0.0, 0.75]);
    for (routing_weights, want) in
        [(RoutingWeights::Unbiased, [1.0 / 3.0, 2.0 / 3.0]), (RoutingWeights::Biased, [2.0 / 3.0, 1.0 / 3.0])]
    {
        let p = by_hand(&Semantics { routing_weights, ..Semantics::DOCUMENTS });
        let c = choice(&p, r.view(), b.view()).expect("good");
        assert_eq!(c, array![[0.5, 1.0]]);
        let chosen = top_k(2, c.view());
        assert_eq!(chosen, array![[1, 0]]);
        let w = weights(&p, r.view(), c.view(), chosen.view());
        assert_eq!(w, array![want]);
    }
}

/// A slip of ports: the best expert, again and again, has all of the weight.
#[test]
fn the_best_expert_may_be_taken_again() {
    let p = by_hand(&Semantics { expert_choice: ExpertChoice::Best, ..Semantics::DOCUMENTS });
    let r = array![[0.25, 0.5, 0.75], [0.5, 0.25, 0.25]];
    let both = chosen(&p, r.view());
    assert_eq!(both, array![[2, 2], [0, 0]]);
    assert_eq!(weights(&p, r.view(), r.view(), both.view()), array![[0.5, 0.5], [0.5, 0.5]]);
}

/// D36: e⁰ and e^−ln 3 of 4/3, and a bias that does not count.
#[test]
fn d36_softmax_of_the_largest_logits() {
    let p = by_hand(&Semantics { router_score: RouterScore::SoftmaxTopk, ..Semantics::DOCUMENTS });
    let z = array![[5.0 - 3.0_f64.ln(), 1.0, 5.0]];
    let (r, c, chosen, w) = route(&p, &z, &array![0.0, 100.0, 0.0]);
    assert_eq!((&r, &c, &chosen), (&z, &z, &array![[2, 0]]));
    assert!((w[[0, 0]] - 0.75).abs() <= 4.0 * f64::EPSILON && (w[[0, 1]] - 0.25).abs() <= 4.0 * f64::EPSILON);
}

/// One third is 0.333984375 in bf16.
#[test]
fn r1_rounds_the_weights() {
    let contract = RoundingContract { routing: RoutingRound::Activations, ..RoundingContract::EAGER_BF16 };
    let (r, chosen) = (array![[0.25, 0.25, 0.25]], array![[0, 1, 2]]);
    let of = |contract| weights(&Router::under(contract, &Semantics::DOCUMENTS, 3), r.view(), r.view(), chosen.view());
    assert_eq!(of(&contract), Array2::from_elem((1, 3), 0.333_984_375));
    assert_eq!(of(&RoundingContract::EAGER_BF16), Array2::from_elem((1, 3), 1.0 / 3.0));
    assert_eq!(Router::under(&RoundingContract::EAGER_BF16, &Semantics::DOCUMENTS, 3).output, Rounding::NONE);
}

#[test]
fn ties_go_to_the_lowest_index() {
    for (row, want) in [
        ([1.0, 1.0, 1.0, 1.0], [0, 1, 2]),
        ([0.0, 1.0, 0.0, 1.0], [1, 3, 0]),
        ([-0.0, 0.0, -1.0, 0.0], [0, 1, 3]),
        ([f64::NAN, 2.0, f64::NAN, f64::INFINITY], [0, 2, 3]),
        ([f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, -1e300], [3, 0, 1]),
    ] {
        assert_eq!(top_k(3, array![row].view()).row(0).to_vec(), want);
    }
}

#[test]
fn c1_bias_of_another_length() {
    let err = choice(&by_hand(&Semantics::DOCUMENTS), array![[0.5, 0.5]].view(), array![0.0].view())
        .expect_err("against the contract");
    assert_eq!(err.to_string(), "router C1: len(b) = 1, expected E = 2");
}

#[test]
fn c2_more_choices_than_experts_or_none() {
    for k in [0, 3] {
        let p = Router { top_k: k, ..by_hand(&Semantics::DOCUMENTS) };
        let err = choice(&p, array![[0.5, 0.5]].view(), array![0.0, 0.0].view()).expect_err("against the contract");
        assert_eq!(err.to_string(), format!("router C2: k = {k}, expected 1 to E = 2"));
    }
}
