//! The teardown of M3.

mod attention;
mod budget;
mod cost;
mod memory;
mod networks;
mod parameters;
mod premises;
mod shapes;
mod speed;
mod summary;
mod vision;

use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Releases;

/// Its claims, in the specification's order.
pub(super) fn claims(releases: &Releases) -> Vec<Claim> {
    let m = &releases.m3;
    let mut all = [
        parameters::claims(m),
        vision::claims(m),
        summary::shares(m),
        summary::active(m),
        shapes::claims(m),
        shapes::against_m27(releases),
        speed::formulas(m),
        speed::layers(m),
        attention::claims(m),
        networks::claims(m),
        cost::claims(m),
        memory::claims(m),
        budget::claims(m),
    ]
    .concat();
    all.sort_by_key(|claim| claim.id);
    all
}
