//! Modules of multi-token prediction: each is one decoder layer of the model's own kind between a projection of what the model
//! knows and a head (SPEC A18, A19).
//!
//! ```text
//! doc000       u = Wₕ·h + Emb[t]                                 y = layer(u)   z = headₖ(norm y)   h of the next: the model's
//! vllm_m3      u = Wₑₕ·[norm(Emb[t]); norm(h)], 0 for Emb[t₀]    y = layer(u)   z = head(norm y)    h of the next: y
//! hf_generic   u = Wₑₕ·[norm(Emb[t]); norm(h)]                   y = layer(u)   z = head(norm y)    h of the next: norm y
//! ```
//!
//! Row i of module k has the model's hidden state of token i and the embedding of token i + k + 1, and tells of token i + k + 2.
//! vLLM's one module stands at the position of h, the others' at that of t. The embedding is the model's; so is the head but in
//! `doc000`.

use super::decoder::{Decoder, Pass};
use super::stream::{Stream, residual_stream};
use crate::config::Config;
use crate::error::WeightError;
use crate::matrix::Matrix;
use crate::ops::kv_cache::KvCache;
use crate::ops::linear::Linear;
use crate::ops::mtp::{self, concatenated, embedded};
use crate::run::Run;
use crate::semantics::{MtpHidden, MtpTopology};
use crate::weights::{MtpWeight, Weight, Weights};
use crate::{Error, Real, Semantics, Site, Tracked};

/// One module of a model.
pub struct MtpModule<'w> {
    config: Config,
    semantics: Semantics,
    topology: MtpTopology,
    weights: ModuleWeights<'w>,
}

impl<'w> MtpModule<'w> {
    /// A model's module of that number, from 0.
    pub fn of(model: &Decoder<'w>, module: usize) -> Self {
        let topology = topology(model);
        let (config, semantics) = (model.config().mtp_module(topology), *model.semantics());
        let weights = ModuleWeights { weights: model.weights(), module, has_head: !topology.is_concatenated() };
        MtpModule { config, semantics, topology, weights }
    }

    /// By how much the position of row 0 is ahead of that of its hidden state.
    fn ahead(&self) -> usize {
        if self.topology.has_a_module_each() { self.weights.module + 1 } else { 0 }
    }

    /// What the module makes of tokens and as many hidden states \[n, H\], which follow those in its cache of one layer. After an
    /// error the cache is as it was.
    pub fn pass<T: Real>(
        &self,
        tokens: &[u32],
        hidden: &Tracked<T>,
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Pass<T>, Error> {
        cache.attempt(|cache| self.pass_behind(cache, (tokens, hidden), run))
    }

    fn pass_behind<T: Real>(
        &self,
        cache: &mut KvCache<T>,
        (tokens, hidden): (&[u32], &Tracked<T>),
        run: &mut Run<'_, T>,
    ) -> Result<Pass<T>, Error> {
        let first = cache.len(0);
        mtp::check((tokens.len(), self.config.hidden_size), hidden.dim())?;
        let layer = Decoder::new(&self.config, self.semantics, &self.weights)?;
        let position = first + self.ahead();
        let at_0 = self.semantics.mtp_first_embedding.unwrap_or(self.topology.first_embedding());
        let e = embedded(at_0, layer.embed(tokens, position, run)?, position);
        let u = if self.topology.is_concatenated() {
            let norm = |of, x: &Tracked<T>, run: &Run<'_, T>| layer.rms_norm(self.named(of), &x.clone().into(), run);
            let (e, h) = (norm(MtpWeight::EmbeddingNorm, &e, run)?, norm(MtpWeight::HiddenNorm, hidden, run)?);
            let both = concatenated(self.semantics.mtp_concat, &e, &h)?;
            Stream::from(run.linear(Linear::under, &both, &self.weights.get(self.named(MtpWeight::BothProj))?)?)
        } else {
            let h = run.linear(Linear::under, hidden, &self.weights.get(self.named(MtpWeight::HiddenProj))?)?;
            residual_stream(Site::InputsEmbeds, &e.into(), ([1.0; 2], &h), run)?
        };
        let table = layer.rope_table(position, tokens.len(), run);
        let y = layer.layer(0, &u, &table, cache, run)?;
        layer.output(y, run)
    }

    fn named(&self, weight: MtpWeight) -> Weight {
        Weight::Mtp(self.weights.module, weight)
    }
}

/// How a model's modules are put together.
pub fn topology(model: &Decoder<'_>) -> MtpTopology {
    model.semantics().mtp_topology.unwrap_or(model.config().architecture.mtp)
}

/// Of a pass of the model, the hidden states that its first module reads, and all of document 000's.
pub fn hidden_of_model<T: Real>(model: &Decoder<'_>, pass: &Pass<T>) -> Tracked<T> {
    match model.semantics().mtp_hidden.unwrap_or(topology(model).hidden()) {
        MtpHidden::Normed => pass.normed.clone(),
        MtpHidden::Stream => pass.stream.clone(),
    }
}

/// Of a pass of a module, the hidden states that the next one reads; none where each reads the model's.
pub fn hidden_of_module<T: Real>(topology: MtpTopology, pass: Pass<T>) -> Option<Tracked<T>> {
    match topology {
        MtpTopology::Doc000 => None,
        MtpTopology::VllmM3 => Some(pass.stream),
        MtpTopology::HfGeneric => Some(pass.normed),
    }
}

/// Weights of a module as a model of one layer has them.
struct ModuleWeights<'w> {
    weights: &'w dyn Weights,
    module: usize,
    has_head: bool,
}

impl Weights for ModuleWeights<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        self.weights.get(match weight {
            Weight::Layer(_, inner) => Weight::Mtp(self.module, MtpWeight::Layer(inner)),
            Weight::FinalNorm => Weight::Mtp(self.module, MtpWeight::FinalNorm),
            Weight::LmHead if self.has_head => Weight::Mtp(self.module, MtpWeight::Head),
            other => other,
        })
    }
}
