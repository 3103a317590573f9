//! `reference/src/ops/vision_attention.rs`.

use ndarray::{Array2, Axis, array, concatenate, s};
use proptest::prelude::*;
use reference::ops::vision_attention::{VisionAttention, vision_attention};
use reference::semantics::VisionSpan;
use reference::{RoundingContract, Tracked};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// q, k and v \[n, H·d\] of some segments, under a contract, with errors of all.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    span: VisionSpan,
    heads: usize,
    segments: Vec<usize>,
    inputs: [Matrix; 3],
    noise: Noise,
}

impl Case {
    fn dim(&self) -> usize {
        self.inputs[0].ncols() / self.heads
    }

    fn params(&self) -> VisionAttention {
        VisionAttention::under(&self.contract, self.heads, self.dim(), self.span)
    }

    fn ideal(&self) -> VisionAttention {
        VisionAttention::under(&RoundingContract::IDEAL, self.heads, self.dim(), self.span)
    }

    fn of(&self, p: &VisionAttention, [q, k, v]: [&Array2<f64>; 3]) -> Array2<f64> {
        vision_attention(p, q.view(), k.view(), v.view(), &self.segments).expect("the case keeps the contract")
    }

    fn want(&self) -> Array2<f64> {
        self.of(&self.ideal(), [&self.inputs[0], &self.inputs[1], &self.inputs[2]])
    }

