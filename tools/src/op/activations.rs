//! What is done element by element.

use reference::RoundingContract;
use reference::config::Coefficients;
use reference::ops::gelu::{Gelu, Share, gelu};
use reference::ops::residual::{Residual, residual};
use reference::ops::swiglu::{Swiglu, swiglu};
use reference::ops::swiglu_oai::{SwigluOai, swiglu_oai};
use reference::semantics::{Expert, GateClamp};

use super::made::Made;
use super::operator::Operator;
use super::signature::Signature;
use crate::failure::Failure;

const IDEAL: &RoundingContract = &RoundingContract::IDEAL;

pub(super) const SWIGLU: Operator = Operator {
    signature: Signature {
        name: "swiglu",
        equation: "a = g·σ(g)·u",
        inputs: &[("g", "[…, d]"), ("u", "[…, d]")],
        numbers: &[],
        outputs: &[("a", "[…, d]")],
    },
    compute: |given, contract| {
        let (g, u) = (given.input("g")?, given.input("u")?);
        let under = |contract: &RoundingContract| Swiglu::under(contract, Expert::Gated);
        let a = swiglu(&under(IDEAL), g.view(), u.view()).map_err(reference::Error::from)?;
        let error = under(contract).bound(&g, &u, &a);
        Ok(vec![Made::of("a", a, error)])
    },
};

pub(super) const SWIGLU_OAI: Operator = Operator {
    signature: Signature {
        name: "swiglu_oai",
        equation: "a = g′·σ(α·g′)·(u′ + β), g′ = min(g, ℓ), u′ = clamp(u, −ℓ, ℓ)",
        inputs: &[("g", "[…, d]"), ("u", "[…, d]")],
        numbers: &[("alpha", Some(1.702), "α"), ("limit", Some(7.0), "ℓ"), ("beta", Some(1.0), "β")],
        outputs: &[("a", "[…, d]")],
    },
    compute: |given, contract| {
        let (g, u) = (given.input("g")?, given.input("u")?);
        let coefficients =
            Coefficients { alpha: given.number("alpha")?, limit: given.number("limit")?, beta: given.number("beta")? };
        let under = |contract: &RoundingContract| SwigluOai::under(contract, coefficients, GateClamp::Upper);
        let a = swiglu_oai(&under(IDEAL), g.view(), u.view()).map_err(reference::Error::from)?;
        let error = under(contract).bound(&g, &u, &a);
        Ok(vec![Made::of("a", a, error)])
    },
};

pub(super) const GELU: Operator = Operator {
    signature: Signature {
        name: "gelu",
        equation: "a = x·½·(1 + erf(x/√2)), or by tanh",
        inputs: &[("x", "[…, d]")],
        numbers: &[("tanh", Some(0.0), "1 for the approximation by tanh")],
        outputs: &[("a", "[…, d]")],
    },
    compute: |given, contract| {
        let x = given.input("x")?;
        let share = if given.number("tanh")? == 0.0 { Share::Erf } else { Share::Tanh };
        let a = gelu(&Gelu::under(IDEAL, share), x.view());
        let error = Gelu::under(contract, share).bound(&x, &a);
        Ok(vec![Made::of("a", a, error)])
    },
};

pub(super) const RESIDUAL: Operator = Operator {
    signature: Signature {
        name: "residual",
        equation: "y = x + f",
        inputs: &[("x", "[…, d]"), ("f", "[…, d]")],
        numbers: &[],
        outputs: &[("y", "[…, d]")],
    },
    compute: |given, contract| {
        let (x, f) = (given.input("x")?, given.input("f")?);
        let y = residual(&Residual::under(IDEAL), x.view(), f.view());
        let y = y.map_err(|error| Failure::from(reference::Error::from(error)))?;
        let error = Residual::under(contract).bound(&x, &f, &y);
        Ok(vec![Made::of("y", y, error)])
    },
};
