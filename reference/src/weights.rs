//! The model's weights, by typed name, wherever they are kept.

mod vision;

use std::fmt;

use ndarray::{Array2, ArrayView2};

use crate::config::{Config, FeedForward};
use crate::{Real, Storage};

pub use vision::{Part, Stage, VisionLayerWeight, VisionWeight};

/// A weight of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Weight {
    /// Token embedding \[vocabulary, hidden\].
    Embedding,
    /// Norm after the last layer \[hidden\].
    FinalNorm,
    /// Head \[vocabulary, hidden\].
    LmHead,
    /// A weight of one layer.
    Layer(usize, LayerWeight),
    /// A weight of the vision tower or the projector.
    Vision(VisionWeight),
}

/// A weight of one decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerWeight {
    /// Norm before attention \[hidden\].
    InputNorm,
    /// Query projection \[query heads · head, hidden\].
    QProj,
    /// Key projection \[key heads · head, hidden\].
    KProj,
    /// Value projection \[key heads · head, hidden\].
    VProj,
    /// Query norm \[query heads · head\], or \[head\] where each head is normed.
    QNorm,
    /// Key norm \[key heads · head\], or \[head\].
    KNorm,
    /// Output projection \[hidden, query heads · head\].
    OProj,
    /// Query projection of the index branch \[index heads · index head, hidden\].
    IndexQProj,
    /// Its key projection \[index head, hidden\].
    IndexKProj,
    /// Its query norm \[index head\].
    IndexQNorm,
    /// Its key norm \[index head\].
    IndexKNorm,
    /// Norm before the feed-forward network \[hidden\].
    PostAttentionNorm,
    /// Router \[experts, hidden\].
    Gate,
    /// Router's correction bias \[experts\].
    CorrectionBias,
    /// A projection of one expert.
    Expert(usize, Projection),
    /// A projection of the expert that all tokens share.
    Shared(Projection),
    /// A projection of a dense layer.
    Dense(Projection),
}

/// The three projections of a gated feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    /// w1 \[intermediate, hidden\].
    Gate,
    /// w3 \[intermediate, hidden\].
    Up,
    /// w2 \[hidden, intermediate\].
    Down,
}

/// Where weights are kept: a checkpoint on disk, or memory.
pub trait Weights: Sync {
    /// The weight; a vector is a matrix of one row.
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError>;
}

/// A weight that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tensor}: {problem}")]
pub struct WeightError {
    /// The tensor's name where it is kept.
    pub tensor: String,
    /// What was expected and what was found.
    pub problem: String,
}

/// A matrix in its stored form, row by row, little-endian.
#[derive(Debug, Clone)]
pub struct Matrix<'a> {
    rows: usize,
    columns: usize,
    storage: Storage,
    bytes: std::borrow::Cow<'a, [u8]>,
}

impl<'a> Matrix<'a> {
    /// A matrix over bytes; `None` if their number does not fit, or the storage has no width.
    pub fn new(
        (rows, columns): (usize, usize),
        storage: Storage,
        bytes: impl Into<std::borrow::Cow<'a, [u8]>>,
    ) -> Option<Self> {
        let bytes = bytes.into();
        let fits = rows.checked_mul(columns)?.checked_mul(width(storage)?) == Some(bytes.len());
        fits.then_some(Matrix { rows, columns, storage, bytes })
    }

