//! The routed experts of a layer (SPEC A9, A11, A12).

use std::ops::Range;

use ndarray::{Array2, Axis};

use super::decoder::Decoder;
use super::inputs::Inputs;
use super::summed::Summed;
use crate::bound::ErrorBound;
use crate::matrix::Matrix;
use crate::ops::linear::Linear;
use crate::ops::moe::{self, Moe, moe};
use crate::ops::router::{self, Router};
use crate::ranks::Ranks;
use crate::rounding::Sharded;
use crate::run::{Run, vector};
use crate::semantics::{ActivationIn, ScoreType, WeightsOn, Written};
use crate::weights::{LayerWeight, Projection};
use crate::{Error, LayerSite, Real, Rounding, RoundingContract, Site, Storage, Tracked};

impl Decoder<'_> {
    /// The weighted sum of each token's chosen experts, of which ranks may have equally many, whole, or some channels of each.
    pub(super) fn experts<T: Real>(
        &self,
        layer: usize,
        inputs: Inputs<'_, T>,
        run: &mut Run<'_, T>,
    ) -> Result<Summed<T>, Error> {
        let (chosen, weights) = self.route(layer, inputs.of(self.semantics().router_input), run)?;
        let weights = match self.semantics().expert_capacity {
            Some(capacity) => moe::within_capacity(capacity, weights, chosen.view()),
            None => weights,
        };
        let (x, k) = (inputs.normed, chosen.ncols());
        let weighed = |token: usize| std::iter::repeat_n(token, k);
        let (each, weights) = match self.semantics().weights_on {
            WeightsOn::Output => (None, weights),
            WeightsOn::Input => {
                let each = x.select(&(0..x.dim().0).flat_map(weighed).collect::<Vec<_>>());
                let y = moe::weighed_input(&Moe::under(&run.contract), each.view(), weights.view());
                let bound = |c: &_, _: &_| Moe::under(c).bound_input(&each.widened(), &weights.widened());
                (Some(run.tracked(y, bound)), moe::ones(&weights))
            }
        };
        let at = |site| Site::Layer(layer, site);
        let own = run.within(RoundingContract::of_experts);
        let hidden = self.each_expert(&chosen, self.config().intermediate_size, &own, |expert, rows, run| {
            let of_token = || x.select(&rows.iter().map(|row| row / k).collect::<Vec<_>>());
            let read = each.as_ref().map_or_else(of_token, |each| each.select(rows));
            self.activate(layer, expert, &read, run)
        })?;
        let hidden = run.visit(at(LayerSite::ExpertHidden), hidden);
        let params: fn(&RoundingContract) -> Linear =
            if run.probe.stores(at(LayerSite::ExpertOutput)) { Linear::under } else { Linear::before_weight };
        let own = run.within(RoundingContract::of_experts);
        let output = self.each_expert(&chosen, self.config().hidden_size, &own, |expert, rows, run| {
            self.project_down(layer, expert, (&hidden.select(rows), params), run)
        })?;
        let output = run.visit(at(LayerSite::ExpertOutput), output);
        for expert in 0..self.config().num_local_experts {
            run.visit_on_request(at(LayerSite::Expert(expert)), |run| {
                let part = moe::contribution(expert, output.view(), weights.view(), chosen.view());
                Ok(run.tracked(part, |c, _| {
                    Moe::under(c).bound_contribution(expert, &output.widened(), &weights.widened(), chosen.view())
                }))
            })?;
        }
        let sum = |output: &Tracked<T>, weights: &Tracked<T>, run: &Run<'_, T>| {
            let y = moe(&Moe::under(&run.contract), output.view(), weights.view(), chosen.view())?;
            Ok(run.tracked(y, |c, y| Moe::under(c).bound(&output.widened(), &weights.widened(), y)))
        };
        let (ranks, sharded) = run.ranks_of_experts();
        let parts: Vec<Tracked<T>> = if sharded == Sharded::Channels && ranks > 1 {
            let outputs = self.of_channels(layer, (&chosen, &hidden), &run.within(RoundingContract::of_experts))?;
            outputs.iter().map(|output| sum(output, &weights, run)).collect::<Result<_, Error>>()?
        } else {
            let ranks = Ranks::even_parts(self.config().num_local_experts, ranks);
            let own = ranks.iter().map(|own| moe::of_rank(own, weights.clone(), chosen.view()));
            own.map(|weights| sum(&output, &weights, run)).collect::<Result<_, Error>>()?
        };
        let y = self.written(Written::Experts, inputs.first, run.all_reduce(&parts)?);
        Ok(Summed { parts, whole: run.visit(at(LayerSite::Experts), y) })
    }

    /// What each rank makes of its own channels of each expert, before that is weighed, whatever is shown of the whole; of one rank that
    /// has all channels, where others' would cut through blocks of quantized matrices.
    fn of_channels<T: Real>(
        &self,
        layer: usize,
        (chosen, hidden): (&Array2<usize>, &Tracked<T>),
        run: &Run<'_, T>,
    ) -> Result<Vec<Tracked<T>>, Error> {
        let down = |expert| self.layer_weight(layer, LayerWeight::Expert(expert, Projection::Down));
        let (width, ranks) = (hidden.dim().1, run.ranks_of_experts().0);
        // Matrices of all experts are alike.
        let first =
            (0..self.config().num_local_experts).find(|expert| self.has_expert(*expert)).map(down).transpose()?;
        let shared = Ranks::even_parts(width, ranks);
        let is_cut = first.is_some_and(|w| shared.iter().any(|own| w.columns(own.clone()).is_none()));
        let columns = if is_cut { Ranks::even_parts(width, 1) } else { shared };
        let of_rank = |own: &Range<usize>| {
            self.each_expert(chosen, self.config().hidden_size, run, |expert, rows, run| {
                let w = down(expert)?.columns(own.clone()).expect("no block is cut through");
                run.linear(Linear::before_weight, &hidden.select(rows).columns(own.clone()), &w)
            })
        };
        columns.iter().map(of_rank).collect()
    }

    /// What one expert makes of tokens, whichever they were sent to.
    pub fn expert<T: Real>(
        &self,
        layer: usize,
        expert: usize,
        x: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        self.project_down(layer, expert, (&self.activate(layer, expert, x, run)?, Linear::under), run)
    }

    /// Each token's experts and their weights.
    fn route<T: Real>(
        &self,
        layer: usize,
        x: &Tracked<T>,
        run: &mut Run<'_, T>,
    ) -> Result<(Array2<usize>, Tracked<T>), Error> {
        let at = |site| Site::Layer(layer, site);
        let params =
            |contract: &RoundingContract| Router::under(contract, self.semantics(), self.config().num_experts_per_tok);
        let p = params(&run.contract);
        let logits = self.router_logits(x, &self.layer_weight(layer, LayerWeight::Gate)?, run)?;
        let logits = run.visit(at(LayerSite::GateLogits), logits);
        let scores = router::scores(&p, logits.view());
        let scores = run.tracked(scores, |c, scores| params(c).bound_scores(&logits.widened(), scores));
        let scores = match self.semantics().router_scores {
            ScoreType::F32 => scores,
            ScoreType::Bf16 => scores.performed(Storage::Bf16),
        };
        let scores = run.visit(at(LayerSite::GateScores), scores);
        let bias = vector::<T>(&self.layer_weight(layer, LayerWeight::CorrectionBias)?);
        let choice = router::choice(&p, scores.view(), bias.view())?;
        let choice = run.tracked(choice, |c, choice| params(c).bound_choice(&scores.widened(), choice));
        let choice = run.visit(at(LayerSite::GateChoice), choice);
        let chosen = router::chosen(&p, choice.view());
        let chosen = run.choose(at(LayerSite::GateExperts), &choice, chosen);
        let weights = router::weights(&p, scores.view(), choice.view(), chosen.view());
        let weights = run.tracked(weights, |c, weights| {
            params(c).bound_weights(&scores.widened(), &choice.widened(), chosen.view(), weights)
        });
        Ok((chosen, run.visit(at(LayerSite::GateWeights), weights)))
    }

    /// In the type that they are computed in, which a port may take for input, weight and output: all three roundings are
    /// performed.
    fn router_logits<T: Real>(&self, x: &Tracked<T>, w: &Matrix<'_>, run: &Run<'_, T>) -> Result<Tracked<T>, Error> {
        let storage = self.semantics().router_logits.storage();
        if storage == Storage::Real {
            let x = run.narrowed(x, |contract| contract.autocast.storage());
            return run.product(|contract| Linear::router(&contract.of_products()), &x, w);
        }
        let x = run.narrowed(x, |_| storage);
        let w = Matrix::stored(w.dense::<f64>().mapv(|w| storage.nearest(w)).view(), w.storage());
        let unrounded = |c: &RoundingContract| Linear { output: Rounding::NONE, ..Linear::router(c) };
        Ok(run.product(unrounded, &x, &w)?.performed(storage))
    }

    /// One expert's activation of some tokens.
    fn activate<T: Real>(
        &self,
        layer: usize,
        expert: usize,
        x: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let project = |projection| {
            let w = self.layer_weight(layer, LayerWeight::Expert(expert, projection))?;
            run.linear(Linear::before_activation, x, &w)
        };
        let (gate, up) = (project(Projection::Gate)?, project(Projection::Up)?);
        self.activation(ActivationIn::Routed, &gate, &up, run)
    }

    /// One expert's output of its activation.
    fn project_down<T: Real>(
        &self,
        layer: usize,
        expert: usize,
        (hidden, params): (&Tracked<T>, fn(&RoundingContract) -> Linear),
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        run.linear(params, hidden, &self.layer_weight(layer, LayerWeight::Expert(expert, Projection::Down))?)
    }

    /// Rows i·k + s of what `f` makes of the rows that chose each expert. Experts that nobody chose are not read, and those that
    /// are elsewhere say 0.
    fn each_expert<T: Real>(
        &self,
        chosen: &Array2<usize>,
        width: usize,
        run: &Run<'_, T>,
        f: impl Fn(usize, &[usize], &Run<'_, T>) -> Result<Tracked<T>, Error>,
    ) -> Result<Tracked<T>, Error> {
        let dim = (chosen.len(), width);
        let mut all = Tracked { value: Array2::zeros(dim), error: run.candidate.map(|_| ErrorBound::exact(dim)) };
        for expert in 0..self.config().num_local_experts {
            let rows = moe::rows_of(expert, chosen.view());
            if rows.is_empty() || !self.has_expert(expert) {
                continue;
            }
            let part = f(expert, &rows, run)?;
            for (from, &to) in rows.iter().enumerate() {
                all.value.index_axis_mut(Axis(0), to).assign(&part.value.row(from));
            }
            if let (Some(all), Some(part)) = (&mut all.error, &part.error) {
                all.carried = all.carried.max(part.carried);
                for (from, &to) in rows.iter().enumerate() {
                    all.certain.row_mut(to).assign(&part.certain.row(from));
                    all.sigma.row_mut(to).assign(&part.sigma.row(from));
                }
            }
        }
        Ok(all)
    }
}
