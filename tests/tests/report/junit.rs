//! Test reporters read what is written for them.

use reference::Site;
use roxmltree::{Document, Node};
use tools::judge::decoded::{Cause, Decoded, Divergence};
use tools::judge::exact::{Bits, Difference, Exactness};
use tools::judge::verdict::Verdict;
use tools::report::content::{Conclusion, Report};
use tools::report::html::html;
use tools::report::junit::junit;

use super::{FAULTY, HOSTILE, MISSING, report};

fn elements<'a>(document: &'a Document<'_>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name(name))
}

#[test]
fn failures_are_counted_and_said() {
    let report = report();
    let text = junit(std::slice::from_ref(&report)).expect("it can be written");
    let document = Document::parse(&text).expect("XML");
    let root = document.root_element();
    let (failures, cases) = (elements(&document, "failure").count(), elements(&document, "testcase").count());
    assert_eq!(failures, report.count(Verdict::Fault) + 1, "and a token of the decode");
    assert_eq!(root.attribute("failures"), Some(failures.to_string().as_str()));
    assert_eq!(cases, report.sites.len() + 1 + 64, "and what is missing, and a case a token");
    assert_eq!(elements(&document, "skipped").count(), report.count(Verdict::Inconclusive) + 1);

    let suites: Vec<&str> = elements(&document, "testsuite").filter_map(|suite| suite.attribute("name")).collect();
    let names = ["local lens", "layer lens", "global lens", "decode"].map(|what| format!("models/deep: {what}"));
    assert_eq!(suites, names);
    let candidate = elements(&document, "property").find(|property| property.attribute("name") == Some("candidate"));
    assert_eq!(candidate.and_then(|c| c.attribute("value")), Some(format!("{HOSTILE}.safetensors").as_str()));
}

#[test]
fn a_failure_says_place_values_bound_and_command() {
    let text = junit(&[report()]).expect("it can be written");
    let document = Document::parse(&text).expect("XML");
    let site = format!("model.layers.{}.self_attn.q_norm", FAULTY.start);
    let failure = elements(&document, "failure").next().expect("there are some");
    let case = failure.parent_element().expect("a case");
    assert_eq!(case.attribute("name"), Some(format!("step.0.{site}").as_str()));
    assert_eq!(failure.attribute("message"), Some("12 of 1572864 values outside the error bound"));
    let said = failure.text().expect("a description");
    let worst = "worst at token 3, channel 261 (channel 5 of head 2): candidate 1.500000, \
                 reference -0.2500000, allowed ±1.00e-3, ratio 300.0";
    assert!(said.contains(worst) && said.contains(&format!("--sites '{site}'")), "{said}");
}

#[test]
fn what_is_denied_or_required_fails() {
    let mut report = report();
    let failures = |report: &Report| {
        let text = junit(std::slice::from_ref(report)).expect("it can be written");
        elements(&Document::parse(&text).expect("XML"), "failure").count()
    };
    let before = failures(&report);
    report.denied = vec![Verdict::Suspicious, Verdict::Inconclusive, Verdict::Missing];
    let denied = report.count(Verdict::Suspicious) + report.count(Verdict::Inconclusive) + 1;
    assert_eq!(failures(&report), before + denied);
    report.denied.clear();
    report.unmet = [MISSING].into();
    assert_eq!(failures(&report), before + 1);
}

/// A site of two that has a value other than the exact twin's.
fn inexact(binding: bool) -> Exactness {
    let first = Some(Difference { index: vec![2, 5], candidate: 1.0, twin: 1.007_812_5 });
    let bits = |site, equal, first| Bits { step: 0, site, count: 9, equal, first };
    Exactness { sites: vec![bits(MISSING, 9, None), bits(Site::FinalNorm, 8, first)], binding }
}

#[test]
fn a_value_that_is_not_the_exact_twins_fails_where_it_must_be() {
    let mut report = report();
    (report.decode, report.exact) = (None, Some(inexact(false)));
    report.sites.retain(|site| site.verdict == Verdict::Within);
    let failure = |report: &Report| {
        let text = junit(std::slice::from_ref(report)).expect("it can be written");
        let document = Document::parse(&text).expect("XML");
        assert_eq!(elements(&document, "testsuite").last().and_then(|suite| suite.attribute("tests")), Some("2"));
        elements(&document, "failure").next().map(|failure| failure.text().unwrap_or_default().to_owned())
    };
    assert_eq!((report.conclusion(), failure(&report)), (Conclusion::Pass, None));
    report.exact = Some(inexact(true));
    assert_eq!(report.conclusion(), Conclusion::Fail);
    let said = "1 of 9 values differ, the first at [2, 5]: candidate 1e0 (0x3f800000), twin 1.0078125e0 (0x3f810000)";
    assert_eq!(failure(&report).as_deref(), Some(said));
    assert!(html(&[report]).contains(&format!("{}: {said}", Site::FinalNorm)));
}

#[test]
fn a_report_ends_in_one_word() {
    let mut report = report();
    assert_eq!(report.conclusion(), Conclusion::Fail);
    report.decode = None;
    report.sites.retain(|site| site.verdict != Verdict::Fault);
    assert_eq!(report.conclusion(), Conclusion::Suspicious);
    report.denied = vec![Verdict::Suspicious];
    assert_eq!(report.conclusion(), Conclusion::Fail);
    report.sites.retain(|site| site.verdict != Verdict::Suspicious);
    assert_eq!(report.conclusion(), Conclusion::Pass);
    report.unmet = [MISSING].into();
    assert_eq!(report.conclusion(), Conclusion::Fail);
    (report.unmet, report.denied) = Default::default();
    report.sites.retain(|site| site.verdict == Verdict::Inconclusive);
    assert_eq!((report.sites.is_empty(), report.conclusion()), (false, Conclusion::Inconclusive));
    // Tokens say something unless noise may make any others of them, or none of them was chosen by logits.
    let decoded = |divergences: Vec<Divergence>| Some(Decoded { divergences, ..super::decoded() });
    let all =
        |cause| (0..64).map(move |position| Divergence { position, cause, ..super::decoded().divergences[0].clone() });
    for (divergences, conclusion) in [
        (Vec::new(), Conclusion::Pass),
        (all(Cause::Tie).take(1).collect(), Conclusion::Pass),
        (all(Cause::Drift).take(1).collect(), Conclusion::Inconclusive),
        (all(Cause::NotGreedy).collect(), Conclusion::Inconclusive),
    ] {
        report.decode = decoded(divergences);
        assert_eq!(report.conclusion(), conclusion);
    }
}
