//! The devices that the tests run on.
//!
//! Without further notice that is the emulated device, in both forms. With `PARITY_DEVICE=cuda` it is the first GPU;
//! then run `device`, `invariance` and `kernels` only, and of `exact_grid` the operators `linear`, `experts` and
//! `attention`, because one process talks to one CUDA driver, and the other tests of kernels need the emulated one.

use std::env;

use optimized::device::{Argument, DeviceChoice, Gpu, Grid};
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::kernel::Kernel;

/// Every device that an operator's tests run on.
pub fn devices() -> Vec<Gpu> {
    let choices = match env::var("PARITY_DEVICE").as_deref() {
        Ok("cuda") => vec![DeviceChoice::Cuda(0)],
        _ => vec![DeviceChoice::Emulated(Form::Fast), DeviceChoice::Emulated(Form::Checked)],
    };
    choices.into_iter().map(open).collect()
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

/// Launches a kernel that a test brought along.
pub fn launch(gpu: &Gpu, kernel: &Kernel, entry: &str, grid: Grid, arguments: &[Argument]) -> Result<(), Error> {
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: the test's kernel keeps its promises, or the test is about one that does not, on the checked form.
    unsafe {
        gpu.launch_with(kernel, entry, grid, arguments)
    }
}
