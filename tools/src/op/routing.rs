//! Routing, the experts' sum, and the next token.

use std::rc::Rc;

use ndarray::{Array1, Array2, Axis};
use reference::bound::ErrorBound;
use reference::ops::linear::{Linear, linear};
use reference::ops::moe::{Moe, WithShared, moe, with_shared};
use reference::ops::router::{self, Router};
use reference::ops::sampling::{Random, argmax};
use reference::semantics::RouterScore;
use reference::{RoundingContract, Semantics, Tracked};

use super::made::Made;
use super::norms::IDEAL;
use super::operator::Operator;
use super::signature::{Signature, flag, if_given, needed, optional, or, port};

pub(super) const ROUTER: Operator = Operator {
    signature: Signature {
        name: "router",
        equation: "r = σ(x·gateᵀ), experts: the k largest of r + bias, weights: their r over the sum of these; or r = x·gateᵀ, weights: softmax of their r",
        inputs: &[
            optional("x", "[…, h]"),
            optional("gate", "[E, h]"),
            optional("logits", "[…, E], instead of x and gate"),
            optional("bias", "[E]"),
        ],
        numbers: &[
            needed("top_k", "k: experts of a token"),
            flag("softmax", "1 for document 003's: no σ, and the softmax of the chosen"),
        ],
        outputs: &[
            port("scores", "[…, E]"),
            port("experts", "[…, k]"),
            port("weights", "[…, k], in the order of experts"),
        ],
    },
    compute: |given| {
        let made = if given.has("logits") { None } else { Some((given.input("x")?, given.weight("gate")?)) };
        let z = match &made {
            Some((x, gate)) => linear(&Linear::router(IDEAL), x.view(), gate)?,
            None => given.matrix("logits")?,
        };
        let (top_k, softmax) = (given.count("top_k")?, given.flag("softmax")?);
        let bias = if given.has("bias") { given.row("bias")? } else { Array1::zeros(z.ncols()) };
        let router_score = if softmax { RouterScore::SoftmaxTopk } else { RouterScore::Sigmoid };
        let semantics = Semantics { router_score, ..Semantics::RELEASED };
        let under = move |contract: &RoundingContract| Router::under(contract, &semantics, top_k);
        let ideal = under(IDEAL);
        let r = router::scores(&ideal, z.view());
        let choice = router::choice(&ideal, r.view(), bias.view())?;
        let chosen = router::chosen(&ideal, choice.view());
        // Weights are those of the candidate's experts, if these are any.
        let shown = if given.has("experts") { given.indices("experts", r.ncols()).ok() } else { None };
        let shown = shown.filter(|shown| shown.nrows() == r.nrows()).unwrap_or_else(|| chosen.clone());
        let weights = router::weights(&ideal, r.view(), choice.view(), shown.view());
        let scores = r.clone();
        let of_scores = Rc::new(move |contract: &RoundingContract| {
            let error = made.as_ref().map(|(x, gate)| Linear::router(contract).bound(x, gate, &z));
            let error = under(contract).bound_scores(&Tracked { value: z.clone(), error }, &r);
            Tracked { value: r.clone(), error: Some(error) }
        });
        let [of, tracked] = [of_scores.clone(), of_scores.clone()];
        let by_choice = choice.clone();
        let of_weights = move |contract: &RoundingContract, weights: &_| {
            let (p, scores) = (under(contract), of_scores(contract));
            let error = Some(p.bound_choice(&scores, &by_choice));
            let choice = Tracked { value: by_choice.clone(), error };
            p.bound_weights(&scores, &choice, shown.view(), weights)
        };
        Ok(vec![
            Made::of("scores", scores, move |contract, _| of(contract).error_or_exact()),
            Made::of("experts", choice, move |contract, choice| {
                under(contract).bound_choice(&tracked(contract), choice)
            })
            .choosing("expert", chosen),
            Made::of("weights", weights, of_weights),
        ])
    },
};

pub(super) const MOE: Operator = Operator {
    signature: Signature {
        name: "moe",
        equation: "y = Σₛ wₛ·eₛ over a token's k experts; z = ς·y + h with what all tokens share",
        inputs: &[
            port("e", "[n, k, d], or [n · k, d]"),
            port("w", "[n, k]"),
            port("experts", "[n, k]"),
            optional("h", "[n, d]"),
        ],
        numbers: &[or("scale", 1.0, "ς")],
        outputs: &[port("y", "[n, d]"), optional("z", "[n, d]")],
    },
    compute: |given| {
        let (e, w, shared) = (given.input("e")?, given.input("w")?, given.input_if("h")?);
        let chosen = given.choices("experts", w.dim().0)?;
        let y = moe(&Moe::under(IDEAL), e.view(), w.view(), chosen.view())?;
        let of_y = Rc::new(move |contract: &RoundingContract, y: &Array2<f64>| Moe::under(contract).bound(&e, &w, y));
        let of = of_y.clone();
        let mut made = vec![Made::of("y", y.clone(), move |contract, y| of(contract, y))];
        if let Some(h) = shared {
            let scale = given.number("scale")?;
            let under = move |contract: &_| WithShared::under(contract, &Semantics::RELEASED, scale);
            let z = with_shared(&under(IDEAL), y.view(), h.view())?;
            made.push(Made::of("z", z, move |contract, z| {
                let routed = Tracked { value: y.clone(), error: Some(of_y(contract, &y)) };
                under(contract).bound(&routed, &h, z)
            }));
        }
        Ok(made)
    },
};

pub(super) const SAMPLING: Operator = Operator {
    signature: Signature {
        name: "sampling",
        equation: "token = argmax z; p = softmax(z / τ), cut to the k largest and to the fewest of mass ≥ top_p",
        inputs: &[port("z", "[…, v]")],
        numbers: &[
            if_given("temperature", "τ; without, only the token is made"),
            if_given("top_k", "k"),
            or("top_p", 1.0, "the mass that is kept"),
        ],
        outputs: &[port("token", "[…]"), optional("p", "[…, v]")],
    },
    compute: |given| {
        let z = given.matrix("z")?;
        let best: Vec<usize> = z
            .rows()
            .into_iter()
            .map(|z| Ok(argmax(z)?.token as usize))
            .collect::<Result<_, crate::failure::Failure>>()?;
        let tokens = Array1::from_vec(best).insert_axis(Axis(1));
        let mut made = vec![Made::copied("token", z.clone()).choosing("token", tokens)];
        if let Some(temperature) = given.number_if("temperature")? {
            let random = Random { temperature, top_k: given.count_if("top_k")?, top_p: given.number("top_p")? };
            let mut p = Array2::zeros(z.dim());
            for (z, mut p) in z.rows().into_iter().zip(p.rows_mut()) {
                p.assign(&Array1::from_vec(random.probabilities(z)?));
            }
            made.push(Made::of("p", p, move |contract, p| {
                let mut certain = Array2::zeros(p.dim());
                for (i, z) in z.rows().into_iter().enumerate() {
                    certain.row_mut(i).assign(&random.bound(z, p.row(i), contract.unit()));
                }
                ErrorBound { sigma: certain.clone(), certain, carried: 0 }.rounded(p.view(), contract.stored().storage)
            }));
        }
        Ok(made)
    },
};
