//! Launches `kernels/linear.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Linear, RoundingContract, require};

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::{FEW_ROWS as FEW, K_CHUNK, K_TILE};
use crate::kernel::table::{
    LINEAR_64_BF16, LINEAR_64_BF16_E4M3, LINEAR_64_F32, LINEAR_64_F32_E4M3, LINEAR_128_BF16, LINEAR_128_BF16_E4M3,
    LINEAR_128_F32, LINEAR_128_F32_E4M3, LINEAR_WARPGROUPS_BF16, LINEAR_WARPGROUPS_BF16_E4M3, LINEAR_WARPGROUPS_F32,
    LINEAR_WARPGROUPS_F32_E4M3,
};
use crate::tensor::{Element, Matrix};
use crate::weight::WeightView;

/// Bytes of a bf16.
const VALUE_BYTES: u32 = 2;
/// Warps of such a block, at most.
const MAX_WARPS: usize = 8;
/// Chunks that such a block has shared memory for.
const MAX_CHUNKS: usize = 32;
/// A chunk's sums there, in bytes.
const SUMS_BYTES: usize = FEW * (FEW + 4) * 4;

/// What stands for rows of x that there are not, in bytes.
const ZEROS_BYTES: u32 = 128;

/// What y may hold: bf16 or f32.
pub trait Output: Element {
    /// The kernels of weights in bf16.
    const KERNELS: Kernels;
    /// Those of weights in E4M3.
    const QUANTIZED: Kernels;
}

impl Output for bf16 {
    const KERNELS: Kernels =
        Kernels { small: LINEAR_64_BF16, large: LINEAR_128_BF16, warpgroups: LINEAR_WARPGROUPS_BF16, entries: ENTRIES };
    const QUANTIZED: Kernels = Kernels {
        small: LINEAR_64_BF16_E4M3,
        large: LINEAR_128_BF16_E4M3,
        warpgroups: LINEAR_WARPGROUPS_BF16_E4M3,
        entries: ENTRIES,
    };
}

impl Output for f32 {
    const KERNELS: Kernels =
        Kernels { small: LINEAR_64_F32, large: LINEAR_128_F32, warpgroups: LINEAR_WARPGROUPS_F32, entries: ENTRIES };
    const QUANTIZED: Kernels = Kernels {
        small: LINEAR_64_F32_E4M3,
        large: LINEAR_128_F32_E4M3,
        warpgroups: LINEAR_WARPGROUPS_F32_E4M3,
        entries: ENTRIES,
    };
}

/// In tiles, for few rows.
const ENTRIES: [&str; 2] = ["linear_tiles", "linear_few_rows"];

/// How y is cut into blocks. All give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiling {
    /// Tiles of 64 × 64.
    Small,
    /// Tiles of 128 × 128.
    Large,
    /// The same, by warpgroups: on Hopper only.
    Warpgroups,
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

    /// Those that are launched from a kernel.
    pub fn of_kernel(kernel: &Kernel) -> &'static [Self] {
        match kernel.constant("TILE_ROWS") {
            64 => &[Self::Small, Self::FewRows],
            _ if kernel.is_of_warpgroups() => &[Self::Warpgroups],
            _ => &[Self::Large],
        }
    }

    /// The one that suits x and w, and has room on the device.
    pub(super) fn suiting(gpu: &Gpu, kernels: &Kernels, x: &Matrix<bf16>, w: WeightView<'_>) -> Self {
        let ((n, k), m) = (x.dim(), w.dim().0);
        Self::of(n, m, k).on(gpu).with_room(kernels, (n, k), gpu.shared_bytes())
    }

    /// The same, but on warpgroups where the device has them.
    #[must_use]
    pub fn on(self, gpu: &Gpu) -> Self {
        if self == Self::Large && gpu.has_warpgroups() { Self::Warpgroups } else { self }
    }

    /// The same, or small tiles where a block may not have as much shared memory as it needs.
    #[must_use]
    pub fn with_room(self, kernels: &Kernels, (n, k): (usize, usize), most_bytes: u32) -> Self {
        if self.shared_bytes(kernels.of(self).0, (n, k)) > most_bytes { Self::Small } else { self }
    }

    /// Shared memory of a block of the kernel that computes it.
    pub fn shared_bytes(self, kernel: &Kernel, (n, k): (usize, usize)) -> u32 {
        match self {
            Self::Small | Self::Large | Self::Warpgroups => tile_bytes(kernel),
            Self::FewRows => {
                let ring_bytes = panels_bytes(kernel, kernel.constant("FEW_STAGES"), [count(n), count(FEW)]);
                few_warps(k) * (ring_bytes + ZEROS_BYTES) + count(k.div_ceil(K_CHUNK) * SUMS_BYTES)
            }
        }
    }
}

