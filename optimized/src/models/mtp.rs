//! Modules of multi-token prediction: what `reference/src/models/mtp.rs` computes, under its contract `PARITY`.

use half::bf16;
use reference::contract::{
    Module, ModuleSite, ModuleWeights, MtpFirstEmbedding, MtpHidden, MtpTopology, MtpWeight, Site, Weight, Weights,
    mtp_check,
};

use super::cache::Cache;
use super::capture::{Capture, Tap};
use super::decoder::{Decoder, Pass};
use super::layers::Layers;
use super::weights::Loader;
use crate::error::Error;
use crate::ops::linear::linear;
use crate::ops::mtp::{Norms, mtp};
use crate::ops::residual::residual;
use crate::tensor::Matrix;
use crate::weight::WeightMatrix;

/// One module of a model, on its device.
#[derive(Debug)]
pub struct MtpModule<'m> {
    model: &'m Decoder,
    layers: Layers,
    input: Input,
    /// None if it shares the model's.
    head: Option<WeightMatrix>,
}

/// What makes the stream that the layer reads.
#[derive(Debug)]
enum Input {
    /// Document 000's projection, to which the embedding is added.
    Sum(WeightMatrix),
    /// Both side by side, behind their norms, projected.
    Both { embedding_norm: Matrix<bf16>, hidden_norm: Matrix<bf16>, projection: WeightMatrix },
}

impl<'m> MtpModule<'m> {
    /// Copies the module of that number, from 0, to its model's device.
    pub fn load(model: &'m Decoder, number: usize, weights: &dyn Weights) -> Result<Self, Error> {
        let module = Module { topology: topology(model), number };
        let weights = ModuleWeights { weights, module };
        let Layers { config, activation, select, .. } = &model.layers;
        let loader = Loader { gpu: model.gpu(), weights: &weights, activation: *activation };
        let layers = Layers::load(&loader, config.mtp_module(module), *select, None, || ())?;
        let of = |weight| Weight::Mtp(number, weight);
        let (input, head) = if module.topology.is_concatenated() {
            let input = Input::Both {
                embedding_norm: loader.stacked(&[of(MtpWeight::EmbeddingNorm)])?,
                hidden_norm: loader.stacked(&[of(MtpWeight::HiddenNorm)])?,
                projection: loader.of_products(&[of(MtpWeight::BothProj)])?,
            };
            (input, None)
        } else {
            let projection = loader.of_products(&[of(MtpWeight::HiddenProj)])?;
            (Input::Sum(projection), Some(loader.of_products(&[of(MtpWeight::Head)])?))
        };
        Ok(MtpModule { model, layers, input, head })
    }

    /// The model.
    pub fn model(&self) -> &'m Decoder {
        self.model
    }

    /// An empty cache for so many rows.
    pub fn cache(&self, rows: usize) -> Result<Cache, Error> {
        self.layers.cache(self.model.gpu(), rows)
    }

    /// What the module makes of tokens and as many hidden states \[n, H\], which follow those in its cache of one layer.
    ///
    /// C1: `mtp`'s. C3 and K1: the model's.
    pub fn pass(
        &self,
        tokens: &[u32],
        hidden: &Matrix<bf16>,
        cache: &mut Cache,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Pass, Error> {
        let mut tap = Tap::new(self.model.gpu(), capture);
        mtp_check((tokens.len(), self.layers.config.hidden_size), hidden.dim())?;
        self.layers.require_room(tokens.len(), cache)?;
        let e = self.model.embed(tokens, &mut tap)?;
        let stream = self.stream(&e, hidden, cache.len(), &mut tap)?;
        let behind = self.layers.pass(self.model.gpu(), stream, cache, &mut tap)?;
        self.model.output(behind, self.head.as_ref(), &mut tap)
    }

    /// u of embeddings e and hidden states from row `first` on.
    fn stream(
        &self,
        e: &Matrix<bf16>,
        hidden: &Matrix<bf16>,
        first: usize,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        let gpu = self.model.gpu();
        match &self.input {
            Input::Sum(projection) => {
                let h = linear(gpu, hidden, projection)?;
                tap.show(Site::Module(ModuleSite::HiddenProj), &h)?;
                let u = residual(gpu, e, &h)?;
                tap.show(Site::InputsEmbeds, &u)?;
                Ok(u)
            }
            Input::Both { embedding_norm, hidden_norm, projection } => {
                let weight = self.layers.config.norm_weight;
                let norms = Norms { embedding: embedding_norm, hidden: hidden_norm, weight, eps: self.layers.eps() };
                let both = mtp(gpu, e, hidden, norms, self.is_zeroed(first))?;
                tap.show_halves(
                    [Site::Module(ModuleSite::EmbeddingNorm), Site::Module(ModuleSite::HiddenNorm)],
                    &both,
                )?;
                let u = linear(gpu, &both, projection)?;
                tap.show(Site::Module(ModuleSite::BothProj), &u)?;
                Ok(u)
            }
        }
    }

    /// Whether the embedding in row `first` counts as 0.
    fn is_zeroed(&self, first: usize) -> bool {
        let at_0 = self.model.semantics().mtp_first_embedding.unwrap_or(topology(self.model).first_embedding());
        at_0 == MtpFirstEmbedding::Zeroed && first + self.layers.config.ahead() == 0
    }
}

/// How a model's modules are put together.
pub fn topology(model: &Decoder) -> MtpTopology {
    model.config().mtp_topology(model.semantics())
}

/// Of a pass of the model, the hidden states that its first module reads, and all of document 000's.
pub fn hidden_of_model<'p>(model: &Decoder, pass: &'p Pass) -> &'p Matrix<bf16> {
    match model.config().mtp_hidden(model.semantics()) {
        MtpHidden::Normed => &pass.normed,
        MtpHidden::Stream => &pass.stream,
    }
}

/// Of a pass of a module, the hidden states that the next one reads; none where each reads the model's.
pub fn hidden_of_module(topology: MtpTopology, pass: Pass) -> Option<Matrix<bf16>> {
    topology.passed_on().map(|hidden| match hidden {
        MtpHidden::Normed => pass.normed,
        MtpHidden::Stream => pass.stream,
    })
}
