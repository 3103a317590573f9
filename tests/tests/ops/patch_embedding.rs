//! `reference/src/ops/patch_embedding.rs`.

use ndarray::{Array2, Array5, array};
use proptest::prelude::*;
use reference::accumulator::Accumulator;
use reference::config::Patch;
use reference::ops::linear::Linear;
use reference::ops::patch_embedding::{PatchEmbedding, patch_embedding};
use reference::semantics::PatchOrder;
use reference::{Real, Rounding, RoundingContract, Storage, Tracked, matrix};
use tests::judge::{likely, reached, within};
use tests::simulated::{Order, rounded};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, finite, noise, random, ranging};

/// x \[n, C·T·P·P\] and w \[m, C·T·P·P\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    patch: Patch,
    x: Matrix,
    w: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> PatchEmbedding {
        PatchEmbedding::under(&self.contract, self.patch, PatchOrder::ColourFirst)
    }

    fn want(&self) -> Array2<f64> {
        oracle(&ideal(self.patch), &self.x, &self.w.stored())
    }

    /// The reference in f32, and kernels that sum in every order; with the pixels and the weight rounded, or as they are.
    fn devices(&self, x: &Array2<f32>) -> Vec<Array2<f64>> {
        let p = self.params();
        let orders = Order::of(p.linear.accumulator);
        let sides = [
            (x.mapv(|x| p.pixels.round(x)), self.w.f32().mapv(|w| p.linear.weight.round(w))),
            (x.clone(), self.w.f32()),
        ];
        let of = |order: Order| sides.iter().map(move |(x, w)| order.product(x.view(), w.view()));
        let kernels: Vec<_> = orders.into_iter().flat_map(of).map(|y| rounded(&y, p.linear.output)).collect();
        let own = patch_embedding(&p, x.view(), &self.w.stored()).expect("good").mapv(f64::from);
        kernels.into_iter().chain([own]).collect()
    }
}

fn ideal(patch: Patch) -> PatchEmbedding {
    PatchEmbedding::under(&RoundingContract::IDEAL, patch, PatchOrder::ColourFirst)
}

