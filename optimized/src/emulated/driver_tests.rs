//! The emulated driver, as unmodified cudarc drives it.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUlimit, CUresult, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use half::bf16;

use super::{Form, image};
use crate::device::{DeviceChoice, Gpu};
use crate::kernel::table::RMS_NORM;

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const WIDTH: usize = 64;

/// A device with the kernel `rms_norm` and one row of ones, for it and its weight.
struct Setup {
    stream: Arc<CudaStream>,
    function: CudaFunction,
    ones: CudaSlice<bf16>,
}

impl Setup {
    fn new(form: Form) -> Self {
        let gpu = Gpu::open(DeviceChoice::Emulated(form)).expect("the emulated device is always there");
        let stream = gpu.stream().clone();
        let ones = stream.clone_htod(&[bf16::ONE; WIDTH]).expect("memory");
        let function = gpu.function(&RMS_NORM, "rms_norm").expect("it is embedded");
        Self { stream, function, ones }
    }

    fn launch(&self, y: &mut CudaSlice<bf16>, grid: LaunchConfig) -> Result<(), DriverError> {
        let width = i32::try_from(WIDTH).expect("a small number");
        let mut launch = self.stream.launch_builder(&self.function);
        launch.arg(&self.ones).arg(&self.ones).arg(y).arg(&width).arg(&width).arg(&0.0_f32).arg(&0.0_f32);
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: the arguments are what the kernel requires; a grid that is not is refused.
        unsafe { launch.launch(grid) }.map(|_| ())
    }

    fn memory(&self) -> CudaSlice<bf16> {
        self.stream.alloc_zeros(WIDTH).expect("memory")
    }

    fn values(&self, y: &CudaSlice<bf16>) -> Vec<bf16> {
        self.stream.clone_dtoh(y).expect("it was written")
    }
}

const GRID: LaunchConfig = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 32 };

fn status<T>(result: Result<T, DriverError>) -> CUresult {
    result.map_or_else(|error| error.0, |_| CUresult::CUDA_SUCCESS)
}

#[test]
fn it_is_an_h200_in_two_forms() {
    for form in [Form::Fast, Form::Checked] {
        let gpu = Gpu::open(DeviceChoice::Emulated(form)).expect("the emulated device is always there");
        let context = gpu.stream().context();
        let attribute = |which| context.attribute(which).expect("every attribute has a value");
        assert_eq!(context.compute_capability(), Ok((9, 0)));
        assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
        assert_eq!(attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 227 << 10);
        assert_eq!(
            gpu.name(),
            format!("emulated device, {} form", if form == Form::Fast { "fast" } else { "checked" })
        );
        assert_eq!(gpu.form(), Some(form));
    }
    let counting = Gpu::open(DeviceChoice::Emulated(Form::Counting)).expect("the emulated device is always there");
    assert_eq!(counting.name(), "emulated device, counting form");
    assert_eq!(CudaContext::device_count(), Ok(3));
}

/// Nothing runs while a graph is captured; replaying runs it with the arguments that it was captured with.
#[test]
fn a_graph_is_captured_and_replayed() {
    for form in [Form::Fast, Form::Checked] {
        let setup = Setup::new(form);
        let mut y = setup.memory();
        setup.stream.begin_capture(RELAXED).expect("the stream is not the default stream");
        setup.launch(&mut y, GRID).expect("the launch is kept");
        let none = CUgraphInstantiate_flags(0);
        let graph = setup.stream.end_capture(none).expect("capturing").expect("it has one launch");
        assert_eq!(setup.values(&y), [bf16::ZERO; WIDTH]);
        for _ in 0..2 {
            graph.launch().expect("the kernel has no fault");
            assert_eq!(setup.values(&y), [bf16::ONE; WIDTH]);
            setup.stream.memset_zeros(&mut y).expect("it is memory");
        }
    }
}

/// What is allocated and freed while a graph is captured is the graph's, in each replay.
#[test]
fn a_graph_has_memory_of_its_own() {
    let setup = Setup::new(Form::Fast);
    let mut kept = setup.memory();
    setup.stream.begin_capture(RELAXED).expect("the stream is not the default stream");
    let mut own = setup.memory();
    setup.launch(&mut own, GRID).expect("the launch is kept");
    setup.stream.memcpy_dtod(&own, &mut kept).expect("both are memory");
    drop(own);
    let graph = setup.stream.end_capture(CUgraphInstantiate_flags(0)).expect("capturing").expect("it has a launch");
    let others: Vec<_> = (0..8).map(|_| setup.memory()).collect();
    for _ in 0..2 {
        graph.launch().expect("the memory is there");
        assert_eq!(setup.values(&kept), [bf16::ONE; WIDTH]);
        assert!(others.iter().all(|other| setup.values(other) == [bf16::ZERO; WIDTH]));
        setup.stream.memset_zeros(&mut kept).expect("it is memory");
    }
}

#[test]
fn capturing_excludes_waiting() {
    let setup = Setup::new(Form::Fast);
    setup.stream.begin_capture(RELAXED).expect("the stream is not the default stream");
    let refused = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_eq!(status(setup.stream.synchronize()), refused);
    setup.stream.end_capture(CUgraphInstantiate_flags(0)).expect("capturing");
    assert_eq!(status(setup.stream.synchronize()), CUresult::CUDA_SUCCESS);
}

