//! `optimized/kernels/vision_attention.cu` and `optimized/src/ops/vision_attention.rs`.

use std::ops::Range;

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::attention::{Cut, attention_cut};
use optimized::ops::qk_norm_rope::KeysValues;
use optimized::ops::rope::pad_heads;
use optimized::ops::vision_attention::vision_attention;
use optimized::tensor::Matrix;
use proptest::prelude::*;
use reference::ops::vision_attention as oracle;
use reference::ops::vision_attention::VisionAttention;
use reference::semantics::VisionSpan;
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

/// Heads, channels, rows of each segment.
#[derive(Debug, Clone)]
struct Case {
    heads: usize,
    d: usize,
    segments: Vec<usize>,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let d = prop_oneof![Just(1), Just(12), Just(16), Just(24), Just(64), Just(80), Just(128)];
    let rows = prop_oneof![1..20_usize, 50..80_usize, 250..330_usize];
    let segments = prop::collection::vec(rows, 1..4);
    (1..4_usize, d, segments, any::<u64>()).prop_map(|(heads, d, segments, seed)| Case { heads, d, segments, seed })
}

impl Case {
    fn layout(&self) -> HeadLayout {
        HeadLayout::new(self.heads, self.heads, self.d).expect("d is at most 128")
    }

    /// q, k and v without padding.
    fn inputs(&self) -> [Array2<bf16>; 3] {
        let rows = self.segments.iter().sum();
        [0, 1, 2].map(|i| activations(self.seed.wrapping_add(i), (rows, self.heads * self.d)))
    }

    /// The rows of each segment.
    fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let range = |&rows| {
            end += rows;
            end - rows..end
        };
        self.segments.iter().map(range).collect()
    }
}

fn upload(gpu: &Gpu, layout: &HeadLayout, x: ArrayView2<'_, bf16>) -> Matrix<bf16> {
    pad_heads(gpu, layout.head_dim(), &gpu.upload(x).expect("memory")).expect("heads are whole")
}

