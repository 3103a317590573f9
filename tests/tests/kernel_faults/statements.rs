//! The statements of a kernel that order its threads.

use std::collections::BTreeSet;

use optimized::kernel::{Kernel, Sources};

/// How a statement begins that orders threads, or copies, or tensor cores, and the threads that wait for them.
pub(super) const ORDERING: [&str; 9] = [
    "__syncthreads();",
    "__syncwarp();",
    "cp_async_wait<",
    "cp_async_commit();",
    "fence_for_warpgroups();",
    "warpgroup_begin(",
    "warpgroup_commit();",
    "warpgroup_wait<",
    "warpgroup_finish(",
];

/// A statement of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// A kernel's file and all that it includes.
pub(super) fn files_of(kernel: &Kernel, sources: &Sources) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut open = vec![kernel.file()];
    while let Some(file) = open.pop() {
        let text = sources.text(&file).unwrap_or_else(|| panic!("{file} is not embedded"));
        let included = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        open.extend(included.map(str::to_owned));
        files.insert(file);
    }
    files
}

/// The statements that order something in a kernel.
pub(super) fn statements_of(kernel: &Kernel, sources: &Sources) -> Vec<Statement> {
    let ordering = |line: &str| ORDERING.iter().any(|beginning| line.starts_with(beginning));
    let mut found = Vec::new();
    for file in files_of(kernel, sources) {
        let text = sources.text(&file).expect("it was read before").lines().map(str::trim).enumerate();
        let lines = text.filter(|(_, line)| ordering(line));
        found.extend(lines.map(|(i, line)| Statement { file: file.clone(), line: i + 1, text: line.to_owned() }));
    }
    found
}
