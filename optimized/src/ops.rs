//! Launches of the kernels. What an operator computes is in `reference/src/ops`, how is in `kernels`.

pub mod add_rms_norm;
pub mod linear;
pub mod rms_norm;

use crate::error::{Error, require};

/// A dimension as kernels take it.
fn dimension(op: &'static str, label: &'static str, quantity: &'static str, value: usize) -> Result<i32, Error> {
    let narrow = i32::try_from(value);
    require(narrow.is_ok(), (op, label), (quantity, value), "below 2³¹")?;
    Ok(narrow.unwrap_or(i32::MAX))
}

/// A count of blocks or bytes as launches take it.
fn count(value: usize) -> u32 {
    u32::try_from(value).expect("dimensions are below 2³¹")
}