    /// The rows that row i sees.
    fn seen(&self, i: usize) -> std::ops::Range<usize> {
        let mut first = 0;
        for &rows in self.segments.iter().filter(|_| self.span == VisionSpan::Segmented) {
            if i < first + rows {
                return first..first + rows;
            }
            first += rows;
        }
        0..self.inputs[0].nrows()
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let rows = prop_oneof![9 => 1..9_usize, 1 => 60..70_usize];
    let segments = proptest::collection::vec(rows, 1..4);
    let span = prop_oneof![3 => Just(VisionSpan::Segmented), 1 => Just(VisionSpan::Global)];
    let drawn = (contract(), span, noise(), segments, (1..4_usize, 1..10_usize));
    drawn.prop_flat_map(move |(contract, span, noise, segments, (heads, dim))| {
        let n = segments.iter().sum();
        let matrix = || filled((n, heads * dim), fill.clone(), contract.activations);
        [matrix(), matrix(), matrix()].prop_map(move |inputs| Case {
            contract,
            span,
            heads,
            segments: segments.clone(),
            inputs,
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

/// Twice the ideal's own error: two evaluations in f64 of one mean.
fn close(case: &Case, one: &Array2<f64>, two: &Array2<f64>) -> Result<(), TestCaseError> {
    let [q, k, v] = case.inputs.each_ref().map(Matrix::exact);
    let mut bound = case.ideal().bound(&q, &k, &v, &case.segments, one);
    bound.certain *= 2.0;
    within(two, one, &bound).map(|_| ())
}

proptest! {
    /// The definition: Σⱼ e^sⱼ·vⱼ / Σⱼ e^sⱼ over the rows of its segment, or D48 over all.
    #[test]
    fn d48_is_the_softmax_mean_of_the_segment(case in case()) {
        let (dim, [q, k, v]) = (case.dim(), &case.inputs);
        let want = Array2::from_shape_fn(q.dim(), |(i, column)| {
            let head = column / dim;
            let score = |j: usize| {
                let dot: f64 = (head * dim..(head + 1) * dim).map(|c| q[[i, c]] * k[[j, c]]).sum();
                dot / (dim as f64).sqrt()
            };
            let top = case.seen(i).map(score).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = case.seen(i).map(|j| (score(j) - top).exp()).collect();
            let mean: f64 = case.seen(i).zip(&weights).map(|(j, w)| w * v[[j, column]]).sum();
            mean / weights.iter().sum::<f64>()
        });
        close(&case, &case.want(), &want)?;
    }

    /// What is in another segment cannot matter, even if it is not a number.
    #[test]
    fn segments_do_not_see_each_other_exactly(case in case()) {
        let case = Case { span: VisionSpan::Segmented, ..case };
        let own = case.seen(0);
        for bad in [3.0, f64::NAN, f64::INFINITY] {
            let mut moved = case.inputs.each_ref().map(Matrix::values);
            for x in &mut moved {
                x.slice_mut(s![own.end.., ..]).fill(bad);
            }
            for p in [case.ideal(), case.params()] {
                let is = case.of(&p, moved.each_ref());
                let was = case.of(&p, case.inputs.each_ref().map(|x| &**x));
                prop_assert_eq!(is.slice(s![..own.end, ..]), was.slice(s![..own.end, ..]));
            }
        }
    }

    /// Earlier and later patches alike: turned round, the output turns round, too.
    #[test]
    fn the_order_of_patches_is_irrelevant(case in case()) {
        let back: Vec<usize> = (0..case.inputs[0].nrows()).rev().collect();
        let turned = case.inputs.each_ref().map(|x| x.select(Axis(0), &back));
        let segments = case.segments.iter().rev().copied().collect();
        let y = Case { segments, ..case.clone() }.of(&case.ideal(), turned.each_ref());
        close(&case, &case.want(), &y.select(Axis(0), &back))?;
    }

    /// With one segment both readings are one.
    #[test]
    fn d48_one_image_sees_all_of_itself(case in case()) {
        let n = case.inputs[0].nrows();
        let of = |span| Case { span, segments: vec![n], ..case.clone() }.want();
        prop_assert_eq!(of(VisionSpan::Segmented), of(VisionSpan::Global));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let p = case.params();
        let [q, k, v] = [0, 1, 2].map(|which| case.noise.on(&case.inputs[which], which as u64));
        let want = case.want();
        let got = vision_attention(&p, q.f32().view(), k.f32().view(), v.f32().view(), &case.segments).expect("good");
        within(&got.mapv(f64::from), &want, &p.bound(&q.tracked, &k.tracked, &v.tracked, &case.segments, &want))?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let p = case.params();
        let [q, k, v] = [0, 1, 2].map(|which| case.noise.on(&case.inputs[which], which as u64));
        let want = case.want();
        let got = vision_attention(&p, q.f32().view(), k.f32().view(), v.f32().view(), &case.segments).expect("good");
        likely(&got.mapv(f64::from), &want, &p.bound(&q.tracked, &k.tracked, &v.tracked, &case.segments, &want))?;
    }

    /// The bound of each segment is that of the segment alone.
    #[test]
    fn bounds_do_not_see_other_segments(case in case()) {
        let case = Case { span: VisionSpan::Segmented, ..case };
        let [q, k, v] = [0, 1, 2].map(|which| case.noise.on(&case.inputs[which], which as u64).tracked);
        let (p, want) = (case.params(), case.want());
        let bound = p.bound(&q, &k, &v, &case.segments, &want);
        let mut first = 0;
        let mut parts = Vec::new();
        for &rows in &case.segments {
            let part = |x: &Tracked<f64>| x.rows(first..first + rows);
            let o = want.slice(s![first..first + rows, ..]).to_owned();
            parts.push(p.bound(&part(&q), &part(&k), &part(&v), &[rows], &o).certain);
            first += rows;
        }
        let parts: Vec<_> = parts.iter().map(|part| part.view()).collect();
        prop_assert_eq!(bound.certain, concatenate(Axis(0), &parts).expect("as wide"));
    }
}

/// Equal keys: the mean of the values of the segment, or of all.
#[test]
fn by_hand() {
    let (q, v) = (array![[1.0], [1.0], [1.0]], array![[2.0], [4.0], [9.0]]);
    let of = |span| {
        let p = VisionAttention::under(&RoundingContract::IDEAL, 1, 1, span);
        vision_attention(&p, q.view(), q.view(), v.view(), &[2, 1]).expect("good")
    };
    assert_eq!(of(VisionSpan::Segmented), array![[3.0], [3.0], [9.0]]);
    assert_eq!(of(VisionSpan::Global), array![[5.0], [5.0], [5.0]]);
}

#[test]
fn constraints() {
    let fails = |keys: usize, segments: &[usize], heads: usize| {
        let p = VisionAttention::under(&RoundingContract::IDEAL, heads, 2, VisionSpan::Segmented);
        let (q, k) = (Array2::<f64>::zeros((3, 4)), Array2::zeros((keys, 4)));
        vision_attention(&p, q.view(), k.view(), k.view(), segments).expect_err("against the contract").to_string()
    };
    assert_eq!(fails(4, &[3], 2), "vision_attention C1: rows of k = 4, expected n = 3");
    assert_eq!(fails(3, &[3, 0], 2), "vision_attention C2: rows of segment 1 = 0, expected at least 1");
    assert_eq!(fails(3, &[1, 1], 2), "vision_attention C3: rows of all segments = 2, expected n = 3");
    assert_eq!(fails(3, &[3], 3), "attention C2: columns of q = 4, expected 3 heads · 2");
}
