//! Faults that need kernels of their own, and kernels that only look faulty.

use ndarray::Array2;
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::kernel::{Kernel, Sources};
use optimized::report::{Fault, Report};
use optimized::tensor::Matrix;
use tests::device::{Argument, Grid, address, emulated, launch};

/// The kernels and their text.
pub(crate) const SOURCE: (Kernel, &str) = (KERNEL, include_str!("fault_kernels.cu"));

const KERNEL: Kernel = Kernel {
    op: "fault_kernels",
    entries: &[
        "deadlock",
        "divergent_collective",
        "masks_that_differ",
        "early_exit",
        "copy_that_nobody_awaits",
        "uncommitted_copy",
        "two_writers",
        "shuffle_as_a_barrier",
        "syncwarp_of_half_a_warp",
        "shared_memory_overrun",
        "misaligned_atomic",
        "global_memory_without_a_barrier",
        "variable_of_another_thread",
        "last_block_without_fences",
        "last_block",
        "syncwarp_within_half_a_warp",
        "global_memory_with_barriers",
        "named_barriers",
        "whole_warp_leaves",
    ],
    constants: &[],
};

/// 64 threads and more shared memory than they need.
const GRID: Grid = Grid { blocks: (1, 1), threads: 64, shared_bytes: 1024 };

/// The device with the kernels loaded.
fn device(form: Form) -> Gpu {
    let gpu = emulated(form);
    gpu.replace(&KERNEL, &sources()).unwrap_or_else(|error| panic!("{error}"));
    gpu
}

fn sources() -> Sources {
    Sources::embedded().with("fault_kernels.cu", SOURCE.1)
}

/// Demands the fault at the line that has the text `at`, and that it is the first one.
fn expect(result: Result<(), Error>, fault: Fault, at: &str) -> Report {
    let Err(Error::Fault { report, .. }) = result else { panic!("no {fault}, but {result:?}") };
    let line = sources().line_of("fault_kernels.cu", at).expect("the text is there once");
    assert!(report.has(fault, "fault_kernels.cu", line), "no {fault} at line {line} in\n{report}");
    assert_eq!(report.findings[0].fault, fault, "{report}");
    report
}

fn uninitialised(gpu: &Gpu) -> Matrix<i32> {
    gpu.uninitialised((1, 64)).expect("memory")
}

/// An index as the kernels have it.
fn int(i: usize) -> i32 {
    i32::try_from(i).expect("a small number")
}

/// Runs a kernel that takes only `out`, in one form.
fn run(form: Form, entry: &str) -> Result<(), Error> {
    let gpu = device(form);
    let out = uninitialised(&gpu);
    launch(&gpu, &KERNEL, entry, GRID, &[Argument::Address(address(&out))])
}

#[test]
fn threads_that_wait_for_one_another_are_named_with_their_lines() {
    for form in [Form::Fast, Form::Checked] {
        let report = expect(run(form, "deadlock"), Fault::Deadlock, "barrier_sync(1, 64);\n    } else");
        let text = report.to_string();
        assert!(text.contains("threads 0-31 of 64 wait for a named barrier at fault_kernels.cu:14"), "{text}");
        assert!(text.contains("threads 32-63 of 64 wait for a named barrier at fault_kernels.cu:16"), "{text}");
    }
}

#[test]
fn lanes_that_do_different_things_together() {
    for form in [Form::Fast, Form::Checked] {
        let at = "value = __reduce_add_sync(FULL_WARP, value);";
        expect(run(form, "divergent_collective"), Fault::DivergentCollective, at);
    }
}

#[test]
fn lanes_that_disagree_about_who_takes_part() {
    for form in [Form::Fast, Form::Checked] {
        expect(run(form, "masks_that_differ"), Fault::AbsentLane, "out[threadIdx.x] = __ballot_sync(mask, 1);");
    }
}

#[test]
fn a_thread_that_leaves_before_the_barrier() {
    for form in [Form::Fast, Form::Checked] {
        let at = "__syncthreads();\n    out[threadIdx.x] = 0;\n}\n\nextern \"C\" __global__ void copy_that";
        expect(run(form, "early_exit"), Fault::DivergentBarrier, at);
    }
}

#[test]
fn a_copy_that_is_never_waited_for() {
    for form in [Form::Fast, Form::Checked] {
        let gpu = device(form);
        let input = gpu.zeros::<i32>((1, 64)).expect("memory");
        let result = launch(&gpu, &KERNEL, "copy_that_nobody_awaits", GRID, &[Argument::Address(address(&input))]);
        let at = "cp_async16(&shared.values[4 * threadIdx.x], &in[4 * threadIdx.x], 16);\n        cp_async_commit();";
        expect(result, Fault::CopyInFlight, at);
    }
}

