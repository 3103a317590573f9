//! The report for reading: a line a layer, then what is wrong.

use std::collections::BTreeMap;
use std::fmt::Write;

use owo_colors::OwoColorize;

use super::content::Report;
use super::finding::{another_token, divergence, lines, suspicion};
use super::place::{Row, at, is_table};
use super::table;
use crate::judge::decoded::Cause;
use crate::judge::lens::Lens;
use crate::judge::verdict::{JudgedBy, SiteReport, Verdict};
use crate::report::output::Output;

/// Faults that are told in full.
const TOLD: usize = 10;

/// Prints a report.
pub fn print(report: &Report, output: Output) {
    let mut text = header(report);
    text += &layers(report);
    text += &missing(report);
    text += &findings(report);
    text += &twin(report);
    text += &routing(report);
    text += &logits(report);
    text += &decode(report);
    let _ = writeln!(text, "\n{}", summary(report));
    output.say(&text);
}

/// Prints one report; of several, those with faults and a table of all.
pub fn print_all(reports: &[Report], output: Output) {
    if let [one] = reports {
        return print(one, output);
    }
    let faulty = reports.iter().filter(|report| report.verdict() == Verdict::Fault);
    faulty.for_each(|report| print(report, output));
    output.say(&table::of_reports(reports));
}

/// One line: the verdict, and how many sites have which.
pub fn summary(report: &Report) -> String {
    let count = |verdict| report.count(verdict);
    let kinds =
        [Verdict::Exact, Verdict::Within, Verdict::Tie, Verdict::Mistrusted, Verdict::Suspicious, Verdict::Fault];
    let counts: Vec<String> =
        kinds.iter().filter(|kind| count(**kind) > 0).map(|kind| format!("{} {kind}", count(*kind))).collect();
    let verdict = match report.verdict() {
        Verdict::Fault => "FAIL".red().bold().to_string(),
        _ => "PASS".green().bold().to_string(),
    };
    format!("{verdict}  {} comparisons: {}", report.sites.len(), counts.join(", "))
}

fn header(report: &Report) -> String {
    let header = &report.header;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{:<10} {value}", name.dimmed());
    };
    line("model", &format!("{}: {}", header.model, header.size));
    line("candidate", &header.candidate);
    line("precision", &format!("{} ({})", header.contract, header.contract_from));
    line("semantics", &header.semantics.to_string());
    line("prompt", &header.prompt());
    for note in &header.notes {
        line("note", note);
    }
    text
}

/// Rows of the table: what is before the layers, each layer, what is after.
fn layers(report: &Report) -> String {
    let mut text = String::new();
    let mut rows = BTreeMap::<Row, usize>::new();
    for site in &report.sites {
        *rows.entry(Row::of(site.site)).or_default() += usize::from(site.lens == Lens::Local);
    }
    let width = rows.values().copied().max().unwrap_or(0).max(5);
    let names = rows.keys().map(|row| row.to_string().len()).max().unwrap_or(0).max(7);
    let title = format!(
        "{:>names$}  {:width$}  {:>8}  {:>8}  {:>8}  {:>8}  {:>5}",
        "layer", "local", "makes", "carries", "drift", "noise", "above"
    );
    let _ = writeln!(text, "\n{}", title.dimmed());
    for row in rows.into_keys() {
        let of_row = |lens: Lens| report.sites.iter().filter(move |s| s.lens == lens && Row::of(s.site) == row);
        let name = row.to_string();
        let glyphs: Vec<Verdict> = of_row(Lens::Local).map(|s| s.verdict).collect();
        let strip: String = glyphs.iter().map(|verdict| glyph(*verdict)).collect();
        let padding = " ".repeat(width.saturating_sub(glyphs.len()));
        let last = |lens| of_row(lens).rfind(|s| !is_table(s.site));
        let (layer, global) = (last(Lens::Layer), last(Lens::Global));
        let figure = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.1e}"));
        let _ = writeln!(
            text,
            "{name:>names$}  {strip}{padding}  {:>8}  {:>8}  {:>8}  {:>8}  {:>5}",
            figure(layer.map(|s| s.deviation)),
            figure(layer.and_then(|s| s.carried)),
            figure(global.map(|s| s.deviation)),
            figure(global.and_then(|s| s.floor)),
            global.and_then(|s| s.quantile).map_or_else(String::new, |q| format!("{:.0} %", 100.0 * q)),
        );
    }
    let _ = writeln!(text, "{}", "= exact  · within  t tie  ? mistrusted  ! suspicious  X fault".dimmed());
    text
}

