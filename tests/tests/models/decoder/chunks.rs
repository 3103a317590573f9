//! A text in one pass, in chunks, or token by token.
//!
//! Up to four rows are multiplied one by one (`linear`), so chunks of up to four tokens agree bitwise whatever the
//! contract and the arithmetic. With more, the order of the sums may differ: those agree within f64's own bound.

use super::*;
use ndarray::{ArrayView2, Axis, concatenate, s};
use proptest::prelude::*;
use tests::judge::likely;
use tests::probes::GivenTable;

/// Logits of the text in chunks of these sizes, and the cache that has seen them.
fn chunked<T: Real>(model: &Decoder<'_>, sizes: &[usize], run: &mut Run<'_, T>) -> (Tracked<T>, KvCache<T>) {
    let (mut cache, mut first, mut all) = (KvCache::new(2), 0, Vec::<Tracked<T>>::new());
    for size in sizes {
        all.push(model.forward(&TEXT[first..first + size], &mut cache, run).expect("a good text"));
        first += size;
    }
    let stacked = all.into_iter().reduce(|above, below| above.stacked(&below));
    (stacked.expect("there is a chunk"), cache)
}

fn unseen<T: Real>(model: &Decoder<'_>, sizes: &[usize], contract: RoundingContract) -> (Tracked<T>, KvCache<T>) {
    chunked(model, sizes, &mut Run::new(contract, &mut NoProbe))
}

/// Sizes up to `largest` that make the text.
fn sizes(largest: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1..=largest, TEXT.len()).prop_map(|drawn| {
        let mut left = TEXT.len();
        let cut = drawn.into_iter().map(move |size| {
            let size = size.min(left);
            left -= size;
            size
        });
        cut.filter(|&size| size > 0).collect()
    })
}

fn same<T: Real>(model: &Decoder<'_>, sizes: &[usize], contract: RoundingContract) -> Result<(), TestCaseError> {
    let ((one, kept), (all, keeps)) = (unseen::<T>(model, &[1; 12], contract), unseen::<T>(model, sizes, contract));
    prop_assert_eq!(one.value, all.value);
    for layer in 0..2 {
        prop_assert_eq!(kept.layer(layer), keeps.layer(layer));
    }
    Ok(())
}

/// Both have errors: twice the bound, and twice the likely one.
fn close(got: &Tracked<f64>, want: &Tracked<f64>) -> Result<(), TestCaseError> {
    let mut bound = want.error_or_exact();
    bound.certain *= 2.0;
    bound.sigma *= 2.0;
    likely(&got.value, &want.value, &bound)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn chunks_of_up_to_four_tokens_agree_bitwise(sizes in sizes(4), preset in 0..5_usize) {
        let memory = Memory::random(&tiny(), 1);
        let (model, (_, contract)) = (model(&tiny(), &memory), RoundingContract::PRESETS[preset]);
        same::<f64>(&model, &sizes, contract)?;
        same::<f32>(&model, &sizes, contract)?;
    }

    /// Logits, and the keys and values that later tokens start from.
    #[test]
    fn chunks_of_any_size_agree_within_the_bound(sizes in sizes(12), seed in 0..9_u64) {
        let memory = Memory::random(&tiny(), seed);
        let (model, mut probe) = (model(&tiny(), &memory), GivenTable);
        let (want, kept) = chunked(&model, &[1; 12], &mut Run::bounding(RoundingContract::IDEAL, &mut probe));
        prop_assert!(want.error_or_exact().certain.iter().all(|&e| e < 1e-3), "a bound that says nothing");
        let (got, keeps) = unseen::<f64>(&model, &sizes, RoundingContract::IDEAL);
        close(&got, &want)?;
        for layer in 0..2 {
            let (kept, keeps) = (kept.layer(layer).expect("kept"), keeps.layer(layer).expect("kept"));
            close(&keeps.0, &kept.0)?;
            close(&keeps.1, &kept.1)?;
        }
    }

    /// What follows a text that was taken back is what follows it for the first time.
    #[test]
    fn a_truncated_cache_forgets_bitwise(kept in 1..12_usize) {
        let memory = Memory::random(&tiny(), 1);
        let (model, mut probe) = (model(&tiny(), &memory), NoProbe);
        let mut run = Run::new(RoundingContract::EAGER_BF16, &mut probe);
        let (logits, mut cache) = chunked::<f64>(&model, &[1; 12], &mut run);
        cache.truncate(kept);
        let again = TEXT[kept..].iter().map(|&token| model.forward(&[token], &mut cache, &mut run));
        let again: Vec<_> = again.map(|row| row.expect("a good token").value).collect();
        let again: Vec<ArrayView2<'_, f64>> = again.iter().map(|row| row.view()).collect();
        prop_assert_eq!(concatenate(Axis(0), &again).expect("same columns"), logits.value.slice(s![kept.., ..]));
    }
}
