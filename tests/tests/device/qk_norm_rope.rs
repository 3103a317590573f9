//! `optimized/kernels/qk_norm_rope.cu` and `optimized/src/ops/qk_norm_rope.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::all_reduce::all_reduce_f32;
use optimized::ops::qk_norm_rope::{
    IndexHeads, KeysValues, Squares, Weights, qk_norm_rope, qk_norm_rope_per_head, qk_norm_rope_sharded, squares,
};
use optimized::tensor::Matrix;
use proptest::prelude::*;
use reference::bound::ErrorBound;
use reference::ops::qk_norm::QkNorm;
use reference::ops::qk_norm_rope as oracle;
use reference::ops::rms_norm::RmsNorm;
use reference::ops::rope::{Rope, RopeTable, rope_table};
use reference::semantics::{self, EpsPlace, NormWeight};
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

    /// Values, and what the reference makes of them.
    fn given(&self) -> Given {
        let (h, g) = (self.heads.0 * self.d, self.heads.1 * self.d);
        let x = activations(self.seed, (self.n, h + 2 * g));
        let w = [activations(!self.seed, (1, h)), activations(self.seed ^ 1, (1, g))];
        let p = self.params();
        let table = rope_table::<f32>(&p.rope, self.first, self.n);
        let exact_table = RopeTable { cos: exact(&table.cos), sin: exact(&table.sin) };
        let (exact_x, wide_w) = (Tracked::exact(wide(&x)), w.each_ref().map(|w| wide(w).row(0).to_owned()));
        let weights = wide_w.each_ref().map(|w| w.view());
        let want = oracle::qk_norm_rope(&p, exact_x.view(), weights, &exact_table).expect("shapes fit");
        let bounds = p.under(&RoundingContract::PARITY).bound(&exact_x, weights, &exact_table, &want);
        Given { x, w, table, want, bounds: bounds.expect("shapes fit") }
    }
}

struct Given {
    /// Tokens \[n, (H + 2G)·d\].
    x: Array2<bf16>,
    /// Norms of queries and of keys.
    w: [Array2<bf16>; 2],
    table: RopeTable<f32>,
    want: oracle::Heads<f64>,
    /// Of queries and keys.
    bounds: [ErrorBound; 2],
}

impl Given {
    /// Queries and keys within their bounds, and values as they were.
    fn assert_within(&self, [q, k, v]: [&Array2<bf16>; 3], what: &str) {
        let [of_queries, of_keys] = &self.bounds;
        assert_within(&wide(q), &self.want.queries, of_queries, &format!("{what} queries"));
        assert_within(&wide(k), &self.want.keys, of_keys, &format!("{what} keys"));
        assert_eq!(wide(v), self.want.values, "{what} values");
    }
}

/// Heads of d channels without their padding, which is zero.
fn unpadded(x: &Array2<bf16>, d: usize) -> Array2<bf16> {
    let wide = HeadLayout::new(1, 1, d).expect("one head").padded();
    assert!(x.indexed_iter().all(|((_, j), &x)| j % wide < d || x == bf16::ZERO), "padding is zero");
    Array2::from_shape_fn((x.nrows(), x.ncols() / wide * d), |(i, j)| x[[i, j / d * wide + j % d]])
}

/// Queries, keys and values without padding, and whether all padding and all other positions are as they were.
fn run(gpu: &Gpu, case: Case, Given { x, w, table, .. }: &Given) -> [Array2<bf16>; 3] {
    let layout = HeadLayout::new(case.heads.0, case.heads.1, case.d).expect("groups divide heads");
    let dim = (case.first + case.n + 1, case.heads.1 * layout.padded());
    let mut kept = KeysValues { keys: gpu.zeros(dim).expect("memory"), values: gpu.zeros(dim).expect("memory") };
    let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
    let [query_norm, key_norm] = w.each_ref().map(upload);
    let cos = gpu.upload(table.cos.view()).expect("memory");
    let sin = gpu.upload(table.sin.view()).expect("memory");
    let weights =
        Weights { query_norm: &query_norm, key_norm: &key_norm, cos: &cos, sin: &sin, first_row: 0, eps: 1e-6 };
    let q = qk_norm_rope(gpu, &layout, &upload(x), weights, case.first, &mut kept).unwrap_or_else(|e| panic!("{e}"));
    let now = case.first..case.first + case.n;
    let keys = gpu.download(&kept.keys).expect("memory");
    let values = gpu.download(&kept.values).expect("memory");
    for (row, (k, v)) in keys.rows().into_iter().zip(values.rows()).enumerate() {
        let untouched = k.iter().chain(v).all(|&x| x == bf16::ZERO);
        assert!(now.contains(&row) || untouched, "position {row} was not this pass's to write");
    }
    [
        gpu.download(&q).expect("memory"),
        keys.slice(s![now.clone(), ..]).to_owned(),
        values.slice(s![now, ..]).to_owned(),
    ]
    .map(|x| unpadded(&x, case.d))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn queries_and_keys_are_within_the_bound_and_values_are_kept(case in case()) {
        let given = case.given();
        for gpu in devices() {
            let [q, k, v] = run(&gpu, case, &given);
            given.assert_within([&q, &k, &v], &format!("{} {case:?}", gpu.name()));
        }
    }
}

