//! Gated networks that rows of a site go through.

use std::collections::BTreeSet;

use ndarray::{Array2, Axis, concatenate};
use reference::config::FeedForward;
use reference::ops::dense_ffn::Activation;
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{Error, LayerSite, RoundingContract, Site};

use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Multiplications that are spent on functions of hidden values: some seconds of a processor, and of a released model a few tokens.
const BUDGET: usize = 20_000_000_000;

/// Functions that are tried of each token, about.
const FUNCTIONS: usize = 64;

/// Which networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Routed,
    Shared,
    Dense,
}

/// A network with the rows that go through it.
pub(super) struct Network {
    pub(super) kind: Kind,
    /// The number of an expert.
    pub(super) expert: Option<usize>,
    /// Each row, counted among those that are looked at, with how much the network's output counts in it.
    pub(super) rows: Vec<(usize, f64)>,
    /// What goes in.
    pub(super) x: Array2<f64>,
    pub(super) gate: Array2<f64>,
    pub(super) up: Array2<f64>,
    /// D \[H, I\].
    pub(super) down: Array2<f64>,
}

impl Kind {
    /// Kinds whose hidden values are on the way to a site, behind which nothing but sums is: each, and both of a layer's.
    pub(super) fn sets(bench: &Bench<'_, '_>) -> Vec<&'static [Kind]> {
        use LayerSite as S;
        let Site::Layer(layer, at) = bench.site else { return Vec::new() };
        let has = |site| bench.suspects.contains(&Site::Layer(layer, site));
        let is_sum = matches!(at, S::Mlp | S::Output);
        let routed = has(S::ExpertHidden) && has(S::ExpertOutput) && (is_sum || at == S::Experts);
        let shared = has(S::SharedDown) && (is_sum || matches!(at, S::SharedDown | S::Shared));
        let dense = has(S::DenseDown) && (is_sum || at == S::DenseDown);
        match bench.config().layer(layer).feed_forward {
            FeedForward::Experts => match (routed, shared && bench.config().is_shared(layer)) {
                (true, true) => vec![&[Kind::Routed], &[Kind::Shared], &[Kind::Routed, Kind::Shared]],
                (true, false) => vec![&[Kind::Routed]],
                (false, true) => vec![&[Kind::Shared]],
                (false, false) => Vec::new(),
            },
            FeedForward::Dense if dense => vec![&[Kind::Dense]],
            FeedForward::Dense => Vec::new(),
        }
    }

    /// All networks of some kinds, in words.
    pub(super) fn all_of(which: &[Kind], networks: &[Network]) -> String {
        let experts: BTreeSet<usize> = networks.iter().filter_map(|own| own.expert).collect();
        let name = |kind: &Kind| match (kind, experts.first()) {
            (Kind::Routed, Some(only)) if experts.len() == 1 => format!("expert {only}"),
            (Kind::Routed, _) => "every expert".to_owned(),
            (Kind::Shared, _) => "the shared expert".to_owned(),
            (Kind::Dense, _) => "the dense network".to_owned(),
        };
        which.iter().map(name).collect::<Vec<_>>().join(" and ")
    }

    /// Hidden channels, and networks of a row.
    fn size(self, bench: &Bench<'_, '_>) -> (usize, usize) {
        let config = bench.config();
        match self {
            Kind::Routed => (config.intermediate_size, config.num_experts_per_tok),
            Kind::Shared => (config.shared_intermediate_size, 1),
            Kind::Dense => (config.dense_intermediate_size, 1),
        }
    }
}

/// All rows, or of those that are off, as many as the budget has, the furthest off first; in their order.
pub(super) fn within_budget(bench: &Bench<'_, '_>, which: &[Kind], off: &[usize]) -> Vec<usize> {
    let each = which.iter().map(|kind| kind.size(bench)).map(|(width, count)| width * count).sum::<usize>();
    let cost = FUNCTIONS * each * bench.config().hidden_size;
    let (all, most) = (bench.candidate.nrows(), (BUDGET / cost.max(1)).max(1));
    if all <= most {
        return (0..all).collect();
    }
    let by_row = bench.off_by_row();
    let mut rows = off.to_vec();
    rows.sort_by(|a, b| by_row[*b].total_cmp(&by_row[*a]));
    rows.truncate(most);
    rows.sort_unstable();
    rows
}

