//! S1 CH6.3: memory of a deployment.

use super::premises::s1;
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::memory::{BF16, FOUR_BITS, FP8};
use crate::claims::unit::{GB, GIB, PERCENT};

/// The parameters that S1 counts with.
const STATED_PARAMETERS: f64 = 428e9;
/// Activations: the lower end of the 2 to 5 GB that S1 allows, with which its total is 990.
const ACTIVATIONS: f64 = 2e9;
/// Bytes of an H200.
const H200: f64 = 141e9;
/// Bytes of an H100.
const H100: f64 = 80e9;
/// 128K, as 1M is 1,048,576.
const SHORT: f64 = 131_072.0;

/// Whether so many bytes fit in so many GPUs, and by what that is decided.
fn fits(claim: Claim, stated: &str, bytes: f64, gpus: f64) -> Claim {
    claim.so(stated, format!("{:.0} of {:.0} GB", bytes / GB.scale, gpus / GB.scale), bytes <= gpus)
}

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let context = m.config.max_position_embeddings as f64;
    let [cache, cache_fp8] = [BF16, FP8].map(|bytes| m.cache(context, bytes));
    let [weights, weights_4] = [BF16, FOUR_BITS].map(|bytes| m.weights_in(bytes));
    let [total, total_fp8, total_4] =
        [weights + cache, weights + cache_fp8, weights_4 + cache_fp8].map(|bytes| bytes + ACTIVATIONS);
    let mixed = "GiB of the cache are added to GB of the weights";
    let eight = s1("E1-63", "CH6.3", "that fits into 8 × H200 of 141 GB");
    let four = s1("E1-67", "CH6.3", "with 4-bit weights it fits onto 4 × H200");
    vec![
        s1("E1-61", "CH6.3", "weights: 428B × 2 bytes = ~854 GB")
            .rounded("854", GB, weights)
            .rounded("854", GB, STATED_PARAMETERS * BF16)
            .note("854 GB are 427.04 B × 2, the second figure is 428 B × 2"),
        s1("E1-62", "CH6.3", "in all ~990 GB").rounded("990", GB, total).note(mixed),
        fits(eight, "fits", total, 8.0 * H200),
        s1("E1-64", "CH6.3", "the cache (~134 GiB) is 16 % of the weights (~854 GB)")
            .rounded("16", PERCENT, cache / weights)
            .note("GiB are divided by GB"),
        s1("E1-65", "CH6.3", "FP8 cache: ~67 GiB; in all ~923 GB")
            .rounded("67", GIB, cache_fp8)
            .rounded("923", GB, total_fp8)
            .note(mixed),
        s1("E1-66", "CH6.3", "4-bit weights: ~214 GB; in all ~280 GB")
            .rounded("214", GB, weights_4)
            .rounded("280", GB, total_4)
            .note(format!("{mixed}; without activations {:.1} GB", (total_4 - ACTIVATIONS) / GB.scale)),
        fits(four, "fits", total_4, 4.0 * H200),
    ]
    .into_iter()
    .chain(short(m, weights))
    .collect()
}

/// At 128K.
fn short(m: &Hyperparameters, weights: f64) -> Vec<Claim> {
    let [main, index] = [m.cached_values(), m.cached_index_keys()].map(|values| SHORT * values * BF16);
    let total = weights + main + index + ACTIVATIONS;
    let eight = s1("E1-69", "CH6.3", "at 128K in all ~872 GB, which run on 8 × H100 of 80 GB");
    vec![
        s1("E1-68", "CH6.3", "at 128K the cache is ~16.3 + ~1.9 = ~18.2 GiB")
            .rounded("16.3", GIB, main)
            .rounded("1.9", GIB, index)
            .rounded("18.2", GIB, main + index)
            .note(format!("an eighth of that at 1M; {:.2} GB", (main + index) / GB.scale)),
        fits(eight.rounded("872", GB, total), "fits", total, 8.0 * H100).note("the weights alone do not fit"),
    ]
}
