//! One line of a real kernel is spoiled; the checked form must say what is wrong, and at which line.

use half::bf16;
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::kernel::table::{LINEAR_64_F32, RMS_NORM};
use optimized::kernel::{Kernel, Sources};
use optimized::ops::linear::{Tiling, linear_tiled};
use optimized::ops::rms_norm::rms_norm;
use optimized::report::{Fault, Report};
use optimized::tensor::Matrix;
use reference::semantics::NormWeight;
use tests::device::{Argument, Grid, address, emulated, launch};
use tests::values::activations;

/// A one-place change of a source file.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// Does `work` with the kernel spoiled, and demands the fault at the line of `file` that has the text `at`.
fn expect(kernel: &Kernel, edit: Edit, work: fn(&Gpu) -> Result<(), Error>, fault: Fault, (file, at): (&str, &str)) {
    let gpu = emulated(Form::Checked);
    work(&gpu).expect("the kernel as it is has no fault");
    let sources = Sources::embedded().edit(edit.file, edit.from, edit.to).expect("the text is there once");
    gpu.replace(kernel, &sources).expect("the spoiled kernel compiles");
    let report = report_of(work(&gpu));
    let line = sources.line_of(file, at).expect("the text is there once");
    assert!(report.has(fault, file, line), "no {fault} at {file}:{line} in\n{report}");
}

/// The report of work that fails.
fn report_of(result: Result<(), Error>) -> Report {
    match result {
        Err(Error::Fault { report, .. }) => report,
        Err(error) => panic!("not a fault: {error}"),
        Ok(()) => panic!("nothing was found"),
    }
}

/// The norm of three rows, a bit more than a vector for each thread.
fn norm(gpu: &Gpu) -> Result<(), Error> {
    let x = gpu.upload(activations(1, (3, 2100)).view())?;
    let w = gpu.upload(activations(2, (1, 2100)).view())?;
    gpu.download(&rms_norm(gpu, &x, &w, NormWeight::Plain, 1e-6)?).map(|_| ())
}

/// A product with a partial tile in each direction, and more tiles of k than stages.
fn product(gpu: &Gpu, tiling: Tiling) -> Result<(), Error> {
    let x = gpu.upload(activations(1, (13, 600)).view())?;
    let w = gpu.upload(activations(2, (70, 600)).view())?;
    gpu.download(&linear_tiled::<f32>(gpu, tiling, &x, &w)?).map(|_| ())
}

fn tiles(gpu: &Gpu) -> Result<(), Error> {
    product(gpu, Tiling::Small)
}

fn few_rows(gpu: &Gpu) -> Result<(), Error> {
    product(gpu, Tiling::FewRows)
}

const PARTIAL_SUM: (&str, &str) = ("reduce.cuh", "sum += partial[warp];");

#[test]
fn a_missing_barrier_after_a_write() {
    let edit = Edit { file: "reduce.cuh", from: "    __syncthreads();\n", to: "" };
    expect(&RMS_NORM, edit, norm, Fault::SharedRace, PARTIAL_SUM);
}

#[test]
fn a_partial_sum_that_nobody_writes() {
    let edit = Edit { file: "reduce.cuh", from: "threadIdx.x % WARP_LANES == 0", to: "threadIdx.x == 0" };
    expect(&RMS_NORM, edit, norm, Fault::UninitialisedShared, PARTIAL_SUM);
}

#[test]
fn a_barrier_for_some_warps_only() {
    let barrier = "if (threadIdx.x < 64) __syncthreads();";
    let edit = Edit { file: "reduce.cuh", from: "__syncthreads();", to: barrier };
    expect(&RMS_NORM, edit, norm, Fault::DivergentBarrier, ("reduce.cuh", barrier));
}

#[test]
fn a_barrier_for_some_lanes_only() {
    let barrier = "if (threadIdx.x % 2 == 0) __syncthreads();";
    let edit = Edit { file: "reduce.cuh", from: "__syncthreads();", to: barrier };
    expect(&RMS_NORM, edit, norm, Fault::DivergentBarrier, ("reduce.cuh", barrier));
}

#[test]
fn a_shuffle_mask_without_the_last_lane() {
    let shuffle = "value += __shfl_xor_sync(0x7fffffff, value, lanes);";
    let edit = Edit { file: "reduce.cuh", from: "value += __shfl_xor_sync(FULL_WARP, value, lanes);", to: shuffle };
    expect(&RMS_NORM, edit, norm, Fault::AbsentLane, ("reduce.cuh", shuffle));
}

