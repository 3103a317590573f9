//! How many roundings a term of a row's sum goes through: of the squares in a norm, of the values in a mean.
//!
//! A sum of terms of one sign is off by at most h·u of itself if no term is in more than h additions (Higham, section 4.2).
//! In any order that is d. Where lanes add some terms each and are then added up themselves, it is far less, and a bound
//! that knows it sees an ε of 10⁻⁵ in the place of 10⁻⁶, which d·u/2 hides at d = 6144 in f32.

use strum::{Display, EnumString, VariantNames};

use crate::order::{self, Lanes, WARP};

/// Whose reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Reduction {
    /// Anyone's, in any order.
    Any,
    /// Our kernels': a block of 256 threads, vectors of 8 to a thread, then the lanes of a warp, then 8 warps
    /// (`optimized/kernels/include/reduce.cuh`). A warp to a row of at most 256 values is no deeper.
    Parity,
    /// PyTorch's `sum` and `mean` over the last dimension. On a processor (`SumKernel.cpp`): 4 vectors of 4 to 16 lanes
    /// side by side, each added in runs of 16, those in runs of 16, and so on, then the 4, the lanes, and what is left over.
    /// On a GPU (`Reduce.cuh`): at least 32 threads with 4 sums each, then these, then up to 512 threads in a tree.
    Torch,
}

impl Reduction {
    /// h of a sum of d terms.
    pub fn depth(self, d: usize) -> usize {
        let known = match self {
            Reduction::Any => d,
            Reduction::Parity => {
                let Lanes { count, vector } = order::PARITY.row;
                vector * d.div_ceil(vector * count) + WARP.ilog2() as usize + count / WARP
            }
            Reduction::Torch => {
                let vectors = d.div_ceil(16);
                let runs = [1, 16, 256].map(|run| vectors.div_ceil(run).min(16));
                let on_a_processor = runs.iter().sum::<usize>() + vectors.div_ceil(4096) + 3 * 3 + 16;
                let on_a_gpu = d.div_ceil(4 * 32) + 4 + 9;
                on_a_processor.max(on_a_gpu)
            }
        };
        known.min(d)
    }

    /// The same of the two sums of a layer norm. PyTorch takes its moments by Welford's recurrence instead, of which nothing
    /// is known here.
    pub fn depth_of_moments(self, d: usize) -> usize {
        match self {
            Reduction::Parity => self.depth(d),
            Reduction::Any | Reduction::Torch => d,
        }
    }
}
