//! Norms.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, concatenate};
use reference::RoundingContract;
use reference::ops::add_rms_norm::{AddRmsNorm, add_rms_norm};
use reference::ops::layer_norm::{LayerNorm, layer_norm};
use reference::ops::qk_norm::{QkNorm, qk_norm};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::ops::sharded_norm::{ShardedNorm, sharded_norm};
use reference::semantics::{self, EpsPlace, NormWeight};

use super::given::Given;
use super::made::Made;
use super::operator::Operator;
use super::signature::{Number, Signature, X, Y, flag, needed, or, port};
use crate::failure::Failure;

pub(super) const IDEAL: &RoundingContract = &RoundingContract::IDEAL;

pub(super) const EPS: Number = or("eps", 1e-6, "ε");
pub(super) const ONE_PLUS: Number = flag("one_plus", "1 where rows are multiplied by 1 + w, as M3's are");
pub(super) const OUTSIDE: Number = flag("outside", "1 for document 003's: 1e-8 is added to the root, and no ε in it");
pub(super) const PER_HEAD: Number = flag("per_head", "1 where each head has its own mean square");

pub(super) const RMS_NORM: Operator = Operator {
    signature: Signature {
        name: "rms_norm",
        equation: "y = x / √(ε + mean x²) · w, or · (1 + w)",
        inputs: &[X, port("w", "[d]")],
        numbers: &[EPS, ONE_PLUS, OUTSIDE],
        outputs: &[Y],
    },
    compute: |given| {
        let (x, w, under) = (given.input("x")?, given.row("w")?, norm(given)?);
        let y = rms_norm(&under(IDEAL), x.view(), w.view())?;
        Ok(vec![Made::of("y", y, move |contract, y| under(contract).bound(&x, w.view(), y))])
    },
};

pub(super) const ADD_RMS_NORM: Operator = Operator {
    signature: Signature {
        name: "add_rms_norm",
        equation: "s = x + f, y = rms_norm(s; w)",
        inputs: &[X, port("f", "[…, d]"), port("w", "[d]")],
        numbers: &[EPS, ONE_PLUS, OUTSIDE],
        outputs: &[port("s", "[…, d]"), Y],
    },
    compute: |given| {
        let (x, f, w, norm) = (given.input("x")?, given.input("f")?, given.row("w")?, norm(given)?);
        let under = move |contract: &RoundingContract| {
            let norm = norm(contract);
            AddRmsNorm { norm, ..AddRmsNorm::under(contract, norm.eps, norm.eps_place) }
        };
        let (s, y) = add_rms_norm(&under(IDEAL), x.view(), f.view(), w.view())?;
        let of = (x.clone(), f.clone(), under.clone());
        let of_sum = move |contract: &RoundingContract, s: &_| of.2(contract).residual.bound(&of.0, &of.1, s);
        let sum = s.clone();
        let of_norm = move |contract: &RoundingContract, y: &_| under(contract).bound(&x, &f, w.view(), (&sum, y)).1;
        Ok(vec![Made::of("s", s, of_sum), Made::of("y", y, of_norm)])
    },
};

pub(super) const SHARDED_NORM: Operator = Operator {
    signature: Signature {
        name: "sharded_norm",
        equation: "y = x / √(ε + Σ x² / width) · w, or · (1 + w), of a row that ranks have equal parts of",
        inputs: &[port("x", "[…, ranks · c]"), port("w", "[ranks · c]")],
        numbers: &[needed("ranks", "ranks that have a part each"), EPS, ONE_PLUS, OUTSIDE],
        outputs: &[port("y", "as x")],
    },
    compute: |given| {
        let (x, w, ranks, under) = (given.input("x")?, given.row("w")?, given.count("ranks")?, norm(given)?);
        let width = x.dim().1;
        if ranks == 0 || !width.is_multiple_of(ranks) || w.len() != width {
            let problem = format!("x has {width} columns and w {}, expected equal parts for {ranks} ranks", w.len());
            return Err(Failure::new(problem));
        }
        let own = ShardedNorm { norm: under(IDEAL), divisor: width };
        let parts: Vec<Array2<f64>> =
            x.value.axis_chunks_iter(Axis(1), width / ranks).map(|part| part.to_owned()).collect();
        let weights: Vec<ArrayView1<'_, f64>> = w.axis_chunks_iter(Axis(0), width / ranks).collect();
        let parts = sharded_norm(&own, &parts, &weights)?;
        let parts: Vec<ArrayView2<'_, f64>> = parts.iter().map(|part| part.view()).collect();
        let y = concatenate(Axis(1), &parts).expect("parts have as many rows");
        Ok(vec![Made::of("y", y, move |contract, y| under(contract).bound(&x, w.view(), y))])
    },
};

pub(super) const LAYER_NORM: Operator = Operator {
    signature: Signature {
        name: "layer_norm",
        equation: "y = (x − mean x) / √(ε + variance of x) · w + b",
        inputs: &[X, port("w", "[d]"), port("b", "[d]")],
        numbers: &[or("eps", 1e-5, "ε")],
        outputs: &[Y],
    },
    compute: |given| {
        let (x, w, b, eps) = (given.input("x")?, given.row("w")?, given.row("b")?, given.number("eps")?);
        let under = move |contract: &RoundingContract| LayerNorm::under(contract, eps);
        let y = layer_norm(&under(IDEAL), x.view(), w.view(), b.view())?;
        Ok(vec![Made::of("y", y, move |contract, y| under(contract).bound(&x, w.view(), y))])
    },
};

pub(super) const QK_NORM: Operator = Operator {
    signature: Signature {
        name: "qk_norm",
        equation: "y = rms_norm(x; w) over the whole row, or over each of its heads",
        inputs: &[port("x", "[…, heads · head_dim]"), port("w", "[heads · head_dim], or [head_dim]")],
        numbers: &[needed("head_dim", "channels of a head"), EPS, ONE_PLUS, OUTSIDE, PER_HEAD],
        outputs: &[port("y", "as x")],
    },
    compute: |given| {
        let (x, w) = (given.input("x")?, given.row("w")?);
        let own = of_heads(given, given.count("head_dim")?)?;
        let y = qk_norm(&own.under(IDEAL), x.view(), w.view())?;
        Ok(vec![Made::of("y", y, move |contract, y| own.under(contract).bound(&x, w.view(), y))])
    },
};

/// The norm that ε and the weight's kind say.
pub(super) fn norm(given: &Given) -> Result<impl Fn(&RoundingContract) -> RmsNorm + Clone + 'static, Failure> {
    let weight = if given.flag("one_plus")? { NormWeight::OnePlus } else { NormWeight::Plain };
    let place = if given.flag("outside")? { EpsPlace::Outside } else { EpsPlace::Inside };
    let eps = given.number("eps")?;
    Ok(move |contract: &RoundingContract| RmsNorm::under(contract, eps, place).weighing(weight))
}

/// The norm of queries and keys.
pub(super) fn of_heads(given: &Given, head_dim: usize) -> Result<QkNorm, Failure> {
    let per_head = given.flag("per_head")?;
    let over = if per_head { semantics::QkNorm::PerHead } else { semantics::QkNorm::FullProjection };
    Ok(QkNorm { norm: norm(given)?(IDEAL), over, head_dim })
}
