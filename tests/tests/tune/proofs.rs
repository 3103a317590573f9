//! Candidates are proved: kernels as they are give their twins' bits, and what is wrong or races does not.

use optimized::emulated::{Form, Schedule, with_schedule};
use optimized::error::Error;
use optimized::kernel::table::{
    DENSE_FFN_16, DENSE_FFN_64, EMBEDDING, LINEAR_64_BF16, LINEAR_128_BF16, MOE_16, MOE_64, RMS_NORM, ROUTER, SAMPLING,
};
use optimized::kernel::{Kernel, Sources};
use tests::device::{emulated, emulated_devices};
use tools::tune::prove::{NoTrial, trial};

const PROVED: [Kernel; 9] =
    [EMBEDDING, SAMPLING, ROUTER, LINEAR_64_BF16, LINEAR_128_BF16, DENSE_FFN_16, DENSE_FFN_64, MOE_16, MOE_64];

#[test]
fn kernels_as_they_are_give_their_twins_bits() {
    for gpu in emulated_devices() {
        for kernel in PROVED {
            let trial = trial(&gpu, &kernel, &kernel).expect("there is a proof");
            let trial = trial.unwrap_or_else(|error| panic!("{}: {error}", kernel.label()));
            assert!(trial.got.len() > 10, "{}", kernel.label());
            assert_eq!(trial.difference(), None, "{} on {}", kernel.label(), gpu.name());
        }
    }
}

#[test]
fn other_constants_give_the_same_bits() {
    let gpu = emulated(Form::Checked);
    let variants = [
        (SAMPLING, "THREADS", 128),
        (EMBEDDING, "THREADS", 512),
        (ROUTER, "FEW_WARPS", 4),
        (ROUTER, "BLOCK_TOKENS", 2),
    ];
    for (kernel, constant, value) in variants {
        let variant = kernel.with(constant, value).expect("it has it");
        gpu.launch_instead(&kernel, variant);
        let trial = trial(&gpu, &kernel, &variant).expect("there is a proof");
        assert_eq!(trial.unwrap_or_else(|error| panic!("{error}")).difference(), None, "{}", variant.label());
        gpu.launch_instead(&kernel, kernel);
    }
}

/// A candidate that looks at every second vector of logits only.
#[test]
fn a_candidate_with_other_bits_is_told() {
    let gpu = emulated(Form::Checked);
    let variant = SAMPLING.with("THREADS", 128).expect("it has threads");
    let wrong = Sources::embedded().edit("sampling.cu", "+ threadIdx.x) * VECTOR;", "+ threadIdx.x / 2 * 2) * VECTOR;");
    gpu.replace(&variant, &wrong.expect("the text is there")).expect("it compiles");
    gpu.launch_instead(&SAMPLING, variant);
    let trial = trial(&gpu, &SAMPLING, &variant).expect("there is a proof").expect("it runs");
    assert!(trial.difference().is_some_and(|told| told.contains("not the exact twin's")));
}

/// A candidate without a barrier may give the right bits, and is found by its race.
#[test]
fn a_candidate_that_races_is_told() {
    let gpu = emulated(Form::Checked);
    let variant = SAMPLING.with("THREADS", 512).expect("it has threads");
    let barrier = "    shared[threadIdx.x] = mine;\n    __syncthreads();\n";
    let racing = Sources::embedded().edit("sampling.cu", barrier, "    shared[threadIdx.x] = mine;\n");
    gpu.replace(&variant, &racing.expect("the text is there")).expect("it compiles");
    gpu.launch_instead(&SAMPLING, variant);
    let outcome = with_schedule(Schedule::Reverse, || trial(&gpu, &SAMPLING, &variant)).expect("there is a proof");
    assert!(matches!(outcome, Err(NoTrial::Device(Error::Fault { .. }))), "{outcome:?}");
}

#[test]
fn what_has_no_proof_is_refused() {
    let gpu = emulated(Form::Fast);
    let error = trial(&gpu, &RMS_NORM, &RMS_NORM).expect_err("its constants decide its sum");
    assert!(error.to_string().contains("rms_norm THREADS=256"));
}
