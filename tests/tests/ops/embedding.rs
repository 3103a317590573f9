//! `reference/src/ops/embedding.rs`.

use ndarray::{Array2, Axis, array};
use proptest::prelude::*;
use reference::ops::embedding::{Embedding, embedding};
use reference::{Rounding, Storage};
use tests::judge::{reached, within};
use tests::strategy::{Contract, Fill, Matrix, contract, finite, ranging};

const IDEAL: Embedding = Embedding { output: Rounding::NONE };

#[derive(Debug)]
struct Case {
    contract: Contract,
    table: Matrix,
    tokens: Vec<u32>,
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), any::<bool>(), 1..9_u32, 1..20_usize).prop_flat_map(|(contract, wide, v, d)| {
        let storage = if wide { Storage::F32 } else { contract.activations };
        (ranging((v as usize, d), finite(), storage, contract.activations), proptest::collection::vec(0..v, 1..6))
            .prop_map(move |(table, tokens)| Case { contract, table, tokens })
    })
}

fn oracle(p: &Embedding, tokens: &[u32], table: &Matrix) -> Array2<f64> {
    embedding(p, tokens, &table.stored()).expect("the case keeps the contract")
}

proptest! {
    #[test]
    fn a_row_is_the_tokens_row_exactly(case in case()) {
        let rows: Vec<usize> = case.tokens.iter().map(|&t| t as usize).collect();
        prop_assert_eq!(oracle(&IDEAL, &case.tokens, &case.table), case.table.select(Axis(0), &rows));
    }

    #[test]
    fn a_table_in_the_activations_type_is_not_rounded(case in case()) {
        let p = Embedding { output: Rounding::nearest(case.table.storage()) };
        prop_assert_eq!(oracle(&p, &case.tokens, &case.table), oracle(&IDEAL, &case.tokens, &case.table));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let p = Embedding::under(&case.contract);
        let got = embedding::<f32>(&p, &case.tokens, &case.table.stored()).expect("the case keeps the contract");
        let want = oracle(&IDEAL, &case.tokens, &case.table);
        within(&got.mapv(f64::from), &want, &p.bound(&want))?;
    }
}

/// 1 + 2⁻⁸ + 2⁻²⁰ lies just above the middle of two bf16; cut off instead of rounded it would be 1.
#[test]
fn r1_rounds_to_the_activations_type() {
    let p = Embedding { output: Rounding::nearest(Storage::Bf16) };
    let table = reference::matrix::Matrix::stored(array![[0.0], [1.003_907_203_674_316_4]].view(), Storage::F32);
    assert_eq!(embedding::<f64>(&p, &[1], &table), Ok(array![[1.007_812_5]]));
}

/// The middle of two bf16 takes all of the bound but a share of u.
#[test]
fn the_bound_is_reached() {
    let p = Embedding { output: Rounding::nearest(Storage::Bf16) };
    let table = reference::matrix::Matrix::stored(array![[1.0 + 2.0_f64.powi(-8)]].view(), Storage::F32);
    let want = embedding::<f64>(&IDEAL, &[0], &table).expect("good");
    let got = embedding::<f64>(&p, &[0], &table).expect("good");
    assert!(reached(&got, &want, &p.bound(&want)) > 0.99);
}

#[test]
fn nan_and_infinity_pass_through() {
    let table = reference::matrix::Matrix::stored(array![[f64::NAN, f64::INFINITY, -1.0]].view(), Storage::F32);
    let y = embedding::<f64>(&Embedding { output: Rounding::nearest(Storage::F16) }, &[0], &table).expect("good");
    assert!(y[[0, 0]].is_nan() && y[[0, 1]] == f64::INFINITY && y[[0, 2]] == -1.0);
}

/// Beyond the largest f16 a value is infinite, and that is no rounding error.
#[test]
fn an_overflow_is_a_fault() {
    let p = Embedding { output: Rounding::nearest(Storage::F16) };
    let table = reference::matrix::Matrix::stored(array![[1e6]].view(), Storage::F32);
    let want = embedding::<f64>(&IDEAL, &[0], &table).expect("good");
    let got = embedding::<f64>(&p, &[0], &table).expect("good");
    assert_eq!(got, array![[f64::INFINITY]]);
    assert!(within(&got, &want, &p.bound(&want)).is_err());
}

#[test]
fn c1_no_tokens() {
    let table = Matrix::new((2, 2), Fill::Whole, Storage::Bf16, 0);
    let err = embedding::<f64>(&IDEAL, &[], &table.stored()).expect_err("against the contract");
    assert_eq!(err.to_string(), "embedding C1: number of tokens = 0, expected at least 1");
}

#[test]
fn c2_a_token_beyond_the_vocabulary() {
    let table = Matrix::new((2, 2), Fill::Whole, Storage::Bf16, 0);
    let err = embedding::<f64>(&IDEAL, &[1, 2, 9], &table.stored()).expect_err("against the contract");
    assert_eq!(err.to_string(), "embedding C2: token 1 = 2, expected below v = 2");
}
