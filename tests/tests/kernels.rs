//! Every kernel compiles for every GPU: for Ampere, of those that heads' channels alone tell apart the narrowest and the widest.

use optimized::kernel::table::KERNELS;
use optimized::kernel::{Kernel, Sources};
use optimized::nvrtc::{Compiled, Nvrtc};
use tests::compiler::nvrtc;

use crate::emulator::{conformance, counts, fault_kernels, mma};
use crate::kernel_faults::extremes;

mod shared_memory;

const AMPERE: &str = "sm_80";
/// With its own instructions, for which its images are made; without them, which no kernel has in its source, it is compiled to the same.
const HOPPER: &str = "sm_90a";

/// Compiles a kernel for some architectures.
fn compile(nvrtc: Nvrtc, kernel: &Kernel, sources: &Sources, architectures: &[&str]) -> Vec<Compiled> {
    let compile = |architecture| {
        let compiled = nvrtc.compile(kernel, sources, architecture).unwrap_or_else(|error| panic!("{error}"));
        assert!(!compiled.cubin.is_empty(), "{} for {architecture} has no cubin", kernel.label());
        compiled
    };
    let has_it = |architecture: &&str| !kernel.is_of_warpgroups() || *architecture == HOPPER;
    architectures.iter().copied().filter(has_it).map(compile).collect()
}

#[test]
fn kernels_compile_for_every_gpu_without_spilling() {
    let nvrtc = nvrtc();
    for kernel in KERNELS {
        let is_extreme = extremes().any(|extreme| extreme == kernel);
        let architectures: &[&str] = if is_extreme { &[AMPERE, HOPPER] } else { &[HOPPER] };
        for compiled in compile(nvrtc, kernel, &Sources::embedded(), architectures) {
            for entry in kernel.entries {
                let of_entry = compiled.resources.iter().find(|resources| resources.entry == *entry);
                let needs = of_entry.unwrap_or_else(|| panic!("{entry} is not in the log:\n{}", compiled.log));
                assert_eq!(needs.spilled_bytes, 0, "{} {entry} spills:\n{}", kernel.label(), compiled.log);
                assert_eq!(needs.shared_bytes, 0, "{} {entry} has static shared memory", kernel.label());
            }
            // What ptxas says where it makes products of warpgroups wait for one another.
            for code in ["C7508", "C7510", "C7514"] {
                assert!(!compiled.log.contains(code), "{}:\n{}", kernel.label(), compiled.log);
            }
        }
    }
}

/// They use all that `simt.cuh` offers, and are the first ones to be run on a GPU.
#[test]
fn the_tests_own_kernels_compile_too() {
    let nvrtc = nvrtc();
    let of_mma = mma::KERNELS.map(|kernel| (kernel, mma::SOURCE));
    for (kernel, source) in [conformance::SOURCE, counts::SOURCE, fault_kernels::SOURCE, of_mma[0], of_mma[1]] {
        compile(nvrtc, &kernel, &Sources::embedded().with(&kernel.file(), source), &[AMPERE, HOPPER]);
    }
    // Ampere multiplies no E4M3.
    let (kernel, source) = of_mma[2];
    for architecture in ["sm_89", HOPPER] {
        let sources = Sources::embedded().with(&kernel.file(), source);
        nvrtc.compile(&kernel, &sources, architecture).unwrap_or_else(|error| panic!("{error}"));
    }
}
