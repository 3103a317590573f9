//! Each kernel keeps order among its threads by as much as it needs, and by no more.
//!
//! Every statement that orders threads or copies is taken out of every kernel in turn, and the emulated device must
//! find fault with what is left. So each kernel has an exercise that needs each of them, none is superfluous, and the
//! checker sees them all. A kernel is compiled once, and any of them is left out of what was compiled.

mod guarded;
mod statements;

use std::collections::BTreeSet;

use guarded::Guarded;
use optimized::device::Gpu;
use optimized::emulated::{Form, Schedule, with_schedule};
use optimized::error::Error;
use optimized::kernel::table::{KERNELS, RMS_NORM, ROUTER};
use optimized::kernel::{Kernel, Sources};
use optimized::report::Report;
use rayon::prelude::*;
use statements::{ORDERING, Statement, files_of, statements_of};
use tests::device::emulated;
use tests::exercise::exercise;

const SCHEDULES: [Schedule; 6] = [
    Schedule::Forward,
    Schedule::Reverse,
    Schedule::Adversarial(1),
    Schedule::Adversarial(2),
    Schedule::Adversarial(3),
    Schedule::Adversarial(4),
];

/// Whether a finding is at a line of one of `files`.
fn blames(report: &Report, files: &BTreeSet<String>) -> bool {
    report.findings.iter().flat_map(|finding| &finding.places).any(|place| files.contains(&place.file))
}

/// Why a kernel runs no statement of a file that orders anything.
fn excuse(kernel: &Kernel, file: &str) -> Option<&'static str> {
    let is_for_few_rows = || kernel.entries.iter().any(|entry| entry.ends_with("few_rows"));
    match file {
        "gemm.cuh" if kernel.is_of_warpgroups() => Some("warps multiply so, and warpgroups otherwise"),
        "warpgroup.cuh" if !kernel.is_of_warpgroups() => Some("warpgroups multiply so, and warps otherwise"),
        "linear.cuh" if !is_for_few_rows() => {
            Some("they are of few rows, for which the kernels of small tiles are launched")
        }
        "reduce.cuh" if *kernel == ROUTER => Some("it is block_sum's, and the router sums over warps only"),
        _ => None,
    }
}

/// What the checked form makes of a kernel of which a statement is left out, or none.
fn outcome(guarded: &Guarded, left_out: Option<&Statement>) -> Result<Vec<u64>, Error> {
    let gpu = emulated(Form::Checked);
    gpu.replace_by_image(&guarded.kernel, &guarded.without(left_out)).unwrap_or_else(|error| panic!("{error}"));
    exercise(&gpu, &guarded.kernel)
}

/// What is wrong with a statement; `None` if the kernel needs it, and the emulated device sees that it does.
fn complaint(sources: &Sources, guarded: &Guarded, statement: &Statement) -> Option<String> {
    let kernel = &guarded.kernel;
    let excuse = excuse(kernel, &statement.file);
    let problem = match (outcome(guarded, Some(statement)), excuse) {
        (Err(Error::Fault { report, .. }), None) if blames(&report, &files_of(kernel, sources)) => return None,
        (Ok(_), Some(_)) => return None,
        (Ok(_), None) => "remove it for good, or give the kernel an exercise that needs it".to_owned(),
        (Err(_), Some(reason)) => format!("it is needed: it has no excuse, although it is said that {reason}"),
        (Err(error), None) => format!("the fault is found elsewhere: {error}"),
    };
    let Statement { file, line, text } = statement;
    Some(format!("{} without {file}:{line}, `{text}`: {problem}", kernel.label()))
}

/// All kernels, but of those that heads' channels alone tell apart the narrowest and the widest: between them, loops have other
/// lengths, and nothing else.
pub(super) fn extremes() -> impl Iterator<Item = &'static Kernel> {
    let is_by_channels = |kernel: &Kernel| kernel.constants.iter().any(|(name, _)| *name == "D");
    let widths =
        |op: &'static str| KERNELS.iter().filter(move |kernel| kernel.op == op).map(|kernel| kernel.constant("D"));
    KERNELS.iter().filter(move |kernel| {
        let is_extreme = || {
            let of = [widths(kernel.op).min(), widths(kernel.op).max()];
            of.contains(&Some(kernel.constant("D")))
        };
        !is_by_channels(kernel) || is_extreme()
    })
}

