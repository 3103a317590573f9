//! How much dynamic shared memory a block may have.

use reference::contract::{ContractError, require};

/// GPUs by their architecture, and the shared memory that a block may opt in to, in bytes (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
pub const TARGETS: [(&str, u32); 5] =
    [("sm_80", 163 << 10), ("sm_86", 99 << 10), ("sm_89", 99 << 10), ("sm_90", 227 << 10), ("sm_100", 227 << 10)];

/// The constraint `label`: that a device whose blocks may have `most` bytes can launch some with so many.
pub fn require_room(label: &'static str, bytes: u32, most: u32) -> Result<(), ContractError> {
    require(bytes <= most, label, "bytes of shared memory of a block", bytes, format!("at most {most}, this device's"))
}
