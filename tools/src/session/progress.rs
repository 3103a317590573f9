//! How far work has come, as it is told to whoever waits for it.

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
    /// Something that is of interest to who waits.
    Note(&'a str),
    /// The work is done.
    Ends,
}

/// Who is told.
pub type Watcher<'w> = dyn FnMut(Progress<'_>) + 'w;
