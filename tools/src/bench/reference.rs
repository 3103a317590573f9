//! How long the reference takes, in f64, of the same operators at the same sizes.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use ndarray::{Array1, Array2};
use reference::config::{Attention as Attends, Config, FeedForward, Layer};
use reference::matrix::{Encoding, Matrix};
use reference::ops::add_rms_norm::{AddRmsNorm, add_rms_norm};
use reference::ops::attention::{Attention, attention};
use reference::ops::block_sparse_attention::{BlockSparseAttention, block_sparse_attention};
use reference::ops::dense_ffn::{Activation, DenseFfn, dense_ffn};
use reference::ops::embedding::{Embedding, embedding};
use reference::ops::indexer::{Indexer, indexer};
use reference::ops::linear::{Linear, linear};
use reference::ops::moe::{Moe, moe, rows_of};
use reference::ops::qk_norm::QkNorm;
use reference::ops::qk_norm_rope::{QkNormRope, qk_norm_rope};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::ops::rope::{Rope, rope_table};
use reference::ops::router::{self, Router};
use reference::ops::sampling::argmax;
use reference::semantics::EpsPlace;
use reference::{ContractError, RoundingContract, Semantics};

use super::operators::{Part, Step, Work, kinds};
use super::pattern::Pattern;

/// Time spent on one operator, from which on it is not run again.
const ENOUGH: Duration = Duration::from_millis(300);
/// Times that it is run, if these are short.
const TIMES: usize = 5;
/// Rows of the embedding that tokens are looked up in.
const LOOKED_UP: usize = 4096;

const IDEAL: RoundingContract = RoundingContract::IDEAL;
const RELEASED: Semantics = Semantics::RELEASED;

/// The reference at a model's sizes.
#[derive(Debug)]
pub struct OnReference<'a> {
    /// Under the released reading.
    config: Config,
    step: Step,
    pattern: &'a Pattern,
}

impl<'a> OnReference<'a> {
    /// Of a model.
    pub fn new(config: &Config, step: Step, pattern: &'a Pattern) -> Self {
        OnReference { config: config.under(&RELEASED), step, pattern }
    }

    /// Microseconds of each run, from the shortest; none of what consists of others.
    pub fn time(&self, work: Work) -> Result<Vec<f64>, ContractError> {
        let (config, n) = (&self.config, self.step.tokens);
        let (h, v) = (config.hidden_size, config.vocab_size);
        match work {
            Work::Embedding => {
                let rows = v.min(LOOKED_UP);
                let table = self.weight((rows, h));
                let tokens: Vec<u32> = (0..n).map(|i| u32::try_from(i % rows).expect("a small number")).collect();
                timed(|| embedding::<f64>(&Embedding::under(&IDEAL), &tokens, &table).map(drop))
            }
            Work::RmsNorm => {
                let (x, w) = (self.array((n, h)), self.vector(h));
                timed(|| rms_norm(&self.norm(), x.view(), w.view()).map(drop))
            }
            Work::LinearHead => self.linear((n, h), v),
            Work::Sampling => {
                let z = self.array((n, v));
                timed(|| z.rows().into_iter().try_for_each(|z| argmax(z).map(drop)))
            }
            Work::Part(number, part) => self.part(kinds(config)[number].0, part),
            Work::Layer(_) | Work::Step => Ok(Vec::new()),
        }
    }

