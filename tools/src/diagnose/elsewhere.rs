//! What the values at other faults of the first one's kind say: the same, which is told once with its places, or something else.

use std::collections::BTreeMap;

use rayon::prelude::*;
use reference::{LayerSite, Site};

use super::catalogue::assumption::Assumption;
use super::catalogue::operator::in_any_layer;
use super::search::{self, Bench, Told};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verdict::SiteReport;

/// Other faults that are looked at; of a model of so many channels, as each takes seconds, fewer.
const LOOKED_AT: usize = 16;
const LARGE: usize = 1024;
const OF_LARGE: usize = 3;

/// Others of which something else is told.
const TOLD: usize = 3;

/// Sentences on faults of the kind of the first, of which something `said` is known.
pub(super) fn describe(
    comparison: &Comparison<'_>,
    assumption: &Assumption,
    (first, said): (Site, &[String]),
    others: &[&SiteReport],
) -> Result<Vec<String>, Failure> {
    if said.is_empty() {
        return Ok(Vec::new());
    }
    let mut alike: Vec<&SiteReport> = Vec::new();
    for other in others {
        let is_new = other.site != first && alike.iter().all(|known| known.site != other.site);
        if is_new && kind(other.site) == kind(first) {
            alike.push(other);
        }
    }
    let is_large = comparison.compared.config.hidden_size > LARGE;
    alike.truncate(if is_large { OF_LARGE } else { LOOKED_AT });
    let of = |other: &&SiteReport| -> Result<(Site, Vec<String>), Failure> {
        let bench = Bench::described(comparison, assumption, other)?;
        let said = bench.map_or_else(|| Ok(Vec::new()), |bench| search::describe(&bench, Told::Reproducing))?;
        Ok((other.site, without_shares(&said)))
    };
    let each: Vec<(Site, Vec<String>)> = alike.par_iter().map(of).collect::<Result<_, _>>()?;
    let mut groups: BTreeMap<Vec<String>, Vec<Site>> = BTreeMap::new();
    for (site, said) in each.into_iter().filter(|(_, said)| !said.is_empty()) {
        groups.entry(said).or_default().push(site);
    }
    let same = groups.remove(&without_shares(said)).map(|sites| format!("the same is so of {}", all(&sites)));
    let mut different: Vec<(Vec<String>, Vec<Site>)> = groups.into_iter().collect();
    different.sort_by_key(|(_, sites)| sites.first().copied());
    let different =
        different.into_iter().take(TOLD).map(|(said, sites)| format!("of {}: {}", all(&sites), said.join("; ")));
    Ok(same.into_iter().chain(different).collect())
}

/// Operators that may have one slip in common.
fn kind(site: Site) -> Site {
    use LayerSite as S;
    match site {
        Site::FinalNorm => Site::Layer(0, S::InputNorm),
        Site::Layer(_, S::InputNorm | S::PostAttentionNorm | S::QNorm | S::KNorm | S::IndexQNorm | S::IndexKNorm) => {
            Site::Layer(0, S::InputNorm)
        }
        Site::Layer(_, S::DenseDown | S::SharedDown | S::Shared | S::Experts | S::Mlp) => Site::Layer(0, S::Mlp),
        other => in_any_layer(other),
    }
}

/// Sentences without the values that they reproduce.
fn without_shares(said: &[String]) -> Vec<String> {
    let ends = [" (reproduces ", " (together these reproduce "];
    let end = |own: &String| ends.iter().filter_map(|end| own.find(end)).min().unwrap_or(own.len());
    said.iter().map(|own| own[..end(own)].to_owned()).collect()
}

/// "a", "a and b", "a, b and c".
fn all(sites: &[Site]) -> String {
    let names: Vec<String> = sites.iter().map(ToString::to_string).collect();
    match &names[..] {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => names.concat(),
    }
}
