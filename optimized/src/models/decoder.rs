//! MiniMax-M2, M2.1, M2.5 and M2.7 in bf16: what `reference/src/models/decoder.rs` computes, under its contract `FUSED`.

use half::bf16;
use reference::contract::{
    Config, Family, LayerSite, NormWeight, Rope, Semantics, Site, Weight, Weights, require, rope_table,
};

use super::capture::{Capture, Tap};
use super::weights::{Layer, Loader};
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::HeadLayout;
use crate::ops::add_rms_norm::add_rms_norm;
use crate::ops::attention::attention;
use crate::ops::embedding::embedding;
use crate::ops::linear::linear;
use crate::ops::moe::moe;
use crate::ops::qk_norm_rope::{self, KeysValues, qk_norm_rope};
use crate::ops::rms_norm::rms_norm;
use crate::ops::router::router;
use crate::ops::sampling::argmax;
use crate::tensor::Matrix;

/// A model on a device.
#[derive(Debug)]
pub struct Decoder {
    gpu: Gpu,
    config: Config,
    layout: HeadLayout,
    embedding: Matrix<bf16>,
    layers: Vec<Layer>,
    final_norm: Matrix<bf16>,
    /// None if the head is the embedding.
    head: Option<Matrix<bf16>>,
}

/// Keys and values of the tokens so far.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<KeysValues>,
    len: usize,
}

