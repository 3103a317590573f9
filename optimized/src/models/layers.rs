//! Decoder layers on a device and the norm behind them, from residual stream to residual stream: all that a model and a module of
//! multi-token prediction share.

use half::bf16;
use reference::contract::{Config, LayerSite, MsaSelect, QkNorm, Rope, Site, Weight, require, rope_table};

use super::cache::{Cache, Kept, Table};
use super::capture::Tap;
use super::rank::Rank;
use super::weights::{IndexNorms, Layer, Loader, Network, Routed};
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::add_rms_norm::add_rms_norm;
use crate::ops::attention::attention;
use crate::ops::block_sparse_attention::{Chosen, block_sparse_attention};
use crate::ops::dense_ffn::dense_ffn;
use crate::ops::indexer::indexer;
use crate::ops::linear::linear;
use crate::ops::moe::{Shared, moe};
use crate::ops::qk_norm_rope::{
    self, IndexHeads, KeysValues, Squares, qk_norm_rope, qk_norm_rope_per_head, qk_norm_rope_sharded, squares,
};
use crate::ops::rms_norm::rms_norm;
use crate::ops::router::router;
use crate::ops::{Activation, HeadLayout};
use crate::tensor::Matrix;

/// Layers, and the norm behind the last.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) config: Config,
    pub(super) activation: Activation,
    pub(super) select: MsaSelect,
    layout: HeadLayout,
    /// Of the index branch, if there is one.
    index_layout: Option<HeadLayout>,
    /// None of a decoder that has all of its model.
    pub(super) rank: Option<Rank>,
    each: Vec<Layer>,
    final_norm: Matrix<bf16>,
}

/// What a pass over n tokens leaves.
#[derive(Debug)]
pub(super) struct Behind {
    /// The last layer's output \[n, H\].
    pub(super) stream: Matrix<bf16>,
    /// The same behind the norm \[n, H\].
    pub(super) normed: Matrix<bf16>,
}

impl Layers {
    /// Copies them to a device, or what a rank has of them; `progress` is told of each.
    pub(super) fn load(
        loader: &Loader<'_>,
        config: Config,
        select: MsaSelect,
        rank: Option<Rank>,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let layout = HeadLayout::new(config.num_attention_heads, config.num_key_value_heads, config.head_dim)?;
        let index_layout = config.index.map(|index| HeadLayout::new(index.heads, 1, index.head_dim)).transpose()?;
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for layer in 0..config.num_hidden_layers {
            let experts = rank.as_ref().map_or(0..config.num_local_experts, |rank| rank.experts.clone());
            layers.push(loader.layer(&config, layer, experts)?);
            progress();
        }
        let final_norm = loader.stacked(&[Weight::FinalNorm])?;
        let activation = loader.activation;
        Ok(Layers { config, activation, select, layout, index_layout, rank, each: layers, final_norm })
    }

    /// An empty cache for so many tokens.
    pub(super) fn cache(&self, gpu: &Gpu, positions: usize) -> Result<Cache, Error> {
        let dim = (positions, self.layout.groups() * self.layout.padded());
        let layer = |layer: &Layer| {
            let main = KeysValues { keys: gpu.uninitialised(dim)?, values: gpu.uninitialised(dim)? };
            let index = self.index_layout.as_ref().filter(|_| layer.index_norms.is_some());
            let index = index.map(|layout| gpu.uninitialised((positions, layout.padded()))).transpose()?;
            Ok(Kept { main, index })
        };
        let layers = self.each.iter().map(layer).collect::<Result<_, Error>>()?;
        Ok(Cache { layers, table: self.table(gpu, positions)?, len: 0 })
    }

    /// C3: the reference's, no more positions than the model has. K1: nor than the cache.
    pub(super) fn require_room(&self, tokens: usize, cache: &Cache) -> Result<(), Error> {
        let (end, limit) = (cache.len + tokens, self.config.max_position_embeddings);
        let expected = format!("at most max_position_embeddings = {limit}");
        require(end + self.config.ahead() <= limit, "decoder C3", "positions", end + self.config.ahead(), expected)?;
        let room = cache.table.cos.dim().0;
        require(end <= room, "decoder K1", "positions", end, format!("at most the cache's, {room}"))?;
        Ok(())
    }