/// The kernels of an operator that multiplies x and w.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    /// In 64 × 64 tiles, and for few rows.
    pub small: Kernel,
    /// In 128 × 128 tiles.
    pub large: Kernel,
    /// In 128 × 128 tiles, by warpgroups.
    pub warpgroups: Kernel,
    /// Their entries: in tiles, for few rows.
    pub(super) entries: [&'static str; 2],
}

impl Kernels {
    /// The kernel of a tiling, and its entry.
    fn of(&self, tiling: Tiling) -> (&Kernel, &'static str) {
        let [in_tiles, for_few_rows] = self.entries;
        match tiling {
            Tiling::Small => (&self.small, in_tiles),
            Tiling::Large => (&self.large, in_tiles),
            Tiling::Warpgroups => (&self.warpgroups, in_tiles),
            Tiling::FewRows => (&self.small, for_few_rows),
        }
    }
}

/// Those of weights as w is stored.
fn kernels<T: Output>(w: WeightView<'_>) -> Kernels {
    if w.is_quantized() { T::QUANTIZED } else { T::KERNELS }
}

/// y \[n, m\] of x \[n, k\] and w \[m, k\].
///
/// C1 and C2: the reference's. K2: sizes are below 2³¹.
pub fn linear<'a, T: Output>(gpu: &Gpu, x: &Matrix<bf16>, w: impl Into<WeightView<'a>>) -> Result<Matrix<T>, Error> {
    let w = w.into();
    linear_tiled(gpu, Tiling::suiting(gpu, &kernels::<T>(w), x, w), x, w)
}

/// The same in a tiling of the caller's choice.
///
/// K5: n ≤ 16 for [`Tiling::FewRows`]. K6: k ≤ 16384 there, and a block has room. K9: a Hopper GPU for [`Tiling::Warpgroups`].
pub fn linear_tiled<'a, T: Output>(
    gpu: &Gpu,
    tiling: Tiling,
    x: &Matrix<bf16>,
    w: impl Into<WeightView<'a>>,
) -> Result<Matrix<T>, Error> {
    let w = w.into();
    multiply(gpu, &kernels::<T>(w), tiling, (x, w), None)
}

/// y of x and w, by kernels that read a b of their own between w and y, if there is one.
pub(super) fn multiply<T: Output>(
    gpu: &Gpu,
    kernels: &Kernels,
    tiling: Tiling,
    (x, w): (&Matrix<bf16>, WeightView<'_>),
    b: Option<&Matrix<bf16>>,
) -> Result<Matrix<T>, Error> {
    let ((n, k), m) = (x.dim(), w.dim().0);
    Linear::under(&RoundingContract::PARITY).check(x.dim(), w.dim())?;
    if tiling == Tiling::FewRows {
        require(n <= FEW, "linear K5", "n", n, format!("at most {FEW}"))?;
        require(k <= MAX_CHUNKS * K_CHUNK, "linear K6", "k", k, format!("at most {}", MAX_CHUNKS * K_CHUNK))?;
    }
    let mut y = gpu.uninitialised::<T>((n, m))?;
    let (kernel, entry) = kernels.of(tiling);
    let kernel = &gpu.launched(kernel);
    gpu.require_warpgroups("linear K9", kernel)?;
    let grid = if tiling == Tiling::FewRows { few_rows(m, k) } else { tiles(kernel, n, m) };
    let grid = gpu.with_shared("linear K6", grid, tiling.shared_bytes(kernel, (n, k)))?;
    let weight = w.argument("linear K2")?;
    let sizes = [("n", n), ("m", m), ("k", k), ("ld(x)", x.ld()), ("ld(y)", y.ld())];
    let mut arguments = [0; 5];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("linear K2", quantity, value)?;
    }
    let function = gpu.function(kernel, entry)?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(&weight);
    if let Some(b) = b {
        launch.arg(b.data());
    }
    launch.arg(y.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C2 and `Matrix`; K2 and K4 by `Matrix`; K3 because y was just allocated; K5 as required; K6 by
    // `with_shared`; K7, where there is a b, by `linear_bias`'s C1; K8 by `Quantized`; K9 as required.
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
    panels_bytes(kernel, kernel.constant("STAGES"), [kernel.constant("TILE_ROWS"), kernel.constant("TILE_COLS")])
}

/// So many panels of rows of x, and of w: these in bf16, or in bytes and as many more in bf16 as take turns (`TURNS` of gemm.cuh and
/// warpgroup.cuh).
fn panels_bytes(kernel: &Kernel, stages: u32, [rows, cols]: [u32; 2]) -> u32 {
    let turns = if kernel.is_of_warpgroups() { 3 } else { 2 };
    let is_quantized = kernel.constant("WEIGHTS") == 8;
    let of_w = if is_quantized { (stages + turns * VALUE_BYTES) * cols } else { stages * VALUE_BYTES * cols };
    (stages * VALUE_BYTES * rows + of_w) * count(K_TILE)
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
