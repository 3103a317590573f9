//! The indexer's bounds: of token scores and of block maxima.

use super::*;
use ndarray::ArrayView2;
use reference::accumulator::Accumulator;
use strum::VariantNames;
use tests::judge::{likely, reached, within};
use tests::simulated::Order;

/// A kernel's token scores, in each order that the accumulator allows.
fn kernels(case: &Case, q: &Array2<f32>, k: &Array2<f32>) -> Vec<Array2<f32>> {
    let orders = Order::of(case.contract.accumulator);
    let (p, d) = (case.under(&case.contract), case.k.ncols());
    let scores = |order: Order| {
        let mut scores = Array2::from_elem((q.nrows() * case.groups, k.nrows()), f32::NEG_INFINITY);
        for head in 0..case.groups {
            let dots = order.product(q.slice(s![.., head * d..(head + 1) * d]), k.view());
            for (i, dots) in dots.rows().into_iter().enumerate() {
                let row = i * case.groups + head;
                for j in 0..=case.position(row) {
                    scores[[row, j]] = dots[j] * f32::of(p.scale);
                }
            }
        }
        scores
    };
    orders.into_iter().map(scores).collect()
}

/// The largest of a row's scores block by block, of each head or of all.
fn maxima(case: &Case, scores: ArrayView2<'_, f32>) -> Array2<f64> {
    let (size, groups) = (case.blocks.size, case.groups);
    Array2::from_shape_fn((scores.nrows(), scores.ncols().div_ceil(size)), |(row, block)| {
        let heads = match case.semantics.msa_select {
            MsaSelect::PerGroup => row..row + 1,
            MsaSelect::HeadMax => row / groups * groups..(row / groups + 1) * groups,
        };
        let block = block * size..((block + 1) * size).min(scores.ncols());
        scores.slice(s![heads, block]).iter().copied().fold(f32::NEG_INFINITY, f32::max).wide()
    })
}

