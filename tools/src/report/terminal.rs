//! The report for reading: a line a layer, then what is wrong.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstream::adapter::strip_str;
use owo_colors::OwoColorize;

use super::content::{Conclusion, Report};
use super::detection::{self, Unshown};
use super::exactness;
use super::figures::counted;
use super::finding::{NOT_CAPTURED, another_token, lines, suspicion};
use super::gains;
use super::logits::Logits;
use super::place::{Row, at, is_table, of_step};
use super::table::{self, columns};
use crate::judge::decoded::Cause;
use crate::judge::lens::Lens;
use crate::judge::verdict::{JudgedBy, SiteReport, Verdict};
use crate::report::output::Output;

/// Faults that are told in full.
const TOLD: usize = 10;

/// Columns of the table of layers beside names and the local lens's signs.
const FIGURES: usize = 52;

/// The table's columns after the layers' names, in two lines.
const TITLES: [[&str; 6]; 2] =
    [["", "added", "", "", "noise", ""], ["local", "here", "inherited", "total", "floor", "percentile"]];

/// Prints a report.
pub fn print(report: &Report, output: Output) {
    output.say(&text(report));
}

/// Prints one report; of several, those with faults and what is suspicious, why others are inconclusive, and a table of all.
pub fn print_all(reports: &[Report], output: Output) {
    output.say(&text_of_all(reports));
}

/// The same as text without colours.
pub fn plain(reports: &[Report]) -> String {
    strip_str(&text_of_all(reports)).to_string()
}

/// The same, one line of each.
pub fn plain_summary(report: &Report) -> String {
    strip_str(&summary(report)).to_string()
}

fn text_of_all(reports: &[Report]) -> String {
    if let [one] = reports {
        return text(one);
    }
    let is_told = |report: &&Report| matches!(report.conclusion(), Conclusion::Fail | Conclusion::Suspicious);
    let (found, others): (Vec<&Report>, Vec<&Report>) = reports.iter().partition(is_told);
    let shown = |report: &&Report| {
        let why = report.why_inconclusive().map(|why| format!(": {why}")).unwrap_or_default();
        let text = format!("{why}{}", shown(report));
        (!text.is_empty()).then(|| format!("{}{text}", report.header.model))
    };
    let mut told: Vec<String> = found.into_iter().map(text).collect();
    told.extend(others.iter().filter_map(shown));
    told.push(table::of_reports(reports));
    told.iter().map(|text| text.trim_end()).collect::<Vec<_>>().join("\n")
}

fn text(report: &Report) -> String {
    let mut text = header(report);
    text += &layers(report);
    text += &missing(report);
    text += &findings(report);
    text += &twin(report);
    text += &exact(report);
    text += &routing(report);
    text += &logits(report);
    text += &decode(report);
    text += &shown(report);
    for sentence in report.other_failures() {
        let _ = writeln!(text, "\n{sentence}");
    }
    if let Some(why) = report.why_inconclusive() {
        let _ = writeln!(text, "\n{why}");
    }
    let _ = writeln!(text, "\n{}", summary(report));
    text
}

/// One line: the verdict, and how many sites have which.
pub fn summary(report: &Report) -> String {
    let counts: Vec<String> = report.counts().into_iter().map(|(_, count)| count).collect();
    let word = report.conclusion();
    let word = match word {
        Conclusion::Fail => word.red().bold().to_string(),
        Conclusion::Suspicious | Conclusion::Inconclusive => word.yellow().bold().to_string(),
        Conclusion::Pass => word.green().bold().to_string(),
    };
    let unread = match report.header.unread {
        0 => String::new(),
        unread => format!("; not compared, as names are not known: {}", counted(unread, "tensor")),
    };
    format!("{word}  {}: {}{unread}", counted(report.sites.len(), "comparison"), counts.join(", "))
}

