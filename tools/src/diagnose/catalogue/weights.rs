//! Mistakes in loading: which tensor is taken for a weight, and what is done to it.

use std::fmt;

use ndarray::{Array2, s};
use reference::Storage;
use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::weights::{LayerWeight, Projection, Weight};

use super::fused::Cut;
use super::tensors::TensorChange;

/// A change of the weights.
#[derive(Debug, Clone, PartialEq)]
pub enum WeightChange {
    /// w1 for w3 and w3 for w1.
    SwapGateAndUp(Networks),
    /// Rows of w1 and w3 taken alternately from the two stacked, instead of half and half.
    InterleaveHalves(Networks),
    /// w2 transposed, where it is square.
    TransposeDown,
    /// Experts in the order of their numbers as text: 10 before 2.
    ExpertsAsText,
    /// No correction bias.
    NoBias,
    /// The correction bias rounded to bf16.
    BiasInBf16,
    /// The router's weight rounded to bf16.
    GateInBf16,
    /// 1 + w in every norm.
    PlusOne,
    /// The first of so many parts of the query norm's weight, for all of them.
    FirstPart(usize),
    /// Each of the key norm's weights so many times in a row, up to their number.
    RepeatedElements(usize),
    /// Each of the key norm's weights so many times in a row, up to each head's width: what the first of so many replicas of a
    /// head takes of all of them, one behind the other.
    RepeatedInHeads(usize),
    /// For each head, the first of so many parts of its part of the key norm's weight: what the first of so many replicas of a head
    /// takes, cut by rank, and repeats up to the head's width.
    CutByRank(usize),
    /// A norm's weight times a factor.
    Scaled(LayerWeight, f64),
    /// A weight of zeros.
    Zero(LayerWeight),
    /// The embedding for the head.
    TiedHead,
    /// Another change, of one routed expert alone.
    OfExpert(usize, Box<WeightChange>),
    /// The projections of attention, of one matrix that is cut otherwise than it was put together.
    Cut(Cut),
    /// What a search finds.
    Tensor(TensorChange),
}

/// Feed-forward networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Networks {
    /// The routed experts.
    Routed,
    /// The shared expert.
    Shared,
    /// Routed and shared experts, and dense layers.
    All,
}

impl WeightChange {
    /// The weight as it is taken; `get` has them as they were.
    pub(super) fn apply<'w>(
        &self,
        weight: Weight,
        config: &Config,
        get: &dyn Fn(Weight) -> Result<Matrix<'w>, WeightError>,
    ) -> Result<Matrix<'w>, WeightError> {
        match (self, weight) {
            (WeightChange::Tensor(change), _) => return change.apply(weight, config, get),
            (WeightChange::OfExpert(one, change), Weight::Layer(_, LayerWeight::Expert(e, _))) if *one == e => {
                return change.apply(weight, config, get);
            }
            (WeightChange::OfExpert(..), _) => return get(weight),
            _ => {}
        }
        let Weight::Layer(layer, inner) = weight else {
            return match (self, weight) {
                (WeightChange::TiedHead, Weight::LmHead) => get(Weight::Embedding),
                (WeightChange::PlusOne, Weight::FinalNorm) => Ok(mapped(&get(weight)?, |w| w + 1.0)),
                _ => get(weight),
            };
        };
        let other = |inner| get(Weight::Layer(layer, inner));
        if let WeightChange::Cut(cut) = self {
            return cut.apply(inner, config, &other).unwrap_or_else(|| get(weight));
        }
        match (self, inner) {
            (WeightChange::SwapGateAndUp(networks), inner) => match networks.projection(inner) {
                Some(projection) => other(of_network(inner, swapped(projection))),
                None => get(weight),
            },
            (WeightChange::InterleaveHalves(networks), inner) => match networks.projection(inner) {
                Some(projection @ (Projection::Gate | Projection::Up)) => {
                    let [gate, up] = [Projection::Gate, Projection::Up].map(|half| other(of_network(inner, half)));
                    Ok(alternate(&gate?, &up?, usize::from(projection == Projection::Up)))
                }
                Some(Projection::Down) | None => get(weight),
            },
            (WeightChange::TransposeDown, LayerWeight::Expert(_, Projection::Down)) => {
                let w = get(weight)?;
                Ok(Matrix::stored(w.dense::<f64>().t(), w.storage()))
            }
            (WeightChange::ExpertsAsText, LayerWeight::Expert(e, projection)) => {
                other(LayerWeight::Expert(as_text(config.num_local_experts)[e], projection))
            }
            (WeightChange::NoBias, LayerWeight::CorrectionBias) => Ok(mapped(&get(weight)?, |_| 0.0)),
            (WeightChange::BiasInBf16, LayerWeight::CorrectionBias) | (WeightChange::GateInBf16, LayerWeight::Gate) => {
                Ok(mapped(&get(weight)?, |w| Storage::Bf16.nearest(w)))
            }
            (
                WeightChange::PlusOne,
                LayerWeight::InputNorm | LayerWeight::PostAttentionNorm | LayerWeight::QNorm | LayerWeight::KNorm,
            ) => Ok(mapped(&get(weight)?, |w| w + 1.0)),
            (WeightChange::FirstPart(parts), LayerWeight::QNorm) => {
                let w = get(weight)?.dense::<f64>();
                let part = w.ncols() / parts;
                let repeated = Array2::from_shape_fn(w.dim(), |(i, j)| w[[i, j % part]]);
                Ok(Matrix::stored(repeated.view(), get(weight)?.storage()))
            }
            (WeightChange::RepeatedElements(times), LayerWeight::KNorm) => {
                let w = get(weight)?.dense::<f64>();
                let repeated = Array2::from_shape_fn(w.dim(), |(i, j)| w[[i, j / times]]);
                Ok(Matrix::stored(repeated.view(), get(weight)?.storage()))
            }
            (WeightChange::RepeatedInHeads(times), LayerWeight::KNorm) => {
                let (w, d) = (get(weight)?.dense::<f64>(), config.head_dim);
                let repeated = Array2::from_shape_fn(w.dim(), |(i, j)| w[[i, j / d * d + j % d / times]]);
                Ok(Matrix::stored(repeated.view(), get(weight)?.storage()))
            }
            (WeightChange::CutByRank(times), LayerWeight::KNorm) => {
                let (w, d) = (get(weight)?.dense::<f64>(), config.head_dim);
                let cut = Array2::from_shape_fn(w.dim(), |(i, j)| w[[i, j / d * d + j % d % (d / times)]]);
                Ok(Matrix::stored(cut.view(), get(weight)?.storage()))
            }
            (WeightChange::Scaled(scaled, factor), inner) if *scaled == inner => {
                Ok(Matrix::stored(get(weight)?.dense::<f64>().mapv(|w| w * factor).view(), Storage::F32))
            }
            (WeightChange::Zero(zero), inner) if *zero == inner => Ok(mapped(&get(weight)?, |_| 0.0)),
            _ => get(weight),
        }
    }
}

