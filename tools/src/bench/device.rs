//! A model's layers, one of each kind, and head on a device, at their sizes, with operands whose values do not matter.
//!
//! On the emulated device's counting form, what is large is never written, so that it takes no memory. What decides how much
//! work there is, the choices of experts and blocks, comes of drawn values everywhere but there, where all blocks score
//! alike and the first ones are chosen.

mod layer;
mod maker;

use half::bf16;
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::attention::attention;
use optimized::ops::block_sparse_attention::{self, block_sparse_attention};
use optimized::ops::dense_ffn::dense_ffn;
use optimized::ops::embedding::{Tokens, embedding_of};
use optimized::ops::indexer::indexer;
use optimized::ops::linear::linear;
use optimized::ops::moe::{Shared, moe};
use optimized::ops::rms_norm::rms_norm;
use optimized::ops::router::router;
use optimized::ops::sampling::argmax_there;
use optimized::tensor::Matrix;
use reference::Semantics;
use reference::config::Config;

use super::operators::{Chosen, Part, Step, Work, kinds};
use super::pattern::Pattern;
use layer::{Layer, Passed};
use maker::{Maker, narrow};

/// Logits that are drawn on every device; more are not, where accesses are counted.
const WRITTEN: usize = 1 << 22;

/// All of it.
#[derive(Debug)]
pub struct OnDevice {
    gpu: Gpu,
    config: Config,
    tokens: Tokens,
    embedding: Matrix<bf16>,
    final_norm: Matrix<bf16>,
    head: Option<Matrix<bf16>>,
    /// The step's tokens \[n, H\], as a layer before would give them.
    stream: Matrix<bf16>,
    normed: Matrix<bf16>,
    logits: Matrix<bf16>,
    /// Of each kind; those that are not asked for are not made.
    layers: Vec<Option<(Layer, Passed)>>,
}

