//! What the emulated device finds wrong.

use std::fmt;

/// A kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Two threads of a block touch a byte of shared memory, one of them writes, and nothing orders them.
    SharedRace,
    /// Two blocks of a launch, or two threads of a block, touch a byte of global memory, one of them writes, and
    /// nothing orders them. Within a block, only what follows a write is found.
    GlobalRace,
    /// Shared memory is read that nothing has written.
    UninitialisedShared,
    /// Global memory is read, or copied to the host, that nothing has written.
    UninitialisedGlobal,
    /// An access beyond the end, or before the beginning, of an allocation or of the block's shared memory.
    OutOfBounds,
    /// An access to freed memory.
    UseAfterFree,
    /// An access to memory that the device does not have.
    WildAccess,
    /// An address that is no multiple of what the access needs.
    Misaligned,
    /// The launch gives less shared memory than the kernel declares.
    SharedTooSmall,
    /// Some threads of the block, or of a warp, do not come to a barrier.
    DivergentBarrier,
    /// Lanes of a warp come to different collectives.
    DivergentCollective,
    /// A lane's mask does not name it, or differs from the others'.
    WrongMask,
    /// A mask names a lane that is not there, or a shuffle reads from one that takes no part.
    AbsentLane,
    /// Bytes are touched that an asynchronous copy is still writing, or a copy is never waited for.
    CopyInFlight,
    /// Sums, or factors, are touched that a warpgroup's product is still at, or a product is never waited for.
    ProductInFlight,
    /// A warpgroup's product has factors, or sums, that no fence hands over to the tensor cores.
    MissingFence,
    /// An instruction that the device does not have.
    NotOnThisDevice,
    /// All threads wait.
    Deadlock,
    /// The host has no memory for the threads' stacks.
    StackExhausted,
}

/// Each kind with the words that begin its line in a report, as `emulator/report.cpp` has them.
const NAMES: [(Fault, &str); 19] = [
    (Fault::SharedRace, "race in shared memory"),
    (Fault::GlobalRace, "race in global memory"),
    (Fault::UninitialisedShared, "uninitialised shared memory"),
    (Fault::UninitialisedGlobal, "uninitialised global memory"),
    (Fault::OutOfBounds, "out of bounds"),
    (Fault::UseAfterFree, "use after free"),
    (Fault::WildAccess, "wild access"),
    (Fault::Misaligned, "misaligned access"),
    (Fault::SharedTooSmall, "too little shared memory"),
    (Fault::DivergentBarrier, "divergent barrier"),
    (Fault::DivergentCollective, "divergent collective"),
    (Fault::WrongMask, "wrong mask"),
    (Fault::AbsentLane, "absent lane"),
    (Fault::CopyInFlight, "copy in flight"),
    (Fault::ProductInFlight, "product in flight"),
    (Fault::MissingFence, "missing fence"),
    (Fault::NotOnThisDevice, "not on this device"),
    (Fault::Deadlock, "deadlock"),
    (Fault::StackExhausted, "no memory for stacks"),
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(fault, _)| fault == self).map_or("fault", |(_, name)| name);
        f.write_str(name)
    }
}

/// A line of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Name of the file, without a folder.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub fault: Fault,
    /// Where it shows: the line, then the lines that it was inlined into. Empty where there is no line.
    pub places: Vec<Place>,
    /// The finding as it was reported, in one line.
    pub text: String,
}

/// The findings of a launch or a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Reads a report as the emulated driver writes it.
    pub(crate) fn parse(text: &str) -> Self {
        Self { findings: text.lines().filter_map(Finding::parse).collect() }
    }

    /// Whether there is a finding of this kind at this line, be it inlined elsewhere.
    pub fn has(&self, fault: Fault, file: &str, line: u32) -> bool {
        let here = |place: &Place| place.file == file && place.line == line;
        self.findings.iter().any(|finding| finding.fault == fault && finding.places.iter().any(here))
    }
}

impl Finding {
    /// Reads `kind at file:line in file:line: details`; other lines are no findings.
    fn parse(line: &str) -> Option<Self> {
        let (fault, name) = NAMES.iter().find(|(_, name)| line.starts_with(name))?;
        let rest = line[name.len()..].strip_prefix(" at ")?;
        let place = |text: &str| {
            let (file, line) = text.split_once(':')?;
            Some(Place { file: file.to_owned(), line: line.parse().ok()? })
        };
        let (places, _) = rest.split_once(": ")?;
        Some(Self { fault: *fault, places: places.split(" in ").filter_map(place).collect(), text: line.to_owned() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.findings.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "\n" }, finding.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_read_with_the_lines_that_it_was_inlined_into() {
        let report =
            Report::parse("race in shared memory at reduce.cuh:30 in rms_norm.cu:41: thread 0: byte 4\nand 3 more\n");
        assert_eq!(report.findings.len(), 1);
        assert!(report.has(Fault::SharedRace, "reduce.cuh", 30) && report.has(Fault::SharedRace, "rms_norm.cu", 41));
        assert!(!report.has(Fault::SharedRace, "reduce.cuh", 41) && !report.has(Fault::GlobalRace, "reduce.cuh", 30));
    }

    #[test]
    fn a_finding_without_a_line_is_read_too() {
        let report = Report::parse(
            "uninitialised global memory at the copy to the host: byte 0 of 8, which nothing has written",
        );
        assert_eq!(report.findings[0].fault, Fault::UninitialisedGlobal);
        assert!(report.findings[0].places.is_empty());
    }
}
