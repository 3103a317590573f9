//! Rounds of drafts on the CUDA path: its models and modules as [`speculate`] uses them.
//!
//! Greedy choices are made on the device, of the last row of a module and of all rows that verify drafts; logits are copied to
//! the host where tokens are drawn.

use std::ops::Range;

use half::bf16;
use ndarray::ArrayView1;
use optimized::models::cache::Cache;
use optimized::models::decoder::{Decoder, Pass};
use optimized::models::mtp::{MtpModule, hidden_of_model, hidden_of_module, topology};
use optimized::models::vision::Features;
use optimized::ops::sampling::argmax;
use optimized::tensor::Matrix;
use rand_chacha::ChaCha8Rng;
use reference::ops::sampling::{Choice, Sampling};
use reference::semantics::MtpTopology;
use reference::speculative::acceptance::{Round, Slip, accept, accept_greedily};
use reference::speculative::drafter::Draft;
use reference::speculative::mtp::{ModuleDrafter, Modules, drafted};
use reference::speculative::{Acceptance, Speculation, Verifier, speculate};
use reference::weights::Weights;

use crate::failure::Failure;

/// A model on a device with a cache.
pub struct OnDevice<'m> {
    /// The model.
    pub model: &'m Decoder,
    /// Empty.
    pub cache: Cache,
    /// What the prompt shows, for its first pass.
    pub features: Vec<Features>,
}

/// Modules on a device, with a cache each.
pub struct DeviceModules<'m> {
    model: &'m Decoder,
    modules: Vec<(MtpModule<'m>, Cache)>,
}

/// Decodes with drafts of modules whose weights are given.
pub(super) fn by_modules_of(
    model: &Decoder,
    weights: &dyn Weights,
    (prompt, features): (&[u32], Vec<Features>),
    how: &Speculation,
    each: impl FnMut(&Choice),
) -> Result<(Vec<Choice>, Acceptance), Failure> {
    let positions = prompt.len() + how.tokens;
    let mut drafter = ModuleDrafter::by(DeviceModules::load(model, weights, how.drafts, positions)?)?;
    let mut verifier = OnDevice { model, cache: model.cache(positions)?, features };
    speculate(&mut verifier, prompt, how, &mut drafter, each)
}

impl<'m> DeviceModules<'m> {
    /// The first `modules` of a model; one, where it makes all drafts. Their caches have room for so many rows.
    pub fn load(model: &'m Decoder, weights: &dyn Weights, modules: usize, rows: usize) -> Result<Self, Failure> {
        let used = if topology(model).has_a_module_each() { modules } else { modules.min(1) };
        let of = |number| {
            let module = MtpModule::load(model, number, weights)?;
            let cache = module.cache(rows)?;
            Ok((module, cache))
        };
        Ok(DeviceModules { model, modules: (0..used).map(of).collect::<Result<_, Failure>>()? })
    }

    /// A module's cache.
    pub fn cache(&self, module: usize) -> &Cache {
        &self.modules[module].1
    }
}

impl Verifier for OnDevice<'_> {
    type Pass = Pass;
    type Error = Failure;

    fn positions(&self) -> usize {
        self.model.config().max_position_embeddings
    }

    fn read(&mut self, tokens: &[u32]) -> Result<Pass, Failure> {
        let pass = self.model.pass(tokens, &self.features, &mut self.cache, None)?;
        self.features.clear();
        Ok(pass)
    }

    fn accept(
        &mut self,
        pass: &Pass,
        drafts: &[Draft],
        (slip, sampling): (Option<Slip>, &Sampling),
        rng: &mut ChaCha8Rng,
    ) -> Result<Round, Failure> {
        let (n, v) = pass.logits.dim();
        let rows = n.saturating_sub(drafts.len() + 1)..n;
        let gpu = self.model.gpu();
        if *sampling == Sampling::Greedy {
            let largest = argmax(gpu, &gpu.stacked(&[(&pass.logits, rows)])?)?;
            let largest: Vec<Choice> =
                largest.into_iter().map(|(token, margin)| Choice { token, margin: margin.into() }).collect();
            return Ok(accept_greedily(slip, (&largest, v), drafts)?);
        }
        let z = gpu.download_rows(&pass.logits, rows)?.mapv(f32::from);
        Ok(accept(slip, z.view(), drafts, sampling, rng)?)
    }

    fn truncate(&mut self, tokens: usize) {
        self.cache.truncate(tokens);
    }

    fn of_rows(&self, pass: Pass, rows: usize) -> Result<Pass, Failure> {
        let first = |x: &Matrix<bf16>| self.model.gpu().stacked(&[(x, 0..rows.min(x.dim().0))]);
        Ok(Pass { stream: first(&pass.stream)?, normed: first(&pass.normed)?, logits: first(&pass.logits)? })
    }
}

impl Modules for DeviceModules<'_> {
    type Pass = Pass;
    type Hidden = Matrix<bf16>;
    type Error = Failure;

    fn topology(&self) -> MtpTopology {
        topology(self.model)
    }

    fn count(&self) -> usize {
        self.modules.len()
    }

    fn hidden_of_model(&self, pass: &Pass) -> Result<Matrix<bf16>, Failure> {
        let hidden = hidden_of_model(self.model, pass);
        self.rows(hidden, 0..Self::height(hidden))
    }

    fn height(hidden: &Matrix<bf16>) -> usize {
        hidden.dim().0
    }

    fn rows(&self, hidden: &Matrix<bf16>, rows: Range<usize>) -> Result<Matrix<bf16>, Failure> {
        Ok(self.model.gpu().stacked(&[(hidden, rows)])?)
    }

    fn stacked(&self, hidden: &Matrix<bf16>, below: &Matrix<bf16>) -> Result<Matrix<bf16>, Failure> {
        let all = |x| (x, 0..Self::height(x));
        Ok(self.model.gpu().stacked(&[all(hidden), all(below)])?)
    }

    fn cached(&self, module: usize) -> usize {
        self.modules[module].1.len()
    }

    fn truncate(&mut self, module: usize, rows: usize) {
        self.modules[module].1.truncate(rows);
    }

    fn draft(
        &mut self,
        module: usize,
        (tokens, hidden): (&[u32], &Matrix<bf16>),
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Draft, Option<Matrix<bf16>>), Failure> {
        let topology = self.topology();
        let (module, cache) = &mut self.modules[module];
        let pass = module.pass(tokens, hidden, cache, None)?;
        let last = Self::height(&pass.logits) - 1;
        let draft = if *sampling == Sampling::Greedy {
            let last = self.model.gpu().stacked(&[(&pass.logits, last..last + 1)])?;
            Draft { token: self.model.greedy(&last)?.0, probabilities: None }
        } else {
            drafted(ArrayView1::from(&self.model.last_row(&pass.logits)?), sampling, rng)?
        };
        Ok((draft, hidden_of_module(topology, pass)))
    }
}
