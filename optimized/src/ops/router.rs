//! Launches `kernels/router.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::require;

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::ROUTER;
use crate::tensor::Matrix;

/// Tokens of a block, and its warps.
const TOKENS: u32 = ROUTER.constant("BLOCK_TOKENS");
const WARPS: u32 = ROUTER.constant("BLOCK_WARPS");
/// Experts that a lane's mark has bits for.
const MAX_EXPERTS: usize = 1024;
/// Experts that a warp's lanes keep.
const MAX_TOP_K: usize = 32;

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
/// C1: the bias has an entry for each expert. C2: 1 ≤ k ≤ E, k ≤ 32, E ≤ 1024. C3: x is as wide as the router's weight.
pub fn router(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    gate: &Matrix<f32>,
    bias: &Matrix<f32>,
    top_k: usize,
) -> Result<Routed, Error> {
    let ((n, d), (experts, width)) = (x.dim(), gate.dim());
    require(bias.dim() == (1, experts), "router C1", "len(b)", bias.dim().1, format!("E = {experts}"))?;
    require((1..=experts.min(MAX_TOP_K)).contains(&top_k), "router C2", "k", top_k, "1 to min(E, 32)")?;
    require(experts <= MAX_EXPERTS, "router C2", "E", experts, format!("at most {MAX_EXPERTS}"))?;
    require(d == width, "router C3", "cols(x)", d, format!("those of the gate, {width}"))?;
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
        *argument = dimension("router C4", quantity, value)?;
    }
    let function = gpu.function(&ROUTER, "router")?;
    let grid = Grid {
        blocks: (count(n).div_ceil(TOKENS), 1),
        threads: 32 * WARPS,
        shared_bytes: TOKENS * count(d + 2 * experts) * 4,
    };
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(gate.data()).arg(bias.data());
    launch.arg(out.logits.data_mut()).arg(out.scores.data_mut()).arg(out.choice.data_mut());
    launch.arg(out.chosen.data_mut()).arg(out.weights.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1, C3 and the allocations; K2 by C2; K3 by the grid; K4 because all that is written was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || ROUTER.label())?;
    Ok(out)
}
