//! The emulated device: a stand-in CUDA driver, embedded in this crate, which runs the kernels on the processor.
//!
//! Launches run on the thread that makes them, before it goes on; the fast form takes other cores to help. The
//! schedule, the report and the counts below belong to the calling thread, so that tests may run side by side.

#[cfg(test)]
mod driver_tests;
mod image;
mod library;
mod report;

use std::cell::Cell;
use std::fs;

pub use image::Form;
pub use report::{Fault, Finding, Place, Report};

use crate::error::Error;
use crate::kernel::{Kernel, Sources};

/// Loads the emulated driver, before cudarc looks for one.
pub(crate) fn load() -> Result<(), Error> {
    library::load()?;
    library::set_schedule(SCHEDULE.get());
    Ok(())
}

impl Form {
    /// The number of the emulated device that runs this form.
    pub(crate) fn ordinal(self) -> usize {
        match self {
            Self::Fast => 0,
            Self::Checked => 1,
        }
    }
}

/// The order in which a launch's threads and blocks run. A GPU may choose any, so no result may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Upward; asynchronous copies are made as late as they may.
    #[default]
    Forward,
    /// Downward; asynchronous copies are made at once.
    Reverse,
    /// Warps by random priorities that rarely change, random lanes, copies by a coin: what finds most races in fewest
    /// runs.
    Adversarial(u64),
}

thread_local! {
    static SCHEDULE: Cell<Schedule> = const { Cell::new(Schedule::Forward) };
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

/// The calling thread's findings since the last call, if there are any.
pub fn take_report() -> Option<Report> {
    library::take_report().map(|text| Report::parse(&text))
}

/// What the calling thread's last launch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchCounts {
    /// Blocks run.
    pub blocks: u64,
    /// Times that one emulated thread gave way to another.
    pub switches: u64,
    /// Things that a warp did together: shuffles, votes, `ldmatrix`, `mma`, `__syncwarp`.
    pub collectives: u64,
}

/// Counts of the calling thread's last launch.
pub fn last_launch() -> LaunchCounts {
    library::last_launch()
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
