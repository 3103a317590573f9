//! Which known mistake makes a candidate what it is.

pub mod catalogue;
pub mod diagnosis;
mod pattern;
#[cfg(feature = "lapack")]
mod rank;
mod sizes;
mod tokens;
