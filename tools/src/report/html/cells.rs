//! What a map of the model has: a row a layer, a column a site, and after these the outputs under the other lenses.

use std::collections::{BTreeMap, BTreeSet};

use reference::site::VisionSite;
use reference::{LayerSite, Site};

use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::report::content::Report;
use crate::report::place::{Row, kind};

/// Faults whose histogram and map of errors are kept.
const FAULTS: usize = 40;
/// Suspicious sites whose are.
const SUSPICIOUS: usize = 20;
/// Others of each column whose are.
const WORST: usize = 2;

/// A column, in the order in which a token meets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    /// A site under the local lens, layer 0 standing for all, and the first pass for the second.
    Local(Site),
    /// The layers' outputs and the logits under the layer lens.
    Layer,
    /// The same under the global lens.
    Global,
}

/// A site under a lens, in all forward passes.
#[derive(Debug, Clone)]
pub(super) struct Cell<'r> {
    /// A name that no other element of the page has.
    pub id: String,
    /// The pass that stands out most.
    pub worst: &'r SiteReport,
    /// Passes in which it was judged.
    pub passes: usize,
    /// Passes with a fault.
    pub faulty: Vec<usize>,
    /// Whether its histogram and map of errors are kept.
    pub kept: bool,
}

/// Row and column.
pub(super) type Place = (Row, Column);

/// A map's contents.
pub(super) struct Cells<'r> {
    /// Where there is something.
    pub at: BTreeMap<Place, Cell<'r>>,
    /// Rows that any column has.
    pub rows: BTreeSet<Row>,
    /// Columns that any row has.
    pub columns: Vec<Column>,
    /// Places that the candidate does not show.
    pub missing: BTreeSet<Place>,
}

impl<'r> Cells<'r> {
    /// Of a report, the page's so many-th.
    pub(super) fn of(number: usize, report: &'r Report) -> Self {
        let mut at: BTreeMap<Place, Cell<'r>> = BTreeMap::new();
        for site in &report.sites {
            let place = (Row::of(site.site), Column::of(site.lens, site.site));
            let id = format!("cell{number}-{}", at.len());
            let cell = at.entry(place).or_insert(Cell { id, worst: site, passes: 0, faulty: Vec::new(), kept: false });
            cell.passes += 1;
            if site.verdict == Verdict::Fault {
                cell.faulty.push(site.step);
            }
            if severity(site) > severity(cell.worst) {
                cell.worst = site;
            }
        }
        let columns: BTreeSet<Column> = at.keys().map(|(_, column)| *column).collect();
        let missing = report.missing.iter().map(|site| (Row::of(*site), Column::of(Lens::Local, *site)));
        let missing = missing.filter(|place| columns.contains(&place.1) && !at.contains_key(place)).collect();
        let rows = at.keys().map(|(row, _)| *row).collect();
        let mut cells = Cells { at, rows, columns: columns.into_iter().collect(), missing };
        cells.keep();
        cells
    }

    /// Faulty cells, in the order in which a token meets them, the local lens first: it names the operator.
    pub(super) fn with(&self, verdict: Verdict) -> Vec<&Cell<'r>> {
        let mut found: Vec<(&Place, &Cell<'_>)> =
            self.at.iter().filter(|(_, cell)| cell.worst.verdict == verdict).collect();
        found.sort_by_key(|((row, column), _)| match column {
            Column::Local(site) => (0, *row, Some(*site)),
            Column::Layer => (1, *row, None),
            Column::Global => (2, *row, None),
        });
        found.into_iter().map(|(_, cell)| cell).collect()
    }

    /// The cell that stands out most.
    pub(super) fn first(&self) -> Option<&Cell<'r>> {
        let fault = self.with(Verdict::Fault).first().copied();
        fault.or_else(|| {
            self.at.values().max_by(|a, b| severity(a.worst).partial_cmp(&severity(b.worst)).expect("no NaN"))
        })
    }

    /// Marks the cells whose pictures are kept.
    fn keep(&mut self) {
        let faults = self.with(Verdict::Fault).into_iter().take(FAULTS);
        let suspicious = self.with(Verdict::Suspicious).into_iter().take(SUSPICIOUS);
        let mut kept: BTreeSet<String> = faults.chain(suspicious).map(|cell| cell.id.clone()).collect();
        for column in &self.columns {
            let mut cells: Vec<&Cell<'_>> =
                self.at.iter().filter(|((_, of), _)| of == column).map(|(_, cell)| cell).collect();
            cells.sort_by(|a, b| ratio(b.worst).total_cmp(&ratio(a.worst)));
            kept.extend(cells.into_iter().take(WORST).map(|cell| cell.id.clone()));
        }
        for cell in self.at.values_mut() {
            cell.kept = kept.contains(&cell.id) && (cell.worst.spread.is_some() || cell.worst.chosen.is_some());
        }
    }

    /// What the page says of the pictures that it leaves out.
    pub(super) fn kept() -> String {
        format!(
            "Histograms, maps of errors and pictures of choices are kept for the first {FAULTS} faults, the first {SUSPICIOUS} suspicious \
             sites, and the {WORST} worst of each column; --sites shows another's."
        )
    }
}

impl Column {
    fn of(lens: Lens, site: Site) -> Self {
        match (lens, site) {
            (Lens::Local, Site::Layer(_, site)) => Column::Local(Site::Layer(0, site)),
            (Lens::Local, Site::Vision(_, VisionSite::Layer(_, site))) => {
                Column::Local(Site::Vision(0, VisionSite::Layer(0, site)))
            }
            (Lens::Local, Site::Vision(_, site)) => Column::Local(Site::Vision(0, site)),
            (Lens::Local, site) => Column::Local(site),
            (Lens::Layer, _) => Column::Layer,
            (Lens::Global, _) => Column::Global,
        }
    }

    /// What it is called.
    pub(super) fn name(self) -> String {
        match self {
            Column::Local(Site::Layer(_, LayerSite::Output)) => "output".to_owned(),
            Column::Local(site) => kind(site),
            Column::Layer => "layer lens".to_owned(),
            Column::Global => "global lens".to_owned(),
        }
    }
}

/// Error to bound of the worst value.
pub(super) fn ratio(site: &SiteReport) -> f64 {
    site.worst.as_ref().map_or(0.0, |worst| worst.ratio)
}

fn severity(site: &SiteReport) -> (Verdict, f64) {
    (site.verdict, ratio(site))
}
