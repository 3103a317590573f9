//! Logits alone in a narrow type: the choices of experts that rounding decides move some rows by more than a limit of all of them tells.

use reference::Site;
use tools::judge::agreement::Agreement;
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict};
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

/// Where the limit of noise is above the signal, the twin's share tells: as predicted, and above what chance makes equal.
#[test]
fn the_twin_tells_what_noise_drowns() {
    let drowned = SiteReport { limit: Some(1.5), ..SiteReport::missing(0, Site::Logits, Lens::Local) };
    let drowned = SiteReport { verdict: Verdict::Inconclusive, ..drowned };
    let within = SiteReport { limit: Some(0.5), ..drowned.clone() };
    let faulty = SiteReport { verdict: Verdict::Fault, ..drowned.clone() };
    let cases = [
        (&drowned, (600, 400.0), Verdict::Within),
        (&drowned, (599, 400.0), Verdict::Inconclusive),
        (&drowned, (199, 900.0), Verdict::Inconclusive),
        (&within, (600, 400.0), Verdict::Inconclusive),
        (&faulty, (600, 400.0), Verdict::Fault),
    ];
    for (report, (equal, unequal_expected), verdict) in cases {
        let mut report = report.clone();
        report.stands_to_twin(Some(Agreement { count: 1000, equal, bits: 0.9, unequal_expected, bits_expected: 0.9 }));
        assert_eq!(report.verdict, verdict, "{equal} of 1000, where {unequal_expected} others are expected");
    }
}
