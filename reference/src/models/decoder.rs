//! MiniMax-M2, M2.1, M2.5, M2.7 and the text model of M3: a decoder of attention and feed-forward networks (SPEC A17).
//!
//! ```text
//! h = x + attention(norm₁ x)        y = h + network(norm₂ h)        logits = head(norm y)
//! ```
//!
//! A layer attends to all tokens before it or to chosen blocks of them, and its network is dense or made of experts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use ndarray::{Array2, s};

use super::inputs::Inputs;
pub use super::stream::Stream;
use super::stream::residual_stream;
use super::vision::VisionTower;
use crate::config::{Choosing, Config, Index};
use crate::error::{WeightError, require};
use crate::matrix::Matrix;
use crate::media::{Media, Medium};
use crate::ops::embedding::{Embedding, embedding};
use crate::ops::kv_cache::KvCache;
use crate::ops::linear::Linear;
use crate::ops::masked_scatter::{self, MaskedScatter, masked_scatter};
use crate::ops::rope::{Rope, RopeTable, rope_table};
use crate::run::Run;
use crate::semantics::{FinalNorm, IndexKey, MsaSelect, PostNormInput, ResidualFrom, RopeCall, RopePair, RopePart};
use crate::weights::{LayerWeight, Weight, Weights};
use crate::{Error, LayerSite, Real, RoundingContract, Semantics, Site, Tracked};

/// A model: configuration, reading of the documents, weights.
#[derive(Clone)]
pub struct Decoder<'w> {
    config: Config,
    semantics: Semantics,
    weights: &'w dyn Weights,
    media: Option<&'w Media>,
    /// The hidden states that a module of multi-token prediction reads, from the first position on.
    hidden: Option<&'w Array2<f64>>,
    /// The experts that it has, where others are elsewhere.
    own_experts: Option<Range<usize>>,
    /// Layers that are read otherwise.
    others: BTreeMap<usize, Decoder<'w>>,
    /// Calls that begin at a position or later, and are read otherwise.
    later: BTreeMap<usize, Decoder<'w>>,
}

/// What a pass over n tokens gives.
#[derive(Debug, Clone)]
pub struct Pass<T> {
    /// The last layer's output \[n, H\].
    pub stream: Tracked<T>,
    /// The same behind the final norm \[n, H\].
    pub normed: Tracked<T>,
    /// The head's output \[n, V\].
    pub logits: Tracked<T>,
}

impl<'w> Decoder<'w> {
    /// A model; `config` as changed by what `semantics` overrides.
    pub fn new(config: &Config, semantics: Semantics, weights: &'w dyn Weights) -> Result<Self, Error> {
        let config = config.under(&semantics);
        let (r, d) = (config.rotary_dim, config.head_dim);
        require(r.is_multiple_of(2) && r <= d, "decoder C1", "rotary_dim", r, format!("an even number up to {d}"))?;
        let (k, e) = (config.num_experts_per_tok, config.num_local_experts);
        require((1..=e).contains(&k), "decoder C2", "top_k", k, format!("1 to {e}"))?;
        if let Some(Index { heads, head_dim, choices, blocks }) = config.index {
            let serves = heads == choices || semantics.msa_select == MsaSelect::HeadMax;
            require(serves, "decoder C4", "index heads", heads, format!("{choices}: one for each key head"))?;
            require(r <= head_dim, "decoder C5", "rotary_dim", r, format!("at most {head_dim}, of an index head"))?;
            require(blocks.top_k >= 1, "decoder C6", "chosen blocks", blocks.top_k, "at least 1")?;
            let fits = semantics.index_key == IndexKey::Own || head_dim == d;
            require(fits, "decoder C7", "index head_dim", head_dim, format!("{d}, that of the keys it takes"))?;
        }
        let (others, later) = (BTreeMap::new(), BTreeMap::new());
        Ok(Decoder { config, semantics, weights, media: None, hidden: None, own_experts: None, others, later })
    }

    /// The same that has some of the experts: what the others add is elsewhere.
    #[must_use]
    pub(super) fn with_experts(self, own: Range<usize>) -> Self {
        Decoder { own_experts: Some(own), ..self }
    }

    /// Whether it has an expert.
    pub(super) fn has_expert(&self, expert: usize) -> bool {
        self.own_experts.as_ref().is_none_or(|own| own.contains(&expert))
    }

