//! Logits alone in a narrow type: the choices of experts that rounding decides move some rows by more than a limit of all of them tells.

use tools::report::content::{Conclusion, Report};
use tools::session::asked::Asked;
use tools::session::dumped::Given;
use tools::session::verify::verify;

use crate::cli::parity;
use crate::precision::evidence::shown_of;
use crate::precision::logits_by_transformers;

/// Rows in the middle tell what is wrong, and the twin what is right.
#[test]
fn right_ones_pass_and_wrong_ones_fail() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    for case in ["m2-gqa3-f32", "m2-sharded-bf16", "m3-sharded-bf16"] {
        for (semantics, verdict) in [("released", "\nPASS"), ("released,score_scale=0.4", "\nFAIL")] {
            let how = ["--precision", "transformers_bf16", "--semantics", semantics];
            shown_of(case, &how, |name| name == "logits", false, &path);
            let found = parity(folder.path(), &["verify", case, "dump.safetensors"]);
            assert!(found.stdout.contains(verdict), "{case}, {semantics}: {found}");
        }
    }
}

/// What transformers computes is the twin's in as many values as is predicted.
#[test]
fn those_of_transformers_pass() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (model, dump) = logits_by_transformers(folder.path());
    let reports = verify(&model, dump, &Given::default(), &Asked::default(), &mut |_| ()).expect("it can be judged");
    let concluded: Vec<Conclusion> = reports.iter().map(Report::conclusion).collect();
    assert_eq!(concluded[0], Conclusion::Pass, "{concluded:?}");
    assert!(concluded.iter().all(|conclusion| *conclusion <= Conclusion::Inconclusive), "{concluded:?}");
}
