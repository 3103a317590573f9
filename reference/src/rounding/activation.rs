//! Where an activation of a feed-forward network rounds.

use super::{ActivationRound, RoundingContract};
use crate::Rounding;

impl RoundingContract {
    /// The rounding between two steps of an activation.
    pub fn within_activation(&self) -> Rounding {
        match self.swiglu {
            ActivationRound::Each | ActivationRound::Sigmoid => self.stored(),
            ActivationRound::Stored | ActivationRound::Once => Rounding::NONE,
        }
    }

    /// The rounding of the sigmoid within SiLU.
    pub fn within_silu(&self) -> Rounding {
        match self.swiglu {
            ActivationRound::Sigmoid => self.stored(),
            ActivationRound::Each | ActivationRound::Stored | ActivationRound::Once => Rounding::NONE,
        }
    }

    /// The rounding of projections that an activation follows.
    pub fn before_activation(&self) -> Rounding {
        match self.swiglu {
            ActivationRound::Each | ActivationRound::Sigmoid | ActivationRound::Stored => self.stored(),
            ActivationRound::Once => Rounding::NONE,
        }
    }
}
