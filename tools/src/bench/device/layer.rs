//! A layer's operands on a device, and a pass through it, as `optimized::models::decoder` makes it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use half::bf16;
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::attention::attention;
use optimized::ops::block_sparse_attention::{self, block_sparse_attention};
use optimized::ops::dense_ffn::{DenseFfn, dense_ffn};
use optimized::ops::indexer::indexer;
use optimized::ops::linear::linear;
use optimized::ops::moe::{Experts, Shared, moe};
use optimized::ops::qk_norm_rope::{self, IndexHeads, KeysValues, qk_norm_rope, qk_norm_rope_per_head};
use optimized::ops::router::{Routed, router};
use optimized::ops::{Activation, HeadLayout};
use optimized::tensor::Matrix;
use optimized::weight::WeightMatrix;
use reference::Semantics;
use reference::config::{Attention, Blocks, Config, FeedForward, Layer as Kind};
use reference::semantics::QkNorm;

use super::maker::{Maker, narrow};
use crate::bench::operators::{Chosen, Step};

/// A layer.
#[derive(Debug)]
pub(super) struct Layer {
    /// Tokens before the step's.
    pub(super) first: usize,
    pub(super) layout: HeadLayout,
    pub(super) activation: Activation,
    pub(super) projections: WeightMatrix,
    query_norm: Matrix<bf16>,
    key_norm: Matrix<bf16>,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
    pub(super) kept: RefCell<KeysValues>,
    pub(super) index: Option<Index>,
    pub(super) o: WeightMatrix,
    pub(super) norm: Matrix<bf16>,
    pub(super) experts: Option<Routing>,
    /// A dense layer's network, or the shared expert.
    pub(super) dense: Option<DenseFfn>,
}

/// An index branch.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) layout: HeadLayout,
    pub(super) blocks: Blocks,
    pub(super) keys: RefCell<Matrix<bf16>>,
    query_norm: Matrix<bf16>,
    key_norm: Matrix<bf16>,
}

/// A router and its experts.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) gate: Matrix<f32>,
    pub(super) bias: Matrix<f32>,
    pub(super) weights: Experts,
}

/// What operators of a layer read of others.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) projections: Matrix<bf16>,
    pub(super) q: Matrix<bf16>,
    pub(super) index_q: Option<Matrix<bf16>>,
    pub(super) blocks: Option<Matrix<i32>>,
    pub(super) context: Matrix<bf16>,
    pub(super) attended: Matrix<bf16>,
    pub(super) to_network: Matrix<bf16>,
    pub(super) shared: Option<Matrix<bf16>>,
    pub(super) routed: Option<Routed>,
    /// What the next layer adds to.
    pub(super) stream: Matrix<bf16>,
    /// What it begins with.
    pub(super) next: Matrix<bf16>,
}

impl Layer {
    pub(super) fn new(maker: &Maker<'_>, config: &Config, kind: Kind, step: Step) -> Result<Self, Error> {
        let layout = HeadLayout::new(config.num_attention_heads, config.num_key_value_heads, config.head_dim)?;
        let of_layer = config.index.filter(|_| kind.attention == Attention::BlockSparse);
        let (h, positions) = (config.hidden_size, step.context);
        let index = of_layer.map(|index| {
            let layout = HeadLayout::new(index.heads, 1, index.head_dim)?;
            let norm = || maker.small((1, index.head_dim));
            let keys = RefCell::new(maker.large((positions, layout.padded()))?);
            Ok::<_, Error>(Index { layout, blocks: index.blocks, keys, query_norm: norm()?, key_norm: norm()? })
        });
        let index = index.transpose()?;
        let of_index = of_layer.map_or(0, |index| (index.heads + 1) * index.head_dim);
        let kept = || maker.large((positions, layout.groups() * layout.padded()));
        let [query_norm, key_norm] = config.qk_norm_widths().map(|width| maker.small((1, width)));
        let activation = match config.swiglu_oai {
            Some(coefficients) => Activation::SwigluOai(coefficients, Semantics::RELEASED.gate_clamp),
            None => Activation::Swiglu,
        };
        let dense = |m: usize| {
            let (gate_up, down) = (maker.weight((2 * m, h))?, maker.weight((h, m))?);
            Ok::<_, Error>(DenseFfn { gate_up, down })
        };
        let (experts, dense) = match kind.feed_forward {
            FeedForward::Dense => (None, Some(dense(config.dense_intermediate_size)?)),
            FeedForward::Experts => {
                let (count, m) = (config.num_local_experts, config.intermediate_size);
                let (gate_up, down) = (maker.weight((2 * m * count, h))?, maker.weight((h * count, m))?);
                let weights = Experts { gate_up, down, first: 0, count, activation };
                let routing = Routing { gate: maker.wide((count, h))?, bias: maker.wide((1, count))?, weights };
                let shared = config.shared_intermediate_size;
                (Some(routing), if shared > 0 { Some(dense(shared)?) } else { None })
            }
        };
        Ok(Layer {
            first: step.first(),
            layout,
            activation,
            projections: maker.weight((config.query_width() + 2 * config.key_width() + of_index, h))?,
            query_norm: query_norm?,
            key_norm: key_norm?,
            cos: maker.wide((positions, config.rotary_dim))?,
            sin: maker.wide((positions, config.rotary_dim))?,
            kept: RefCell::new(KeysValues { keys: kept()?, values: kept()? }),
            index,
            o: maker.weight((h, config.query_width()))?,
            norm: maker.small((1, h))?,
            experts,
            dense,
        })
    }

