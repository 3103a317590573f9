//! Launches `kernels/dense_ffn.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Linear, RoundingContract, require};

use super::linear::{linear, tile_bytes};
use super::{Activation, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::table::{
    DENSE_FFN_16, DENSE_FFN_16_E4M3, DENSE_FFN_64, DENSE_FFN_64_E4M3, DENSE_FFN_WARPGROUPS, DENSE_FFN_WARPGROUPS_E4M3,
};
use crate::tensor::Matrix;
use crate::tiles::Tiles;
use crate::weight::{WeightMatrix, WeightView};

/// From so many rows on, tiles of 64 rows are fuller than a quarter.
const ROWS_FOR_64: usize = 17;
/// Of each of [`Tiles`], of weights in bf16 and in E4M3.
const KERNELS: [[Kernel; 2]; 3] = [
    [DENSE_FFN_16, DENSE_FFN_16_E4M3],
    [DENSE_FFN_64, DENSE_FFN_64_E4M3],
    [DENSE_FFN_WARPGROUPS, DENSE_FFN_WARPGROUPS_E4M3],
];

/// The weights of a feed-forward network.
#[derive(Debug)]
pub struct DenseFfn {
    /// w₁ over w₃ \[2m, d\].
    pub gate_up: WeightMatrix,
    /// w₂ \[d, m\].
    pub down: WeightMatrix,
}

/// What it says.
#[derive(Debug)]
pub struct DenseFed {
    /// The activation \[n, m\].
    pub hidden: Matrix<bf16>,
    /// y \[n, d\].
    pub output: Matrix<bf16>,
}

/// y of x \[n, d\].
///
/// C1 and on: those of the parts. K1: w₁ and w₃ have as many rows as w₂ columns. K2: w₂ gives what is as wide as x, and sizes are
/// below 2³¹. K5: a block has room. K6: a Hopper GPU for [`Tiles::Warpgroups`].
pub fn dense_ffn(gpu: &Gpu, x: &Matrix<bf16>, ffn: &DenseFfn, activation: Activation) -> Result<DenseFed, Error> {
    dense_ffn_tiled(gpu, Tiles::suiting(gpu, x.dim().0 >= ROWS_FOR_64), x, ffn, activation)
}

/// The same, in tiles of the caller's choice.
pub fn dense_ffn_tiled(
    gpu: &Gpu,
    tiles: Tiles,
    x: &Matrix<bf16>,
    ffn: &DenseFfn,
    activation: Activation,
) -> Result<DenseFed, Error> {
    let gate_up = WeightView::from(&ffn.gate_up);
    let ((n, d), (down, m)) = (x.dim(), WeightView::from(&ffn.down).dim());
    let rows = gate_up.dim().0;
    Linear::under(&RoundingContract::PARITY).check(x.dim(), gate_up.dim())?;
    require(rows == 2 * m, "dense_ffn K1", "rows(w1, w3)", rows, format!("2·m = {}", 2 * m))?;
    require(down == d, "dense_ffn K2", "rows(w2)", down, format!("d = {d}"))?;
    let mut hidden = gpu.uninitialised((n, m))?;
    let sizes = [("n", n), ("d", d), ("m", m), ("ld(x)", x.ld()), ("ld(hidden)", hidden.ld())];
    let mut arguments = [0; 5];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("dense_ffn K2", quantity, value)?;
    }
    let kernel = gpu.launched(tiles.kernel(&KERNELS, gate_up));
    gpu.require_warpgroups("dense_ffn K6", &kernel)?;
    let (tile_rows, tile_cols) = (kernel.constant("TILE_ROWS"), kernel.constant("TILE_COLS"));
    let grid = Grid {
        blocks: (count(n).div_ceil(tile_rows), count(2 * hidden.ld()).div_ceil(tile_cols)),
        threads: 32 * kernel.constant("WARPS_DOWN") * kernel.constant("WARPS_ACROSS"),
    };
    let grid = gpu.with_shared("dense_ffn K5", grid, tile_bytes(&kernel))?;
    let (weight, coefficients) = (gate_up.argument("dense_ffn K2")?, activation.arguments());
    let function = gpu.function(&kernel, "dense_ffn_gate_up")?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(&weight).arg(hidden.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    for coefficient in &coefficients {
        launch.arg(coefficient);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1, K2 and K4 by the checks and `Matrix`; K3 because hidden was just allocated; K5 by the grid; K6 as
    // required.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || kernel.label())?;
    let output = linear(gpu, &hidden, &ffn.down)?;
    Ok(DenseFed { hidden, output })
}
