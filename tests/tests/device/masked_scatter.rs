//! `optimized/kernels/masked_scatter.cu` and `optimized/src/ops/masked_scatter.rs`.

use half::bf16;
use ndarray::{Array2, Axis};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::masked_scatter::masked_scatter;
use proptest::prelude::*;
use reference::RoundingContract;
use reference::ops::masked_scatter as oracle;
use reference::ops::masked_scatter::MaskedScatter;
use tests::bounds::wide;
use tests::device::devices;
use tests::values::activations;

/// y of x, m and f, on the device, with its padding checked.
fn run(gpu: &Gpu, x: &Array2<bf16>, m: &[bool], f: &Array2<bf16>) -> Array2<bf16> {
    let device = || -> Result<Array2<bf16>, Error> {
        let mut y = gpu.upload(x.view())?;
        masked_scatter(gpu, &mut y, m, &gpu.upload(f.view())?)?;
        gpu.download_padded(&y)
    };
    let y = device().unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(Axis(1), x.ncols());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

/// Marks of rows, one of which at least is marked.
fn marks() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), 1..40).prop_filter("one is marked", |m| m.contains(&true))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The reference's, exactly.
    #[test]
    fn marked_rows_are_features_and_all_others_stay(m in marks(), d in 1..1200_usize, seed: u64) {
        let marked = m.iter().filter(|&&m| m).count();
        let (x, f) = (activations(seed, (m.len(), d)), activations(!seed, (marked, d)));
        let p = MaskedScatter::under(&RoundingContract::PARITY);
        let want = oracle::masked_scatter(&p, wide(&x).view(), &m, wide(&f).view()).expect("shapes fit");
        for gpu in devices() {
            prop_assert_eq!(wide(&run(&gpu, &x, &m, &f)), &want, "{}", gpu.name());
        }
    }

    /// What stood in a marked row does not matter, nor do other features: one that is not a number stays in its place.
    #[test]
    fn rows_do_not_see_each_other(m in marks(), d in 1..100_usize, seed: u64) {
        let marked: Vec<usize> = (0..m.len()).filter(|&i| m[i]).collect();
        let (mut x, mut f) = (activations(seed, (m.len(), d)), activations(!seed, (marked.len(), d)));
        let last = marked[marked.len() - 1];
        x.row_mut(last).fill(bf16::NAN);
        f.row_mut(0).fill(bf16::NAN);
        for gpu in devices() {
            for (i, y) in run(&gpu, &x, &m, &f).rows().into_iter().enumerate() {
                prop_assert!(y.iter().all(|y| y.is_nan() == (i == marked[0])), "{} row {i}", gpu.name());
            }
        }
    }
}

#[test]
fn c1_to_c3_marks_and_features_that_do_not_fit() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let refused = |m: &[bool], f| {
            masked_scatter(&gpu, &mut zeros((3, 8)), m, &zeros(f)).expect_err("it does not fit").to_string()
        };
        let m = [true, false, true];
        assert_eq!(refused(&m[..2], (1, 8)), "masked_scatter C1: len(m) = 2, expected n = 3");
        assert_eq!(refused(&m, (2, 7)), "masked_scatter C2: columns of f = 7, expected d = 8");
        assert_eq!(refused(&m, (1, 8)), "masked_scatter C3: rows that are marked = 2, expected 1, the rows of f");
        assert_eq!(
            refused(&[false; 3], (1, 8)),
            "masked_scatter C3: rows that are marked = 0, expected 1, the rows of f"
        );
    }
}
