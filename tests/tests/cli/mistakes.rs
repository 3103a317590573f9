//! `parity mistakes`: what is told of each known mistake, and of what a search finds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::repository;
use tools::diagnose::catalogue::list;
use tools::diagnose::lessons::found;
use tools::diagnose::lessons::list::lessons;

use super::{assert_ran, assert_refused, listing, parity};
use crate::report::page::{all, parsed, text};

#[test]
fn every_known_mistake_has_all_texts() {
    let told: Vec<&str> = lessons().map(|lesson| lesson.name).collect();
    let known: BTreeSet<&str> = list::all().map(|mistake| mistake.name).collect();
    assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), known);
    assert_eq!(told.len(), known.len(), "one lesson a name");
    let mut seen = BTreeSet::new();
    for lesson in lessons() {
        for sentence in [lesson.numbers, lesson.mend] {
            assert!(sentence.len() > 20 && sentence.ends_with('.') && !sentence.contains("  "), "{}", lesson.name);
        }
        assert!(lesson.wrong.len() > 5 && lesson.right.len() > 5 && lesson.wrong != lesson.right, "{}", lesson.name);
        assert!(seen.insert(lesson.numbers), "{}: what it does is what another does", lesson.name);
    }
}

/// Whatever a diagnosis names has a page: a search's kinds, too, which are declared in one file.
#[test]
fn every_kind_of_what_a_search_finds_has_all_texts() {
    let declared = repository::text("tools/src/diagnose/search/kinds.rs").expect("kinds are declared there");
    let declared = declared.matches(": Mistake =").count();
    let mut names = BTreeSet::new();
    for found in found::all() {
        let name = found.kind.name;
        assert!(names.insert(name) && lessons().all(|lesson| lesson.name != name), "{name}: one page a name");
        for sentence in [found.numbers, found.mend] {
            assert!(sentence.len() > 20 && sentence.ends_with('.') && !sentence.contains("  "), "{name}: {sentence}");
        }
    }
    assert_eq!(names.len(), declared, "a page for each that kinds.rs declares");
    let ran = parity(Path::new("."), &["mistakes", "scales_misread"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains("weight_scale_inv") && ran.stdout.contains("parity diagnose"), "{ran}");
    let ran = parity(Path::new("."), &["demo", "scales_misread"]);
    assert_refused(
        &ran,
        &["scales_misread is a kind of what a search finds", "`parity mistakes scales_misread` tells of it"],
    );
}

#[test]
fn each_can_be_made_somewhere_and_is_shown_by_something() {
    let ran = parity(Path::new("."), &["mistakes", "--json", "-"]);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let mistakes = told["mistakes"].as_array().expect("a list");
    assert_eq!(mistakes.len(), lessons().count());
    assert_eq!(told["searched"].as_array().map(Vec::len), Some(found::all().count()));
    let filled = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    for mistake in mistakes {
        assert!(filled(&mistake["operators"]), "{mistake:#}");
        // No model that is released or built in has square experts.
        assert_eq!(filled(&mistake["made_in"]), mistake["name"] != "w2_transposed", "{mistake:#}");
    }
    let of = |name: &str| mistakes.iter().find(|mistake| mistake["name"] == name).expect("it is known");
    let is_made_in = |name: &str, model: &str| of(name)["made_in"].as_array().expect("a list").contains(&model.into());
    assert!(is_made_in("qk_per_head_on_M2", "minimax-m2.7") && !is_made_in("qk_per_head_on_M2", "minimax-m3"));
    assert!(is_made_in("gelu_tanh", "minimax-m3") && !is_made_in("gelu_tanh", "minimax-m2.7"));
    assert!(is_made_in("swiglu_clamp_upper", "minimax-m3"), "under the reading that has it wrong");
    assert!(filled(&of("rope_full_128")["witnesses"]), "it was made in transformers");
}

#[test]
fn one_is_told_in_full() {
    assert_ran!(parity(Path::new("."), &["mistakes", "bias_in_weights"]), "mistake");
    let ran = parity(Path::new("."), &["mistakes"]);
    assert!(ran.stdout.contains("bias_in_weights") && ran.stdout.contains("mlp.gate.1"), "{ran}");
    assert!(ran.stdout.contains("143 known mistakes"), "{ran}");
    let ran = parity(Path::new("."), &["mistakes", "bias_in_weight"]);
    assert_refused(&ran, &["bias_in_weight is no known mistake", "did you mean bias_in_weights?"]);
}

#[test]
fn every_link_of_the_index_leads_to_a_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["mistakes", "--html", "pages"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let read = |name: &str| parsed(&fs::read_to_string(folder.path().join("pages").join(name)).expect("a page"));
    let index = read("index.html");
    let links: Vec<String> =
        all(&index, "td a, th a").iter().filter_map(|a| a.attr("href").map(str::to_owned)).collect();
    assert_eq!(links.len(), lessons().count() + found::all().count());
    assert_eq!(listing(&folder.path().join("pages")).len(), links.len() + 1);
    let lessons = lessons().map(Some).chain(std::iter::repeat(None));
    for (link, lesson) in links.iter().zip(lessons) {
        let page = read(link);
        let back: Vec<_> = all(&page, "a").iter().filter_map(|a| a.attr("href").map(str::to_owned)).collect();
        assert_eq!(back, ["index.html"], "{link}");
        assert!(all(&page, "link, img, iframe, object, embed, base, form").is_empty(), "{link}");
        let Some(lesson) = lesson else { continue };
        let code: Vec<String> = all(&page, "dd code").iter().map(text).collect();
        assert!(code.contains(&lesson.wrong.to_owned()) && code.contains(&lesson.right.to_owned()), "{link}: {code:?}");
    }
}
