//! Loads the emulated driver so that cudarc finds it.

use std::ffi::{CStr, c_char};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::Error;
use crate::kernel::embedded::DRIVER;

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

/// The tensor cores that a launch's instructions are those of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TensorCores {
    /// Hopper's.
    #[default]
    Hopper,
    /// Ada's; those of bf16 and f16 are Ampere's, too.
    Ada,
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

/// What the lanes of warps read of global memory, or what they wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Instructions of warps.
    pub requests: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Sectors of 32 bytes, each once for every request: what goes between a multiprocessor and the second-level cache,
    /// where the first-level cache keeps nothing.
    pub sectors: u64,
    /// Sectors, each once for every launch: what goes between the memory and a second-level cache that keeps all of a
    /// launch, and nothing until the next.
    pub touched: u64,
}

/// What launches on the device's counting form did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Launches.
    pub launches: u64,
    /// Blocks of them.
    pub blocks: u64,
    /// Threads of all blocks.
    pub threads: u64,
    /// Bytes of dynamic shared memory that all blocks were given.
    pub shared_bytes: u64,
    /// What was read of global memory.
    pub read: Traffic,
    /// What was written there.
    pub written: Traffic,
    /// Instructions of warps that access shared memory.
    pub shared_requests: u64,
    /// Times that shared memory was accessed for them, of up to 128 bytes.
    pub shared_wavefronts: u64,
    /// Those of them that lanes cause whose words are in one bank.
    pub shared_conflicts: u64,
    /// Multiply-adds of the tensor cores, rows that only fill a tile among them.
    pub multiply_adds: u64,
    /// Times that memory was set to zero, by no kernel.
    pub fills: u64,
    /// Bytes of it.
    pub filled_bytes: u64,
}

/// How many numbers these are.
const COUNTS: usize = 18;

impl Counts {
    /// As `emulator/counts.h` has them.
    fn of(numbers: [u64; COUNTS]) -> Self {
        let traffic = |first: usize| Traffic {
            requests: numbers[first],
            bytes: numbers[first + 1],
            sectors: numbers[first + 2],
            touched: numbers[first + 3],
        };
        let [.., shared_requests, shared_wavefronts, shared_conflicts, multiply_adds, fills, filled_bytes] = numbers;
        Counts {
            launches: numbers[0],
            blocks: numbers[1],
            threads: numbers[2],
            shared_bytes: numbers[3],
            read: traffic(4),
            written: traffic(8),
            shared_requests,
            shared_wavefronts,
            shared_conflicts,
            multiply_adds,
            fills,
            filled_bytes,
        }
    }
}

/// The functions that the emulated driver has beyond a CUDA driver's. Each concerns the calling thread.
struct Controls {
    set_schedule: Symbol<unsafe extern "C" fn(u32, u64)>,
    set_tensor_cores: Symbol<unsafe extern "C" fn(u32)>,
    report: Symbol<unsafe extern "C" fn() -> *const c_char>,
    clear_report: Symbol<unsafe extern "C" fn()>,
    last_launch: Symbol<unsafe extern "C" fn(*mut u64, *mut u64, *mut u64)>,
    take_counts: Symbol<unsafe extern "C" fn(*mut u64, u32) -> bool>,
}

static CONTROLS: OnceLock<Result<Controls, String>> = OnceLock::new();

/// Loads the emulated driver, once a process, before cudarc looks for one.
///
/// cudarc opens `libcuda.so` before any other name. The dynamic linker answers with a library of that SONAME that is
/// loaded already, before it looks into any folder, and ours has it: so cudarc finds ours even where a real driver is
/// installed.
pub(crate) fn load() -> Result<(), Error> {
    let loaded = CONTROLS.get_or_init(load_controls);
    loaded
        .as_ref()
        .map(|_| ())
        .map_err(|problem| Error::NoDevice { device: "the emulated device".to_owned(), problem: problem.clone() })
}

