//! Launches `kernels/masked_scatter.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{MaskedScatter, RoundingContract};

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::MASKED_SCATTER;
use crate::tensor::Matrix;

/// Threads of the block that owns a row.
const THREADS: u32 = MASKED_SCATTER.constant("THREADS");

/// y of m \[n\] and f \[k, d\], in the place of x \[n, d\].
///
/// C1 to C3: the reference's. K1: sizes are below 2³¹.
pub fn masked_scatter(gpu: &Gpu, x: &mut Matrix<bf16>, m: &[bool], f: &Matrix<bf16>) -> Result<(), Error> {
    MaskedScatter::under(&RoundingContract::PARITY).check(x.dim(), m, f.dim())?;
    let mut places = Vec::with_capacity(f.dim().0);
    for (row, _) in m.iter().enumerate().filter(|(_, marked)| **marked) {
        places.push(dimension("masked_scatter K1", "row", row)?);
    }
    let places = gpu.upload_row(places)?;
    let ld = dimension("masked_scatter K1", "ld(x)", x.ld())?;
    let function = gpu.function(&MASKED_SCATTER, "masked_scatter")?;
    let grid = Grid { blocks: (count(f.dim().0), 1), threads: THREADS };
    let mut launch = gpu.launch(&function);
    launch.arg(places.data()).arg(f.data()).arg(x.data_mut()).arg(&ld);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1 and C3; K2 by C2 and `Matrix`; K3 because x is borrowed to be written.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || MASKED_SCATTER.label())?;
    Ok(())
}