fn glyph(verdict: Verdict) -> String {
    match verdict {
        Verdict::Exact => "=".green().to_string(),
        Verdict::Within => "·".green().to_string(),
        Verdict::Tie => "t".cyan().to_string(),
        Verdict::Missing => " ".to_owned(),
        Verdict::Mistrusted => "?".yellow().to_string(),
        Verdict::Suspicious => "!".yellow().to_string(),
        Verdict::Fault => "X".red().bold().to_string(),
    }
}

fn missing(report: &Report) -> String {
    let kinds = report.missing_kinds();
    if kinds.is_empty() {
        return String::new();
    }
    format!("{}  {}; these operators are judged together with the next\n", "not shown".dimmed(), kinds.join(", "))
}

fn findings(report: &Report) -> String {
    let mut text = String::new();
    let faults = report.faults();
    for fault in faults.iter().take(TOLD) {
        text += &finding(fault, report);
    }
    if faults.len() > TOLD {
        let _ = writeln!(text, "\nand {} more faults, which may follow from these", faults.len() - TOLD);
    }
    let suspicious: Vec<&SiteReport> = report.sites.iter().filter(|s| s.verdict == Verdict::Suspicious).collect();
    for site in suspicious.iter().take(TOLD) {
        let _ = writeln!(text, "\n{} {} ({}): {}", "suspicious".yellow(), site.site, site.lens, suspicion(site));
    }
    text
}

fn finding(fault: &SiteReport, report: &Report) -> String {
    let mut text = format!("\n{} {} under the {} lens\n", "fault".red().bold(), at(fault).bold(), fault.lens);
    for line in lines(fault, report) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// How many values are those that the reference computes when it rounds as the candidate does.
fn twin(report: &Report) -> String {
    let Some([equal, expected, count]) = report.twin() else { return String::new() };
    let share = |x: f64| 100.0 * x / count;
    format!(
        "\ntwin: {:.2} % of values are bit for bit what this precision gives, {:.2} % expected\n",
        share(equal),
        share(expected)
    )
}

/// Choices of experts that are not the reference's, by layer, beside how many rounding makes so.
fn routing(report: &Report) -> String {
    let choices: Vec<&SiteReport> = report.sites.iter().filter(|s| s.judged_by == JudgedBy::Intervals).collect();
    let flips = |site: &SiteReport| site.flips.len();
    let seen: usize = choices.iter().map(|site| flips(site)).sum();
    if seen == 0 {
        return String::new();
    }
    let expected: f64 = choices.iter().filter_map(|site| site.unequal_expected).sum();
    let of: usize = choices.iter().map(|site| site.count).sum();
    let mut text = format!("\nrouting: {seen} of {of} choices are other experts, {expected:.1} expected;");
    for site in choices.into_iter().filter(|site| flips(site) > 0).take(TOLD) {
        let expected = site.unequal_expected.unwrap_or(0.0);
        let _ = write!(text, " {} {} ({expected:.1})", Row::of(site.site), flips(site));
    }
    text + "\n"
}

/// What the logits' errors do, under each lens.
fn logits(report: &Report) -> String {
    let mut text = String::from("\n");
    for lens in [Lens::Local, Lens::Global] {
        let mut of_lens = report.sites.iter().filter(|site| site.lens == lens);
        let Some(site) = of_lens.find(|site| site.likelihood.is_some()) else { continue };
        let same = site.tops.iter().filter(|top| top.candidate == top.reference).count();
        let said = divergence(site).unwrap_or_default();
        let _ = writeln!(
            text,
            "logits ({lens}): likeliest token the reference's {same} of {} times; {said}",
            site.tops.len()
        );
    }
    text
}

fn decode(report: &Report) -> String {
    let Some(decoded) = &report.decode else { return String::new() };
    let agree = decoded.tokens.len() - decoded.divergences.len();
    let mut text = format!("\ndecode: {agree} of {} tokens are the reference's", decoded.tokens.len());
    let smallest = decoded.margins.iter().copied().fold(f64::INFINITY, f64::min);
    let _ = writeln!(text, ", smallest margin {smallest:.3e}");
    for divergence in decoded.divergences.iter().take(TOLD) {
        let said = match divergence.cause {
            Cause::Fault => "fault".red().bold().to_string(),
            cause => cause.cyan().to_string(),
        };
        let _ = writeln!(text, "  {said} at token {}: {}", divergence.position, another_token(divergence));
    }
    text
}
