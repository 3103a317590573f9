//! What values say of how they were made, where nothing that is known explains them: an operator's equation, solved for one of
//! its quantities. [`mixture`] has the experts of each token and their weights, [`weighing`] the keys that a token saw,
//! [`norm`] a norm's statistic and weight, [`routing`] what a router's weights are divided by, [`rotation`] the frequencies of a
//! table, [`directions`] those in which a product is off, [`penalty`] what a sampler made of logits; [`rule`], which of many have
//! something in common; [`least_squares`].

mod directions;
mod least_squares;
mod mixture;
mod norm;
mod penalty;
mod rotation;
mod routing;
mod rule;
mod weighing;

use super::Bench;
use crate::failure::Failure;

/// Sentences on what was done at a site, none where its equation has no solution that says so.
pub(in crate::diagnose) fn describe(bench: &Bench<'_, '_>) -> Result<Vec<String>, Failure> {
    let mut said = mixture::describe(bench)?;
    said.extend(weighing::describe(bench)?);
    said.extend(norm::describe(bench)?);
    said.extend(routing::describe(bench)?);
    said.extend(rotation::describe(bench)?);
    said.extend(penalty::describe(bench));
    said.extend(directions::describe(bench));
    Ok(said)
}
