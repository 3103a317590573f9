//! Whether a dump would show a quiet gain that is not one expert's alone: one percent in the router, in all experts, and in one
//! head, whose input channels of the output projection are larger.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use reference::Site;
use reference::config::{Config, FeedForward};
use reference::weights::{LayerWeight, Projection, Weight};
use serde::{Deserialize, Serialize};

use super::stretch::{self, Stretch};
use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::catalogue::fit::Fit;
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::part::{Part, Scaled};
use crate::diagnose::catalogue::tensors::TensorChange;
use crate::diagnose::catalogue::weights::WeightChange;
use crate::diagnose::search::kinds;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verification::Look;

/// By what values are multiplied.
pub(super) const GAIN: f64 = 1.01;

/// What has a gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// The router's logits.
    Router,
    /// What all experts give.
    AllExperts,
    /// What a query head gives.
    Head(usize),
}

/// A gain in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The layer.
    pub layer: usize,
    /// What has it.
    pub of: Of,
    /// Whether it would be seen.
    pub seen: bool,
    /// The most that it moves a value that is compared, in its bound.
    pub bounds: f64,
}

/// Tries each in some layers; `whole` is all of them beside the twin, where that tells structure.
pub(super) fn detect(
    comparison: &Comparison<'_>,
    layers: &Range<usize>,
    whole: Option<&Stretch<'_, '_>>,
    progress: &mut impl FnMut(usize),
) -> Result<Vec<Gain>, Failure> {
    let config = comparison.compared.config;
    let none = Assumption::none(comparison.compared.semantics);
    let mut left: usize = layers.clone().map(|layer| all(config, layer).count()).sum();
    let mut gains = Vec::with_capacity(left);
    for range in stretch::ranges(comparison, layers)? {
        let look = Look { only: None, values: true, twin: whole.is_some() };
        let stretch = Stretch::new(comparison, range.clone(), look)?;
        for layer in range {
            let sites = stretch.sites().iter().map(|report| report.site);
            let sites: BTreeSet<Site> = sites.filter(|site| site.layer() == Some(layer)).collect();
            for of in all(config, layer) {
                progress(left);
                left -= 1;
                let under = stretch.under(&none.and_all(&of.larger(config, layer))?, Some(sites.clone()))?;
                let seen =
                    under.worse.is_some() || whole.is_some_and(|whole| whole.has_less_structure(&under, |_| true));
                gains.push(Gain { layer, of, seen, bounds: under.moved.bounds });
            }
        }
    }
    Ok(gains)
}

/// What a layer has.
fn all(config: &Config, layer: usize) -> impl Iterator<Item = Of> + use<> {
    let routed = config.layer(layer).feed_forward == FeedForward::Experts;
    let of_experts = [Of::Router, Of::AllExperts].into_iter().filter(move |_| routed);
    of_experts.chain((0..config.num_attention_heads).map(Of::Head))
}

impl Of {
    /// The weights whose values are larger.
    fn larger(self, config: &Config, layer: usize) -> Vec<Assumed> {
        let scaled = |of, part| larger(layer, of, part);
        match self {
            Of::Router => vec![scaled(LayerWeight::Gate, Part::All)],
            Of::AllExperts => {
                let down = |expert| scaled(LayerWeight::Expert(expert, Projection::Down), Part::All);
                (0..config.num_local_experts).map(down).collect()
            }
            Of::Head(head) => vec![scaled(LayerWeight::OProj, Part::InputHeads(config.head_dim, vec![head]))],
        }
    }
}

/// A layer's weight whose values, or a part of them, are larger.
pub(super) fn larger(layer: usize, of: LayerWeight, part: Part) -> Assumed {
    let factor = Fit { value: GAIN, error: 0.0 };
    let scaled = Scaled { of: Weight::Layer(layer, of), part, factor, stored: false };
    let change = Change::Weights(WeightChange::Tensor(TensorChange::Scaled(scaled)));
    Assumed::everywhere(&kinds::SCALED, change).within(Some(vec![layer]))
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Of::Router => f.write_str("the router"),
            Of::AllExperts => f.write_str("all experts"),
            Of::Head(head) => write!(f, "head {head}"),
        }
    }
}
