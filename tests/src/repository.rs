//! The project's own files, for the tests that hold its rules.

use std::fs;
use std::path::{Path, PathBuf};

use fixtures::golden::Golden;

/// The members of the workspace.
pub const MEMBERS: [&str; 5] = ["reference", "fixtures", "optimized", "tools", "tests"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a member of the workspace").to_owned()
}

/// A file's place, by its path from the project's root.
pub fn path(path: &str) -> PathBuf {
    root().join(path)
}

/// The golden cases, with what the original computed of each: the program has that of a few.
pub fn golden() -> Golden {
    Golden::open(&path("fixtures/golden"))
}

/// The text of a file, by its path from the project's root; `None` if there is no such file.
pub fn text(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// The files below a folder whose names end in one of `extensions`, as paths from the project's root, sorted.
pub fn files(folder: &str, extensions: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{folder}: {error}"));
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            found.extend(files(&path, extensions));
        } else if extensions.iter().any(|extension| path.ends_with(&format!(".{extension}"))) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file's name without folders and extension.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().expect("a path has a last part");
    name.split('.').next().expect("a name has a first part")
}
