//! Pages and `JUnit` of real comparisons.

use std::fs;
use std::path::Path;

use roxmltree::Document;

use super::reports::{change_values, faults};
use super::{Ran, case, parity};
use crate::report::page::{all, parsed, stands_alone, text};

const CASE: &str = "m2-gqa3-f32";
const SITE: &str = "model.layers.1.self_attn.q_norm";
/// A file name that would run in a page that does not escape it.
const DUMP: &str = "a<script>alert(1)&lt;.safetensors";

/// Verifies a dump with one wrong value.
fn verify_tampered(folder: &Path, options: &[&str]) -> Ran {
    change_values(CASE, &folder.join(DUMP), |name, values| {
        if name == SITE {
            values[96 * 3 + 37] += 0.5;
        }
    });
    let (model, tokens) = (case(CASE).join("model"), format!("@{}", case(CASE).join("case.json").display()));
    let fixed = ["verify", model.to_str().expect("UTF-8"), DUMP, "--tokens", &tokens];
    parity(folder, &[&fixed, options].concat())
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("written")
}

#[test]
fn a_tampered_dump_is_told_in_both() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = verify_tampered(folder.path(), &["--html", "r.html", "--junit", "r.xml"]);
    assert_eq!(ran.code, Some(1), "{ran}");

    let page = parsed(&read(folder.path(), "r.html"));
    stands_alone(&page);
    assert_eq!(all(&page, "script").len(), 1);
    assert!(all(&page, "dd").iter().any(|fact| text(fact).contains(DUMP)));
    let told: Vec<String> = all(&page, "details.fault summary b").iter().map(text).collect();
    assert_eq!(told.first().map(String::as_str), Some(format!("✗ {SITE}").as_str()), "{told:?}");
    assert_eq!(told.len(), faults(&ran).len());
    let first = text(all(&page, "details.fault").first().expect("a fault"));
    assert!(first.contains("token 3, channel 37 (channel 5 of head 2)"), "{first}");
    assert!(all(&page, "svg.plot").len() >= 3, "drift in two widths, and the decode");

    let text = read(folder.path(), "r.xml");
    let document = Document::parse(&text).expect("XML");
    let failed = document.descendants().filter(|node| node.has_tag_name("failure"));
    let failed: Vec<_> = failed.filter_map(|node| node.parent_element()?.attribute("name")).collect();
    assert_eq!(failed, faults(&ran).iter().map(|site| format!("step.0.{site}")).collect::<Vec<_>>());
    assert_eq!(document.root_element().attribute("failures"), Some(failed.len().to_string().as_str()));
}

#[test]
fn a_file_that_cannot_be_written_keeps_no_other_from_being_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("r.xml"), "old").expect("writable");
    let ran = verify_tampered(folder.path(), &["--json", "r.json", "--html", "missing/r.html", "--junit", "r.xml"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.stderr.contains("missing/r.html"), "{ran}");
    assert_eq!(faults(&ran).first(), Some(&SITE), "{ran}");
    Document::parse(&read(folder.path(), "r.xml")).expect("XML");
    serde_json::from_str::<serde_json::Value>(&read(folder.path(), "r.json")).expect("JSON");
    let ran = verify_tampered(folder.path(), &["--html", "missing/r.html", "--junit", "lost/r.xml"]);
    assert!(ran.stderr.contains("missing/r.html") && ran.stderr.contains("lost/r.xml"), "{ran}");
}

#[test]
fn several_models_are_one_page_and_one_document() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let models = ["m2-mha-top1-f32", "m2-gqa3-f32"];
    let options = ["--device", "emulated", "--decode", "3", "--html", "r.html", "--junit", "r.xml"];
    let ran = parity(folder.path(), &[&["check"], &models[..], &options].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    let page = parsed(&read(folder.path(), "r.html"));
    stands_alone(&page);
    let titles: Vec<String> = all(&page, "h2").iter().map(text).collect();
    assert_eq!(titles, models.map(|model| format!("{model} PASS")));
    let text = read(folder.path(), "r.xml");
    let document = Document::parse(&text).expect("XML");
    let suites =
        document.descendants().filter_map(|node| node.attribute("name").filter(|_| node.has_tag_name("testsuite")));
    let suites: Vec<&str> = suites.collect();
    let lenses = ["local lens", "layer lens", "global lens", "decode"];
    let expected = models.into_iter().flat_map(|model| lenses.map(|what| format!("{model}: {what}")));
    assert_eq!(suites, expected.collect::<Vec<_>>());
}