fn oracle(p: &PatchEmbedding, x: &Array2<f64>, w: &matrix::Matrix<'_>) -> Array2<f64> {
    patch_embedding(p, x.view(), w).expect("the case keeps the contract")
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let patch = (1..4_usize, 1..3_usize, 1..4_usize);
    let drawn = (contract(), noise(), patch, (1..5_usize, 1..20_usize), any::<bool>());
    drawn.prop_flat_map(move |(contract, noise, (channels, frames, side), (n, m), wide)| {
        let patch = Patch { channels, frames, side };
        // The released checkpoint keeps the weight in f32.
        let stored = if wide { Storage::F32 } else { contract.activations };
        let x = ranging((n, patch.values()), fill.clone(), Storage::F32, contract.activations);
        let w = ranging((m, patch.values()), fill.clone(), stored, contract.activations);
        (x, w).prop_map(move |(x, w)| Case { contract, patch, x, w, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

proptest! {
    /// The definition, a convolution whose stride is its kernel: on whole numbers every order of summation is exact.
    #[test]
    fn is_the_convolution_of_a_patch(case in case_of(Just(Fill::Whole))) {
        let Patch { channels, frames, side } = case.patch;
        let kernel = |row: &[f64]| Array5::from_shape_vec((1, channels, frames, side, side), row.to_vec()).expect("fits");
        let want = Array2::from_shape_fn((case.x.nrows(), case.w.nrows()), |(i, j)| {
            let (x, w) = (kernel(&case.x.row(i).to_vec()), kernel(&case.w.row(j).to_vec()));
            let mut sum = 0.0;
            for (at, x) in x.indexed_iter() {
                sum += x * w[at];
            }
            sum
        });
        prop_assert_eq!(case.want(), want);
    }

    /// A port that reads the weight's columns as (t, c, p, q): the same with a weight whose columns are so ordered.
    #[test]
    fn a_port_may_read_the_weight_in_another_order(case in case_of(Just(Fill::Whole))) {
        let Patch { channels, frames, side } = case.patch;
        let area = side * side;
        let reordered = Array2::from_shape_fn(case.w.dim(), |(j, column)| {
            let (c, t, i) = (column / area / frames, column / area % frames, column % area);
            case.w[[j, (t * channels + c) * area + i]]
        });
        let slip = PatchEmbedding { order: PatchOrder::TimeFirst, ..ideal(case.patch) };
        let want = oracle(&ideal(case.patch), &case.x, &matrix::Matrix::stored(reordered.view(), case.w.storage()));
        prop_assert_eq!(oracle(&slip, &case.x, &case.w.stored()), want);
        let bound = slip.bound(&case.x.exact(), &case.w.stored(), &case.want());
        prop_assert_eq!(bound.certain.dim(), case.want().dim());
    }

    /// A port whose pixels come as (t, c, p, q): the same of pixels that come so.
    #[test]
    fn a_port_may_take_pixels_in_another_order(case in case_of(Just(Fill::Whole))) {
        let Patch { channels, frames, side } = case.patch;
        let area = side * side;
        let slip = PatchEmbedding { order: PatchOrder::PixelsTimeFirst, ..ideal(case.patch) };
        let reordered = Array2::from_shape_fn(case.x.dim(), |(row, column)| {
            let (t, c, i) = (column / area / channels, column / area % channels, column % area);
            case.x[[row, (c * frames + t) * area + i]]
        });
        prop_assert_eq!(oracle(&slip, &reordered, &case.w.stored()), case.want());
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, &case.w.stored(), &want);
        for got in case.devices(&x.f32()) {
            within(&got, &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, &case.w.stored(), &want);
        for got in case.devices(&x.f32()) {
            likely(&got, &want, &bound)?;
        }
    }

    #[test]
    fn nan_and_infinity_stay_visible(case in case(), at in any::<prop::sample::Index>()) {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut x = case.x.values();
            x[[0, at.index(case.x.ncols())]] = bad;
            let y = oracle(&case.params(), &x, &case.w.stored());
            prop_assert!(y.row(0).iter().all(|y| !y.is_finite()));
            prop_assert!(y.rows().into_iter().skip(1).all(|row| row.iter().all(|y| y.is_finite())));
        }
    }
}

/// One pixel, without R2.
fn unrounded(contract: &RoundingContract) -> PatchEmbedding {
    let patch = Patch { channels: 1, frames: 1, side: 1 };
    let p = PatchEmbedding::under(contract, patch, PatchOrder::ColourFirst);
    PatchEmbedding { linear: Linear { output: Rounding::NONE, ..p.linear }, ..p }
}

/// 1.005 is in bf16 1.0078125. A weight that is stored in bf16 is as it is.
#[test]
fn r1_rounds_pixels_and_weight() {
    let p = unrounded(&RoundingContract::EAGER_BF16);
    let of = |w: f64, storage| oracle(&p, &array![[1.005]], &matrix::Matrix::stored(array![[w]].view(), storage));
    assert_eq!(of(1.005, Storage::F32), array![[1.007_812_5 * 1.007_812_5]]);
    assert_eq!(of(1.0, Storage::Bf16), array![[1.007_812_5]]);
    let kept = oracle(
        &unrounded(&RoundingContract::EAGER_F32),
        &array![[0.1]],
        &matrix::Matrix::stored(array![[1.0]].view(), Storage::Bf16),
    );
    assert_eq!(kept, array![[f64::from(0.1_f32)]]);
}

/// 1.005 becomes 1.0078125, or stays; either is within the bound, and the first takes nearly all of what R1 may take.
#[test]
fn the_bound_of_r1_is_reached() {
    let p = unrounded(&RoundingContract { accumulator: Accumulator::F32, ..RoundingContract::EAGER_BF16 });
    let (x, w) = (array![[1.0 + 2.0_f64.powi(-8)]], matrix::Matrix::stored(array![[1.0]].view(), Storage::Bf16));
    let bound = p.bound(&Tracked::exact(x.clone()), &w, &x);
    let ratio = reached(&array![[1.0]], &x, &bound);
    assert!((0.99..=1.0).contains(&ratio), "{ratio}");
    // What bf16 holds is not rounded.
    let bound = p.bound(&Tracked::exact(array![[1.0]]), &w, &array![[1.0]]);
    assert!(bound.certain[[0, 0]] < 4.0 * f32::UNIT_ROUNDOFF);
}

#[test]
fn c1_patches_of_another_size() {
    let w = matrix::Matrix::stored(Array2::zeros((3, 4)).view(), Storage::Bf16);
    let p = ideal(Patch { channels: 3, frames: 2, side: 14 });
    let err = patch_embedding(&p, Array2::<f64>::zeros((1, 1175)).view(), &w).expect_err("against the contract");
    assert_eq!(err.to_string(), "patch_embedding C1: columns of x = 1175, expected C·T·P·P = 3·2·14·14 = 1176");
}
