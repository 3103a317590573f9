//! The devices that the tests run on.
//!
//! Without further notice that is the emulated device, in both forms. With `PARITY_DEVICE=cuda` it is the first GPU; then run
//! what `tests/gpu/run` does, because one process talks to one CUDA driver, and the other tests of kernels need the emulated one.

use std::env;

use cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg};
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::kernel::Kernel;
use optimized::tensor::Matrix;

/// Every device that an operator's tests run on.
pub fn devices() -> Vec<Gpu> {
    let choices = match env::var("PARITY_DEVICE").as_deref() {
        Ok("cuda") => vec![DeviceChoice::Cuda(0)],
        _ => vec![DeviceChoice::Emulated(Form::Fast), DeviceChoice::Emulated(Form::Checked)],
    };
    choices.into_iter().map(open).collect()
}

/// Those of them that are emulated, where functions are known to the last bit.
pub fn emulated_devices() -> Vec<Gpu> {
    devices().into_iter().filter(|gpu| gpu.form().is_some()).collect()
}

/// The emulated device.
pub fn emulated(form: Form) -> Gpu {
    open(DeviceChoice::Emulated(form))
}

fn open(choice: DeviceChoice) -> Gpu {
    match Gpu::open(choice) {
        Ok(gpu) => gpu,
        Err(error) => panic!("{error}"),
    }
}

/// Blocks, threads of each and its shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, in x and y.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A pointer to device memory.
    Address(u64),
    /// An `int`.
    Int(i32),
    /// A `float`.
    Float(f32),
}

/// Where the elements of a matrix are, for [`launch`].
pub fn address<T>(matrix: &Matrix<T>) -> u64 {
    matrix.data().device_ptr(matrix.data().stream()).0
}

/// Launches a kernel that a test brought along.
pub fn launch(gpu: &Gpu, kernel: &Kernel, entry: &str, grid: Grid, arguments: &[Argument]) -> Result<(), Error> {
    let function = gpu.function(kernel, entry)?;
    let mut launch = gpu.launch(&function);
    for argument in arguments {
        match argument {
            Argument::Address(value) => launch.arg(value),
            Argument::Int(value) => launch.arg(value),
            Argument::Float(value) => launch.arg(value),
        };
    }
    let (grid_dim, block_dim) = ((grid.blocks.0, grid.blocks.1, 1), (grid.threads, 1, 1));
    let config = LaunchConfig { grid_dim, block_dim, shared_mem_bytes: grid.shared_bytes };
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: the test's kernel keeps its promises, or the test is about one that does not, on the checked form, which ends
    // a launch before an access that is not allowed.
    let done = unsafe { launch.launch(config) };
    gpu.outcome(done, || format!("{} {entry}", kernel.label())).map(|_| ())
}