    fn part(&self, kind: Layer, part: Part) -> Result<Vec<f64>, ContractError> {
        let (config, n) = (&self.config, self.step.tokens);
        let (h, d) = (config.hidden_size, config.head_dim);
        let heads = (config.num_attention_heads, config.num_key_value_heads);
        let (queries, keys, context) = (config.query_width(), config.key_width(), self.step.context);
        let index = config.index.filter(|_| kind.attention == Attends::BlockSparse);
        match part {
            Part::LinearQkv => {
                let of_index = index.map_or(0, |index| (index.heads + 1) * index.head_dim);
                self.linear((n, h), queries + 2 * keys + of_index)
            }
            Part::LinearO => self.linear((n, queries), h),
            Part::QkNormRope => {
                let main = self.rotation(heads, d);
                let of_index = index.map(|index| self.rotation((index.heads, 1), index.head_dim));
                let all: Vec<_> = [Some(main), of_index].into_iter().flatten().collect();
                timed(|| all.iter().try_for_each(Rotation::run))
            }
            Part::Attention => {
                let [q, k, v] = [(n, queries), (context, keys), (context, keys)].map(|dim| self.array(dim));
                let p = Attention::under(&IDEAL, heads, d);
                timed(|| attention(&p, q.view(), k.view(), v.view()).map(drop))
            }
            Part::Indexer => {
                let Some(index) = index else { return Ok(Vec::new()) };
                let of_index = (index.heads, index.choices);
                let p = Indexer::under(&IDEAL, &RELEASED, of_index, index.head_dim, index.blocks);
                let (q, k) = (self.array((n, index.heads * index.head_dim)), self.array((context, index.head_dim)));
                timed(|| indexer(&p, q.view(), k.view()).map(drop))
            }
            Part::BlockSparseAttention => {
                let Some(index) = index else { return Ok(Vec::new()) };
                let [q, k, v] = [(n, queries), (context, keys), (context, keys)].map(|dim| self.array(dim));
                let p = BlockSparseAttention {
                    attention: Attention::under(&IDEAL, heads, d),
                    block: index.blocks.size,
                    mask: RELEASED.msa_mask,
                    own: RELEASED.msa_own,
                    group: RELEASED.msa_group,
                    layout: RELEASED.msa_layout,
                    shift: RELEASED.msa_shift,
                };
                // The first blocks, and the token's own.
                let chosen = Array2::from_shape_fn((n * heads.1, index.blocks.top_k), |(row, slot)| {
                    let own = (self.step.first() + row / heads.1) / index.blocks.size;
                    let block = if slot + 1 == index.blocks.top_k { own } else { slot };
                    (block <= own && (slot + 1 == index.blocks.top_k || block < own)).then_some(block)
                });
                timed(|| block_sparse_attention(&p, q.view(), k.view(), v.view(), chosen.view()).map(drop))
            }
            Part::AddRmsNorm => {
                let (x, w) = (self.array((n, h)), self.vector(h));
                let p = AddRmsNorm {
                    norm: self.norm(),
                    ..AddRmsNorm::under(&IDEAL, config.rms_norm_eps, EpsPlace::Inside)
                };
                timed(|| add_rms_norm(&p, x.view(), x.view(), w.view()).map(drop))
            }
            Part::Router => {
                let (x, gate) = (self.array((n, h)), self.gate());
                timed(|| self.route(&x, &gate).map(drop))
            }
            Part::DenseFfn => {
                let m = match kind.feed_forward {
                    FeedForward::Dense => config.dense_intermediate_size,
                    FeedForward::Experts => config.shared_intermediate_size,
                };
                let (x, weights) = (self.array((n, h)), self.network(m));
                timed(|| self.fed(&x, &weights).map(drop))
            }
            Part::Moe => self.experts(),
        }
    }

    /// All experts have the same weights, which is of no matter to the time.
    fn experts(&self) -> Result<Vec<f64>, ContractError> {
        let (config, n) = (&self.config, self.step.tokens);
        let (x, weights) = (self.array((n, config.hidden_size)), self.network(config.intermediate_size));
        let (chosen, w) = self.route(&x, &self.gate())?;
        let p = Moe::under(&IDEAL);
        timed(|| {
            let mut outputs = Array2::zeros((chosen.len(), config.hidden_size));
            for expert in 0..config.num_local_experts {
                let rows = rows_of(expert, chosen.view());
                if rows.is_empty() {
                    continue;
                }
                let tokens: Vec<usize> = rows.iter().map(|row| row / chosen.ncols()).collect();
                let fed = self.fed(&x.select(ndarray::Axis(0), &tokens), &weights)?;
                for (from, to) in fed.rows().into_iter().zip(rows) {
                    outputs.row_mut(to).assign(&from);
                }
            }
            moe(&p, outputs.view(), w.view(), chosen.view()).map(drop)
        })
    }

