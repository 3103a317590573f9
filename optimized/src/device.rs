//! Opening a GPU, or the emulated device that stands in for one, and launching kernels there.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
use cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, LaunchArgs, LaunchConfig};
use cudarc::nvrtc::Ptx;

use reference::contract::require;

use crate::emulated::{self, Form, TensorCores};
use crate::error::Error;
use crate::kernel::{Kernel, Sources};
use crate::tuning::{Launched, Tuning};
use crate::{cubin, shared_memory};

/// Which device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU; without one, the emulated device's fast form.
    Auto,
    /// A GPU, by the number that the CUDA driver gives it.
    Cuda(usize),
    /// The emulated device.
    Emulated(Form),
}

/// A CUDA driver. A process talks to one only, because cudarc looks for it once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    Installed,
    Emulated,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Self::Installed => "the installed CUDA driver",
            Self::Emulated => "the emulated device",
        }
    }
}

/// The process's driver, once one was opened.
static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

/// A device, and the stream on which everything on it happens in order.
#[derive(Debug)]
pub struct Gpu {
    stream: Arc<CudaStream>,
    form: Option<Form>,
    name: String,
    /// Shared memory that a block may have, in bytes.
    shared_bytes: u32,
    /// Compute capability.
    capability: (i32, i32),
    functions: Mutex<HashMap<(Kernel, String), CudaFunction>>,
    tuning: Tuning,
}

/// Blocks, and threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, in x and y.
    pub blocks: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
}

/// Without shared memory.
impl From<Grid> for LaunchConfig {
    fn from(grid: Grid) -> Self {
        Self { grid_dim: (grid.blocks.0, grid.blocks.1, 1), block_dim: (grid.threads, 1, 1), shared_mem_bytes: 0 }
    }
}

impl Gpu {
    /// Opens a device. Never panics for want of a driver.
    pub fn open(choice: DeviceChoice) -> Result<Self, Error> {
        let form = claim(choice)?;
        let ordinal = match (choice, form) {
            (DeviceChoice::Cuda(ordinal), _) => ordinal,
            (_, Some(form)) => form.ordinal(),
            _ => 0,
        };
        let failed = |source| Error::Driver { what: format!("opening device {ordinal}"), source };
        let context = CudaContext::new(ordinal).map_err(failed)?;
        #[expect(unsafe_code, reason = "cudarc cannot know how many streams there will be")]
        // SAFETY: all work of this device goes to one stream, where order is kept without events.
        unsafe {
            context.disable_event_tracking();
        }
        // Not the default stream, which cannot be captured into a graph.
        let stream = context.new_stream().map_err(failed)?;
        let name = context.name().map_err(failed)?;
        let most = context.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).map_err(failed)?;
        let shared_bytes = u32::try_from(most).unwrap_or(0);
        let capability = context.compute_capability().map_err(failed)?;
        let (functions, tuning) = (Mutex::default(), Tuning::default());
        Ok(Self { stream, form, name, shared_bytes, capability, functions, tuning })
    }

    /// The device's name, as its driver gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The emulated device's form; `None` on a GPU.
    pub fn form(&self) -> Option<Form> {
        self.form
    }

    /// The stream on which everything happens.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Shared memory that a block may have, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Its compute capability.
    pub fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// Whether its warpgroups multiply, as Hopper's do.
    pub fn has_warpgroups(&self) -> bool {
        self.capability == (9, 0) && (self.form.is_none() || emulated::tensor_cores() == TensorCores::Hopper)
    }

    /// The constraint `label`: that a kernel of warpgroups is launched where there are some.
    pub(crate) fn require_warpgroups(&self, label: &'static str, kernel: &Kernel) -> Result<(), Error> {
        let has_them = !kernel.is_of_warpgroups() || self.has_warpgroups();
        Ok(require(has_them, label, "tensor cores", "others", "Hopper's, for warpgroups")?)
    }

    /// A launch whose blocks have so much dynamic shared memory, if the device has it: else the constraint `label` says so.
    pub(crate) fn with_shared(&self, label: &'static str, grid: Grid, bytes: u32) -> Result<LaunchConfig, Error> {
        shared_memory::require_room(label, bytes, self.shared_bytes)?;
        Ok(LaunchConfig { shared_mem_bytes: bytes, ..grid.into() })
    }

    /// Waits until all that was launched is done.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.outcome(self.stream.synchronize(), || "waiting for the device".to_owned())
    }

    /// An entry of a kernel, ready to be launched with as much shared memory as a block may have.
    pub fn function(&self, kernel: &Kernel, entry: &str) -> Result<CudaFunction, Error> {
        self.tuning.begins(kernel, entry);
        let key = (*kernel, entry.to_owned());
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(&key) {
            return Ok(function.clone());
        }
        let image = match self.form.and_then(|form| emulated::image(kernel, form)) {
            Some(image) => image.to_vec(),
            None => self.compile(kernel, &Sources::embedded())?,
        };
        let function = self.load(kernel, image, entry)?;
        functions.insert(key, function.clone());
        Ok(function)
    }

    /// From now on, `kernel` is what `sources` say, on this device.
    pub fn replace(&self, kernel: &Kernel, sources: &Sources) -> Result<(), Error> {
        self.replace_by_image(kernel, &self.compile(kernel, sources)?)
    }

    /// From now on, `kernel` is `image` on this device: what [`emulated::compile`] made for its form.
    pub fn replace_by_image(&self, kernel: &Kernel, image: &[u8]) -> Result<(), Error> {
        for entry in kernel.entries {
            let function = self.load(kernel, image.to_vec(), entry)?;
            let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
            functions.insert((*kernel, (*entry).to_owned()), function);
        }
        Ok(())
    }

    /// From now on, where an operator would launch `kernel`, it launches `variant`, which differs in constants only; giving the
    /// kernel itself ends that.
    pub fn launch_instead(&self, kernel: &Kernel, variant: Kernel) {
        self.tuning.launch_instead(kernel, variant);
    }

    /// What an operator launches that wants `kernel`.
    pub(crate) fn launched(&self, kernel: &Kernel) -> Kernel {
        self.tuning.launched(kernel)
    }

    /// The launches of `work`, in order.
    pub fn launches(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<Vec<Launched>, Error> {
        self.tuning.tell();
        let worked = work().and_then(|()| self.synchronize());
        let launches = self.tuning.told();
        worked.map(|()| launches)
    }

    /// Begins a launch: its arguments and the launch itself follow.
    pub fn launch<'a>(&'a self, function: &'a CudaFunction) -> LaunchArgs<'a> {
        self.stream.launch_builder(function)
    }

    /// What became of a call to the driver, with what the emulated device found. `what` says what the call was for.
    pub fn outcome<T>(&self, result: Result<T, DriverError>, what: impl FnOnce() -> String) -> Result<T, Error> {
        result.map_err(|source| {
            let report = self.form.and_then(|_| emulated::take_report());
            match report {
                Some(report) => Error::Fault { what: what(), report },
                None => Error::Driver { what: what(), source },
            }
        })
    }

    fn compile(&self, kernel: &Kernel, sources: &Sources) -> Result<Vec<u8>, Error> {
        if let Some(form) = self.form {
            return emulated::compile(kernel, sources, form);
        }
        cubin::cached(kernel, sources, self.capability)
    }

    fn load(&self, kernel: &Kernel, image: Vec<u8>, entry: &str) -> Result<CudaFunction, Error> {
        let context = self.stream.context();
        let what = || format!("loading {} {entry}", kernel.label());
        let module: Arc<CudaModule> = self.outcome(context.load_module(Ptx::from_binary(image)), what)?;
        let function = self.outcome(module.load_function(entry), what)?;
        let most = i32::try_from(self.shared_bytes).unwrap_or(i32::MAX);
        let raised = function.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most);
        self.outcome(raised, what)?;
        Ok(function)
    }
}

