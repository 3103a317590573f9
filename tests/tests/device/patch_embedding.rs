//! `optimized/kernels/patch_embedding.cu` and `optimized/src/ops/patch_embedding.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::patch_embedding::{patch_embedding, rounded};
use proptest::prelude::*;
use reference::config::Patch;
use reference::ops::patch_embedding as oracle;
use reference::ops::patch_embedding::PatchEmbedding;
use reference::semantics::PatchOrder;
use reference::{RoundingContract, Storage, Tracked, matrix};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::strategy::{Fill, Matrix};
use tests::values::{Draw, activations};

fn params(contract: &RoundingContract, patch: Patch) -> PatchEmbedding {
    PatchEmbedding::under(contract, patch, PatchOrder::ColourFirst)
}

/// Values that no bf16 is.
fn pixels(seed: u64, dim: (usize, usize)) -> Array2<f32> {
    let mut draw = Draw::new(seed);
    Array2::from_shape_simple_fn(dim, || draw.signed_unit() * 2.5)
}

/// y of x and w, both f32, on the device, with its padding checked.
fn run(gpu: &Gpu, patch: Patch, x: ArrayView2<'_, f32>, w: ArrayView2<'_, f32>) -> Array2<bf16> {
    let device = || -> Result<Array2<bf16>, Error> {
        let p = params(&RoundingContract::PARITY, patch);
        let w = rounded(gpu, &gpu.upload(w)?)?;
        gpu.download_padded(&patch_embedding(gpu, &p, &gpu.upload(x)?, &w)?)
    };
    let y = device().unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(Axis(1), w.nrows());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

fn patch() -> impl Strategy<Value = Patch> {
    (1..4_usize, 1..3_usize, 1..7_usize).prop_map(|(channels, frames, side)| Patch { channels, frames, side })
}

/// Fails unless the devices' y is within the reference's bound.
fn demand_within(patch: Patch, x: &Array2<f32>, w: &Array2<f32>, what: &str) {
    let exact = Tracked::exact(x.mapv(f64::from));
    let stored = matrix::Matrix::stored(w.mapv(f64::from).view(), Storage::F32);
    let want = oracle::patch_embedding(&params(&RoundingContract::IDEAL, patch), exact.view(), &stored);
    let want = want.expect("shapes fit");
    let error = params(&RoundingContract::PARITY, patch).bound(&exact, &stored, &want);
    for gpu in devices() {
        assert_within(&wide(&run(&gpu, patch, x.view(), w.view())), &want, &error, &format!("{} {what}", gpu.name()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn it_is_within_the_bound(patch in patch(), (n, m) in (1..30_usize, 1..80_usize), seed: u64) {
        let (x, w) = (pixels(seed, (n, patch.values())), pixels(!seed, (m, patch.values())));
        demand_within(patch, &x, &w, &format!("{patch:?} {n} {m} {seed}"));
    }

    /// A row's bits do not depend on the rows beside it, whatever these are.
    #[test]
    fn patches_do_not_see_each_other(patch in patch(), (n, m) in (2..30_usize, 1..80_usize), seed: u64) {
        let (mut x, w) = (pixels(seed, (n, patch.values())), pixels(!seed, (m, patch.values())));
        x.row_mut(0).fill(f32::NAN);
        for gpu in devices() {
            let whole = run(&gpu, patch, x.view(), w.view());
            let last = run(&gpu, patch, x.slice(s![n - 1.., ..]), w.view());
            prop_assert_eq!(last, whole.slice(s![n - 1.., ..]), "{}", gpu.name());
        }
    }

    /// R1, in rows that leave a remainder: the nearest bf16, ties to even; also of values too small to be normal.
    #[test]
    fn r1_rounds_to_the_nearest((n, k) in (1..5_usize, 1..1200_usize), seed: u64, fill in prop::sample::select(&Fill::FINITE)) {
        let x = Matrix::new((n, k), fill, Storage::F32, seed).f32();
        for gpu in devices() {
            let y = rounded(&gpu, &gpu.upload(x.view()).expect("memory")).expect("it is small");
            let y = gpu.download_padded(&y).expect("memory");
            let (inside, padding) = y.view().split_at(Axis(1), k);
            prop_assert_eq!(inside.mapv(bf16::to_bits), x.mapv(|x| bf16::from_f32(x).to_bits()), "{}", gpu.name());
            prop_assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
        }
    }
}

/// The tower's patches: three colours, two frames, 14 pixels to a side.
#[test]
fn patches_of_1176_values() {
    let patch = Patch { channels: 3, frames: 2, side: 14 };
    demand_within(patch, &pixels(1, (5, 1176)), &pixels(2, (70, 1176)), "the tower's");
}

/// Ties go to the even neighbour, in pixels and in weights.
#[test]
fn r1_at_pixels_and_weights() {
    let (patch, tie) = (Patch { channels: 1, frames: 1, side: 1 }, 1.0 + 2.0_f32.powi(-8));
    let of = |value: f32| Array2::from_elem((1, 1), value);
    for gpu in devices() {
        for (x, w, y) in [(tie, 1.0, 1.0), (1.0, tie, 1.0), (3.0 * tie - 2.0, 1.0, 1.015_625)] {
            assert_eq!(run(&gpu, patch, of(x).view(), of(w).view()), of(y).mapv(bf16::from_f32), "{x} {w}");
        }
    }
}

#[test]
fn c1_and_c2_pixels_of_another_patch_and_another_order() {
    let patch = Patch { channels: 3, frames: 2, side: 2 };
    let p = params(&RoundingContract::PARITY, patch);
    for gpu in devices() {
        let w = gpu.upload(activations(1, (4, 24)).view()).expect("memory");
        let refused = |p: &PatchEmbedding, columns| {
            let x = gpu.zeros::<f32>((2, columns)).expect("memory");
            patch_embedding(&gpu, p, &x, &w).expect_err("it does not fit").to_string()
        };
        assert_eq!(refused(&p, 23), "patch_embedding C1: columns of x = 23, expected C·T·P·P = 3·2·2·2 = 24");
        let other = PatchEmbedding { order: PatchOrder::TimeFirst, ..p };
        assert_eq!(refused(&other, 24), "patch_embedding K2: order = time_first, expected colour_first");
    }
}
