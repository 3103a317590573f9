//! What may stand for the activation of a gated network.

use reference::config::Coefficients;

/// A function of gate and up projection, or of one of them and a limit.
type Function = fn(f64, f64) -> f64;

/// The same with numbers of its own.
type Own = Box<dyn Fn(f64, f64) -> f64>;

/// A function and what it is.
type Named = (String, Own);

/// What may stand for an activation.
const FUNCTIONS: [(&str, Function); 13] = [
    ("the gate without its activation, times the up projection", |g, u| g * u),
    ("the gate's SiLU, and not the up projection", |g, _| silu(g)),
    ("the up projection alone", |_, u| u),
    ("the gate's SiLU and the up projection added up", |g, u| silu(g) + u),
    ("the gate times the SiLU of the up projection", |g, u| g * silu(u)),
    ("the SiLU of both, multiplied", |g, u| silu(g) * silu(u)),
    ("the SiLU of gate and up projection's product", |g, u| silu(g * u)),
    ("the gate's SiLU twice, times the up projection", |g, u| silu(silu(g)) * u),
    ("the SiLU of the gate's negative, times the up projection", |g, u| silu(-g) * u),
    ("the gate's sigmoid times the up projection", |g, u| sigmoid(g) * u),
    ("the gate's ReLU times the up projection", |g, u| g.max(0.0) * u),
    ("the gate's hyperbolic tangent times the up projection", |g, u| g.tanh() * u),
    ("the gate's SiLU times the up projection", |g, u| silu(g) * u),
];

fn sigmoid(x: f64) -> f64 {
    (1.0 + (-x).exp()).recip()
}

fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

/// Those of any model, and of one that has SwiGLU-OAI.
pub(super) fn all(oai: Option<Coefficients>) -> impl Iterator<Item = Named> {
    let known = FUNCTIONS.iter().map(|(name, f)| ((*name).to_owned(), Box::new(*f) as Own));
    known.chain(oai.into_iter().flat_map(of_oai))
}

/// SwiGLU-OAI with other clamps, or without one of its numbers.
fn of_oai(oai: Coefficients) -> impl Iterator<Item = Named> {
    let Coefficients { alpha, limit, beta } = oai;
    let gates: [(&str, Function); 3] =
        [("above", |g, limit| g.min(limit)), ("both sides", |g, limit| g.clamp(-limit, limit)), ("no side", |g, _| g)];
    let ups: [(&str, Function); 4] = [
        ("both sides", |u, limit| u.clamp(-limit, limit)),
        ("above", |u, limit| u.min(limit)),
        ("below", |u, limit| u.max(-limit)),
        ("no side", |u, _| u),
    ];
    let each = gates.into_iter().flat_map(move |gate| ups.into_iter().map(move |up| (gate, up)));
    let clamped = each.map(move |((of_gate, gate), (of_up, up))| {
        let name = format!("the gate clamped from {of_gate} and the up projection from {of_up}");
        let f = move |g: f64, u: f64| {
            let g = gate(g, limit);
            (up(u, limit) + beta) * g * sigmoid(alpha * g)
        };
        (name, Box::new(f) as Own)
    });
    let factors: [(&str, f64, f64); 3] = [
        ("the sigmoid of the gate itself, without α", 1.0, beta),
        ("the gate without its sigmoid", 0.0, beta),
        ("the up projection without β", alpha, 0.0),
    ];
    let others = factors.into_iter().map(move |(name, alpha, beta)| {
        let f = move |g: f64, u: f64| {
            let g = g.min(limit);
            let share = if alpha == 0.0 { 1.0 } else { sigmoid(alpha * g) };
            (u.clamp(-limit, limit) + beta) * g * share
        };
        (name.to_owned(), Box::new(f) as Own)
    });
    clamped.chain(others)
}
