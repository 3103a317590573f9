//! `optimized/kernels/sampling.cu` and `optimized/src/ops/sampling.rs`.

use half::bf16;
use ndarray::Array2;
use optimized::ops::sampling::argmax;
use proptest::prelude::*;
use tests::device::devices;
use tests::values::{activations, whole_numbers};

/// The reference's token and margin of each row.
fn want(logits: &Array2<bf16>) -> Vec<(u32, f32)> {
    let choice = |row: ndarray::ArrayView1<'_, bf16>| {
        reference::ops::sampling::argmax(row.mapv(f32::from).view()).expect("logits are numbers")
    };
    #[expect(clippy::cast_possible_truncation, reason = "the difference of two bf16, in f32 too")]
    logits.rows().into_iter().map(choice).map(|c| (c.token, c.margin as f32)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Logits of few different values have ties in every row: the lowest token wins.
    #[test]
    fn it_is_the_references_choice((n, v) in (1..4_usize, 1..1200_usize), ties: bool, seed: u64) {
        let logits = if ties { whole_numbers(seed, (n, v), 2) } else { activations(seed, (n, v)) };
        for gpu in devices() {
            let got = argmax(&gpu, &gpu.upload(logits.view()).expect("memory")).expect("logits");
            prop_assert_eq!(got, want(&logits));
        }
    }
}

#[test]
fn a_logit_that_is_not_a_number_is_seen() {
    let mut logits = activations(1, (1, 400));
    logits[[0, 333]] = bf16::NAN;
    for gpu in devices() {
        let got = argmax(&gpu, &gpu.upload(logits.view()).expect("memory")).expect("logits");
        assert_eq!(got[0].0, 333);
        assert!(got[0].1.is_nan());
    }
}
