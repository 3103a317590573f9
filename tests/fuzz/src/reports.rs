//! Reports: whatever text and numbers they have, what is written of them can be read, and says the same.

use reference::{LayerSite, RoundingContract, Semantics, Site};
use roxmltree::Document;
use serde_json::Value;
use tools::compare::selection::Selection;
use tools::judge::found::Found;
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict, Worst};
use tools::report::content::{Header, Report};
use tools::report::coverage::operators;
use tools::report::junit::junit;

use crate::texts::MODEL;

/// A report as JSON and as `JUnit` XML, of a number, eight bytes, and a text.
pub fn report(bytes: &[u8]) {
    let Some((number, text)) = bytes.split_first_chunk() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let report = with(text, f64::from_le_bytes(*number));
    json(&report, text, f64::from_le_bytes(*number));
    let written = junit(std::slice::from_ref(&report)).expect("it can be written");
    let document = Document::parse(&written).expect("it is XML");
    let count = |tag| document.descendants().filter(|node| node.has_tag_name(tag)).count();
    assert_eq!((count("testcase"), count("failure"), count("skipped")), (3, 1, 1), "{written}");
    // XML has no other control characters than line breaks and tabs, and an attribute no line breaks.
    if !text.chars().any(char::is_control) && !text.contains(['\u{fffe}', '\u{ffff}']) {
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
        assert_eq!(suite.attribute("name"), Some(format!("{text}: local lens").as_str()));
        let failure = document.descendants().find(|node| node.has_tag_name("failure")).expect("a fault");
        assert!(failure.text().expect("a description").contains(text), "{written}");
    }
}

/// What is written as JSON is read as the same.
fn json(report: &Report, text: &str, number: f64) {
    let written = serde_json::to_string(report).expect("it can be written");
    let read: Value = serde_json::from_str(&written).expect("it is JSON");
    assert_eq!(read["header"]["model"], text);
    assert_eq!(read["header"]["notes"][0], text);
    assert_eq!(read["sites"][0]["note"], text);
    let found = read["sites"][0]["worst"]["candidate"].as_f64();
    assert_eq!(found.map(f64::to_bits), number.is_finite().then_some(number.to_bits()));
    assert_eq!(serde_json::to_string(&read).expect("it was JSON").len(), written.len(), "nothing is lost");
}

/// A fault, a value within its bound and one of which nothing is known, with this text and this number wherever a file, a
/// user or a candidate has the say.
fn with(text: &str, number: f64) -> Report {
    let site = |site, verdict| {
        let mut report = SiteReport::missing(0, Site::Layer(0, site), Lens::Local);
        report.verdict = verdict;
        report.note = Some(text.to_owned());
        report.deviation = number;
        report.worst = Some(Worst { index: vec![0, 1], candidate: number, reference: 1.0, bound: 0.5, ratio: 2.0 });
        report
    };
    let sites = vec![
        site(LayerSite::QProj, Verdict::Fault),
        site(LayerSite::KProj, Verdict::Within),
        site(LayerSite::VProj, Verdict::Inconclusive),
    ];
    let header = Header {
        model: text.to_owned(),
        size: String::new(),
        candidate: text.to_owned(),
        precision: RoundingContract::FUSED,
        precision_from: text.to_owned(),
        semantics: Semantics::DOCUMENTS,
        steps: vec![1],
        shown: Vec::new(),
        layers: MODEL.num_hidden_layers,
        head_dim: MODEL.head_dim,
        notes: vec![text.to_owned()],
        unsure: None,
        unread: 0,
        command: text.to_owned(),
    };
    let found = Found::of(sites);
    Report::of(header, found, &Selection::default(), operators(&MODEL, 0)).expect("something was compared")
}
