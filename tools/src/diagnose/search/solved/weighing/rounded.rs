//! What attention computes from fewer bits than it should: queries, keys, values, scores, or what values are weighed by.
//!
//! ```text
//! o = Σⱼ ρ(pⱼ)·vⱼ        o = Σⱼ ρ(eⱼ)·vⱼ / Σⱼ eⱼ        with eⱼ = exp(sⱼ − maxₖ sₖ), for each ρ among types
//! ```

use ndarray::{Array1, Array2};
use reference::Storage;

use super::heads::Heads;
use super::ways::is_row;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Tokens by which it is found, and how many of them may have another bit somewhere.
const TOKENS: usize = 16;
const OTHERS: usize = 4;

/// Types, and their names.
const TYPES: [(Storage, &str); 3] = [(Storage::Bf16, "bf16"), (Storage::F16, "f16"), (Storage::E4m3, "E4M3")];

/// What is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounded {
    Probabilities,
    Exponentials,
    Scores,
    /// Queries, keys or values, or several of these.
    Inputs(&'static [usize]),
}

const ALL: [(Rounded, &str); 9] = [
    (Rounded::Probabilities, "probabilities"),
    (Rounded::Exponentials, "exponentials, by which values are weighed before they are divided by their sum,"),
    (Rounded::Scores, "scores"),
    (Rounded::Inputs(&[0]), "queries"),
    (Rounded::Inputs(&[1]), "keys"),
    (Rounded::Inputs(&[2]), "values"),
    (Rounded::Inputs(&[0, 1]), "queries and keys"),
    (Rounded::Inputs(&[1, 2]), "keys and values"),
    (Rounded::Inputs(&[0, 1, 2]), "queries, keys and values"),
];

/// Of some rows that are off.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(TOKENS).max(1)).collect();
    let types = || TYPES.into_iter().filter(|(to, _)| to.unit_roundoff() > bench.unit());
    let is = |(way, to): (&Way, Storage), row: usize| is_row(row, way.output(heads, to, row).view(), bench);
    for (rounded, what) in ALL {
        for (to, name) in types() {
            let way = Way::of(heads, rounded, to);
            let others = some.iter().filter(|row| !is((&way, to), **row)).count();
            if OTHERS * others > some.len() {
                continue;
            }
            let mut values = bench.ideal.clone();
            for row in rows {
                values.row_mut(*row).assign(&way.output(heads, to, *row));
            }
            return Some(Solution::new(vec![format!("attention's {what} are rounded to {name}")], values));
        }
    }
    None
}

/// What is rounded, and attention of rounded inputs.
struct Way {
    rounded: Rounded,
    of_inputs: Option<Heads>,
}

impl Way {
    fn of(heads: &Heads, rounded: Rounded, to: Storage) -> Self {
        let of_inputs = match rounded {
            Rounded::Inputs(which) => {
                let mut inputs: [Array2<f64>; 3] = heads.inputs().clone();
                for i in which {
                    inputs[*i].mapv_inplace(|x| to.nearest(x));
                }
                Some(heads.with(inputs))
            }
            _ => None,
        };
        Way { rounded, of_inputs }
    }

    /// What the site has of a token.
    fn output(&self, heads: &Heads, to: Storage, row: usize) -> Array1<f64> {
        let (span, own) = (heads.spans[row], heads.sums(row));
        let round = |x: f64| to.nearest(x);
        let of_inputs = self.of_inputs.as_ref().map(|heads| heads.sums(row));
        let context = heads.context(row, &own, |head, sums| {
            if let Some(of_inputs) = &of_inputs {
                return of_inputs[head].right(span);
            }
            if self.rounded == Rounded::Scores {
                return sums.weighed(span, &sums.scores().mapv(round)).0;
            }
            let (mean, weights) = sums.weighed(span, sums.scores());
            let largest = weights.iter().copied().fold(0.0, f64::max);
            let share = if self.rounded == Rounded::Exponentials { largest } else { 1.0 };
            let more = weights.mapv(|p| share * round(p / share) - p);
            mean + sums.total(span, &more)
        });
        heads.output(context.view())
    }
}
