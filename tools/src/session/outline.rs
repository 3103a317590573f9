//! What reports say beside what is found; and the reports, once all parts are there.

use std::collections::BTreeSet;

use reference::Site;
use serde::{Deserialize, Serialize};

use super::part::Part;
use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::exact::{Bits, Exactness};
use crate::judge::found::{Found, phase};
use crate::report::content::{Header, Report};
use crate::report::demands::Demands;

/// What reports say beside what is found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outline {
    /// Of each request.
    pub(super) requests: Vec<OfRequest>,
    /// Which part of the model is looked at.
    pub(super) selection: Selection,
    /// What counts as a fault beside those that are found.
    pub(super) demands: Demands,
}

/// What the report on a request says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub(super) struct OfRequest {
    /// What is compared.
    pub(super) header: Header,
    /// The model's operators, by the sites of their outputs.
    pub(super) operators: BTreeSet<Site>,
    /// Whether a value that is not the exact twin's is a fault.
    pub(super) binding: bool,
}

/// The same as it is stored: with the pictures that a report in JSON leaves out, of each pass through the tower.
#[derive(Serialize, Deserialize)]
struct Stored {
    header: Header,
    operators: BTreeSet<Site>,
    binding: bool,
    pictures: Vec<Vec<Vec<u8>>>,
}

impl From<OfRequest> for Stored {
    fn from(OfRequest { mut header, operators, binding }: OfRequest) -> Self {
        let pictures = header.shown.iter_mut().map(|pass| std::mem::take(&mut pass.pictures)).collect();
        Stored { header, operators, binding, pictures }
    }
}

impl From<Stored> for OfRequest {
    fn from(Stored { mut header, operators, binding, pictures }: Stored) -> Self {
        header.shown.iter_mut().zip(pictures).for_each(|(pass, pictures)| pass.pictures = pictures);
        OfRequest { header, operators, binding }
    }
}

impl Outline {
    /// The reports, a request each, of all parts with the requests that they are of.
    pub(super) fn reports(self, parts: Vec<(usize, Part)>) -> Result<Vec<Report>, Failure> {
        let mut by_request: Vec<Vec<Part>> = self.requests.iter().map(|_| Vec::new()).collect();
        for (request, part) in parts {
            by_request[request].push(part);
        }
        let Outline { requests, selection, demands } = self;
        requests.into_iter().zip(by_request).map(|(of, parts)| report(of, parts, &selection, &demands)).collect()
    }
}

fn report(
    OfRequest { header, operators, binding }: OfRequest,
    parts: Vec<Part>,
    selection: &Selection,
    demands: &Demands,
) -> Result<Report, Failure> {
    let (mut all, mut bits, mut decode, mut detection) = (Found::default(), None::<Vec<Bits>>, None, None);
    for part in parts {
        match part {
            Part::Lenses { found, exact } => {
                all.add(*found);
                if let Some(exact) = exact {
                    bits.get_or_insert_default().extend(exact);
                }
            }
            Part::Decode(decoded) => decode = Some(decoded),
            Part::Coverage(detected) => detection = Some(detected),
        }
    }
    let mut report = Report::of(header, all.concluded(), selection, operators)?;
    report.hold_to(demands);
    report.exact = bits.map(|mut sites| {
        sites.sort_by_key(|bits| (bits.step, phase(bits.site), bits.site));
        Exactness { sites, binding }.of(selection)
    });
    (report.decode, report.detection) = (decode, detection);
    Ok(report)
}