/// Settles which driver this process talks to, and loads it. The form, if it is the emulated one.
fn claim(choice: DeviceChoice) -> Result<Option<Form>, Error> {
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let (asked, form) = match (choice, *driver) {
        (DeviceChoice::Emulated(form), _) => (Driver::Emulated, Some(form)),
        (DeviceChoice::Cuda(_), _) | (DeviceChoice::Auto, Some(Driver::Installed)) => (Driver::Installed, None),
        (DeviceChoice::Auto, None) if installed_devices().is_ok_and(|count| count > 0) => (Driver::Installed, None),
        (DeviceChoice::Auto, _) => (Driver::Emulated, Some(Form::Fast)),
    };
    if let Some(running) = *driver
        && running != asked
    {
        return Err(Error::OtherDriver { running: running.name(), asked: asked.name() });
    }
    match (asked, choice) {
        (Driver::Emulated, _) => emulated::load()?,
        (Driver::Installed, DeviceChoice::Cuda(ordinal)) => {
            let no_device = |problem| Error::NoDevice { device: format!("CUDA device {ordinal}"), problem };
            let count = installed_devices().map_err(no_device)?;
            if ordinal >= count {
                return Err(no_device(format!("the driver has {count} devices, numbered from 0")));
            }
        }
        (Driver::Installed, _) => {}
    }
    *driver = Some(asked);
    Ok(form)
}

/// How many GPUs there are that this process may open.
pub(crate) fn installed_gpus() -> usize {
    let driver = *DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    if driver == Some(Driver::Emulated) { 0 } else { installed_devices().unwrap_or(0) }
}

/// How many devices the installed CUDA driver has, without cudarc, which would settle on a driver for good.
fn installed_devices() -> Result<usize, String> {
    const NAME: &str = "libcuda.so.1";
    let problem = |error: libloading::Error| format!("no CUDA driver ({error}); install NVIDIA's driver");
    #[expect(unsafe_code, reason = "loading a library runs its constructors")]
    // SAFETY: it is the system's CUDA driver, which is made to be loaded so.
    let library = unsafe { libloading::Library::new(NAME) }.map_err(problem)?;
    #[expect(unsafe_code, reason = "a symbol has no type")]
    // SAFETY: the type is the CUDA driver interface's.
    let init = unsafe { library.get::<unsafe extern "C" fn(u32) -> c_int>("cuInit") }.map_err(problem)?;
    #[expect(unsafe_code, reason = "a symbol has no type")]
    // SAFETY: the type is the CUDA driver interface's.
    let count =
        unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDeviceGetCount") }.map_err(problem)?;
    #[expect(unsafe_code, reason = "a foreign function")]
    // SAFETY: 0 is the only value that the interface allows.
    let status = unsafe { init(0) };
    if status != 0 {
        return Err(format!(
            "the CUDA driver does not start (error {status}); is there a GPU, and may this user use it?"
        ));
    }
    let mut devices = 0;
    #[expect(unsafe_code, reason = "a foreign function")]
    // SAFETY: it writes one number, which it is given a place for.
    let status = unsafe { count(&raw mut devices) };
    // The driver may have begun threads, so it stays.
    std::mem::forget(library);
    if status == 0 {
        Ok(usize::try_from(devices).unwrap_or(0))
    } else {
        Err(format!("the CUDA driver counts no devices (error {status})"))
    }
}
