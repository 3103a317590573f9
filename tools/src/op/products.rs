//! Products with matrices.

use reference::ops::dense_ffn::{Activation, DenseFfn, dense_ffn};
use reference::ops::embedding::{Embedding, embedding};
use reference::ops::linear::{Linear, linear};
use reference::ops::linear_bias::{LinearBias, linear_bias};
use reference::semantics::Expert;
use reference::{RoundingContract, Semantics};

use super::activations::{ALPHA, BETA, LIMIT, coefficients};
use super::made::Made;
use super::norms::IDEAL;
use super::operator::Operator;
use super::signature::{Port, Signature, X, Y, flag, optional, port};

/// Rows, the matrix that they are multiplied by, and what that makes.
const ROWS: Port = port("x", "[…, k]");
const W: Port = port("w", "[m, k]");
const PRODUCT: Port = port("y", "[…, m]");

pub(super) const LINEAR: Operator = Operator {
    signature: Signature {
        name: "linear",
        equation: "y = x·wᵀ",
        inputs: &[ROWS, W],
        numbers: &[],
        outputs: &[PRODUCT],
    },
    compute: |given| {
        let (x, w) = (given.input("x")?, given.weight("w")?);
        let y = linear(&Linear::under(IDEAL), x.view(), &w)?;
        Ok(vec![Made::of("y", y, move |contract, y| Linear::under(contract).bound(&x, &w, y))])
    },
};

pub(super) const LINEAR_BIAS: Operator = Operator {
    signature: Signature {
        name: "linear_bias",
        equation: "y = x·wᵀ + b",
        inputs: &[ROWS, W, port("b", "[m]")],
        numbers: &[],
        outputs: &[PRODUCT],
    },
    compute: |given| {
        let (x, w, b) = (given.input("x")?, given.weight("w")?, given.row("b")?);
        let y = linear_bias(&LinearBias::under(IDEAL), x.view(), &w, b.view())?;
        Ok(vec![Made::of("y", y, move |contract, y| LinearBias::under(contract).bound(&x, &w, b.view(), y))])
    },
};

pub(super) const EMBEDDING: Operator = Operator {
    signature: Signature {
        name: "embedding",
        equation: "y = table[t]",
        inputs: &[port("t", "[n], tokens"), port("table", "[v, d]")],
        numbers: &[],
        outputs: &[port("y", "[n, d]")],
    },
    compute: |given| {
        let (t, table) = (given.tokens("t")?, given.weight("table")?);
        let y = embedding(&Embedding::under(IDEAL), &t, &table)?;
        Ok(vec![Made::of("y", y, |contract, y| Embedding::under(contract).bound(y))])
    },
};

pub(super) const DENSE_FFN: Operator = Operator {
    signature: Signature {
        name: "dense_ffn",
        equation: "y = w2·a(w1·x, w3·x), a of swiglu, or of swiglu_oai; or of w1·x alone, as document 003's experts have it",
        inputs: &[X, port("w1", "[m, d]"), optional("w3", "[m, d]"), port("w2", "[d, m]")],
        numbers: &[flag("oai", "1 for swiglu_oai, with what follows"), ALPHA, LIMIT, BETA],
        outputs: &[Y],
    },
    compute: |given| {
        let x = given.input("x")?;
        let [w1, w2] = [given.weight("w1")?, given.weight("w2")?];
        let oai = if given.flag("oai")? { Some(coefficients(given)?) } else { None };
        let is_gated = given.has("w3") || oai.is_some();
        // Without an up projection its weight is read, and no product with it is used.
        let w3 = if is_gated { given.weight("w3")? } else { w1.clone() };
        let expert = if is_gated { Expert::Gated } else { Expert::Nongated };
        let semantics = Semantics { expert, ..Semantics::RELEASED };
        let under =
            move |contract: &RoundingContract| DenseFfn::under(contract, Activation::under(contract, &semantics, oai));
        let y = dense_ffn(&under(IDEAL), x.view(), [&w1, &w3, &w2])?;
        let bound = move |contract: &RoundingContract, y: &_| {
            under(contract).bound(&x, [&w1, &w3, &w2], y).expect("as y was made")
        };
        Ok(vec![Made::of("y", y, bound)])
    },
};
