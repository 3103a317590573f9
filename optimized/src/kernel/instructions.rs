//! The kernel that runs what a device can do, for `conformance`: no operator's.

use super::table::Kernel;

/// Each instruction of `simt.cuh` and each collective that kernels use, once: no operator's. `conformance` runs it.
pub const INSTRUCTIONS: Kernel = Kernel {
    op: "instructions",
    entries: &[
        "indices",
        "shuffles",
        "votes",
        "block_votes",
        "barriers",
        "matrices",
        "copies",
        "atomics",
        "rounding",
        "e4m3_pairs",
        "multiply",
        "multiply_f16",
        "multiply_e4m3",
        "multiply_by_warpgroup",
    ],
    constants: &[],
};
