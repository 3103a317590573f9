//! MiniMax-M2, M2.1, M2.5, M2.7 and M3 in bf16: what `reference/src/models/decoder.rs` computes, under its contract
//! `PARITY`.

use std::ops::Range;

use half::bf16;
use ndarray::s;
use reference::contract::{
    Config, ContractError, GateClamp, LayerSite, Media, MsaSelect, QkNorm, Rope, RopeTable, Semantics, Site, Weight,
    Weights, require, rope_table,
};

use super::capture::{Capture, Tap};
use super::vision::{Features, VisionTower};
use super::weights::{IndexNorms, Layer, Loader, Network, Routed};
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::add_rms_norm::add_rms_norm;
use crate::ops::attention::attention;
use crate::ops::block_sparse_attention::{Chosen, block_sparse_attention};
use crate::ops::dense_ffn::dense_ffn;
use crate::ops::embedding::embedding;
use crate::ops::indexer::indexer;
use crate::ops::linear::linear;
use crate::ops::masked_scatter::masked_scatter;
use crate::ops::moe::{Shared, moe};
use crate::ops::qk_norm_rope::{self, IndexHeads, KeysValues, qk_norm_rope, qk_norm_rope_per_head};
use crate::ops::rms_norm::rms_norm;
use crate::ops::router::router;
use crate::ops::sampling::argmax;
use crate::ops::{Activation, HeadLayout};
use crate::tensor::Matrix;
use crate::weight::{WeightMatrix, WeightView};

/// A model on a device.
#[derive(Debug)]
pub struct Decoder {
    gpu: Gpu,
    config: Config,
    activation: Activation,
    select: MsaSelect,
    layout: HeadLayout,
    /// Of the index branch, if there is one.
    index_layout: Option<HeadLayout>,
    embedding: Matrix<bf16>,
    layers: Vec<Layer>,
    final_norm: Matrix<bf16>,
    /// None if the head is the embedding.
    head: Option<WeightMatrix>,
    /// None of a model of text.
    tower: Option<VisionTower>,
}

/// Keys and values of the tokens so far, and index keys; and how all the tokens rotate that it has room for.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<Kept>,
    table: Table,
    len: usize,
}

