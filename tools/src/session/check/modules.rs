//! The CUDA path's modules of multi-token prediction over a text: what they read and compute, next to which the reference is put.
//!
//! A module reads the prompt's rows at once and the others one by one, as it does where drafts are made. What it reads are the
//! hidden states that the model, or the module before it, gave on the device; the reference is given the same.

use fixtures::names::at::At;
use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::models::cache::Cache;
use optimized::models::decoder::Decoder;
use optimized::models::mtp::{MtpModule, topology};
use reference::config::Config;
use reference::semantics::{Module, MtpHidden};
use reference::site::Extent;
use reference::weights::Weights;
use reference::{LayerSite, Site};

use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::candidate::{Candidate, Live};

/// Rows that the one module of a topology has of drafts of its own.
const OWN: usize = 2;

/// A module's run.
pub(super) struct Ran {
    pub(super) module: Module,
    /// What it computed.
    pub(super) live: Live,
    /// The token of each row.
    pub(super) tokens: Vec<u32>,
    /// The hidden state of each row.
    pub(super) hidden: Array2<f64>,
}

/// Modules of a model on a device, and how much of them is looked at.
pub(super) struct Modules<'a> {
    pub(super) model: &'a Decoder,
    pub(super) weights: &'a dyn Weights,
    pub(super) count: usize,
    pub(super) selection: &'a Selection,
}

impl Modules<'_> {
    /// Those that are looked at. One makes all drafts, where it is used again and again.
    fn chosen(&self) -> Vec<Module> {
        let topology = topology(self.model);
        let count = if topology.has_a_module_each() { self.count } else { self.count.min(1) };
        let all = (0..count).map(|number| Module { topology, number });
        let is_asked = |module: &Module| {
            let config = self.model.config().mtp_module(*module);
            !self.selection.layers(1).is_empty() && Site::all(&config).any(|site| self.selection.has(site))
        };
        all.filter(is_asked).collect()
    }

    /// What they make of a text, of which the model computed this; so many of its tokens are the prompt's.
    pub(super) fn run(&self, text: &[u32], prompt: usize, model: &Live) -> Result<Vec<Ran>, Failure> {
        let chosen = self.chosen();
        let Some(&last) = chosen.last() else { return Ok(Vec::new()) };
        let config = self.model.config();
        let rows = (text.len() - 1).min(config.max_position_embeddings.saturating_sub(last.ahead()));
        if rows == 0 {
            return Ok(Vec::new());
        }
        let of_model = config.mtp_hidden(self.model.semantics());
        let hidden = matrix(model, hidden_of(of_model, config.num_hidden_layers))?;
        let mut hidden = hidden.slice(s![..rows, ..]).to_owned();
        let mut tokens = text[1..=rows].to_vec();
        let mut ran = Vec::new();
        for number in 0..=last.number {
            let module = Module { number, ..last };
            let mut run = Run::begin(self, number, rows + OWN)?;
            let mut draft = run.read(&tokens[..prompt.min(rows)], hidden.slice(s![..prompt.min(rows), ..]))?;
            for row in prompt.min(rows)..rows {
                draft = run.read(&tokens[row..=row], hidden.slice(s![row..=row, ..]))?;
            }
            let room = config.max_position_embeddings - rows;
            for _ in 0..if module.topology.has_a_module_each() { 0 } else { OWN.min(room) } {
                let which = module.topology.passed_on().expect("it reads its own hidden states");
                let own = matrix(&run.live, hidden_of(which, 1))?;
                let own = own.slice(s![own.nrows() - 1.., ..]).to_owned();
                hidden.append(Axis(0), own.view()).expect("it is as wide");
                tokens.push(draft);
                draft = run.read(&[draft], own.view())?;
            }
            let next = match module.topology.passed_on() {
                None => hidden.clone(),
                Some(which) => matrix(&run.live, hidden_of(which, 1))?,
            };
            let shifted = [&tokens[1..], &[draft]].concat();
            ran.push(Ran { module, live: run.live, tokens, hidden });
            (tokens, hidden) = (shifted, next);
        }
        ran.retain(|ran| chosen.contains(&ran.module));
        Ok(ran)
    }
}

impl Ran {
    /// Of the model that the module is for itself.
    pub(super) fn config(&self, of_model: &Config) -> Config {
        of_model.mtp_module(self.module)
    }
}

/// A module under way.
struct Run<'m> {
    module: MtpModule<'m>,
    cache: Cache,
    live: Live,
}

impl<'m> Run<'m> {
    fn begin(of: &Modules<'m>, number: usize, rows: usize) -> Result<Self, Failure> {
        let module = MtpModule::load(of.model, number, of.weights)?;
        let cache = module.cache(rows)?;
        Ok(Run { module, cache, live: Live::default() })
    }

    /// Reads rows; the draft after the last.
    fn read(&mut self, tokens: &[u32], hidden: ArrayView2<'_, f64>) -> Result<u32, Failure> {
        let model = self.module.model();
        // They are bf16, as they came from the device.
        let hidden = model.gpu().upload(hidden.mapv(bf16::from_f64).view())?;
        let pass = self.module.pass(tokens, &hidden, &mut self.cache, Some(&mut self.live))?;
        Ok(model.greedy(&pass.logits)?.0)
    }
}

/// The site of a hidden state behind so many layers.
fn hidden_of(which: MtpHidden, layers: usize) -> Site {
    match which {
        MtpHidden::Normed => Site::FinalNorm,
        MtpHidden::Stream => Site::Layer(layers - 1, LayerSite::Output),
    }
}

fn matrix(live: &Live, site: Site) -> Result<Array2<f64>, Failure> {
    live.matrix(At { step: 0, site }, Extent::new(0, 0))
}
