//! What the reference chooses at a site, from the candidate's own inputs.

use ndarray::Array2;
use reference::{RoundingContract, Site};

use super::lens::Lens;
use super::substitution::Substitution;
use super::verification::Verification;
use crate::failure::Failure;

/// Choices of one pass: all tokens' of one chooser, then of the next.
pub(crate) struct Rechosen {
    /// The step of the pass.
    pub(crate) step: usize,
    pub(crate) tokens: usize,
    /// The reference's.
    pub(crate) own: Array2<usize>,
    pub(crate) candidate: Array2<usize>,
}

impl Verification<'_> {
    /// The choices at a site of each pass in which the candidate shows those of all tokens.
    pub(crate) fn rechosen(&self, contract: RoundingContract, at: Site) -> Result<Vec<Rechosen>, Failure> {
        let mut found = Vec::new();
        self.each_advance(contract, None, |loaded, advance| {
            let mut probe = Substitution::new(Lens::Local, loaded, &contract, None);
            advance(&mut probe)?;
            if let Some(failure) = probe.failure {
                return Err(failure);
            }
            let seen = probe.choices.into_iter().find(|seen| seen.site == at && seen.shown.is_none());
            found.extend(seen.map(|seen| Rechosen {
                step: loaded.step(),
                tokens: seen.tokens,
                own: seen.chosen,
                candidate: seen.candidate,
            }));
            Ok(())
        })?;
        Ok(found)
    }
}
