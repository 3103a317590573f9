//! A number of the configuration that a mistake changes.

use reference::config::Config;
use reference::{LayerSite, Site};

use crate::diagnose::catalogue::mistake::Mistake;

/// A number, and where it is looked for.
pub(super) struct Parameter {
    pub(super) kind: &'static Mistake,
    /// Its letter or name.
    pub(super) name: &'static str,
    /// The field of the semantics that sets it.
    pub(super) field: &'static str,
    pub(super) touches: &'static [LayerSite],
    /// Sites outside of layers.
    pub(super) outside: &'static [Site],
    /// The least and the largest that is tried, and how many in between.
    pub(super) range: (f64, f64, usize),
    /// Whether these are at equal quotients.
    pub(super) is_log: bool,
    /// What the configuration says; none where the model has no such number.
    pub(super) configured: fn(&Config) -> Option<f64>,
}
