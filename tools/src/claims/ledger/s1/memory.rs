//! S1 CH6.2: the cache of 1,048,576 tokens in bf16.

use super::premises::s1;
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::memory::BF16;
use crate::claims::unit::{GIB, ONE};

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let context = m.config.max_position_embeddings as f64;
    let [main, index] = [m.cached_values(), m.cached_index_keys()].map(|values| context * values * BF16);
    vec![
        s1("E1-58", "CH6.2", "KV cache: 60 × 2 × 4 × 128 × 1,048,576 × 2 = 128,849,018,880 bytes ≈ 120.0 GiB")
            .exact("128,849,018,880", ONE, main)
            .rounded("120.0", GIB, main),
        s1("E1-59", "CH6.2", "index K cache: 57 × 128 × 1,048,576 × 2 = 15,293,907,456 bytes ≈ 14.2 GiB")
            .exact("15,293,907,456", ONE, index)
            .rounded("14.2", GIB, index)
            .note("the factors that are stated multiply to another number"),
        s1("E1-60", "CH6.2, appendix", "together ≈ 134.2 GiB")
            .rounded("134.2", GIB, main + index)
            .note("134.25, which rounds to 134.3: 14.25 was cut off to 14.2"),
    ]
}
