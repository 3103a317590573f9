//! Tables: lines for rows, columns as wide as they must be.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table};

use super::content::{Conclusion, Report};
use super::coverage::Coverage;
use crate::judge::lens::Lens;
use crate::judge::verdict::Verdict;

/// Columns that a line for each of several reports takes with all of its figures.
const ALL: usize = 130;

/// Columns that tables use: the terminal's from 80 to 200, and 80 where there is no terminal.
pub fn columns() -> usize {
    Table::new().width().map_or(80, |width| usize::from(width).clamp(80, 200))
}

/// An empty table.
pub fn with_header(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.set_width(u16::try_from(columns()).expect("at most 200"));
    table
        .load_style(NOTHING.header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().copied());
    table
}

/// A cell of a number.
pub fn number(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

/// A cell with a verdict.
pub fn passed(passed: bool) -> Cell {
    if passed {
        Cell::new("PASS").fg(Color::Green)
    } else {
        Cell::new("FAIL").fg(Color::Red).add_attribute(Attribute::Bold)
    }
}

/// A cell with what to make of a report.
fn concluded(conclusion: Conclusion) -> Cell {
    let cell = Cell::new(conclusion);
    match conclusion {
        Conclusion::Pass => cell.fg(Color::Green),
        Conclusion::Suspicious | Conclusion::Inconclusive => cell.fg(Color::Yellow),
        Conclusion::Fail => cell.fg(Color::Red).add_attribute(Attribute::Bold),
    }
}

/// Several reports, a line each, with fewer columns where there is no room for all.
pub fn of_reports(reports: &[Report]) -> String {
    let is_wide = columns() >= ALL;
    let shown = |name: &str| is_wide || !["layers", "tokens", "within", "tie", "other"].contains(&name);
    let mut rows = Vec::new();
    for report in reports {
        let count = |verdict| report.count(verdict).to_string();
        let other = report.count(Verdict::Inconclusive) + report.count(Verdict::Suspicious);
        let total = report.sites.iter().rev().find(|site| site.lens == Lens::Global);
        let figure = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.1e}"));
        let decode = report.decode.as_ref().map_or_else(String::new, |decoded| {
            format!("{}/{}", decoded.tokens.len() - decoded.divergences.len(), decoded.tokens.len())
        });
        let Coverage { operators, alone, within } = &report.coverage;
        rows.push([
            ("layers", report.header.layers.to_string()),
            ("tokens", report.header.steps.iter().sum::<usize>().to_string()),
            ("operators", format!("{}/{}", alone.len() + within.len(), operators.len())),
            ("exact", count(Verdict::Exact)),
            ("within", count(Verdict::Within)),
            ("tie", count(Verdict::Tie)),
            ("other", other.to_string()),
            ("fault", (report.count(Verdict::Fault) + report.not_exact()).to_string()),
            ("total", figure(total.map(|site| site.deviation))),
            ("floor", figure(total.and_then(|site| site.floor))),
            ("decode", decode),
        ]);
    }
    let names = rows.first().map(|row| row.each_ref().map(|(name, _)| *name)).unwrap_or_default();
    let header: Vec<&str> = names.into_iter().filter(|name| shown(name)).collect();
    let mut table = with_header(&[&["model"], &header[..], &[""]].concat());
    if let Some(verdict) = table.column_mut(header.len() + 1) {
        verdict.set_constraint(ColumnConstraint::ContentWidth);
    }
    for (report, row) in reports.iter().zip(rows) {
        let figures = row.into_iter().filter(|(name, _)| shown(name)).map(|(_, figure)| number(figure));
        let model = Cell::new(&report.header.model);
        table.add_row(std::iter::once(model).chain(figures).chain([concluded(report.conclusion())]));
    }
    format!(
        "{table}\noperators: compared, alone or within a segment, of all.\ntotal: relative difference of the logits; floor: \
         the noise floor, the same of right\nimplementations that round as this one.\ndecode: top-1 agreement; where it is not \
         full, the others' margins are below the\nnoise."
    )
}
