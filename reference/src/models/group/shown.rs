//! What ranks show of a layer, put together as the whole model has it.

use ndarray::Array2;

use crate::config::Config;
use crate::ops::all_reduce::{AllReduce, all_reduce};
use crate::probe::Probe;
use crate::ranks::Ranks;
use crate::ranks::share::Share;
use crate::run::Run;
use crate::{Error, LayerSite, Real, RoundingContract, Site, Tracked};

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
            (Site::Layer(layer, inner), Seen::Value(_)) => {
                let values = shown.iter().filter_map(|shown| match &shown.seen[place].1 {
                    Seen::Value(value) => Some(value),
                    Seen::Chosen(..) => None,
                });
                let values: Vec<&Tracked<T>> = values.collect();
                let Some(share) = Share::at(*inner, *layer, config) else { continue };
                let parts: Vec<_> = values.iter().map(|value| value.view()).collect();
                let whole = if let Some(whole) = share.together(ranks, &parts) {
                    values.iter().enumerate().for_each(|(rank, value)| run.probe.of_rank(rank, *site, value));
                    whole
                } else {
                    let parts: Vec<Tracked<T>> = values.into_iter().cloned().collect();
                    all_reduce(&AllReduce::under(&sums(*inner, &run.contract)), &parts)?
                };
                run.visit(*site, Tracked::plain(whole));
            }
            _ => {}
        }
    }
    Ok(())
}

/// How sums over ranks round at a site: as products do, or as what experts say.
fn sums(site: LayerSite, contract: &RoundingContract) -> RoundingContract {
    if site == LayerSite::DenseDown { contract.of_products() } else { *contract }
}
