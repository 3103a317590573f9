//! The norms of a decoder (SPEC A2, A3, A4).

use ndarray::Array2;

use super::decoder::Decoder;
use super::stream::Stream;
use crate::ops::qk_norm::{QkNorm, qk_norm};
use crate::ops::rms_norm::{RmsNorm, centred, rms_norm};
use crate::rounding::NormInput;
use crate::run::{Run, vector};
use crate::semantics::{self, NormMean};
use crate::weights::{LayerWeight, Weight};
use crate::{Error, Real, RoundingContract, Tracked};

impl Decoder<'_> {
    /// Of the residual stream, by one of the norms of layers or the last.
    pub(super) fn rms_norm<T: Real>(&self, of: Weight, x: &Stream<T>, run: &Run<'_, T>) -> Result<Tracked<T>, Error> {
        let own = match of {
            Weight::Layer(_, LayerWeight::InputNorm) => self.semantics().input_norm_eps,
            Weight::Layer(_, LayerWeight::PostAttentionNorm) => self.semantics().post_attention_norm_eps,
            Weight::FinalNorm => self.semantics().final_norm_eps,
            _ => None,
        };
        let w = vector::<T>(&self.weights().get(of)?);
        let params = |contract: &RoundingContract| self.norm_params(contract, own);
        let wide = w.mapv(T::wide);
        let y = rms_norm(&params(&run.contract), self.centred(x.sum().clone()).view(), w.view())?;
        Ok(run.tracked(y, |candidate, y| {
            let stored = x.stored.widened();
            let read = match candidate.norm_input {
                NormInput::Stored => stored,
                NormInput::Sum | NormInput::Fused => stored.with_rounding(candidate.activations),
            };
            params(candidate).bound(&self.centred_bound(read, candidate), wide.view(), y)
        }))
    }

    /// Of queries or keys.
    pub(super) fn qk_norm<T: Real>(
        &self,
        weight: LayerWeight,
        layer: usize,
        x: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let semantics = self.semantics();
        let (eps, of_one, shards) = match weight {
            LayerWeight::QNorm => (semantics.q_norm_eps, semantics.query_norm, semantics.q_shards),
            _ => (semantics.k_norm_eps, semantics.key_norm, semantics.k_shards),
        };
        let width = if weight == LayerWeight::QNorm { semantics.q_norm_width } else { semantics.k_norm_width };
        let eps = eps.or(semantics.qk_norm_eps);
        let params = |contract: &RoundingContract| {
            let norm = RmsNorm { width: width.unwrap_or(1.0), ..self.norm_params(contract, eps) };
            let head_dim = self.config().head_dim;
            // A part of the projection is one head at least: keys that have fewer are on several devices.
            let part = |shards: usize| (x.dim().1 / shards.max(1)).max(head_dim);
            let (over, head_dim) = match shards.or(semantics.qk_shards) {
                Some(shards) => (semantics::QkNorm::PerHead, part(shards)),
                None => (of_one.or(semantics.qk_norm).unwrap_or(self.config().qk_norm), head_dim),
            };
            QkNorm { norm, over, head_dim }.under(contract)
        };
        let w = self.layer_weight(layer, weight)?;
        let y = qk_norm(&params(&run.contract), x.view(), vector(&w).view())?;
        Ok(run.tracked(y, |candidate, y| params(candidate).bound(&x.widened(), vector(&w).view(), y)))
    }

    /// With an ε of its own, if it has one.
    pub(super) fn norm_params(&self, contract: &RoundingContract, eps: Option<f64>) -> RmsNorm {
        let weight = self.semantics().norm_weight.unwrap_or(self.config().norm_weight);
        let eps = eps.unwrap_or(self.config().rms_norm_eps);
        RmsNorm::under(contract, eps, self.semantics().eps_place).weighing(weight)
    }

    /// What a norm takes of its input.
    fn centred<T: Real>(&self, x: Array2<T>) -> Array2<T> {
        match self.semantics().norm_mean {
            NormMean::Kept => x,
            NormMean::Subtracted => centred(x),
        }
    }

    fn centred_bound(&self, x: Tracked<f64>, candidate: &RoundingContract) -> Tracked<f64> {
        match self.semantics().norm_mean {
            NormMean::Kept => x,
            NormMean::Subtracted => RmsNorm::centred_bound(candidate, x),
        }
    }
}
