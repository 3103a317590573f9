//! `optimized/kernels/mtp.cu` and `optimized/src/ops/mtp.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::kernel::Sources;
use optimized::kernel::table::MTP;
use optimized::ops::mtp::{Norms, mtp};
use proptest::prelude::*;
use reference::RoundingContract;
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::semantics::{EpsPlace, NormWeight};
use tests::bounds::bits;
use tests::device::{devices, emulated_devices};
use tests::values::activations;

const EPS: f32 = 1e-6;

/// e and h \[n, d\], and the weights of their norms \[1, d\].
struct Case {
    e: Array2<bf16>,
    h: Array2<bf16>,
    w_e: Array2<bf16>,
    w_h: Array2<bf16>,
    weight: NormWeight,
    zeroed: bool,
}

impl Case {
    fn new((n, d): (usize, usize), seed: u64, (gemma, zeroed): (bool, bool)) -> Self {
        let [e, h] = [seed, seed ^ 1].map(|seed| activations(seed, (n, d)));
        let [w_e, w_h] = [!seed, !seed ^ 1].map(|seed| activations(seed, (1, d)));
        let weight = if gemma { NormWeight::OnePlus } else { NormWeight::Plain };
        Case { e, h, w_e, w_h, weight, zeroed }
    }

    /// Both halves, on the device, with the padding checked.
    fn run(&self, gpu: &Gpu) -> Array2<bf16> {
        let device = || -> Result<Array2<bf16>, Error> {
            let upload = |x: &Array2<bf16>| gpu.upload(x.view());
            let (e, h, w_e, w_h) = (upload(&self.e)?, upload(&self.h)?, upload(&self.w_e)?, upload(&self.w_h)?);
            let norms = Norms { embedding: &w_e, hidden: &w_h, weight: self.weight, eps: EPS };
            gpu.download_padded(&mtp(gpu, &e, &h, norms, self.zeroed)?)
        };
        let y = device().unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
        let (inside, padding) = y.view().split_at(Axis(1), 2 * self.e.ncols());
        assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
        inside.to_owned()
    }

    /// The embedding as it counts.
    fn counted(&self) -> Array2<bf16> {
        let mut e = self.e.clone();
        if self.zeroed {
            e.row_mut(0).fill(bf16::ZERO);
        }
        e
    }
}

/// A half by its definition in f64, with what f32 and bf16 may add to it; `rms_norm`'s test has the derivation.
fn is_within(y: ArrayView2<'_, bf16>, x: &Array2<bf16>, w: &Array2<bf16>, one: f64) -> bool {
    let d = x.ncols() as f64;
    let (of_f32, of_bf16) = ((d / 2.0 + 9.0) / f64::from(1 << 24), 1.0 / f64::from(1 << 8));
    let rows = x.rows().into_iter().zip(y.rows());
    rows.into_iter().all(|(x, y)| {
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / d;
        x.iter().zip(w).zip(y).all(|((&x, &w), &y)| {
            let want = (one + f64::from(w)) * f64::from(x) / (mean + f64::from(EPS)).sqrt();
            (f64::from(y) - want).abs() <= want.abs() * (of_f32 + of_bf16 * (1.0 + of_f32))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn each_half_is_scaled_by_itself(
        (n, d) in (1..4_usize, 1..1500_usize), gemma: bool, zeroed: bool, seed: u64,
    ) {
        let case = Case::new((n, d), seed, (gemma, zeroed));
        let one = if gemma { 1.0 } else { 0.0 };
        for gpu in devices() {
            let y = case.run(&gpu);
            prop_assert!(is_within(y.slice(s![.., ..d]), &case.counted(), &case.w_e, one), "{}: e", gpu.name());
            prop_assert!(is_within(y.slice(s![.., d..]), &case.h, &case.w_h, one), "{}: h", gpu.name());
        }
    }

    /// Bit for bit what the reference's norms compute in the kernel's order.
    #[test]
    fn it_is_the_reference_in_its_order(
        (n, d) in (1..4_usize, 1..2500_usize), gemma: bool, zeroed: bool, seed: u64,
    ) {
        let case = Case::new((n, d), seed, (gemma, zeroed));
        let contract = RoundingContract::PARITY.ordered().expect("it is fixed");
        let p = RmsNorm::under(&contract, f64::from(EPS), EpsPlace::Inside).weighing(case.weight);
        let half = |x: &Array2<bf16>, w: &Array2<bf16>| {
            let y = rms_norm(&p, x.mapv(f32::from).view(), w.mapv(f32::from).row(0)).expect("shapes fit");
            bits(&y)
        };
        for gpu in emulated_devices() {
            let y = case.run(&gpu).mapv(bf16::to_bits);
            prop_assert_eq!(y.slice(s![.., ..d]), half(&case.counted(), &case.w_e), "{}: e", gpu.name());
            prop_assert_eq!(y.slice(s![.., d..]), half(&case.h, &case.w_h), "{}: h", gpu.name());
        }
    }
}

/// D17: the embedding of another row, or none, counts as 0; both are right for one of two numbers of rows.
#[test]
fn another_row_that_is_zeroed_is_seen() {
    let case = Case::new((3, 20), 5, (false, true));
    let right: Vec<Array2<bf16>> = emulated_devices().iter().map(|gpu| case.run(gpu)).collect();
    for (from, to) in [
        ("int(blockIdx.x) == zeroed", "int(blockIdx.x) == zeroed + 1"),
        ("!is_hidden && int", "int"),
        ("inside && !is_zero ?", "inside ?"),
        ("is_hidden ? w_h : w_e", "w_e"),
        ("(is_hidden ? h : e)", "(is_hidden ? e : h)"),
    ] {
        let sources = Sources::embedded().edit("mtp.cu", from, to).expect("the text is there once");
        for (gpu, right) in emulated_devices().iter().zip(&right) {
            gpu.replace(&MTP, &sources).expect("it compiles");
            assert_ne!(&case.run(gpu), right, "{from} as {to}");
        }
    }
}

#[test]
fn c1_and_c2_and_k1() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros(dim).expect("memory");
        let refused = |h: (usize, usize), [w_e, w_h]: [(usize, usize); 2]| {
            let (embedding, hidden) = (&zeros(w_e), &zeros(w_h));
            let norms = Norms { embedding, hidden, weight: NormWeight::Plain, eps: EPS };
            mtp(&gpu, &zeros((2, 8)), &zeros(h), norms, false).expect_err("shapes differ").to_string()
        };
        assert_eq!(refused((2, 9), [(1, 8); 2]), "mtp C1: shape of h = (2, 9), expected (2, 8)");
        assert_eq!(refused((2, 8), [(1, 9), (1, 8)]), "rms_norm C2: len(w) = 9, expected d = 8");
        assert_eq!(refused((2, 8), [(1, 8), (1, 7)]), "rms_norm C2: len(w) = 7, expected d = 8");
        assert_eq!(refused((2, 8), [(1, 8), (2, 8)]), "mtp K1: rows(w_h) = 2, expected 1");
    }
}
