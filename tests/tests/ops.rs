//! The operators, a file each.

mod add_rms_norm;
mod linear;
mod rms_norm;