    /// Goes through all layers with a stream of tokens that follow those in the cache.
    pub(super) fn pass(
        &self,
        gpu: &Gpu,
        mut stream: Matrix<bf16>,
        cache: &mut Cache,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Behind, Error> {
        let (weighing, eps) = (self.config.norm_weight, self.eps());
        let (n, first) = (stream.dim().0, cache.len);
        let Cache { layers, table, .. } = cache;
        table.show(first..first + n, tap);
        let mut normed = rms_norm(gpu, &stream, &self.each[0].input_norm, weighing, eps)?;
        for (layer, kept) in layers.iter_mut().enumerate() {
            tap.show(Site::Layer(layer, LayerSite::InputNorm), &normed)?;
            let attended = self.attention(gpu, layer, &normed, (table, first, kept), tap)?;
            let norm = &self.each[layer].post_attention_norm;
            let (residual, to_network) = add_rms_norm(gpu, &stream, &attended, norm, weighing, eps)?;
            tap.show(Site::Layer(layer, LayerSite::Residual), &residual)?;
            tap.show(Site::Layer(layer, LayerSite::PostAttentionNorm), &to_network)?;
            let fed = self.feed_forward(gpu, layer, &to_network, tap)?;
            let norm = self.each.get(layer + 1).map_or(&self.final_norm, |next| &next.input_norm);
            (stream, normed) = add_rms_norm(gpu, &residual, &fed, norm, weighing, eps)?;
            tap.show(Site::Layer(layer, LayerSite::Output), &stream)?;
        }
        tap.show(Site::FinalNorm, &normed)?;
        cache.len += n;
        Ok(Behind { stream, normed })
    }

    fn attention(
        &self,
        gpu: &Gpu,
        layer: usize,
        x: &Matrix<bf16>,
        (table, first, kept): (&Table, usize, &mut Kept),
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        let at = |site| Site::Layer(layer, site);
        let weights = &self.each[layer];
        let index_layout = self.index_layout.as_ref().filter(|_| weights.index_norms.is_some());
        let projections = linear(gpu, x, &weights.projections)?;
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
            qk_norm_rope_per_head(gpu, &self.layout, &projections, read, first, main, index)?
        } else {
            (self.norm_rope(gpu, &projections, read, first, main)?, None)
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
                let indexed = indexer(gpu, layout, how, &q_of_index, first, keys)?;
                tap.show_indexed(layer, n, &indexed)?;
                let chosen = Chosen { blocks: &indexed.chosen, size: index.blocks.size };
                block_sparse_attention(gpu, &self.layout, &q, first, main, chosen)?
            }
            None => attention(gpu, &self.layout, &q, first, main)?,
        };
        tap.show(at(LayerSite::Context), &context)?;
        let o = self.summed(gpu, linear(gpu, &context, &weights.o)?)?;
        tap.show(at(LayerSite::OProj), &o)?;
        tap.show(at(LayerSite::Attention), &o)?;
        Ok(o)
    }

    /// Queries behind norm and rotation, where norms are over all heads: of a rank by what squares all ranks have.
    fn norm_rope(
        &self,
        gpu: &Gpu,
        projections: &Matrix<bf16>,
        read: qk_norm_rope::Weights<'_>,
        first: usize,
        kept: &mut KeysValues,
    ) -> Result<Matrix<bf16>, Error> {
        let Some(rank) = &self.rank else { return qk_norm_rope(gpu, &self.layout, projections, read, first, kept) };
        let sums = rank.sum_f32(gpu, squares(gpu, &self.layout, projections)?)?;
        let squares = Squares { sums: &sums, divisors: rank.divisors };
        qk_norm_rope_sharded(gpu, &self.layout, projections, (read, squares), first, kept)
    }

    /// What all ranks computed together, or a decoder that has all of its model.
    pub(super) fn summed(&self, gpu: &Gpu, part: Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
        match &self.rank {
            Some(rank) => rank.sum(gpu, part),
            None => Ok(part),
        }
    }

    fn feed_forward(
        &self,
        gpu: &Gpu,
        layer: usize,
        x: &Matrix<bf16>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        match &self.each[layer].network {
            Network::Dense(weights) => {
                let output = self.summed(gpu, dense_ffn(gpu, x, weights, self.activation)?.output)?;
                tap.show(Site::Layer(layer, LayerSite::DenseDown), &output)?;
                tap.show(Site::Layer(layer, LayerSite::Mlp), &output)?;
                Ok(output)
            }
            Network::Experts(weights) => self.experts(gpu, (layer, weights), x, tap),
        }
    }

    fn experts(
        &self,
        gpu: &Gpu,
        (layer, weights): (usize, &Routed),
        x: &Matrix<bf16>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        let shared = weights.shared.as_ref().map(|shared| dense_ffn(gpu, x, shared, self.activation));
        let shared = shared.transpose()?;
        // Of ranks, what both say is one sum before all ranks' sums are added.
        let is_whole = self.rank.is_none();
        if let Some(shared) = shared.as_ref().filter(|_| is_whole) {
            tap.show(Site::Layer(layer, LayerSite::SharedDown), &shared.output)?;
            tap.show(Site::Layer(layer, LayerSite::Shared), &shared.output)?;
        }
        let routed = router(gpu, x, &weights.gate, &weights.bias, self.config.num_experts_per_tok)?;
        tap.show_routed(layer, &routed)?;
        let scale = self.routed_scale();
        let shared = shared.as_ref().map(|shared| Shared { output: &shared.output, scale });
        let fed = moe(gpu, x, &routed, &weights.experts, shared)?;
        tap.show_fed(layer, &fed)?;
        let both = if let Some(both) = fed.with_shared {
            if is_whole {
                tap.show(Site::Layer(layer, LayerSite::Experts), &fed.sum)?;
            }
            self.summed(gpu, both)?
        } else {
            let sum = self.summed(gpu, fed.sum)?;
            tap.show(Site::Layer(layer, LayerSite::Experts), &sum)?;
            sum
        };
        tap.show(Site::Layer(layer, LayerSite::Mlp), &both)?;
        Ok(both)
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels take ς in f32")]
    fn routed_scale(&self) -> f32 {
        self.config.routed_scaling_factor as f32
    }

    /// The rotation's table, made by the reference.
    fn table(&self, gpu: &Gpu, positions: usize) -> Result<Table, Error> {
        let (head_dim, rotary_dim, theta) = (self.config.head_dim, self.config.rotary_dim, self.config.rope_theta);
        let rope = Rope { head_dim, rotary_dim, theta, ..Rope::default() };
        let on_host = rope_table::<f32>(&rope, self.config.ahead(), positions);
        let [cos, sin] = [&on_host.cos, &on_host.sin].map(|table| gpu.upload(table.view()));
        Ok(Table { cos: cos?, sin: sin?, on_host })
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels take ε in f32")]
    pub(super) fn eps(&self) -> f32 {
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
