//! The kernels of the vision tower.

use optimized::error::Error;
use optimized::kernel::Kernel;
use optimized::ops::HeadLayout;
use optimized::ops::gelu::gelu;
use optimized::ops::layer_norm::layer_norm;
use optimized::ops::linear::Tiling;
use optimized::ops::linear_bias::linear_bias_tiled;
use optimized::ops::masked_scatter::masked_scatter;
use optimized::ops::patch_embedding::rounded;
use optimized::ops::residual::residual;
use optimized::ops::rope::rope;
use optimized::ops::vision_attention::vision_attention;
use reference::ops::rope::Rope;
use reference::semantics::Gelu;

use super::{EPS, Exercise};

impl Exercise<'_> {
    /// A bit more than a vector for each thread.
    pub(super) fn layer_norm(&mut self) -> Result<(), Error> {
        let (x, w, b) = (self.values(1, (3, 2100))?, self.values(2, (1, 2100))?, self.values(3, (1, 2100))?);
        let y = layer_norm(self.gpu, &x, &w, &b, EPS)?;
        self.keep(&y)
    }

    /// More vectors than one block has threads.
    pub(super) fn gelu(&mut self) -> Result<(), Error> {
        let a = gelu(self.gpu, Gelu::Erf, &self.values(1, (5, 700))?)?;
        self.keep(&a)
    }

    /// More vectors than one block has threads.
    pub(super) fn residual(&mut self) -> Result<(), Error> {
        let y = residual(self.gpu, &self.values(1, (5, 700))?, &self.values(2, (5, 700))?)?;
        self.keep(&y)
    }

    /// As [`Exercise::linear`].
    pub(super) fn linear_bias(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let (x, w, b) = (self.values(1, (13, 600))?, self.values(2, (150, 600))?, self.values(3, (1, 150))?);
        for tiling in Tiling::of_kernel(kernel) {
            let y = linear_bias_tiled(self.gpu, *tiling, &x, &w, &b)?;
            self.keep(&y)?;
        }
        Ok(())
    }

    /// More heads than a block has warps, and channels that pass.
    pub(super) fn rope(&mut self) -> Result<(), Error> {
        let p = Rope { head_dim: 20, rotary_dim: 18, ..Rope::default() };
        let (cos, sin) = (self.wide_values(2, (3, 18))?, self.wide_values(3, (3, 18))?);
        let y = rope(self.gpu, &p, &self.values(1, (3, 11 * 20))?, &cos, &sin)?;
        self.keep(&y)
    }

    /// Segments of several groups of keys, of a tile that is not full, and of fewer blocks than the longest.
    pub(super) fn vision_attention(&mut self, kernel: &Kernel) -> Result<(), Error> {
        const SEGMENTS: [usize; 3] = [270, 1, 70];
        let layout = HeadLayout::new(2, 2, kernel.constant("D") as usize * 5 / 8)?;
        let dim = (SEGMENTS.iter().sum(), layout.heads() * layout.padded());
        let (q, k, v) = (self.values(1, dim)?, self.values(2, dim)?, self.values(3, dim)?);
        let o = vision_attention(self.gpu, &layout, [&q, &k, &v], &SEGMENTS)?;
        self.keep(&o)
    }

    /// More vectors than one block has threads.
    pub(super) fn patch_embedding(&mut self) -> Result<(), Error> {
        let y = rounded(self.gpu, &self.wide_values(1, (5, 700))?)?;
        self.keep(&y)
    }

    pub(super) fn masked_scatter(&mut self) -> Result<(), Error> {
        let (mut x, f) = (self.values(1, (5, 1100))?, self.values(2, (2, 1100))?);
        masked_scatter(self.gpu, &mut x, &[false, true, false, false, true], &f)?;
        self.keep(&x)
    }
}
