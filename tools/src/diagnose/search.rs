//! What values tell of weights and parameters, where no known mistake explains them.
//!
//! Reading order: [`bench`], a site that is computed again under a change; [`tower`] and [`suspects`], the tensors on the
//! way there; [`scaled`] with its [`blocks`] and [`factor`], [`experts`], [`rows`], [`columns`], one [`element`] by what it
//! multiplies, as it is or [`activated`], [`embedding`], [`taken`], [`replaced`] and [`layers`], what may have happened to
//! them, and [`one_expert`], [`router`], the router's [`bias`], [`few_bits`], [`slices`] and [`orders`], what is dearer to
//! look for; [`parameters`], numbers of the configuration, each a [`parameter`]: [`epsilons`] and other [`numbers`],
//! [`wholes`], whole ones, and [`capacity`]; [`pages`] of the cache, one of which is another, what is [`cached`] on another
//! grid, [`pairs`] of channels that rotate, by frequencies that are [`stretched`], and rows that stay [`unwritten`];
//! [`attending`], what attention sees and how it weighs; [`pixels`] that a patch embedding leaves out; [`choices`], what has no numbers; [`golden`], where a function is
//! least; [`beside`], what is assumed beside others; [`kinds`], how each is told; [`solved`], what is said where none of it
//! is found. Whatever is found here is a hypothesis like a known mistake: it counts only if the layer, computed under it,
//! comes within its bounds.

mod activated;
mod attending;
mod bench;
mod beside;
mod bias;
mod blocks;
mod cached;
mod capacity;
mod choices;
mod columns;
mod element;
mod embedding;
mod epsilons;
mod experts;
mod factor;
mod few_bits;
mod golden;
pub(super) mod kinds;
mod layers;
mod numbers;
mod one_expert;
mod orders;
mod pages;
mod pairs;
mod parameter;
mod parameters;
mod pixels;
mod replaced;
mod router;
mod rows;
mod scaled;
mod slices;
mod solved;
mod stretched;
mod suspects;
mod taken;
mod tower;
mod unwritten;
mod wholes;

pub(super) use bench::Bench;
pub(super) use beside::{in_networks, unseen};
pub(super) use choices::of_later_calls;
pub(super) use parameters::{displaced, fitted};
pub(super) use solved::{Told, describe, is_of_statistics};

use std::collections::BTreeSet;

use rayon::prelude::*;
use reference::Site;
use reference::config::Config;

use self::bench::NEARER;
use super::catalogue::mistake::{Assumed, Change, Clue};
use super::catalogue::weights::WeightChange;
use crate::failure::Failure;

/// Hypotheses that are tried, those that come nearest first.
const TRIED: usize = 8;

/// What may be wrong where a site's own values tell nothing of it: a choice is off, there or on the way, or a layer's input is not
/// what it takes.
pub(super) fn of_site(site: Site, suspects: &[Site], config: &Config) -> Vec<Vec<Assumed>> {
    let found = choices::search(site, suspects, config).into_iter().chain(layers::in_other_places(site, config));
    found.map(|assumed| vec![assumed]).collect()
}

/// What values suggest, the nearest first: what comes much nearer, or reproduces more of them. What other models have and these
/// have not is looked for where no known mistake explains them.
pub(super) fn hypotheses(
    bench: &Bench<'_, '_>,
    clue: Clue,
    is_unexplained: bool,
    progress: &mut impl FnMut(usize),
) -> Result<Vec<Vec<Assumed>>, Failure> {
    progress(3);
    let mut found = scaled::search(bench)?;
    progress(2);
    found.extend(experts::search(bench)?);
    found.extend(columns::search(bench));
    found.extend(element::search(bench)?);
    found.extend(embedding::search(bench)?);
    found.extend(embedding::scaled(bench)?);
    found.extend(taken::search(bench));
    found.extend(replaced::search(bench));
    found.extend(layers::search(bench));
    progress(1);
    found.extend(parameters::search(bench, clue, is_unexplained)?);
    found.extend(capacity::search(bench)?);
    if is_unexplained {
        found.extend(wholes::search(bench));
        found.extend(pages::search(bench, clue));
        found.extend(unwritten::search(bench, clue));
        found.extend(cached::search(bench));
        found.extend(pairs::search(bench));
        found.extend(stretched::search(bench));
        found.extend(pixels::search(bench));
    }
    let mut found: Vec<Vec<Assumed>> = found.into_iter().map(|assumed| vec![assumed]).collect();
    found.extend(rows::search(bench));
    if is_unexplained {
        found.extend(attending::search(bench, clue));
    }
    Ok(nearest(bench, found))
}

/// The same of what is dear to look for, where `near`, which is not, explains nothing.
pub(super) fn dear(
    bench: &Bench<'_, '_>,
    near: &[Vec<Assumed>],
    progress: &mut impl FnMut(usize),
) -> Result<Vec<Vec<Assumed>>, Failure> {
    progress(2);
    let mut found = one_expert::search(bench);
    found.extend(router::search(bench)?);
    found.extend(bias::search(bench));
    found.extend(few_bits::search(bench));
    found.extend(slices::search(bench)?);
    found.extend(orders::search(bench));
    let mut found: Vec<Vec<Assumed>> = found.into_iter().map(|assumed| vec![assumed]).collect();
    progress(1);
    found.extend(few_bits::scaled_too(bench, near)?);
    Ok(nearest(bench, found))
}

/// Those that come much nearer, or reproduce more, the nearest first.
fn nearest(bench: &Bench<'_, '_>, found: Vec<Vec<Assumed>>) -> Vec<Vec<Assumed>> {
    let limit = NEARER * bench.off();
    let mut near: Vec<(f64, Vec<Assumed>)> = found
        .into_par_iter()
        .filter(|added| !bench.is_later() || !added.iter().any(is_of_index))
        .filter_map(|added| {
            let values = bench.twin_under(&added).ok()?;
            let off = bench.distance(&values);
            (off < limit || bench.is_more(&values)).then_some((off, added))
        })
        .collect();
    near.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    // Of those that are told alike, and differ in what they round, the nearest.
    let mut told = BTreeSet::new();
    near.retain(|(_, added)| told.insert(added.iter().map(Assumed::way).collect::<Vec<_>>()));
    near.truncate(TRIED);
    near.into_iter().map(|(_, added)| bench.in_calls(&added)).collect()
}

/// Whether it is a weight that nothing is made of but a choice of blocks: in later calls alone, where one token chooses, any of many
/// changes chooses as it did, and no weight is another.
fn is_of_index(assumed: &Assumed) -> bool {
    matches!(&assumed.change, Change::Weights(WeightChange::Tensor(change)) if change.is_of_index())
}
