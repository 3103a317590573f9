//! The operators, a file each.

mod linear;
