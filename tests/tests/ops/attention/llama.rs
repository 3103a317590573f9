//! llama.cpp's attention on a CPU: a running sum of f16 where flash attention has fewer rows than a tile, and operands in the
//! cache's type without it.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::ops::attention::{Attention, TILE, attention};
use reference::rounding::AttentionRound;
use reference::{Rounding, RoundingContract, Storage, Tracked};
use tests::judge::within;
use tests::simulated::{Kernel, Order};

fn llama(attention: AttentionRound) -> RoundingContract {
    RoundingContract { attention, kv_cache: Storage::F16, ..RoundingContract::EAGER_F32 }
}

/// Values of f16 that are neither large nor small.
fn values(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let wave = |i: usize, j: usize| ((i * 31 + j * 17) as f64 * 0.37 + seed as f64).sin() * 2.0;
    Array2::from_shape_fn((rows, columns), |(i, j)| Storage::F16.nearest(wave(i, j)))
}

/// 2048 + 1 is 2048 in f16, however often 1 is added.
#[test]
fn each_step_of_the_running_sum_is_rounded() {
    let contract = llama(AttentionRound::FlashF16);
    let p = Attention::under(&contract, (1, 1), 1);
    let (q, k, v) = (array![[0.0]], Array2::zeros((3, 1)), array![[2048.0], [1.0], [1.0]]);
    let of = |p: &Attention| attention(p, q.view(), k.view(), v.view()).expect("it fits")[[0, 0]];
    assert_eq!(of(&p), Storage::F32.nearest(2048.0 / 3.0));
    assert_eq!(of(&p.of_rows(TILE)), Storage::F32.nearest(2050.0 / 3.0), "a tile sums in f32");
}

/// The query and the divided probabilities are operands of products: thirds in f16.
#[test]
fn probabilities_are_operands_after_their_division() {
    let p = Attention::under(&llama(AttentionRound::Operands), (1, 1), 1);
    assert_eq!((p.probabilities, p.scores), (Rounding::nearest(Storage::F16), Rounding::NONE));
    let (q, k, v) = (array![[0.0]], Array2::zeros((3, 1)), array![[1.0], [1.0], [1.0]]);
    let o = attention(&p, q.view(), k.view(), v.view()).expect("it fits");
    assert_eq!(o[[0, 0]], Storage::F32.nearest(3.0 * Storage::F16.nearest(1.0 / 3.0)));
}

/// Queries, keys and what attention to blocks does, by the cache.
#[test]
fn what_is_read_follows_from_the_cache() {
    let flash = |kv_cache| RoundingContract { kv_cache, ..llama(AttentionRound::FlashF16) };
    assert_eq!(flash(Storage::Real).attending(false).kv_cache, Storage::F16, "an f32 cache is cast");
    assert_eq!(flash(Storage::Real).attending(true).attention, AttentionRound::Flash, "but for blocks it is not");
    assert_eq!(flash(Storage::F16).attending(true).attention, AttentionRound::FlashF16);
    assert_eq!(flash(Storage::Bf16).query(), Storage::Bf16);
    assert_eq!(flash(Storage::Bf16).running_sum(), Storage::Real);
    assert_eq!(llama(AttentionRound::Operands).query(), Storage::F16);
}

proptest! {
    /// A kernel that works as llama.cpp's stays within the bound.
    #[test]
    fn a_device_is_within_the_bound(
        n in 1_usize..5, more in 0_usize..40, heads in 1_usize..3, d in 1_usize..9, seed in 0_u64..1000, plain: bool,
    ) {
        let order = if plain { AttentionRound::Operands } else { AttentionRound::FlashF16 };
        let p = Attention::under(&llama(order), (2 * heads, heads), d);
        let (q, k) = (values(n, 2 * heads * d, seed), values(n + more, heads * d, seed + 1));
        let v = values(n + more, heads * d, seed + 2);
        let device = Kernel { order: Order::Sequential, tile: 1, seed }.attention(&p, &q, &k, &v);
        let ideal = Attention::under(&RoundingContract::IDEAL, (2 * heads, heads), d);
        let truth = attention(&ideal, q.view(), k.view(), v.view()).expect("it fits");
        let exact = |x: &Array2<f64>| Tracked::exact(x.clone());
        let bound = p.bound(&exact(&q), &exact(&k), &exact(&v), &truth);
        within(&device, &truth, &bound)?;
    }
}
