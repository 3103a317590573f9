//! The reference made to choose the experts and the blocks of keys that a candidate chose.

use std::collections::HashMap;

use fixtures::names::at::At;
use ndarray::{Array1, Array2, Axis};
use reference::config::Config;
use reference::probe::Probe;
use reference::site::Extent;
use reference::site::NONE;
use reference::{LayerSite, Site, Tracked};

use crate::failure::Failure;
use crate::judge::candidate::{Candidate, other_size};
use crate::judge::substitution::is_usable;

/// What a candidate chose, by layer: for each choice of a token a row a position, as far as they are known from the first
/// on.
#[derive(Debug, Clone, Default)]
pub struct Choices(HashMap<Site, Vec<Vec<Vec<usize>>>>);

impl Choices {
    /// What a candidate shows of them, over its passes of so many tokens each.
    pub fn of(candidate: &dyn Candidate, config: &Config, passes: &[usize]) -> Result<Self, Failure> {
        let mut known = HashMap::new();
        let sites = (0..config.num_hidden_layers)
            .flat_map(|layer| [LayerSite::Blocks, LayerSite::GateExperts].map(|site| Site::Layer(layer, site)));
        for site in sites.filter(|site| site.exists(config)) {
            let mut rows: Vec<Vec<Vec<usize>>> = Vec::new();
            let mut positions = 0;
            for (step, &tokens) in passes.iter().enumerate() {
                let at = At { step, site };
                let first = candidate.start(step).map_or(positions, |start| start.position);
                positions = first + tokens;
                let extent = Extent::new(tokens, positions);
                if !candidate.has(at) || other_size(candidate, config, at, extent).is_some() {
                    break;
                }
                if candidate.shown(at, extent)?.is_some() {
                    break;
                }
                // What is read anew was a draft that was rejected.
                for known in &mut rows {
                    known.truncate(first);
                }
                let chosen = candidate.choices(at, extent)?;
                rows.resize(chosen.nrows() / tokens, Vec::new());
                for (row, chosen) in chosen.rows().into_iter().enumerate() {
                    rows[row / tokens].push(chosen.to_vec());
                }
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
        let Some(known) = self.0.get(&site).filter(|known| !known.is_empty()) else { return };
        let tokens = chosen.nrows() / known.len();
        for (row, mut own) in chosen.rows_mut().into_iter().enumerate() {
            let Some(candidate) = known[row / tokens].get(row % tokens) else { continue };
            let replayed = own.iter().enumerate().map(|(slot, _)| candidate.get(slot).copied().unwrap_or(NONE));
            let replayed: Array2<usize> = Array1::from_iter(replayed).insert_axis(Axis(0));
            if is_usable(site, scores.dim().1, &replayed) {
                own.assign(&replayed.row(0));
            }
        }
    }
}
