//! A candidate next to the reference, and what is said of it.
//!
//! Reading order: [`candidate`], activations by site, live or from a dump; [`compared`], one with a model, on one
//! request; [`comparison`], the same with its precision; [`lens`], from which values the reference starts and where it
//! is put next to the candidate; [`verification`], all lenses on their way through a model; [`verdict`] and [`spread`],
//! what is said of a site; [`decoded`], the same for tokens.

pub mod agreement;
pub mod candidate;
mod chance;
pub mod chosen;
pub mod compared;
pub mod comparison;
mod computed;
pub mod decoded;
mod doubt;
pub mod exact;
pub mod exchanged;
pub(crate) mod floor;
pub mod found;
pub mod judging;
mod known;
pub(crate) mod legal;
pub mod lens;
mod likelihood;
pub(crate) mod loaded;
mod masked;
mod measured;
pub(crate) mod members;
pub mod percentile;
pub mod profile;
mod recover;
pub(crate) mod rechosen;
pub mod replay;
pub(crate) mod rerun;
mod routing;
mod slots;
pub mod spread;
pub mod stored;
pub mod significance;
pub mod structure;
pub(crate) mod substitution;
pub(crate) mod state;
pub(crate) mod track;
pub(crate) mod twin;
mod unknown;
pub mod verdict;
pub mod verification;
pub(crate) mod way;
