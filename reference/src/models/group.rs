//! A group of ranks that share a model, as tensor parallelism runs it (SPEC A32; document 002).
//!
//! Each rank is a decoder of its own with its part of the weights ([`crate::ranks::weights`]): it projects to its heads, attends with
//! them, and has its experts, its part of dense networks and its tokens of the vocabulary. Ranks see of each other what
//! is summed over all of them: squares of queries and keys, and what goes into the residual stream. What the model has
//! at a site is put together again ([`shown`]), and shown to the run's probe, which may look and not change it.

pub mod shown;

use ndarray::{Array2, Axis, concatenate};

use self::shown::Shown;
use super::decoder::{Decoder, Pass, Stream};
use super::inputs::Inputs;
use super::stream::residual_stream;
use crate::config::{Config, FeedForward};
use crate::error::require;
use crate::ops::all_reduce::{AllReduce, all_reduce};
use crate::ops::embedding::{Embedding, embedding};
use crate::ops::kv_cache::KvCache;
use crate::ops::linear::Linear;
use crate::ops::qk_norm::QkNorm;
use crate::ops::rope::RopeTable;
use crate::ops::sharded_norm::{ShardedNorm, sharded_norm};
use crate::ranks::Ranks;
use crate::run::{Run, vector};
use crate::semantics::{self, Semantics};
use crate::weights::{LayerWeight, Weight, Weights};
use crate::{Error, LayerSite, Real, RoundingContract, Site, Tracked};

/// R ranks of a model.
pub struct Group<'w> {
    ranks: Ranks,
    config: Config,
    parts: Vec<Decoder<'w>>,
    divisors: [usize; 2],
}

/// Queries, keys and values of a rank.
type Heads<T> = [Tracked<T>; 3];

impl<'w> Group<'w> {
    /// Ranks, each with weights of its own, as [`crate::ranks::weights::RankWeights`] cuts them out of a model's. Queries and
    /// keys are normed as released; mistakes in that are their weights', or [`Group::dividing`]'s.
    pub fn new<W: Weights>(
        config: &Config,
        semantics: Semantics,
        ranks: Ranks,
        weights: &'w [W],
    ) -> Result<Self, Error> {
        require(weights.len() == ranks.count, "group C1", "ranks with weights", weights.len(), ranks.count)?;
        let how = "how queries and keys are normed";
        require(norms_as_released(&semantics) == semantics, "group C3", how, "otherwise", "as released")?;
        let part = |rank: usize| {
            let own = Decoder::new(&ranks.config_of(config, rank), semantics, &weights[rank])?;
            Ok(own.with_experts(ranks.part(config.num_local_experts, rank)))
        };
        let parts = (0..ranks.count).map(part).collect::<Result<_, Error>>()?;
        let divisors = [config.query_width(), config.key_width() * ranks.replicas()];
        Ok(Group { ranks, config: config.clone(), parts, divisors })
    }

    /// The same that divides the sums of squares of queries and of keys by other numbers: mistakes of ports.
    #[must_use]
    pub fn dividing(self, divisors: [usize; 2]) -> Self {
        Group { divisors, ..self }
    }

    /// An empty cache for each rank.
    pub fn caches<T: Real>(&self) -> Vec<KvCache<T>> {
        (0..self.ranks.count).map(|_| KvCache::new(self.config.num_hidden_layers)).collect()
    }

    /// Logits of tokens that follow those in the ranks' caches.
    pub fn pass<T: Real>(
        &self,
        tokens: &[u32],
        caches: &mut [KvCache<T>],
        run: &mut Run<'_, T>,
    ) -> Result<Pass<T>, Error> {
        require(caches.len() == self.ranks.count, "group C2", "caches", caches.len(), self.ranks.count)?;
        let embedded = self.embed(tokens, run)?;
        let mut x = Stream::from(run.visit(Site::Embedding, embedded));
        let table = self.parts[0].rope_table(caches[0].len(0), tokens.len(), run);
        for layer in 0..self.config.num_hidden_layers {
            x = self.layer(layer, &x, &table, caches, run)?;
        }
        let normed = self.parts[0].rms_norm(Weight::FinalNorm, &x, run)?;
        let normed = run.visit(Site::FinalNorm, normed);
        let head = if self.config.tie_word_embeddings { Weight::Embedding } else { Weight::LmHead };
        let logits =
            self.parts.iter().map(|part| Ok(run.linear(Linear::under, &normed, &part.weights().get(head)?)?.value));
        let parts: Vec<Array2<T>> = logits.collect::<Result<_, Error>>()?;
        let mut logits = beside(&parts);
        for site in [Site::LmHead, Site::Logits] {
            for (rank, part) in parts.iter().enumerate() {
                run.probe.of_rank(rank, site, &Tracked::plain(part.clone()));
            }
            logits = run.visit(site, logits);
        }
        Ok(Pass { stream: x.stored, normed, logits })
    }