    fn route(&self, x: &Array2<f64>, gate: &Matrix<'_>) -> Result<(Array2<usize>, Array2<f64>), ContractError> {
        let p = Router::under(&IDEAL, &RELEASED, self.config.num_experts_per_tok);
        let logits = linear(&Linear::router(&IDEAL), x.view(), gate)?;
        let scores = router::scores(&p, logits.view());
        let choice = router::choice(&p, scores.view(), Array1::zeros(scores.ncols()).view())?;
        let chosen = router::chosen(&p, choice.view());
        let weights = router::weights(&p, scores.view(), choice.view(), chosen.view());
        Ok((chosen, weights))
    }

    fn fed(&self, x: &Array2<f64>, [gate, up, down]: &[Matrix<'static>; 3]) -> Result<Array2<f64>, ContractError> {
        let activation = Activation::under(&IDEAL, &RELEASED, self.config.swiglu_oai);
        dense_ffn(&DenseFfn::under(&IDEAL, activation), x.view(), [gate, up, down])
    }

    fn linear(&self, (n, k): (usize, usize), m: usize) -> Result<Vec<f64>, ContractError> {
        let (x, w) = (self.array((n, k)), self.weight((m, k)));
        timed(|| linear(&Linear::under(&IDEAL), x.view(), &w).map(drop))
    }

    fn rotation(&self, heads: (usize, usize), head_dim: usize) -> Rotation {
        let config = &self.config;
        let rope = Rope { head_dim, rotary_dim: config.rotary_dim, theta: config.rope_theta, ..Rope::default() };
        let norm = QkNorm { norm: self.norm(), over: config.qk_norm, head_dim };
        let widths = if head_dim == config.head_dim { config.qk_norm_widths() } else { [head_dim; 2] };
        Rotation {
            p: QkNormRope { query_heads: heads.0, key_heads: heads.1, norm, rope }.under(&IDEAL),
            x: self.array((self.step.tokens, (heads.0 + 2 * heads.1) * head_dim)),
            weights: widths.map(|width| self.vector(width)),
            table: rope_table(&rope, self.step.first(), self.step.tokens),
        }
    }

    fn norm(&self) -> RmsNorm {
        RmsNorm::under(&IDEAL, self.config.rms_norm_eps, EpsPlace::Inside).weighing(self.config.norm_weight)
    }

    fn network(&self, m: usize) -> [Matrix<'static>; 3] {
        let h = self.config.hidden_size;
        [(m, h), (m, h), (h, m)].map(|dim| self.weight(dim))
    }

    fn gate(&self) -> Matrix<'static> {
        let dim = (self.config.num_local_experts, self.config.hidden_size);
        Matrix::stored(self.array(dim).view(), reference::Storage::F32)
    }

    /// A weight in bf16.
    fn weight(&self, (rows, columns): (usize, usize)) -> Matrix<'static> {
        let bytes = Cow::Owned(self.pattern.bytes(rows * columns));
        Matrix::new((rows, columns), Encoding::Bf16, bytes).expect("as many bytes as it has")
    }

    fn array(&self, dim: (usize, usize)) -> Array2<f64> {
        self.pattern.array(dim)
    }

    fn vector(&self, length: usize) -> Array1<f64> {
        self.array((1, length)).row(0).to_owned()
    }
}

/// Queries and keys to be normed and rotated.
struct Rotation {
    p: QkNormRope,
    x: Array2<f64>,
    weights: [Array1<f64>; 2],
    table: reference::ops::rope::RopeTable<f64>,
}

impl Rotation {
    fn run(&self) -> Result<(), ContractError> {
        let weights = [self.weights[0].view(), self.weights[1].view()];
        qk_norm_rope(&self.p, self.x.view(), weights, &self.table).map(drop)
    }
}

/// Microseconds of several runs, after one that is not counted unless it takes long.
fn timed(mut work: impl FnMut() -> Result<(), ContractError>) -> Result<Vec<f64>, ContractError> {
    let begun = Instant::now();
    let mut once = || {
        let begun = Instant::now();
        work()?;
        Ok::<_, ContractError>(1e6 * begun.elapsed().as_secs_f64())
    };
    let first = once()?;
    let mut times = Vec::new();
    while times.len() < TIMES && begun.elapsed() < ENOUGH {
        times.push(once()?);
    }
    if times.is_empty() {
        times.push(first);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
