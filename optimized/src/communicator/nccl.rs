//! Ranks with a GPU each: NCCL adds up what they have, in an order of its own.

use std::sync::{Mutex, PoisonError};

use cudarc::nccl::result::NcclError;
use cudarc::nccl::{Comm, NcclType, ReduceOp};
use half::bf16;
use reference::contract::require;

use super::Communicator;
use crate::device::Gpu;
use crate::error::Error;
use crate::tensor::{Element, Matrix};

/// One of them.
#[derive(Debug)]
pub struct Nccl {
    rank: usize,
    size: usize,
    /// None once it was ended.
    communicator: Mutex<Option<Handle>>,
}

/// NCCL's own.
#[derive(Debug)]
struct Handle(Comm);

#[expect(unsafe_code, reason = "NCCL's handle is a pointer")]
// SAFETY: NCCL lets any thread use a communicator, one at a time, which the mutex around it sees to.
unsafe impl Send for Handle {}

impl Nccl {
    /// A rank for each device.
    ///
    /// C2: all of them are different GPUs.
    pub fn group(gpus: &[Gpu]) -> Result<Vec<Self>, Error> {
        #[expect(unsafe_code, reason = "loading a library runs its constructors")]
        // SAFETY: it is NVIDIA's NCCL, which is made to be loaded so.
        let is_there = unsafe { cudarc::nccl::sys::is_culib_present() };
        if !is_there {
            return Err(Error::NoNccl { ranks: gpus.len() });
        }
        let mut ordinals: Vec<_> = gpus.iter().filter(|gpu| gpu.form().is_none()).map(ordinal).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        require(ordinals.len() == gpus.len(), "communicator C2", "GPUs", ordinals.len(), gpus.len())?;
        let streams = gpus.iter().map(|gpu| gpu.stream().clone()).collect();
        let failed = |error: NcclError| refused(&error, "opening a group of ranks");
        let communicators = Comm::from_devices(streams).map_err(failed)?.into_iter().enumerate();
        let of_rank = |(rank, communicator)| Nccl {
            rank,
            size: gpus.len(),
            communicator: Mutex::new(Some(Handle(communicator))),
        };
        Ok(communicators.map(of_rank).collect())
    }

    fn summed<T: Element + NcclType>(&self, gpu: &Gpu, part: &Matrix<T>) -> Result<Matrix<T>, Error> {
        let mut y = gpu.uninitialised(part.dim())?;
        let communicator = self.communicator.lock().unwrap_or_else(PoisonError::into_inner);
        let Handle(communicator) = communicator.as_ref().ok_or(Error::Stopped { rank: self.rank })?;
        let done = communicator.all_reduce(part.data(), y.data_mut(), &ReduceOp::Sum);
        done.map_err(|error| refused(&error, "adding up what ranks have"))?;
        Ok(y)
    }
}

impl Communicator for Nccl {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&self, gpu: &Gpu, part: Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
        self.summed(gpu, &part)
    }

    fn all_reduce_f32(&self, gpu: &Gpu, part: Matrix<f32>) -> Result<Matrix<f32>, Error> {
        self.summed(gpu, &part)
    }

    /// Of this rank: the caller ends all of them.
    fn abort(&self) {
        drop(self.communicator.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The number that the driver gives a device.
fn ordinal(gpu: &Gpu) -> usize {
    gpu.stream().context().ordinal()
}

fn refused(NcclError(code): &NcclError, what: &'static str) -> Error {
    Error::Nccl { what, code: format!("{code:?}") }
}
