//! What follows attention: a dense network, or experts and the one that all tokens share (SPEC A13, A14).

use super::decoder::Decoder;
use super::inputs::Inputs;
use super::summed::Summed;
use crate::config::FeedForward;
use crate::ops::dense_ffn::Activation;
use crate::ops::linear::Linear;
use crate::ops::moe::{WithShared, with_shared};
use crate::ranks::Ranks;
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
            return Ok(self.network(layer, (x.normed, x.first), LayerWeight::Dense, sites, run)?.whole);
        }
        if !self.config().is_shared(layer) {
            return Ok(self.experts(layer, x, run)?.whole);
        }
        let at = |site| Site::Layer(layer, site);
        let read = x.of(self.semantics().shared_input);
        let sites = [LayerSite::SharedGateUp, LayerSite::SharedDown];
        let shared = self.network(layer, (read, x.first), LayerWeight::Shared, sites, run)?;
        let shared = Summed { whole: run.visit(at(LayerSite::Shared), shared.whole), ..shared };
        let routed = self.experts(layer, x, run)?;
        let shows = |site| run.probe.stores(at(site));
        let sums = [LayerSite::SharedDown, LayerSite::Shared, LayerSite::Experts];
        let count = routed.parts.len();
        let apart = count > 1 && count == shared.parts.len() && !sums.into_iter().any(shows);
        if !apart || self.semantics().unwritten.is_some() {
            return self.with_shared(&routed.whole, &shared.whole, run);
        }
        let parts =
            routed.parts.iter().zip(&shared.parts).map(|(routed, shared)| self.with_shared(routed, shared, run));
        run.all_reduce(&parts.collect::<Result<Vec<_>, Error>>()?)
    }

    /// What the routed experts say and what the one says that all tokens share: of the model, or of a rank that adds them up
    /// before all ranks' sums are added.
    fn with_shared<T: Real>(
        &self,
        routed: &Tracked<T>,
        shared: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
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
    ) -> Result<Summed<T>, Error> {
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
        let columns = Ranks::even_parts(hidden.dim().1, own.ranks());
        let parts = own.row_parallel(&hidden, &self.layer_weight(layer, of(Projection::Down))?, &columns)?;
        let output = self.written(written, first, own.all_reduce(&parts)?);
        Ok(Summed { parts, whole: run.visit(Site::Layer(layer, down), output) })
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
