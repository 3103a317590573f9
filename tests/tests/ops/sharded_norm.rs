//! `reference/src/ops/sharded_norm.rs`.

use ndarray::{Array2, ArrayView1, Axis, array, concatenate, s};
use proptest::prelude::*;
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::ops::sharded_norm::{ShardedNorm, sharded_norm};
use reference::semantics::EpsPlace;
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::within;
use tests::strategy::{Fill, filled};

fn norm(contract: &RoundingContract) -> RmsNorm {
    RmsNorm::under(contract, 1e-6, EpsPlace::Inside)
}

/// Parts of a row and of its weight, those of each rank.
fn cut(x: &Array2<f32>, ranks: usize) -> Vec<Array2<f32>> {
    let c = x.ncols() / ranks;
    (0..ranks).map(|rank| x.slice(s![.., rank * c..(rank + 1) * c]).to_owned()).collect()
}

fn of_ranks(p: &ShardedNorm, x: &[Array2<f32>], w: &[Array2<f32>]) -> Vec<Array2<f32>> {
    let w: Vec<ArrayView1<'_, f32>> = w.iter().map(|w| w.row(0)).collect();
    sharded_norm(p, x, &w).expect("parts of one shape")
}

proptest! {
    /// Heads of zeros among those of each rank, and heads that are on two ranks, leave the row's norm.
    #[test]
    fn ranks_norm_the_row_within_its_bound(
        x in filled((3, 48), Just(Fill::Activation), Storage::Bf16),
        w in filled((1, 48), Just(Fill::Activation), Storage::Bf16),
        ranks in prop::sample::select(vec![1_usize, 2, 4, 8, 16]),
        contract in prop::sample::select(vec![RoundingContract::EAGER_F32, RoundingContract::EAGER_BF16, RoundingContract::FUSED]),
    ) {
        let norm = norm(&contract);
        let truth = RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside);
        let want = rms_norm(&truth, x.view(), w.row(0)).expect("it fits");
        let bound = norm.bound(&Tracked::exact((*x).clone()), w.row(0), &want);
        let (x, w) = (x.mapv(f32::of), w.mapv(f32::of));
        let (own, weights) = (cut(&x, ranks), cut(&w, ranks));
        let zeros = |part: &Array2<f32>| Array2::zeros((part.nrows(), 2));
        let padded = |parts: &[Array2<f32>]| -> Vec<Array2<f32>> {
            parts.iter().map(|part| concatenate![Axis(1), *part, zeros(part)]).collect()
        };
        let twice = |parts: &[Array2<f32>]| -> Vec<Array2<f32>> {
            parts.iter().flat_map(|part| [part.clone(), part.clone()]).collect()
        };
        let whole = |parts: Vec<Array2<f32>>, every: usize| {
            let c = 48 / ranks;
            let parts: Vec<_> = parts.iter().step_by(every).map(|part| part.slice(s![.., ..c]).to_owned()).collect();
            let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
            concatenate(Axis(1), &views).expect("parts of one row").mapv(f64::from)
        };
        let p = ShardedNorm { norm, divisor: 48 };
        within(&whole(of_ranks(&p, &own, &weights), 1), &want, &bound)?;
        within(&whole(of_ranks(&p, &padded(&own), &padded(&weights)), 1), &want, &bound)?;
        if 48 / ranks + 2 * ranks <= 48 {
            let p = ShardedNorm { norm, divisor: 96 };
            within(&whole(of_ranks(&p, &twice(&own), &twice(&weights)), 2), &want, &bound)?;
        }
    }
}

/// 3² + 4² over 2 is 12.5, and over 8 it is 3.125: twice as large a row.
#[test]
fn the_divisor_counts() {
    let norm = norm(&RoundingContract::IDEAL);
    let (x, w) = ([array![[3.0]], array![[4.0]]], array![1.0]);
    let of = |divisor| sharded_norm(&ShardedNorm { norm, divisor }, &x, &[w.view(), w.view()]).expect("one shape");
    let expected = |divisor: f64| [3.0, 4.0].map(|x| array![[x * (1e-6 + 25.0 / divisor).sqrt().recip()]]);
    assert_eq!(of(2), expected(2.0));
    assert_eq!(of(8), expected(8.0));
}

/// D09: of one rank that counts all its channels it is `rms_norm`, wherever ε stands.
#[test]
fn one_rank_norms_as_rms_norm_does() {
    let (x, w) = (array![[3e-4, 4e-4], [1.0, -2.0]], array![1.5, 0.5]);
    for place in [EpsPlace::Inside, EpsPlace::Outside] {
        let norm = RmsNorm::under(&RoundingContract::IDEAL, 1e-6, place);
        let p = ShardedNorm { norm, divisor: 2 };
        let y = sharded_norm(&p, std::slice::from_ref(&x), &[w.view()]).expect("one shape");
        assert_eq!(Ok(y[0].clone()), rms_norm(&norm, x.view(), w.view()));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let p = ShardedNorm { norm: norm(&RoundingContract::IDEAL), divisor: 2 };
    let (x, w) = (array![[1.0, 2.0]], array![1.0, 1.0]);
    let said = |p: &ShardedNorm, parts: &[Array2<f64>], weights: &[ArrayView1<'_, f64>]| {
        sharded_norm(p, parts, weights).expect_err("it does not fit").to_string()
    };
    assert_eq!(said(&p, &[], &[]), "sharded_norm C1: R = 0, expected at least 1");
    let other = array![[1.0]];
    assert_eq!(
        said(&p, &[x.clone(), other], &[w.view(), w.view()]),
        "sharded_norm C2: shape of a part = (1, 1), expected (1, 2)"
    );
    assert_eq!(
        said(&p, std::slice::from_ref(&x), &[]),
        "sharded_norm C3: len(w(r)) = [], expected c = 2 for each rank"
    );
    let none = ShardedNorm { divisor: 0, ..p };
    assert_eq!(said(&none, std::slice::from_ref(&x), &[w.view()]), "sharded_norm C4: D = 0, expected at least 1");
    let of_zero = ShardedNorm { norm: RmsNorm { eps: 0.0, ..p.norm }, ..p };
    assert_eq!(said(&of_zero, &[x], &[w.view()]), "rms_norm C3: ε = 0, expected above 0");
}
