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

/// Experts that are chosen at most: a warp's lanes.
const MAX_TOP_K: usize = WARP_LANES;
/// Experts whose keys a block compares with one another.
const MAX_EXPERTS: usize = 1024;
/// Up to so many tokens, each reads the gate by itself.
const FEW_TOKENS: usize = 8;

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

/// How scores are cut into blocks. Both give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    /// A token a block, and a warp an expert.
    Few,
    /// Several tokens, and experts, for each weight and value that is read.
    Many,
}

impl Tokens {
    /// The one that suits n tokens, where x and g are so wide, and a block may have so much shared memory.
    pub fn of(n: usize, wide: [usize; 2], most_bytes: u32) -> Self {
        if n <= FEW_TOKENS && few_bytes(&ROUTER, wide) <= most_bytes { Self::Few } else { Self::Many }
    }
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
    let tokens = Tokens::of(x.dim().0, [x.ld(), gate.ld()], gpu.shared_bytes());
    router_cut(gpu, tokens, x, (gate, bias), top_k)
}

/// The same, cut as the caller says.
pub fn router_cut(
    gpu: &Gpu,
    tokens: Tokens,
    x: &Matrix<bf16>,
    (gate, bias): (&Matrix<f32>, &Matrix<f32>),
    top_k: usize,
) -> Result<Routed, Error> {
    let ((n, d), experts) = (x.dim(), gate.dim().0);
    let p = Router::under(&RoundingContract::PARITY, &Semantics::RELEASED, top_k);
    p.check(experts, length("router K1", "rows(b)", bias)?)?;
    Linear::router(&RoundingContract::PARITY).check((n, d), gate.dim())?;
    require(top_k <= MAX_TOP_K, "router K2", "k", top_k, format!("at most {MAX_TOP_K}"))?;
    require(experts <= MAX_EXPERTS, "router K2", "E", experts, format!("at most {MAX_EXPERTS}"))?;
    let mut out = Routed {
        logits: gpu.output((n, experts))?,
        scores: gpu.output((n, experts))?,
        choice: gpu.output((n, experts))?,
        chosen: gpu.uninitialised((n, top_k))?,
        weights: gpu.uninitialised((n, top_k))?,
    };
    let kernel = gpu.launched(&ROUTER);
    match tokens {
        Tokens::Few => scores_of_few(gpu, &kernel, x, gate, &mut out)?,
        Tokens::Many => scores(gpu, &kernel, x, gate, &mut out)?,
    }
    choose(gpu, &kernel, bias, &mut out)?;
    Ok(out)
}

fn scores(gpu: &Gpu, kernel: &Kernel, x: &Matrix<bf16>, gate: &Matrix<f32>, out: &mut Routed) -> Result<(), Error> {
    let ((n, d), experts) = (x.dim(), gate.dim().0);
    let arguments = narrow([
        ("n", n),
        ("d", d),
        ("E", experts),
        ("ld(x)", x.ld()),
        ("ld(g)", gate.ld()),
        ("ld(z)", out.logits.ld()),
    ])?;
    let constant = |name| kernel.constant(name);
    let of_block = constant("BLOCK_WARPS") * constant("WARP_EXPERTS");
    let blocks = (count(n).div_ceil(constant("BLOCK_TOKENS")), count(experts).div_ceil(of_block));
    let function = gpu.function(kernel, "router_scores")?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(gate.data()).arg(out.logits.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    let grid = Grid { blocks, threads: 32 * constant("BLOCK_WARPS") };
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by the caller's checks and the allocations; K4 because what is written was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || format!("{} router_scores", kernel.label()))?;
    Ok(())
}

fn scores_of_few(
    gpu: &Gpu,
    kernel: &Kernel,
    x: &Matrix<bf16>,
    gate: &Matrix<f32>,
    out: &mut Routed,
) -> Result<(), Error> {
    let ((n, d), experts) = (x.dim(), gate.dim().0);
    let arguments =
        narrow([("d", d), ("E", experts), ("ld(x)", x.ld()), ("ld(g)", gate.ld()), ("ld(z)", out.logits.ld())])?;
    let warps = kernel.constant("FEW_WARPS");
    let grid = Grid { blocks: (count(n), count(experts).div_ceil(warps)), threads: 32 * warps };
    let grid = gpu.with_shared("router K3", grid, few_bytes(kernel, [x.ld(), gate.ld()]))?;
    let function = gpu.function(kernel, "router_scores_few")?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(gate.data()).arg(out.logits.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by the caller's checks and the allocations; K3 by `with_shared` and `Matrix`; K4 because what is written was just
    // allocated.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} router_scores_few", kernel.label()))?;
    Ok(())
}

fn choose(gpu: &Gpu, kernel: &Kernel, bias: &Matrix<f32>, out: &mut Routed) -> Result<(), Error> {
    let ((n, experts), k) = (out.logits.dim(), out.chosen.dim().1);
    let sizes = [("E", experts), ("k", k), ("ld(z)", out.logits.ld()), ("ld(C)", out.chosen.ld())];
    let arguments = narrow(sizes)?;
    let function = gpu.function(kernel, "router_choose")?;
    let grid = Grid { blocks: (count(n), 1), threads: kernel.constant("CHOOSE_THREADS") };
    let grid = gpu.with_shared("router K3", grid, choose_bytes(experts))?;
    let mut launch = gpu.launch(&function);
    launch.arg(out.logits.data()).arg(bias.data());
    launch.arg(out.scores.data_mut()).arg(out.choice.data_mut());
    launch.arg(out.chosen.data_mut()).arg(out.weights.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by the caller's checks and the allocations; K2 by C2 and as required; K3 by `with_shared`; K4 because all that is
    // written was just allocated.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} router_choose", kernel.label()))?;
    Ok(())
}

fn narrow<const N: usize>(sizes: [(&'static str, usize); N]) -> Result<[i32; N], Error> {
    let mut arguments = [0; N];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("router K1", quantity, value)?;
    }
    Ok(arguments)
}

/// Shared memory of a block of `router_scores_few`: a row of x, and of g for each warp, which are so wide.
pub fn few_bytes(kernel: &Kernel, [ldx, ldg]: [usize; 2]) -> u32 {
    count(2 * ldx) + kernel.constant("FEW_WARPS") * count(4 * ldg)
}

/// Shared memory of a block of `router_choose`: a key and a score for each expert, and the scores of those that are chosen.
pub fn choose_bytes(experts: usize) -> u32 {
    count(4 * (2 * experts.next_multiple_of(4) + MAX_TOP_K))
}
