//! What goes wrong around products of warpgroups, each by one change of a kernel that is right.

use optimized::conformance;
use optimized::device::Gpu;
use optimized::emulated::{Form, TensorCores, with_tensor_cores};
use optimized::error::Error;
use optimized::kernel::Sources;
use optimized::kernel::instructions::INSTRUCTIONS;
use optimized::kernel::table::{LINEAR_WARPGROUPS_F32, LINEAR_WARPGROUPS_F32_E4M3};
use optimized::ops::linear::{Tiling, linear_tiled};
use optimized::report::{Fault, Report};
use tests::device::{Argument, Grid, address, emulated, launch};
use tests::quantized::{SCHEMES, stored, weight};
use tests::values::activations;

const FILE: &str = "warpgroup.cuh";
const MULTIPLY: &str = "warpgroup_multiply(chunk, ";

/// Both warpgroups of a tile, more tiles of k than stages, and a second chunk.
fn product(gpu: &Gpu) -> Result<(), Error> {
    let x = gpu.upload(activations(1, (70, 700)).view())?;
    let w = gpu.upload(activations(2, (20, 700)).view())?;
    gpu.download(&linear_tiled::<f32>(gpu, Tiling::Warpgroups, &x, &w)?).map(|_| ())
}

fn report_of(result: Result<(), Error>) -> Report {
    match result {
        Err(Error::Fault { report, .. }) => report,
        other => panic!("not a fault: {other:?}"),
    }
}

/// Demands that the kernel with one change has the fault at the line of `file` that has the text `at`.
fn expect((from, to): (&str, &str), fault: Fault, (file, at): (&str, &str)) {
    let gpu = emulated(Form::Checked);
    let sources = Sources::embedded().edit(FILE, from, to).expect("the text is there once");
    gpu.replace(&LINEAR_WARPGROUPS_F32, &sources).expect("the spoiled kernel compiles");
    let report = report_of(product(&gpu));
    let line = sources.line_of(file, at).expect("the text is there once");
    assert!(report.has(fault, file, line), "no {fault} at {file}:{line} in\n{report}");
}

#[test]
fn the_kernel_as_it_is_has_no_fault() {
    for form in [Form::Fast, Form::Checked] {
        product(&emulated(form)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn copies_that_no_fence_follows() {
    expect(("fence_for_warpgroups();", ""), Fault::MissingFence, (FILE, MULTIPLY));
}

/// Panels that threads write themselves, of weights that are dequantized.
#[test]
fn stores_that_no_fence_follows() {
    let gpu = emulated(Form::Checked);
    let x = gpu.upload(activations(1, (70, 700)).view()).expect("memory");
    let w = stored(&gpu, &[weight(2, (20, 700), SCHEMES[0], 0)]);
    let run = || linear_tiled::<f32>(&gpu, Tiling::Warpgroups, &x, &w).and_then(|y| gpu.download(&y)).map(|_| ());
    run().unwrap_or_else(|error| panic!("{error}"));
    let early = "const Panel<COLS>& right = w.arrived(shared.w, tile);\n                fence_for_warpgroups();";
    let late = "fence_for_warpgroups();\n                const Panel<COLS>& right = w.arrived(shared.w, tile);";
    let sources = Sources::embedded().edit(FILE, early, late).expect("the text is there once");
    gpu.replace(&LINEAR_WARPGROUPS_F32_E4M3, &sources).expect("it compiles");
    let report = report_of(run());
    let line = sources.line_of(FILE, MULTIPLY).expect("the text is there once");
    assert!(report.has(Fault::MissingFence, FILE, line), "{report}");
    assert!(report.to_string().contains("wrote at weights.cuh:"), "{report}");
}

#[test]
fn a_stage_that_is_filled_while_it_is_multiplied() {
    let copy = ("gemm.cuh", "cp_async16(panel.vector(row, index), source.values");
    expect(("AHEAD = DEPTH - 2;", "AHEAD = DEPTH - 1;"), Fault::ProductInFlight, copy);
}

#[test]
fn sums_that_are_touched_before_the_wait() {
    let close = "warpgroup_finish(chunk);\n            close_chunk(total, chunk);";
    let early = "close_chunk(total, chunk);\n            warpgroup_finish(chunk);";
    expect((close, early), Fault::ProductInFlight, (FILE, "warpgroup_finish(chunk);"));
}

#[test]
fn sums_that_change_after_they_were_handed_over() {
    let begin = "warpgroup_begin(chunk);\n";
    let changed = "warpgroup_begin(chunk);\n        if (threadIdx.x == 7) chunk[0][3][1] += 1.f;\n";
    expect((begin, changed), Fault::MissingFence, (FILE, MULTIPLY));
}

#[test]
fn a_factor_that_begins_between_eight_rows() {
    let from = "warpgroup_multiply(chunk, &left.values[row]";
    expect((from, "warpgroup_multiply(chunk, &left.values[row + 1]"), Fault::Misaligned, (FILE, MULTIPLY));
    let from = "&right.values[0][step * K_STEP]";
    expect((from, "&right.values[0][step * K_STEP + 8]"), Fault::Misaligned, (FILE, MULTIPLY));
}

#[test]
fn a_factor_that_ends_beyond_shared_memory() {
    let from = "&right.values[0][step * K_STEP]";
    let beyond = "&(&right)[5].values[0][step * K_STEP]";
    expect((from, beyond), Fault::OutOfBounds, (FILE, MULTIPLY));
}

#[test]
fn warps_of_one_warpgroup_with_other_products() {
    let (from, to) = ("Base::warp_row() / 64 * 64", "Base::warp_row() / 32 * 32");
    expect((from, to), Fault::DivergentCollective, (FILE, MULTIPLY));
}

/// Launches the product of one warpgroup alone.
fn one_product(threads: u32) -> Result<(), Error> {
    let gpu = emulated(Form::Checked);
    conformance::load(&gpu)?;
    let (a, b) = (gpu.upload(activations(1, (64, 16)).view())?, gpu.upload(activations(2, (128, 16)).view())?);
    let c = gpu.zeros::<f32>((64, 128))?;
    let grid = Grid { blocks: (1, 1), threads, shared_bytes: 24 << 10 };
    let arguments = [address(&a), address(&b), address(&c)].map(Argument::Address);
    launch(&gpu, &INSTRUCTIONS, "multiply_by_warpgroup", grid, &arguments)
}

#[test]
fn half_a_warpgroup_and_a_device_without_any() {
    one_product(128).unwrap_or_else(|error| panic!("{error}"));
    let faults = |result| report_of(result).findings.iter().map(|finding| finding.fault).collect::<Vec<_>>();
    assert!(faults(one_product(64)).contains(&Fault::AbsentLane));
    let on_ada = with_tensor_cores(TensorCores::Ada, || one_product(128));
    assert_eq!(faults(on_ada), [Fault::NotOnThisDevice]);
    let refused = with_tensor_cores(TensorCores::Ada, || product(&emulated(Form::Fast))).expect_err("Ada has none");
    assert_eq!(refused.to_string(), "linear K9: tensor cores = others, expected Hopper's, for warpgroups");
}
