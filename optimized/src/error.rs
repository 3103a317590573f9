//! What can go wrong on the way to a device and on it.

use std::path::PathBuf;

use cudarc::driver::DriverError;
use reference::contract::{ContractError, WeightError};

use crate::report::Report;

/// Why an operation of this crate failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver refused.
    #[error("{what}: {}", describe(*.source))]
    Driver {
        /// What was being done.
        what: String,
        /// What the driver said.
        source: DriverError,
    },
    /// The emulated device found a fault in a kernel.
    #[error("{what}: the emulated device found\n{report}")]
    Fault {
        /// What was being done: the kernel with its constants, or a copy.
        what: String,
        /// The findings.
        report: Report,
    },
    /// There is no such device.
    #[error("{device}: {problem}")]
    NoDevice {
        /// What was asked for.
        device: String,
        /// Why it is not to be had, and what to do.
        problem: String,
    },
    /// A process talks to one CUDA driver only.
    #[error("this process drives {running} already, so it cannot drive {asked}; start another one for that")]
    OtherDriver {
        /// The driver that was opened first.
        running: &'static str,
        /// The driver that was asked for now.
        asked: &'static str,
    },
    /// A kernel does not compile.
    #[error("{kernel} does not compile:\n{log}")]
    Compile {
        /// The kernel with its constants.
        kernel: String,
        /// What the compiler said.
        log: String,
    },
    /// NVRTC is not installed.
    #[error(
        "NVRTC was not found; looked for {}; install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`, and give the \
         folder of libnvrtc.so.13",
        looked_for.join(", ")
    )]
    NoNvrtc {
        /// Where it was looked for.
        looked_for: Vec<String>,
    },
    /// NCCL is not installed.
    #[error(
        "NCCL was not found, by which {ranks} ranks with a GPU each add up what they have; looked for libnccl.so: install NVIDIA's \
         NCCL and give the folder of that name, or run all ranks on one GPU"
    )]
    NoNccl {
        /// How many ranks there are.
        ranks: usize,
    },
    /// NCCL refused.
    #[error("{what}: NCCL says {code}")]
    Nccl {
        /// What was being done.
        what: &'static str,
        /// The name of its error.
        code: String,
    },
    /// Another rank of the group failed first.
    #[error("rank {rank}: another rank of its group stopped")]
    Stopped {
        /// The rank that waited for it.
        rank: usize,
    },
    /// A kernel's source has no such text, or several times.
    #[error("{file} has the text {times} times, not once: {text}")]
    Edit {
        /// The file that was to be edited.
        file: String,
        /// The text that was to be replaced.
        text: String,
        /// How often it is there.
        times: usize,
    },
    /// Work that was to be timed launched nothing.
    #[error("nothing was launched, so that there is nothing to time")]
    NoWork,
    /// An operator was given what its header excludes.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The kernels know few readings of the documents.
    #[error(
        "semantics {asked}: the kernels compute `documents` and `released`, and mixtures of them; use the reference for others"
    )]
    Semantics {
        /// What was asked for.
        asked: String,
    },
    /// A weight cannot be had.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// The driver's name and text for an error.
fn describe(error: DriverError) -> String {
    let text = error.error_string().unwrap_or(c"unknown error").to_string_lossy();
    let name = error.error_name().unwrap_or(c"?").to_string_lossy();
    format!("{text} ({name})")
}
