//! Models and dumps in object storage, from a server that the tests start.

#[path = "remote/objects.rs"]
mod objects;
#[path = "remote/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tests::server::Server;

const CASE: &str = "m2-gqa3-f32";

/// The folder of a built-in case.
fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden").join(name)
}

/// A server, and an empty cache.
struct Bench {
    server: Server,
    cache: TempDir,
}

impl Bench {
    /// It has the files of the usual case.
    fn new() -> Self {
        Bench::of(CASE)
    }

    /// It has the files of a built-in case in a bucket's folder.
    fn of(name: &str) -> Self {
        let mut objects = BTreeMap::new();
        add(&case(name), "bucket/case", &mut objects);
        Bench { server: Server::of(objects), cache: tempfile::tempdir().expect("a temporary folder") }
    }
}

fn add(folder: &Path, inside: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("readable");
        let inside = format!("{inside}/{}", name.to_string_lossy());
        if path.is_dir() {
            add(&path, &inside, found);
        } else {
            found.insert(inside, fs::read(&path).expect("readable"));
        }
    }
}
