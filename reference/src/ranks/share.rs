//! How what ranks have at a site makes what the whole model has there.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, s};
use num_traits::Zero;

use super::Ranks;
use crate::LayerSite;
use crate::config::Config;

/// What each rank has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Its query heads, of so many channels.
    Queries(usize),
    /// Its key heads, of so many channels.
    Keys(usize),
    /// All of it.
    Same,
    /// Columns of the left half, then as many of the right half.
    Halves,
    /// A summand.
    Sum,
}

impl Share {
    /// At a site of a layer; none where no rank has anything of the model's: blocks are chosen on the ranks of their index heads, and
    /// what the routed experts and the shared one say is one sum before ranks see it.
    pub fn at(site: LayerSite, layer: usize, config: &Config) -> Option<Self> {
        use LayerSite::{
            Context, DenseDown, DenseGateUp, ExpertHidden, ExpertOutput, Experts, GateChoice, GateLogits, GateScores,
            GateWeights, IndexKNorm, IndexKProj, IndexKRope, IndexQNorm, IndexQProj, IndexQRope, KNorm, KProj, KRope,
            QNorm, QProj, QRope, SharedGateUp, VProj,
        };
        let d = config.head_dim;
        match site {
            QProj | QNorm | QRope | Context => Some(Share::Queries(d)),
            KProj | VProj | KNorm | KRope => Some(Share::Keys(d)),
            IndexQProj | IndexQNorm | IndexQRope => config.index.map(|index| Share::Keys(index.head_dim)),
            IndexKProj | IndexKNorm | IndexKRope | GateLogits | GateScores | GateChoice | GateWeights => {
                Some(Share::Same)
            }
            DenseGateUp | SharedGateUp => Some(Share::Halves),
            Experts if config.is_shared(layer) => None,
            DenseDown | Experts | ExpertHidden | ExpertOutput => Some(Share::Sum),
            _ => None,
        }
    }

    /// The whole, but for a sum.
    pub fn together<T: Copy + Zero>(self, ranks: &Ranks, parts: &[ArrayView2<'_, T>]) -> Option<Array2<T>> {
        match self {
            Share::Queries(d) => Some(by_heads(parts, (d, ranks.queries), |rank| ranks.query_heads(rank))),
            Share::Keys(d) => Some(by_heads(parts, (d, ranks.keys), |rank| ranks.key_heads(rank).map(Some).collect())),
            Share::Same => Some(parts[0].to_owned()),
            Share::Halves => Some(halves(parts)),
            Share::Sum => None,
        }
    }
}

/// Channels of so many heads, each from the first rank that has it.
fn by_heads<T: Copy + Zero>(
    parts: &[ArrayView2<'_, T>],
    (d, heads): (usize, usize),
    of_rank: impl Fn(usize) -> Vec<Option<usize>>,
) -> Array2<T> {
    let channels = |head: usize| -> Range<usize> { head * d..(head + 1) * d };
    let mut whole = Array2::zeros((parts[0].nrows(), heads * d));
    for (rank, part) in parts.iter().enumerate().rev() {
        for (slot, head) in of_rank(rank).into_iter().enumerate() {
            if let Some(head) = head {
                whole.slice_mut(s![.., channels(head)]).assign(&part.slice(s![.., channels(slot)]));
            }
        }
    }
    whole
}

/// The left halves of all, then the right halves.
fn halves<T: Copy + Zero>(parts: &[ArrayView2<'_, T>]) -> Array2<T> {
    let each = parts[0].ncols() / 2;
    let mut whole = Array2::zeros((parts[0].nrows(), 2 * each * parts.len()));
    for (rank, part) in parts.iter().enumerate() {
        for half in 0..2 {
            let to = (half * parts.len() + rank) * each;
            whole.slice_mut(s![.., to..to + each]).assign(&part.slice(s![.., half * each..(half + 1) * each]));
        }
    }
    whole
}