    /// The same with one layer under another reading of `config`, whose rotation table is its own where that is another.
    pub fn with_layer(mut self, layer: usize, config: &Config, semantics: Semantics) -> Result<Self, Error> {
        let other = Decoder::new(config, semantics, self.weights)?;
        let Config { num_experts_per_tok: experts, index, .. } = *other.config();
        if (experts, index) != (self.config.num_experts_per_tok, self.config.index) {
            self.config.choosing.insert(layer, Choosing { experts, index });
        }
        self.others.insert(layer, other);
        Ok(self)
    }

    /// The same whose calls are computed by another model from the one on that begins at a position: rotation table and layers.
    #[must_use]
    pub fn with_calls(mut self, from: usize, other: Decoder<'w>) -> Self {
        self.later.insert(from, other);
        self
    }

    /// What computes rotation table and layers of a call that begins at a position.
    #[must_use]
    pub fn of_call(&self, first: usize) -> &Self {
        self.later.range(..=first).next_back().map_or(self, |(_, other)| other)
    }

    /// What computes a layer in a call that begins at a position.
    fn of_layer(&self, layer: usize, first: usize) -> &Self {
        let own = self.of_call(first);
        own.others.get(&layer).unwrap_or(own)
    }

    /// The same before a prompt with images or videos.
    #[must_use]
    pub fn seeing(self, media: Option<&'w Media>) -> Self {
        Decoder { media, ..self }
    }

    /// The same beside hidden states, from the first position on: a module of multi-token prediction reads them.
    #[must_use]
    pub fn reading(self, hidden: Option<&'w Array2<f64>>) -> Self {
        Decoder { hidden, ..self }
    }

    /// The hidden states that so many tokens from `first` on are read with.
    pub fn hidden<T: Real>(&self, first: usize, tokens: usize) -> Option<Tracked<T>> {
        let rows = self.hidden?.slice(s![first..first + tokens, ..]);
        Some(Tracked::exact(rows.mapv(T::of)))
    }