/// Whether the type of its output alone tells a kernel from one before it: what orders its threads is the same.
fn is_of_another_output(kernel: &Kernel) -> bool {
    let others = |kernel: &Kernel| -> Vec<(&str, u32)> {
        kernel.constants.iter().copied().filter(|(name, _)| *name != "OUT").collect()
    };
    let before = KERNELS.iter().take_while(|before| *before != kernel);
    before.into_iter().any(|before| before.op == kernel.op && others(before) == others(kernel))
}

#[test]
fn each_statement_that_orders_something_is_needed() {
    let sources = Sources::embedded();
    let is_ordered = |kernel: &&Kernel| !statements_of(kernel, &sources).is_empty();
    let kernels: Vec<&Kernel> = extremes().filter(|kernel| !is_of_another_output(kernel)).filter(is_ordered).collect();
    let complaints_of = |kernel: &&Kernel| -> Vec<Option<String>> {
        let guarded = Guarded::compile(kernel, &sources);
        if let Err(error) = outcome(&guarded, None) {
            panic!("{}, nothing left out: {error}", kernel.label());
        }
        guarded.statements.par_iter().map(|statement| complaint(&sources, &guarded, statement)).collect()
    };
    let tried: Vec<Option<String>> = kernels.par_iter().flat_map_iter(complaints_of).collect();
    let complaints: Vec<&str> = tried.iter().flatten().map(String::as_str).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(tried.len() > KERNELS.len());
}

/// What orders threads in a way that is not tried here would be needed for nothing.
#[test]
fn no_statement_that_orders_something_is_overlooked() {
    let words = [
        "__syncthreads(",
        "__syncwarp(",
        "cp_async_wait<",
        "cp_async_commit(",
        "barrier_sync(",
        "__threadfence",
        "fence_for_warpgroups(",
        "warpgroup_begin(",
        "warpgroup_commit(",
        "warpgroup_wait<",
        "warpgroup_finish(",
    ];
    let sources = Sources::embedded();
    let headers_of_the_device = ["simt.cuh", "simt_host.h", "simt_host_instructions.h", "interface.h"];
    for (file, text) in sources.files().filter(|(file, _)| !headers_of_the_device.contains(file)) {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            let orders = words.iter().any(|word| line.contains(word));
            let is_tried = ORDERING.iter().any(|beginning| line.starts_with(beginning));
            assert!(!orders || is_tried, "{file}: `{line}` is not tried: one statement a line, or name it in ORDERING");
        }
    }
}

/// As they are, kernels are silent, and every schedule and form gives the same bits.
#[test]
fn kernels_are_silent_and_alike_in_every_schedule() {
    let kernels: Vec<&Kernel> = extremes().collect();
    kernels.par_iter().for_each(|kernel| {
        let run = |gpu: &Gpu, schedule| {
            let bits = with_schedule(schedule, || exercise(gpu, kernel));
            bits.unwrap_or_else(|error| panic!("{} {schedule:?}: {error}", kernel.label()))
        };
        let right = run(&emulated(Form::Fast), Schedule::Forward);
        for gpu in [Form::Fast, Form::Checked].map(emulated) {
            for schedule in SCHEDULES {
                assert!(run(&gpu, schedule) == right, "{} {} {schedule:?}", kernel.label(), gpu.name());
            }
        }
    });
}

/// A barrier too many is named: the sum over the block ends in one already.
#[test]
fn a_statement_that_nothing_needs_is_named() {
    let after = "    const float r = rsqrtf(";
    let sources = Sources::embedded().edit("rms_norm.cu", after, &format!("    __syncthreads();\n{after}"));
    let sources = sources.expect("the text is there once");
    let guarded = Guarded::compile(&RMS_NORM, &sources);
    let statements = &guarded.statements;
    let [added] = statements.iter().filter(|it| it.file == "rms_norm.cu").collect::<Vec<_>>()[..] else {
        panic!("{statements:?}");
    };
    let complaint = complaint(&sources, &guarded, added).expect("nothing needs it");
    assert!(
        complaint.ends_with("`__syncthreads();`: remove it for good, or give the kernel an exercise that needs it")
    );
}
