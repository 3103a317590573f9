//! How many tokens an expert takes.

use std::collections::BTreeMap;

use reference::LayerSite::Experts;
use reference::Site;

use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::failure::Failure;

/// The capacity that comes nearest. The larger it is, up to the right one, the fewer contributions are missing, and from there
/// on the more are too many: so the distance has one minimum.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Option<Assumed>, Failure> {
    let is_on_the_way = bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, Experts)));
    let most = most(bench);
    if !is_on_the_way || most < 2 {
        return Ok(None);
    }
    let off = |capacity: usize| Ok::<_, Failure>(bench.distance(&bench.ideal_under(&[assumed(capacity)])?));
    let (mut from, mut to) = (1, most - 1);
    while from < to {
        let middle = usize::midpoint(from, to);
        if off(middle)? <= off(middle + 1)? {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    Ok(Some(assumed(from)))
}

fn assumed(capacity: usize) -> Assumed {
    let change = Change::Reading("expert_capacity", capacity.to_string());
    Assumed::everywhere(&kinds::CAPACITY, change)
}

/// Tokens of the expert that has the most.
fn most(bench: &Bench<'_, '_>) -> usize {
    let mut counts = BTreeMap::<usize, usize>::new();
    for expert in bench.twin.experts.iter().flatten() {
        *counts.entry(*expert).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}
