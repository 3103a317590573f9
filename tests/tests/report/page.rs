//! The page is well-formed, whole, small, and says what is wrong before all else.

use scraper::{ElementRef, Html, Selector};
use tools::report::html::html;

use super::{FAULTY, HOSTILE, report};

/// What an HTML parser reads, which found nothing wrong.
pub(crate) fn parsed(page: &str) -> Html {
    let parsed = Html::parse_document(page);
    assert_eq!(parsed.errors, Vec::<String>::new());
    parsed
}

pub(crate) fn all<'a>(page: &'a Html, what: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(what).expect("a selector")).collect()
}

pub(crate) fn text(element: &ElementRef<'_>) -> String {
    element.text().collect()
}

/// Code without the pictures that are written out in it.
fn without_pictures(code: &str) -> String {
    let mut parts = code.split("url(data:image/png;base64,");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + part.split_once(')').expect("a picture ends").1)
}

/// Fails if anything is asked for that is not in the page.
pub(crate) fn stands_alone(page: &Html) {
    for (tag, attribute) in all(page, "*").iter().flat_map(|e| e.value().attrs().map(move |a| (e.value().name(), a))) {
        let own = attribute.0 == "href" && attribute.1.starts_with('#');
        assert!(
            own || !["href", "src", "srcset", "action", "data", "style"].contains(&attribute.0),
            "{tag} {attribute:?}"
        );
        assert!(!attribute.0.starts_with("on"), "{tag} {attribute:?}");
    }
    assert!(all(page, "link, img, iframe, object, embed, base, form").is_empty());
    for code in all(page, "style, script").iter().map(|element| without_pictures(&text(element))) {
        for word in ["http", "url(", "@import", "import(", "fetch(", "src=", "innerHTML"] {
            assert!(!code.contains(word), "{word}");
        }
    }
}

#[test]
fn a_deep_model_makes_a_page_below_3_mb() {
    let page = html(&[report()]);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    let page = parsed(&page);
    stands_alone(&page);
    let cells = all(&page, ".map td[id]").len();
    assert_eq!(cells, report().sites.len());
    assert_eq!(all(&page, "template").len(), cells);
}

#[test]
fn names_stay_text() {
    let page = parsed(&html(&[report()]));
    assert_eq!(all(&page, "script").len(), 1);
    let facts: Vec<String> = all(&page, "dd").iter().map(text).collect();
    assert!(facts.contains(&format!("{HOSTILE}.safetensors")), "{facts:?}");
}

#[test]
fn faults_come_first_with_place_values_and_command() {
    let page = parsed(&html(&[report()]));
    let titles: Vec<String> = all(&page, "h3").iter().map(text).collect();
    assert_eq!(titles, ["Faults", "Map", "Drift", "Routing", "Logits", "Decode"]);
    let fault = text(all(&page, "details.fault").first().expect("there are some"));
    let site = format!("model.layers.{}.self_attn.q_norm", FAULTY.start);
    for said in [
        site.as_str(),
        "12 of 1572864, ratio 300.00",
        "token 3, channel 261 (channel 5 of head 2)",
        "1.500000",
        "-0.2500000",
        "±1.00e-3",
        &format!("--tokens @prompt.json --sites '{site}'"),
    ] {
        assert!(fault.contains(said), "{said}: {fault}");
    }
}

/// Of the operator with the first fault, the known mistakes are told, and each link leads to what is known of one.
#[test]
fn mistakes_that_are_made_where_a_fault_is_are_told() {
    let page = parsed(&html(&[report()]));
    let faults = all(&page, "details.fault");
    let here = text(faults.first().expect("there are some"));
    assert!(here.contains("known mistakes of ports made here") && here.contains("parity diagnose"), "{here}");
    let links = all(&page, "details.fault details li a");
    let links: Vec<&str> = links.iter().filter_map(|a| a.attr("href")).collect();
    assert!(links.contains(&"#mistake-eps_outside"), "{links:?}");
    for link in links {
        assert_eq!(all(&page, link).len(), 1, "{link}");
    }
}

#[test]
fn verdicts_do_not_rest_on_colour() {
    let page = parsed(&html(&[report()]));
    for (class, glyph) in [("fault", "✗"), ("suspicious", "!"), ("inconclusive", "?"), ("tie", "t"), ("within", "·")]
    {
        let cells = all(&page, &format!(".map td.{class}"));
        assert!(!cells.is_empty(), "{class}");
        for cell in cells {
            assert_eq!(text(&cell), glyph);
            let label = cell.value().attr("aria-label").expect("a label");
            assert!(label.contains(class) && label.contains("lens"), "{label}");
        }
    }
    assert_eq!(all(&page, ".map [tabindex='0']").len(), 1);
    assert_eq!(all(&page, ".map td.absent").iter().map(text).collect::<Vec<_>>(), ["–"]);
}

#[test]
fn what_was_chosen_is_a_picture() {
    let page = html(&[report()]);
    let pictures = page.matches("heat chosen").count();
    assert!(pictures > 0, "a page with choices has none");
    let start = page.find("heat chosen").expect("there is one");
    let picture = &page[start..start + page[start..].find('>').expect("the tag ends")];
    for said in [
        "data-rows=\"96\"",
        "data-columns=\"32\"",
        "data-dim=\"512,32\"",
        "data-tokens=\"512\"",
        "aria-label=\"what was chosen, by token and expert\"",
    ] {
        assert!(picture.contains(said), "{said}: {picture}");
    }
}

#[test]
fn links_lead_to_what_there_is_and_names_are_given_once() {
    let page = parsed(&html(&[report(), report()]));
    let mut ids: Vec<&str> = all(&page, "[id]").iter().filter_map(|e| e.value().attr("id")).collect();
    for link in all(&page, "a").iter().filter_map(|a| a.value().attr("href")) {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn routing_logits_and_decode_are_told() {
    let page = text(&parsed(&html(&[report()])).root_element());
    for said in [
        "1 of 97517568 choices of experts are not the reference's from the candidate's own scores",
        "global lens: top-1 agreement 507/512",
        "top-1 agreement 62/64",
        "1 decoded token that rounding cannot explain",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_report_of_nothing_is_a_page_too() {
    let mut empty = report();
    empty.sites.clear();
    empty.decode = None;
    parsed(&html(&[empty]));
    parsed(&html(&[]));
}
