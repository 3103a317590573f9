//! What training adds.

use ndarray::array;
use reference::RoundingContract;
use reference::ops::load_balancing::{self, AuxiliaryLoss, auxiliary_loss, bound_bias, updated_bias};
use reference::ops::policy_gradient::{self, Objective, PolicyGradient, advantages, bound_advantages, policy_gradient};
use reference::ops::router_jitter::{RouterJitter, jittered};

use super::made::Made;
use super::norms::IDEAL;
use super::operator::Operator;
use super::signature::{Signature, flag, if_given, needed, optional, or, port};

pub(super) const LOAD_BALANCING: Operator = Operator {
    signature: Signature {
        name: "load_balancing",
        equation: "loss = E·Σ fₑ·P̄ₑ, P = softmax(z), fₑ the share of tokens with e among their k; or E·Σ P̄ₑ²",
        inputs: &[
            port("z", "[tokens of all layers, E]"),
            optional("mask", "[tokens of all layers], 1 for those that count"),
        ],
        numbers: &[if_given("top_k", "k; without, the loss is E·Σ P̄ₑ², which no choice enters")],
        outputs: &[port("loss", "[]")],
    },
    compute: |given| {
        let (z, marks) = (given.matrix("z")?, given.marks_if("mask")?);
        let kind = given.count_if("top_k")?.map_or(AuxiliaryLoss::Doc003, |top_k| AuxiliaryLoss::HfSwitch { top_k });
        let loss = auxiliary_loss(kind, z.view(), marks.as_deref())?;
        Ok(vec![Made::of_row("loss", array![loss], move |unit| {
            let bound = load_balancing::bound(kind, z.view(), marks.as_deref(), loss, unit);
            array![bound.expect("as the loss was made")]
        })])
    },
};

pub(super) const UPDATED_BIAS: Operator = Operator {
    signature: Signature {
        name: "updated_bias",
        equation: "updated = b + γ·sign(mean load − load)",
        inputs: &[port("b", "[E]"), port("loads", "[E], tokens of each expert")],
        numbers: &[needed("rate", "γ")],
        outputs: &[port("updated", "[E]")],
    },
    compute: |given| {
        let (b, loads, rate) = (given.row("b")?, given.counts("loads")?, given.number("rate")?);
        let updated = updated_bias(rate, b.view(), &loads)?;
        let bound = {
            let updated = updated.clone();
            move |unit| bound_bias(rate, b.view(), updated.view(), unit)
        };
        Ok(vec![Made::of_row("updated", updated, bound)])
    },
};

pub(super) const POLICY_GRADIENT: Operator = Operator {
    signature: Signature {
        name: "policy_gradient",
        equation: "c = clip(r, 1 − ε₁, 1 + ε₂)·A, r = e^(new − old); PPO's: r·A, or 0 where clip(…)·A is less",
        inputs: &[port("new", "[n], log π"), port("old", "[n], log π₀"), port("advantages", "[n]")],
        numbers: &[or("below", 0.2, "ε₁"), or("above", 0.2, "ε₂"), flag("ppo", "1 for PPO's, else CISPO's")],
        outputs: &[port("c", "[n]")],
    },
    compute: |given| {
        let objective = if given.flag("ppo")? { Objective::Ppo } else { Objective::Cispo };
        let p = PolicyGradient { objective, clip: [given.number("below")?, given.number("above")?] };
        let [new, old, a] = [given.row("new")?, given.row("old")?, given.row("advantages")?];
        let c = policy_gradient(&p, new.view(), old.view(), a.view())?;
        let bound = move |unit| policy_gradient::bound(&p, new.view(), old.view(), a.view(), unit);
        Ok(vec![Made::of_row("c", c, bound)])
    },
};

pub(super) const ADVANTAGES: Operator = Operator {
    signature: Signature {
        name: "advantages",
        equation: "advantages = (R − mean R) / √(mean (R − mean R)²)",
        inputs: &[port("rewards", "[answers of a group]")],
        numbers: &[],
        outputs: &[port("advantages", "as rewards")],
    },
    compute: |given| {
        let rewards = given.row("rewards")?;
        let a = advantages(rewards.view())?;
        Ok(vec![Made::of_row("advantages", a, move |unit| bound_advantages(rewards.view(), unit))])
    },
};

pub(super) const ROUTER_JITTER: Operator = Operator {
    signature: Signature {
        name: "router_jitter",
        equation: "y = x·U, U in [1 − ε, 1 + ε); without U, y is held to be within ε of x",
        inputs: &[port("x", "[n, d]"), optional("noise", "[n, d], U")],
        numbers: &[or("eps", 0.0, "ε")],
        outputs: &[port("y", "[n, d]")],
    },
    compute: |given| {
        let (x, eps) = (given.matrix("x")?, given.number("eps")?);
        let under = move |contract: &RoundingContract| RouterJitter::under(contract, eps);
        under(IDEAL).check()?;
        Ok(vec![if given.has("noise") {
            let y = jittered(&under(IDEAL), x.view(), given.matrix("noise")?.view())?;
            Made::of("y", y, move |contract, y| under(contract).bound(y))
        } else {
            Made::of("y", x, move |contract, x| under(contract).bound_drawn(x))
        }])
    },
};