#[test]
fn a_lane_that_its_own_mask_does_not_name() {
    let edit = Edit { file: "linear.cuh", from: "__syncwarp();", to: "__syncwarp(0x7fffffff);" };
    expect(&LINEAR_64_F32, edit, few_rows, Fault::WrongMask, ("linear.cuh", "__syncwarp(0x7fffffff);"));
}

#[test]
fn a_shuffle_that_half_the_warp_misses() {
    let shuffle = "if (threadIdx.x % 32 < 16) value += __shfl_xor_sync(0xffff, value, lanes);";
    let edit = Edit { file: "reduce.cuh", from: "value += __shfl_xor_sync(FULL_WARP, value, lanes);", to: shuffle };
    expect(&RMS_NORM, edit, norm, Fault::AbsentLane, ("reduce.cuh", shuffle));
}

#[test]
fn two_blocks_that_write_one_row() {
    let edit = Edit { file: "rms_norm.cu", from: "int64(blockIdx.x) * ld", to: "int64(blockIdx.x / 2) * ld" };
    let write = ("rms.cuh", "vectors(y)[i] = pack(scaled);");
    expect(&RMS_NORM, edit, norm, Fault::GlobalRace, write);
}

/// A GPU moves sixteen bytes at a time only where they begin at a multiple of sixteen; eight are not enough.
#[test]
fn vectors_that_begin_in_the_middle() {
    let edit = Edit { file: "rms_norm.cu", from: "int64(blockIdx.x) * ld;", to: "int64(blockIdx.x) * ld + 4;" };
    let read = ("rms_norm.cu", "sum = add_squares(sum, unpack(vectors(x + row)[i]));");
    expect(&RMS_NORM, edit, norm, Fault::Misaligned, read);
}

#[test]
fn a_missing_barrier_before_a_stage_is_used_again() {
    let from = "            __syncthreads(); // the tile has arrived for all, and all are done with the one before
            begin(tile + DEPTH - 1);
";
    let to = "            begin(tile + DEPTH - 1);
            __syncthreads();
";
    let copy = ("gemm.cuh", "cp_async16(panel.vector(row, index), source.values + (bytes == 0 ? 0 : k), bytes);");
    expect(&LINEAR_64_F32, Edit { file: "gemm.cuh", from, to }, tiles, Fault::SharedRace, copy);
}

#[test]
fn a_missing_wait_for_a_copy() {
    let edit = Edit { file: "gemm.cuh", from: "            cp_async_wait<DEPTH - 2>();\n", to: "" };
    let read = ("gemm.cuh", "ldmatrix_x4(fragments, panel.vector(row + lane % 16, 2 * step + lane / 16)");
    expect(&LINEAR_64_F32, edit, tiles, Fault::CopyInFlight, read);
}

#[test]
fn a_wait_that_leaves_one_copy_too_many() {
    let edit = Edit { file: "gemm.cuh", from: "cp_async_wait<DEPTH - 2>();", to: "cp_async_wait<DEPTH - 1>();" };
    let read = ("gemm.cuh", "ldmatrix_x4(fragments, panel.vector(row + lane % 16, 2 * step + lane / 16)");
    expect(&LINEAR_64_F32, edit, tiles, Fault::CopyInFlight, read);
}

#[test]
fn a_missing_row_guard() {
    let edit = Edit { file: "gemm.cuh", from: "if (row < rows) {", to: "if (row < rows + 1) {" };
    let store = ("linear.cuh", "Out::store_pair(p.y + int64(first_row + row) * p.ldy + col, first, second);");
    expect(&LINEAR_64_F32, edit, tiles, Fault::OutOfBounds, store);
}

#[test]
fn a_weight_row_beyond_the_last() {
    let edit = Edit { file: "weights.cuh", from: "return row < rows ?", to: "return row < rows + 1 ?" };
    let copy = ("gemm.cuh", "cp_async16(panel.vector(row, index), source.values + (bytes == 0 ? 0 : k), bytes);");
    expect(&LINEAR_64_F32, edit, tiles, Fault::OutOfBounds, copy);
}

#[test]
fn a_copy_from_an_odd_address() {
    let edit = Edit { file: "gemm.cuh", from: "(bytes == 0 ? 0 : k)", to: "(bytes == 0 ? 0 : k) + 1" };
    let copy = ("gemm.cuh", "cp_async16(panel.vector(row, index), source.values + (bytes == 0 ? 0 : k) + 1, bytes);");
    expect(&LINEAR_64_F32, edit, tiles, Fault::Misaligned, copy);
}

#[test]
fn a_missing_syncwarp() {
    let edit = Edit { file: "linear.cuh", from: "__syncwarp();", to: "" };
    let read = ("gemm.cuh", "ldmatrix_x4(fragments, panel.vector(row + lane % 16, 2 * step + lane / 16)");
    expect(&LINEAR_64_F32, edit, few_rows, Fault::SharedRace, read);
}