proptest! {
    #[test]
    fn token_scores_stay_within_their_bound(case in case()) {
        let (p, q, k) = (case.under(&case.contract), case.noise.on(&case.q, 0), case.noise.on(&case.k, 1));
        let want = token_scores(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let bound = p.bound_scores(&q.tracked, &k.tracked);
        within(&token_scores(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from), &want, &bound)?;
        for got in kernels(&case, &q.f32(), &k.f32()) {
            within(&got.mapv(f64::from), &want, &bound)?;
        }
    }

    #[test]
    fn block_maxima_stay_within_their_bound(case in case()) {
        let (p, q, k) = (case.under(&case.contract), case.noise.on(&case.q, 0), case.noise.on(&case.k, 1));
        let want = block_max(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let bound = p.bound_block_max(&q.tracked, &k.tracked, &want);
        within(&block_max(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from), &want, &bound)?;
        if p.pool == MsaPool::Max {
            for got in kernels(&case, &q.f32(), &k.f32()) {
                within(&maxima(&case, got.view()), &want, &bound)?;
            }
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random(), semantics())) {
        let (p, q, k) = (case.under(&case.contract), case.noise.on(&case.q, 0), case.noise.on(&case.k, 1));
        let want = token_scores(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let got = token_scores(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        likely(&got, &want, &p.bound_scores(&q.tracked, &k.tracked))?;
        let want = block_max(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let got = block_max(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        likely(&got, &want, &p.bound_block_max(&q.tracked, &k.tracked, &want))?;
    }

    /// A port's slips have bounds of their own.
    #[test]
    fn a_device_that_slips_stays_within_the_bounds(
        case in case(),
        mask in prop::sample::select(vec![IndexMask::Block, IndexMask::Token]),
        kept in prop::sample::select(vec![Storage::Bf16, Storage::Real]),
        pad in prop::sample::select(MsaPad::VARIANTS),
        of in prop::sample::select(IndexHeads::VARIANTS),
    ) {
        let (pad, of) = (pad.parse().expect("a way"), of.parse().expect("whose"));
        let slip = |p: Indexer| Indexer { mask, kept, pad, of, ..p };
        let (p, ideal) = (slip(case.under(&case.contract)), slip(case.ideal()));
        let (q, k) = (case.noise.on(&case.q, 0), case.noise.on(&case.k, 1));
        let want = token_scores(&ideal, case.q.view(), case.k.view()).expect("good");
        let got = token_scores(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound_scores(&q.tracked, &k.tracked))?;
        let want = block_max(&ideal, case.q.view(), case.k.view()).expect("good");
        let got = block_max(&p, q.f32().view(), k.f32().view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound_block_max(&q.tracked, &k.tracked, &want))?;
    }

    /// What is forced has no error, what is not has its own.
    #[test]
    fn forced_blocks_are_exact(case in case()) {
        let (p, q, k) = (case.under(&case.contract), case.noise.on(&case.q, 0), case.noise.on(&case.k, 1));
        let maxima = block_max(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let error = p.bound_block_max(&q.tracked, &k.tracked, &maxima);
        let scores = boosted(&case.ideal(), maxima.view(), case.k.nrows());
        let after = p.bound_boosted(error.clone(), &scores);
        for (at, &m) in scores.indexed_iter() {
            prop_assert_eq!(after.certain[at], if m == f64::INFINITY { 0.0 } else { error.certain[at] });
            prop_assert_eq!(m == maxima[at] || m == f64::INFINITY, true);
        }
    }

    #[test]
    fn a_noisy_run_stays_within_the_likely_bound(
        case in case_of(Just(Fill::Activation), Just(Semantics::RELEASED)),
        seed in 1..1000_u64,
    ) {
        let p = case.under(&case.contract.stochastic(seed));
        let want = block_max(&case.ideal(), case.q.view(), case.k.view()).expect("good");
        let mut bound = p.bound_block_max(&case.q.exact(), &case.k.exact(), &want);
        bound.certain *= 2.0;
        bound.sigma *= 2.0;
        likely(&block_max(&p, case.q.view(), case.k.view()).expect("good"), &want, &bound)?;
    }
}

/// A key that is off by its error, and a query with it; the lower of two scores, which overtakes the other.
#[test]
fn the_bound_is_reached_by_input_errors() {
    let p = params(Blocks { size: 2, top_k: 1, local: 1, init: 0 });
    let with = |x: Array2<f64>, e: f64| {
        let mut tracked = Tracked::exact(x);
        tracked.error.as_mut().expect("exact is tracked").certain.fill(e);
        tracked
    };
    let (q, k) = (with(array![[2.0]], 0.01), with(array![[3.0], [2.99]], 0.1));
    let want = block_max(&p, q.view(), k.view()).expect("good");
    let bound = p.bound_block_max(&q, &k, &want);
    for (keys, least) in [(array![[3.1], [2.99]], 0.99), (array![[3.0], [3.09]], 0.9)] {
        let got = block_max(&p, array![[2.01]].view(), keys.view()).expect("good");
        let ratio = reached(&got, &want, &bound);
        assert!((least..=1.0).contains(&ratio), "{ratio}");
    }
    assert_eq!(bound.carried, 1);
}

/// Sixteen products of which each addition loses nearly half an ulp.
#[test]
fn the_bound_is_reached_by_the_sum() {
    let contract = RoundingContract { accumulator: Accumulator::F32, ..RoundingContract::EAGER_F32 };
    let d = 4096;
    let blocks = Blocks { size: 1, top_k: 1, local: 0, init: 0 };
    let p = Indexer::under(&contract, &Semantics::RELEASED, (1, 1), d, blocks);
    let mut k = Array2::from_elem((1, d), 2.0_f64.powi(-24) * (1.0 + 2.0_f64.powi(-20)));
    k[[0, 0]] = 1.0;
    let q = Array2::ones((1, d));
    let want = token_scores(&Indexer { accumulator: Accumulator::F64, ..p }, q.view(), k.view()).expect("good");
    let got = Order::Sequential.dot(&vec![1.0; d], &k.row(0).mapv(f32::of).to_vec());
    let bound = p.bound_scores(&Tracked::exact(q), &Tracked::exact(k));
    let ratio = reached(&array![[f64::from(got)]], &want, &bound);
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
}
