//! Launches `kernels/qk_norm_rope.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::require;

use super::{HeadLayout, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::QK_NORM_ROPE;
use crate::tensor::Matrix;

/// Threads of the block that owns a token.
const THREADS: u32 = QK_NORM_ROPE[0].constant("THREADS");

/// What the operator reads beside its token's projections.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// w \[1, heads·d\].
    pub query_norm: &'a Matrix<bf16>,
    /// u \[1, groups·d\].
    pub key_norm: &'a Matrix<bf16>,
    /// cos \[n, 2h\].
    pub cos: &'a Matrix<f32>,
    /// sin \[n, 2h\].
    pub sin: &'a Matrix<f32>,
    /// ε.
    pub eps: f32,
}

/// Keys and values of a layer \[positions, groups·D\], of which the first ones are written.
#[derive(Debug)]
pub struct KeysValues {
    /// K.
    pub keys: Matrix<bf16>,
    /// V.
    pub values: Matrix<bf16>,
}

/// q̃ \[n, heads·D\] of x \[n, (heads + 2·groups)·d\]; keys and values of tokens `first` and after go to `kept`.
///
/// C1: x is as wide as its heads. C2: the norms are as wide as theirs. C3: a row of cos and sin for each of x, 2h ≤ d. C4: the
/// kept positions are enough.
pub fn qk_norm_rope(
    gpu: &Gpu,
    layout: &HeadLayout,
    x: &Matrix<bf16>,
    weights: Weights<'_>,
    first: usize,
    kept: &mut KeysValues,
) -> Result<Matrix<bf16>, Error> {
    let HeadLayout { heads, groups, head_dim, .. } = *layout;
    let (n, width) = x.dim();
    let (cos, sin) = (weights.cos, weights.sin);
    let expected = (heads + 2 * groups) * head_dim;
    require(width == expected, "qk_norm_rope C1", "cols(x)", width, format!("(heads + 2·groups)·d = {expected}"))?;
    require(
        weights.query_norm.dim() == (1, heads * head_dim),
        "qk_norm_rope C2",
        "cols(w)",
        weights.query_norm.dim().1,
        "heads·d",
    )?;
    require(
        weights.key_norm.dim() == (1, groups * head_dim),
        "qk_norm_rope C2",
        "cols(u)",
        weights.key_norm.dim().1,
        "groups·d",
    )?;
    require(
        cos.dim().0 == n && sin.dim() == cos.dim(),
        "qk_norm_rope C3",
        "rows(cos)",
        cos.dim().0,
        format!("n = {n}"),
    )?;
    require(cos.dim().1 <= head_dim, "qk_norm_rope C3", "2h", cos.dim().1, format!("at most d = {head_dim}"))?;
    let (positions, row) = kept.keys.dim();
    require(first + n <= positions, "qk_norm_rope C4", "positions", first + n, format!("at most {positions}"))?;
    require(
        row == groups * layout.padded() && kept.values.dim() == kept.keys.dim(),
        "qk_norm_rope C4",
        "cols(K)",
        row,
        "groups·D",
    )?;
    let mut q = gpu.uninitialised((n, heads * layout.padded()))?;
    let kernel = QK_NORM_ROPE[layout.variant()];
    let sizes = [
        ("heads", heads),
        ("groups", groups),
        ("d", head_dim),
        ("h", cos.dim().1 / 2),
        ("first", first),
        ("ld(x)", x.ld()),
        ("ld(cos)", cos.ld()),
    ];
    let mut arguments = [0; 7];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("qk_norm_rope C5", quantity, value)?;
    }
    let function = gpu.function(&kernel, "qk_norm_rope")?;
    let grid = Grid { blocks: (count(n), 1), threads: THREADS, shared_bytes: THREADS / 32 * 4 };
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(weights.query_norm.data()).arg(weights.key_norm.data()).arg(cos.data()).arg(sin.data());
    launch.arg(q.data_mut()).arg(kept.keys.data_mut()).arg(kept.values.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    launch.arg(&weights.eps);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1; K2 by C2; K3 by C3; K4 by C3 and `HeadLayout`; K5 by C4, and because q was just allocated; K6 by the
    // grid.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || kernel.label())?;
    Ok(q)
}
