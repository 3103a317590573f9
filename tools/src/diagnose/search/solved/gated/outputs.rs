//! Networks' outputs that are rounded before they are added up: once they are weighed, or before.
//!
//! ```text
//! y = Σₙ ρ(cₙ·Dₙ·hₙ)        or y = Σₙ cₙ·ρ(Dₙ·hₙ)        for each ρ among types
//! ```

use ndarray::Array2;
use reference::Storage;

use super::{Found, Gated};

/// Types that are narrower than what outputs are stored in, and their names.
const TYPES: [(Storage, &str); 2] = [(Storage::Bf16, "bf16"), (Storage::F16, "f16")];

impl Gated<'_, '_, '_> {
    /// The type to which outputs are rounded, if that explains all that is off.
    pub(super) fn of_outputs(&self, right: &[Array2<f64>]) -> Option<Found> {
        let ways = TYPES.into_iter().flat_map(|to| [true, false].map(|weighed| (to, weighed)));
        ways.filter(|((to, _), _)| to.unit_roundoff() > self.bench.unit()).find_map(|((to, name), weighed)| {
            let mut by = Array2::zeros(self.apart.dim());
            for (own, hidden) in self.networks.iter().zip(right) {
                let outputs = hidden.dot(&own.down.t());
                for ((row, counts), output) in own.rows.iter().zip(outputs.rows()) {
                    let rounding = |x: f64| {
                        if weighed { to.nearest(counts * x) - counts * x } else { counts * (to.nearest(x) - x) }
                    };
                    by.row_mut(*row).scaled_add(1.0, &output.mapv(rounding));
                }
            }
            let when = if weighed { "once it is multiplied by the expert's weight" } else { "before it is weighed" };
            let said = format!("rounds its output to {name}, {when}");
            self.comes_near(&by).then(|| Found { said: self.said(&said, None, None), by })
        })
    }
}
