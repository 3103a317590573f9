//! What a dump can show: which known mistakes it rules out, and where it would show a quiet gain.
//!
//! Both are computed. The candidate is put next to the reference with a mistake assumed; what no implementation with that
//! mistake computes rules it out. Where nothing does, the reference with the mistake and without it are put next to each other,
//! which says by how much the mistake moves what is compared.
//!
//! Reading order: [`stretch`], layers under one assumption after the other; [`mistakes`], the catalogue; [`experts`], gains of one
//! expert; [`gains`], those of a router, of all experts and of a head.

pub mod experts;
pub mod gains;
pub mod mistakes;
pub mod stretch;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use self::experts::ExpertsOf;
use self::gains::Gain;
use self::mistakes::Known;
use self::stretch::Stretch;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verification::Look;

/// What a dump can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Tokens that it shows, of all passes.
    pub tokens: usize,
    /// The known mistakes that the model gives room for.
    pub mistakes: Vec<Known>,
    /// The gain that is looked for, as a factor.
    pub gain: f64,
    /// The experts of each layer that has them.
    pub experts: Vec<ExpertsOf>,
    /// The gains of what is more than an expert, or none, in each layer.
    pub gains: Vec<Gain>,
}

/// Tries what it can show in some layers; `progress` is told, before each trial, how many of this round are left.
pub fn detect(
    comparison: &Comparison<'_>,
    layers: &Range<usize>,
    mut progress: impl FnMut(usize),
) -> Result<Detection, Failure> {
    let beside_twin = || Stretch::new(comparison, layers.clone(), Look { twin: true, ..Look::default() });
    let whole = comparison.tells_structure().then(beside_twin).transpose()?;
    Ok(Detection {
        tokens: comparison.compared.steps.iter().map(Vec::len).sum(),
        mistakes: mistakes::detect(comparison, layers, whole.as_ref(), &mut progress)?,
        gain: gains::GAIN,
        experts: experts::detect(comparison, layers, whole.as_ref(), &mut progress)?,
        gains: gains::detect(comparison, layers, whole.as_ref(), &mut progress)?,
    })
}
