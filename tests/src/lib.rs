//! What the tests share.

pub mod bounds;
pub mod device;
pub mod tensor_core;
pub mod values;