    /// Each rank looks up its tokens, and has zeros for the others.
    fn embed<T: Real>(&self, tokens: &[u32], run: &Run<'_, T>) -> Result<Tracked<T>, Error> {
        let p = Embedding::under(&run.contract);
        p.check(tokens, self.config.vocab_size)?;
        let part = |rank: usize| {
            let own = self.ranks.part(self.config.vocab_size, rank);
            let table = self.parts[rank].weights().get(Weight::Embedding)?;
            let mut y = Array2::zeros((tokens.len(), table.dim().1));
            for (row, &token) in tokens.iter().enumerate().filter(|(_, token)| own.contains(&(**token as usize))) {
                let found = embedding(&p, &[token - u32::try_from(own.start).expect("below a token")], &table)?;
                y.row_mut(row).assign(&found.row(0));
            }
            Ok(Tracked::plain(y))
        };
        reduced((0..self.ranks.count).map(part).collect::<Result<Vec<_>, Error>>()?, &run.contract)
    }

    fn layer<T: Real>(
        &self,
        layer: usize,
        x: &Stream<T>,
        table: &RopeTable<T>,
        caches: &mut [KvCache<T>],
        run: &mut Run<'_, T>,
    ) -> Result<Stream<T>, Error> {
        let at = |site| Site::Layer(layer, site);
        let first = caches[0].len(layer);
        let normed = self.parts[0].rms_norm(Weight::Layer(layer, LayerWeight::InputNorm), x, run)?;
        let normed = run.visit(at(LayerSite::InputNorm), normed);
        let attended = self.attention(layer, [&normed, &x.stored], table, caches, run)?;
        let attended = run.visit(at(LayerSite::OProj), attended);
        let attended = run.visit(at(LayerSite::Attention), attended);
        let h = residual_stream(at(LayerSite::Residual), x, ([1.0; 3], &attended), run)?;
        let normed = self.parts[0].rms_norm(Weight::Layer(layer, LayerWeight::PostAttentionNorm), &h, run)?;
        let normed = run.visit(at(LayerSite::PostAttentionNorm), normed);
        let mut shown: Vec<Shown<T>> = self.parts.iter().map(|_| Shown::default()).collect();
        let inputs = Inputs { normed: &normed, residual: &h.stored, layer: &x.stored, first };
        let parts = self.parts.iter().zip(&mut shown);
        let fed = parts.map(|(part, shown)| part.feed_forward(layer, inputs, &mut Run::new(of_one(run), shown)));
        let contract = match self.config.layer(layer).feed_forward {
            FeedForward::Dense => run.contract.of_products(),
            FeedForward::Experts => run.contract,
        };
        let fed = reduced(fed.collect::<Result<Vec<_>, Error>>()?, &contract)?;
        shown::show(&self.ranks, &self.config, &shown, run)?;
        let fed = run.visit(at(LayerSite::Mlp), fed);
        residual_stream(at(LayerSite::Output), &h, ([1.0; 3], &fed), run)
    }