#[test]
fn sums_that_are_read_before_all_warps_stored_theirs() {
    let edit = Edit { file: "linear.cuh", from: "    __syncthreads();\n", to: "" };
    let read = ("linear.cuh", "total += sums[chunk].values[row][i % FEW_COLS];");
    expect(&LINEAR_64_F32, edit, few_rows, Fault::UninitialisedShared, read);
}

#[test]
fn an_input_that_nothing_wrote() {
    let gpu = emulated(Form::Checked);
    let x: Matrix<bf16> = gpu.uninitialised((2, 64)).expect("memory");
    let w = gpu.zeros((1, 64)).expect("memory");
    let report = report_of(rms_norm(&gpu, &x, &w, NormWeight::Plain, 1e-6).map(|_| ()));
    assert!(report.findings.iter().all(|finding| finding.fault == Fault::UninitialisedGlobal), "{report}");
    assert_eq!(report.findings[0].places.last().expect("it has a line").file, "rms_norm.cu");
}

#[test]
fn an_output_that_nothing_wrote() {
    let gpu = emulated(Form::Checked);
    let y: Matrix<f32> = gpu.uninitialised((2, 8)).expect("memory");
    let report = report_of(gpu.download(&y).map(|_| ()));
    assert_eq!(report.findings[0].fault, Fault::UninitialisedGlobal);
    assert!(report.findings[0].text.contains("at the copy to the host: byte 0 of 64"), "{report}");
}

/// Launches `rms_norm` on three rows with a y and a grid that may be wrong.
fn norm_into(gpu: &Gpu, y: u64, shared_bytes: u32) -> Report {
    let x = gpu.upload(activations(1, (3, 64)).view()).expect("memory");
    let w = gpu.upload(activations(2, (1, 64)).view()).expect("memory");
    let grid = Grid { blocks: (3, 1), threads: 256, shared_bytes };
    let addresses = [address(&x), address(&w), y].map(Argument::Address);
    let arguments =
        [addresses.as_slice(), &[Argument::Int(64), Argument::Int(64), Argument::Float(1e-6), Argument::Float(0.0)]]
            .concat();
    report_of(launch(gpu, &RMS_NORM, "rms_norm", grid, &arguments))
}

/// Demands the fault where `rms_norm` stores y.
fn expect_at_store(report: &Report, fault: Fault) {
    let line = Sources::embedded().line_of("rms.cuh", "vectors(y)[i] = pack(scaled);").expect("the text is there once");
    assert!(report.has(fault, "rms.cuh", line), "no {fault} at rms.cuh:{line} in\n{report}");
}

#[test]
fn an_output_that_is_a_row_short() {
    let gpu = emulated(Form::Checked);
    let y: Matrix<bf16> = gpu.uninitialised((2, 64)).expect("memory");
    let report = norm_into(&gpu, address(&y), 32);
    expect_at_store(&report, Fault::OutOfBounds);
    assert!(report.to_string().contains("at offset 256 of 256 bytes"), "{report}");
}

#[test]
fn an_output_that_was_freed() {
    let gpu = emulated(Form::Checked);
    let y: Matrix<bf16> = gpu.uninitialised((3, 64)).expect("memory");
    let address = address(&y);
    drop(y);
    let report = norm_into(&gpu, address, 32);
    expect_at_store(&report, Fault::UseAfterFree);
}

#[test]
fn an_output_that_is_nowhere() {
    let report = norm_into(&emulated(Form::Checked), 0x1000, 32);
    expect_at_store(&report, Fault::WildAccess);
}

/// Both forms find it.
#[test]
fn too_little_shared_memory() {
    for form in [Form::Fast, Form::Checked] {
        let gpu = emulated(form);
        let y: Matrix<bf16> = gpu.uninitialised((3, 64)).expect("memory");
        let report = norm_into(&gpu, address(&y), 16);
        let line =
            Sources::embedded().line_of("rms_norm.cu", "SHARED_MEMORY(Shared, shared);").expect("it is there once");
        assert!(report.has(Fault::SharedTooSmall, "rms_norm.cu", line), "{report}");
    }
}

#[test]
fn a_fault_is_reported_to_the_thread_that_launched_only() {
    let gpu = emulated(Form::Checked);
    let y: Matrix<bf16> = gpu.uninitialised((2, 64)).expect("memory");
    norm_into(&gpu, address(&y), 32);
    norm(&gpu).expect("the device goes on");
    let elsewhere = std::thread::spawn(optimized::emulated::take_report);
    assert_eq!(elsewhere.join().expect("it does not panic"), None);
}