/// The networks of some kinds that rows go through; none where it is not known what they read.
pub(super) fn all(bench: &Bench<'_, '_>, which: &[Kind], rows: &[usize]) -> Result<Option<Vec<Network>>, Failure> {
    let Site::Layer(layer, at) = bench.site else { return Ok(None) };
    let of = |site| Site::Layer(layer, site);
    let wanted =
        [LayerSite::PostAttentionNorm, LayerSite::GateWeights, LayerSite::SharedGateUp, LayerSite::DenseGateUp];
    let rerun = bench.rerun(&[], RoundingContract::IDEAL, &wanted.map(of))?;
    let is_whole = |values: &&Array2<f64>| values.nrows() == bench.candidate.nrows();
    let value = |site| rerun.beside.get(&of(site)).filter(is_whole);
    // What one network reads is not on the way where its gate and up projection are shown.
    let x = match value(LayerSite::PostAttentionNorm) {
        Some(x) => Some(x.clone()),
        None => bench.shown_in_all_steps(of(LayerSite::PostAttentionNorm))?,
    };
    let Some(x) = x.filter(|x| x.nrows() == bench.candidate.nrows()) else { return Ok(None) };
    let mut networks = Vec::new();
    for kind in which {
        let both = match kind {
            Kind::Routed => None,
            Kind::Shared => value(LayerSite::SharedGateUp),
            Kind::Dense => value(LayerSite::DenseGateUp),
        };
        match kind {
            Kind::Routed => {
                let (Some(weights), Some(chosen)) = (value(LayerSite::GateWeights), &rerun.experts) else {
                    return Ok(None);
                };
                if weights.dim() != chosen.dim() {
                    return Ok(None);
                }
                let own = bench.before().reading(layer).routed_scale;
                let scale = own.unwrap_or(bench.config().routed_scaling_factor);
                let scale = if at == LayerSite::Experts { 1.0 } else { scale };
                let experts: BTreeSet<usize> = rows.iter().flat_map(|row| chosen.row(*row).to_vec()).collect();
                for expert in experts {
                    let slots = rows.iter().enumerate().flat_map(|(i, row)| {
                        let own = chosen.row(*row).into_iter().zip(weights.row(*row));
                        own.filter(|(own, _)| **own == expert).map(move |(_, weight)| (i, scale * weight))
                    });
                    let slots: Vec<(usize, f64)> = slots.collect();
                    let read = x.select(Axis(0), &slots.iter().map(|(i, _)| rows[*i]).collect::<Vec<_>>());
                    let weight = |projection| LayerWeight::Expert(expert, projection);
                    networks.push(Network::new(bench, layer, (*kind, Some(expert)), (slots, read, None), weight)?);
                }
            }
            Kind::Shared | Kind::Dense => {
                let of_kind = if *kind == Kind::Shared { LayerWeight::Shared } else { LayerWeight::Dense };
                let slots = (0..rows.len()).map(|i| (i, 1.0)).collect();
                let both = both.map(|both| both.select(Axis(0), rows));
                let read = x.select(Axis(0), rows);
                networks.push(Network::new(bench, layer, (*kind, None), (slots, read, both), of_kind)?);
            }
        }
    }
    Ok(Some(networks))
}

/// Of each of its rows which one of the layer it is, and by how much it counts there; what it reads; and gate and up projection, if
/// they are shown.
type Rows = (Vec<(usize, f64)>, Array2<f64>, Option<Array2<f64>>);

impl Network {
    fn new(
        bench: &Bench<'_, '_>,
        layer: usize,
        (kind, expert): (Kind, Option<usize>),
        (rows, x, both): Rows,
        of: impl Fn(Projection) -> LayerWeight,
    ) -> Result<Self, Failure> {
        let weight = |projection| tensor(bench, Weight::Layer(layer, of(projection)));
        let project = |projection| Ok::<_, Failure>(x.dot(&weight(projection)?.t()));
        let (gate, up) = match both {
            Some(both) => {
                let (gate, up) = both.view().split_at(Axis(1), both.ncols() / 2);
                (gate.to_owned(), up.to_owned())
            }
            None => (project(Projection::Gate)?, project(Projection::Up)?),
        };
        let down = weight(Projection::Down)?;
        Ok(Network { kind, expert, rows, x, gate, up, down })
    }

    /// h of gate and up projection.
    pub(super) fn activated(&self, bench: &Bench<'_, '_>) -> Result<Array2<f64>, Failure> {
        Self::activated_of(bench, &self.gate, &self.up)
    }

    /// h of others.
    pub(super) fn activated_of(
        bench: &Bench<'_, '_>,
        gate: &Array2<f64>,
        up: &Array2<f64>,
    ) -> Result<Array2<f64>, Failure> {
        bench.with_model(|model| {
            let oai = model.config().swiglu_oai;
            let activation = Activation::under(&RoundingContract::IDEAL, model.semantics(), oai);
            Ok(activation.of(gate.view(), up.view()).map_err(Error::from)?)
        })
    }

    /// Adds to rows what hidden values \[rows, I\] make.
    pub(super) fn add(&self, to: &mut Array2<f64>, hidden: &Array2<f64>) {
        let outputs = hidden.dot(&self.down.t());
        let each = self.rows.iter().zip(outputs.rows());
        each.for_each(|((row, counts), more)| to.row_mut(*row).scaled_add(*counts, &more));
    }

    /// The gate's and the up projection's weights, one below the other.
    pub(super) fn reads(&self, bench: &Bench<'_, '_>) -> Result<Array2<f64>, Failure> {
        let Site::Layer(layer, _) = bench.site else { return Ok(Array2::zeros((0, 0))) };
        let of = |projection| match (self.kind, self.expert) {
            (Kind::Routed, expert) => LayerWeight::Expert(expert.unwrap_or_default(), projection),
            (Kind::Shared, _) => LayerWeight::Shared(projection),
            (Kind::Dense, _) => LayerWeight::Dense(projection),
        };
        let [gate, up] = [Projection::Gate, Projection::Up].map(|own| tensor(bench, Weight::Layer(layer, of(own))));
        Ok(concatenate(Axis(0), &[gate?.view(), up?.view()]).expect("they read the same channels"))
    }
}

fn tensor(bench: &Bench<'_, '_>, of: Weight) -> Result<Array2<f64>, Failure> {
    bench.with_model(|model| Ok(model.weights().get(of).map_err(Error::from)?.dense::<f64>()))
}