fn load_controls() -> Result<Controls, String> {
    if DRIVER.is_empty() {
        return Err("it was not built, because it runs on Linux only".to_owned());
    }
    let file = memfd_create("emulated driver", MemfdFlags::CLOEXEC).map_err(|error| error.to_string())?;
    let mut file = std::fs::File::from(file);
    file.write_all(DRIVER).map_err(|error| error.to_string())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    #[expect(unsafe_code, reason = "loading a library runs its constructors")]
    // SAFETY: the library is ours; its constructors set up its own variables only.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| error.to_string())?;
    let controls = Controls {
        set_schedule: symbol(&library, "emulator_set_schedule")?,
        set_tensor_cores: symbol(&library, "emulator_set_tensor_cores")?,
        report: symbol(&library, "emulator_report")?,
        clear_report: symbol(&library, "emulator_clear_report")?,
        last_launch: symbol(&library, "emulator_last_launch")?,
        take_counts: symbol(&library, "emulator_take_counts")?,
    };
    // The library and the file that it was read from stay: the dynamic linker tells libraries apart by their paths.
    std::mem::forget(library);
    std::mem::forget(file);
    Ok(controls)
}

fn symbol<T>(library: &Library, name: &str) -> Result<Symbol<T>, String> {
    #[expect(unsafe_code, reason = "a symbol has no type")]
    // SAFETY: `Controls` states the types that `emulator/driver/device.cpp` defines, and the library is never unloaded.
    unsafe { library.get(name) }.map_err(|error| error.to_string())
}

/// The controls, if the emulated driver is loaded.
fn controls() -> Option<&'static Controls> {
    CONTROLS.get().and_then(|controls| controls.as_ref().ok())
}

pub(super) fn set_schedule(schedule: Schedule) {
    let (order, seed) = match schedule {
        Schedule::Forward => (0, 0),
        Schedule::Reverse => (1, 0),
        Schedule::Adversarial(seed) => (2, seed),
    };
    if let Some(controls) = controls() {
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: it stores two numbers.
        unsafe {
            (controls.set_schedule)(order, seed);
        }
    }
}

pub(super) fn set_tensor_cores(tensor_cores: TensorCores) {
    let generation = match tensor_cores {
        TensorCores::Hopper => 0,
        TensorCores::Ada => 1,
    };
    if let Some(controls) = controls() {
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: it stores a number.
        unsafe {
            (controls.set_tensor_cores)(generation);
        }
    }
}

pub(super) fn take_report() -> Option<String> {
    let controls = controls()?;
    #[expect(unsafe_code, reason = "a foreign function")]
    // SAFETY: it returns a string of this thread, which lives until the thread's next launch, copy or clearing.
    let report = unsafe { (controls.report)() };
    #[expect(unsafe_code, reason = "a foreign string")]
    // SAFETY: as above; it is terminated.
    let text = unsafe { CStr::from_ptr(report) }.to_string_lossy().into_owned();
    #[expect(unsafe_code, reason = "a foreign function")]
    // SAFETY: it empties the string, which was copied.
    unsafe {
        (controls.clear_report)();
    }
    (!text.is_empty()).then_some(text)
}

pub(super) fn last_launch() -> LaunchCounts {
    let mut counts = LaunchCounts::default();
    if let Some(controls) = controls() {
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: it writes three numbers, which it is given places for.
        unsafe {
            (controls.last_launch)(&raw mut counts.blocks, &raw mut counts.switches, &raw mut counts.collectives);
        }
    }
    counts
}

pub(super) fn take_counts() -> Counts {
    let mut numbers = [0; COUNTS];
    if let Some(controls) = controls() {
        let expected = u32::try_from(numbers.len()).expect("a small number");
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: it writes `expected` numbers or none, and is given places for as many.
        let is_as_expected = unsafe { (controls.take_counts)(numbers.as_mut_ptr(), expected) };
        assert!(is_as_expected, "the driver was built from the same sources");
    }
    Counts::of(numbers)
}
