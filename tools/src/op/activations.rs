//! What is done element by element.

use reference::RoundingContract;
use reference::config::Coefficients;
use reference::ops::all_reduce::{AllReduce, all_reduce};
use reference::ops::gelu::{Gelu, Share, gelu};
use reference::ops::residual::{Residual, residual};
use reference::ops::swiglu::{Swiglu, swiglu};
use reference::ops::swiglu_oai::{SwigluOai, swiglu_oai};
use reference::semantics::{Expert, GateClamp};

use super::given::Given;
use super::made::Made;
use super::norms::IDEAL;
use super::operator::Operator;
use super::signature::{Number, Port, Signature, X, Y, flag, optional, or, port};
use crate::failure::Failure;

pub(super) const ALPHA: Number = or("alpha", 1.702, "α");
pub(super) const LIMIT: Number = or("limit", 7.0, "ℓ");
pub(super) const BETA: Number = or("beta", 1.0, "β");

/// Gate and up projection.
const G: Port = port("g", "[…, d]");
const GATED: [Port; 2] = [G, port("u", "[…, d]")];
const A: Port = port("a", "[…, d]");

pub(super) const SWIGLU: Operator = Operator {
    signature: Signature {
        name: "swiglu",
        equation: "a = g·σ(g)·u, or g·σ(g), as document 003's experts have it",
        inputs: &[G, optional("u", "[…, d]")],
        numbers: &[],
        outputs: &[A],
    },
    compute: |given| {
        let (g, u) = (given.input("g")?, given.input_if("u")?);
        let expert = if u.is_some() { Expert::Gated } else { Expert::Nongated };
        let u = u.unwrap_or_else(|| g.clone());
        let under = move |contract: &RoundingContract| Swiglu::under(contract, expert);
        let a = swiglu(&under(IDEAL), g.view(), u.view())?;
        Ok(vec![Made::of("a", a, move |contract, a| under(contract).bound(&g, &u, a))])
    },
};

pub(super) const SWIGLU_OAI: Operator = Operator {
    signature: Signature {
        name: "swiglu_oai",
        equation: "a = g′·σ(α·g′)·(u′ + β), g′ = min(g, ℓ), u′ = clamp(u, −ℓ, ℓ)",
        inputs: &GATED,
        numbers: &[ALPHA, LIMIT, BETA],
        outputs: &[A],
    },
    compute: |given| {
        let (g, u, coefficients) = (given.input("g")?, given.input("u")?, coefficients(given)?);
        let under = move |contract: &RoundingContract| SwigluOai::under(contract, coefficients, GateClamp::Upper);
        let a = swiglu_oai(&under(IDEAL), g.view(), u.view())?;
        Ok(vec![Made::of("a", a, move |contract, a| under(contract).bound(&g, &u, a))])
    },
};

pub(super) const GELU: Operator = Operator {
    signature: Signature {
        name: "gelu",
        equation: "a = x·½·(1 + erf(x/√2)), or by tanh",
        inputs: &[X],
        numbers: &[flag("tanh", "1 for the approximation by tanh")],
        outputs: &[A],
    },
    compute: |given| {
        let x = given.input("x")?;
        let share = if given.flag("tanh")? { Share::Tanh } else { Share::Erf };
        let a = gelu(&Gelu::under(IDEAL, share), x.view());
        Ok(vec![Made::of("a", a, move |contract, a| Gelu::under(contract, share).bound(&x, a))])
    },
};

pub(super) const RESIDUAL: Operator = Operator {
    signature: Signature {
        name: "residual",
        equation: "y = γ·(α·x + β·f)",
        inputs: &[X, port("f", "[…, d]")],
        numbers: &[or("x_factor", 1.0, "α"), or("f_factor", 1.0, "β"), or("y_factor", 1.0, "γ")],
        outputs: &[Y],
    },
    compute: |given| {
        let (x, f) = (given.input("x")?, given.input("f")?);
        let factors = [given.number("x_factor")?, given.number("f_factor")?, given.number("y_factor")?];
        let under = move |contract: &RoundingContract| Residual { factors, ..Residual::under(contract) };
        let y = residual(&under(IDEAL), x.view(), f.view())?;
        Ok(vec![Made::of("y", y, move |contract, y| under(contract).bound(&x, &f, y))])
    },
};

pub(super) const ALL_REDUCE: Operator = Operator {
    signature: Signature {
        name: "all_reduce",
        equation: "y = Σᵣ pᵣ over ranks",
        inputs: &[port("p", "[ranks, …, m]")],
        numbers: &[],
        outputs: &[port("y", "[…, m]")],
    },
    compute: |given| {
        let parts = given.parts("p")?;
        let y = all_reduce(&AllReduce::under(IDEAL), &parts)?;
        Ok(vec![Made::of("y", y, move |contract, _| AllReduce::under(contract).bound(&parts))])
    },
};

/// Of SwiGLU-OAI.
pub(super) fn coefficients(given: &Given) -> Result<Coefficients, Failure> {
    Ok(Coefficients { alpha: given.number("alpha")?, limit: given.number("limit")?, beta: given.number("beta")? })
}
