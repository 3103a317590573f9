//! Functions of gate and up projection that have a number of their own, by the number that comes nearest.

use std::rc::Rc;

use reference::Real;
use reference::config::Coefficients;

use super::functions::{Function, silu};
use crate::diagnose::search::golden;

/// How often the interval around the best step is shortened: to 10⁻⁵ of itself.
const SECTIONS: usize = 24;

/// A function of the number, gate and up projection.
type OfNumber = Rc<dyn Fn(f64, f64, f64) -> f64>;

/// Functions with a number each.
pub(super) struct Family {
    /// Of the number.
    said: fn(f64) -> String,
    of: OfNumber,
    /// From, to, and steps between.
    range: (f64, f64, usize),
    is_log: bool,
}

/// Numbers that SwiGLU may have more, or that SwiGLU-OAI has otherwise.
pub(super) fn all(oai: Option<Coefficients>) -> Vec<Family> {
    let limits = |said: fn(f64) -> String, of: OfNumber| Family { said, of, range: (0.01, 100.0, 64), is_log: true };
    let activated = move |g: f64, u: f64| match oai {
        Some(Coefficients { alpha, beta, .. }) => (u + beta) * g * (alpha * g).sigmoid(),
        None => silu(g) * u,
    };
    let of_both: fn(f64) -> String =
        |l| format!("clamps its activation to both sides, to {l:.4}, and not what goes in");
    let of_above: fn(f64) -> String = |l| format!("clamps its activation from above, to {l:.4}, and not what goes in");
    let of_products = [
        limits(of_both, Rc::new(move |l, g, u| activated(g, u).clamp(-l, l))),
        limits(of_above, Rc::new(move |l, g, u| activated(g, u).min(l))),
    ];
    let plain = [
        Family {
            said: |a| format!("takes g·σ(a·g)·u with a = {a:.4}, for its activation"),
            of: Rc::new(|a, g, u| g * (a * g).sigmoid() * u),
            range: (0.05, 20.0, 48),
            is_log: true,
        },
        Family {
            said: |b| format!("adds {b:.4} to its up projection"),
            of: Rc::new(|b, g, u| silu(g) * (u + b)),
            range: (-4.0, 4.0, 32),
            is_log: false,
        },
    ];
    let of_inputs = limits(
        |l| format!("clamps its gate from above and its up projection to both sides, to {l:.4}"),
        Rc::new(move |l, g, u| activated(g.min(l), u.clamp(-l, l))),
    );
    let of_oai = oai.map(|Coefficients { limit, beta, .. }| Family {
        said: |a| format!("multiplies the gate in its sigmoid by α = {a:.4}"),
        of: Rc::new(move |a, g, u| {
            let (g, u) = (g.min(limit), u.clamp(-limit, limit));
            (u + beta) * g * (a * g).sigmoid()
        }),
        range: (0.05, 20.0, 48),
        is_log: true,
    });
    let plain = plain.into_iter().filter(|_| oai.is_none());
    plain.chain(of_oai).chain([of_inputs]).chain(of_products).collect()
}

impl Family {
    /// The function with the number by which least is off.
    pub(super) fn nearest(&self, off: impl Fn(&Function) -> f64) -> Function {
        let (from, to, steps) = self.range;
        let number = |place: f64| {
            if self.is_log { from * (to / from).powf(place) } else { from + (to - from) * place }
        };
        let function = |place: f64| {
            let (number, of) = (number(place), self.of.clone());
            Function::of_both((self.said)(number), move |g, u| of(number, g, u))
        };
        let at = |i: usize| i as f64 / steps as f64;
        let grid: Vec<f64> = (0..=steps).map(|i| off(&function(at(i)))).collect();
        let least = (0..=steps).min_by(|a, b| grid[*a].total_cmp(&grid[*b])).unwrap_or_default();
        let (low, high) = (at(least.saturating_sub(1)), at((least + 1).min(steps)));
        function(golden::least((low, high), SECTIONS, |place| off(&function(place))).1)
    }
}
