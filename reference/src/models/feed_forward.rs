//! What follows attention: a dense network, or experts and the one that all tokens share (SPEC A13, A14).

use super::decoder::Decoder;
use super::inputs::Inputs;
use crate::config::FeedForward;
use crate::ops::dense_ffn::Activation;
use crate::ops::linear::Linear;
use crate::ops::moe::{WithShared, with_shared};
use crate::run::Run;
use crate::semantics::{ActivationIn, UpClamp, Written};
use crate::weights::{LayerWeight, Projection};
use crate::{Error, LayerSite, Real, RoundingContract, Semantics, Site, Tracked};

impl Decoder<'_> {
    /// The output of a layer's networks.
    pub(super) fn feed_forward<T: Real>(
        &self,
        layer: usize,
        x: Inputs<'_, T>,
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        if self.config().layer(layer).feed_forward == FeedForward::Dense {
            let sites = [LayerSite::DenseGateUp, LayerSite::DenseDown];
            return self.network(layer, (x.normed, x.first), LayerWeight::Dense, sites, run);
        }
        if !self.config().is_shared(layer) {
            return self.experts(layer, x, run);
        }
        let sites = [LayerSite::SharedGateUp, LayerSite::SharedDown];
        let read = x.of(self.semantics().shared_input);
        let shared = self.network(layer, (read, x.first), LayerWeight::Shared, sites, run)?;
        let shared = run.visit(Site::Layer(layer, LayerSite::Shared), shared);
        let routed = self.experts(layer, x, run)?;
        let scale = self.config().routed_scaling_factor;
        let params = |contract: &RoundingContract| WithShared::under(contract, self.semantics(), scale);
        let sum = with_shared(&params(&run.contract), routed.view(), shared.view())?;
        Ok(run.tracked(sum, |c, sum| params(c).bound(&routed.widened(), &shared.widened(), sum)))
    }

    /// A network that all tokens go through. What its gate and up projection show is stored; where they go unrounded into
    /// the activation, that is nowhere but there.
    fn network<T: Real>(
        &self,
        layer: usize,
        (x, first): (&Tracked<T>, usize),
        of: fn(Projection) -> LayerWeight,
        [gate_up, down]: [LayerSite; 2],
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let project = |x: &Tracked<T>, projection, params: fn(&RoundingContract) -> Linear, run: &Run<'_, T>| {
            run.linear(params, x, &self.layer_weight(layer, of(projection))?)
        };
        let gate_up = Site::Layer(layer, gate_up);
        let params: fn(&RoundingContract) -> Linear =
            if run.probe.stores(gate_up) { Linear::under } else { Linear::before_activation };
        let own = run.within(RoundingContract::of_products);
        let (gate, up) = (project(x, Projection::Gate, params, &own)?, project(x, Projection::Up, params, &own)?);
        let width = gate.dim().1;
        let both = run.visit(gate_up, gate.beside(&up));
        let (kind, written) = match of(Projection::Gate) {
            LayerWeight::Shared(_) => (ActivationIn::Shared, Written::Shared),
            _ => (ActivationIn::All, Written::Dense),
        };
        let own = run.within(RoundingContract::of_products);
        let hidden = self.activation(kind, &both.columns(0..width), &both.columns(width..2 * width), &own)?;
        let output = own.row_parallel(&hidden, &self.layer_weight(layer, of(Projection::Down))?)?;
        Ok(run.visit(Site::Layer(layer, down), self.written(written, first, output)))
    }

    /// The model's function of gate and up projection.
    pub(super) fn activation<T: Real>(
        &self,
        kind: ActivationIn,
        gate: &Tracked<T>,
        up: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let oai = self.config().swiglu_oai;
        let semantics = self.activating(kind);
        let params = |contract: &RoundingContract| Activation::under(contract, &semantics, oai);
        let a = params(&run.contract).of(gate.view(), up.view())?;
        Ok(run.tracked(a, |c, a| params(c).bound(&gate.widened(), &up.widened(), a)))
    }

    /// The reading of the activation in networks of a kind.
    fn activating(&self, kind: ActivationIn) -> Semantics {
        let own = *self.semantics();
        if own.activation_in == ActivationIn::All || own.activation_in == kind {
            return own;
        }
        Semantics {
            activation: None,
            up_clamp: UpClamp::Symmetric,
            activated_limit: None,
            gate_alpha: None,
            up_beta: None,
            swiglu_limit: None,
            ..own
        }
    }
}
