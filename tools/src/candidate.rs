//! A candidate: named activations that are put next to the reference's, live or from a dump.

use std::collections::HashMap;
use std::fmt;

use ndarray::Array2;
use reference::Site;
use reference::site::Extent;

use crate::failure::Failure;

/// A site in one of several forward passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    /// 0 is the prefill, or its first chunk.
    pub step: usize,
    /// The place.
    pub site: Site,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            0 => write!(f, "{}", self.site),
            step => write!(f, "step.{step}.{}", self.site),
        }
    }
}

/// Activations by site.
pub trait Candidate: Sync {
    /// Whether there is a value.
    fn has(&self, at: At) -> bool;

    /// The value, as the matrix that the reference holds at the site; an error if its shape is another.
    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure>;

    /// The choices at a site that has them; an error if their shape is another.
    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure>;
}

/// Activations in memory.
#[derive(Debug, Default)]
pub struct Live {
    /// Values by site.
    pub values: HashMap<At, Array2<f32>>,
    /// Choices by site.
    pub choices: HashMap<At, Array2<usize>>,
}

impl Candidate for Live {
    fn has(&self, at: At) -> bool {
        self.values.contains_key(&at) || self.choices.contains_key(&at)
    }

    fn matrix(&self, at: At, _: Extent) -> Result<Array2<f64>, Failure> {
        let value = self.values.get(&at).ok_or_else(|| Failure::new(format!("{at}: not captured")))?;
        Ok(value.mapv(f64::from))
    }

    fn choices(&self, at: At, _: Extent) -> Result<Array2<usize>, Failure> {
        self.choices.get(&at).cloned().ok_or_else(|| Failure::new(format!("{at}: not captured")))
    }
}
