//! `reference/src/abreast.rs`: runs side by side compute what they would compute alone, and none waits for one that has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use ndarray::Array2;
use proptest::prelude::*;
use reference::abreast::{Abreast, Seat};
use reference::matrix;
use reference::ops::linear::Linear;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{RoundingContract, Storage, Tracked};
use tests::strategy::{Contract, Fill, Matrix, contract, filled, finite};

/// Rows of each of three runs, two weights, and which of them each run multiplies with, one product after another.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    x: [Matrix; 3],
    weights: [Matrix; 2],
    b: Matrix,
    order: [Vec<usize>; 3],
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), (1..9_usize, 1..90_usize, 1..80_usize)).prop_flat_map(|(contract, (n, m, k))| {
        let matrix = |dim| filled(dim, finite(), contract.activations);
        let order = || prop::collection::vec(0..2_usize, 0..4);
        let x = [matrix((n, k)), matrix((n, k)), matrix((n + 3, k))];
        (x, [matrix((m, k)), matrix((m, k))], matrix((1, m)), [order(), order(), order()])
            .prop_map(move |(x, weights, b, order)| Case { contract, x, weights, b, order })
    })
}

/// Weights and a bias, as all runs have them.
struct Held {
    weights: [matrix::Matrix<'static>; 2],
    b: matrix::Matrix<'static>,
}

impl Case {
    fn held(&self) -> Held {
        Held { weights: self.weights.each_ref().map(Matrix::stored), b: self.b.stored() }
    }

    /// What a run computes, each product plain and with a bias.
    fn computed(
        &self,
        index: usize,
        held: &Held,
        contract: RoundingContract,
        seat: Option<&Seat<'_, f64>>,
    ) -> Vec<Array2<f64>> {
        let (x, mut probe) = (Tracked::plain(self.x[index].values()), NoProbe);
        let run = Run { seat, ..Run::new(contract, &mut probe) };
        let of_weight = |which: &usize| {
            let w = held.weights[*which].view();
            let y = run.linear(Linear::under, &x, &w).expect("the case keeps the contract");
            [y, run.linear_bias(&x, &w, &held.b).expect("the case keeps the contract")].map(|y| y.value)
        };
        self.order[index].iter().flat_map(of_weight).collect()
    }

    /// The same of all, side by side.
    fn abreast(&self, held: &Held, contract: impl Fn(usize) -> RoundingContract + Sync) -> Vec<Vec<Array2<f64>>> {
        let (abreast, contract) = (Abreast::of(3), &contract);
        thread::scope(|scope| {
            let started = [0, 1, 2].map(|index| {
                let seat = abreast.seat(index);
                scope.spawn(move || self.computed(index, held, contract(index), Some(&seat)))
            });
            started.map(|run| run.join().expect("it ends")).into()
        })
    }
}

/// What is no number in one is none in the other.
fn near(a: f64, b: f64, apart: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= apart
}

proptest! {
    /// But for the order of sums in f64.
    #[test]
    fn runs_compute_what_they_compute_alone(case in case()) {
        let (held, contract) = (case.held(), RoundingContract::IDEAL);
        for (index, together) in case.abreast(&held, |_| contract).iter().enumerate() {
            let alone = case.computed(index, &held, contract, None);
            prop_assert_eq!(alone.len(), together.len());
            for (a, b) in alone.iter().zip(together).flat_map(|(a, b)| a.iter().zip(b)) {
                prop_assert!(near(*a, *b, 1e-9 * a.abs().max(1.0)), "{} {}", a, b);
            }
        }
    }

    /// A run that draws what it rounds is no further from the truth than one that draws alone may be: two roundings to a neighbour, and
    /// what its accumulator adds. Others draw otherwise.
    #[test]
    fn runs_draw_what_they_draw_alone(seed in 0..1_u64 << 60) {
        let case = of_bf16((5, 24, 64), seed);
        let held = case.held();
        let together = case.abreast(&held, |index| case.contract.stochastic(seed + index as u64));
        prop_assert_ne!(&together[0], &together[1]);
        for (index, together) in together.iter().enumerate() {
            let (x, mut probe) = (case.x[index].exact(), NoProbe);
            let run = Run::bounding(*case.contract, &mut probe);
            let y = run.linear(Linear::under, &x, &held.weights[0].view()).expect("the case keeps the contract");
            let certain = y.error_or_exact().certain;
            for ((a, b), certain) in y.value.iter().zip(&together[0]).zip(&certain) {
                prop_assert!(near(*a, *b, 4.0 * certain), "{} {} {}", a, b, certain);
            }
        }
    }
}

/// Runs of one product each, of the same rows but for the last.
fn of_bf16((n, m, k): (usize, usize, usize), seed: u64) -> Case {
    let matrix = |dim, more| Matrix::new(dim, Fill::Activation, Storage::Bf16, seed + more);
    Case {
        contract: Contract(RoundingContract::EAGER_BF16),
        x: [1, 1, 2].map(|seed| matrix((n, k), seed)),
        weights: [3, 4].map(|seed| matrix((m, k), seed)),
        b: matrix((1, m), 5),
        order: [vec![0], vec![0], vec![0]],
    }
}

/// One that is still busy is waited for.
#[test]
fn a_product_waits_for_those_beside_it() {
    let (case, abreast) = (of_bf16((2, 8, 8), 1), Abreast::of(2));
    let (held, busy, seat) = (case.held(), abreast.seat(1), abreast.seat(0));
    thread::scope(|scope| {
        let run = scope.spawn(|| case.computed(0, &held, RoundingContract::IDEAL, Some(&seat)));
        thread::sleep(Duration::from_millis(100));
        assert!(!run.is_finished());
        drop(busy);
        assert_eq!(run.join().expect("it ends"), case.computed(0, &held, RoundingContract::IDEAL, None));
    });
}

/// Those beside a run that panics end, too.
#[test]
fn none_waits_for_one_that_panicked() {
    let (case, abreast) = (of_bf16((2, 8, 8), 1), Abreast::of(2));
    let (held, lost, seat) = (case.held(), abreast.seat(1), abreast.seat(0));
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            let computed = || case.computed(0, &held, RoundingContract::IDEAL, Some(&seat));
            catch_unwind(AssertUnwindSafe(computed)).is_err()
        });
        let panicked = scope.spawn(move || {
            let _lost = lost;
            panic!("as it has to");
        });
        assert!(panicked.join().is_err());
        assert!(run.join().expect("it ends"));
    });
}
