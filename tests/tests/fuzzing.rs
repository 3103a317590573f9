//! `tests/fuzz`: what the search for bad files found, and the files that it starts from, are given to their readers.

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use tests::repository;

/// The seeds of a target.
fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = repository::path("tests/fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("the folder can be listed").path()).collect()
}

#[test]
fn every_seed_is_read_or_refused() {
    let mut found = Vec::new();
    for (name, target) in fuzz::TARGETS {
        for seed in seeds(name) {
            let bytes = fs::read(&seed).expect("a file");
            if catch_unwind(|| target(&bytes)).is_err() {
                found.push(seed);
            }
        }
    }
    assert_eq!(found, Vec::<PathBuf>::new(), "a reader panics");
}

#[test]
fn every_target_has_a_program_and_seeds_which_are_small() {
    let names = fuzz::TARGETS.map(|(name, _)| name);
    let programs = repository::files("tests/fuzz/src/bin", &["rs"]);
    assert_eq!(programs.iter().map(|path| repository::stem(path)).collect::<Vec<_>>(), names);
    let size = |name: &str| -> u64 { seeds(name).iter().map(|seed| fs::metadata(seed).expect("a file").len()).sum() };
    let sizes = names.map(size);
    assert!(!sizes.contains(&0), "{names:?}: {sizes:?} bytes, expected some for each");
    assert!(sizes.iter().sum::<u64>() < 1 << 16, "{names:?}: {sizes:?} bytes, expected less than 64 KiB in all");
}
