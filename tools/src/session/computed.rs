//! What the reference computes of a prompt in f64, to be put beside values of which it is not known what they are; where some of them
//! are known, from these.

use std::collections::BTreeMap;

use fixtures::names::families::is_told;
use ndarray::{Array2, ArrayView2};
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::site::{Extent, NONE};
use reference::{Error, LayerSite, RoundingContract, Semantics, Site, Tracked};

use super::model::Model;
use crate::failure::Failure;

/// The layers that are computed of a model that has more.
const LAYERS: usize = 4;

/// Logits of all tokens that are computed at most.
pub(super) const MOST_LOGITS: usize = 1 << 27;

/// What the reference computes of a prompt: all, or the first layers.
pub(super) struct Computed {
    pub(super) values: BTreeMap<Site, Array2<f64>>,
    /// What takes the place of what is computed.
    known: BTreeMap<Site, Array2<f64>>,
    pub(super) config: Config,
    layers: usize,
    has_ended: bool,
}

impl Computed {
    pub(super) fn of(tokens: &[u32], reading: (&Model, &Semantics)) -> Result<Self, Failure> {
        Computed::from(BTreeMap::new(), tokens, reading)
    }

    /// The same, from known values of some sites: behind these it is as far off as what lies between makes it.
    pub(super) fn from(
        known: BTreeMap<Site, Array2<f64>>,
        tokens: &[u32],
        (model, semantics): (&Model, &Semantics),
    ) -> Result<Self, Failure> {
        let decoder = Decoder::new(model.checkpoint.config(), *semantics, &model.checkpoint)?;
        let config = decoder.config().clone();
        let layers = config.num_hidden_layers;
        let few = if layers <= 2 * LAYERS { layers } else { LAYERS };
        let mut computed = Computed { values: BTreeMap::new(), known, config, layers: few, has_ended: false };
        seen_by(&mut computed, &decoder, tokens)?;
        Ok(computed)
    }

    /// What the reference computes at one site, behind which it stops.
    pub(super) fn at(
        site: Site,
        tokens: &[u32],
        (model, semantics): (&Model, &Semantics),
    ) -> Result<Option<Array2<f64>>, Failure> {
        let decoder = Decoder::new(model.checkpoint.config(), *semantics, &model.checkpoint)?;
        let mut until = Until { site, values: None };
        seen_by(&mut until, &decoder, tokens)?;
        Ok(until.values)
    }

    /// The sites that could be in a tensor of such rows, the likeliest of equals first.
    pub(super) fn sites(&self, columns: usize) -> impl Iterator<Item = Site> {
        let fits = move |site: &&Site| {
            let (_, width) = site.matrix(&self.config, Extent::new(1, 1));
            width == columns || site.has_heads() && site.head_dim(&self.config) == columns
        };
        let all = self.values.keys().filter(fits).copied();
        let embedding = all.clone().filter(|site| *site == Site::Embedding);
        embedding.chain(all.rev().filter(|site| *site != Site::Embedding))
    }
}

impl Probe<f64> for Computed {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        if is_told(site, &self.config) {
            self.values.insert(site, in_order(site, value.value.clone()));
        }
        if let Some(known) = self.known.get(&site).filter(|known| known.dim() == value.value.dim()) {
            value.value.assign(known);
        }
        let last = Site::Layer(self.layers - 1, LayerSite::Output);
        self.has_ended |= site == last && self.layers < self.config.num_hidden_layers;
    }

    fn choose(&mut self, site: Site, _: &Tracked<f64>, chosen: &mut Array2<usize>) {
        if is_told(site, &self.config) {
            let numbers = chosen.mapv(|choice| if choice == NONE { -1.0 } else { choice as f64 });
            self.values.insert(site, in_order(site, numbers));
        }
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }
}

/// Shows a probe what the reference computes of a prompt, until it has seen enough.
fn seen_by(probe: &mut dyn Probe<f64>, decoder: &Decoder<'_>, tokens: &[u32]) -> Result<(), Failure> {
    let mut run = Run::new(RoundingContract::IDEAL, probe);
    match decoder.forward::<f64>(tokens, &mut KvCache::new(decoder.config().num_hidden_layers), &mut run) {
        Ok(_) | Err(Error::Ended) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the reference computes at a site, behind which nothing is.
struct Until {
    site: Site,
    values: Option<Array2<f64>>,
}

impl Probe<f64> for Until {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        if site == self.site {
            self.values = Some(value.value.clone());
        }
    }

    fn choose(&mut self, _: Site, _: &Tracked<f64>, _: &mut Array2<usize>) {}

    fn has_ended(&self) -> bool {
        self.values.is_some()
    }
}

/// A site's values, those of a choice from the largest to the smallest: what engines choose is in any order.
pub(super) fn in_order(site: Site, mut values: Array2<f64>) -> Array2<f64> {
    if matches!(site, Site::Layer(_, LayerSite::GateExperts | LayerSite::GateWeights)) {
        for mut row in values.rows_mut() {
            let mut sorted = row.to_vec();
            sorted.sort_by(|one, other| other.total_cmp(one));
            row.iter_mut().zip(sorted).for_each(|(x, value)| *x = value);
        }
    }
    values
}

/// How far values are from what the reference computes, in parts of how far they are from it elsewhere, at most, where they are that.
pub(super) const NEARER: f64 = 0.5;

/// How far values are from others, in parts of the others' size.
pub(super) fn off(shown: ArrayView2<'_, f64>, computed: ArrayView2<'_, f64>) -> f64 {
    if shown.dim() != computed.dim() || shown.is_empty() {
        return f64::INFINITY;
    }
    let square = |x: f64| x * x;
    let apart: f64 = shown.iter().zip(computed).map(|(one, other)| square(one - other)).sum();
    let size: f64 = computed.iter().map(|x| square(*x)).sum();
    let ratio = (apart / size).sqrt();
    if ratio.is_nan() { f64::INFINITY } else { ratio }
}
