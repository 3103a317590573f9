//! Attention as ports have it that slip, or take it for another model's:
//!
//! ```text
//! s ← c·tanh(s/c)                             soft cap c, as in Gemma 2
//! p(j) = exp s(j) / (exp b + Σᵢ exp s(i))     sink b, as in gpt-oss; 0: one more than the sum of exponentials
//! j > i − w                                   window of the last w tokens
//! j ≤ i, or j < m where i < m                 prefix of m tokens that see each other both ways, as PaliGemma's
//! j < t·(⌊i/t⌋ + 1)                           mask by tiles: those of a tile of t tokens see each other both ways
//! j ∉ [a, e)                                  keys a to e − 1, which fill no page of the cache, are not seen by a later call
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
        let (key_head, causal) = (semantics.key_head, semantics.causal);
        let Semantics { soft_cap: cap, attention_sink: sink, window, prefix, causal_tile: tile, .. } = *semantics;
        Attention { scale, key_head, causal, cap, sink, window, prefix, tile, softmax, probabilities, order, ..self }
    }

    /// g of h.
    pub(in crate::ops) fn key_head(&self, head: usize) -> usize {
        match self.key_head {
            KeyHead::Grouped => head / (self.query_heads / self.key_heads),
            KeyHead::Tiled => head % self.key_heads,
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

    /// Keys in two runs around those that are lost.
    pub(in crate::ops) fn without_lost(&self, keys: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let [from, to] = self.lost.unwrap_or([keys.end, keys.end]);
        let runs = [keys.start..keys.end.min(from), keys.start.max(to)..keys.end];
        runs.into_iter().filter(|run| !run.is_empty())
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
