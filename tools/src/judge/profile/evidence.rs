//! Whether a candidate shows that it was computed in a precision that is coarser than what its values are stored in.
//!
//! Of many documented precisions, one or the other is nearest to values that are wrong, and where it rounds coarsely its noise hides
//! much. A candidate of that precision is nearer to its twin than to the reference in the plain one: roundings that are performed are
//! the same, but for a few. What is wrong is not: with an error e of its own, and n what the precision rounds, it is e from the plain
//! one and √(e² + n²) from the twin, for the two have nothing to do with each other.

use std::collections::BTreeMap;

use fixtures::names::at::At;
use reference::RoundingContract;

use crate::failure::Failure;
use crate::judge::compared::Compared;

/// A bit of 24: half as far. Of few values, one or the other is nearer by chance, and by less.
const BIT: f64 = 1.0 / 24.0;

impl Compared<'_> {
    /// Whether values somewhere are those of a precision rather than of the plain one in which they are stored, or it is nowhere
    /// coarser.
    pub fn shows(&self, found: RoundingContract, plain: RoundingContract) -> Result<bool, Failure> {
        let is_coarser = found.activations.unit_roundoff() > plain.activations.unit_roundoff();
        if !is_coarser && !found.narrows() {
            return Ok(true);
        }
        let bits = |contract: RoundingContract| -> Result<BTreeMap<At, f64>, Failure> {
            Ok(self.agreements(contract, 0)?.into_iter().map(|(at, agreement)| (at, agreement.bits)).collect())
        };
        let (of_found, of_plain) = (bits(found)?, bits(plain)?);
        Ok(of_found.iter().any(|(at, bits)| of_plain.get(at).is_some_and(|plain| *bits >= plain + BIT)))
    }
}
