//! `reference/src/ops/hybrid_attention.rs`.

use ndarray::{Array2, s};
use proptest::prelude::*;
use reference::ops::attention::{Attention, attention};
use reference::ops::hybrid_attention::{HybridAttention, hybrid_attention};
use reference::{Real, RoundingContract};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, Perturbed, contract, filled, finite, noise, random};

/// q \[n, H·d\], k and v \[s, G·d\], of which the first groups see a window.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    heads: (usize, usize),
    dim: usize,
    local: usize,
    window: usize,
    x: [Matrix; 3],
    noise: Noise,
}

/// The operator, on queries, keys and values that keep its contract.
fn of<T: Real>(p: &HybridAttention, x: [&Array2<T>; 3]) -> Array2<T> {
    hybrid_attention(p, x[0].view(), x[1].view(), x[2].view()).expect("the case keeps the contract")
}

impl Case {
    fn under(&self, contract: &RoundingContract) -> HybridAttention {
        let full = Attention::under(contract, self.heads, self.dim);
        HybridAttention { full, local_heads: self.local * (self.heads.0 / self.heads.1), window: self.window }
    }

    fn exact(&self, p: &HybridAttention) -> Array2<f64> {
        of(p, self.x.each_ref().map(|x| &**x))
    }

    /// What a device computes, the truth and the bound.
    fn judged(&self) -> (Array2<f64>, Array2<f64>, reference::bound::ErrorBound) {
        let mut which = 0..;
        let x = self.x.each_ref().map(|x| self.noise.on(x, which.next().expect("endless")));
        let (p, want) = (self.under(&self.contract), self.exact(&self.under(&RoundingContract::IDEAL)));
        let narrow = x.each_ref().map(Perturbed::f32);
        let got = of(&p, narrow.each_ref()).mapv(f64::from);
        let bound = p.bound(&x[0].tracked, &x[1].tracked, &x[2].tracked, &want);
        (got, want, bound)
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let sizes = (1..5_usize, 0..20_usize, 1..4_usize, 1..3_usize, 1..6_usize, 1..8_usize);
    (contract(), noise(), sizes, any::<prop::sample::Index>()).prop_flat_map(
        move |(contract, noise, (n, before, key, group, dim, window), local)| {
            let storage = contract.activations;
            let matrix = |rows, heads: usize| filled((rows, heads * dim), fill.clone(), storage);
            let (heads, local) = ((key * group, key), local.index(key + 1));
            (matrix(n, heads.0), matrix(n + before, key), matrix(n + before, key)).prop_map(move |(q, k, v)| Case {
                contract,
                heads,
                dim,
                local,
                window,
                x: [q, k, v],
                noise,
            })
        },
    )
}

proptest! {
    /// Of attention to a window of the same keys, and to all of them, each head has one.
    #[test]
    fn each_head_is_attention_of_its_kind_exactly(case in case_of(finite())) {
        let p = case.under(&case.contract);
        let of = |window| {
            let [q, k, v] = case.x.each_ref().map(|x| x.view());
            attention(&Attention { window, ..p.full }, q, k, v).expect("the case keeps the contract")
        };
        let (local, full, got) = (of(Some(case.window)), of(None), case.exact(&p));
        let first = p.local_heads * case.dim;
        let bits = |x: &Array2<f64>, of: std::ops::Range<usize>| x.slice(s![.., of]).mapv(f64::to_bits);
        prop_assert_eq!(bits(&got, 0..first), bits(&local, 0..first));
        prop_assert_eq!(bits(&got, first..got.ncols()), bits(&full, first..got.ncols()));
    }

    /// A value that is out of every window reaches no head that sees one.
    #[test]
    fn what_is_behind_the_window_cannot_matter_to_local_heads_exactly(case in case_of(Just(Fill::Activation))) {
        let (p, [q, k, v]) = (case.under(&RoundingContract::IDEAL), case.x.each_ref());
        let first_seen = (k.nrows() - q.nrows() + 1).saturating_sub(case.window);
        let mut moved = v.values();
        moved.slice_mut(s![..first_seen, ..]).mapv_inplace(|v| v + 1.0);
        let (was, is) = (case.exact(&p), of(&p, [q, k, &moved]));
        let local = s![.., ..p.local_heads * case.dim];
        prop_assert_eq!(was.slice(local), is.slice(local));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case_of(finite())) {
        let (got, want, bound) = case.judged();
        within(&got, &want, &bound)?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (got, want, bound) = case.judged();
        likely(&got, &want, &bound)?;
    }
}

#[test]
fn constraints_name_what_breaks_them() {
    let full = Attention::under(&RoundingContract::IDEAL, (6, 3), 2);
    let refused = |local_heads, window| {
        let (q, k) = (Array2::<f64>::zeros((2, 12)), Array2::<f64>::zeros((2, 6)));
        let p = HybridAttention { full, local_heads, window };
        hybrid_attention(&p, q.view(), k.view(), k.view()).map(|_| ()).map_err(|error| error.to_string())
    };
    let groups = "expected a multiple of the 2 heads that share keys, up to H = 6";
    assert_eq!(refused(3, 4), Err(format!("hybrid_attention C1: L = 3, {groups}")));
    assert_eq!(refused(8, 4), Err(format!("hybrid_attention C1: L = 8, {groups}")));
    assert_eq!(refused(2, 0), Err("hybrid_attention C2: w = 0, expected at least 1".to_owned()));
    assert_eq!(refused(6, 1), Ok(()));
    let narrow = Array2::<f64>::zeros((1, 4));
    let p = HybridAttention { full, local_heads: 2, window: 1 };
    let error = hybrid_attention(&p, narrow.view(), narrow.view(), narrow.view()).expect_err("too narrow");
    assert!(error.to_string().starts_with("attention C2"), "{error}");
}