/// o, whose padding is zero.
fn run(gpu: &Gpu, layout: &HeadLayout, inputs: [ArrayView2<'_, bf16>; 3], segments: &[usize]) -> Array2<bf16> {
    let [q, k, v] = inputs.map(|x| upload(gpu, layout, x));
    let o = vision_attention(gpu, layout, [&q, &k, &v], segments).unwrap_or_else(|error| panic!("{error}"));
    let o = gpu.download_padded(&o).expect("memory");
    let (inside, padding) = o.view().split_at(ndarray::Axis(1), inputs[0].ncols());
    assert!(padding.iter().all(|&x| x == bf16::ZERO), "padding is zero");
    inside.to_owned()
}

fn bits(o: ArrayView2<'_, bf16>) -> Array2<u16> {
    o.mapv(bf16::to_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn it_is_within_the_bound(case in case(), global: bool) {
        let inputs = case.inputs();
        let [q, k, v] = inputs.each_ref().map(wide);
        let span = if global { VisionSpan::Global } else { VisionSpan::Segmented };
        let p = |contract| VisionAttention::under(contract, case.heads, case.d, span);
        let ideal = p(&RoundingContract::IDEAL);
        let want = oracle::vision_attention(&ideal, q.view(), k.view(), v.view(), &case.segments).expect("shapes fit");
        let [q, k, v] = [q, k, v].map(Tracked::exact);
        let error = p(&RoundingContract::PARITY).bound(&q, &k, &v, &case.segments, &want);
        let segments = if global { vec![want.nrows()] } else { case.segments.clone() };
        for gpu in devices() {
            let got = run(&gpu, &case.layout(), inputs.each_ref().map(|x| x.view()), &segments);
            assert_within(&wide(&got), &want, &error, &format!("{} {case:?} {span}", gpu.name()));
        }
    }

    /// A segment's bits are those that it has alone, even where all others are not numbers.
    #[test]
    fn segments_do_not_see_each_other(case in case(), at in any::<prop::sample::Index>()) {
        let mut inputs = case.inputs();
        let own = at.get(&case.ranges()).clone();
        for x in &mut inputs {
            for (i, mut row) in x.rows_mut().into_iter().enumerate() {
                if !own.contains(&i) {
                    row.fill(bf16::NAN);
                }
            }
        }
        for gpu in devices() {
            let whole = run(&gpu, &case.layout(), inputs.each_ref().map(|x| x.view()), &case.segments);
            let alone = run(&gpu, &case.layout(), inputs.each_ref().map(|x| x.slice(s![own.clone(), ..])), &[own.len()]);
            prop_assert_eq!(bits(whole.slice(s![own.clone(), ..])), bits(alone.view()), "{}", gpu.name());
        }
    }

    /// What a query says does not depend on the queries beside it: the last one is that of `attention`, to the bit.
    #[test]
    fn the_last_query_is_that_of_attention(case in case()) {
        let (layout, inputs) = (case.layout(), case.inputs());
        let n = inputs[0].nrows();
        for gpu in devices() {
            let o = run(&gpu, &layout, inputs.each_ref().map(|x| x.view()), &[n]);
            let [q, keys, values] = inputs.each_ref().map(|x| x.view());
            let q = upload(&gpu, &layout, q.slice(s![n - 1.., ..]));
            let kept = KeysValues { keys: upload(&gpu, &layout, keys), values: upload(&gpu, &layout, values) };
            for cut in [Cut::Queries, Cut::Keys] {
                let last = attention_cut(&gpu, cut, &layout, &q, n - 1, &kept).expect("shapes fit");
                let last: Array2<bf16> = gpu.download(&last).expect("memory");
                prop_assert_eq!(bits(last.view()), bits(o.slice(s![n - 1.., ..])), "{} {:?}", gpu.name(), cut);
            }
        }
    }
}

/// With equal scores each output is the mean of its segment's values, which for 2ᵖ rows is exact.
#[test]
fn equal_scores_give_the_mean_of_the_segment() {
    let layout = HeadLayout::new(2, 2, 16).expect("as many groups");
    let segments = [1, 64, 2, 128, 32];
    let n: usize = segments.iter().sum();
    let (q, k) = (Array2::from_elem((n, 32), bf16::ZERO), activations(1, (n, 32)));
    let v = Array2::from_shape_fn((n, 32), |(i, c)| bf16::from_f32(if i % 32 == c { 128.0 } else { 0.0 }));
    let mut want = Array2::from_elem((n, 32), bf16::ZERO);
    let mut first = 0;
    for rows in segments {
        let own = s![first..first + rows, ..];
        let mean = |column: ndarray::ArrayView1<'_, bf16>| column.iter().map(|x| x.to_f32()).sum::<f32>() / rows as f32;
        let mean = v.slice(own).map_axis(ndarray::Axis(0), |column| bf16::from_f32(mean(column)));
        want.slice_mut(own).assign(&mean);
        first += rows;
    }
    for gpu in devices() {
        assert_eq!(run(&gpu, &layout, [q.view(), k.view(), v.view()], &segments), want, "{}", gpu.name());
    }
}

/// A key or a value that is not a number shows in every row of its segment, and in no other.
#[test]
fn what_is_not_a_number_stays_in_its_segment() {
    let layout = HeadLayout::new(1, 1, 16).expect("one group");
    for which in [1, 2] {
        let mut inputs = [1, 2, 3].map(|seed| activations(seed, (100, 16)));
        inputs[which].row_mut(70).fill(bf16::NAN);
        for gpu in devices() {
            let o = run(&gpu, &layout, inputs.each_ref().map(|x| x.view()), &[69, 30, 1]);
            for (i, row) in o.rows().into_iter().enumerate() {
                assert_eq!(row.iter().any(|x| x.is_nan()), (69..99).contains(&i), "{} row {i}", gpu.name());
            }
        }
    }
}

#[test]
fn c1_to_c4_rows_segments_and_heads_that_do_not_fit() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let refused = |k: (usize, usize), segments: &[usize], (heads, groups)| {
            let layout = HeadLayout::new(heads, groups, 16).expect("groups divide heads");
            let (q, k) = (zeros((3, 32)), zeros(k));
            vision_attention(&gpu, &layout, [&q, &k, &k], segments).expect_err("it does not fit").to_string()
        };
        assert_eq!(refused((4, 32), &[3], (2, 2)), "vision_attention C1: rows of k = 4, expected n = 3");
        assert_eq!(
            refused((3, 32), &[3, 0], (2, 2)),
            "vision_attention C2: rows of segment 1 = 0, expected at least 1"
        );
        assert_eq!(refused((3, 32), &[1, 1], (2, 2)), "vision_attention C3: rows of all segments = 2, expected n = 3");
        assert_eq!(refused((3, 32), &[3], (2, 1)), "vision_attention K1: G = 1, expected H = 2");
        assert_eq!(refused((3, 16), &[3], (2, 2)), "vision_attention K1: cols(k) = 16, expected 2 heads");
    }
}
