//! Whatever text a report has, and whatever numbers, what is written of it can be read, and says the same.

use std::sync::LazyLock;

use proptest::prelude::*;
use roxmltree::Document;
use serde_json::Value;
use tools::judge::verdict::Verdict;
use tools::report::content::Report;
use tools::report::junit::junit;

use super::report;

/// A report of a few sites, made once.
static SMALL: LazyLock<Report> = LazyLock::new(|| {
    let mut report = report();
    report.sites.truncate(40);
    report
});

/// A report with this text wherever a file, a user or an engine has the say, and this number wherever a candidate has it.
fn with(text: &str, number: f64) -> Report {
    let mut report = SMALL.clone();
    for header in [&mut report.header.model, &mut report.header.candidate, &mut report.header.command] {
        text.clone_into(header);
    }
    report.header.notes = vec![text.to_owned()];
    for site in &mut report.sites {
        site.note = Some(text.to_owned());
        site.deviation = number;
        if let Some(worst) = &mut site.worst {
            worst.candidate = number;
        }
    }
    report.sites[0].verdict = Verdict::Inconclusive;
    report.sites[1].verdict = Verdict::Fault;
    report
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0])]
}

proptest! {
    #[test]
    fn json_keeps_every_text_and_every_finite_number(text in any::<String>(), number in number()) {
        let report = with(&text, number);
        let written = serde_json::to_string(&report).expect("it can be written");
        let read: Value = serde_json::from_str(&written).expect("JSON");
        prop_assert_eq!(&read["header"]["model"], &text);
        prop_assert_eq!(&read["header"]["notes"][0], &text);
        prop_assert_eq!(&read["sites"][1]["note"], &text);
        let found = read["sites"][1]["worst"]["candidate"].as_f64();
        prop_assert_eq!(found.map(f64::to_bits), number.is_finite().then_some(number.to_bits()));
    }

    #[test]
    fn junit_is_xml_whatever_the_text(text in any::<String>(), number in number()) {
        let report = with(&text, number);
        let written = junit(std::slice::from_ref(&report)).expect("it can be written");
        let document = Document::parse(&written).expect("XML");
        let failures = document.descendants().filter(|node| node.has_tag_name("failure")).count();
        prop_assert_eq!(failures, report.count(Verdict::Fault) + 1, "and a token of the decode");
    }

    /// XML has no other control characters than line breaks and tabs.
    #[test]
    fn junit_keeps_every_text_that_xml_can_hold(text in r"[^\p{C}]{0,20}") {
        let written = junit(&[with(&text, 0.0)]).expect("it can be written");
        let document = Document::parse(&written).expect("XML");
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
        let name = format!("{text}: local lens");
        prop_assert_eq!(suite.attribute("name"), Some(name.as_str()));
        let failure = document.descendants().find(|node| node.has_tag_name("failure")).expect("a fault");
        prop_assert!(failure.text().expect("a description").contains(text.as_str()));
    }
}
