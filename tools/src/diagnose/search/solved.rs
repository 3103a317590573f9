//! What values say of how they were made, where nothing that is known explains them: an operator's equation, solved for one of
//! its quantities.
//!
//! Of any: [`tile`], rows and channels that are 0, or other ones; [`passed`], what is left out; [`stale`], rows of other sites. Of the
//! text model: [`lookup`], rows of the embedding; [`gated`], what
//! networks do inside; [`mixture`], the experts of each token and their weights; [`shared`], how much these and the shared expert
//! count; [`weighing`], the keys that a token saw, and [`probabilities`], how these count, or what was done to their [`scores`], as
//! by [`factors`]; [`blocks`], the blocks of keys; [`norm`], a norm's statistic and weight; [`routing`], what a router's weights are
//! divided by; [`rotation`], the [`frequencies`] and [`places`] of a table, and other [`tables`]; [`products`], the channels and
//! bits that a product sums, [`coarse`], its output's bits; [`directions`], those in which one is off, and channels that are
//! [`unrelated`] to the right ones; [`sums`], what stands for a summand, and what is [`added`] beside the right values; [`layout`],
//! the order of axes; [`penalty`], what a sampler made of logits. Of the vision tower: [`layer_norm`], [`axial`], [`pixels`],
//! [`features`], and [`inputs`], the layer that the projector reads. Of both: [`function`], what stands for an activation,
//! [`other_rows`] and [`other_columns`], rows and channels in place of others, and [`multiples`], rows with factors of their own.
//! [`solution`] is what is said of them, [`listed`], the first of many; [`rule`], which of many have something in common; [`curve`],
//! a function that many follow but for numbers of their own; [`sites`], which tensors may be exchanged; [`turned`] keys; [`sinks`], scores beside those of keys;
//! [`least_squares`].

mod added;
mod axial;
mod blocks;
mod coarse;
mod curve;
mod directions;
mod factors;
mod features;
mod frequencies;
mod function;
mod gated;
mod inputs;
mod layer_norm;
mod layout;
mod least_squares;
mod listed;
mod lookup;
mod mixture;
mod multiples;
mod norm;
mod other_columns;
mod other_rows;
mod passed;
mod penalty;
mod pixels;
mod places;
mod probabilities;
mod products;
mod rotation;
mod routing;
mod rule;
mod scores;
mod shared;
mod sinks;
mod sites;
mod solution;
mod stale;
mod sums;
mod tables;
mod tile;
mod turned;
mod unrelated;
mod weighing;

use self::solution::Solution;
use super::Bench;
use crate::diagnose::share::Share;
use crate::failure::Failure;

/// Whether a norm's own equation, which has no parameter to fit, explains as many values as a factor that was fitted.
pub(in crate::diagnose) fn is_of_statistics(bench: &Bench<'_, '_>, fitted: Share) -> Result<bool, Failure> {
    let of_moments = layer_norm::of_statistics(bench)?;
    let is_more = of_moments.is_some_and(|solution| !fitted.exceeds(solution.share(bench)));
    Ok(is_more || norm::of_statistics(bench)?.is_some())
}

/// What is told of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::diagnose) enum Told {
    /// All that holds.
    All,
    /// What reproduces values.
    Reproducing,
}

/// Sentences on what was done at a site, none where its equation has no solution that says so.
pub(in crate::diagnose) fn describe(bench: &Bench<'_, '_>, told: Told) -> Result<Vec<String>, Failure> {
    if let Some(rows) = lookup::solve(bench)? {
        let said = rows.told(bench);
        if !said.is_empty() {
            return Ok(said);
        }
    }
    // What holds of all that is off, of one rule, and of nothing else, is all that is said.
    let (alone, beside): (Vec<_>, Vec<_>) = gated::solve(bench)?.into_iter().partition(|own| own.is_everywhere);
    for solution in tile::solve(bench).into_iter().chain(alone.into_iter().map(|own| own.solution)) {
        let said = solution.told(bench);
        if !said.is_empty() {
            return Ok(said);
        }
    }
    let fallible = [
        mixture::solve,
        shared::solve,
        weighing::solve,
        probabilities::solve,
        blocks::solve,
        norm::solve,
        routing::solve,
        rotation::solve,
        layer_norm::solve,
        axial::solve,
        pixels::solve,
        features::solve,
        function::solve,
        inputs::solve,
    ];
    for solve in [passed::solve, stale::solve] {
        let said = solve(bench)?.map(|solution| solution.told(bench)).unwrap_or_default();
        if !said.is_empty() {
            return Ok(said);
        }
    }
    let mut found: Vec<Solution> = beside.into_iter().map(|own| own.solution).collect();
    for solve in fallible {
        found.extend(solve(bench)?);
    }
    found.extend(penalty::solve(bench));
    found.retain(|solution| told == Told::All || solution.has_values());
    let is_less: Vec<bool> = found.iter().map(|own| found.iter().any(|other| own.is_less_than(other, bench))).collect();
    let mut is_less = is_less.into_iter();
    found.retain(|_| is_less.next() != Some(true));
    let product = products::solve(bench)?;
    // What is said of a product itself goes before what is said of all on the way to it, where more values follow from it.
    let most = found.iter().map(|solution| solution.share(bench)).reduce(|a, b| if b.exceeds(a) { b } else { a });
    if let (Some(product), Some(most)) = (&product, most)
        && product.share(bench).exceeds(most)
    {
        found.clear();
    }
    let mut said: Vec<String> = found.into_iter().flat_map(|solution| solution.told(bench)).collect();
    if said.is_empty() {
        let solutions = product.into_iter().chain(coarse::solve(bench)).chain(other_rows::solve(bench));
        let solutions = solutions.chain(other_columns::solve(bench));
        let solutions = solutions.chain(sums::solve(bench)?).chain(added::solve(bench)?).chain(layout::solve(bench));
        said.extend(solutions.chain(directions::solve(bench)).flat_map(|solution| solution.told(bench)));
    }
    if said.is_empty() {
        let last = multiples::solve(bench).or_else(|| unrelated::solve(bench));
        said.extend(last.into_iter().flat_map(|solution| solution.told(bench)));
    }
    Ok(said)
}
