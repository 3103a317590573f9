//! Products with matrices.

use reference::RoundingContract;
use reference::ops::linear::{Linear, linear};
use reference::ops::linear_bias::{LinearBias, linear_bias};

use super::made::Made;
use super::operator::Operator;
use super::signature::Signature;

pub(super) const LINEAR: Operator = Operator {
    signature: Signature {
        name: "linear",
        equation: "y = x·wᵀ, + b where there is one",
        inputs: &[("x", "[…, k]"), ("w", "[m, k]"), ("b", "[m], if any")],
        numbers: &[],
        outputs: &[("y", "[…, m]")],
    },
    compute: |given, contract| {
        let (x, w, ideal) = (given.input("x")?, given.weight("w")?, &RoundingContract::IDEAL);
        if !given.has("b") {
            let y = linear(&Linear::under(ideal), x.view(), &w).map_err(reference::Error::from)?;
            let error = Linear::under(contract).bound(&x, &w, &y);
            return Ok(vec![Made::of("y", y, error)]);
        }
        let b = given.row("b")?;
        let y = linear_bias(&LinearBias::under(ideal), x.view(), &w, b.view()).map_err(reference::Error::from)?;
        let error = LinearBias::under(contract).bound(&x, &w, b.view(), &y);
        Ok(vec![Made::of("y", y, error)])
    },
};
