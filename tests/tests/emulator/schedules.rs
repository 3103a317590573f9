//! No result depends on the order in which threads and blocks run; where one does, some schedule shows it.

use half::bf16;
use optimized::device::Gpu;
use optimized::emulated::{Form, Schedule, with_schedule};
use optimized::error::Error;
use optimized::kernel::table::{LINEAR_64_F32, RMS_NORM};
use optimized::kernel::{Kernel, Sources};
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::linear::linear_tiled;
use optimized::ops::rms_norm::rms_norm;
use optimized::tensor::Matrix;
use reference::semantics::NormWeight;
use tests::cuts::tilings;
use tests::device::emulated;
use tests::values::activations;

const SCHEDULES: [Schedule; 6] = [
    Schedule::Forward,
    Schedule::Reverse,
    Schedule::Adversarial(1),
    Schedule::Adversarial(2),
    Schedule::Adversarial(3),
    Schedule::Adversarial(4),
];

/// The bits of what every kernel computes from the same inputs.
fn results(gpu: &Gpu) -> Result<Vec<Vec<u32>>, Error> {
    let x = gpu.upload(activations(1, (13, 1100)).view())?;
    let f = gpu.upload(activations(2, (13, 1100)).view())?;
    let w = gpu.upload(activations(3, (1, 1100)).view())?;
    let matrix = gpu.upload(activations(4, (150, 1100)).view())?;
    let bits = |y: &Matrix<bf16>| Ok::<_, Error>(gpu.download(y)?.iter().map(|y| u32::from(y.to_bits())).collect());
    let (s, y) = add_rms_norm(gpu, &x, &f, &w, NormWeight::Plain, 1e-6)?;
    let mut all = vec![bits(&rms_norm(gpu, &x, &w, NormWeight::Plain, 1e-6)?)?, bits(&s)?, bits(&y)?];
    for tiling in tilings(gpu, 13) {
        all.push(bits(&linear_tiled(gpu, tiling, &x, &matrix)?)?);
        let y = gpu.download(&linear_tiled::<f32>(gpu, tiling, &x, &matrix)?)?;
        all.push(y.iter().map(|y| y.to_bits()).collect());
    }
    Ok(all)
}

#[test]
fn every_schedule_gives_the_same_bits() {
    let first = results(&emulated(Form::Fast)).unwrap_or_else(|error| panic!("{error}"));
    for gpu in [Form::Fast, Form::Checked].map(emulated) {
        for schedule in SCHEDULES {
            let got = with_schedule(schedule, || results(&gpu)).unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
            assert_eq!(got, first, "{} {schedule:?}", gpu.name());
        }
    }
}

/// Which schedules show in the fast form, by a wrong result or a fault, that a line of a kernel is spoiled.
fn exposing(kernel: &Kernel, file: &str, from: &str, to: &str) -> Vec<Schedule> {
    let gpu = emulated(Form::Fast);
    let right = results(&gpu).expect("the kernels as they are have no fault");
    let sources = Sources::embedded().edit(file, from, to).expect("the text is there once");
    gpu.replace(kernel, &sources).expect("the spoiled kernel compiles");
    let differs = |schedule: &Schedule| with_schedule(*schedule, || results(&gpu)).ok().as_ref() != Some(&right);
    SCHEDULES.into_iter().filter(differs).collect()
}

#[test]
fn a_missing_barrier_after_a_write_is_exposed() {
    assert_ne!(exposing(&RMS_NORM, "reduce.cuh", "    __syncthreads();\n", ""), []);
}

#[test]
fn a_missing_wait_is_exposed() {
    assert_ne!(exposing(&LINEAR_64_F32, "gemm.cuh", "            cp_async_wait<DEPTH - 2>();\n", ""), []);
}

#[test]
fn a_missing_barrier_before_a_stage_is_used_again_is_exposed() {
    let from = "            __syncthreads(); // the tile has arrived for all, and all are done with the one before
            begin(tile + DEPTH - 1);
";
    let to = "            begin(tile + DEPTH - 1);
            __syncthreads();
";
    assert_ne!(exposing(&LINEAR_64_F32, "gemm.cuh", from, to), []);
}

#[test]
fn sums_that_are_read_too_early_are_exposed() {
    assert_ne!(exposing(&LINEAR_64_F32, "linear.cuh", "    __syncthreads();\n", ""), []);
}