impl OnDevice {
    /// Makes what some works need; `progress` is told of the head, and of each kind of layer.
    pub fn new(
        gpu: Gpu,
        config: &Config,
        (step, works): (Step, &[Work]),
        pattern: &Pattern,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let config = config.under(&Semantics::RELEASED);
        let maker = Maker { gpu: &gpu, pattern, weights: step.weights };
        let (h, v, n) = (config.hidden_size, config.vocab_size, step.tokens);
        let stream = maker.small((n, h))?;
        let first_norm = maker.small((1, h))?;
        let normed = rms_norm(&gpu, &stream, &first_norm, config.norm_weight, narrow(config.rms_norm_eps))?;
        let ids: Vec<u32> = (0..n).map(|i| u32::try_from(i * 7919 % v).expect("a token")).collect();
        let tokens = Tokens::upload(&gpu, &ids, v)?;
        let embedding = maker.large((v, h))?;
        let head = if config.tie_word_embeddings { None } else { Some(maker.large((v, h))?) };
        // What the largest logit's search accesses depends on them.
        let logits = if n * v <= WRITTEN { maker.small((n, v))? } else { maker.large((n, v))? };
        progress();
        let mut layers = Vec::new();
        for (number, (kind, _)) in kinds(&config).into_iter().enumerate() {
            if works.iter().any(|work| work.needs(number)) {
                let layer = Layer::new(&maker, &config, kind, step)?;
                let passed = layer.pass(&gpu, &config, &stream, &normed)?;
                gpu.synchronize()?;
                layers.push(Some((layer, passed)));
            } else {
                layers.push(None);
            }
            progress();
        }
        Ok(OnDevice { final_norm: first_norm, gpu, config, tokens, embedding, head, stream, normed, logits, layers })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// What the tokens chose in each kind of layer.
    pub fn chosen(&self) -> Result<Vec<Chosen>, Error> {
        let of_kind = |of: &Option<(Layer, Passed)>| match of {
            Some((layer, passed)) => layer.chosen(&self.gpu, &self.config, passed),
            None => Ok(Chosen::default()),
        };
        self.layers.iter().map(of_kind).collect()
    }

    /// Does it, and waits for nothing.
    pub fn run(&self, work: Work) -> Result<(), Error> {
        let gpu = &self.gpu;
        match work {
            Work::Embedding => embedding_of(gpu, &self.tokens, &self.embedding).map(drop),
            Work::RmsNorm => {
                rms_norm(gpu, &self.stream, &self.final_norm, self.config.norm_weight, self.eps()).map(drop)
            }
            Work::LinearHead => self.head(&self.normed).map(drop),
            Work::Sampling => argmax_there(gpu, &self.logits).map(drop),
            Work::Part(number, part) => self.part(number, part),
            Work::Layer(number) => self.layer(number).0.pass(gpu, &self.config, &self.stream, &self.normed).map(drop),
            Work::Step => {
                self.run(Work::Embedding)?;
                self.run(Work::RmsNorm)?;
                let mut last: Option<Passed> = None;
                for (layer, _) in self.layers.iter().flatten() {
                    let (stream, normed) =
                        last.as_ref().map_or((&self.stream, &self.normed), |last| (&last.stream, &last.next));
                    let passed = layer.pass(gpu, &self.config, stream, normed)?;
                    last = Some(passed);
                }
                let logits = self.head(last.as_ref().map_or(&self.normed, |last| &last.next))?;
                argmax_there(gpu, &logits).map(drop)
            }
        }
    }

    fn layer(&self, number: usize) -> &(Layer, Passed) {
        self.layers[number].as_ref().expect("made for the works that are run")
    }

    fn head(&self, x: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
        linear(&self.gpu, x, self.head.as_ref().unwrap_or(&self.embedding))
    }

    fn eps(&self) -> f32 {
        narrow(self.config.rms_norm_eps)
    }

    fn part(&self, number: usize, part: Part) -> Result<(), Error> {
        let (gpu, config) = (&self.gpu, &self.config);
        let (layer, passed) = self.layer(number);
        match part {
            Part::LinearQkv => linear::<bf16>(gpu, &self.normed, &layer.projections).map(drop),
            Part::QkNormRope => layer.rotated(gpu, config, &passed.projections).map(drop),
            Part::Indexer => {
                let Some((index, q)) = layer.index.as_ref().zip(passed.index_q.as_ref()) else { return Ok(()) };
                let how = (&index.blocks, Semantics::RELEASED.msa_select);
                indexer(gpu, &index.layout, how, q, layer.first, &index.keys.borrow()).map(drop)
            }
            Part::BlockSparseAttention => {
                let Some((index, blocks)) = layer.index.as_ref().zip(passed.blocks.as_ref()) else { return Ok(()) };
                let chosen = block_sparse_attention::Chosen { blocks, size: index.blocks.size };
                let kept = layer.kept.borrow();
                block_sparse_attention(gpu, &layer.layout, &passed.q, layer.first, &kept, chosen).map(drop)
            }
            Part::Attention => attention(gpu, &layer.layout, &passed.q, layer.first, &layer.kept.borrow()).map(drop),
            Part::LinearO => linear::<bf16>(gpu, &passed.context, &layer.o).map(drop),
            Part::AddRmsNorm => {
                add_rms_norm(gpu, &self.stream, &passed.attended, &layer.norm, config.norm_weight, self.eps()).map(drop)
            }
            Part::Router => match &layer.experts {
                Some(of) => router(gpu, &passed.to_network, &of.gate, &of.bias, config.num_experts_per_tok).map(drop),
                None => Ok(()),
            },
            Part::DenseFfn => match &layer.dense {
                Some(dense) => dense_ffn(gpu, &passed.to_network, dense, layer.activation).map(drop),
                None => Ok(()),
            },
            Part::Moe => {
                let Some((of, routed)) = layer.experts.as_ref().zip(passed.routed.as_ref()) else { return Ok(()) };
                let scale = narrow(config.routed_scaling_factor);
                let shared = passed.shared.as_ref().map(|output| Shared { output, scale });
                moe(gpu, &passed.to_network, routed, &of.weights, shared).map(drop)
            }
        }
    }
}
