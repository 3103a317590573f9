//! What ranks show of a layer, put together as the whole model has it.

use ndarray::{Array2, s};

use crate::config::Config;
use crate::ops::all_reduce::{AllReduce, all_reduce};
use crate::probe::Probe;
use crate::ranks::Ranks;
use crate::run::Run;
use crate::{Error, LayerSite, Real, Site, Tracked};

/// What one rank showed, in order.
#[derive(Debug, Clone)]
pub(super) struct Shown<T> {
    seen: Vec<(Site, Seen<T>)>,
}

/// What it showed at a site.
#[derive(Debug, Clone)]
enum Seen<T> {
    Value(Tracked<T>),
    Chosen(Tracked<T>, Array2<usize>),
}

impl<T> Default for Shown<T> {
    fn default() -> Self {
        Shown { seen: Vec::new() }
    }
}

impl<T: Real> Probe<T> for Shown<T> {
    fn visit(&mut self, site: Site, value: &mut Tracked<T>) {
        self.seen.push((site, Seen::Value(value.clone())));
    }

    fn choose(&mut self, site: Site, scores: &Tracked<T>, chosen: &mut Array2<usize>) {
        self.seen.push((site, Seen::Chosen(scores.clone(), chosen.clone())));
    }
}

/// Shows a run's probe what ranks that went through the same sites showed.
pub(super) fn show<T: Real>(
    ranks: &Ranks,
    config: &Config,
    shown: &[Shown<T>],
    run: &mut Run<'_, T>,
) -> Result<(), Error> {
    for (place, (site, seen)) in shown[0].seen.iter().enumerate() {
        match (site, seen) {
            (Site::Layer(_, LayerSite::GateExperts), Seen::Chosen(scores, chosen)) => {
                run.choose(*site, scores, chosen.clone());
            }
            // Where there is a shared expert, its part and the routed experts' are one sum before ranks see it.
            (Site::Layer(layer, LayerSite::Experts | LayerSite::Shared | LayerSite::SharedDown), _)
                if config.is_shared(*layer) => {}
            (Site::Layer(_, inner), Seen::Value(_)) => {
                let values = shown.iter().filter_map(|shown| match &shown.seen[place].1 {
                    Seen::Value(value) => Some(value),
                    Seen::Chosen(..) => None,
                });
                let values: Vec<&Tracked<T>> = values.collect();
                if let Some(whole) = together(ranks, config, *inner, &values, run)? {
                    if !is_sum(*inner) {
                        values.iter().enumerate().for_each(|(rank, value)| run.probe.of_rank(rank, *site, value));
                    }
                    run.visit(*site, Tracked::plain(whole));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether ranks have summands at a site: none shows what it alone has.
fn is_sum(site: LayerSite) -> bool {
    use LayerSite::{DenseDown, ExpertHidden, ExpertOutput, Experts};
    matches!(site, DenseDown | Experts | ExpertHidden | ExpertOutput)
}

/// The whole of what ranks have at a site, if it is one that the whole model has.
fn together<T: Real>(
    ranks: &Ranks,
    config: &Config,
    site: LayerSite,
    values: &[&Tracked<T>],
    run: &Run<'_, T>,
) -> Result<Option<Array2<T>>, Error> {
    use LayerSite::{
        Context, DenseGateUp, GateChoice, GateLogits, GateScores, GateWeights, IndexKNorm, IndexKProj, IndexKRope,
        IndexQNorm, IndexQProj, IndexQRope, KNorm, KProj, KRope, QNorm, QProj, QRope, SharedGateUp, VProj,
    };
    let queries = |rank| ranks.query_heads(rank);
    let keys = |rank: usize| ranks.key_heads(rank).map(Some).collect();
    let (d, heads) = (config.head_dim, (config.num_attention_heads, config.num_key_value_heads));
    Ok(match site {
        QProj | QNorm | QRope | Context => Some(by_heads(values, (d, heads.0), queries)),
        KProj | VProj | KNorm | KRope => Some(by_heads(values, (d, heads.1), keys)),
        IndexQProj | IndexQNorm | IndexQRope => {
            config.index.map(|index| by_heads(values, (index.head_dim, heads.1), keys))
        }
        IndexKProj | IndexKNorm | IndexKRope | GateLogits | GateScores | GateChoice | GateWeights => {
            Some(values[0].value.clone())
        }
        DenseGateUp | SharedGateUp => Some(halves(values)),
        _ if is_sum(site) => {
            let parts: Vec<Tracked<T>> = values.iter().map(|value| (*value).clone()).collect();
            Some(all_reduce(&AllReduce::under(&run.contract), &parts)?)
        }
        _ => None,
    })
}

/// Channels of so many heads, each from the first rank that has it.
fn by_heads<T: Real>(
    values: &[&Tracked<T>],
    (d, heads): (usize, usize),
    of_rank: impl Fn(usize) -> Vec<Option<usize>>,
) -> Array2<T> {
    let mut whole = Array2::zeros((values[0].dim().0, heads * d));
    for (rank, value) in values.iter().enumerate().rev() {
        for (slot, head) in of_rank(rank).into_iter().enumerate() {
            if let Some(head) = head {
                let own = value.value.slice(s![.., slot * d..(slot + 1) * d]);
                whole.slice_mut(s![.., head * d..(head + 1) * d]).assign(&own);
            }
        }
    }
    whole
}

/// The left halves of all, then the right halves.
fn halves<T: Real>(values: &[&Tracked<T>]) -> Array2<T> {
    let each = values[0].dim().1 / 2;
    let mut whole = Array2::zeros((values[0].dim().0, 2 * each * values.len()));
    for (rank, value) in values.iter().enumerate() {
        for half in 0..2 {
            let to = (half * values.len() + rank) * each;
            whole.slice_mut(s![.., to..to + each]).assign(&value.value.slice(s![.., half * each..(half + 1) * each]));
        }
    }
    whole
}