fn header(report: &Report) -> String {
    let header = &report.header;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{:<10} {value}", name.dimmed());
    };
    line("model", &format!("{}: {}", header.model, header.size));
    line("candidate", &header.candidate);
    line("precision", &format!("{} ({})", header.precision, header.precision_from));
    line("semantics", &header.semantics.to_string());
    line("prompt", &header.prompt());
    line("coverage", &report.coverage.to_string());
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
    let names = rows.keys().map(|row| row.to_string().len()).max().unwrap_or(0).max(7);
    let room = columns().saturating_sub(names + FIGURES).max(8);
    let width = rows.values().copied().max().unwrap_or(0).clamp(5, room);
    for [local, added, inherited, total, noise, percentile] in TITLES {
        let name = if local.is_empty() { "" } else { "layer" };
        let title = format!(
            "{name:>names$}  {local:width$}  {added:>7}  {inherited:>9}  {total:>7}  {noise:>7}  {percentile:>10}"
        );
        let _ = write!(text, "\n{}", title.trim_end().dimmed());
    }
    text += "\n";
    for row in rows.into_keys() {
        let of_row = |lens: Lens| report.sites.iter().filter(move |s| s.lens == lens && Row::of(s.site) == row);
        let name = row.to_string();
        let glyphs: Vec<Verdict> = of_row(Lens::Local).map(|s| s.verdict).collect();
        let strip = |part: &[Verdict]| part.iter().map(|verdict| glyph(*verdict)).collect::<String>();
        let (first, more) = glyphs.split_at(glyphs.len().min(width));
        let padding = " ".repeat(width - first.len());
        let last = |lens| of_row(lens).rfind(|s| !is_table(s.site));
        let (layer, global) = (last(Lens::Layer), last(Lens::Global));
        let figure = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.1e}"));
        let _ = writeln!(
            text,
            "{name:>names$}  {}{padding}  {:>7}  {:>9}  {:>7}  {:>7}  {:>10}",
            strip(first),
            figure(layer.map(|s| s.deviation)),
            figure(layer.and_then(|s| s.carried)),
            figure(global.map(|s| s.deviation)),
            figure(global.and_then(|s| s.floor)),
            global.and_then(|s| s.quantile).map_or_else(String::new, |q| format!("{:.0} %", 100.0 * q)),
        );
        for part in more.chunks(width) {
            let _ = writeln!(text, "{:names$}  {}", "", strip(part));
        }
    }
    let _ = writeln!(text, "{}", "= exact  · within  t tie  ? inconclusive  ! suspicious  X fault".dimmed());
    text
}

fn glyph(verdict: Verdict) -> String {
    match verdict {
        Verdict::Exact => "=".green().to_string(),
        Verdict::Within => "·".green().to_string(),
        Verdict::Tie => "t".cyan().to_string(),
        Verdict::Missing => " ".to_owned(),
        Verdict::Inconclusive => "?".yellow().to_string(),
        Verdict::Suspicious => "!".yellow().to_string(),
        Verdict::Fault => "X".red().bold().to_string(),
    }
}

fn missing(report: &Report) -> String {
    let kinds = report.missing_kinds();
    if kinds.is_empty() {
        return String::new();
    }
    format!("{}  {}\n", NOT_CAPTURED.dimmed(), kinds.join(", "))
}

fn findings(report: &Report) -> String {
    let mut text = String::new();
    let faults = report.faults();
    for fault in faults.iter().take(TOLD) {
        text += &finding(fault, report);
    }
    if faults.len() > TOLD {
        let more = counted(faults.len() - TOLD, "more fault");
        let _ = writeln!(text, "\nand {more}, which may follow from these");
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

/// Whether every value is the one that the precision's own order of sums gives.
fn exact(report: &Report) -> String {
    let Some(exact) = &report.exact else { return String::new() };
    let mut text = format!("exact twin: {}\n", exactness::sentence(exact));
    let said = if exact.binding { "fault".red().bold().to_string() } else { "differs".cyan().to_string() };
    for bits in exact.differing().take(TOLD) {
        let _ = writeln!(text, "  {said} {}: {}", of_step(bits.step, bits.site), exactness::difference(bits));
    }
    let more = exact.differing().count().saturating_sub(TOLD);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    text
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
    for logits in Logits::of(report) {
        let _ = writeln!(text, "logits ({}): {logits}", logits.lens);
    }
    text
}

/// What the candidate's values can show, if that was asked: counts, and what they cannot.
fn shown(report: &Report) -> String {
    let Some(detected) = &report.detection else { return String::new() };
    let mut text = format!("\ncoverage of mistakes: {}\n", detection::mistakes(detected));
    text += &unshown(&detection::unshown_mistakes(detected));
    if let Some(experts) = detection::experts(detected) {
        let _ = writeln!(text, "\ncoverage of experts: {experts}");
        text += &unshown(&detection::unshown_experts(detected));
    }
    let _ = writeln!(text, "\ncoverage of gains: {}", gains::gains(detected));
    text += &unshown(&gains::unshown_gains(detected));
    text
}

fn unshown(groups: &[Unshown]) -> String {
    let line = |group: &Unshown| format!("  {}:\n    {}\n", group.why.dimmed(), group.what.join(", "));
    groups.iter().map(line).collect()
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
