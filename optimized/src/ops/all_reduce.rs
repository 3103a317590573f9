//! Launches `kernels/all_reduce.cu`.

use std::iter::repeat_n;

use cudarc::driver::{DevicePtr, DeviceRepr, PushKernelArg};
use half::bf16;

use reference::contract::{AllReduce, RoundingContract, require};

use super::{by_vectors, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::stated::MOST_RANKS;
use crate::kernel::table::ALL_REDUCE;
use crate::tensor::Matrix;

/// `Parts` of the kernel.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Parts([u64; MOST_RANKS]);

#[expect(unsafe_code, reason = "a type that kernels take")]
// SAFETY: addresses in the order of ranks, as many as the kernel's.
unsafe impl DeviceRepr for Parts {}

/// y of all pᵣ \[n, m\], which are on one device.
///
/// C1 and C2: the reference's. K1: at most 64 ranks; sizes are below 2³¹. K4 is the caller's: other streams have written the parts.
pub fn all_reduce(gpu: &Gpu, parts: &[&Matrix<bf16>]) -> Result<Matrix<bf16>, Error> {
    let addresses = addresses(parts)?;
    let mut y = gpu.uninitialised(parts[0].dim())?;
    let (grid, vectors) = by_vectors("all_reduce K1", parts[0], ALL_REDUCE.constant("THREADS"))?;
    let ranks = dimension("all_reduce K1", "R", parts.len())?;
    let function = gpu.function(&ALL_REDUCE, "all_reduce")?;
    let mut launch = gpu.launch(&function);
    launch.arg(&addresses).arg(y.data_mut()).arg(&ranks).arg(&vectors);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `addresses`; K2 by C2 and `Matrix`; K3 because y was just allocated; K4 by the caller.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || ALL_REDUCE.label())?;
    Ok(y)
}

/// The same of sums in f32.
pub fn all_reduce_f32(gpu: &Gpu, parts: &[&Matrix<f32>]) -> Result<Matrix<f32>, Error> {
    let addresses = addresses(parts)?;
    let mut y = gpu.uninitialised(parts[0].dim())?;
    let values = parts[0].dim().0 * parts[0].ld();
    let threads = ALL_REDUCE.constant("THREADS");
    dimension("all_reduce K1", "values, in whole blocks", values.next_multiple_of(threads as usize))?;
    let grid = Grid { blocks: (count(values).div_ceil(threads), 1), threads };
    let (values, ranks) =
        (dimension("all_reduce K1", "values", values)?, dimension("all_reduce K1", "R", parts.len())?);
    let function = gpu.function(&ALL_REDUCE, "all_reduce_f32")?;
    let mut launch = gpu.launch(&function);
    launch.arg(&addresses).arg(y.data_mut()).arg(&ranks).arg(&values);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `addresses`; K2 by C2 and `Matrix`; K3 because y was just allocated; K4 by the caller.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || format!("{} all_reduce_f32", ALL_REDUCE.label()))?;
    Ok(y)
}

/// Where parts are.
fn addresses<T>(parts: &[&Matrix<T>]) -> Result<Parts, Error> {
    let shapes: Vec<(usize, usize)> = parts.iter().map(|part| part.dim()).collect();
    AllReduce::under(&RoundingContract::PARITY).check(&shapes)?;
    require(parts.len() <= MOST_RANKS, "all_reduce K1", "R", parts.len(), format!("at most {MOST_RANKS}"))?;
    let address = |part: &&Matrix<T>| part.data().device_ptr(part.data().stream()).0;
    let mut all = parts.iter().map(address).chain(repeat_n(super::NOWHERE, MOST_RANKS - parts.len()));
    Ok(Parts(std::array::from_fn(|_| all.next().expect("one for each rank, and none"))))
}