    /// The matrix with each element rounded to nearest in `storage`; f32 if that is [`Storage::Real`].
    pub fn stored(values: ArrayView2<'_, f64>, storage: Storage) -> Matrix<'static> {
        let storage = if storage == Storage::Real { Storage::F32 } else { storage };
        let bytes: Vec<u8> = values.iter().flat_map(|&x| encode(storage.nearest(x), storage)).collect();
        Matrix::new(values.dim(), storage, bytes).expect("each element was written")
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The type it is stored in.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// The bytes, row by row, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Row i, widened exactly (or rounded to nearest, if T is f32 and the weight is wider).
    pub fn row_into<T: Real>(&self, i: usize, out: &mut [T]) {
        let row = self.columns * width(self.storage).expect("checked when made");
        let bytes = &self.bytes[i * row..(i + 1) * row];
        match self.storage {
            Storage::F32 => decode(bytes, out, |b: [u8; 4]| T::of(f64::from(f32::from_le_bytes(b)))),
            Storage::Bf16 => decode(bytes, out, |[a, b]: [u8; 2]| {
                T::of(f64::from(f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16)))
            }),
            Storage::F16 => decode(bytes, out, |b: [u8; 2]| T::of(half::f16::from_le_bytes(b).to_f64())),
            Storage::Real => unreachable!("checked when made"),
        }
    }

    /// Rows `first..first + count`, widened.
    pub fn panel<T: Real>(&self, first: usize, count: usize) -> Array2<T> {
        let mut panel = Array2::zeros((count, self.columns));
        for (i, mut row) in panel.rows_mut().into_iter().enumerate() {
            self.row_into(first + i, row.as_slice_mut().expect("rows of a new array are contiguous"));
        }
        panel
    }

    /// All of it, widened.
    pub fn dense<T: Real>(&self) -> Array2<T> {
        self.panel(0, self.rows)
    }
}

/// Bytes of one element.
fn width(storage: Storage) -> Option<usize> {
    match storage {
        Storage::F32 => Some(4),
        Storage::F16 | Storage::Bf16 => Some(2),
        Storage::Real => None,
    }
}

fn decode<const N: usize, T>(bytes: &[u8], out: &mut [T], element: impl Fn([u8; N]) -> T) {
    let (elements, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty() && elements.len() == out.len());
    for (out, &bytes) in out.iter_mut().zip(elements) {
        *out = element(bytes);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "x is a value of the storage, or of f32")]
fn encode(x: f64, storage: Storage) -> Vec<u8> {
    match storage {
        Storage::F16 => half::f16::from_f32_const(x as f32).to_le_bytes().to_vec(),
        Storage::Bf16 => ((x as f32).to_bits() >> 16).to_le_bytes()[..2].to_vec(),
        Storage::F32 | Storage::Real => (x as f32).to_le_bytes().to_vec(),
    }
}

/// Every weight of a model, with its shape (a vector has one row).
pub fn inventory(config: &Config) -> Vec<(Weight, (usize, usize))> {
    let (h, v) = (config.hidden_size, config.vocab_size);
    let (q, k) = (config.query_width(), config.key_width());
    let mut all = vec![(Weight::Embedding, (v, h)), (Weight::FinalNorm, (1, h)), (Weight::LmHead, (v, h))];
    for layer in 0..config.num_hidden_layers {
        let mut push = |weight, dim| all.push((Weight::Layer(layer, weight), dim));
        push(LayerWeight::InputNorm, (1, h));
        push(LayerWeight::QProj, (q, h));
        push(LayerWeight::KProj, (k, h));
        push(LayerWeight::VProj, (k, h));
        let [q_norm, k_norm] = config.qk_norm_widths();
        push(LayerWeight::QNorm, (1, q_norm));
        push(LayerWeight::KNorm, (1, k_norm));
        push(LayerWeight::OProj, (h, q));
        if let Some(index) = config.index_of(layer) {
            push(LayerWeight::IndexQProj, (index.heads * index.head_dim, h));
            push(LayerWeight::IndexKProj, (index.head_dim, h));
            push(LayerWeight::IndexQNorm, (1, index.head_dim));
            push(LayerWeight::IndexKNorm, (1, index.head_dim));
        }
        push(LayerWeight::PostAttentionNorm, (1, h));
        if config.layer(layer).feed_forward == FeedForward::Experts {
            push(LayerWeight::Gate, (config.num_local_experts, h));
            push(LayerWeight::CorrectionBias, (1, config.num_local_experts));
        }
        let mut network = |of: &dyn Fn(Projection) -> LayerWeight, width: usize| {
            push(of(Projection::Gate), (width, h));
            push(of(Projection::Up), (width, h));
            push(of(Projection::Down), (h, width));
        };
        if config.layer(layer).feed_forward == FeedForward::Dense {
            network(&LayerWeight::Dense, config.dense_intermediate_size);
            continue;
        }
        if config.is_shared(layer) {
            network(&LayerWeight::Shared, config.shared_intermediate_size);
        }
        for expert in 0..config.num_local_experts {
            network(&|projection| LayerWeight::Expert(expert, projection), config.intermediate_size);
        }
    }
    all.extend(vision::inventory(config));
    all
}

/// The name in the hub's files, below what a text model is a part of.
impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Embedding => f.write_str("model.embed_tokens.weight"),
            Weight::FinalNorm => f.write_str("model.norm.weight"),
            Weight::LmHead => f.write_str("lm_head.weight"),
            Weight::Layer(layer, weight) => write!(f, "model.layers.{layer}.{weight}"),
            Weight::Vision(weight) => weight.fmt(f),
        }
    }
}

impl fmt::Display for LayerWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayerWeight::InputNorm => "input_layernorm.weight",
            LayerWeight::QProj => "self_attn.q_proj.weight",
            LayerWeight::KProj => "self_attn.k_proj.weight",
            LayerWeight::VProj => "self_attn.v_proj.weight",
            LayerWeight::QNorm => "self_attn.q_norm.weight",
            LayerWeight::KNorm => "self_attn.k_norm.weight",
            LayerWeight::OProj => "self_attn.o_proj.weight",
            LayerWeight::IndexQProj => "self_attn.index_q_proj.weight",
            LayerWeight::IndexKProj => "self_attn.index_k_proj.weight",
            LayerWeight::IndexQNorm => "self_attn.index_q_norm.weight",
            LayerWeight::IndexKNorm => "self_attn.index_k_norm.weight",
            LayerWeight::PostAttentionNorm => "post_attention_layernorm.weight",
            LayerWeight::Gate => "block_sparse_moe.gate.weight",
            LayerWeight::CorrectionBias => "block_sparse_moe.e_score_correction_bias",
            LayerWeight::Expert(expert, projection) => {
                return write!(f, "block_sparse_moe.experts.{expert}.{projection}.weight");
            }
            LayerWeight::Shared(projection) => {
                return write!(f, "block_sparse_moe.shared_experts.{}.weight", projection.module());
            }
            LayerWeight::Dense(projection) => return write!(f, "mlp.{}.weight", projection.module()),
        })
    }
}

impl Projection {
    /// The module of a network that is not one of many experts.
    fn module(self) -> &'static str {
        match self {
            Projection::Gate => "gate_proj",
            Projection::Up => "up_proj",
            Projection::Down => "down_proj",
        }
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Projection::Gate => "w1",
            Projection::Up => "w3",
            Projection::Down => "w2",
        })
    }
}
