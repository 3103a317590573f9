//! A tensor that has the values of another, of a part of another, or of a part of its own again and again; two that have each
//! other's; a norm's weight that is taken with one too many, or too few.

use std::collections::BTreeSet;

use reference::config::Config;
use reference::semantics::NormWeight;
use reference::weights::{LayerWeight, Weight, inventory};

use super::suspects;
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::names;
use crate::diagnose::catalogue::tensors::{Taken, TensorChange};

/// Every tensor on the way, and each of its layer that it could be taken from.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let (mut found, mut exchanged) = (Vec::new(), Vec::new());
    for of in suspects::of(bench).into_iter().map(|suspect| suspect.of) {
        if is_compared(of) {
            let all = sources(of, &config).into_iter().map(TensorChange::Taken);
            found.extend(all.map(|change| bench.assumed(&kinds::TAKEN, change)));
            let whole = |taken: &Taken| taken.of != taken.from && taken.period == taken.whole;
            let others = sources(of, &config).into_iter().filter(whole).map(|taken| names::in_layer(taken.from, 0));
            let both = others.map(|from| TensorChange::Exchanged(of.min(from), of.max(from)));
            exchanged.extend(both.filter(|change| !exchanged.contains(change)).collect::<Vec<_>>());
        }
        if of.is_norm() {
            let by = if config.norm_weight == NormWeight::OnePlus { -1.0 } else { 1.0 };
            found.push(bench.assumed(&kinds::PLUS_ONE, TensorChange::Plus(of, by)));
        }
    }
    found.extend(exchanged.into_iter().map(|change| bench.assumed(&kinds::EXCHANGED, change)));
    found
}

/// Experts' tensors are found as such.
fn is_compared(of: Weight) -> bool {
    matches!(of, Weight::Layer(_, inner) if !matches!(inner, LayerWeight::Expert(..)))
}

fn sources(of: Weight, config: &Config) -> Vec<Taken> {
    let Some(dim) = suspects::dim(of, config) else { return Vec::new() };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (from, other) in inventory(config) {
        let Weight::Layer(_, inner) = from else { continue };
        if !is_compared(from) || !seen.insert(inner) {
            continue;
        }
        let is_itself = matches!(of, Weight::Layer(_, own) if own == inner);
        if is_itself && of.is_norm() && config.head_dim < dim.1 {
            found.push(Taken { of, from, period: config.head_dim, whole: dim.1 });
        } else if !is_itself && of.is_norm() && from.is_norm() && other.1 >= dim.1 {
            found.push(Taken { of, from, period: dim.1, whole: other.1 });
        } else if !is_itself && !of.is_norm() && !from.is_norm() && other == dim {
            found.push(Taken { of, from, period: dim.0.max(1), whole: other.0.max(1) });
        }
    }
    found
}
