//! What a known mistake is, and the change by which it is made.

use reference::config::Config;
use reference::{LayerSite, Semantics, Site};

use super::instead::{self, Instead};
use super::operator::in_any_layer;
use super::weights::WeightChange;
use crate::report::figures::numbered;

/// A known mistake, or a kind of what a search finds.
#[derive(Debug, Clone, Copy)]
pub struct Mistake {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// What is right, and who says so.
    pub right: &'static str,
    /// On which models and prompts it changes anything.
    pub visible: &'static str,
    /// Sites that an operator computes otherwise; the layers' number does not count.
    pub touches: &'static [Site],
    /// What is changed, in each of the ways in which it is made: none where the model gives no room for it.
    pub ways: fn(&Config, Clue) -> Vec<Change>,
}

/// One change of what the reference computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A field of the semantics.
    Reading(&'static str, String),
    /// The weights.
    Weights(WeightChange),
    /// Pairs of layers, with their weights, run in each other's place.
    Order(Vec<(usize, usize)>),
    /// What a site shows is not what is taken behind it; the layer's number does not count.
    Unseen(Site),
    /// Slots of padding are tokens like others.
    Padding,
    /// Tensors hold other sites' values.
    Captured(Vec<Instead>),
}

/// What the first fault tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clue {
    /// The first position that is off.
    pub position: usize,
    /// The last, in the same call.
    pub last: usize,
    /// How many there are up to the end of that call.
    pub tokens: usize,
    /// How many there are before it.
    pub context: usize,
}

/// A site in some layer.
pub(super) const fn layer(site: LayerSite) -> Site {
    Site::Layer(0, site)
}

/// The change of one field of the semantics.
pub(super) fn reading(field: &'static str, value: &str) -> Vec<Change> {
    vec![Change::Reading(field, value.to_owned())]
}

/// The changes of one field of the semantics to several values.
pub(super) fn each(field: &'static str, values: &[f64]) -> Vec<Change> {
    values.iter().map(|value| Change::Reading(field, value.to_string())).collect()
}

/// A mistake's ways, where it can be seen.
pub(super) fn given(visible: bool, ways: impl FnOnce() -> Vec<Change>) -> Vec<Change> {
    if visible { ways() } else { Vec::new() }
}

/// One less and one more than the configuration has, but not less than `least`.
pub(super) fn neighbours(field: &'static str, right: usize, least: usize) -> Vec<Change> {
    let others = [right.checked_sub(1), Some(right + 1)].into_iter().flatten().filter(|n| *n >= least);
    others.map(|n| Change::Reading(field, n.to_string())).collect()
}

impl Mistake {
    /// Whether an operator computes one of these sites otherwise.
    pub fn touches(&self, sites: &[Site]) -> bool {
        sites.iter().any(|site| self.touches.contains(&in_any_layer(*site)))
    }

    /// Whether it goes wrong between calls, so that a prompt in one call has nothing of it.
    pub fn needs_calls(&self) -> bool {
        self.visible.contains("decode steps")
    }

    /// Whether it is a kind of what a search finds, instead of one of the catalogue.
    pub fn is_searched(&self) -> bool {
        self.touches.is_empty()
    }

    /// The mistake in each of its ways.
    pub fn cases(&'static self, config: &Config, clue: Clue) -> impl Iterator<Item = Assumed> {
        (self.ways)(config, clue).into_iter().map(move |change| Assumed::everywhere(self, change))
    }
}

/// A mistake made in one way.
#[derive(Debug, Clone)]
pub struct Assumed {
    /// The mistake.
    pub mistake: &'static Mistake,
    /// How it is made.
    pub change: Change,
    /// The layers in which it is made; all, if `None`.
    pub layers: Option<Vec<usize>>,
    /// The calls in which it is made; all, if `None`.
    pub calls: Option<Calls>,
}

/// Calls of the model, by the position that they begin at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The first.
    pub from: usize,
    /// The first behind them; none, if they are the last.
    pub until: Option<usize>,
}

impl Change {
    /// Whether it sets a number, or what has one.
    pub fn has_number(&self) -> bool {
        matches!(self, Change::Reading(field, _) if Semantics::has_number(field))
    }

    /// Whether a reading has it already.
    pub fn is_in(&self, semantics: &Semantics) -> bool {
        match self {
            Change::Reading(field, value) => semantics.with(field, value).is_ok_and(|changed| changed == *semantics),
            Change::Weights(_) | Change::Order(..) | Change::Unseen(_) | Change::Padding | Change::Captured(_) => false,
        }
    }
}

impl Assumed {
    /// A mistake that is made in all layers and calls.
    pub fn everywhere(mistake: &'static Mistake, change: Change) -> Self {
        Assumed { mistake, change, layers: None, calls: None }
    }

    /// The same in some calls alone.
    #[must_use]
    pub fn during(&self, calls: Option<Calls>) -> Self {
        Assumed { calls, ..self.clone() }
    }

    /// The same in some layers alone.
    #[must_use]
    pub fn within(&self, layers: Option<Vec<usize>>) -> Self {
        Assumed { layers, ..self.clone() }
    }

    /// How it is made, and in which layers.
    pub fn way(&self) -> String {
        let place = self.layers.as_ref().map(|layers| format!(" in {}", numbered("layer", layers)));
        let made = match &self.change {
            Change::Weights(WeightChange::Tensor(change)) => change.said(&place.unwrap_or_default()),
            change => format!("{change}{}", place.unwrap_or_default()),
        };
        self.calls.map_or_else(|| made.clone(), |calls| format!("{made} {calls}"))
    }
}

impl Calls {
    /// Every call.
    pub(super) const ALL: Calls = Calls { from: 0, until: None };
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Calls { from, until: None } => write!(f, "in calls from position {from} on"),
            Calls { from: 0, until: Some(until) } => write!(f, "in calls before position {until}"),
            Calls { from, until: Some(until) } => write!(f, "in calls from position {from} to before {until}"),
        }
    }
}

impl std::fmt::Display for Assumed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.mistake.name, self.way())
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Reading(field, value) => write!(f, "{field}={value}"),
            Change::Weights(change) => change.fmt(f),
            Change::Order(pairs) => match pairs[..] {
                [(a, b)] => write!(f, "layers {a} and {b} run in each other's place"),
                _ => f.write_str("all layers run in reverse order"),
            },
            Change::Unseen(Site::Layer(_, site)) => {
                let path = Site::Layer(0, *site).to_string();
                write!(f, "{} is not taken as it is shown", path.trim_start_matches("model.layers.0."))
            }
            Change::Unseen(site) => write!(f, "{site} is not taken as it is shown"),
            Change::Padding => f.write_str("padding is seen as tokens are"),
            Change::Captured(all) => f.write_str(&instead::said(all)),
        }
    }
}
