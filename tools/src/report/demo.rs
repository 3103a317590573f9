//! What a demonstration shows, in a few sentences: what was made, what was seen, what to type next.

use std::fmt::Write;
use std::path::Path;

use owo_colors::OwoColorize;

use super::content::Report;
use super::diagnosis::{facts, rest};
use super::figures::{apart, counted};
use super::place::named;
use super::terminal::summary;
use super::wrapped::wrapped;
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::diagnosis::Diagnosis;
use crate::judge::lens::Lens;
use crate::judge::verdict::Verdict;

const INDENT: &str = "  ";

/// How a model's values get into a file, and what is typed then.
const OWN: &str = r#"  1. Copy tools/capture/capture.py beside your script, and let it write a dump:

         with Capture(model) as captured:
             model(input_ids)
         captured.save("dump.safetensors")

  2. parity verify MODEL dump.safetensors    MODEL: its folder, as on the hub
  3. parity diagnose MODEL dump.safetensors  if that ends in FAIL or SUSPICIOUS"#;

/// What was made, and what was found of it.
pub struct Shown<'a> {
    /// The built-in model's layers, heads and experts, in words.
    pub size: String,
    /// The mistake that was made.
    pub assumed: &'a Assumed,
    /// Where the dump is.
    pub dump: &'a Path,
    /// The pages, with what each shows.
    pub pages: [(&'a Path, &'static str); 2],
    /// What `parity verify` says.
    pub report: &'a Report,
    /// What `parity diagnose` says.
    pub diagnosis: &'a Diagnosis,
}

/// The demonstration for reading.
pub fn text(shown: &Shown<'_>) -> String {
    let (model, dump) = (&shown.report.header.model, shown.dump.display());
    let mistake = shown.assumed.mistake;
    let mut text = String::new();
    let mut part = |title: &str, body: &str| {
        let _ = writeln!(text, "{}\n{}\n", title.bold(), body.trim_end());
    };
    let made = format!(
        "{model} is a small model that is part of parity: {}. Its prompt was run with one known mistake, {}: {}. What \
         every operator computed is in {dump}, and nothing there names the mistake.",
        shown.size, mistake.name, mistake.about
    );
    part("What was made", &wrapped(INDENT, &made));
    part("What `parity verify` sees", &verified(shown.report));
    part("What `parity diagnose` names", &diagnosed(shown));
    let pages = shown.pages.map(|(page, what)| format!("  {}  {what}\n", page.display()));
    part("To look at in a browser", &pages.concat());
    let again =
        [format!("verify {model} {dump}"), format!("diagnose {model} {dump}"), format!("mistakes {}", mistake.name)];
    part("The same by hand, and more about the mistake", &again.map(|typed| format!("  parity {typed}\n")).concat());
    part("For your own model", OWN);
    text
}

/// The verdict, the first fault, and how much before it is right.
fn verified(report: &Report) -> String {
    let faults = report.faults();
    let Some(fault) = faults.first() else {
        let unseen = "No operator is outside its error bound: this model and its prompt do not show the mistake.";
        return format!("  {}\n{}", summary(report), wrapped(INDENT, unseen));
    };
    let of_local = || report.sites.iter().filter(|site| site.lens == Lens::Local);
    let before = of_local().take_while(|site| site.verdict != Verdict::Fault).count();
    let mut said = format!("The first operator that is wrong is {}", fault.site);
    if let Some(worst) = &fault.worst {
        let [candidate, reference] = apart(worst.candidate, worst.reference);
        let place = named(fault, &worst.index, report.header.head_dim);
        let _ = write!(said, ": at {place} it gives {candidate}, where {reference} ± {:.1e} is right", worst.bound);
    }
    let operators = counted(before, "operator");
    let rest = "so the mistake is made here, and faults further on may follow from it";
    let _ = write!(said, ". {operators} before it gave what is right for what it was given: {rest}.");
    format!("  {}\n{}", summary(report), wrapped(INDENT, &said))
}

/// The facts of each explanation that a newcomer needs, and what is left.
fn diagnosed(shown: &Shown<'_>) -> String {
    let told = ["mistake", "", "right", "holds in", "leaves"];
    let all = shown.diagnosis.explained.iter().flat_map(facts).filter(|(label, _)| told.contains(label));
    let lines = all.map(|(label, fact)| wrapped(&format!("{INDENT}{label:<10}"), &fact) + "\n");
    lines.chain([format!("  {}\n", rest(shown.diagnosis))]).collect()
}