/// What a rank has, and computes by the squares of all ranks: queries, keys and values, with their padding.
fn run_sharded(gpu: &Gpu, (case, ranks): (Case, usize), Given { x, w, table, .. }: &Given) -> Vec<[Array2<bf16>; 3]> {
    let (heads, groups, d) = (case.heads.0 / ranks, case.heads.1 / ranks, case.d);
    let layout = HeadLayout::new(heads, groups, d).expect("groups divide heads");
    let upload = |matrix: ArrayView2<'_, bf16>| gpu.upload(matrix).expect("memory");
    let of_rank = |rank: usize| {
        let part = |first: usize, heads: usize| {
            let begin = (first + rank * heads) * d;
            x.slice(s![.., begin..begin + heads * d])
        };
        let [q, k, v] =
            [(0, heads), (case.heads.0, groups), (case.heads.0 + case.heads.1, groups)].map(|(at, n)| part(at, n));
        upload(concatenate(Axis(1), &[q, k, v]).expect("all tokens").view())
    };
    let x: Vec<_> = (0..ranks).map(of_rank).collect();
    let own: Vec<_> = x.iter().map(|x| squares(gpu, &layout, x).unwrap_or_else(|error| panic!("{error}"))).collect();
    let sums = all_reduce_f32(gpu, &own.iter().collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
    let squares = Squares { sums: &sums, divisors: [case.heads.0 * d, case.heads.1 * d] };
    let (cos, sin) = (upload_wide(gpu, &table.cos), upload_wide(gpu, &table.sin));
    let computed = |(rank, x): (usize, &Matrix<bf16>)| {
        let norm = |w: &Array2<bf16>, heads: usize| upload(w.slice(s![.., rank * heads * d..(rank + 1) * heads * d]));
        let (query_norm, key_norm) = (norm(&w[0], heads), norm(&w[1], groups));
        let weights =
            Weights { query_norm: &query_norm, key_norm: &key_norm, cos: &cos, sin: &sin, first_row: 0, eps: 1e-6 };
        let dim = (case.n, groups * layout.padded());
        let mut kept = KeysValues { keys: gpu.zeros(dim).expect("memory"), values: gpu.zeros(dim).expect("memory") };
        let q = qk_norm_rope_sharded(gpu, &layout, x, (weights, squares), 0, &mut kept);
        let q = q.unwrap_or_else(|error| panic!("{error}"));
        [&q, &kept.keys, &kept.values].map(|matrix| gpu.download(matrix).expect("memory"))
    };
    x.iter().enumerate().map(computed).collect()
}

fn upload_wide(gpu: &Gpu, values: &Tracked<f32>) -> Matrix<f32> {
    gpu.upload(values.view()).expect("memory")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Ranks norm their heads by what all of them have; one rank's bits are those of the kernel that has all heads.
    #[test]
    fn ranks_together_are_within_the_bound(case in case(), ranks in prop::sample::select(vec![1_usize, 2])) {
        let case = Case { heads: (case.heads.0 * ranks, case.heads.1 * ranks), first: 0, ..case };
        let given = case.given();
        for gpu in devices() {
            let of_ranks = run_sharded(&gpu, (case, ranks), &given);
            let [q, k, v] = [0, 1, 2].map(|which| {
                let parts: Vec<_> = of_ranks.iter().map(|of_rank| of_rank[which].view()).collect();
                unpadded(&concatenate(Axis(1), &parts).expect("all tokens"), case.d)
            });
            if ranks == 1 {
                let [of_q, of_k, of_v] = run(&gpu, case, &given);
                prop_assert_eq!((of_k, of_v), (k.clone(), v.clone()));
                prop_assert_eq!(of_q, q.clone());
            }
            given.assert_within([&q, &k, &v], &format!("{} {case:?}", gpu.name()));
        }
    }
}

#[test]
fn k8_sums_are_of_these_tokens_and_of_some_channels() {
    for gpu in devices() {
        let layout = HeadLayout::new(2, 1, 4).expect("one group");
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let (x, norm, key_norm) = (zeros((3, 16)), zeros((1, 8)), zeros((1, 4)));
        let table = gpu.zeros::<f32>((3, 4)).expect("memory");
        let weights =
            Weights { query_norm: &norm, key_norm: &key_norm, cos: &table, sin: &table, first_row: 0, eps: 1e-6 };
        let mut kept = KeysValues { keys: zeros((3, 16)), values: zeros((3, 16)) };
        let mut said = |rows, divisors| {
            let sums = gpu.zeros((rows, 2)).expect("memory");
            let squares = Squares { sums: &sums, divisors };
            qk_norm_rope_sharded(&gpu, &layout, &x, (weights, squares), 0, &mut kept)
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        assert_eq!(said(3, [8, 4]), Ok(()));
        let others = "qk_norm_rope K8: shape of the sums = (2, 2), expected (3, 2)";
        assert_eq!(said(2, [8, 4]), Err(others.to_owned()));
        assert_eq!(said(3, [8, 0]), Err("qk_norm_rope K8: D = 0, expected at least 1".to_owned()));
    }
}

/// Queries, keys and values, then index queries and keys, without padding.
fn run_per_head(gpu: &Gpu, case: PerHead, x: &Array2<bf16>, table: &RopeTable<f32>) -> Vec<Array2<bf16>> {
    let layout = HeadLayout::new(case.main.heads.0, case.main.heads.1, case.main.d).expect("groups divide heads");
    let positions = case.main.first + case.main.n + 1;
    let now = s![case.main.first..positions - 1, ..];
    let zeros = |width: usize| gpu.zeros::<bf16>((positions, width)).expect("memory");
    let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
    let width = case.main.heads.1 * layout.padded();
    let mut kept = KeysValues { keys: zeros(width), values: zeros(width) };
    let norms = case.norms().each_ref().map(upload);
    let (cos, sin) = (gpu.upload(table.cos.view()).expect("memory"), gpu.upload(table.sin.view()).expect("memory"));
    let weights = Weights { query_norm: &norms[0], key_norm: &norms[1], cos: &cos, sin: &sin, first_row: 0, eps: 1e-6 };
    let index_layout = case.index.map(|(heads, d)| HeadLayout::new(heads, 1, d).expect("one group"));
    let mut index_keys = index_layout.as_ref().map(|layout| zeros(layout.padded()));
    let index = index_layout.as_ref().zip(index_keys.as_mut()).map(|(layout, keys)| IndexHeads {
        layout,
        query_norm: &norms[2],
        key_norm: &norms[3],
        keys,
    });
    let weights = (weights, case.weight);
    let done = qk_norm_rope_per_head(gpu, &layout, &upload(x), weights, case.main.first, &mut kept, index);
    let (q, index_q) = done.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let kept_rows = |matrix| {
        let all: Array2<bf16> = gpu.download(matrix).expect("memory");
        let others = all.rows().into_iter().enumerate().filter(|(i, _)| *i < case.main.first || *i == positions - 1);
        assert!(others.flat_map(|(_, row)| row).all(|&x| x == bf16::ZERO), "other positions are as they were");
        all.slice(now).to_owned()
    };
    let main = [gpu.download(&q).expect("memory"), kept_rows(&kept.keys), kept_rows(&kept.values)];
    let mut all: Vec<_> = main.into_iter().map(|x| unpadded(&x, layout.head_dim())).collect();
    if let (Some(layout), Some(q), Some(keys)) = (index_layout, index_q, index_keys) {
        all.push(unpadded(&gpu.download(&q).expect("memory"), layout.head_dim()));
        all.push(unpadded(&kept_rows(&keys), layout.head_dim()));
    }
    all
}

/// The index heads and their channels, if there are some, and what norms multiply by.
#[derive(Debug, Clone, Copy)]
struct PerHead {
    main: Case,
    index: Option<(usize, usize)>,
    weight: NormWeight,
}

fn per_head() -> impl Strategy<Value = PerHead> {
    let weight = prop_oneof![Just(NormWeight::Plain), Just(NormWeight::OnePlus)];
    let wider = prop_oneof![Just(0_usize), Just(4), Just(20)];
    (case(), prop::option::of((1..5_usize, wider)), weight).prop_map(|(main, index, weight)| PerHead {
        main,
        index: index.map(|(heads, more)| (heads, (main.rotary + more).min(128))),
        weight,
    })
}

impl PerHead {
    /// Of queries, keys, index queries and index keys.
    fn norms(&self) -> [Array2<bf16>; 4] {
        let index = self.index.map_or(1, |(_, d)| d);
        [self.main.d, self.main.d, index, index].map(|d| activations(self.main.seed ^ (d as u64 + 7), (1, d)))
    }

    /// The main heads' operator, or the indexer's, whose keys are one head.
    fn params(&self, index: bool) -> oracle::QkNormRope {
        let mut p = self.main.params();
        let (heads, d) = if index { self.index.expect("there are index heads") } else { (0, self.main.d) };
        if index {
            (p.query_heads, p.key_heads) = (heads, 1);
        }
        p.norm.norm = p.norm.norm.weighing(self.weight);
        (p.norm.over, p.norm.head_dim, p.rope.head_dim) = (semantics::QkNorm::PerHead, d, d);
        p
    }

    /// Holds heads against the operator of their kind, whose values are made up for the indexer.
    fn demand(&self, index: bool, x: &Array2<bf16>, got: &[Array2<bf16>], table: &RopeTable<f32>, what: &str) {
        let p = self.params(index);
        let exact_table = RopeTable { cos: exact(&table.cos), sin: exact(&table.sin) };
        let norms = self.norms().map(|w| wide(&w).row(0).to_owned());
        let weights = if index { [norms[2].view(), norms[3].view()] } else { [norms[0].view(), norms[1].view()] };
        let x = Tracked::exact(wide(x));
        let want = oracle::qk_norm_rope(&p, x.view(), weights, &exact_table).expect("shapes fit");
        let bounds = p.under(&RoundingContract::PARITY).bound(&x, weights, &exact_table, &want);
        let [of_queries, of_keys] = bounds.expect("shapes fit");
        assert_within(&wide(&got[0]), &want.queries, &of_queries, &format!("{what} queries"));
        assert_within(&wide(&got[1]), &want.keys, &of_keys, &format!("{what} keys"));
        if !index {
            assert_eq!(wide(&got[2]), want.values, "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_head_by_itself_is_within_the_bound(case in per_head()) {
        let main = (case.main.heads.0 + 2 * case.main.heads.1) * case.main.d;
        let index = case.index.map_or(0, |(heads, d)| (heads + 1) * d);
        let x = activations(case.main.seed, (case.main.n, main + index));
        let table = rope_table::<f32>(&case.main.params().rope, case.main.first, case.main.n);
        for gpu in devices() {
            let got = run_per_head(&gpu, case, &x, &table);
            let what = format!("{} {case:?}", gpu.name());
            case.demand(false, &x.slice(s![.., ..main]).to_owned(), &got[..3], &table, &what);
            if let Some((_, d)) = case.index {
                // The operator has values, which the indexer has not.
                let with_values = Array2::from_shape_fn((case.main.n, index + d), |(i, j)| {
                    if j < index { x[[i, main + j]] } else { bf16::ZERO }
                });
                case.demand(true, &with_values, &got[3..], &table, &format!("{what} index"));
            }
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
        let weights = Weights { query_norm: &w, key_norm: &u, cos: &table, sin: &table, first_row: 0, eps: 1e-6 };
        let error = qk_norm_rope(&gpu, &layout, &zeros((3, 24)), weights, 2, &mut kept).expect_err("5 of 4 positions");
        assert_eq!(error.to_string(), "qk_norm_rope K5: positions = 5, expected at most 4");
    }
}
