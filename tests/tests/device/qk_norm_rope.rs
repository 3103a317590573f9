//! `optimized/kernels/qk_norm_rope.cu` and `optimized/src/ops/qk_norm_rope.rs`.

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::qk_norm_rope::{KeysValues, Weights, qk_norm_rope};
use proptest::prelude::*;
use reference::ops::qk_norm::QkNorm;
use reference::ops::qk_norm_rope as oracle;
use reference::ops::rms_norm::RmsNorm;
use reference::ops::rope::{Rope, RopeTable, rope_table};
use reference::semantics::{self, EpsPlace};
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

const EPS: f64 = 1e-6;

/// Heads, groups, channels, rotated channels; tokens, and those before them.
#[derive(Debug, Clone, Copy)]
struct Case {
    heads: (usize, usize),
    d: usize,
    rotary: usize,
    n: usize,
    first: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let heads = prop_oneof![Just((1, 1)), Just((6, 2)), Just((4, 4)), Just((5, 1))];
    let width = prop_oneof![Just((2, 2)), Just((12, 8)), Just((16, 16)), Just((24, 2)), Just((128, 64))];
    (heads, width, 1..6_usize, 0..300_usize, any::<u64>()).prop_map(|(heads, (d, rotary), n, first, seed)| Case {
        heads,
        d,
        rotary,
        n,
        first,
        seed,
    })
}

impl Case {
    fn params(&self) -> oracle::QkNormRope {
        let norm = RmsNorm::under(&RoundingContract::IDEAL, EPS, EpsPlace::Inside);
        oracle::QkNormRope {
            query_heads: self.heads.0,
            key_heads: self.heads.1,
            norm: QkNorm { norm, over: semantics::QkNorm::FullProjection, head_dim: self.d },
            rope: Rope { head_dim: self.d, rotary_dim: self.rotary, theta: 1e4, ..Rope::default() },
        }
    }
}

/// Queries, keys and values without padding, and whether all padding and all other positions are as they were.
fn run(gpu: &Gpu, case: Case, x: &Array2<bf16>, w: &[Array2<bf16>; 2], table: &RopeTable<f32>) -> [Array2<bf16>; 3] {
    let layout = HeadLayout::new(case.heads.0, case.heads.1, case.d).expect("groups divide heads");
    let dim = (case.first + case.n + 1, case.heads.1 * layout.padded());
    let mut kept = KeysValues { keys: gpu.zeros(dim).expect("memory"), values: gpu.zeros(dim).expect("memory") };
    let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
    let [query_norm, key_norm] = w.each_ref().map(upload);
    let cos = gpu.upload(table.cos.view()).expect("memory");
    let sin = gpu.upload(table.sin.view()).expect("memory");
    let weights = Weights { query_norm: &query_norm, key_norm: &key_norm, cos: &cos, sin: &sin, eps: 1e-6 };
    let q = qk_norm_rope(gpu, &layout, &upload(x), weights, case.first, &mut kept).unwrap_or_else(|e| panic!("{e}"));
    let now = case.first..case.first + case.n;
    let keys = gpu.download(&kept.keys).expect("memory");
    let values = gpu.download(&kept.values).expect("memory");
    for (row, (k, v)) in keys.rows().into_iter().zip(values.rows()).enumerate() {
        let untouched = k.iter().chain(v).all(|&x| x == bf16::ZERO);
        assert!(now.contains(&row) || untouched, "position {row} was not this pass's to write");
    }
    let unpadded = |x: Array2<bf16>| {
        let wide = layout.padded();
        assert!(x.indexed_iter().all(|((_, j), &x)| j % wide < case.d || x == bf16::ZERO), "padding is zero");
        Array2::from_shape_fn((x.nrows(), x.ncols() / wide * case.d), |(i, j)| x[[i, j / case.d * wide + j % case.d]])
    };
    [
        gpu.download(&q).expect("memory"),
        keys.slice(s![now.clone(), ..]).to_owned(),
        values.slice(s![now, ..]).to_owned(),
    ]
    .map(unpadded)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn queries_and_keys_are_within_the_bound_and_values_are_kept(case in case()) {
        let (h, g) = (case.heads.0 * case.d, case.heads.1 * case.d);
        let x = activations(case.seed, (case.n, h + 2 * g));
        let w = [activations(!case.seed, (1, h)), activations(case.seed ^ 1, (1, g))];
        let p = case.params();
        let table = rope_table::<f32>(&p.rope, case.first, case.n);
        let exact_table = RopeTable { cos: exact(&table.cos), sin: exact(&table.sin) };
        let (exact_x, wide_w) = (Tracked::exact(wide(&x)), w.each_ref().map(|w| wide(w).row(0).to_owned()));
        let weights = wide_w.each_ref().map(|w| w.view());
        let want = oracle::qk_norm_rope(&p, exact_x.view(), weights, &exact_table).expect("shapes fit");
        let bounds = p.under(&RoundingContract::FUSED).bound(&exact_x, weights, &exact_table, &want);
        let [of_queries, of_keys] = bounds.expect("shapes fit");
        for gpu in devices() {
            let [q, k, v] = run(&gpu, case, &x, &w, &table);
            assert_within(&wide(&q), &want.queries, &of_queries, &format!("{} {case:?} queries", gpu.name()));
            assert_within(&wide(&k), &want.keys, &of_keys, &format!("{} {case:?} keys", gpu.name()));
            prop_assert_eq!(wide(&v), &want.values);
        }
    }
}

fn exact(table: &Tracked<f32>) -> Tracked<f64> {
    Tracked::exact(table.value.mapv(f64::from))
}

#[test]
fn c4_more_tokens_than_the_cache_holds() {
    for gpu in devices() {
        let layout = HeadLayout::new(1, 1, 8).expect("groups divide heads");
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let mut kept = KeysValues { keys: zeros((4, 16)), values: zeros((4, 16)) };
        let table = gpu.zeros::<f32>((3, 4)).expect("memory");
        let (w, u) = (zeros((1, 8)), zeros((1, 8)));
        let weights = Weights { query_norm: &w, key_norm: &u, cos: &table, sin: &table, eps: 1e-6 };
        let error = qk_norm_rope(&gpu, &layout, &zeros((3, 24)), weights, 2, &mut kept).expect_err("5 of 4 positions");
        assert_eq!(error.to_string(), "qk_norm_rope C4: positions = 5, expected at most 4");
    }
}
