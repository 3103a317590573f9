//! Routing, and what training adds.

use ndarray::{Axis, array};
use reference::bound::ErrorBound;
use reference::ops::linear::{Linear, linear};
use reference::ops::load_balancing::{self, AuxiliaryLoss, auxiliary_loss};
use reference::ops::policy_gradient::{self, Objective, PolicyGradient, policy_gradient};
use reference::ops::router::{self, Router};
use reference::{RoundingContract, Semantics, Tracked};

use super::made::Made;
use super::operator::Operator;
use super::signature::Signature;

const IDEAL: &RoundingContract = &RoundingContract::IDEAL;

pub(super) const ROUTER: Operator = Operator {
    signature: Signature {
        name: "router",
        equation: "r = σ(x·gateᵀ), experts: the k largest of r + bias, weights: their r over the sum of these",
        inputs: &[("x", "[…, h]"), ("gate", "[E, h]"), ("bias", "[E]"), ("logits", "[…, E], instead of x and gate")],
        numbers: &[("top_k", None, "k: experts of a token")],
        outputs: &[("scores", "[…, E]"), ("experts", "[…, k]"), ("weights", "[…, k], in the order of experts")],
    },
    compute: |given, contract| {
        let z = if given.has("logits") {
            given.input("logits")?
        } else {
            let (x, gate) = (given.input("x")?, given.weight("gate")?);
            let z = linear(&Linear::router(IDEAL), x.view(), &gate).map_err(reference::Error::from)?;
            let error = Linear::router(contract).bound(&x, &gate, &z);
            Tracked { value: z, error: Some(error) }
        };
        let (bias, top_k) = (given.row("bias")?, given.count("top_k")?);
        let under = |contract| Router::under(contract, &Semantics::RELEASED, top_k);
        let (ideal, own) = (under(IDEAL), under(contract));
        let r = router::scores(&ideal, z.view());
        let scores = Made::of("scores", r.clone(), own.bound_scores(&z, &r));
        let choice = router::choice(&ideal, r.view(), bias.view()).map_err(reference::Error::from)?;
        let of_choice = own.bound_choice(&scores.tracked(), &choice);
        let chosen = router::chosen(&ideal, choice.view());
        let shown = if given.has("experts") { given.indices("experts", r.ncols())? } else { chosen };
        let choice = Made { chosen: Some(top_k), ..Made::of("experts", choice, of_choice) };
        let weights = router::weights(&ideal, r.view(), choice.value.view(), shown.view());
        let error = own.bound_weights(&scores.tracked(), &choice.tracked(), shown.view(), &weights);
        Ok(vec![scores, choice, Made::of("weights", weights, error)])
    },
};

pub(super) const LOAD_BALANCING: Operator = Operator {
    signature: Signature {
        name: "load_balancing",
        equation: "loss = E·Σ fₑ·P̄ₑ, P = softmax(z), fₑ the share of tokens with e among their k; or E·Σ P̄ₑ²",
        inputs: &[("z", "[tokens of all layers, E]")],
        numbers: &[("top_k", Some(0.0), "k; 0 for E·Σ P̄ₑ², which counts no choices")],
        outputs: &[("loss", "[]")],
    },
    compute: |given, contract| {
        let (z, top_k) = (given.matrix("z")?, given.count("top_k")?);
        let kind = if top_k == 0 { AuxiliaryLoss::Doc003 } else { AuxiliaryLoss::HfSwitch { top_k } };
        let loss = auxiliary_loss(kind, z.view(), &[]).map_err(reference::Error::from)?;
        let certain = array![[load_balancing::bound(kind, z.view(), loss, contract.unit())]];
        let error = ErrorBound { sigma: certain.clone(), certain, carried: 0 };
        Ok(vec![Made::of("loss", array![[loss]], error)])
    },
};

pub(super) const POLICY_GRADIENT: Operator = Operator {
    signature: Signature {
        name: "policy_gradient",
        equation: "c = clip(r, 1 − ε₁, 1 + ε₂)·A, r = e^(new − old); PPO's: r·A, or 0 where clip(…)·A is less",
        inputs: &[("new", "[n], log π"), ("old", "[n], log π₀"), ("advantages", "[n]")],
        numbers: &[
            ("below", Some(0.2), "ε₁"),
            ("above", Some(0.2), "ε₂"),
            ("ppo", Some(0.0), "1 for PPO's, else CISPO's"),
        ],
        outputs: &[("c", "[n]")],
    },
    compute: |given, contract| {
        let objective = if given.number("ppo")? == 0.0 { Objective::Cispo } else { Objective::Ppo };
        let p = PolicyGradient { objective, clip: [given.number("below")?, given.number("above")?] };
        let [new, old, advantages] = [given.row("new")?, given.row("old")?, given.row("advantages")?];
        let c = policy_gradient(&p, new.view(), old.view(), advantages.view()).map_err(reference::Error::from)?;
        let certain = policy_gradient::bound(&p, new.view(), old.view(), advantages.view(), contract.unit());
        let certain = certain.insert_axis(Axis(0));
        let error = ErrorBound { sigma: certain.clone(), certain, carried: 0 };
        Ok(vec![Made::of("c", c.insert_axis(Axis(0)), error)])
    },
};
