//! `reference/src/ops/gated_lightning.rs`.

use ndarray::{Array1, Array2, s};
use proptest::prelude::*;
use reference::matrix;
use reference::ops::gated_lightning::{GatedLightning, LightningWeights, gated_lightning};
use reference::ops::lightning_attention::slopes;
use reference::{RoundingContract, Storage, Tracked};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, noise, random};

const EPS: f64 = 1e-6;

/// x \[n, m\] and the weights of so many heads, under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    heads: usize,
    dim: usize,
    layer: usize,
    x: Matrix,
    /// W, U and O.
    w: [Matrix; 3],
    norm: Matrix,
    noise: Noise,
}

impl Case {
    fn under(&self, contract: &RoundingContract) -> GatedLightning {
        GatedLightning::under(contract, slopes(self.heads, self.layer, 5), self.dim, EPS)
    }

    fn norm(&self) -> Array1<f64> {
        self.norm.row(0).to_owned()
    }

    /// What a device computes, the truth and the bound.
    fn judged(&self) -> (Array2<f64>, Array2<f64>, reference::bound::ErrorBound) {
        let (p, x, norm) = (self.under(&self.contract), self.noise.on(&self.x, 0), self.norm());
        let [qkv, gate, out] = self.w.each_ref().map(Matrix::stored);
        let w = LightningWeights { qkv, norm: norm.view(), gate, out };
        let want = gated_lightning(&self.under(&RoundingContract::IDEAL), self.x.view(), &w).expect("good");
        let got = gated_lightning(&p, x.f32().view(), &w).expect("good").mapv(f64::from);
        let bound = p.bound(&x.tracked, &w, &want).expect("good");
        (got, want, bound)
    }

    fn of(&self, x: &Array2<f64>) -> Array2<f64> {
        let (norm, [qkv, gate, out]) = (self.norm(), self.w.each_ref().map(Matrix::stored));
        let w = LightningWeights { qkv, norm: norm.view(), gate, out };
        gated_lightning(&self.under(&RoundingContract::IDEAL), x.view(), &w).expect("good")
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let sizes = (1..7_usize, 1..12_usize, 1..4_usize, 1..5_usize, 0..5_usize);
    (contract(), noise(), sizes).prop_flat_map(move |(contract, noise, (n, m, heads, dim, layer))| {
        let (storage, width) = (contract.activations, heads * dim);
        let weight = |dim| filled(dim, Just(Fill::Activation), storage);
        let all = (weight((3 * width, m)), weight((width, m)), weight((m, width)), weight((1, width)));
        (filled((n, m), fill.clone(), storage), all).prop_map(move |(x, (qkv, gate, out, norm))| Case {
            contract,
            heads,
            dim,
            layer,
            x,
            w: [qkv, gate, out],
            norm,
            noise,
        })
    })
}

/// The definition, one token, head and channel at a time.
fn by_definition(case: &Case) -> Array2<f64> {
    let (heads, d, slopes) = (case.heads, case.dim, slopes(case.heads, case.layer, 5));
    let [qkv, gate, out] = case.w.each_ref().map(Matrix::values);
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let dot = |i: usize, w: &Array2<f64>, row: usize| case.x.row(i).dot(&w.row(row));
    let projected = |i: usize, head: usize, third: usize, c: usize| {
        let z = dot(i, &qkv, (head * 3 + third) * d + c);
        z * sigmoid(z)
    };
    let attended = |i: usize, head: usize, c: usize| {
        let term = |j: usize| {
            let product: f64 = (0..d).map(|a| projected(i, head, 0, a) * projected(j, head, 1, a)).sum();
            (-slopes[head] * (i - j) as f64).exp() * product * projected(j, head, 2, c)
        };
        (0..=i).map(term).sum::<f64>()
    };
    let mut y = Array2::zeros(case.x.dim());
    for i in 0..case.x.nrows() {
        let a: Vec<f64> = (0..heads * d).map(|c| attended(i, c / d, c % d)).collect();
        let square = a.iter().map(|a| a * a).sum::<f64>() / a.len() as f64;
        let gated = |c: usize| sigmoid(dot(i, &gate, c)) * case.norm[[0, c]] * a[c] / (EPS + square).sqrt();
        for (column, y) in y.row_mut(i).iter_mut().enumerate() {
            *y = (0..heads * d).map(|c| gated(c) * out[[column, c]]).sum();
        }
    }
    y
}

proptest! {
    /// Twice the ideal's own error: two evaluations in f64 of one sum.
    #[test]
    fn it_is_its_definition(case in case_of(random())) {
        let (norm, [qkv, gate, out]) = (case.norm(), case.w.each_ref().map(Matrix::stored));
        let w = LightningWeights { qkv, norm: norm.view(), gate, out };
        let p = case.under(&RoundingContract::IDEAL);
        let got = gated_lightning(&p, case.x.view(), &w).expect("good");
        let mut bound = p.bound(&case.x.exact(), &w, &got).expect("good");
        bound.certain *= 2.0;
        within(&by_definition(&case), &got, &bound)?;
    }

    /// Twice the ideal's own error: sums of as many terms, which f64 may take in another order beside other rows.
    #[test]
    fn no_later_token_matters(case in case_of(Just(Fill::Activation))) {
        let (norm, [qkv, gate, out]) = (case.norm(), case.w.each_ref().map(Matrix::stored));
        let w = LightningWeights { qkv, norm: norm.view(), gate, out };
        let first = case.x.slice(s![..1, ..]).to_owned();
        let (alone, whole) = (case.of(&first), case.of(&case.x).slice(s![..1, ..]).to_owned());
        let p = case.under(&RoundingContract::IDEAL);
        let mut bound = p.bound(&Tracked::exact(first), &w, &alone).expect("good");
        bound.certain *= 2.0;
        within(&whole, &alone, &bound)?;
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case_of(Just(Fill::Activation))) {
        let (got, want, bound) = case.judged();
        if case.contract.activations != Storage::F16 {
            within(&got, &want, &bound)?; // f16 overflows
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (got, want, bound) = case.judged();
        if case.contract.activations != Storage::F16 {
            likely(&got, &want, &bound)?;
        }
    }
}

#[test]
fn constraints_name_what_breaks_them() {
    let p = GatedLightning::under(&RoundingContract::IDEAL, slopes(2, 0, 5), 3, EPS);
    let matrix = |rows, columns| matrix::Matrix::stored(Array2::zeros((rows, columns)).view(), Storage::F32);
    let refused = |qkv, gate| {
        let (x, norm) = (Array2::<f64>::ones((2, 4)), Array1::<f64>::ones(6));
        let w = LightningWeights { qkv: matrix(qkv, 4), norm: norm.view(), gate: matrix(gate, 4), out: matrix(4, 6) };
        gated_lightning(&p, x.view(), &w).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refused(12, 6), Err("gated_lightning C1: rows of W = 12, expected 18: 3·2·3".to_owned()));
    assert_eq!(refused(18, 5), Err("gated_lightning C2: rows of U = 5, expected 6: 2·3".to_owned()));
    assert_eq!(refused(18, 6), Ok(()));
}
