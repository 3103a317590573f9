//! Rows of the gate, or of the down projection, of an expert that all tokens that are off were sent to.
//!
//! ```text
//! yᵢ − ŷᵢ = c·wᵢₑ·Dₑ·(h(a ⊙ g, u) − h(g, u))        g = Gₑ·xᵢ, u = Uₑ·xᵢ; solved for factors a of the gate's rows
//! yᵢ − ŷᵢ = c·wᵢₑ·(b − 1) ⊙ Dₑ·h(g, u)        solved for factors b of the down projection's rows
//! ```

use std::iter::zip;

use ndarray::{Array1, Array2, ArrayView1, Axis};
use reference::ops::dense_ffn::Activation;
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{Error, RoundingContract};

use super::Mixture;
use crate::diagnose::search::solved::least_squares;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;
use crate::failure::Failure;

/// Steps of Gauss and Newton's method, each of which squares what is left, as a share.
const STEPS: usize = 12;

/// The step by which a derivative is taken, as a share.
const STEP: f64 = 1e-6;

/// How far a factor is from 1 to be another, and how far those of several rows may be apart to be one, as shares: what bf16 leaves
/// of a product.
const SAME: f64 = 5e-3;

/// Standard deviations that a factor is not off by chance.
const CERTAIN: f64 = 8.0;

/// Tokens, at least, by which each row of a down projection has a factor, as where it is read with another tensor's scales.
const TOKENS: usize = 4;

/// Multiplications that are spent on hidden channels that are solved for: some seconds of a processor.
const BUDGET: usize = 4_000_000_000;

/// One expert's tokens and weights.
struct Expert {
    /// Each token with its weight in the sum, c included.
    tokens: Vec<(usize, f64)>,
    gate: Array2<f64>,
    up: Array2<f64>,
    /// D \[H, I\].
    down: Array2<f64>,
}

