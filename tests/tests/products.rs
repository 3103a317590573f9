//! `reference/src/products.rs`: runs that share products compute what they would compute alone.

use proptest::prelude::*;
use reference::bound::ErrorBound;
use reference::matrix;
use reference::ops::linear::Linear;
use reference::probe::NoProbe;
use reference::products::Products;
use reference::run::Run;
use reference::{RoundingContract, Storage, Tracked};
use tests::strategy::{Contract, Matrix, contract, filled, finite};

/// x \[n, k\], w \[m, k\] and b \[m\], under a contract.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    x: Matrix,
    w: Matrix,
    b: Matrix,
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), (1..9_usize, 1..90_usize, 1..80_usize)).prop_flat_map(|(contract, (n, m, k))| {
        let matrix = |dim| filled(dim, finite(), contract.activations);
        (matrix((n, k)), matrix((m, k)), matrix((1, m))).prop_map(move |(x, w, b)| Case { contract, x, w, b })
    })
}

/// A product, one with a bias, and their bounds, if the run keeps any.
type Computed = [Tracked<f64>; 2];

fn computed(run: Run<'_, f64>, x: &Tracked<f64>, w: &matrix::Matrix<'_>, b: &matrix::Matrix<'_>) -> Computed {
    let y = run.linear(Linear::under, x, w).expect("the case keeps the contract");
    [y, run.linear_bias(x, w, b).expect("the case keeps the contract")]
}

/// Two evaluations in f64 of the same sums; what overflows in a narrow operand is no number in either.
fn near(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.max(b)
}

fn same(a: &ErrorBound, b: &ErrorBound) -> bool {
    differing(a, b).is_none() && a.certain.dim() == b.certain.dim() && a.carried == b.carried
}

/// The first pair of bounds that differ.
fn differing(a: &ErrorBound, b: &ErrorBound) -> Option<(f64, f64)> {
    let pairs = a.certain.iter().zip(&b.certain).chain(a.sigma.iter().zip(&b.sigma));
    pairs.map(|(a, b)| (*a, *b)).find(|(a, b)| !near(*a, *b))
}

proptest! {
    /// The run that keeps bounds makes the products, one that rounds at random takes them.
    #[test]
    fn shared_products_are_the_same(case in case(), seed in any::<u64>()) {
        let (x, w, b) = (case.x.exact(), case.w.stored(), case.b.stored());
        let (lent, products) = (w.view(), Products::default());
        let [mut p, mut q, mut r, mut s] = [NoProbe; 4];
        let bounding = computed(Run::bounding(*case.contract, &mut p), &x, &lent, &b);
        let of_shared = computed(Run::bounding(*case.contract, &mut q).sharing(&products), &x, &lent, &b);
        for (alone, shared) in bounding.iter().zip(&of_shared) {
            prop_assert!(alone.value.iter().zip(&shared.value).all(|(a, b)| a.to_bits() == b.to_bits()));
            let [one, other] = [alone, shared].map(|y| y.error.as_ref().expect("kept"));
            prop_assert!(same(one, other), "{:?}", differing(one, other));
        }
        let (plain, contract) = (Tracked::plain(case.x.values()), case.contract.stochastic(seed));
        let alone = computed(Run::new(contract, &mut r), &plain, &lent, &b);
        let shared = computed(Run::new(contract, &mut s).sharing(&products), &plain, &lent, &b);
        for (alone, shared) in alone.iter().zip(&shared) {
            let mut pairs = alone.value.iter().zip(&shared.value);
            prop_assert!(pairs.all(|(a, b)| a.to_bits() == b.to_bits()), "{alone:?}, {shared:?}");
        }
    }
}

/// Other values, and other weights in the place of those before, have products of their own.
#[test]
fn what_differs_is_not_shared() {
    let matrix = |dim, seed| Matrix::new(dim, tests::strategy::Fill::Activation, Storage::Bf16, seed);
    let (x, b) = (matrix((5, 48), 1), matrix((1, 40), 2).stored());
    let mut weights = matrix((40, 48), 3).stored();
    let products = Products::default();
    for seed in 4..12 {
        let other = matrix((5, 48), seed);
        for x in [&x, &other].map(Matrix::exact) {
            let [mut p, mut q] = [NoProbe; 2];
            let contract = RoundingContract::EAGER_BF16;
            let shared = computed(Run::bounding(contract, &mut p).sharing(&products), &x, &weights, &b);
            let alone = computed(Run::bounding(contract, &mut q), &x, &weights, &b);
            assert_eq!(shared.map(|y| y.value), alone.map(|y| y.value));
        }
        // The bytes of the one before are free, and may be taken again.
        drop(weights);
        weights = matrix((40, 48), 100 + seed).stored();
    }
}

/// An error that has overflowed, with a weight of zero.
#[test]
fn a_bound_that_overflows_is_infinite() {
    let weights = matrix::Matrix::stored(ndarray::arr2(&[[0.0, 1.0], [0.0, 0.0]]).view(), Storage::Bf16);
    let (mut probe, mut x) = (NoProbe, Matrix::new((1, 2), tests::strategy::Fill::Activation, Storage::F32, 1).exact());
    x.error.as_mut().expect("it has bounds").certain.fill(f64::INFINITY);
    let run = Run::bounding(RoundingContract::EAGER_F32, &mut probe);
    let y = run.linear(Linear::under, &x, &weights).expect("it keeps the contract");
    assert!(y.error_or_exact().certain.iter().all(|bound| *bound == f64::INFINITY), "{y:?}");
}
