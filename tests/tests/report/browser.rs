//! The page as a browser shows it: `PARITY_CHROMIUM`, or one that is installed.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use tools::report::html::html;

use super::page::{all, text};
use super::report;

/// Until everything is loaded, in milliseconds; the fastest of some visits counts, because the machine may do other work.
const LIMIT: f64 = 2000.0;
const VISITS: usize = 3;

/// What a person does, with the keyboard alone; what came of it is left in the page.
const VISITOR: &str = r#"
addEventListener("load", () => setTimeout(() => {
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const said = [];
  const say = (what) => said.push(`${what}: ${document.activeElement.getAttribute("aria-label")} / ${document.querySelector(".detail h4").textContent}`);
  document.querySelector('.map [tabindex="0"]').focus();
  say("first");
  press("ArrowDown");
  say("moved");
  press("Enter");
  say("chosen");
  const painted = document.querySelectorAll(".detail canvas").length;
  press("ArrowLeft");
  press(" ");
  say("left");
  const note = document.createElement("pre");
  note.id = "visited";
  note.textContent = said.join("\n");
  note.dataset.loaded = performance.getEntriesByType("navigation")[0].loadEventStart;
  note.dataset.selected = document.querySelectorAll(".map [aria-selected=true]").length;
  note.dataset.painted = painted;
  document.body.append(note);
}));
"#;

/// The page after a visit, and what was written to the console.
fn visit(page: &str) -> (String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("page.html");
    let script = format!("<script>{VISITOR}</script></body>");
    fs::write(&path, page.replace("</body>", &script)).expect("writable");
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(folder.path().join("profile"));
    let mut command = Command::new(env!("CHROMIUM"));
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]);
    command.arg("--virtual-time-budget=2000").arg(profile).arg(format!("file://{}", path.display()));
    let output = command.output().expect("Chromium runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
#[cfg_attr(not(chromium), ignore = "no Chromium is installed, and PARITY_CHROMIUM names none")]
fn the_page_loads_and_the_keyboard_moves_the_selection() {
    let page = html(&[report()]);
    let fastest = (0..VISITS).map(|_| the_keyboard_moves_the_selection(&page)).find(|&loaded| loaded < LIMIT);
    assert!(fastest.is_some(), "loaded after more than {LIMIT} ms, {VISITS} times");
}

/// Until everything was loaded, in milliseconds.
fn the_keyboard_moves_the_selection(page: &str) -> f64 {
    let (page, console) = visit(page);
    let errors: Vec<&str> = console.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(errors, Vec::<&str>::new());
    let page = scraper::Html::parse_document(&page);
    let note = *all(&page, "#visited").first().expect("the visitor was there");
    let data = |name: &str| note.value().attr(name).and_then(|x| x.parse::<f64>().ok()).expect("a number");
    assert_eq!((data("data-selected"), data("data-painted")), (1.0, 1.0));
    let said = text(&note);
    let site = |layer: usize, kind: &str| format!("model.layers.{layer}.self_attn.{kind}");
    let expected = [
        ("first", site(7, "q_norm"), site(7, "q_norm")),
        ("moved", site(8, "q_norm"), site(7, "q_norm")),
        ("chosen", site(8, "q_norm"), site(8, "q_norm")),
        ("left", site(8, "v_proj"), site(8, "v_proj")),
    ];
    for ((what, focused, shown), line) in expected.iter().zip(said.lines()) {
        assert!(line.starts_with(&format!("{what}: {focused},")) && line.ends_with(&format!("/ {shown}")), "{said}");
    }
    data("data-loaded")
}
