//! Room for work: whether it can be done within a limit on anonymous memory.

use bytesize::ByteSize;

use crate::failure::Failure;

/// Refuses work that needs more than there may be, by an estimate.
pub(super) fn require_room(memory: ByteSize, what: &str, need: u64) -> Result<(), Failure> {
    if need <= memory.as_u64() {
        return Ok(());
    }
    let (need, memory) = (ByteSize::b(need).display().iec(), memory.display().iec());
    let problem =
        format!("--memory {memory}: {what} needs about {need} of anonymous memory, by an estimate from shapes");
    Err(Failure::new(problem).help("allow more, or give a shorter prompt"))
}
