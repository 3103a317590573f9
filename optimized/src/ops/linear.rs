//! Launches `kernels/linear.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Linear, RoundingContract, require};

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::{FEW_ROWS as FEW, K_CHUNK, K_TILE};
use crate::kernel::table::{LINEAR_64_BF16, LINEAR_64_F32, LINEAR_128_BF16, LINEAR_128_F32};
use crate::tensor::{Element, Matrix};

/// Bytes of a bf16.
const VALUE_BYTES: u32 = 2;
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

    /// The one that suits x and w, and has room on the device.
    pub(super) fn suiting(gpu: &Gpu, small: &Kernel, x: &Matrix<bf16>, w: &Matrix<bf16>) -> Self {
        let ((n, k), m) = (x.dim(), w.dim().0);
        Self::of(n, m, k).with_room(small, k, gpu.shared_bytes())
    }

    /// The same, or small tiles where a block for few rows may not have as much shared memory as it needs.
    #[must_use]
    pub fn with_room(self, small: &Kernel, k: usize, most_bytes: u32) -> Self {
        if self == Self::FewRows && self.shared_bytes(small, k) > most_bytes { Self::Small } else { self }
    }

    /// Shared memory of a block of the kernel that computes it.
    pub fn shared_bytes(self, kernel: &Kernel, k: usize) -> u32 {
        match self {
            Self::Small | Self::Large => tile_bytes(kernel),
            Self::FewRows => {
                let ring_bytes = kernel.constant("FEW_STAGES") * 2 * count(FEW) * count(K_TILE) * VALUE_BYTES;
                few_warps(k) * ring_bytes + count(k.div_ceil(K_CHUNK) * SUMS_BYTES)
            }
        }
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
/// C1 and C2: the reference's. K2: sizes are below 2³¹.
pub fn linear<T: Output>(gpu: &Gpu, x: &Matrix<bf16>, w: &Matrix<bf16>) -> Result<Matrix<T>, Error> {
    linear_tiled(gpu, Tiling::suiting(gpu, &T::SMALL, x, w), x, w)
}

/// The same in a tiling of the caller's choice.
///
/// K5: n ≤ 16 for [`Tiling::FewRows`]. K6: k ≤ 16384 there, and a block has room.
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
    let ((n, k), m) = (x.dim(), w.dim().0);
    Linear::under(&RoundingContract::PARITY).check(x.dim(), w.dim())?;
    if tiling == Tiling::FewRows {
        require(n <= FEW, "linear K5", "n", n, format!("at most {FEW}"))?;
        require(k <= MAX_CHUNKS * K_CHUNK, "linear K6", "k", k, format!("at most {}", MAX_CHUNKS * K_CHUNK))?;
    }
    let mut y = gpu.uninitialised::<T>((n, m))?;
    let [in_tiles, for_few_rows] = kernels.entries;
    let (kernel, entry) = match tiling {
        Tiling::Small => (kernels.small, in_tiles),
        Tiling::Large => (kernels.large, in_tiles),
        Tiling::FewRows => (kernels.small, for_few_rows),
    };
    let grid = if tiling == Tiling::FewRows { few_rows(m, k) } else { tiles(&kernel, n, m) };
    let grid = gpu.with_shared("linear K6", grid, tiling.shared_bytes(&kernel, k))?;
    let sizes = [("n", n), ("m", m), ("k", k), ("ld(x)", x.ld()), ("ld(w)", w.ld()), ("ld(y)", y.ld())];
    let mut arguments = [0; 6];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("linear K2", quantity, value)?;
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
    // SAFETY: K1 by C2 and `Matrix`; K2 and K4 by `Matrix`; K3 because y was just allocated; K5 as required; K6 by
    // `with_shared`; K7, where there is a b, by `linear_bias`'s C1.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} {entry}", kernel.label()))?;
    Ok(y)
}

/// One block a tile.
fn tiles(kernel: &Kernel, n: usize, m: usize) -> Grid {
    let (rows, cols) = (kernel.constant("TILE_ROWS"), kernel.constant("TILE_COLS"));
    Grid {
        blocks: (count(n).div_ceil(rows), count(m).div_ceil(cols)),
        threads: 32 * kernel.constant("WARPS_DOWN") * kernel.constant("WARPS_ACROSS"),
    }
}

/// `sizeof(Block::Shared)`: shared memory of a block that owns a tile.
pub fn tile_bytes(kernel: &Kernel) -> u32 {
    let (rows, cols) = (kernel.constant("TILE_ROWS"), kernel.constant("TILE_COLS"));
    kernel.constant("STAGES") * (rows + cols) * count(K_TILE) * VALUE_BYTES
}

/// One block for 16 columns of y.
fn few_rows(m: usize, k: usize) -> Grid {
    Grid { blocks: (count(m.div_ceil(FEW)), 1), threads: 32 * few_warps(k) }
}

/// Warps of such a block: the chunks of k are spread evenly over as few as that needs.
fn few_warps(k: usize) -> u32 {
    let chunks = k.div_ceil(K_CHUNK);
    count(chunks.div_ceil(chunks.div_ceil(MAX_WARPS)))
}
