//! How far work has come, as it is told to whoever waits for it.

use bytesize::ByteSize;
use fixtures::checkpoint::Checkpoint;

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Work of so many steps begins.
    Begins {
        /// The work, in words.
        what: &'a str,
        /// Its steps.
        steps: usize,
    },
    /// So many steps are left, which was not known before.
    Left(usize),
    /// A step is done.
    Step,
    /// Where the work is, in words.
    Place(&'a str),
    /// Something that is of interest to who waits.
    Note(&'a str),
    /// The work is done.
    Ends,
}

/// Who is told.
pub type Watcher<'w> = dyn FnMut(Progress<'_>) + 'w;

/// Where work is, and how much of a checkpoint's weights was read.
pub(super) fn read_of(place: &str, checkpoint: &Checkpoint) -> String {
    match checkpoint.looked_at() {
        0 => place.to_owned(),
        bytes => format!("{place}, {} of weights read", ByteSize::b(bytes).display().iec()),
    }
}
