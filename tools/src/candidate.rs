//! A candidate: named activations that are put next to the reference's, live or from a dump.

use std::collections::HashMap;

use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::Site;
use reference::site::Extent;

use crate::failure::Failure;

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

/// Takes the values of the first forward pass.
impl Capture for Live {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        self.values.insert(At { step: 0, site }, value);
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        self.choices.insert(At { step: 0, site }, chosen);
    }
}

/// Activations on disk.
impl Candidate for Sited {
    fn has(&self, at: At) -> bool {
        Sited::has(self, at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        Ok(Sited::matrix(self, at, extent)?)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        Ok(Sited::choices(self, at, extent)?)
    }
}
