//! Attention as ports have it that slip, or take it for another model's:
//!
//! ```text
//! s ← c·tanh(s/c)                             soft cap c, as in Gemma 2
//! p(j) = exp s(j) / (exp b + Σᵢ exp s(i))     sink b, as in gpt-oss; 0: one more than the sum of exponentials
//! j > i − w                                   window of the last w tokens
//! j ≤ i, or j < m where i < m                 prefix of m tokens that see each other both ways, as PaliGemma's
//! j < t·(⌊i/t⌋ + 1)                           mask by tiles: those of a tile of t tokens see each other both ways
//! j ∉ [a, e)                                  keys a to e − 1, which fill no page of the cache, are not seen by a later call; nor
//!                                             others, by their number, their distance or their place in a tile, or all that
//!                                             are of the calls before, or of a prompt before the call, or all from one on, the
//!                                             token's own, too (`unseen`)
//!                                             (where that leaves none, all that a mask lets through count alike)
//! p(j) = exp s(j) / (z + Σᵢ exp s(i))         z keys of zeros, that fill up a tile or are slots of a cache without a token
//! ```

use std::ops::Range;

use super::Attention;
use crate::rounding::AttentionRound;
use crate::semantics::{AttentionScale, Causal, KeyHead, ScoreType, Semantics};
use crate::{Real, Rounding, Storage};

impl Attention {
    /// As a port reads it that differs.
    #[must_use]
    pub fn slipping(self, semantics: &Semantics, rotary_dim: usize) -> Self {
        let scale = match semantics.attention_scale {
            AttentionScale::HeadDim => self.scale,
            AttentionScale::None => 1.0,
            AttentionScale::RotaryDim => (rotary_dim.max(1) as f64).sqrt().recip(),
            AttentionScale::HalfHeadDim => (self.head_dim as f64 / 2.0).sqrt().recip(),
        };
        let scale = semantics.score_scale.unwrap_or(scale);
        let (softmax, bf16) = (semantics.attention_softmax, Rounding::nearest(Storage::Bf16));
        let (probabilities, order) = match softmax {
            ScoreType::F32 => (self.probabilities, self.order),
            ScoreType::Bf16 => (bf16, AttentionRound::Eager),
        };
        let narrow = semantics.probability_type.storage();
        let (probabilities, narrowed) = (narrow.map_or(probabilities, Rounding::nearest), narrow.is_some());
        let (key_head, causal) = (semantics.key_head, semantics.causal);
        let Semantics { soft_cap: cap, attention_sink: sink, window, prefix, causal_tile: tile, .. } = *semantics;
        let Semantics { tiled_heads: tiled, unseen, unfilled: zeros, merged, .. } = *semantics;
        let seen = Attention { causal, window, prefix, tile, unseen, zeros, merged, ..self };
        Attention { scale, key_head, tiled, cap, sink, softmax, probabilities, narrowed, order, ..seen }
    }

    /// g of h, of keys.
    pub(in crate::ops) fn key_head(&self, head: usize) -> usize {
        self.head_of(head, self.tiled.is_some_and(|half| half.has()[0]))
    }

    /// g of h, of values.
    pub(in crate::ops) fn value_head(&self, head: usize) -> usize {
        self.head_of(head, self.tiled.is_some_and(|half| half.has()[1]))
    }

    fn head_of(&self, head: usize, is_tiled: bool) -> usize {
        match self.key_head {
            KeyHead::Grouped if !is_tiled => head / (self.query_heads / self.key_heads),
            KeyHead::Grouped | KeyHead::Tiled => head % self.key_heads,
        }
    }

    /// The score that the softmax's denominator has beside those of so many keys: a sink's, and those of zeros.
    pub(in crate::ops) fn beside(&self, keys: usize) -> Option<f64> {
        let zeros = self.zeros.map(|zeros| zeros.of(keys)).filter(|zeros| *zeros > 0).map(|zeros| (zeros as f64).ln());
        match (self.sink, zeros) {
            (Some(sink), Some(zeros)) => Some((sink.exp() + zeros.exp()).ln()),
            (sink, zeros) => sink.or(zeros),
        }
    }

    /// How many of s keys the token at a position sees.
    pub(in crate::ops) fn seen(&self, position: usize, s: usize) -> usize {
        let both_ways = self.prefix.filter(|prefix| position < *prefix).map_or(0, |prefix| s.min(prefix));
        let seen = match self.causal {
            Causal::Inclusive => position + 1,
            Causal::Ahead => s.min(position + 2),
            Causal::Strict if position == 0 => s,
            Causal::Strict => position,
            Causal::All => s,
            Causal::Call => position.saturating_sub(self.call) + 1,
        };
        let of_tile = self.tile.map_or(0, |tile| s.min((position / tile.max(1) + 1) * tile.max(1)));
        seen.max(both_ways).max(of_tile)
    }

    /// The first key that the token at a position sees.
    pub(in crate::ops) fn first_seen(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window.max(1)))
    }

    /// The keys that the token at a position sees, of s.
    pub(in crate::ops) fn visible(&self, position: usize, s: usize) -> Range<usize> {
        self.first_seen(position)..self.seen(position, s)
    }

    /// The runs of keys that the token at a position does not see, wherever its mask ends.
    pub(in crate::ops) fn lost_keys(&self, position: usize) -> Vec<Range<usize>> {
        let unseen = self.unseen.map(|unseen| unseen.runs(position, self.call)).unwrap_or_default();
        self.lost.map(|[from, to]| from..to).into_iter().chain(unseen).collect()
    }

    /// Keys in runs around those that the token at a position does not see.
    pub(in crate::ops) fn without_lost(
        &self,
        keys: Range<usize>,
        position: usize,
    ) -> impl Iterator<Item = Range<usize>> {
        let around = |runs: Vec<Range<usize>>, lost: Range<usize>| {
            let parts = |run: Range<usize>| [run.start..run.end.min(lost.start), run.start.max(lost.end)..run.end];
            runs.into_iter().flat_map(parts).filter(|run| !run.is_empty()).collect()
        };
        self.lost_keys(position).into_iter().fold(vec![keys], around).into_iter()
    }

    /// A scaled score under the cap, whose quotient, function and product are each rounded as scores are.
    pub(super) fn capped<T: Real>(&self, score: T) -> T {
        let Some(cap) = self.cap else { return score };
        let quotient = self.scores.round(score / T::of(cap));
        self.scores.round(self.scores.round(quotient.map_once(f64::tanh)) * T::of(cap))
    }

    /// How much a capped score may be off by its own roundings, relative to itself.
    pub(super) fn cap_error(&self) -> f64 {
        if self.cap.is_some() { 3.0 * self.scores.storage.unit_roundoff() + 6.0 * self.unit } else { 0.0 }
    }
}
