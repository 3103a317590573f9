//! The report as `JUnit` XML: a suite a model and lens, a case a site; the decode as a suite of its own.

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};
use reference::Site;

use super::content::Report;
use super::{exactness, finding};
use crate::failure::Failure;
use crate::judge::decoded::{Cause, Decoded};
use crate::judge::exact::Exactness;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

/// The reports as one document.
pub fn junit(reports: &[Report]) -> Result<String, Failure> {
    let mut document = Junit::new("parity");
    for report in reports {
        let lenses = [Lens::Local, Lens::Layer, Lens::Global];
        let suites =
            lenses.into_iter().map(|lens| of_lens(report, lens)).chain(report.decode.as_ref().map(|decoded| {
                let mut suite = suite(report, "decode");
                suite.add_test_cases((0..decoded.tokens.len()).map(|position| of_token(decoded, position)));
                suite
            }));
        let suites = suites.chain(report.exact.as_ref().map(|exact| of_exact_twin(report, exact)));
        document.add_test_suites(suites.filter(|suite| suite.tests > 0));
    }
    let text = document.to_string();
    let text = text.map_err(|error| Failure::new(format!("the report cannot be JUnit: {error}")))?;
    // XML has no such characters, and the writer leaves them as they are.
    Ok(text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
}

fn suite(report: &Report, what: &str) -> TestSuite {
    let header = &report.header;
    let mut suite = TestSuite::new(format!("{}: {what}", header.model));
    suite.add_property(("candidate", header.candidate.as_str()));
    suite.add_property(("precision", header.precision.to_string().as_str()));
    suite.add_property(("coverage", report.coverage.to_string().as_str()));
    suite.add_property(("semantics", header.semantics.to_string().as_str()));
    suite
}

fn of_lens(report: &Report, lens: Lens) -> TestSuite {
    let mut suite = suite(report, &format!("{lens} lens"));
    let sites = report.sites.iter().filter(|site| site.lens == lens);
    suite.add_test_cases(sites.map(|site| of_site(report, site)));
    if lens == Lens::Local {
        let missing = report.missing.iter().filter(|site| !site.on_request() && !report.unmet.contains(site));
        suite.add_test_cases(missing.map(|site| not_captured(report, *site)));
        let unmet = report.unmet.iter().map(ToString::to_string);
        suite.add_test_cases(unmet.map(|site| failed(site, "required", &["required and not compared".to_owned()])));
    }
    for case in &mut suite.test_cases {
        case.set_classname(format!("{}.{lens}", report.header.model));
    }
    suite
}

/// Each site beside the exact twin's.
fn of_exact_twin(report: &Report, exact: &Exactness) -> TestSuite {
    let mut suite = suite(report, "exact twin");
    suite.add_test_cases(exact.sites.iter().map(|bits| {
        let name = format!("step.{}.{}", bits.step, bits.site);
        if exact.binding && bits.equal < bits.count {
            return failed(name, "not exact", &[exactness::difference(bits)]);
        }
        let mut case = TestCase::new(name, TestCaseStatus::success());
        case.set_system_out(exactness::difference(bits));
        case
    }));
    for case in &mut suite.test_cases {
        case.set_classname(format!("{}.exact", report.header.model));
    }
    suite
}

fn of_site(report: &Report, site: &SiteReport) -> TestCase {
    let name = format!("step.{}.{}", site.step, site.site);
    let note = || site.note.clone().unwrap_or_default();
    match site.verdict {
        Verdict::Fault => failed(name, "fault", &finding::lines(site, report)),
        Verdict::Inconclusive if report.denied.contains(&site.verdict) => {
            failed(name, "inconclusive", &[format!("denied: inconclusive: {}", note())])
        }
        Verdict::Suspicious if report.denied.contains(&site.verdict) => {
            failed(name, "suspicious", &[format!("denied: suspicious: {}", finding::suspicion(site))])
        }
        Verdict::Inconclusive => skipped(name, &format!("inconclusive: {}", note())),
        verdict => {
            let mut case = TestCase::new(name, TestCaseStatus::success());
            case.set_system_out(match verdict {
                Verdict::Suspicious => format!("suspicious: {}", finding::suspicion(site)),
                verdict => verdict.to_string(),
            });
            case
        }
    }
}

/// A site that the candidate does not show.
fn not_captured(report: &Report, site: Site) -> TestCase {
    if report.denied.contains(&Verdict::Missing) {
        return failed(site.to_string(), "missing", &["denied: missing: not captured".to_owned()]);
    }
    skipped(site.to_string(), "not captured; checked through the next captured operator")
}

fn of_token(decoded: &Decoded, position: usize) -> TestCase {
    let name = format!("token {position}");
    let Some(divergence) = decoded.divergences.iter().find(|divergence| divergence.position == position) else {
        return TestCase::new(name, TestCaseStatus::success());
    };
    let said = finding::another_token(divergence);
    if divergence.cause == Cause::Fault {
        return failed(name, "another token", &[said]);
    }
    let mut case = TestCase::new(name, TestCaseStatus::success());
    case.set_system_out(format!("{}: {said}", divergence.cause));
    case
}

fn failed(name: String, kind: &str, lines: &[String]) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(kind).set_message(lines.first().map_or("", String::as_str)).set_description(lines.join("\n"));
    TestCase::new(name, status)
}

fn skipped(name: String, why: &str) -> TestCase {
    let mut status = TestCaseStatus::skipped();
    status.set_message(why);
    TestCase::new(name, status)
}