    /// Queries, and the index branch's.
    pub(super) fn rotated(
        &self,
        gpu: &Gpu,
        config: &Config,
        projections: &Matrix<bf16>,
    ) -> Result<(Matrix<bf16>, Option<Matrix<bf16>>), Error> {
        let read = qk_norm_rope::Weights {
            query_norm: &self.query_norm,
            key_norm: &self.key_norm,
            cos: &self.cos,
            sin: &self.sin,
            first_row: self.first,
            eps: narrow(config.rms_norm_eps),
        };
        let mut kept = self.kept.borrow_mut();
        if config.qk_norm != QkNorm::PerHead {
            return Ok((qk_norm_rope(gpu, &self.layout, projections, read, self.first, &mut kept)?, None));
        }
        let mut keys = self.index.as_ref().map(|index| index.keys.borrow_mut());
        let heads = self.index.as_ref().zip(keys.as_deref_mut()).map(|(index, keys)| IndexHeads {
            layout: &index.layout,
            query_norm: &index.query_norm,
            key_norm: &index.key_norm,
            keys,
        });
        let read = (read, config.norm_weight);
        qk_norm_rope_per_head(gpu, &self.layout, projections, read, self.first, &mut kept, heads)
    }

    /// All of the layer, and the norm that follows it.
    pub(super) fn pass(
        &self,
        gpu: &Gpu,
        config: &Config,
        stream: &Matrix<bf16>,
        normed: &Matrix<bf16>,
    ) -> Result<Passed, Error> {
        let projections = linear(gpu, normed, &self.projections)?;
        let (q, index_q) = self.rotated(gpu, config, &projections)?;
        let kept = self.kept.borrow();
        let (blocks, context) = match self.index.as_ref().zip(index_q.as_ref()) {
            Some((index, of_index)) => {
                let how = (&index.blocks, Semantics::RELEASED.msa_select);
                let indexed = indexer(gpu, &index.layout, how, of_index, self.first, &index.keys.borrow())?;
                let chosen = block_sparse_attention::Chosen { blocks: &indexed.chosen, size: index.blocks.size };
                let context = block_sparse_attention(gpu, &self.layout, &q, self.first, &kept, chosen)?;
                (Some(indexed.chosen), context)
            }
            None => (None, attention(gpu, &self.layout, &q, self.first, &kept)?),
        };
        let attended = linear(gpu, &context, &self.o)?;
        let (weight, eps) = (config.norm_weight, narrow(config.rms_norm_eps));
        let (residual, to_network) = add_rms_norm(gpu, stream, &attended, &self.norm, weight, eps)?;
        let fed = self.dense.as_ref().map(|dense| dense_ffn(gpu, &to_network, dense, self.activation));
        let dense = fed.transpose()?.map(|fed| fed.output);
        let (routed, shared, fed) = match &self.experts {
            None => (None, None, dense),
            Some(of) => {
                let routed = router(gpu, &to_network, &of.gate, &of.bias, config.num_experts_per_tok)?;
                let scale = narrow(config.routed_scaling_factor);
                let shared = dense.as_ref().map(|output| Shared { output, scale });
                let fed = moe(gpu, &to_network, &routed, &of.weights, shared)?;
                (Some(routed), dense, Some(fed.with_shared.unwrap_or(fed.sum)))
            }
        };
        let fed = fed.as_ref().unwrap_or(&attended);
        let (stream, next) = add_rms_norm(gpu, &residual, fed, &self.norm, weight, eps)?;
        Ok(Passed { projections, q, index_q, blocks, context, attended, to_network, shared, routed, stream, next })
    }

    /// What the tokens chose.
    pub(super) fn chosen(&self, gpu: &Gpu, config: &Config, passed: &Passed) -> Result<Chosen, Error> {
        let experts = match &passed.routed {
            Some(routed) => gpu.download(&routed.chosen)?.iter().collect::<BTreeSet<_>>().len(),
            None => 0,
        };
        let Some((index, blocks)) = self.index.as_ref().zip(passed.blocks.as_ref()) else {
            return Ok(Chosen { experts, ..Chosen::default() });
        };
        let blocks = gpu.download(blocks)?;
        let n = passed.q.dim().0;
        let (size, context, groups) = (index.blocks.size, self.first + n, config.num_key_value_heads);
        let keys_in = |block: i32, end: usize| {
            let begin = usize::try_from(block).map_or(end, |block| block * size);
            end.saturating_sub(begin).min(size)
        };
        let of_each = blocks.nrows() / n;
        let (mut read, mut attended) = (0, 0);
        for group in 0..of_each {
            let mut union = BTreeSet::new();
            for token in 0..n {
                let row = blocks.row(token * of_each + group);
                let chosen = row.iter().filter(|&&block| block >= 0);
                attended += chosen.clone().map(|&block| keys_in(block, self.first + token + 1)).sum::<usize>();
                union.extend(chosen.copied());
            }
            read += union.into_iter().map(|block| keys_in(block, context)).sum::<usize>();
        }
        // One row for all groups stands for each of them.
        let times = groups / of_each;
        Ok(Chosen { experts, keys_read: read * times, keys_attended: attended * times })
    }
}
