//! `reference/src/ops/qk_norm_rope.rs`.

use ndarray::{Array1, Array2, s};
use proptest::prelude::*;
use reference::bound::ErrorBound;
use reference::ops::qk_norm::{QkNorm, qk_norm};
use reference::ops::qk_norm_rope::{Heads, QkNormRope, qk_norm_rope};
use reference::ops::rms_norm::RmsNorm;
use reference::ops::rope::{Rope, RopeTable, rope, rope_table};
use reference::rounding::Chain;
use reference::semantics::{self, EpsPlace};
use reference::{Real, Rounding, RoundingContract, Tracked};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, matrix, noise, random};

/// x \[n, (H + 2G)·d\] at positions from `first` on, w and u, under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    /// Rounds nothing.
    params: QkNormRope,
    first: usize,
    x: Matrix,
    w: Matrix,
    u: Matrix,
    noise: Noise,
}

impl Case {
    fn weights(&self) -> [Array1<f64>; 2] {
        [self.w.vector(), self.u.vector()]
    }

    fn table(&self) -> RopeTable<f64> {
        let table = rope_table(&self.params.rope, self.first, self.x.nrows());
        RopeTable { cos: Tracked::exact(table.cos.value), sin: Tracked::exact(table.sin.value) }
    }

    fn heads(&self, p: &QkNormRope, x: &Array2<f64>) -> Heads<f64> {
        let weights = self.weights();
        let heads = qk_norm_rope(p, x.view(), weights.each_ref().map(|w| w.view()), &self.table());
        heads.expect("the case keeps the contract")
    }

    /// Columns of q, of k and of v.
    fn columns(&self) -> [usize; 3] {
        let (q, k) = (self.w.ncols(), self.u.ncols());
        [q, k, k]
    }

    /// What a device computes with a table in f32, the truth, and the bounds: of q̃, and of K.
    fn judged(&self) -> [(Array2<f64>, Array2<f64>, ErrorBound); 2] {
        let (p, x, table) = (self.params.under(&self.contract), self.noise.on(&self.x, 0), self.table());
        let weights = self.weights();
        let (wide, narrow) = (weights.each_ref().map(|w| w.view()), weights.each_ref().map(|w| w.mapv(f32::of)));
        let in_f32 = |table: &Tracked<f64>| Tracked::plain(table.value.mapv(f32::of));
        let device_table = RopeTable { cos: in_f32(&table.cos), sin: in_f32(&table.sin) };
        let got = qk_norm_rope(&p, x.f32().view(), narrow.each_ref().map(|w| w.view()), &device_table).expect("good");
        let rounded = |table: Tracked<f64>| table.with_rounding(reference::Storage::F32);
        let table = RopeTable { cos: rounded(table.cos), sin: rounded(table.sin) };
        let want = self.heads(&self.params, &self.x);
        let [of_queries, of_keys] = p.bound(&x.tracked, wide, &table, &want).expect("good");
        let wide = |got: Array2<f32>| got.mapv(f64::from);
        [(wide(got.queries), want.queries, of_queries), (wide(got.keys), want.keys, of_keys)]
    }
}

fn params((query_heads, key_heads): (usize, usize), (d, rotary_dim): (usize, usize)) -> QkNormRope {
    let norm = RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside);
    let p = QkNormRope {
        query_heads,
        key_heads,
        norm: QkNorm { norm, over: semantics::QkNorm::FullProjection, head_dim: d },
        rope: Rope { head_dim: d, rotary_dim, theta: 5e6, ..Rope::default() },
    };
    p.under(&RoundingContract::IDEAL)
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let dims = (1..4_usize, 1..3_usize, 1..3_usize, 1..5_usize, 0..4_usize);
    (contract(), noise(), dims, 0..5000_usize).prop_flat_map(move |(contract, noise, (n, g, share, h, rest), first)| {
        let (heads, d, storage) = (g * share, 2 * h + rest, contract.activations);
        let params = params((heads, g), (d, 2 * h));
        let x = filled((n, (heads + 2 * g) * d), fill.clone(), storage);
        (x, matrix((1, heads * d), storage), matrix((1, g * d), storage)).prop_map(move |(x, w, u)| Case {
            contract,
            params,
            first,
            x,
            w,
            u,
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

proptest! {
    /// Each projection for itself: normed, stored in between if the contract says so, rotated. Values are copied.
    #[test]
    fn it_is_the_norm_and_the_rotation_of_each_projection_exactly(case in case()) {
        let p = case.params.under(&case.contract);
        let mut norm = p.norm;
        norm.norm = RmsNorm::under(&RoundingContract { rms: case.contract.qk_rms, ..*case.contract }, 1e-6, EpsPlace::Inside);
        if case.contract.qk_norm == Chain::Once {
            (norm.norm.normalized, norm.norm.output) = (Rounding::NONE, Rounding::NONE);
        }
        let (table, [q, k, _]) = (case.table(), case.columns());
        let rotated = |x: Array2<f64>, w: Array1<f64>| {
            let y = qk_norm(&norm, x.view(), w.view()).expect("good");
            rope(&case.params.rope.under(&case.contract), y.view(), table.cos.view(), table.sin.view()).expect("good")
        };
        let (heads, [w, u]) = (case.heads(&p, &case.x), case.weights());
        prop_assert_eq!(heads.queries, rotated(case.x.slice(s![.., ..q]).to_owned(), w));
        prop_assert_eq!(heads.keys, rotated(case.x.slice(s![.., q..q + k]).to_owned(), u));
        prop_assert_eq!(heads.values, case.x.slice(s![.., q + k..]));
    }

    #[test]
    fn queries_keys_and_values_do_not_see_each_other(case in case()) {
        let p = case.params.under(&case.contract);
        let (heads, [q, k, _]) = (case.heads(&p, &case.x), case.columns());
        let with = |columns: std::ops::Range<usize>| {
            let mut x = case.x.values();
            x.slice_mut(s![.., columns]).fill(1.0);
            case.heads(&p, &x)
        };
        let (other_q, other_k) = (with(0..q), with(q..q + k));
        prop_assert_eq!((&other_q.keys, &other_q.values), (&heads.keys, &heads.values));
        prop_assert_eq!((&other_k.queries, &other_k.values), (&heads.queries, &heads.values));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        for (got, want, bound) in case.judged() {
            within(&got, &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        for (got, want, bound) in case.judged() {
            likely(&got, &want, &bound)?;
        }
    }
}

#[test]
fn c1_a_row_without_its_values() {
    let p = params((4, 2), (3, 2));
    let (w, u) = (Array1::<f64>::ones(12), Array1::ones(6));
    let table = rope_table(&p.rope, 0, 1);
    let err = qk_norm_rope(&p, Array2::zeros((1, 18)).view(), [w.view(), u.view()], &table).expect_err("12 + 6 + 6");
    assert_eq!(err.to_string(), "qk_norm_rope C1: columns of x = 18, expected (H + 2G)·d = 24");
}

#[test]
fn the_other_constraints_are_those_of_the_parts() {
    let p = params((1, 1), (3, 2));
    let run = |w: usize, positions| {
        let (w, u) = (Array1::<f64>::ones(w), Array1::ones(3));
        let table = rope_table(&p.rope, 0, positions);
        let heads = qk_norm_rope(&p, Array2::ones((1, 9)).view(), [w.view(), u.view()], &table);
        heads.expect_err("against the contract").to_string()
    };
    assert_eq!(run(4, 1), "qk_norm C2: len(w) = 4, expected columns of x = 3, or d = 3");
    assert_eq!(run(3, 2), "rope C3: shape of c = (2, 2), expected (1, 2)");
}