impl Cache {
    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The table of one forward pass.
struct Table {
    cos: Matrix<f32>,
    sin: Matrix<f32>,
}

impl Decoder {
    /// Copies a model to a device; `progress` is told of each layer. The kernels know one reading of the documents, that
    /// of [`Semantics::DOCUMENTS`], up to sizes.
    pub fn load(
        gpu: Gpu,
        config: &Config,
        semantics: &Semantics,
        weights: &dyn Weights,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let sizes = Semantics {
            rotary_dim: semantics.rotary_dim,
            rope_theta: semantics.rope_theta,
            top_k: semantics.top_k,
            // Points of M3, which an M2 model does not touch.
            msa_select: semantics.msa_select,
            gate_clamp: semantics.gate_clamp,
            ..Semantics::DOCUMENTS
        };
        if config.family != Family::M2 {
            return Err(Error::Family);
        }
        if sizes != *semantics {
            return Err(Error::Semantics { asked: semantics.to_string() });
        }
        let config = config.under(semantics);
        let layout = HeadLayout::new(config.num_attention_heads, config.num_key_value_heads, config.head_dim)?;
        let loader = Loader { gpu: &gpu, weights };
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for layer in 0..config.num_hidden_layers {
            layers.push(loader.layer(&config, layer)?);
            progress();
        }
        let embedding = loader.stacked(&[Weight::Embedding])?;
        let final_norm = loader.stacked(&[Weight::FinalNorm])?;
        let head = if config.tie_word_embeddings { None } else { Some(loader.stacked(&[Weight::LmHead])?) };
        Ok(Decoder { gpu, config, layout, embedding, layers, final_norm, head })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// An empty cache for so many tokens.
    pub fn cache(&self, positions: usize) -> Result<Cache, Error> {
        let dim = (positions, self.layout.groups() * self.layout.padded());
        let layer = |_| Ok(KeysValues { keys: self.gpu.uninitialised(dim)?, values: self.gpu.uninitialised(dim)? });
        let layers = (0..self.layers.len()).map(layer).collect::<Result<_, Error>>()?;
        Ok(Cache { layers, len: 0 })
    }

    /// Logits of `tokens` \[T, V\], which follow the tokens in the cache.
    ///
    /// C1: no more positions than the model has.
    pub fn forward(
        &self,
        tokens: &[u32],
        cache: &mut Cache,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Matrix<bf16>, Error> {
        let mut tap = Tap::new(&self.gpu, capture);
        let first = cache.len;
        let (end, limit) = (first + tokens.len(), self.config.max_position_embeddings);
        let expected = format!("at most max_position_embeddings = {limit}");
        require(end <= limit, "decoder C1", "positions", end, expected)?;
        let mut stream = embedding(&self.gpu, tokens, &self.embedding)?;
        tap.show(Site::Embedding, &stream)?;
        let table = self.table(first, tokens.len(), &mut tap)?;
        let mut normed = rms_norm(&self.gpu, &stream, &self.layers[0].input_norm, NormWeight::Plain, self.eps())?;
        for (layer, kept) in cache.layers.iter_mut().enumerate() {
            tap.show(Site::Layer(layer, LayerSite::InputNorm), &normed)?;
            let attended = self.attention(layer, &normed, &table, first, kept, &mut tap)?;
            let norm = &self.layers[layer].post_attention_norm;
            let (residual, to_experts) =
                add_rms_norm(&self.gpu, &stream, &attended, norm, NormWeight::Plain, self.eps())?;
            tap.show(Site::Layer(layer, LayerSite::Residual), &residual)?;
            tap.show(Site::Layer(layer, LayerSite::PostAttentionNorm), &to_experts)?;
            let fed = self.experts(layer, &to_experts, &mut tap)?;
            let norm = self.layers.get(layer + 1).map_or(&self.final_norm, |next| &next.input_norm);
            (stream, normed) = add_rms_norm(&self.gpu, &residual, &fed, norm, NormWeight::Plain, self.eps())?;
            tap.show(Site::Layer(layer, LayerSite::Output), &stream)?;
        }
        tap.show(Site::FinalNorm, &normed)?;
        let logits = linear(&self.gpu, &normed, self.head.as_ref().unwrap_or(&self.embedding))?;
        tap.show(Site::LmHead, &logits)?;
        tap.show(Site::Logits, &logits)?;
        cache.len += tokens.len();
        Ok(logits)
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

    fn attention(
        &self,
        layer: usize,
        x: &Matrix<bf16>,
        table: &Table,
        first: usize,
        kept: &mut KeysValues,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        let at = |site| Site::Layer(layer, site);
        let weights = &self.layers[layer];
        let projections = linear(&self.gpu, x, &weights.qkv)?;
        tap.show_projections(layer, &self.layout, &projections)?;
        let read = qk_norm_rope::Weights {
            query_norm: &weights.query_norm,
            key_norm: &weights.key_norm,
            cos: &table.cos,
            sin: &table.sin,
            eps: self.eps(),
        };
        let q = qk_norm_rope(&self.gpu, &self.layout, &projections, read, first, kept)?;
        let n = x.dim().0;
        tap.show_heads(at(LayerSite::QRope), &self.layout, &q, 0..n)?;
        tap.show_heads(at(LayerSite::KRope), &self.layout, &kept.keys, first..first + n)?;
        let context = attention(&self.gpu, &self.layout, &q, first, kept)?;
        tap.show(at(LayerSite::Context), &context)?;
        let o = linear(&self.gpu, &context, &weights.o)?;
        tap.show(at(LayerSite::OProj), &o)?;
        tap.show(at(LayerSite::Attention), &o)?;
        Ok(o)
    }

    fn experts(&self, layer: usize, x: &Matrix<bf16>, tap: &mut Tap<'_, '_>) -> Result<Matrix<bf16>, Error> {
        let weights = &self.layers[layer];
        let routed = router(&self.gpu, x, &weights.gate, &weights.bias, self.config.num_experts_per_tok)?;
        tap.show_routed(layer, &routed)?;
        let fed = moe(&self.gpu, x, &routed, &weights.experts, None)?;
        tap.show_fed(layer, &fed)?;
        Ok(fed.sum)
    }

    /// The rotation table, made by the reference.
    fn table(&self, first: usize, tokens: usize, tap: &mut Tap<'_, '_>) -> Result<Table, Error> {
        let (head_dim, rotary_dim, theta) = (self.config.head_dim, self.config.rotary_dim, self.config.rope_theta);
        let table = rope_table::<f32>(&Rope { head_dim, rotary_dim, theta, ..Rope::default() }, first, tokens);
        tap.show_host(Site::RopeCos, table.cos.view());
        tap.show_host(Site::RopeSin, table.sin.view());
        Ok(Table { cos: self.gpu.upload(table.cos.view())?, sin: self.gpu.upload(table.sin.view())? })
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels take ε in f32")]
    fn eps(&self) -> f32 {
        self.config.rms_norm_eps as f32
    }
}
