//! `reference/src/ops/dense_ffn.rs`.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::config::Coefficients;
use reference::matrix;
use reference::ops::dense_ffn::{Activation, DenseFfn, dense_ffn};
use reference::ops::linear::{Linear, linear};
use reference::ops::swiglu::{Swiglu, swiglu};
use reference::ops::swiglu_oai::{SwigluOai, swiglu_oai};
use reference::semantics::{self, Expert, GateClamp, Semantics};
use reference::{RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

const M3: Coefficients = Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 };

/// x \[n, d\], w₁, w₃ \[m, d\], w₂ \[d, m\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    oai: bool,
    x: Matrix,
    w: [Matrix; 3],
    noise: Noise,
}

impl Case {
    fn under(&self, contract: &RoundingContract) -> DenseFfn {
        DenseFfn::under(contract, Activation::under(contract, &Semantics::RELEASED, self.oai.then_some(M3)))
    }

    fn of(&self, p: &DenseFfn, x: &Array2<f64>) -> Array2<f64> {
        let w = self.w.each_ref().map(Matrix::stored);
        dense_ffn(p, x.view(), w.each_ref()).expect("the case keeps the contract")
    }

    /// What a device computes, the truth and the bound.
    fn judged(&self) -> (Array2<f64>, Array2<f64>, reference::bound::ErrorBound) {
        let (p, x, w) = (self.under(&self.contract), self.noise.on(&self.x, 0), self.w.each_ref().map(Matrix::stored));
        let want = self.of(&self.under(&RoundingContract::IDEAL), &self.x);
        let got = dense_ffn(&p, x.f32().view(), w.each_ref()).expect("good").mapv(f64::from);
        let bound = p.bound(&x.tracked, w.each_ref(), &want).expect("good");
        (got, want, bound)
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let dims = (1..4_usize, 1..20_usize, 1..20_usize);
    (contract(), any::<bool>(), noise(), dims).prop_flat_map(move |(contract, oai, noise, (n, d, m))| {
        let storage = contract.activations;
        let weight = |dim| filled(dim, Just(Fill::Activation), storage);
        (filled((n, d), fill.clone(), storage), weight((m, d)), weight((m, d)), weight((d, m)))
            .prop_map(move |(x, w1, w3, w2)| Case { contract, oai, x, w: [w1, w3, w2], noise })
    })
}

proptest! {
    /// Its parts one after the other, each rounding as it does alone.
    #[test]
    fn it_is_projections_activation_and_projection_exactly(case in case_of(finite())) {
        let linear = |x: &Array2<f64>, w: &Matrix| {
            linear(&Linear::under(&case.contract), x.view(), &w.stored()).expect("good")
        };
        let (g, u) = (linear(&case.x, &case.w[0]), linear(&case.x, &case.w[1]));
        let a = if case.oai {
            swiglu_oai(&SwigluOai::under(&case.contract, M3, GateClamp::Upper), g.view(), u.view())
        } else {
            swiglu(&Swiglu::under(&case.contract, Expert::Gated), g.view(), u.view())
        };
        let want = linear(&a.expect("good"), &case.w[2]);
        let got = case.of(&case.under(&case.contract), &case.x);
        prop_assert!(got.iter().zip(&want).all(|(got, want)| got == want || got.is_nan() && want.is_nan()));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case_of(Just(Fill::Activation))) {
        let (got, want, bound) = case.judged();
        if want.iter().all(|y| y.abs() < 3e4) {
            within(&got, &want, &bound)?; // else f16 overflows
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (got, want, bound) = case.judged();
        if case.contract.activations != Storage::F16 {
            likely(&got, &want, &bound)?;
        }
    }

    #[test]
    fn tokens_do_not_see_each_other(case in case_of(Just(Fill::Activation))) {
        let p = case.under(&case.contract);
        let whole = case.of(&p, &case.x);
        let mut changed = case.x.values();
        changed.row_mut(0).fill(1.0);
        let other = case.of(&p, &changed);
        // Of what is no number, that it is none.
        let others = |y: &Array2<f64>| y.slice(ndarray::s![1.., ..]).mapv(|y| (!y.is_nan()).then_some(y));
        prop_assert_eq!(others(&whole), others(&other));
    }
}

fn stored(x: &Array2<f64>) -> matrix::Matrix<'static> {
    matrix::Matrix::stored(x.view(), Storage::F32)
}

/// One token, one channel: g = 2, u = 3; silu(2)·3, or (3 + 1)·2·σ(3.404); times −1.
#[test]
fn by_hand() {
    let weights = [array![[2.0]], array![[3.0]], array![[-1.0]]].map(|w| stored(&w));
    let of = |oai: Option<Coefficients>, semantics: &Semantics| {
        let contract = RoundingContract::IDEAL;
        let p = DenseFfn::under(&contract, Activation::under(&contract, semantics, oai));
        dense_ffn(&p, array![[1.0]].view(), weights.each_ref()).expect("good")[[0, 0]]
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let near = |a: f64, b: f64| (a - b).abs() < 1e-14;
    assert!(near(of(None, &Semantics::RELEASED), -6.0 * sigmoid(2.0)));
    assert!(near(of(Some(M3), &Semantics::RELEASED), -8.0 * sigmoid(3.404)));
    // Slips of ports: SwiGLU-OAI's constants lost, or its one.
    let lost = Semantics { activation: Some(semantics::Activation::Swiglu), ..Semantics::RELEASED };
    assert!(near(of(Some(M3), &lost), -6.0 * sigmoid(2.0)));
    let plain = Semantics { up_beta: Some(0.0), ..Semantics::RELEASED };
    assert!(near(of(Some(M3), &plain), -6.0 * sigmoid(3.404)));
}

/// Of one channel: about half of all roundings in one direction.
#[test]
fn the_bound_is_reached() {
    let contract = RoundingContract::EAGER_BF16;
    let under = |c: &RoundingContract| DenseFfn::under(c, Activation::under(c, &Semantics::RELEASED, Some(M3)));
    let mut most = 0.0_f64;
    for i in 0..2048 {
        let weights =
            [1.0 + f64::from(i % 64) / 128.0, 0.25 + f64::from(i / 64) / 64.0, 1.0].map(|w| stored(&array![[w]]));
        let x = Tracked::exact(array![[1.007_812_5]]);
        let want = dense_ffn(&under(&RoundingContract::IDEAL), x.view(), weights.each_ref()).expect("good");
        let got = dense_ffn(&under(&contract), x.view(), weights.each_ref()).expect("good");
        most = most.max(reached(&got, &want, &under(&contract).bound(&x, weights.each_ref(), &want).expect("good")));
    }
    assert!((0.4..=1.0).contains(&most), "{most}");
}

#[test]
fn what_the_parts_demand_is_demanded() {
    let contract = RoundingContract::IDEAL;
    let p = DenseFfn::under(&contract, Activation::under(&contract, &Semantics::RELEASED, Some(M3)));
    let of = |dims: [(usize, usize); 3]| {
        let weights = dims.map(|dim| stored(&Array2::zeros(dim)));
        dense_ffn(&p, Array2::<f64>::zeros((1, 2)).view(), weights.each_ref())
            .expect_err("against the contract")
            .to_string()
    };
    assert_eq!(of([(3, 1), (3, 2), (2, 3)]), "linear C2: columns of w = 1, expected k = 2");
    assert_eq!(of([(3, 2), (4, 2), (2, 3)]), "swiglu_oai C1: shape of u = (1, 4), expected (1, 3)");
    assert_eq!(of([(3, 2), (3, 2), (2, 4)]), "linear C2: columns of w = 4, expected k = 3");
}
