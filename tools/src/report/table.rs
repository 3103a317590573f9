//! Tables: lines for rows, columns as wide as they must be.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table};

use super::content::Report;
use crate::judge::lens::Lens;
use crate::judge::verdict::Verdict;

/// An empty table.
pub fn with_header(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING.header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Disabled);
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

/// Several reports, a line each.
pub fn of_reports(reports: &[Report]) -> String {
    let mut table = with_header(&[
        "model", "layers", "tokens", "compared", "exact", "within", "tie", "other", "fault", "drift", "noise",
        "decode", "",
    ]);
    for report in reports {
        let count = |verdict| report.sites.iter().filter(|site| site.verdict == verdict).count();
        let other = count(Verdict::Mistrusted) + count(Verdict::Suspicious);
        let drift = report.sites.iter().rev().find(|site| site.lens == Lens::Global);
        let figure = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.1e}"));
        let decode = report.decode.as_ref().map_or_else(String::new, |decoded| {
            format!("{}/{}", decoded.tokens.len() - decoded.divergences.len(), decoded.tokens.len())
        });
        let numbers = [
            report.header.layers.to_string(),
            report.header.steps.iter().sum::<usize>().to_string(),
            report.sites.len().to_string(),
            count(Verdict::Exact).to_string(),
            count(Verdict::Within).to_string(),
            count(Verdict::Tie).to_string(),
            other.to_string(),
            count(Verdict::Fault).to_string(),
            figure(drift.map(|site| site.deviation)),
            figure(drift.and_then(|site| site.floor)),
            decode,
        ];
        let verdict = passed(report.verdict() != Verdict::Fault);
        table.add_row(std::iter::once(Cell::new(&report.header.model)).chain(numbers.map(number)).chain([verdict]));
    }
    format!(
        "{table}\ndrift: relative difference of the logits; noise: the same of right implementations that round as this \
         one.\ndecode: tokens that are the reference's; the others' margins are below the noise."
    )
}
