//! MiniMax-M2, M2.1, M2.5, M2.7 and M3 in bf16: what `reference/src/models/decoder.rs` computes, under its contract
//! `PARITY`.

use half::bf16;
use reference::contract::{Config, ContractError, GateClamp, Media, Semantics, Site, Weight, Weights};

use super::cache::Cache;
use super::capture::{Capture, Tap};
use super::layers::{Behind, Layers};
use super::rank::Rank;
use super::vision::{Features, VisionTower};
use super::weights::Loader;
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::Activation;
use crate::ops::embedding::embedding;
use crate::ops::linear::linear;
use crate::ops::masked_scatter::masked_scatter;
use crate::ops::sampling::argmax;
use crate::tensor::Matrix;
use crate::weight::{WeightMatrix, WeightView};

/// A model on a device.
#[derive(Debug)]
pub struct Decoder {
    gpu: Gpu,
    semantics: Semantics,
    pub(super) layers: Layers,
    embedding: Matrix<bf16>,
    /// None if the head is the embedding.
    head: Option<WeightMatrix>,
    /// None of a model of text.
    tower: Option<VisionTower>,
}

/// What a pass over n tokens gives.
#[derive(Debug)]
pub struct Pass {
    /// The last layer's output \[n, H\].
    pub stream: Matrix<bf16>,
    /// The same behind the final norm \[n, H\].
    pub normed: Matrix<bf16>,
    /// The head's output \[n, V\].
    pub logits: Matrix<bf16>,
}

impl Decoder {
    /// Copies a model to a device; `progress` is told of each layer, and of each of the vision tower. The kernels know both
    /// presets' readings of the documents, mixtures of them, and other sizes.
    pub fn load(
        gpu: Gpu,
        config: &Config,
        semantics: &Semantics,
        weights: &dyn Weights,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let activation = activation(config, semantics)?;
        let config = config.under(semantics);
        let loader = Loader { gpu: &gpu, weights, activation };
        let layers = Layers::load(&loader, config.clone(), semantics.msa_select, None, &mut progress)?;
        let tower = match &config.vision {
            Some(vision) => Some(VisionTower::new(vision.clone(), loader.vision(vision, progress)?)?),
            None => None,
        };
        let embedding = loader.stacked(&[Weight::Embedding])?;
        let head = if config.tie_word_embeddings { None } else { Some(loader.of_products(&[Weight::LmHead])?) };
        Ok(Decoder { gpu, semantics: *semantics, layers, embedding, head, tower })
    }

