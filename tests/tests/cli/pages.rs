//! Pages and `JUnit` of real comparisons.

use std::fs;
use std::path::Path;

use roxmltree::Document;
use scraper::Html;
use tests::repository;
use tools::diagnose::lessons::list::lessons;

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

/// The case's images have 4 × 6 and 8 × 4 patches; row 24 + 9 is in the second one's square 2 of 2 × 2, there the second,
/// and its feature is that of the square.
#[test]
fn an_error_of_a_patch_is_shown_where_it_lies() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let changed = ["model.vision_tower.layers.0.layer_norm1", "model.multi_modal_projector.merge_act"];
    change_values("vision-images-f32", &folder.path().join(DUMP), |name, values| {
        let row = if name == changed[0] { 24 + 9 } else { 6 + 2 };
        if changed.contains(&name) {
            let width = values.len() / if name == changed[0] { 56 } else { 14 };
            values[width * row + 3] += 64.0;
        }
    });
    let ran = parity(folder.path(), &["verify", "vision-images-f32", DUMP, "--html", "r.html"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    let page = parsed(&read(folder.path(), "r.html"));
    stands_alone(&page);
    assert!(all(&page, "dd").iter().any(|fact| text(fact).contains("56 patches of 2 images")));
    for (site, shapes, place) in [(changed[0], [(4, 6), (8, 4)], (2, 1)), (changed[1], [(2, 3), (4, 2)], (1, 0))] {
        let mut templates = all(&page, "template").into_iter().map(|template| template.inner_html());
        let template = templates.find(|inside| inside.starts_with(&format!("<h4>{site}</h4>")));
        let template = Html::parse_fragment(&template.expect("it is on the map"));
        let pictures = all(&template, "canvas.over");
        assert_eq!(pictures.len(), 2, "{site}");
        for ((picture, (rows, columns)), number) in pictures.iter().zip(shapes).zip(0..) {
            let attribute = |name| picture.attr(name).expect("it has one").to_owned();
            assert_eq!([attribute("data-rows"), attribute("data-columns")], [rows, columns].map(|n| n.to_string()));
            assert!(attribute("class").contains(&format!("shown0-0-{number}")));
            let levels = attribute("data-levels");
            assert_eq!(levels.len(), rows * columns, "{site}");
            // Levels above the one of ratio 1, `s`, are faults.
            let faults = levels.chars().enumerate().filter(|(_, level)| is_fault(*level)).map(|(at, _)| at);
            let expected = if number == 1 { vec![place.0 * columns + place.1] } else { vec![] };
            assert_eq!(faults.collect::<Vec<_>>(), expected, "{site}: {levels}");
        }
    }
    let styles: String = all(&page, "style").iter().map(text).collect();
    for number in 0..2 {
        let rule = format!(".shown0-0-{number}{{background-image:url(data:image/png;base64,iVBORw0KGgo");
        assert!(styles.contains(&rule), "{rule}: a PNG begins so");
    }
}

/// Whether a letter stands for a level above `tools::judge::spread::PASSES`.
fn is_fault(letter: char) -> bool {
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    letters.find(letter).is_some_and(|level| level > usize::from(tools::judge::spread::PASSES))
}

#[test]
fn a_file_that_cannot_be_written_keeps_no_other_from_being_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("r.xml"), "old").expect("writable");
    let ran = verify_tampered(folder.path(), &["--json", "r.json", "--html", "/dev/full", "--junit", "r.xml"]);
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.stderr.contains("/dev/full"), "{ran}");
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
    let judged = ["local lens", "layer lens", "global lens", "decode", "exact twin"];
    let expected = models.into_iter().flat_map(|model| judged.map(|what| format!("{model}: {what}")));
    assert_eq!(suites, expected.collect::<Vec<_>>());
}

#[test]
fn a_diagnosis_is_a_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let witness = repository::path("fixtures/golden-mistakes/m2-gqa3-f32/eps_outside.safetensors");
    fs::copy(witness, folder.path().join(DUMP)).expect("it is there");
    let ran = parity(folder.path(), &["diagnose", CASE, DUMP, "--html", "d.html"]);
    assert_eq!(ran.code, Some(1), "{ran}");

    let page = parsed(&read(folder.path(), "d.html"));
    stands_alone(&page);
    let heads: Vec<String> = all(&page, "h3").iter().map(text).collect();
    assert!(heads.first().is_some_and(|head| head.starts_with("1. eps_outside (")), "{heads:?}");
    assert!(all(&page, "dd").iter().any(|fact| text(fact).contains(DUMP)));
    let links: Vec<&str> = all(&page, "h3 a").iter().filter_map(|a| a.attr("href")).collect();
    assert_eq!(links, ["#mistake-eps_outside"]);
    let lesson = lessons().find(|lesson| lesson.name == "eps_outside").expect("it is known");
    let told: String = all(&page, "#mistake-eps_outside").iter().map(text).collect();
    assert!(told.contains(lesson.numbers) && told.contains(lesson.mend) && told.contains(lesson.wrong), "{told}");
    let shares: Vec<&str> = all(&page, "meter").iter().filter_map(|meter| meter.value().attr("value")).collect();
    let [without, with] = shares[..] else { panic!("without it, and with it: {shares:?}") };
    assert!(without.parse::<usize>().expect("a count") < with.parse::<usize>().expect("a count"));
}
