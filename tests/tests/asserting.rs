//! `assert_parity!`, as another crate's tests use it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use half::bf16;
use parity::{Candidate, Conclusion, Denied, Lens, Tensors, assert_parity, reference, verify};

const MODEL: &str = "m2-gqa3-f32";
const NORM: &str = "model.layers.1.self_attn.q_norm";

/// What goes into the query norm and what comes out.
fn values() -> Tensors {
    reference(MODEL, &["layers.1.self_attn.q_proj", "layers.1.self_attn.q_norm"]).expect("a built-in case")
}

/// What an assertion that fails says.
fn said<T>(asserting: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(asserting)) else { panic!("the assertion passes") };
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn what_is_right_passes_from_memory_and_from_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = assert_parity!(MODEL, values(), precision = "f32", deny = Denied::Suspicious);
    assert!(report.passed() && report.faults().is_empty(), "{report}");
    assert!(report.sites().any(|site| site.site.to_string() == NORM), "{report}");
    for name in ["dump", "dump.npz", "dump.safetensors"] {
        values().save(folder.path().join(name)).expect("writable");
        assert_parity!(MODEL, folder.path().join(name), precision = "f32", lens = Lens::Local);
    }
    assert_eq!(assert_parity!(MODEL, Candidate::Own, lens = Lens::Local).conclusion(), Conclusion::Pass);
}

#[test]
fn what_is_wrong_fails_with_the_report_the_mistake_and_the_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("report.html");
    let wrong = values().map(NORM, |x| 1.1 * x).expect("it is there");
    let said = said(|| assert_parity!(MODEL, &wrong, precision = "f32", diagnosed = true, html = &page));
    assert!(said.contains(&format!("fault {NORM}")), "{said}");
    assert!(said.contains(&format!("parity verify {MODEL} DUMP --precision f32 --sites '{NORM}'")), "{said}");
    assert!(said.contains("1.1"), "the factor that was found: {said}");
    assert!(said.ends_with(&format!("page: {}", page.display())), "{said}");
    assert!(std::fs::read_to_string(page).expect("written").contains(NORM));
    let report = verify(MODEL, wrong).precision("f32").report().expect("a fault is no error");
    assert_eq!(report.faults()[0].site.to_string(), NORM);
    let json: serde_json::Value = serde_json::from_str(&report.json().expect("JSON")).expect("JSON");
    assert_eq!(json["reports"].as_array().map(Vec::len), Some(1));
}

#[test]
fn options_reach_the_question() {
    let required = said(|| assert_parity!(MODEL, values(), require = "all", precision = "f32"));
    assert!(required.contains("required and not compared"), "{required}");
    let elsewhere = said(|| assert_parity!(MODEL, values(), layers = "0", tokens = "1,2,3"));
    assert!(elsewhere.contains("help: "), "{elsewhere}");
    let ids: Vec<u32> = (0..3).collect();
    let command = said(|| assert_parity!("nowhere", Tensors::new(), tokens = &ids));
    assert!(command.starts_with("nowhere is neither a folder nor a built-in case\nhelp: name a folder"), "{command}");
    let readings = said(|| assert_parity!(MODEL, values(), semantics = "documents,nothing=here"));
    assert!(readings.contains("nothing"), "{readings}");
}

#[test]
fn tensors_have_the_values_of_their_shape() {
    let error = Tensors::new().with("a", &[2, 3], &[1.0_f32; 5]).expect_err("one is lacking");
    assert_eq!(error.to_string(), "a: 5 values, expected 6 of a shape [2, 3]");
    let halves = Tensors::new().with("a", &[1, 2], &[bf16::from_f32(0.5); 2]).expect("as many");
    assert_eq!(halves.names().collect::<Vec<_>>(), ["a"]);
    let error = halves.map("b", |x| x).expect_err("another name");
    assert_eq!((error.to_string().as_str(), error.advice()), ("there is no b", Some("there are a")));
}