/// Those of a layer.
#[derive(Debug)]
struct Kept {
    main: KeysValues,
    index: Option<Matrix<bf16>>,
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

/// The rotation's table, a row a position, on both sides.
#[derive(Debug)]
struct Table {
    on_host: RopeTable<f32>,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
}

impl Table {
    /// Shows the rows of some positions.
    fn show(&self, positions: Range<usize>, tap: &mut Tap<'_, '_>) {
        let rows = s![positions, ..];
        tap.show_host(Site::RopeCos, self.on_host.cos.value.slice(rows));
        tap.show_host(Site::RopeSin, self.on_host.sin.value.slice(rows));
    }
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
        let known = Semantics {
            rotary_dim: semantics.rotary_dim,
            rope_theta: semantics.rope_theta,
            top_k: semantics.top_k,
            msa_select: semantics.msa_select,
            msa_top_k: semantics.msa_top_k,
            msa_init_block: semantics.msa_init_block,
            gate_clamp: semantics.gate_clamp,
            ..Semantics::RELEASED
        };
        if known != *semantics || semantics.gate_clamp == GateClamp::None {
            return Err(Error::Semantics { asked: semantics.to_string() });
        }
        let config = config.under(semantics);
        let layout = HeadLayout::new(config.num_attention_heads, config.num_key_value_heads, config.head_dim)?;
        let index_layout = config.index.map(|index| HeadLayout::new(index.heads, 1, index.head_dim)).transpose()?;
        let activation = match config.swiglu_oai {
            Some(coefficients) => Activation::SwigluOai(coefficients, semantics.gate_clamp),
            None => Activation::Swiglu,
        };
        let loader = Loader { gpu: &gpu, weights, activation };
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for layer in 0..config.num_hidden_layers {
            layers.push(loader.layer(&config, layer)?);
            progress();
        }
        let tower = match &config.vision {
            Some(vision) => Some(VisionTower::new(vision.clone(), loader.vision(vision, progress)?)?),
            None => None,
        };
        let embedding = loader.stacked(&[Weight::Embedding])?;
        let final_norm = loader.stacked(&[Weight::FinalNorm])?;
        let head = if config.tie_word_embeddings { None } else { Some(loader.of_products(&[Weight::LmHead])?) };
        let select = semantics.msa_select;
        Ok(Decoder {
            gpu,
            config,
            activation,
            select,
            layout,
            index_layout,
            embedding,
            layers,
            final_norm,
            head,
            tower,
        })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// An empty cache for so many tokens.
    pub fn cache(&self, positions: usize) -> Result<Cache, Error> {
        let dim = (positions, self.layout.groups() * self.layout.padded());
        let layer = |layer: &Layer| {
            let main = KeysValues { keys: self.gpu.uninitialised(dim)?, values: self.gpu.uninitialised(dim)? };
            let index = self.index_layout.as_ref().filter(|_| layer.index_norms.is_some());
            let index = index.map(|layout| self.gpu.uninitialised((positions, layout.padded()))).transpose()?;
            Ok(Kept { main, index })
        };
        let layers = self.layers.iter().map(layer).collect::<Result<_, Error>>()?;
        Ok(Cache { layers, table: self.table(positions)?, len: 0 })
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
        let mut tap = Tap::new(&self.gpu, capture);
        let first = cache.len;
        let (end, limit) = (first + tokens.len(), self.config.max_position_embeddings);
        let expected = format!("at most max_position_embeddings = {limit}");
        require(end <= limit, "decoder C3", "positions", end, expected)?;
        let mut stream = embedding(&self.gpu, tokens, &self.embedding)?;
        tap.show(Site::Embedding, &stream)?;
        self.scatter(tokens, features, &mut stream, &mut tap)?;
        let Cache { layers, table, .. } = cache;
        let room = table.cos.dim().0;
        require(end <= room, "decoder K1", "positions", end, format!("at most the cache's, {room}"))?;
        table.show(first..end, &mut tap);
        let mut normed = rms_norm(&self.gpu, &stream, &self.layers[0].input_norm, self.config.norm_weight, self.eps())?;
        for (layer, kept) in layers.iter_mut().enumerate() {
            tap.show(Site::Layer(layer, LayerSite::InputNorm), &normed)?;
            let attended = self.attention(layer, &normed, table, first, kept, &mut tap)?;
            let norm = &self.layers[layer].post_attention_norm;
            let (residual, to_network) =
                add_rms_norm(&self.gpu, &stream, &attended, norm, self.config.norm_weight, self.eps())?;
            tap.show(Site::Layer(layer, LayerSite::Residual), &residual)?;
            tap.show(Site::Layer(layer, LayerSite::PostAttentionNorm), &to_network)?;
            let fed = self.feed_forward(layer, &to_network, &mut tap)?;
            let norm = self.layers.get(layer + 1).map_or(&self.final_norm, |next| &next.input_norm);
            (stream, normed) = add_rms_norm(&self.gpu, &residual, &fed, norm, self.config.norm_weight, self.eps())?;
            tap.show(Site::Layer(layer, LayerSite::Output), &stream)?;
        }
        tap.show(Site::FinalNorm, &normed)?;
        let head = self.head.as_ref().map_or(WeightView::from(&self.embedding), WeightView::from);
        let logits = linear(&self.gpu, &normed, head)?;
        tap.show(Site::LmHead, &logits)?;
        tap.show(Site::Logits, &logits)?;
        cache.len += tokens.len();
        Ok(logits)
    }