#[test]
fn a_wait_for_a_copy_that_was_not_committed() {
    let gpu = device(Form::Checked);
    let (input, out) = (gpu.zeros::<i32>((1, 64)).expect("memory"), uninitialised(&gpu));
    let arguments = [address(&input), address(&out)].map(Argument::Address);
    let result = launch(&gpu, &KERNEL, "uncommitted_copy", GRID, &arguments);
    let at = "out[threadIdx.x] = shared.values[threadIdx.x];\n}\n\nextern \"C\" __global__ void two_writers";
    expect(result, Fault::CopyInFlight, at);
}

#[test]
fn two_lanes_that_write_one_word() {
    let at = "shared.values[threadIdx.x / 2] = threadIdx.x;";
    expect(run(Form::Checked, "two_writers"), Fault::SharedRace, at);
}

#[test]
fn a_shuffle_orders_no_memory() {
    let at = "out[threadIdx.x] = shared.values[neighbour];";
    expect(run(Form::Checked, "shuffle_as_a_barrier"), Fault::SharedRace, at);
}

#[test]
fn a_partial_syncwarp_orders_its_lanes_only() {
    let at = "out[threadIdx.x] = shared.values[threadIdx.x & ~16];";
    expect(run(Form::Checked, "syncwarp_of_half_a_warp"), Fault::SharedRace, at);
}

#[test]
fn a_write_beyond_shared_memory() {
    let gpu = device(Form::Checked);
    let out = uninitialised(&gpu);
    let exact = Grid { shared_bytes: 256, ..GRID };
    let result = launch(&gpu, &KERNEL, "shared_memory_overrun", exact, &[Argument::Address(address(&out))]);
    let report = expect(result, Fault::OutOfBounds, "shared.values[threadIdx.x + 1] = threadIdx.x;");
    assert!(report.to_string().contains("at offset 256 of 256 bytes of shared memory"), "{report}");
}

#[test]
fn an_atomic_change_across_two_words() {
    let at = "atomicAdd(reinterpret_cast<uint32*>(reinterpret_cast<unsigned char*>(out) + 2), 1u);";
    expect(run(Form::Checked, "misaligned_atomic"), Fault::Misaligned, at);
}

#[test]
fn global_memory_is_ordered_by_barriers_too() {
    let at = "const uint32 value = out[threadIdx.x & ~1];";
    expect(run(Form::Checked, "global_memory_without_a_barrier"), Fault::GlobalRace, at);
}

#[test]
fn a_pointer_to_another_threads_variable() {
    let at = "out[threadIdx.x] = *shared.values[threadIdx.x ^ 1];";
    expect(run(Form::Checked, "variable_of_another_thread"), Fault::WildAccess, at);
}

/// Launches one of the kernels in which the last block adds up what all blocks wrote.
fn last_block(entry: &str) -> Result<i32, Error> {
    const BLOCKS: u32 = 5;
    let gpu = device(Form::Checked);
    let (partial, counter, out) = (uninitialised(&gpu), gpu.zeros::<i32>((1, 8))?, gpu.zeros::<i32>((1, 8))?);
    let arguments = [address(&partial), address(&counter), address(&out)].map(Argument::Address);
    launch(&gpu, &KERNEL, entry, Grid { blocks: (BLOCKS, 1), ..GRID }, &arguments)?;
    Ok(gpu.download(&out)?[[0, 0]])
}

#[test]
fn an_atomic_change_alone_orders_no_other_memory() {
    let result = last_block("last_block_without_fences").map(|_| ());
    let at = "sum += partial[i];\n            }\n            out[0] = sum;\n        }\n    }\n}\n\n// And";
    expect(result, Fault::GlobalRace, at);
}

#[test]
fn the_last_block_may_read_what_others_published() {
    assert_eq!(last_block("last_block").unwrap_or_else(|error| panic!("{error}")), 10);
}

#[test]
fn right_kernels_are_silent() {
    let gpu = device(Form::Checked);
    let run = |entry| {
        let out = uninitialised(&gpu);
        let result = launch(&gpu, &KERNEL, entry, GRID, &[Argument::Address(address(&out))]);
        result.and_then(|()| gpu.download(&out)).unwrap_or_else(|error| panic!("{entry}: {error}"))
    };
    let neighbours = Array2::from_shape_fn((1, 64), |(_, i)| (int(i) % 32) ^ 1);
    assert_eq!(run("syncwarp_within_half_a_warp"), neighbours);
    let across = Array2::from_shape_fn((1, 64), |(_, i)| int(i ^ 0x21));
    assert_eq!(run("global_memory_with_barriers"), across);
    let left_over = |(_, i)| if i < 32 { 0 } else { 3 + 31 - (int(i) - 32) };
    assert_eq!(run("named_barriers"), Array2::from_shape_fn((1, 64), left_over));
    assert_eq!(run("whole_warp_leaves"), Array2::from_shape_fn((1, 64), |(_, i)| i32::from(i < 32)));
}
