//! A checkpoint's weights on the device: bf16, the router f32.

use half::bf16;
use ndarray::Array2;
use reference::contract::{Config, LayerWeight, Projection, Weight, Weights};

use crate::device::Gpu;
use crate::error::Error;
use crate::ops::Activation;
use crate::ops::moe::Experts;
use crate::tensor::Matrix;

/// A decoder layer's weights.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) input_norm: Matrix<bf16>,
    /// Query, key and value projections, one below the other.
    pub(crate) qkv: Matrix<bf16>,
    pub(crate) query_norm: Matrix<bf16>,
    pub(crate) key_norm: Matrix<bf16>,
    pub(crate) o: Matrix<bf16>,
    pub(crate) post_attention_norm: Matrix<bf16>,
    pub(crate) gate: Matrix<f32>,
    pub(crate) bias: Matrix<f32>,
    pub(crate) experts: Experts,
}

/// Copies weights to a device.
pub(crate) struct Loader<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) weights: &'a dyn Weights,
}

impl Loader<'_> {
    pub(crate) fn layer(&self, config: &Config, layer: usize) -> Result<Layer, Error> {
        let at = |weight| Weight::Layer(layer, weight);
        let one = |weight| self.stacked(&[at(weight)]);
        let expert = |expert, projection| at(LayerWeight::Expert(expert, projection));
        let experts = 0..config.num_local_experts;
        let gate_up: Vec<Weight> =
            experts.clone().flat_map(|e| [expert(e, Projection::Gate), expert(e, Projection::Up)]).collect();
        let down: Vec<Weight> = experts.map(|e| expert(e, Projection::Down)).collect();
        Ok(Layer {
            input_norm: one(LayerWeight::InputNorm)?,
            qkv: self.stacked(&[LayerWeight::QProj, LayerWeight::KProj, LayerWeight::VProj].map(at))?,
            query_norm: one(LayerWeight::QNorm)?,
            key_norm: one(LayerWeight::KNorm)?,
            o: one(LayerWeight::OProj)?,
            post_attention_norm: one(LayerWeight::PostAttentionNorm)?,
            gate: self.wide(at(LayerWeight::Gate))?,
            bias: self.wide(at(LayerWeight::CorrectionBias))?,
            experts: Experts {
                gate_up: self.stacked(&gate_up)?,
                down: self.stacked(&down)?,
                count: config.num_local_experts,
                activation: Activation::Swiglu,
            },
        })
    }

    /// Weights of equal width, one below the other, rounded to bf16 where they are stored wider.
    pub(crate) fn stacked(&self, weights: &[Weight]) -> Result<Matrix<bf16>, Error> {
        let parts = weights.iter().map(|&weight| self.weights.get(weight)).collect::<Result<Vec<_>, _>>()?;
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