    /// The images and videos of the prompt.
    pub fn media(&self) -> Option<&'w Media> {
        self.media
    }

    /// The vision tower in the call that begins at a position, on its first pass or a later one, if there is as much to see.
    pub fn tower(&self, first: usize, pass: usize) -> Option<VisionTower<'_>> {
        let (medium, _) = self.media?.at(first)?.passes().nth(pass)?;
        VisionTower::of(&self.config, &self.semantics, self.weights, (pass, medium == Medium::Video))
    }

    /// The configuration in use.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The reading of the documents in use.
    pub fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    /// Where the weights are.
    pub fn weights(&self) -> &'w dyn Weights {
        self.weights
    }

    /// Logits of `tokens` \[T, V\], which follow the tokens in the cache. After an error the cache is as it was.
    pub fn forward<T: Real>(
        &self,
        tokens: &[u32],
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        Ok(self.pass(tokens, cache, run)?.logits)
    }

    /// The same, with the hidden states that the logits are made of.
    pub fn pass<T: Real>(
        &self,
        tokens: &[u32],
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Pass<T>, Error> {
        cache.attempt(|cache| self.pass_from(cache.len(0), tokens, cache, run))
    }

    fn pass_from<T: Real>(
        &self,
        first: usize,
        tokens: &[u32],
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Pass<T>, Error> {
        let features = self.features(first, run)?;
        let embedded = self.embed(tokens, first, run)?;
        let mut x = Stream::from(self.scatter((first, tokens), embedded, &features, run)?);
        let table = self.of_call(first).rope_table(first, tokens.len(), run);
        for layer in 0..self.config.num_hidden_layers {
            let own = self.table_of(layer, first, (first, tokens.len()), run);
            x = self.layer(layer, &x, own.as_ref().unwrap_or(&table), cache, run)?;
        }
        self.output(x, run)
    }

    /// The residual stream before the first layer.
    pub fn embed<T: Real>(&self, tokens: &[u32], first: usize, run: &mut Run<'_, T>) -> Result<Tracked<T>, Error> {
        let (end, limit) = (first + self.config.ahead() + tokens.len(), self.config.max_position_embeddings);
        require(end <= limit, "decoder C3", "positions", end, format!("at most max_position_embeddings = {limit}"))?;
        let table = self.weights.get(Weight::Embedding)?;
        let x = embedding(&Embedding::under(&run.contract), tokens, &table)?;
        let x = run.tracked(x, |candidate, x| Embedding::under(candidate).bound(x));
        Ok(run.visit(Site::Embedding, x))
    }

    /// Features of all that the call shows that begins at a position, pass by pass.
    pub fn features<T: Real>(&self, first: usize, run: &mut Run<'_, T>) -> Result<Vec<Tracked<T>>, Error> {
        let passes = self.media.and_then(|media| media.at(first)).into_iter().flat_map(Media::passes).enumerate();
        passes.filter_map(|(pass, (_, pixels))| Some(self.tower(first, pass)?.features(pixels, run))).collect()
    }

    /// The embedding with features in the places of images and videos among the prompt's `tokens` in a call that begins at `first`. x
    /// may go on after them: what is decoded is no place of an image, whatever the token.
    pub fn scatter<T: Real>(
        &self,
        (first, tokens): (usize, &[u32]),
        mut x: Tracked<T>,
        features: &[Tracked<T>],
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let Some(vision) = &self.config.vision else { return Ok(x) };
        let places = self.semantics.feature_places;
        let passes = self.media.and_then(|media| media.at(first)).into_iter().flat_map(Media::passes);
        for ((medium, pixels), f) in passes.zip(features) {
            let place = Some(medium.token(vision));
            let marked: Vec<bool> = (0..x.dim().0).map(|row| tokens.get(row).copied() == place).collect();
            let marked = masked_scatter::marked(places, marked);
            let f = &f.select(&masked_scatter::order(places.is_reversed(medium), &pixels.grids, vision.merged()));
            let y = masked_scatter(&MaskedScatter::under(&run.contract), x.view(), &marked, f.view())?;
            let bound = |c: &_, _: &_| MaskedScatter::under(c).bound(&x.widened(), &marked, &f.widened());
            x = run.tracked(y, bound);
        }
        Ok(run.visit(Site::InputsEmbeds, x))
    }

    /// The rotation table for tokens at `first` and after, as this model has it in every call.
    pub fn rope_table<T: Real>(&self, first: usize, tokens: usize, run: &mut Run<'_, T>) -> RopeTable<T> {
        let RopeTable { cos, sin } = self.own_table(first, tokens, run);
        RopeTable { cos: run.visit(Site::RopeCos, cos), sin: run.visit(Site::RopeSin, sin) }
    }

    /// The rotation table of a layer that is read otherwise, in the call that begins at a position; none, where it is all layers'.
    pub fn table_of<T: Real>(
        &self,
        layer: usize,
        call: usize,
        (first, tokens): (usize, usize),
        run: &Run<'_, T>,
    ) -> Option<RopeTable<T>> {
        let (own, all) = (self.of_layer(layer, call), self.of_call(call));
        // Which channels a pair is of is no matter of the table.
        let made = |model: &Self| Rope { part: RopePart::First, pair: RopePair::Half, ..model.rope(&run.contract) };
        let is_other = made(own) != made(all);
        is_other.then(|| own.own_table(first, tokens, run))
    }

    /// The rotation table for tokens at `first` and after, which nobody is told of.
    fn own_table<T: Real>(&self, first: usize, tokens: usize, run: &Run<'_, T>) -> RopeTable<T> {
        let first = if self.semantics.rope_call == RopeCall::Restarted { 0 } else { first };
        let first = first + self.config.ahead();
        let table = rope_table::<T>(&self.rope(&run.contract), first, tokens);
        let bounded = |x: Tracked<T>| run.tracked(x.value, |candidate, x| self.rope(candidate).table_bound(first, x));
        RopeTable { cos: bounded(table.cos), sin: bounded(table.sin) }
    }

    /// One decoder layer, from residual stream to residual stream.
    pub fn layer<T: Real>(
        &self,
        layer: usize,
        x: &Stream<T>,
        table: &RopeTable<T>,
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Stream<T>, Error> {
        let first = cache.len(layer);
        let own = self.of_layer(layer, first);
        if !std::ptr::eq(own, self) {
            return own.layer(layer, x, table, cache, run);
        }
        let at = |site| Site::Layer(layer, site);
        let reads = self.semantics;
        let normed = self.rms_norm(Weight::Layer(layer, LayerWeight::InputNorm), x, run)?;
        let normed = run.visit(at(LayerSite::InputNorm), normed);
        let attended = self.attention(layer, [&normed, &x.stored], table, cache, run)?;
        let factors = [reads.attention_alpha, reads.attention_beta, None].map(|factor| factor.unwrap_or(1.0));
        let from = added_to(reads.attention_residual, x, normed);
        let h = residual_stream(at(LayerSite::Residual), &from, (factors, &attended), run)?;
        let read = match reads.post_norm_input {
            PostNormInput::Sum => &h,
            PostNormInput::Layer => x,
            PostNormInput::Attention => &Stream::from(attended),
        };
        let normed = self.rms_norm(Weight::Layer(layer, LayerWeight::PostAttentionNorm), read, run)?;
        let normed = run.visit(at(LayerSite::PostAttentionNorm), normed);
        let fed =
            self.feed_forward(layer, Inputs { normed: &normed, residual: &h.stored, layer: &x.stored, first }, run)?;
        let fed = run.visit(at(LayerSite::Mlp), fed);
        let factors = [reads.mlp_alpha, reads.mlp_beta, reads.layer_scale].map(|factor| factor.unwrap_or(1.0));
        let from = added_to(reads.mlp_residual, &h, normed);
        residual_stream(at(LayerSite::Output), &from, (factors, &fed), run)
    }

    /// Logits of the last layer's residual stream.
    pub fn head<T: Real>(&self, x: &Stream<T>, run: &mut Run<'_, T>) -> Result<Tracked<T>, Error> {
        Ok(self.output(x.clone(), run)?.logits)
    }

    /// The same, with the hidden states that they are made of.
    pub(super) fn output<T: Real>(&self, x: Stream<T>, run: &mut Run<'_, T>) -> Result<Pass<T>, Error> {
        let normed = match self.semantics.final_norm {
            FinalNorm::Applied => self.rms_norm(Weight::FinalNorm, &x, run)?,
            FinalNorm::Missing => x.stored.clone(),
        };
        let normed = run.visit(Site::FinalNorm, normed);
        let weight = if self.config.tie_word_embeddings { Weight::Embedding } else { Weight::LmHead };
        let shown = run.probe.rows_of_head();
        // An embedding that is the head, too, is cast where it is multiplied.
        let cast = run.candidate.unwrap_or(run.contract).autocast.storage();
        let own = run.within(RoundingContract::of_products);
        let project = |x: &Tracked<T>| -> Result<Tracked<T>, Error> {
            own.linear(Linear::under, x, &self.weights.get(weight)?.held_in(cast))
        };
        let logits = match (self.semantics.logits_shift, shown) {
            (Some(by), _) => {
                let logits = project(&normed)?;
                logits.select(&late(logits.dim().0, by))
            }
            (None, None) => project(&normed)?,
            (None, Some(rows)) => {
                let seen = if rows.is_empty() { None } else { Some(project(&normed.select(&rows))?) };
                Tracked::spread(seen, &rows, (normed.dim().0, self.config.vocab_size))
            }
        };
        let logits = run.visit(Site::LmHead, logits);
        let logits = run.visit(Site::Logits, logits);
        Ok(Pass { stream: x.stored, normed, logits })
    }

    pub(super) fn layer_weight(&self, layer: usize, weight: LayerWeight) -> Result<Matrix<'w>, WeightError> {
        self.weights.get(Weight::Layer(layer, weight))
    }

    pub(super) fn rope(&self, contract: &RoundingContract) -> Rope {
        let Semantics { rope_part: part, rope_pair: pair, position_shift: shift, .. } = self.semantics;
        let Semantics { rope_frequency: frequency, rope_position: position, .. } = self.semantics;
        let Semantics { rope_linear, rope_scale, rope_scaling: scaling, rope_inv_freq, rope_angle, .. } =
            self.semantics;
        let (linear, scale) = (rope_linear.unwrap_or(1.0), rope_scale.unwrap_or(1.0));
        let (head_dim, rotary_dim, theta) = (self.config.head_dim, self.config.rotary_dim, self.config.rope_theta);
        let kept = [rope_inv_freq, rope_angle];
        let rope = Rope { head_dim, rotary_dim, theta, part, pair, frequency, position, shift, ..Rope::default() };
        Rope { linear, scaling, kept, scale, ..rope }.under(contract)
    }
}

/// What a block's output is added to.
fn added_to<T: Real>(from: ResidualFrom, stream: &Stream<T>, normed: Tracked<T>) -> Cow<'_, Stream<T>> {
    match from {
        ResidualFrom::Stream => Cow::Borrowed(stream),
        ResidualFrom::Normed => Cow::Owned(Stream::from(normed)),
    }
}

/// The rows that stand in the places of n, so many before; the first or the last stands where there is none.
fn late(n: usize, by: i32) -> Vec<usize> {
    let source = |row: usize| match usize::try_from(by) {
        Ok(late) => row.saturating_sub(late),
        Err(_) => (row + by.unsigned_abs() as usize).min(n - 1),
    };
    (0..n).map(source).collect()
}
