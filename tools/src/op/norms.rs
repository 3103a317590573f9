//! Norms.

use reference::RoundingContract;
use reference::ops::layer_norm::{LayerNorm, layer_norm};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::semantics::{EpsPlace, NormWeight};

use super::made::Made;
use super::operator::Operator;
use super::signature::Signature;

pub(super) const RMS_NORM: Operator = Operator {
    signature: Signature {
        name: "rms_norm",
        equation: "y = x / √(ε + mean x²) · w, or · (1 + w)",
        inputs: &[("x", "[…, d]"), ("w", "[d]")],
        numbers: &[
            ("eps", Some(1e-6), "ε"),
            ("one_plus", Some(0.0), "1 where rows are multiplied by 1 + w, as M3's are"),
        ],
        outputs: &[("y", "[…, d]")],
    },
    compute: |given, contract| {
        let (x, w) = (given.input("x")?, given.row("w")?);
        let weight = if given.number("one_plus")? == 0.0 { NormWeight::Plain } else { NormWeight::OnePlus };
        let eps = given.number("eps")?;
        let under = |contract: &RoundingContract| RmsNorm::under(contract, eps, EpsPlace::Inside).weighing(weight);
        let y = rms_norm(&under(&RoundingContract::IDEAL), x.view(), w.view()).map_err(reference::Error::from)?;
        let error = under(contract).bound(&x, w.view(), &y);
        Ok(vec![Made::of("y", y, error)])
    },
};

pub(super) const LAYER_NORM: Operator = Operator {
    signature: Signature {
        name: "layer_norm",
        equation: "y = (x − mean x) / √(ε + variance of x) · w + b",
        inputs: &[("x", "[…, d]"), ("w", "[d]"), ("b", "[d]")],
        numbers: &[("eps", Some(1e-5), "ε")],
        outputs: &[("y", "[…, d]")],
    },
    compute: |given, contract| {
        let (x, w, b, eps) = (given.input("x")?, given.row("w")?, given.row("b")?, given.number("eps")?);
        let under = |contract: &RoundingContract| LayerNorm::under(contract, eps);
        let ideal = under(&RoundingContract::IDEAL);
        let y = layer_norm(&ideal, x.view(), w.view(), b.view()).map_err(reference::Error::from)?;
        let error = under(contract).bound(&x, w.view(), &y);
        Ok(vec![Made::of("y", y, error)])
    },
};
