//! `optimized/kernels/embedding.cu` and `optimized/src/ops/embedding.rs`.

use half::bf16;
use ndarray::Axis;
use optimized::ops::embedding::embedding;
use proptest::prelude::*;
use tests::device::devices;
use tests::values::activations;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn rows_are_copied_with_their_padding((v, d) in (1..50_usize, 1..300_usize), picks in prop::collection::vec(0..1000_usize, 1..9), seed: u64) {
        let table = activations(seed, (v, d));
        let tokens: Vec<usize> = picks.iter().map(|pick| pick % v).collect();
        let named: Vec<u32> = tokens.iter().map(|&t| u32::try_from(t).expect("small")).collect();
        for gpu in devices() {
            let y = embedding(&gpu, &named, &gpu.upload(table.view()).expect("memory")).expect("tokens are in the table");
            let padded = gpu.download_padded(&y).expect("memory");
            let (inside, padding) = padded.view().split_at(Axis(1), d);
            prop_assert_eq!(inside, table.select(Axis(0), &tokens));
            prop_assert!(padding.iter().all(|&x| x == bf16::ZERO));
        }
    }
}

#[test]
fn c2_a_token_beyond_the_table() {
    for gpu in devices() {
        let table = gpu.zeros((7, 8)).expect("memory");
        let error = embedding(&gpu, &[3, 7], &table).expect_err("there is no row 7");
        assert_eq!(error.to_string(), "embedding C2: token 1 = 7, expected below v = 7");
    }
}
