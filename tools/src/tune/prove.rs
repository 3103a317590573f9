//! Whether a candidate is right: an operator at a small size, next to its exact twin, the reference in f32 in the order of the
//! kernels' sums. Sizes leave parts of tiles over, and more stages to copy than a ring has.

mod networks;
mod rows;
mod twin;

use optimized::device::Gpu;
use optimized::kernel::Kernel;
pub use twin::{NoTrial, Trial};

use crate::failure::Failure;
use twin::Draw;

/// What a device makes where it launches `variant` instead of `kernel`, and the twin.
pub fn trial(gpu: &Gpu, kernel: &Kernel, variant: &Kernel) -> Result<Result<Trial, NoTrial>, Failure> {
    let draw = Draw::begin();
    let is_narrow =
        [("WEIGHTS", 16), ("OUT", 16)].iter().all(|(name, bits)| kernel.get(name).is_none_or(|b| b == *bits));
    Ok(match kernel.op {
        "embedding" => rows::embedding(gpu, draw),
        "sampling" => rows::sampling(gpu, draw, variant),
        "router" => networks::router(gpu, draw, variant),
        "linear" if is_narrow => networks::linear(gpu, draw, (kernel, variant)),
        "dense_ffn" if is_narrow => networks::dense_ffn(gpu, draw, (kernel, variant)),
        "moe" if is_narrow => networks::moe(gpu, draw, (kernel, variant)),
        _ => {
            return Err(Failure::new(format!("{}: there is no proof of its candidates", kernel.label()))
                .help("add one to tools/src/tune/prove"));
        }
    })
}
