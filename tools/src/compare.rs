//! Two dumps side by side, without a reference: which sites, and how far apart.

pub mod difference;
pub mod kind;
pub mod metrics;
pub mod selection;
