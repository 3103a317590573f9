//! Whether a candidate shows that it was computed in a precision that is coarser than what its values are stored in.
//!
//! Of many documented precisions, one or the other is nearest to values that are wrong, and where it rounds coarsely its noise hides
//! much. A candidate of that precision is nearer to its twin than to the reference in the plain one: roundings that are performed are
//! the same, but for a few. What is wrong is not: with an error e of its own, and n what the precision rounds, it is e from the plain
//! one and √(e² + n²) from the twin, for the two have nothing to do with each other.

use std::collections::BTreeMap;

use reference::{RoundingContract, Site};

use crate::failure::Failure;
use crate::judge::compared::Compared;

/// A bit of 24: half as far. Of few values, one or the other is nearer by chance, and by less.
const BIT: f64 = 1.0 / 24.0;

/// Forward passes that are looked at. A row that is near by chance agrees in some eight more bits of 24: in one of nine that is less than a
/// bit of all.
const PASSES: usize = 9;

impl Compared<'_> {
    /// Whether values somewhere are those of a precision rather than of the plain one in which they are stored, or it is nowhere
    /// coarser.
    pub fn shows(&self, found: RoundingContract, plain: RoundingContract) -> Result<bool, Failure> {
        let is_coarser = found.activations.unit_roundoff() > plain.activations.unit_roundoff();
        if !is_coarser && !found.narrows() {
            return Ok(true);
        }
        let bits = |contract: RoundingContract| -> Result<BTreeMap<Site, f64>, Failure> {
            let mut of_sites: BTreeMap<Site, (f64, usize)> = BTreeMap::new();
            for (at, agreement) in self.agreements_until(PASSES, contract, 0)? {
                let (bits, count) = of_sites.entry(at.site).or_default();
                *bits += agreement.bits * agreement.count as f64;
                *count += agreement.count;
            }
            Ok(of_sites.into_iter().map(|(site, (bits, count))| (site, bits / count.max(1) as f64)).collect())
        };
        let (of_found, of_plain) = (bits(found)?, bits(plain)?);
        Ok(of_found.iter().any(|(site, bits)| of_plain.get(site).is_some_and(|plain| *bits >= plain + BIT)))
    }
}
