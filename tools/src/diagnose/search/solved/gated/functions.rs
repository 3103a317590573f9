//! What may stand for the activation of a gated network, and what may be done to it.

use ndarray::{Array2, Zip, arr2};
use reference::config::Coefficients;
use reference::matrix::Matrix;
use reference::ops::gelu::{Gelu, Share, gelu};
use reference::{Real, RoundingContract, Storage};

use super::network::Network;
use crate::diagnose::catalogue::grid::Grid;

/// A function of gate and up projection.
type OfBoth = Box<dyn Fn(f64, f64) -> f64>;

/// What may be in the place of hidden values, and what a network does that has it: "takes …, for its activation".
pub(super) struct Function {
    pub(super) said: String,
    makes: Makes,
}

enum Makes {
    OfBoth(OfBoth),
    /// The right values rounded.
    Rounded(Grid),
    /// Nothing.
    Nothing,
}

/// A function of one number, and its name.
type Named = (&'static str, fn(f64) -> f64);

/// What may stand for a gate's function.
const GATES: [Named; 13] = [
    ("GELU", |x| gelu_of(Share::Erf, x)),
    ("GELU by tanh", |x| gelu_of(Share::Tanh, x)),
    ("GELU by a sigmoid, x·σ(1.702·x),", |x| gelu_of(Share::Sigmoid, x)),
    ("SiLU", silu),
    ("ReLU", |x| x.max(0.0)),
    ("squared ReLU", |x| x.max(0.0).powi(2)),
    ("hard swish", |x| x * hard_sigmoid(x)),
    ("hard sigmoid", hard_sigmoid),
    ("sigmoid", f64::sigmoid),
    ("hyperbolic tangent", f64::tanh),
    ("softplus", softplus),
    ("mish", |x| x * softplus(x).tanh()),
    ("ELU", |x| if x > 0.0 { x } else { x.exp_m1() }),
];

/// SwiGLU-OAI's numbers as M3 is released.
const RELEASED: Coefficients = Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 };

