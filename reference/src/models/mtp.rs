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
use crate::semantics::{Module, MtpHidden, MtpTopology};
use crate::site::ModuleSite;
use crate::weights::{MtpWeight, Weight, Weights};
use crate::{Error, Real, Semantics, Site, Tracked};

/// One module of a model.
pub struct MtpModule<'w> {
    config: Config,
    semantics: Semantics,
    weights: ModuleWeights<'w>,
}

impl<'w> MtpModule<'w> {
    /// A model's module of that number, from 0.
    pub fn of(model: &Decoder<'w>, number: usize) -> Self {
        let module = Module { topology: topology(model), number };
        let (config, semantics) = (model.config().mtp_module(module), *model.semantics());
        MtpModule { config, semantics, weights: ModuleWeights { weights: model.weights(), module } }
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
        cache.attempt(|cache| {
            let first = cache.len(0);
            mtp::check((tokens.len(), self.config.hidden_size), hidden.dim())?;
            let layer = Decoder::new(&self.config, self.semantics, &self.weights)?;
            let e = layer.embed(tokens, first, run)?;
            let u = layer.entered(first, e, hidden, run)?;
            let table = layer.rope_table(first, tokens.len(), run);
            let y = layer.layer(0, &u, &table, cache, run)?;
            layer.output(y, run)
        })
    }
}

impl Decoder<'_> {
    /// The stream that the layer of a module reads, of embeddings from row `first` on and as many hidden states; of what is no
    /// module, the embeddings.
    pub fn entered<T: Real>(
        &self,
        first: usize,
        e: Tracked<T>,
        hidden: &Tracked<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Stream<T>, Error> {
        let Some(Module { topology, number }) = self.config().module else { return Ok(e.into()) };
        let named = |weight| Weight::Mtp(number, weight);
        let at_0 = self.semantics().mtp_first_embedding.unwrap_or(topology.first_embedding());
        let e = embedded(at_0, e, first + self.config().ahead());
        if !topology.is_concatenated() {
            let h = run.linear(Linear::under, hidden, &self.weights().get(named(MtpWeight::HiddenProj))?)?;
            let h = run.visit(Site::Module(ModuleSite::HiddenProj), h);
            return residual_stream(Site::InputsEmbeds, &e.into(), ([1.0; 3], &h), run);
        }
        let e = self.rms_norm(named(MtpWeight::EmbeddingNorm), &e.into(), run)?;
        let e = run.visit(Site::Module(ModuleSite::EmbeddingNorm), e);
        let h = self.rms_norm(named(MtpWeight::HiddenNorm), &hidden.clone().into(), run)?;
        let h = run.visit(Site::Module(ModuleSite::HiddenNorm), h);
        let both = concatenated(self.semantics().mtp_concat, &e, &h)?;
        let u = run.linear(Linear::under, &both, &self.weights().get(named(MtpWeight::BothProj))?)?;
        Ok(run.visit(Site::Module(ModuleSite::BothProj), u).into())
    }
}

/// How a model's modules are put together.
pub fn topology(model: &Decoder<'_>) -> MtpTopology {
    model.config().mtp_topology(model.semantics())
}

/// Of a pass of the model, the hidden states that its first module reads, and all of document 000's.
pub fn hidden_of_model<T: Real>(model: &Decoder<'_>, pass: &Pass<T>) -> Tracked<T> {
    match model.config().mtp_hidden(model.semantics()) {
        MtpHidden::Normed => pass.normed.clone(),
        MtpHidden::Stream => pass.stream.clone(),
    }
}

/// Of a pass of a module, the hidden states that the next one reads; none where each reads the model's.
pub fn hidden_of_module<T: Real>(topology: MtpTopology, pass: Pass<T>) -> Option<Tracked<T>> {
    topology.passed_on().map(|hidden| match hidden {
        MtpHidden::Normed => pass.normed,
        MtpHidden::Stream => pass.stream,
    })
}

/// Weights of a module as a model of one layer has them.
#[derive(Clone, Copy)]
pub struct ModuleWeights<'w> {
    /// The model's.
    pub weights: &'w dyn Weights,
    /// The module.
    pub module: Module,
}

impl Weights for ModuleWeights<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        let own = |weight| Weight::Mtp(self.module.number, weight);
        self.weights.get(match weight {
            Weight::Layer(_, inner) => own(MtpWeight::Layer(inner)),
            Weight::FinalNorm => own(MtpWeight::FinalNorm),
            Weight::LmHead if !self.module.topology.is_concatenated() => own(MtpWeight::Head),
            other => other,
        })
    }
}