    fn attention<T: Real>(
        &self,
        layer: usize,
        inputs: [&Tracked<T>; 2],
        table: &RopeTable<T>,
        caches: &mut [KvCache<T>],
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let mut shown: Vec<Shown<T>> = self.parts.iter().map(|_| Shown::default()).collect();
        let contract = of_one(run);
        let parts = self.parts.iter().zip(&mut shown);
        let heads = parts.map(|(part, shown)| part.projected(layer, inputs[0], &mut Run::new(contract, shown)));
        let heads = self.normed(layer, heads.collect::<Result<_, Error>>()?, &mut shown, contract)?;
        let parts = self.parts.iter().zip(heads).zip(caches.iter_mut().zip(&mut shown));
        let attended = parts.map(|((part, heads), (cache, shown))| {
            part.attended(layer, inputs, heads, table, cache, &mut Run::new(contract, shown))
        });
        let attended = reduced(attended.collect::<Result<Vec<_>, Error>>()?, &run.contract.of_products())?;
        shown::show(&self.ranks, &self.config, &shown, run)?;
        Ok(attended)
    }

    /// Queries and keys behind their norms: over all ranks' heads together, or each head by itself.
    fn normed<T: Real>(
        &self,
        layer: usize,
        mut heads: Vec<Heads<T>>,
        shown: &mut [Shown<T>],
        contract: RoundingContract,
    ) -> Result<Vec<Heads<T>>, Error> {
        if self.config.qk_norm != semantics::QkNorm::FullProjection {
            for ((part, heads), shown) in self.parts.iter().zip(&mut heads).zip(shown) {
                let both = (heads[0].clone(), heads[1].clone());
                let (q, k) = part.norm_some(layer, [true; 2], both, &mut Run::new(contract, shown))?;
                (heads[0], heads[1]) = (q, k);
            }
            return Ok(heads);
        }
        let norms = [(LayerWeight::QNorm, LayerSite::QNorm), (LayerWeight::KNorm, LayerSite::KNorm)];
        for (which, (weight, site)) in norms.into_iter().enumerate() {
            let norm = self.parts[0].norm_params(&contract, None);
            let over = semantics::QkNorm::FullProjection;
            let QkNorm { norm, .. } = QkNorm { norm, over, head_dim: self.config.head_dim }.under(&contract);
            let of_rank = |part: &Decoder<'_>| Ok(vector::<T>(&part.layer_weight(layer, weight)?));
            let weights = self.parts.iter().map(of_rank).collect::<Result<Vec<_>, Error>>()?;
            let x: Vec<Array2<T>> = heads.iter().map(|heads| heads[which].value.clone()).collect();
            let w: Vec<_> = weights.iter().map(|w| w.view()).collect();
            let y = sharded_norm(&ShardedNorm { norm, divisor: self.divisors[which] }, &x, &w)?;
            for ((heads, shown), y) in heads.iter_mut().zip(shown.iter_mut()).zip(y) {
                heads[which] = Run::new(contract, shown).visit(Site::Layer(layer, site), Tracked::plain(y));
            }
        }
        Ok(heads)
    }
}

/// The same that norms queries and keys over all ranks as document 002 does.
fn norms_as_released(semantics: &Semantics) -> Semantics {
    let released = Semantics::RELEASED;
    Semantics {
        qk_norm: released.qk_norm,
        qk_norm_on: released.qk_norm_on,
        qk_shards: released.qk_shards,
        q_shards: released.q_shards,
        k_shards: released.k_shards,
        qk_norm_eps: released.qk_norm_eps,
        q_norm_eps: released.q_norm_eps,
        k_norm_eps: released.k_norm_eps,
        q_norm_width: released.q_norm_width,
        k_norm_width: released.k_norm_width,
        query_norm: released.query_norm,
        key_norm: released.key_norm,
        norm_order: released.norm_order,
        ..*semantics
    }
}

/// How one rank rounds: its products are whole.
fn of_one<T>(run: &Run<'_, T>) -> RoundingContract {
    RoundingContract { ranks: 1, ..run.contract }
}

/// The sum of what ranks made, each rounded as a contract says.
fn reduced<T: Real>(parts: Vec<Tracked<T>>, contract: &RoundingContract) -> Result<Tracked<T>, Error> {
    Ok(Tracked::plain(all_reduce(&AllReduce::under(contract), &parts)?))
}

/// Columns of all ranks, one behind the other.
fn beside<T: Real>(parts: &[Array2<T>]) -> Tracked<T> {
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    Tracked::plain(concatenate(Axis(1), &views).expect("all ranks have the same rows"))
}
