//! What the tests share.

pub mod device;
pub mod tensor_core;
pub mod values;
