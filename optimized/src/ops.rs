//! Launches of the kernels. What an operator computes is in `reference/src/ops`, how is in `kernels`.
//!
//! C1, C2 … are the reference's constraints, and its parameters check them here, too. What only the device demands is K1,
//! K2 …, which the kernels' headers state.

pub mod embedding;
pub mod rms_norm;
pub mod add_rms_norm;
pub mod linear;
pub mod qk_norm_rope;
pub mod attention;
pub mod indexer;
pub mod block_sparse_attention;
pub mod router;
pub mod moe;
pub mod dense_ffn;
pub mod sampling;
pub mod patch_embedding;
pub mod layer_norm;
pub mod linear_bias;
pub mod rope;
pub mod vision_attention;
pub mod gelu;
pub mod residual;
pub mod masked_scatter;
pub mod mtp;
pub mod all_reduce;

use cudarc::driver::{LaunchArgs, PushKernelArg};
use half::bf16;
use reference::contract::{Attention, Coefficients, ContractError, GateClamp, NormWeight, RoundingContract, require};

use crate::device::Grid;
use crate::error::Error;
use crate::tensor::{Matrix, ROW_MULTIPLE};

/// A dimension as kernels take it.
fn dimension(label: &'static str, quantity: &'static str, value: usize) -> Result<i32, Error> {
    let narrow = i32::try_from(value);
    require(narrow.is_ok(), label, quantity, value, "below 2³¹")?;
    Ok(narrow.unwrap_or(i32::MAX))
}

/// Values of a vector, which is a matrix of one row.
fn length<T>(label: &'static str, quantity: &'static str, vector: &Matrix<T>) -> Result<usize, ContractError> {
    let (rows, length) = vector.dim();
    require(rows == 1, label, quantity, rows, "1")?;
    Ok(length)
}

/// A count of blocks or bytes as launches take it.
fn count(value: usize) -> u32 {
    u32::try_from(value).expect("dimensions are below 2³¹")
}

/// A thread for each vector of 8 elements of a matrix, padding included, and how many these are.
fn by_vectors<T>(label: &'static str, x: &Matrix<T>, threads: u32) -> Result<(Grid, i32), Error> {
    let vectors = x.dim().0 * (x.ld() / ROW_MULTIPLE);
    // So that the number of the last block's last thread is below 2³¹, too.
    dimension(label, "vectors, in whole blocks", vectors.next_multiple_of(threads as usize))?;
    let grid = Grid { blocks: (count(vectors).div_ceil(threads), 1), threads };
    Ok((grid, dimension(label, "vectors", vectors)?))
}

/// Where a kernel is given no matrix.
const NOWHERE: u64 = 0;

/// A matrix to read, if there is one.
fn optional<'a, T>(launch: &mut LaunchArgs<'a>, matrix: Option<&'a Matrix<T>>) {
    match matrix {
        Some(matrix) => launch.arg(matrix.data()),
        None => launch.arg(&NOWHERE),
    };
}

/// A matrix to write, if there is one.
fn optional_mut<'a>(launch: &mut LaunchArgs<'a>, matrix: Option<&'a mut Matrix<bf16>>) {
    match matrix {
        Some(matrix) => launch.arg(matrix.data_mut()),
        None => launch.arg(&NOWHERE),
    };
}

/// What is added to the weights of a norm.
fn one(weight: NormWeight) -> f32 {
    match weight {
        NormWeight::Plain => 0.0,
        NormWeight::OnePlus => 1.0,
    }
}

/// What a feed-forward network makes of its gate and up projections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// M2's.
    Swiglu,
    /// M3's.
    SwigluOai(Coefficients, GateClamp),
}

impl Activation {
    /// α, ℓ, β and what the gate is clamped to from below, as kernels take them; ℓ = 0 stands for SwiGLU.
    #[expect(clippy::cast_possible_truncation, reason = "kernels take them in f32")]
    fn arguments(self) -> [f32; 4] {
        match self {
            Self::Swiglu => [0.0; 4],
            Self::SwigluOai(Coefficients { alpha, limit, beta }, clamp) => {
                let lowest = if clamp == GateClamp::Symmetric { -limit } else { f64::NEG_INFINITY };
                [alpha, limit, beta, lowest].map(|x| x as f32)
            }
        }
    }
}

/// Heads of attention, and the channels that each is padded to on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLayout {
    heads: usize,
    groups: usize,
    head_dim: usize,
    variant: usize,
}

/// The channels that heads are padded to: D of the kernels, in the order of their tables.
const PADDED: [usize; 4] = [16, 32, 64, 128];

impl HeadLayout {
    /// H query heads in G groups, of d channels.
    ///
    /// `attention`'s C4: H is a multiple of G. K1: d is at most 128.
    pub fn new(heads: usize, groups: usize, head_dim: usize) -> Result<Self, Error> {
        let divides = groups > 0 && heads.is_multiple_of(groups);
        require(divides, "attention C4", "H", heads, format!("a multiple of G = {groups}"))?;
        let variant = PADDED.iter().position(|&padded| head_dim <= padded);
        require(variant.is_some(), "heads K1", "d", head_dim, "at most 128")?;
        Ok(HeadLayout { heads, groups, head_dim, variant: variant.unwrap_or(0) })
    }

    /// D.
    pub fn padded(&self) -> usize {
        PADDED[self.variant]
    }

    /// H.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// G.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// d.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// The reference's attention with these heads, which checks shapes as they are without padding.
    fn reference(&self) -> Attention {
        Attention::under(&RoundingContract::PARITY, (self.heads, self.groups), self.head_dim)
    }

    /// The shapes without padding of the queries of n tokens that follow `first` others, and of the keys of all of them.
    fn unpadded(&self, n: usize, first: usize) -> [(usize, usize); 2] {
        [(n, self.heads * self.head_dim), (first + n, self.groups * self.head_dim)]
    }

    /// Which of the kernels that are compiled for several D.
    fn variant(&self) -> usize {
        self.variant
    }

    /// log₂e/√d: scores are exponents of 2.
    #[expect(clippy::cast_possible_truncation, reason = "kernels take it in f32")]
    fn scale(&self) -> f32 {
        self.reference().exponent_of_2() as f32
    }
}
