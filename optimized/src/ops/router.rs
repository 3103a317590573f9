//! Launches `kernels/router.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Linear, RoundingContract, Router, Semantics, require};

use super::{count, dimension, length};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::WARP_LANES;
use crate::kernel::table::ROUTER;
use crate::tensor::Matrix;

/// Experts that a warp's lanes keep.
const MAX_TOP_K: usize = WARP_LANES;
/// Experts that the 32 bits of the lanes' marks stand for.
const MAX_EXPERTS: usize = 32 * WARP_LANES;

/// What a router says of n tokens.
#[derive(Debug)]
pub struct Routed {
    /// z \[n, E\].
    pub logits: Matrix<f32>,
    /// r \[n, E\].
    pub scores: Matrix<f32>,
    /// r + b \[n, E\].
    pub choice: Matrix<f32>,
    /// C \[n, k\].
    pub chosen: Matrix<i32>,
    /// w \[n, k\].
    pub weights: Matrix<f32>,
}

/// C and w of x \[n, d\], the router's weight \[E, d\] and bias \[1, E\].
///
/// C1 and C2: the reference's, and `linear`'s. K1: the bias is one row, and sizes are below 2³¹. K2: k ≤ 32, E ≤ 1024. K3: a
/// block has room.
pub fn router(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    gate: &Matrix<f32>,
    bias: &Matrix<f32>,
    top_k: usize,
) -> Result<Routed, Error> {
    let ((n, d), experts) = (x.dim(), gate.dim().0);
    let p = Router::under(&RoundingContract::PARITY, &Semantics::RELEASED, top_k);
    p.check(experts, length("router K1", "rows(b)", bias)?)?;
    Linear::router(&RoundingContract::PARITY).check(x.dim(), gate.dim())?;
    require(top_k <= MAX_TOP_K, "router K2", "k", top_k, format!("at most {MAX_TOP_K}"))?;
    require(experts <= MAX_EXPERTS, "router K2", "E", experts, format!("at most {MAX_EXPERTS}"))?;
    let mut out = Routed {
        logits: gpu.zeros((n, experts))?,
        scores: gpu.zeros((n, experts))?,
        choice: gpu.zeros((n, experts))?,
        chosen: gpu.zeros((n, top_k))?,
        weights: gpu.zeros((n, top_k))?,
    };
    let sizes = [
        ("n", n),
        ("d", d),
        ("E", experts),
        ("k", top_k),
        ("ld(x)", x.ld()),
        ("ld(g)", gate.ld()),
        ("ld(z)", out.logits.ld()),
        ("ld(C)", out.chosen.ld()),
    ];
    let mut arguments = [0; 8];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("router K1", quantity, value)?;
    }
    let kernel = gpu.launched(&ROUTER);
    let function = gpu.function(&kernel, "router")?;
    let blocks = (count(n).div_ceil(kernel.constant("BLOCK_TOKENS")), 1);
    let grid = Grid { blocks, threads: 32 * kernel.constant("BLOCK_WARPS") };
    let grid = gpu.with_shared("router K3", grid, shared_bytes(&kernel, d, experts))?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(gate.data()).arg(bias.data());
    launch.arg(out.logits.data_mut()).arg(out.scores.data_mut()).arg(out.choice.data_mut());
    launch.arg(out.chosen.data_mut()).arg(out.weights.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by the checks and the allocations; K2 by C2 and as required; K3 by `with_shared`; K4 because all that is written was just allocated.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || kernel.label())?;
    Ok(out)
}

/// Shared memory of a block: its tokens' rows of x, and in their place, once these are read, scores and choices.
pub fn shared_bytes(kernel: &Kernel, d: usize, experts: usize) -> u32 {
    kernel.constant("BLOCK_TOKENS") * count((2 * d).next_multiple_of(4).max(2 * 4 * experts))
}