#[test]
fn launches_that_no_gpu_takes_are_refused() {
    let setup = Setup::new(Form::Fast);
    let mut y = setup.memory();
    let most_shared = 227 << 10;
    let impossible = [
        LaunchConfig { grid_dim: (0, 1, 1), ..GRID },
        LaunchConfig { grid_dim: (1, 65_536, 1), ..GRID },
        LaunchConfig { block_dim: (0, 1, 1), ..GRID },
        LaunchConfig { block_dim: (1025, 1, 1), ..GRID },
        LaunchConfig { block_dim: (1, 1, 65), ..GRID },
        LaunchConfig { shared_mem_bytes: most_shared + 1, ..GRID },
    ];
    for grid in impossible {
        assert_eq!(status(setup.launch(&mut y, grid)), CUresult::CUDA_ERROR_INVALID_VALUE, "{grid:?}");
    }
    setup
        .launch(&mut y, LaunchConfig { shared_mem_bytes: most_shared, ..GRID })
        .expect("the function asked for as much");
    let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    setup.function.set_attribute(attribute, 48 << 10).expect("less than before");
    assert_eq!(
        status(setup.launch(&mut y, LaunchConfig { shared_mem_bytes: (48 << 10) + 1, ..GRID })),
        CUresult::CUDA_ERROR_INVALID_VALUE
    );
}

#[test]
fn images_are_of_one_form_and_functions_have_names() {
    let gpu = Gpu::open(DeviceChoice::Emulated(Form::Fast)).expect("the emulated device is always there");
    let context = gpu.stream().context();
    let load = |bytes: &[u8]| context.load_module(Ptx::from_binary(bytes.to_vec()));
    let other_form = image(&RMS_NORM, Form::Checked).expect("it is embedded");
    assert_eq!(status(load(other_form)), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_eq!(status(load(&[0; 64])), CUresult::CUDA_ERROR_INVALID_IMAGE);
    let module = load(image(&RMS_NORM, Form::Fast).expect("it is embedded")).expect("it is for this device");
    assert_eq!(status(module.load_function("rms_norms")), CUresult::CUDA_ERROR_NOT_FOUND);
}

/// A module that follows an unloaded one may get the same file descriptor, and still is another module.
#[test]
fn modules_are_loaded_anew() {
    for _ in 0..3 {
        for form in [Form::Fast, Form::Checked] {
            let setup = Setup::new(form);
            let mut y = setup.memory();
            setup.launch(&mut y, GRID).expect("the kernel has no fault");
            assert_eq!(setup.values(&y), [bf16::ONE; WIDTH]);
        }
    }
}

#[test]
fn copies_stay_inside_memory_and_keep_what_is_uninitialised() {
    let setup = Setup::new(Form::Checked);
    let stream = &setup.stream;
    #[expect(unsafe_code, reason = "memory that holds anything")]
    // SAFETY: any bits are an f32.
    let unwritten = unsafe { stream.alloc::<f32>(4) }.expect("memory");
    let mut copy = stream.alloc_zeros::<f32>(4).expect("memory");
    stream.memcpy_dtod(&unwritten, &mut copy).expect("both are memory");
    assert_eq!(status(stream.clone_dtoh(&copy)), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    let report = super::take_report().expect("there is a finding");
    assert!(report.to_string().contains("byte 0 of 16, which nothing has written"), "{report}");
    stream.memset_zeros(&mut copy).expect("it is memory");
    assert_eq!(stream.clone_dtoh(&copy), Ok(vec![0.0; 4]));

    let address = copy.leak();
    #[expect(unsafe_code, reason = "a length that is not the memory's")]
    // SAFETY: the device refuses what goes beyond its memory.
    let longer = unsafe { stream.upgrade_device_ptr::<f32>(address, 5) };
    assert_eq!(status(stream.clone_dtoh(&longer)), CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn events_measure_time_if_they_are_asked_to() {
    let setup = Setup::new(Form::Fast);
    let record = |flags| setup.stream.record_event(Some(flags)).expect("the stream runs");
    let (start, end) = (record(CUevent_flags::CU_EVENT_DEFAULT), record(CUevent_flags::CU_EVENT_DEFAULT));
    assert!(start.elapsed_ms(&end).expect("both have the time") >= 0.0);
    assert!(start.is_complete());
    let without = record(CUevent_flags::CU_EVENT_DISABLE_TIMING);
    assert_eq!(status(start.elapsed_ms(&without)), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn what_the_device_does_not_offer_it_says() {
    let gpu = Gpu::open(DeviceChoice::Emulated(Form::Fast)).expect("the emulated device is always there");
    let refused = gpu.stream().context().set_limit(CUlimit::CU_LIMIT_STACK_SIZE, 1024);
    assert_eq!(status(refused), CUresult::CUDA_ERROR_NOT_SUPPORTED);
}

/// Without a GPU there is no CUDA device, and the process goes on with the emulated one.
#[test]
fn a_gpu_that_is_not_there_is_an_error() {
    let _emulated = Gpu::open(DeviceChoice::Emulated(Form::Fast)).expect("the emulated device is always there");
    let error = Gpu::open(DeviceChoice::Cuda(0)).expect_err("this process drives the emulated device");
    assert!(error.to_string().contains("drives the emulated device already"), "{error}");
    assert!(Gpu::open(DeviceChoice::Auto).expect("it is open").form().is_some());
}