impl fmt::Display for WeightChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeightChange::SwapGateAndUp(networks) => write!(f, "w1 and w3 exchanged{networks}"),
            WeightChange::InterleaveHalves(networks) => write!(f, "alternate rows of w1 over w3{networks}"),
            WeightChange::TransposeDown => f.write_str("w2 transposed"),
            WeightChange::ExpertsAsText => f.write_str("experts in the order of text"),
            WeightChange::NoBias => f.write_str("bias 0"),
            WeightChange::BiasInBf16 => f.write_str("bias in bf16"),
            WeightChange::GateInBf16 => f.write_str("router's weight in bf16"),
            WeightChange::PlusOne => f.write_str("1 + w"),
            WeightChange::FirstPart(parts) => write!(f, "the first of {parts} parts for all"),
            WeightChange::RepeatedElements(times) => write!(f, "each element of the key norm {times} times"),
            WeightChange::RepeatedInHeads(times) => {
                write!(f, "each element of each head of the key norm {times} times")
            }
            WeightChange::CutByRank(times) => {
                write!(f, "the first of {times} parts of each head of the key norm for all")
            }
            WeightChange::Scaled(weight, factor) => write!(f, "{weight:?} times {factor:.4}"),
            WeightChange::Zero(weight) => write!(f, "{weight:?} is 0"),
            WeightChange::TiedHead => f.write_str("the embedding is the head"),
            WeightChange::OfExpert(e, change) => write!(f, "{change} in expert {e}"),
            WeightChange::Cut(cut) => cut.fmt(f),
            WeightChange::Tensor(change) => f.write_str(&change.said("")),
        }
    }
}

impl Networks {
    /// Which projection of one of these networks a weight is, if it is one.
    fn projection(self, weight: LayerWeight) -> Option<Projection> {
        match (self, weight) {
            (Networks::Routed | Networks::All, LayerWeight::Expert(_, projection))
            | (Networks::Shared | Networks::All, LayerWeight::Shared(projection))
            | (Networks::All, LayerWeight::Dense(projection)) => Some(projection),
            _ => None,
        }
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Networks::Routed => "",
            Networks::Shared => " in the shared expert",
            Networks::All => " in every network",
        })
    }
}

/// Another projection of the network that a projection is of.
fn of_network(weight: LayerWeight, projection: Projection) -> LayerWeight {
    match weight {
        LayerWeight::Expert(e, _) => LayerWeight::Expert(e, projection),
        LayerWeight::Shared(_) => LayerWeight::Shared(projection),
        LayerWeight::Dense(_) => LayerWeight::Dense(projection),
        other => other,
    }
}

/// Experts in the order of their numbers as text.
pub(super) fn as_text(experts: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..experts).collect();
    order.sort_by_key(ToString::to_string);
    order
}

fn swapped(projection: Projection) -> Projection {
    match projection {
        Projection::Gate => Projection::Up,
        Projection::Up => Projection::Gate,
        Projection::Down => Projection::Down,
    }
}

fn mapped(w: &Matrix<'_>, f: impl Fn(f64) -> f64) -> Matrix<'static> {
    Matrix::stored(w.dense::<f64>().mapv(f).view(), w.storage())
}

/// Every second row of two stacked matrices, from the first or the second on.
fn alternate(gate: &Matrix<'_>, up: &Matrix<'_>, first: usize) -> Matrix<'static> {
    let stacked = ndarray::concatenate![ndarray::Axis(0), gate.dense::<f64>(), up.dense::<f64>()];
    Matrix::stored(stacked.slice(s![first..;2, ..]), gate.storage())
}
