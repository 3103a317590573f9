//! `reference/src/ops/all_reduce.rs`.

use ndarray::{Array2, array, s};
use proptest::prelude::*;
use reference::matrix::Matrix as Weight;
use reference::ops::all_reduce::{AllReduce, all_reduce};
use reference::ops::linear::{Linear, linear};
use reference::probe::NoProbe;
use reference::ranks::Ranks;
use reference::run::Run;
use reference::{RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, matrix, noise};

#[derive(Debug)]
struct Case {
    contract: Contract,
    parts: Vec<Matrix>,
    noise: Noise,
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), noise(), 1..4_usize, 1..20_usize, 1..9_usize).prop_flat_map(|(contract, noise, n, d, ranks)| {
        let part = matrix((n, d), contract.activations);
        prop::collection::vec(part, ranks).prop_map(move |parts| Case { contract, parts, noise })
    })
}

fn plain(parts: &[Array2<f64>]) -> Vec<Tracked<f64>> {
    parts.iter().cloned().map(Tracked::plain).collect()
}

/// In the order of ranks, from `first` on and around, as a ring adds.
fn around(p: &AllReduce, parts: &[Tracked<f32>], first: usize) -> Array2<f64> {
    let order: Vec<Tracked<f32>> = (0..parts.len()).map(|i| parts[(first + i) % parts.len()].clone()).collect();
    all_reduce(p, &order).expect("parts of one shape").mapv(f64::from)
}

proptest! {
    /// Whole numbers, so that no order of sums rounds.
    #[test]
    fn the_parts_of_all_columns_are_the_product_exactly(
        x in filled((3, 24), Just(Fill::Whole), Storage::Bf16),
        w in filled((5, 24), Just(Fill::Whole), Storage::Bf16),
        ranks in prop::sample::select(vec![2_usize, 4, 8]),
    ) {
        let w = Weight::stored(w.view(), Storage::Bf16);
        let (x, mut probe) = (Tracked::plain((*x).clone()), NoProbe);
        let whole = linear(&Linear::under(&RoundingContract::IDEAL), x.view(), &w).expect("it fits");
        let run = Run::new(RoundingContract { ranks, ..RoundingContract::IDEAL }, &mut probe);
        let parts = run.row_parallel(&x, &w, &Ranks::even_parts(24, run.ranks())).expect("it fits");
        prop_assert_eq!((parts.len(), run.all_reduce(&parts).expect("one shape").value), (ranks, whole));
    }

    #[test]
    fn any_order_stays_within_the_bound(case in case()) {
        let p = AllReduce::under(&case.contract);
        let parts: Vec<_> = case.parts.iter().zip(0..).map(|(part, i)| case.noise.on(part, i)).collect();
        let exact: Vec<Array2<f64>> = case.parts.iter().map(|part| (**part).clone()).collect();
        let want = all_reduce(&AllReduce::under(&RoundingContract::IDEAL), &plain(&exact)).expect("one shape");
        let tracked: Vec<Tracked<f64>> = parts.iter().map(|part| part.tracked.clone()).collect();
        let got: Vec<Tracked<f32>> = parts.iter().map(|part| Tracked::plain(part.f32())).collect();
        let bound = p.bound(&tracked);
        for first in 0..got.len() {
            let got = around(&p, &got, first);
            within(&got, &want, &bound)?;
            likely(&got, &want, &bound)?;
        }
    }
}

/// 256 + 1 + 1 is 256 in bf16 where each sum is rounded, for 257 lies between 256 and 258, and 258 from the other end.
#[test]
fn each_sum_is_rounded_in_the_order_of_ranks() {
    let p = AllReduce::under(&RoundingContract::EAGER_BF16);
    let parts = [256.0, 1.0, 1.0].map(|x| Tracked::plain(array![[x]]));
    assert_eq!(all_reduce(&p, &parts).expect("one shape"), array![[256.0]]);
    let turned = [1.0, 1.0, 256.0].map(|x| Tracked::plain(array![[x]]));
    assert_eq!(all_reduce(&p, &turned).expect("one shape"), array![[258.0]]);
}

/// A sum in the middle of two bf16.
#[test]
fn the_bound_is_reached() {
    let p = AllReduce::under(&RoundingContract::EAGER_BF16);
    let parts = [256.0, 1.0].map(|x| Tracked::exact(array![[x]]));
    let ratio = reached(&all_reduce(&p, &parts).expect("one shape"), &array![[257.0]], &p.bound(&parts));
    assert!(ratio > 0.9, "{ratio}");
}

#[test]
fn parts_of_other_shapes_are_refused() {
    let p = AllReduce::under(&RoundingContract::IDEAL);
    let none: [Tracked<f64>; 0] = [];
    assert!(all_reduce(&p, &none).expect_err("no part").to_string().contains("all_reduce C1"));
    let x = Array2::<f64>::zeros((2, 3));
    let parts = plain(&[x.clone(), x.slice(s![..1, ..]).to_owned()]);
    assert!(all_reduce(&p, &parts).expect_err("another shape").to_string().contains("all_reduce C2"));
}
