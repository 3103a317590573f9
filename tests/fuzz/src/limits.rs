//! What an input may take: memory beside its own bytes, and time.

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use rustix::time::{ClockId, clock_gettime};

use crate::Target;

/// Bytes that a reader may hold at once, beside the input.
const MOST_MEMORY: usize = 64 << 20;

/// Processor time that a reader may take, on all threads together: other work on the machine does not count.
const MOST_TIME: Duration = Duration::from_secs(1);

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Calls a target within the limits. More memory than that is refused to it, which aborts the program, as does a panic;
/// either way the fuzzer keeps the input.
pub fn bounded(bytes: &[u8], target: Target) {
    let before = used();
    MEMORY.set_limit(MEMORY.allocated() + MOST_MEMORY).expect("the limit is above what is allocated");
    target(bytes);
    MEMORY.set_limit(usize::MAX).expect("there is no larger limit");
    let taken = used().saturating_sub(before);
    assert!(taken <= MOST_TIME, "{} bytes took {taken:?}, expected at most {MOST_TIME:?}", bytes.len());
}

/// Processor time of all threads since the program began.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("it counts up from zero")
}