impl Mixture<'_, '_, '_> {
    /// What is said of the expert that tokens that are off have in common.
    pub(super) fn inside(&self, layer: usize, x: &Array2<f64>) -> Result<Option<Solution>, Failure> {
        let off: Vec<usize> = (0..self.chosen.nrows()).filter(|token| self.bench.row_is_off(*token)).collect();
        let config = self.bench.config();
        if self.chosen.len() * 3 * config.intermediate_size * config.hidden_size > super::BUDGET {
            return Ok(None);
        }
        let chosen = |token: &usize, expert: usize| self.chosen.row(*token).iter().any(|own| *own == expert);
        let mut all: Vec<usize> = off.iter().flat_map(|token| self.chosen.row(*token).to_vec()).collect();
        all.sort_unstable();
        all.dedup();
        let common: Vec<usize> = all.iter().copied().filter(|e| off.iter().all(|token| chosen(token, *e))).collect();
        for expert in common {
            let read = self.expert(layer, expert, x)?;
            if let Some(found) = self.of_rows(&off, &read, expert)? {
                return Ok(Some(found));
            }
            if let Some(found) = self.of_outputs(&off, &read, expert)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn expert(&self, layer: usize, expert: usize, x: &Array2<f64>) -> Result<Expert, Failure> {
        let slots = self.chosen.indexed_iter().filter(|(_, own)| **own == expert);
        let tokens: Vec<(usize, f64)> = slots.map(|(at, _)| (at.0, self.scale * self.weights[at])).collect();
        let x = x.select(Axis(0), &tokens.iter().map(|(token, _)| *token).collect::<Vec<_>>());
        let [gate, up, down] = [Projection::Gate, Projection::Up, Projection::Down].map(|projection| {
            let of = Weight::Layer(layer, LayerWeight::Expert(expert, projection));
            self.bench.with_model(|model| Ok(model.weights().get(of).map_err(Error::from)?.dense::<f64>()))
        });
        Ok(Expert { tokens, gate: x.dot(&gate?.t()), up: x.dot(&up?.t()), down: down? })
    }

    /// h of gate and up projection.
    fn activated(&self, gate: &Array2<f64>, up: &Array2<f64>) -> Result<Array2<f64>, Failure> {
        self.bench.with_model(|model| {
            let oai = model.config().swiglu_oai;
            let activation = Activation::under(&RoundingContract::IDEAL, model.semantics(), oai);
            Ok(activation.of(gate.view(), up.view()).map_err(Error::from)?)
        })
    }

    /// One expert whose gate's rows have factors: by Gauss and Newton's method, over all of its tokens together.
    fn of_rows(&self, off: &[usize], expert: &Expert, number: usize) -> Result<Option<Solution>, Failure> {
        let (width, hidden) = expert.down.dim();
        let equations = expert.tokens.len() * width;
        if equations <= 2 * hidden || equations * hidden * hidden > BUDGET {
            return Ok(None);
        }
        let right = self.activated(&expert.gate, &expert.up)?;
        let rows: Vec<usize> = expert.tokens.iter().map(|(token, _)| *token).collect();
        let target = self.apart.select(Axis(0), &rows);
        let (mut factors, mut deviation) = (Array1::<f64>::ones(hidden), Vec::new());
        let of = |factors: &Array1<f64>| self.activated(&(&expert.gate * factors), &expert.up);
        for _ in 0..STEPS {
            let (own, further) = (of(&factors)?, of(&(&factors * (1.0 + STEP)))?);
            let slope = (&further - &own) / (&factors * STEP);
            let mut jacobian = Array2::zeros((equations, hidden));
            for (i, (_, weight)) in expert.tokens.iter().enumerate() {
                let mut part = jacobian.slice_mut(ndarray::s![i * width..(i + 1) * width, ..]);
                part.assign(&(&expert.down * &slope.row(i) * *weight));
            }
            let left = &target - &expert.outputs(&(&own - &right));
            let left: Array1<f64> = left.iter().copied().collect();
            let Some(step) = least_squares::solve(jacobian.view(), left.view()) else { break };
            factors += &Array1::from(step.x);
            deviation = step.deviation;
        }
        let mut by = Array2::zeros(self.apart.dim());
        expert.add(&mut by, &(&of(&factors)? - &right));
        let is_other = |(factor, sigma): (&f64, &f64)| (factor - 1.0).abs() > SAME.max(CERTAIN * sigma);
        let each = factors.iter().zip(&deviation).enumerate();
        let other: Vec<usize> = each.filter_map(|(row, own)| is_other(own).then_some(row)).collect();
        let holds = off.iter().all(|token| self.is(*token, &by.row(*token).to_owned()));
        let (Some(first), true) = (other.first(), holds && 2 * other.len() <= hidden) else { return Ok(None) };
        let factor = factors[*first];
        let range = if other.iter().all(|row| (factors[*row] - factor).abs() <= SAME * factor.abs()) {
            let mean = other.iter().map(|row| factors[*row]).sum::<f64>() / other.len() as f64;
            format!("are {mean:.4} times")
        } else {
            let each = other.iter().map(|row| format!("{:.4}", factors[*row]));
            format!("are {} times", listed::listed(each))
        };
        let rows = match other[..] {
            [first, .., last] if last + 1 - first == other.len() => format!("rows {first} to {last}"),
            _ => format!("{} of {hidden} rows, {},", other.len(), listed::listed(&other)),
        };
        Ok(Some(Solution::new(
            vec![format!("{rows} of the gate of expert {number} {range} what they should be")],
            &self.bench.ideal + &by,
        )))
    }

    /// One expert whose down projection's rows have factors, each by least squares over all of its tokens.
    fn of_outputs(&self, off: &[usize], expert: &Expert, number: usize) -> Result<Option<Solution>, Failure> {
        if expert.tokens.len() < TOKENS {
            return Ok(None);
        }
        let own = expert.outputs(&self.activated(&expert.gate, &expert.up)?);
        let rows: Vec<usize> = expert.tokens.iter().map(|(token, _)| *token).collect();
        let target = self.apart.select(Axis(0), &rows);
        let more = |(own, apart): (ArrayView1<'_, f64>, ArrayView1<'_, f64>)| {
            let size = own.dot(&own);
            if size > 0.0 { own.dot(&apart) / size } else { 0.0 }
        };
        let more: Array1<f64> = zip(own.columns(), target.columns()).map(more).collect();
        let mut by = Array2::zeros(self.apart.dim());
        zip(&rows, (own * &more).rows()).for_each(|(token, more)| by.row_mut(*token).scaled_add(1.0, &more));
        if !off.iter().all(|token| self.is(*token, &by.row(*token).to_owned())) {
            return Ok(None);
        }
        let of = more.iter().map(|more| 1.0 + more);
        let (least, most) = of.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), c| (a.min(c), b.max(c)));
        let said = format!(
            "rows of the down projection of expert {number} count by factors of their own, {least:.4} to {most:.4}: as where a row \
             has another's scale"
        );
        Ok(Some(Solution::new(vec![said], &self.bench.ideal + &by)))
    }
}

impl Expert {
    /// What hidden values \[tokens, I\] add to each of its tokens.
    fn outputs(&self, hidden: &Array2<f64>) -> Array2<f64> {
        let weights: Array1<f64> = self.tokens.iter().map(|(_, weight)| *weight).collect();
        hidden.dot(&self.down.t()) * weights.insert_axis(Axis(1))
    }

    fn add(&self, to: &mut Array2<f64>, hidden: &Array2<f64>) {
        let outputs = self.outputs(hidden);
        self.tokens.iter().zip(outputs.rows()).for_each(|((token, _), more)| to.row_mut(*token).scaled_add(1.0, &more));
    }
}