    /// Puts features in their places, in a model that has a tower.
    fn scatter(
        &self,
        tokens: &[u32],
        features: &[Features],
        stream: &mut Matrix<bf16>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<(), Error> {
        let Some(vision) = &self.config.vision else { return Ok(()) };
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

    fn attention(
        &self,
        layer: usize,
        x: &Matrix<bf16>,
        table: &Table,
        first: usize,
        kept: &mut Kept,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        let at = |site| Site::Layer(layer, site);
        let weights = &self.layers[layer];
        let index_layout = self.index_layout.as_ref().filter(|_| weights.index_norms.is_some());
        let projections = linear(&self.gpu, x, &weights.projections)?;
        tap.show_projections(layer, &self.layout, index_layout, &projections)?;
        let read = qk_norm_rope::Weights {
            query_norm: &weights.query_norm,
            key_norm: &weights.key_norm,
            cos: &table.cos,
            sin: &table.sin,
            first_row: first,
            eps: self.eps(),
        };
        let Kept { main, index: index_keys } = kept;
        let (q, index_q) = if self.config.qk_norm == QkNorm::PerHead {
            let index = index_heads(index_layout, weights.index_norms.as_ref(), index_keys.as_mut());
            let read = (read, self.config.norm_weight);
            qk_norm_rope_per_head(&self.gpu, &self.layout, &projections, read, first, main, index)?
        } else {
            (qk_norm_rope(&self.gpu, &self.layout, &projections, read, first, main)?, None)
        };
        let n = x.dim().0;
        tap.show_heads(at(LayerSite::QRope), &self.layout, &q, 0..n)?;
        tap.show_heads(at(LayerSite::KRope), &self.layout, &main.keys, first..first + n)?;
        let index = self.config.index_of(layer).zip(index_layout).zip(index_q.zip(index_keys.as_ref()));
        let context = match index {
            Some(((index, layout), (q_of_index, keys))) => {
                tap.show_heads(at(LayerSite::IndexQRope), layout, &q_of_index, 0..n)?;
                tap.show_heads(at(LayerSite::IndexKRope), layout, keys, first..first + n)?;
                let how = (&index.blocks, self.select);
                let indexed = indexer(&self.gpu, layout, how, &q_of_index, first, keys)?;
                tap.show_indexed(layer, n, &indexed)?;
                let chosen = Chosen { blocks: &indexed.chosen, size: index.blocks.size };
                block_sparse_attention(&self.gpu, &self.layout, &q, first, main, chosen)?
            }
            None => attention(&self.gpu, &self.layout, &q, first, main)?,
        };
        tap.show(at(LayerSite::Context), &context)?;
        let o = linear(&self.gpu, &context, &weights.o)?;
        tap.show(at(LayerSite::OProj), &o)?;
        tap.show(at(LayerSite::Attention), &o)?;
        Ok(o)
    }

    fn feed_forward(&self, layer: usize, x: &Matrix<bf16>, tap: &mut Tap<'_, '_>) -> Result<Matrix<bf16>, Error> {
        match &self.layers[layer].network {
            Network::Dense(weights) => {
                let fed = dense_ffn(&self.gpu, x, weights, self.activation)?;
                tap.show(Site::Layer(layer, LayerSite::DenseDown), &fed.output)?;
                tap.show(Site::Layer(layer, LayerSite::Mlp), &fed.output)?;
                Ok(fed.output)
            }
            Network::Experts(weights) => self.experts(layer, weights, x, tap),
        }
    }

    fn experts(
        &self,
        layer: usize,
        weights: &Routed,
        x: &Matrix<bf16>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        let shared = weights.shared.as_ref().map(|shared| dense_ffn(&self.gpu, x, shared, self.activation));
        let shared = shared.transpose()?;
        if let Some(shared) = &shared {
            tap.show(Site::Layer(layer, LayerSite::SharedDown), &shared.output)?;
            tap.show(Site::Layer(layer, LayerSite::Shared), &shared.output)?;
        }
        let routed = router(&self.gpu, x, &weights.gate, &weights.bias, self.config.num_experts_per_tok)?;
        tap.show_routed(layer, &routed)?;
        let scale = self.routed_scale();
        let shared = shared.as_ref().map(|shared| Shared { output: &shared.output, scale });
        let fed = moe(&self.gpu, x, &routed, &weights.experts, shared)?;
        tap.show_fed(layer, &fed)?;
        Ok(fed.with_shared.unwrap_or(fed.sum))
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels take ς in f32")]
    fn routed_scale(&self) -> f32 {
        self.config.routed_scaling_factor as f32
    }

    /// The rotation's table, made by the reference.
    fn table(&self, positions: usize) -> Result<Table, Error> {
        let (head_dim, rotary_dim, theta) = (self.config.head_dim, self.config.rotary_dim, self.config.rope_theta);
        let on_host = rope_table::<f32>(&Rope { head_dim, rotary_dim, theta, ..Rope::default() }, 0, positions);
        let [cos, sin] = [&on_host.cos, &on_host.sin].map(|table| self.gpu.upload(table.view()));
        Ok(Table { cos: cos?, sin: sin?, on_host })
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels take ε in f32")]
    fn eps(&self) -> f32 {
        self.config.rms_norm_eps as f32
    }
}

/// The index branch's heads of a layer that has one.
fn index_heads<'a>(
    layout: Option<&'a HeadLayout>,
    norms: Option<&'a IndexNorms>,
    keys: Option<&'a mut Matrix<bf16>>,
) -> Option<IndexHeads<'a>> {
    let ((layout, norms), keys) = layout.zip(norms).zip(keys)?;
    Some(IndexHeads { layout, query_norm: &norms.query, key_norm: &norms.key, keys })
}
