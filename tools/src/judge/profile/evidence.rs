//! Whether a candidate shows that it was computed in a precision that is coarser than what its values are stored in.
//!
//! Of many documented precisions, one or the other is nearest to values that are wrong, and where it rounds coarsely its noise hides
//! much. A candidate of that precision is nearer to its twin than to the reference in the plain one: roundings that are performed are
//! the same, but for a few. Behind many layers nothing is left of that; it is then as far from its twin as its twin's runs in other
//! orders are, and what is further off was computed in another precision, or is wrong.

use std::collections::BTreeMap;

use fixtures::names::at::At;
use reference::RoundingContract;

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::lens::Lens;

/// A bit of 24.
const BIT: f64 = 1.0 / 24.0;

/// What values say of a coarse precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// They are its twin's rather than the plain one's; or it rounds nowhere more coarsely.
    Shown,
    /// They may be its own.
    Possible,
    /// They are neither's.
    Contrary,
}

impl Compared<'_> {
    /// What values say of a precision, beside the plain one in which they are stored.
    pub fn evidence(&self, found: RoundingContract, plain: RoundingContract) -> Result<Evidence, Failure> {
        let is_coarser = found.activations.unit_roundoff() > plain.activations.unit_roundoff();
        if !is_coarser && !found.narrows() {
            return Ok(Evidence::Shown);
        }
        let own = self.bits(found)?;
        let of_plain: BTreeMap<At, f64> =
            self.agreements(plain)?.into_iter().map(|(at, agreement)| (at, agreement.bits)).collect();
        let is_nearer =
            |(at, (seen, _)): (&At, &(f64, f64))| of_plain.get(at).is_some_and(|plain| *seen >= plain + BIT);
        Ok(if own.iter().any(is_nearer) {
            Evidence::Shown
        } else if own.values().all(|(seen, expected)| *seen >= expected - BIT) {
            Evidence::Possible
        } else {
            Evidence::Contrary
        })
    }

    /// The share of bits at each site, in the layers that tell precisions apart, that are the twin's, and that are expected to be.
    fn bits(&self, contract: RoundingContract) -> Result<BTreeMap<At, (f64, f64)>, Failure> {
        let comparison = Comparison::new(Compared { steps: &self.steps[..1], ..*self }, contract);
        let model = comparison.model()?;
        let bits = |layers| comparison.verification(&model, &[Lens::Local], layers).bits();
        let first = bits(0..super::telling_layers(self.config))?;
        if first.is_empty() { bits(0..self.config.num_hidden_layers) } else { Ok(first) }
    }
}
