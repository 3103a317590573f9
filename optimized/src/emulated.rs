//! The emulated device: a stand-in CUDA driver, embedded in this crate, which runs the kernels on the processor.
//!
//! Launches run on the thread that makes them, before it goes on; the fast form takes other cores to help. The
//! schedule, the tensor cores, the report and the counts below belong to the calling thread, so that tests may run side
//! by side.

#[cfg(test)]
mod driver_tests;
mod image;
mod library;

use std::cell::Cell;
use std::fs;

pub use image::Form;
pub use library::{Counts, LaunchCounts, Schedule, TensorCores, Traffic};

use crate::error::Error;
use crate::kernel::instructions::INSTRUCTIONS;
use crate::kernel::table::KERNELS;
use crate::kernel::{Kernel, Sources, embedded};
use crate::report::Report;

/// Loads the emulated driver, before cudarc looks for one.
pub(crate) fn load() -> Result<(), Error> {
    library::load()?;
    library::set_schedule(SCHEDULE.get());
    library::set_tensor_cores(TENSOR_CORES.get());
    Ok(())
}

impl Form {
    /// The number of the emulated device that runs this form.
    pub(crate) fn ordinal(self) -> usize {
        match self {
            Self::Fast => 0,
            Self::Checked => 1,
            Self::Counting => 2,
        }
    }

    /// Which of a kernel's images it runs.
    fn image(self) -> usize {
        match self {
            Self::Fast => 0,
            Self::Checked | Self::Counting => 1,
        }
    }
}

thread_local! {
    static SCHEDULE: Cell<Schedule> = const { Cell::new(Schedule::Forward) };
    static TENSOR_CORES: Cell<TensorCores> = const { Cell::new(TensorCores::Hopper) };
}

/// Does `work` with the calling thread's launches in the order of `schedule`.
pub fn with_schedule<R>(schedule: Schedule, work: impl FnOnce() -> R) -> R {
    struct Restored(Schedule);
    impl Drop for Restored {
        fn drop(&mut self) {
            library::set_schedule(self.0);
            SCHEDULE.set(self.0);
        }
    }
    let _restored = Restored(SCHEDULE.replace(schedule));
    library::set_schedule(schedule);
    work()
}

/// Does `work` with the calling thread's launches on these tensor cores.
pub fn with_tensor_cores<R>(tensor_cores: TensorCores, work: impl FnOnce() -> R) -> R {
    struct Restored(TensorCores);
    impl Drop for Restored {
        fn drop(&mut self) {
            library::set_tensor_cores(self.0);
            TENSOR_CORES.set(self.0);
        }
    }
    let _restored = Restored(TENSOR_CORES.replace(tensor_cores));
    library::set_tensor_cores(tensor_cores);
    work()
}

/// The calling thread's tensor cores.
pub(crate) fn tensor_cores() -> TensorCores {
    TENSOR_CORES.get()
}

/// The calling thread's findings since the last call, if there are any.
pub fn take_report() -> Option<Report> {
    library::take_report().map(|text| Report::parse(&text))
}

/// Counts of the calling thread's last launch.
pub fn last_launch() -> LaunchCounts {
    library::last_launch()
}

/// What the calling thread's launches accessed since the last call, on the device's counting form.
pub fn take_counts() -> Counts {
    library::take_counts()
}

/// What the build made of a kernel, if it made anything: if it is in [`KERNELS`], or [`INSTRUCTIONS`].
pub(crate) fn image(kernel: &Kernel, form: Form) -> Option<&'static [u8]> {
    let position = KERNELS.iter().chain([&INSTRUCTIONS]).position(|known| known == kernel)?;
    embedded::IMAGES.get(position).map(|images| images[form.image()])
}

/// Compiles a kernel for the emulated device, as the build does. Needs the C++ compiler.
pub fn compile(kernel: &Kernel, sources: &Sources, form: Form) -> Result<Vec<u8>, Error> {
    let in_folder = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let folder = tempfile::tempdir().map_err(in_folder(&std::env::temp_dir()))?;
    for (name, text) in sources.files() {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(in_folder(&path))?;
    }
    let file = kernel.file();
    let job = image::Job { file: &file, entries: kernel.entries, constants: kernel.constants, form };
    image::make(job, &[folder.path().to_owned()], folder.path())
        .map_err(|log| Error::Compile { kernel: kernel.label(), log })
}
