//! How the rows of a feed-forward network's products are cut into tiles.

use crate::device::Gpu;
use crate::kernel::Kernel;
use crate::weight::WeightView;

/// How rows are cut. All give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiles {
    /// Of 16 rows.
    Few,
    /// Of 64 rows.
    Many,
    /// The same, by warpgroups: on Hopper only.
    Warpgroups,
}

impl Tiles {
    /// Those that a kernel computes.
    pub fn of(kernel: &Kernel) -> Self {
        match kernel.constant("TILE_ROWS") {
            16 => Self::Few,
            _ if kernel.is_of_warpgroups() => Self::Warpgroups,
            _ => Self::Many,
        }
    }

    /// Those of few rows, or of many as the device multiplies them best.
    pub(crate) fn suiting(gpu: &Gpu, are_many: bool) -> Self {
        match (are_many, gpu.has_warpgroups()) {
            (false, _) => Self::Few,
            (true, false) => Self::Many,
            (true, true) => Self::Warpgroups,
        }
    }

    /// Of an operator's kernels, of each of these and of weights in bf16 and in E4M3, the one that computes it.
    pub(crate) fn kernel<'a>(
        self,
        [few, many, warpgroups]: &'a [[Kernel; 2]; 3],
        weights: WeightView<'_>,
    ) -> &'a Kernel {
        let [bf16, quantized] = match self {
            Self::Few => few,
            Self::Many => many,
            Self::Warpgroups => warpgroups,
        };
        if weights.is_quantized() { quantized } else { bf16 }
    }
}
