//! A checkpoint's weights on the device: those of products as they are stored, if the kernels take them so, else bf16, as all
//! others; the router f32.

pub(crate) mod vision;

use std::ops::Range;

use half::bf16;
use ndarray::Array2;
use reference::contract::{self, Config, FeedForward, LayerWeight, Projection, Weight, Weights};

use crate::device::Gpu;
use crate::error::Error;
use crate::ops::Activation;
use crate::ops::dense_ffn::DenseFfn;
use crate::ops::moe::Experts;
use crate::tensor::Matrix;
use crate::weight::{Quantized, WeightMatrix};

/// A decoder layer's weights.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) input_norm: Matrix<bf16>,
    /// Query, key and value projections, and those of the index branch, one below the other.
    pub(crate) projections: WeightMatrix,
    pub(crate) query_norm: Matrix<bf16>,
    pub(crate) key_norm: Matrix<bf16>,
    pub(crate) index_norms: Option<IndexNorms>,
    pub(crate) o: WeightMatrix,
    pub(crate) post_attention_norm: Matrix<bf16>,
    pub(crate) network: Network,
}

/// The norms of a layer's index branch.
#[derive(Debug)]
pub(crate) struct IndexNorms {
    pub(crate) query: Matrix<bf16>,
    pub(crate) key: Matrix<bf16>,
}

/// What follows attention.
#[derive(Debug)]
pub(crate) enum Network {
    Dense(Box<DenseFfn>),
    Experts(Box<Routed>),
}

/// A router, its experts, and the one that all tokens share.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) gate: Matrix<f32>,
    pub(crate) bias: Matrix<f32>,
    pub(crate) experts: Experts,
    pub(crate) shared: Option<DenseFfn>,
}

/// Copies weights to a device.
pub(crate) struct Loader<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) weights: &'a dyn Weights,
    pub(crate) activation: Activation,
}

impl Loader<'_> {
    /// A layer, with those of its experts that are wanted.
    pub(crate) fn layer(&self, config: &Config, layer: usize, experts: Range<usize>) -> Result<Layer, Error> {
        let at = |weight| Weight::Layer(layer, weight);
        let one = |weight| self.stacked(&[at(weight)]);
        let mut projections = vec![LayerWeight::QProj, LayerWeight::KProj, LayerWeight::VProj];
        let mut index_norms = None;
        if config.index_of(layer).is_some() {
            projections.extend([LayerWeight::IndexQProj, LayerWeight::IndexKProj]);
            index_norms = Some(IndexNorms { query: one(LayerWeight::IndexQNorm)?, key: one(LayerWeight::IndexKNorm)? });
        }
        let projections: Vec<Weight> = projections.into_iter().map(at).collect();
        let network = match config.layer(layer).feed_forward {
            FeedForward::Dense => Network::Dense(Box::new(self.dense(layer, LayerWeight::Dense)?)),
            FeedForward::Experts => {
                let shared = config.is_shared(layer).then(|| self.dense(layer, LayerWeight::Shared)).transpose()?;
                let (gate, bias) = (self.wide(at(LayerWeight::Gate))?, self.wide(at(LayerWeight::CorrectionBias))?);
                let experts = self.experts(layer, experts)?;
                Network::Experts(Box::new(Routed { gate, bias, experts, shared }))
            }
        };
        Ok(Layer {
            input_norm: one(LayerWeight::InputNorm)?,
            projections: self.of_products(&projections)?,
            query_norm: one(LayerWeight::QNorm)?,
            key_norm: one(LayerWeight::KNorm)?,
            index_norms,
            o: self.of_products(&[at(LayerWeight::OProj)])?,
            post_attention_norm: one(LayerWeight::PostAttentionNorm)?,
            network,
        })
    }

    fn dense(&self, layer: usize, of: fn(Projection) -> LayerWeight) -> Result<DenseFfn, Error> {
        let at = |projection| Weight::Layer(layer, of(projection));
        Ok(DenseFfn {
            gate_up: self.of_products(&[Projection::Gate, Projection::Up].map(at))?,
            down: self.of_products(&[at(Projection::Down)])?,
        })
    }

    fn experts(&self, layer: usize, own: Range<usize>) -> Result<Experts, Error> {
        let expert = |expert, projection| Weight::Layer(layer, LayerWeight::Expert(expert, projection));
        let both = |e| [expert(e, Projection::Gate), expert(e, Projection::Up)];
        let gate_up: Vec<Weight> = own.clone().flat_map(both).collect();
        let down: Vec<Weight> = own.clone().map(|e| expert(e, Projection::Down)).collect();
        let (gate_up, down) = (self.of_products(&gate_up)?, self.of_products(&down)?);
        Ok(Experts { gate_up, down, first: own.start, count: own.len(), activation: self.activation })
    }

    /// Weights of products of equal width, one below the other: quantized ones as they are stored, others rounded to bf16.
    pub(crate) fn of_products(&self, weights: &[Weight]) -> Result<WeightMatrix, Error> {
        let parts = self.parts(weights)?;
        match Quantized::stacked(self.gpu, &parts)? {
            Some(quantized) => Ok(quantized.into()),
            None => self.rounded(&parts).map(WeightMatrix::from),
        }
    }

    /// Weights of equal width, one below the other, rounded to bf16 where they are stored wider.
    pub(crate) fn stacked(&self, weights: &[Weight]) -> Result<Matrix<bf16>, Error> {
        self.rounded(&self.parts(weights)?)
    }

    fn parts(&self, weights: &[Weight]) -> Result<Vec<contract::Matrix<'_>>, Error> {
        Ok(weights.iter().map(|&weight| self.weights.get(weight)).collect::<Result<_, _>>()?)
    }

    fn rounded(&self, parts: &[contract::Matrix<'_>]) -> Result<Matrix<bf16>, Error> {
        let rows = parts.iter().map(|part| part.dim().0).sum();
        let columns = parts.first().map_or(0, |part| part.dim().1);
        let mut all = Array2::from_elem((rows, columns), bf16::ZERO);
        let mut row = vec![0.0_f32; columns];
        let sources = parts.iter().flat_map(|part| (0..part.dim().0).map(move |i| (part, i)));
        for (mut to, (part, i)) in all.rows_mut().into_iter().zip(sources) {
            part.row_into(i, &mut row);
            to.iter_mut().zip(&row).for_each(|(to, &from)| *to = bf16::from_f32(from));
        }
        self.gpu.upload(all.view())
    }

    /// A weight in f32.
    fn wide(&self, weight: Weight) -> Result<Matrix<f32>, Error> {
        self.gpu.upload(self.weights.get(weight)?.dense::<f32>().view())
    }
}