/// A function of two numbers, by name.
type NamedOfTwo = (&'static str, fn(f64, f64) -> f64);

/// Other functions of gate and up projection without coefficients.
const OTHERS: [NamedOfTwo; 10] = [
    ("the gate without its activation, times the up projection", |g, u| g * u),
    ("the gate's SiLU, and not the up projection", |g, _| silu(g)),
    ("the up projection alone", |_, u| u),
    ("the gate's SiLU and the up projection added up", |g, u| silu(g) + u),
    ("the gate and the up projection in each other's place", |g, u| g * silu(u)),
    ("the SiLU of both, multiplied", |g, u| silu(g) * silu(u)),
    ("the SiLU of gate and up projection's product", |g, u| silu(g * u)),
    ("the gate's SiLU twice, times the up projection", |g, u| silu(silu(g)) * u),
    ("the SiLU of the gate's negative, times the up projection", |g, u| silu(-g) * u),
    ("the gate's SiLU, times the up projection plus 1", |g, u| silu(g) * (u + 1.0)),
];

pub(super) fn silu(x: f64) -> f64 {
    x * x.sigmoid()
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn hard_sigmoid(x: f64) -> f64 {
    ((x + 3.0) / 6.0).clamp(0.0, 1.0)
}

/// As the operator has it.
fn gelu_of(share: Share, x: f64) -> f64 {
    gelu(&Gelu::under(&RoundingContract::IDEAL, share), arr2(&[[x]]).view())[[0, 0]]
}

/// Those of any model, and of one that has SwiGLU-OAI; what leaves hidden values out, and what rounds them.
pub(super) fn all(oai: Option<Coefficients>) -> Vec<Function> {
    let of_both = |what: String, f: OfBoth| Function {
        said: format!("takes {what}, for its activation"),
        makes: Makes::OfBoth(f),
    };
    let mut found = Vec::new();
    if let Some(oai) = oai {
        found.extend(of_oai(oai).into_iter().map(|(what, f)| of_both(what, f)));
    }
    for (what, f) in OTHERS {
        found.push(of_both(what.to_owned(), Box::new(f)));
    }
    if oai.is_none() {
        let Coefficients { alpha, limit, beta } = RELEASED;
        let f = move |g: f64, u: f64| {
            let (g, u) = (g.min(limit), u.clamp(-limit, limit));
            (u + beta) * g * (alpha * g).sigmoid()
        };
        found.push(of_both("M3's SwiGLU-OAI, (u + 1)·g·σ(1.702·g) of clamped projections".to_owned(), Box::new(f)));
    }
    for (what, f) in GATES {
        found.push(of_both(format!("the gate's {what} times the up projection"), Box::new(move |g, u| f(g) * u)));
    }
    let rounded =
        |grid: Grid| Function { said: format!("rounds its activation to {grid}"), makes: Makes::Rounded(grid) };
    found.extend(Grid::of_activations().map(rounded));
    found.push(Function { said: "leaves out its activation".to_owned(), makes: Makes::Nothing });
    found
}

/// SwiGLU-OAI with other clamps, without one of its numbers, or with another function of the gate.
fn of_oai(oai: Coefficients) -> Vec<(String, OfBoth)> {
    let Coefficients { alpha, limit, beta } = oai;
    let gates: [NamedOfTwo; 3] =
        [("above", |g, limit| g.min(limit)), ("both sides", |g, limit| g.clamp(-limit, limit)), ("no side", |g, _| g)];
    let ups: [NamedOfTwo; 4] = [
        ("both sides", |u, limit| u.clamp(-limit, limit)),
        ("above", |u, limit| u.min(limit)),
        ("below", |u, limit| u.max(-limit)),
        ("no side", |u, _| u),
    ];
    let clamped = move |g: f64, u: f64| (g.min(limit), u.clamp(-limit, limit));
    let mut found: Vec<(String, OfBoth)> = Vec::new();
    let mut add = |what: String, f: OfBoth| found.push((what, f));
    for (of_gate, gate) in gates {
        for (of_up, up) in ups {
            let what = format!("the gate clamped from {of_gate} and the up projection from {of_up}");
            let f = move |g: f64, u: f64| {
                let g = gate(g, limit);
                (up(u, limit) + beta) * g * (alpha * g).sigmoid()
            };
            add(what, Box::new(f));
        }
    }
    let numbers: [(&str, f64, f64); 3] = [
        ("the sigmoid of the gate itself, without α", 1.0, beta),
        ("the gate without its sigmoid", 0.0, beta),
        ("the up projection without β", alpha, 0.0),
    ];
    for (what, alpha, beta) in numbers {
        let f = move |g: f64, u: f64| {
            let (g, u) = clamped(g, u);
            (u + beta) * g * if alpha == 0.0 { 1.0 } else { (alpha * g).sigmoid() }
        };
        add(what.to_owned(), Box::new(f));
    }
    add("the up projection clamped once β is added".to_owned(), {
        Box::new(move |g, u| (u + beta).clamp(-limit, limit) * g.min(limit) * (alpha * g.min(limit)).sigmoid())
    });
    add("the gate and the up projection in each other's place".to_owned(), {
        Box::new(move |g, u| {
            let (g, u) = clamped(u, g);
            (u + beta) * g * (alpha * g).sigmoid()
        })
    });
    add("β added to the gate instead of to the up projection".to_owned(), {
        Box::new(move |g, u| {
            let (g, u) = clamped(g, u);
            u * (g + beta) * (alpha * g).sigmoid()
        })
    });
    for (what, f) in GATES {
        add(format!("the clamped gate's {what} times the clamped up projection plus β"), {
            Box::new(move |g, u| {
                let (g, u) = clamped(g, u);
                (u + beta) * f(g)
            })
        });
        add(format!("the clamped gate's {what} times the clamped up projection"), {
            Box::new(move |g, u| {
                let (g, u) = clamped(g, u);
                u * f(g)
            })
        });
    }
    found
}

impl Function {
    /// Of gate and up projection, in words behind "takes" or another verb.
    pub(super) fn of_both(said: String, f: impl Fn(f64, f64) -> f64 + 'static) -> Self {
        Function { said, makes: Makes::OfBoth(Box::new(f)) }
    }

    /// Whether it leaves hidden values out.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.makes, Makes::Nothing)
    }

    /// Hidden values of a network that has the right ones otherwise.
    pub(super) fn of(&self, network: &Network, right: &Array2<f64>) -> Array2<f64> {
        match &self.makes {
            Makes::OfBoth(f) => Zip::from(&network.gate).and(&network.up).map_collect(|g, u| f(*g, *u)),
            Makes::Rounded(grid) => grid.round(&Matrix::stored(right.view(), Storage::F32)).dense(),
            Makes::Nothing => Array2::zeros(right.dim()),
        }
    }
}
