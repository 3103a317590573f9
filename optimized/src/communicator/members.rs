//! Opening devices for the ranks of a group.

use std::sync::Arc;

use super::Communicator;
use super::local::Local;
use super::nccl::Nccl;
use crate::device::{DeviceChoice, Gpu, installed_gpus};
use crate::error::Error;

/// A rank's device, and its way to the others.
#[derive(Debug)]
pub struct Member {
    /// The device, on a stream of the rank's own.
    pub gpu: Gpu,
    /// The way.
    pub communicator: Arc<dyn Communicator>,
}

/// R ranks: on a GPU each with NCCL, if any device will do and there are so many; else on one device.
pub fn open(choice: DeviceChoice, count: usize) -> Result<Vec<Member>, Error> {
    if choice == DeviceChoice::Auto && count > 1 && installed_gpus() >= count {
        let gpus = (0..count).map(|rank| Gpu::open(DeviceChoice::Cuda(rank))).collect::<Result<Vec<_>, _>>()?;
        let communicators = Nccl::group(&gpus)?;
        let with = |(gpu, communicator)| Member { gpu, communicator: Arc::new(communicator) };
        return Ok(gpus.into_iter().zip(communicators).map(with).collect());
    }
    let communicators = Local::group(count).into_iter();
    communicators
        .map(|communicator| Ok(Member { gpu: Gpu::open(choice)?, communicator: Arc::new(communicator) }))
        .collect()
}
