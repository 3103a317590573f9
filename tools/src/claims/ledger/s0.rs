//! The teardown of M2.7.

mod context;
mod cost;
mod parameters;
mod premises;
mod quoted;
mod shapes;

use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Releases;

/// Its claims, in the specification's order.
pub(super) fn claims(releases: &Releases) -> Vec<Claim> {
    let m = &releases.m27;
    let mut all = [
        parameters::total(m),
        parameters::active(m),
        shapes::claims(m),
        cost::claims(m),
        context::claims(m),
        quoted::claims(m),
    ]
    .concat();
    all.sort_by_key(|claim| claim.id);
    all
}
