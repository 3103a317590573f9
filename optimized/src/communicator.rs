//! What ranks of a group are to each other: each has a part of a sum, and all get the sum.
//!
//! [`local`] is for ranks that share a device, emulated or not, [`nccl`] for ranks with a GPU each; [`members`] opens what there is.

pub mod local;
pub mod members;
pub mod nccl;

use std::fmt::Debug;

use half::bf16;

use crate::device::Gpu;
use crate::error::Error;
use crate::tensor::Matrix;

/// A rank's way to the others of its group. All ask for the same sums in the same order, each in a thread of its own.
pub trait Communicator: Debug + Send + Sync {
    /// Which of them it is, from 0.
    fn rank(&self) -> usize;

    /// R.
    fn size(&self) -> usize;

    /// The sum of what all ranks give, of equal shapes: what `reference/src/ops/all_reduce.rs` says, in an order that may be
    /// another.
    fn all_reduce(&self, gpu: &Gpu, part: Matrix<bf16>) -> Result<Matrix<bf16>, Error>;

    /// The same in f32.
    fn all_reduce_f32(&self, gpu: &Gpu, part: Matrix<f32>) -> Result<Matrix<f32>, Error>;

    /// Ends it for all ranks: who waits for another, or will, gets an error.
    fn abort(&self);
}
