//! The reference made to choose the experts that a candidate chose.

use std::collections::HashMap;

use fixtures::names::at::At;
use ndarray::{Array2, Axis};
use reference::config::Config;
use reference::probe::Probe;
use reference::site::Extent;
use reference::{LayerSite, Site, Tracked};

use crate::candidate::Candidate;
use crate::failure::Failure;

/// The experts that a candidate chose, by layer: a row a position, as far as they are known from the first on.
#[derive(Debug, Clone, Default)]
pub struct Choices(HashMap<Site, Array2<usize>>);

impl Choices {
    /// What a candidate shows of them, over its passes of so many tokens each.
    pub fn of(candidate: &dyn Candidate, config: &Config, passes: &[usize]) -> Result<Self, Failure> {
        let mut known = HashMap::new();
        for layer in 0..config.num_hidden_layers {
            let site = Site::Layer(layer, LayerSite::GateExperts);
            let mut rows: Array2<usize> = Array2::zeros((0, config.num_experts_per_tok));
            for (step, &tokens) in passes.iter().enumerate() {
                let at = At { step, site };
                if !candidate.has(at) {
                    break;
                }
                let chosen = candidate.choices(at, Extent { tokens, positions: rows.nrows() + tokens })?;
                rows.append(Axis(0), chosen.view()).expect("every pass chooses as many experts");
            }
            known.insert(site, rows);
        }
        Ok(Choices(known))
    }
}

/// Replays a pass that begins at the first position.
impl Probe<f64> for Choices {
    fn visit(&mut self, _: Site, _: &mut Tracked<f64>) {}

    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        let experts = scores.dim().1;
        let Some(known) = self.0.get(&site) else { return };
        for (mut own, candidate) in chosen.rows_mut().into_iter().zip(known.rows()) {
            if candidate.iter().all(|&expert| expert < experts) {
                own.assign(&candidate);
            }
        }
    }
}