    /// Copies a rank's part of a text model to its device: of the vocabulary, its own, and a row of zeros below the embedding for
    /// other ranks' tokens.
    pub(super) fn load_rank(
        gpu: Gpu,
        (config, semantics): (&Config, &Semantics),
        weights: &dyn Weights,
        rank: Rank,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let activation = activation(config, semantics)?;
        let config = config.under(semantics);
        let loader = Loader { gpu: &gpu, weights, activation };
        let of_head = if config.tie_word_embeddings { Weight::Embedding } else { Weight::LmHead };
        let head = Some(loader.of_products(&[of_head])?);
        let own = loader.stacked(&[Weight::Embedding])?;
        let zeros = gpu.zeros((1, own.dim().1))?;
        let embedding = gpu.stacked(&[(&own, 0..own.dim().0), (&zeros, 0..1)])?;
        let layers = Layers::load(&loader, config, semantics.msa_select, Some(rank), progress)?;
        Ok(Decoder { gpu, semantics: *semantics, layers, embedding, head, tower: None })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The configuration in use.
    pub fn config(&self) -> &Config {
        &self.layers.config
    }

    /// The reading of the documents in use.
    pub fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    /// An empty cache for so many tokens.
    pub fn cache(&self, positions: usize) -> Result<Cache, Error> {
        self.layers.cache(&self.gpu, positions)
    }

    /// Features of all that a prompt shows, pass by pass through the tower.
    ///
    /// K2: the model has one.
    pub fn features(&self, media: &Media, capture: Option<&mut dyn Capture>) -> Result<Vec<Features>, Error> {
        let [quantity, value, expected] = ["vision towers", "0", "1"].map(str::to_owned);
        let blind = || ContractError { label: "decoder K2", quantity, value, expected };
        let tower = self.tower.as_ref().ok_or_else(blind)?;
        let mut tap = Tap::new(&self.gpu, capture);
        let passes = media.passes().enumerate();
        passes.map(|(number, (medium, pixels))| tower.features(&self.gpu, (number, medium, pixels), &mut tap)).collect()
    }

    /// Logits of `tokens` \[T, V\], which follow the tokens in the cache. They have a place for each row of `features`, which
    /// a prompt's first pass has.
    ///
    /// C3: the reference's, no more positions than the model has; and `masked_scatter`'s. K1: nor than the cache.
    pub fn forward(
        &self,
        tokens: &[u32],
        features: &[Features],
        cache: &mut Cache,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Matrix<bf16>, Error> {
        Ok(self.pass(tokens, features, cache, capture)?.logits)
    }

    /// The same, with the hidden states that the logits are made of.
    pub fn pass(
        &self,
        tokens: &[u32],
        features: &[Features],
        cache: &mut Cache,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Pass, Error> {
        let mut tap = Tap::new(&self.gpu, capture);
        self.layers.require_room(tokens.len(), cache)?;
        let mut stream = self.embed(tokens, &mut tap)?;
        self.scatter(tokens, features, &mut stream, &mut tap)?;
        let behind = self.layers.pass(&self.gpu, stream, cache, &mut tap)?;
        self.output(behind, None, &mut tap)
    }

    /// The token embedding.
    pub(super) fn embed(&self, tokens: &[u32], tap: &mut Tap<'_, '_>) -> Result<Matrix<bf16>, Error> {
        let embedded = match &self.layers.rank {
            Some(rank) => rank.sum(&self.gpu, embedding(&self.gpu, &rank.rows_of(tokens)?, &self.embedding)?)?,
            None => embedding(&self.gpu, tokens, &self.embedding)?,
        };
        tap.show(Site::Embedding, &embedded)?;
        Ok(embedded)
    }

    /// Logits by a head, or by the model's.
    pub(super) fn output(
        &self,
        Behind { stream, normed }: Behind,
        head: Option<&WeightMatrix>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Pass, Error> {
        let own = || self.head.as_ref().map_or(WeightView::from(&self.embedding), WeightView::from);
        let logits = linear(&self.gpu, &normed, head.map_or_else(own, WeightView::from))?;
        tap.show(Site::LmHead, &logits)?;
        tap.show(Site::Logits, &logits)?;
        Ok(Pass { stream, normed, logits })
    }

    /// Puts features in their places, in a model that has a tower.
    fn scatter(
        &self,
        tokens: &[u32],
        features: &[Features],
        stream: &mut Matrix<bf16>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<(), Error> {
        let Some(vision) = &self.layers.config.vision else { return Ok(()) };
        for Features { medium, rows } in features {
            let marked: Vec<bool> = tokens.iter().map(|&token| token == medium.token(vision)).collect();
            masked_scatter(&self.gpu, stream, &marked, rows)?;
        }
        tap.show(Site::InputsEmbeds, stream)
    }

    /// The token of the largest of the last row's logits, and its margin.
    pub fn greedy(&self, logits: &Matrix<bf16>) -> Result<(u32, f32), Error> {
        let last = argmax(&self.gpu, logits)?.pop();
        Ok(last.expect("a row for each token"))
    }

    /// The last row's logits.
    pub fn last_row(&self, logits: &Matrix<bf16>) -> Result<Vec<f32>, Error> {
        let n = logits.dim().0;
        Ok(self.gpu.download_rows(logits, n - 1..n)?.iter().map(|&x| f32::from(x)).collect())
    }
}

/// What the networks of a model make of gate and up projections.
///
/// The kernels know both presets' readings of the documents, mixtures of them, and other sizes: others are refused.
fn activation(config: &Config, semantics: &Semantics) -> Result<Activation, Error> {
    let known = Semantics {
        rotary_dim: semantics.rotary_dim,
        rope_theta: semantics.rope_theta,
        top_k: semantics.top_k,
        msa_select: semantics.msa_select,
        msa_top_k: semantics.msa_top_k,
        msa_init_block: semantics.msa_init_block,
        gate_clamp: semantics.gate_clamp,
        mtp_topology: semantics.mtp_topology,
        mtp_hidden: semantics.mtp_hidden,
        mtp_first_embedding: semantics.mtp_first_embedding,
        ..Semantics::RELEASED
    };
    if known != *semantics || semantics.gate_clamp == GateClamp::None {
        return Err(Error::Semantics { asked: semantics.to_string() });
    }
    Ok(match config.under(semantics).swiglu_oai {
        Some(coefficients) => Activation::SwigluOai(coefficients, semantics.gate_clamp),
        None => Activation::Swiglu,
    })
}
