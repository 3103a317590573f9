//! Every kernel compiles for every GPU.

use std::env;

use optimized::error::Error;
use optimized::kernel::Sources;
use optimized::kernel::table::KERNELS;
use optimized::nvrtc::Nvrtc;

/// Ampere, Hopper, and Hopper with its own instructions.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_90a"];

/// Where NVRTC is installed: set `PARITY_NVRTC` to its folder. With `PARITY_REQUIRE_NVRTC=1` it has to be there.
#[test]
#[expect(clippy::print_stdout, reason = "what could not be done is said")]
fn kernels_compile_for_every_gpu_without_spilling() {
    let nvrtc = match Nvrtc::find(None) {
        Ok(nvrtc) => nvrtc,
        Err(missing @ Error::NoNvrtc { .. }) if env::var("PARITY_REQUIRE_NVRTC").is_err() => {
            println!("{} kernels were not compiled for {ARCHITECTURES:?}: {missing}", KERNELS.len());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let sources = Sources::embedded();
    for kernel in KERNELS {
        for architecture in ARCHITECTURES {
            let compiled = nvrtc.compile(kernel, &sources, architecture).unwrap_or_else(|error| panic!("{error}"));
            assert!(!compiled.cubin.is_empty(), "{} for {architecture} has no cubin", kernel.label());
            for entry in kernel.entries {
                let of_entry = compiled.resources.iter().find(|resources| resources.entry == *entry);
                let needs = of_entry.unwrap_or_else(|| panic!("{entry} is not in the log:\n{}", compiled.log));
                assert_eq!(needs.spilled_bytes, 0, "{} {entry} spills for {architecture}", kernel.label());
                assert_eq!(needs.shared_bytes, 0, "{} {entry} has static shared memory", kernel.label());
            }
        }
    }
}
