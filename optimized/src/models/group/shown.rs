//! What ranks show, put together as the whole model has it.

use ndarray::{Array2, ArrayView2, Axis, concatenate};
use reference::contract::{Config, LayerSite, Ranks, Share, Site};

use super::super::capture::Capture;

/// What one rank showed, in order.
#[derive(Debug, Default)]
pub(super) struct Shown {
    seen: Vec<(Site, Seen)>,
}

/// What it showed at a site.
#[derive(Debug)]
enum Seen {
    Value(Array2<f32>),
    Chosen(Array2<usize>),
}

impl Capture for Shown {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        self.seen.push((site, Seen::Value(value)));
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        self.seen.push((site, Seen::Chosen(chosen)));
    }
}

/// Shows a capture what ranks that went through the same sites showed.
pub(super) fn show((config, ranks): (&Config, &Ranks), shown: Vec<Shown>, capture: &mut dyn Capture) {
    let mut all: Vec<_> = shown.into_iter().map(|shown| shown.seen.into_iter()).collect();
    loop {
        let Some(of_ranks) = all.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() else { return };
        let site = of_ranks[0].0;
        let (mut values, mut choices) = (Vec::new(), Vec::new());
        for (_, seen) in of_ranks {
            match seen {
                Seen::Value(value) => values.push(value),
                Seen::Chosen(chosen) => choices.push(chosen),
            }
        }
        if !values.is_empty() {
            show_value((config, ranks), site, values, capture);
        } else if matches!(site, Site::Layer(_, LayerSite::GateExperts)) {
            capture.choices(site, choices.swap_remove(0));
        }
    }
}

fn show_value((config, ranks): (&Config, &Ranks), site: Site, values: Vec<Array2<f32>>, capture: &mut dyn Capture) {
    let views: Vec<ArrayView2<'_, f32>> = values.iter().map(|value| value.view()).collect();
    let whole = match site {
        Site::LmHead | Site::Logits => Some(concatenate(Axis(1), &views).expect("all ranks have the same rows")),
        Site::Layer(layer, inner) if !is_summed(inner) => {
            match Share::at(inner, layer, config) {
                // A rank has zeros where another has its experts.
                Some(Share::Sum) => {
                    return capture.value(site, values[1..].iter().fold(values[0].clone(), |sum, part| sum + part));
                }
                Some(share) => share.together(ranks, &views),
                None => return,
            }
        }
        _ => None,
    };
    match whole {
        Some(whole) => {
            views.into_iter().enumerate().for_each(|(rank, part)| capture.of_rank(rank, site, part));
            capture.value(site, whole);
        }
        None => capture.value(site, values[0].clone()),
    }
}

/// Whether all ranks have the same there: sums over ranks, and what follows from them.
fn is_summed(site: LayerSite) -> bool {
    use LayerSite::{Attention, DenseDown, Experts, InputNorm, Mlp, OProj, Output, PostAttentionNorm, Residual};
    matches!(site, InputNorm | OProj | Attention | Residual | PostAttentionNorm | DenseDown | Experts | Mlp | Output)
}
