//! Activations that are two products of simple functions, added up with numbers of their own.
//!
//! ```text
//! h′ = a·A(g)·B(u) + b·C(g)·D(u)        solved for a and b, of all A and C among functions of the gate, B and D among 1 and u
//! ```
//!
//! What networks make of a sum of activations is the sum of what they make of each: of every two, a and b are those of least squares.

use std::cmp::Ordering;

use ndarray::{Array2, Zip};
use reference::Real;

use super::functions::silu;
use super::network::Network;
use super::{Found, Gated};

/// The share of the squares that each product has, at least.
const LEAST: f64 = 1e-6;

/// A function of the gate or the up projection, of α.
type Simple = fn(f64, f64) -> f64;

/// What the gate may be taken by, and the up projection.
const GATES: [(&str, Simple); 7] = [
    ("", |_, _| 1.0),
    ("g", |g, _| g),
    ("SiLU(g)", |g, _| silu(g)),
    ("σ(g)", |g, _| g.sigmoid()),
    ("g·σ(α·g)", |g, alpha| g * (alpha * g).sigmoid()),
    ("σ(α·g)", |g, alpha| (alpha * g).sigmoid()),
    ("g²", |g, _| g * g),
];
const UPS: [(&str, Simple); 4] =
    [("", |_, _| 1.0), ("u", |u, _| u), ("SiLU(u)", |u, _| silu(u)), ("σ(u)", |u, _| u.sigmoid())];

/// How far a number may be from one of these to be that, as a share: what bf16 leaves of it, several times.
const NEAR: f64 = 0.01;
const ROUND: [f64; 5] = [1.0, -1.0, 0.5, 2.0, 1.702];

impl Gated<'_, '_, '_> {
    /// The two products that explain all that is off, and come nearest.
    pub(super) fn of_two(&self, right: &[Array2<f64>]) -> Option<Found> {
        let oai = self.bench.config().swiglu_oai;
        let (alpha, limit) = oai.map_or((1.0, f64::INFINITY), |oai| (oai.alpha, oai.limit));
        let hidden = |gate: Simple, up: Simple| -> Vec<Array2<f64>> {
            let of = |own: &Network| {
                Zip::from(&own.gate)
                    .and(&own.up)
                    .map_collect(|g, u| gate(g.min(limit), alpha) * up(u.clamp(-limit, limit), alpha))
            };
            self.networks.iter().map(of).collect()
        };
        let gates = GATES.into_iter().filter(|(name, _)| oai.is_some() || !name.contains('α'));
        let both = gates.flat_map(|gate| UPS.map(|up| (gate, up))).filter(|(gate, up)| (gate.0, up.0) != ("", ""));
        let all: Vec<(String, Array2<f64>)> = both
            .map(|((of_gate, gate), (of_up, up))| {
                let name = [of_gate, of_up].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join("·");
                (name, self.where_off(self.sum(&hidden(gate, up), |_| true)))
            })
            .collect();
        let of_right = self.where_off(self.sum(right, |_| true));
        let target = &self.apart + &of_right;
        let product = |a: &Array2<f64>, b: &Array2<f64>| -> f64 { (a * b).sum() };
        let own: Vec<f64> = all.iter().map(|(_, values)| product(values, &target)).collect();
        let (size, mut best) = (product(&target, &target), None::<(f64, [usize; 2], [f64; 2])>);
        for i in 0..all.len() {
            for j in 0..i {
                let [ii, ij, jj] = [(i, i), (i, j), (j, j)].map(|(a, b)| product(&all[a].1, &all[b].1));
                let determinant = ii * jj - ij * ij;
                let numbers = [jj * own[i] - ij * own[j], ii * own[j] - ij * own[i]].map(|x| x / determinant);
                let left = size - numbers[0] * own[i] - numbers[1] * own[j];
                let is_nearer = best.as_ref().is_none_or(|(least, ..)| left.total_cmp(least) == Ordering::Less);
                if left.is_finite() && is_nearer {
                    best = Some((left, [i, j], numbers));
                }
            }
        }
        let (_, which, numbers) = best?;
        // One alone is another function, or counts otherwise, which is told as such.
        let counts = |k: usize| numbers[k].powi(2) * product(&all[which[k]].1, &all[which[k]].1);
        if counts(0).min(counts(1)) <= LEAST * size {
            return None;
        }
        let rounded =
            numbers.map(|x| ROUND.into_iter().find(|round| (x - round).abs() <= NEAR * round.abs()).unwrap_or(x));
        let values = |numbers: [f64; 2]| &all[which[0]].1 * numbers[0] + &all[which[1]].1 * numbers[1] - &of_right;
        let (numbers, by) =
            [rounded, numbers].into_iter().map(|own| (own, values(own))).find(|(_, by)| self.holds(by))?;
        let each = which.iter().zip(numbers).map(|(i, x)| match x {
            1.0 => all[*i].0.clone(),
            x => format!("{x:.4}·{}", all[*i].0),
        });
        let alpha = oai.map_or(String::new(), |oai| format!(" and α = {}", oai.alpha));
        let what = each.collect::<Vec<_>>().join(" + ");
        let said = format!("takes {what} of its gate g and up projection u{alpha}, for its activation");
        Some(Found { said: self.said(&said, None, None), by })
    }
}
