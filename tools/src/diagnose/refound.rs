//! The precision of a candidate, found again once a mistake is known: while it was looked for, the mistake was in the values.

use reference::RoundingContract;
use reference::profiles::Profile;

use super::catalogue::assumption::Assumption;
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::profile::{Sought, find};

/// By what share more values have to be the twin's, as a mean over the sites that are shown: where one of fifty has a tenth more. Another
/// mode has some percents at every site of its kind, and orders of sums a hundredth of one.
const MORE: f64 = 0.002;

impl Comparison<'_> {
    /// Another mode of the profile that was found, or another profile of its engine, under which clearly more values are the twin's.
    pub(super) fn refound(&self, under: &Assumption) -> Result<Option<RoundingContract>, Failure> {
        if !self.is_found || !self.tells_structure() || !under.is_reading() {
            return Ok(None);
        }
        let compared = Compared { semantics: under.semantics, ..self.compared };
        let RoundingContract { activations, saved, autocast, stream, .. } = self.contract;
        let engine = Some(Profile::closest(&self.contract).engine);
        let found = find(&compared, &Sought { activations, saved, autocast: autocast.results(), stream, engine })?;
        let own = compared.agreement_at(self.contract, |_| true)?;
        let (Some(found), Some((share, _))) = (found, own) else { return Ok(None) };
        Ok((found.share > share + MORE).then_some(found.contract))
    }
}
