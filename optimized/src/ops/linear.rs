//! Launches `kernels/linear.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::require;

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::table::{LINEAR_64_BF16, LINEAR_64_F32, LINEAR_128_BF16, LINEAR_128_F32};
use crate::tensor::{Element, Matrix};

/// Values of k that are summed apart, as `gemm.cuh` has it.
const K_CHUNK: usize = 512;
/// Values of a row in shared memory at a time, as `gemm.cuh` has it.
const K_TILE: u32 = 64;
/// Bytes of a bf16.
const VALUE_BYTES: u32 = 2;
/// Rows of x, and of w, that a block of `linear_few_rows` multiplies.
const FEW: usize = 16;
/// Warps of such a block, at most.
const MAX_WARPS: usize = 8;
/// Chunks that such a block has shared memory for.
const MAX_CHUNKS: usize = 32;
/// A chunk's sums there, in bytes.
const SUMS_BYTES: usize = FEW * (FEW + 4) * 4;

/// What y may hold: bf16 or f32.
pub trait Output: Element {
    /// The kernel in 64 × 64 tiles, and for few rows.
    const SMALL: Kernel;
    /// The kernel in 128 × 128 tiles.
    const LARGE: Kernel;
}

impl Output for bf16 {
    const SMALL: Kernel = LINEAR_64_BF16;
    const LARGE: Kernel = LINEAR_128_BF16;
}

impl Output for f32 {
    const SMALL: Kernel = LINEAR_64_F32;
    const LARGE: Kernel = LINEAR_128_F32;
}

/// How y is cut into blocks. All give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiling {
    /// Tiles of 64 × 64.
    Small,
    /// Tiles of 128 × 128.
    Large,
    /// All rows, 16 columns, k spread over the block's warps: for at most 16 rows, and k ≤ 16384.
    FewRows,
}

impl Tiling {
    /// The one that suits n rows of x, m rows of w, and k.
    pub fn of(n: usize, m: usize, k: usize) -> Self {
        let fills_a_gpu = n.div_ceil(128) * m.div_ceil(128) >= 132;
        match n {
            ..=FEW if k.div_ceil(K_CHUNK) <= MAX_CHUNKS => Self::FewRows,
            65.. if fills_a_gpu => Self::Large,
            _ => Self::Small,
        }
    }

    /// The one that suits x and w.
    pub(super) fn suiting(x: &Matrix<bf16>, w: &Matrix<bf16>) -> Self {
        Self::of(x.dim().0, w.dim().0, x.dim().1)
    }
}

/// The kernels of an operator that multiplies x and w.
pub(super) struct Kernels {
    /// In 64 × 64 tiles, and for few rows.
    pub(super) small: Kernel,
    /// In 128 × 128 tiles.
    pub(super) large: Kernel,
    /// Their entries: in tiles, for few rows.
    pub(super) entries: [&'static str; 2],
}

/// y \[n, m\] of x \[n, k\] and w \[m, k\].
///
/// C1: x and w are equally wide.
pub fn linear<T: Output>(gpu: &Gpu, x: &Matrix<bf16>, w: &Matrix<bf16>) -> Result<Matrix<T>, Error> {
    linear_tiled(gpu, Tiling::suiting(x, w), x, w)
}

/// The same in a tiling of the caller's choice.
///
/// C3: n ≤ 16 and k ≤ 16384 for [`Tiling::FewRows`].
pub fn linear_tiled<T: Output>(
    gpu: &Gpu,
    tiling: Tiling,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
) -> Result<Matrix<T>, Error> {
    let kernels = Kernels { small: T::SMALL, large: T::LARGE, entries: ["linear_tiles", "linear_few_rows"] };
    multiply(gpu, &kernels, tiling, [x, w], None)
}

/// y of x and w, by kernels that read a b of their own between w and y, if there is one.
pub(super) fn multiply<T: Output>(
    gpu: &Gpu,
    kernels: &Kernels,
    tiling: Tiling,
    [x, w]: [&Matrix<bf16>; 2],
    b: Option<&Matrix<bf16>>,
) -> Result<Matrix<T>, Error> {
    let ((n, k), (m, k_of_w)) = (x.dim(), w.dim());
    require(k_of_w == k, "linear C1", "cols(w)", k_of_w, format!("k = {k}"))?;
    if tiling == Tiling::FewRows {
        require(n <= FEW, "linear C3", "n", n, format!("at most {FEW}"))?;
        require(k <= MAX_CHUNKS * K_CHUNK, "linear C3", "k", k, format!("at most {}", MAX_CHUNKS * K_CHUNK))?;
    }
    let mut y = gpu.uninitialised::<T>((n, m))?;
    let [in_tiles, for_few_rows] = kernels.entries;
    let (kernel, entry) = match tiling {
        Tiling::Small => (kernels.small, in_tiles),
        Tiling::Large => (kernels.large, in_tiles),
        Tiling::FewRows => (kernels.small, for_few_rows),
    };
    let grid = if tiling == Tiling::FewRows { few_rows(&kernel, m, k) } else { tiles(&kernel, n, m) };
    let sizes = [("n", n), ("m", m), ("k", k), ("ld(x)", x.ld()), ("ld(w)", w.ld()), ("ld(y)", y.ld())];
    let mut arguments = [0; 6];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("linear C2", quantity, value)?;
    }
    let function = gpu.function(&kernel, entry)?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(w.data());
    if let Some(b) = b {
        launch.arg(b.data());
    }
    launch.arg(y.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1 and `Matrix`; K2 and K4 by `Matrix`; K3 because y was just allocated; K5 by C3; K6 by `tiles`
    // and `few_rows`; K7, where there is a b, by `linear_bias`'s C1.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || format!("{} {entry}", kernel.label()))?;
    Ok(y)
}

/// One block a tile.
fn tiles(kernel: &Kernel, n: usize, m: usize) -> Grid {
    let (rows, cols) = (kernel.constant("TILE_ROWS"), kernel.constant("TILE_COLS"));
    Grid {
        blocks: (count(n).div_ceil(rows), count(m).div_ceil(cols)),
        threads: 32 * kernel.constant("WARPS_DOWN") * kernel.constant("WARPS_ACROSS"),
        shared_bytes: kernel.constant("STAGES") * (rows + cols) * K_TILE * VALUE_BYTES,
    }
}

/// One block for 16 columns of y, with the chunks of k spread evenly over as few warps as that needs.
fn few_rows(kernel: &Kernel, m: usize, k: usize) -> Grid {
    let chunks = k.div_ceil(K_CHUNK);
    let warps = count(chunks.div_ceil(chunks.div_ceil(MAX_WARPS)));
    let ring_bytes = kernel.constant("FEW_STAGES") * 2 * count(FEW) * K_TILE * VALUE_BYTES;
    Grid {
        blocks: (count(m.div_ceil(FEW)), 1),
        threads: 32 * warps,
        shared_bytes: warps * ring_bytes + count(chunks * SUMS_BYTES),
    }
}
