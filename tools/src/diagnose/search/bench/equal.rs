//! How many values are the candidate's, under one change or another.

use ndarray::{Array2, Zip};

use super::Bench;
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::share::{SIGNIFICANT, Share};
use crate::failure::Failure;

impl Bench<'_, '_> {
    /// Values that are the candidate's, with more assumed.
    pub(in crate::diagnose::search) fn share_under(&self, more: &[Assumed]) -> Result<Share, Failure> {
        Ok(self.equal(&self.twin_under(more)?))
    }

    /// Whether values are the candidate's that were not, by more than what becomes so by chance.
    pub(in crate::diagnose) fn is_more(&self, values: &Array2<f64>) -> bool {
        self.is_more_by(SIGNIFICANT, values)
    }

    /// The same by so many standard deviations of what becomes so by chance.
    pub(in crate::diagnose::search) fn is_more_by(&self, deviations: f64, values: &Array2<f64>) -> bool {
        let [won, lost] = self.won_and_lost(values);
        won as f64 - lost as f64 > deviations * ((won + lost) as f64).sqrt()
    }

    /// Whether that is so, or some few are, and none is not that was.
    pub(in crate::diagnose) fn has_more(&self, values: &Array2<f64>) -> bool {
        matches!(self.won_and_lost(values), [won, 0] if won > 0) || self.is_more(values)
    }

    /// How far a change may be off that makes these values of the twin's, as a share of itself and in three standard deviations: as many
    /// values are won as it is large, and as many may be by chance as are won, lost, or still others.
    pub(in crate::diagnose::search) fn doubt_of(&self, values: &Array2<f64>) -> f64 {
        let [won, lost] = self.won_and_lost(values);
        let Share { count, equal } = self.equal(values);
        if won > lost {
            3.0 * ((won + lost + count - equal) as f64).sqrt() / (won - lost) as f64
        } else {
            f64::INFINITY
        }
    }

    /// How many values are the candidate's that were not, and the other way round.
    fn won_and_lost(&self, values: &Array2<f64>) -> [usize; 2] {
        if values.dim() != self.candidate.dim() {
            return [0; 2];
        }
        let (mut won, mut lost) = (0_usize, 0_usize);
        Zip::from(&self.candidate).and(&self.twin.computed).and(values).for_each(|own, before, after| {
            won += usize::from(own == after && own != before);
            lost += usize::from(own != after && own == before);
        });
        [won, lost]
    }

    /// Values that are the candidate's.
    pub(in crate::diagnose) fn equal(&self, values: &Array2<f64>) -> Share {
        let equal = self.candidate.iter().zip(values).filter(|(a, b)| a == b).count();
        Share { count: self.candidate.len(), equal }
    }
}
