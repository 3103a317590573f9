//! The program as it is used: what it prints, writes and returns.

mod account;
mod bad_files;
mod bad_input;
mod bench;
mod bisect;
mod book;
mod claims;
mod coverage;
mod demo;
mod github;
mod help;
mod jobs;
mod memory;
mod mistakes;
mod operators;
mod outputs;
mod pages;
mod pictures;
mod pixels;
mod prompt;
mod quiet;
mod ranks;
mod reports;
mod resume;
mod runs;
mod scales;
mod shards;
mod speculate;
mod stopped;
mod tables;
mod tune;
mod typing;
mod written;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of a built-in case.
pub(crate) fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden").join(name)
}

/// Changes a tensor's bytes in a .safetensors file; whether the file has it.
pub(crate) fn change_tensor(file: &Path, tensor: &str, change: impl FnOnce(&mut [u8])) -> bool {
    let mut bytes = fs::read(file).expect("readable");
    let header = 8 + usize::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let listed: serde_json::Value = serde_json::from_slice(&bytes[8..header]).expect("JSON");
    let Some(offsets) = listed.get(tensor).map(|tensor| &tensor["data_offsets"]) else { return false };
    let at = |i: usize| header + usize::try_from(offsets[i].as_u64().expect("a number")).expect("in memory");
    change(&mut bytes[at(0)..at(1)]);
    fs::write(file, bytes).expect("writable");
    true
}

/// What the program said.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Without the line that tells the peak of memory, which is another in every run.
    stderr: String,
    peak: String,
}

/// The program, ready to run in a folder.
fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_program"));
    command.current_dir(folder).args(arguments);
    for variable in ["PARITY_NVRTC", "LD_LIBRARY_PATH", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program in a folder.
pub(crate) fn parity(folder: &Path, arguments: &[&str]) -> Ran {
    Ran::of(program(folder, arguments).output().expect("the program was built"))
}

/// The names in a folder, in order.
fn listing(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let is_figure = |line: &&str| line.starts_with("peak of anonymous memory: ");
        let (peak, stderr) = text(output.stderr).split_inclusive('\n').partition(is_figure);
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr, peak }
    }

    /// Whether the error says so.
    fn says(&self, words: &str) -> bool {
        self.said().join(" ").contains(words)
    }

    /// The error's words, wherever its lines are broken: that depends on the paths in it.
    fn said(&self) -> Vec<&str> {
        self.stderr.split_whitespace().filter(|word| *word != "│").collect()
    }
}

/// It was refused, with these words.
pub(crate) fn assert_refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(2), "{ran}");
    for words in words {
        assert!(ran.says(words), "{words}: {ran}");
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or_else(|| "killed".to_owned(), |code| format!("exit code {code}"));
        write!(f, "{code}\n{}", self.stdout)?;
        if self.stderr.is_empty() { Ok(()) } else { write!(f, "--- stderr\n{}", self.stderr) }
    }
}

/// A snapshot of a run, with figures that depend on the machine's arithmetic left out.
macro_rules! assert_ran {
    ($ran:expr, @$expected:literal) => {
        insta::with_settings!({filters => crate::cli::filters()}, { insta::assert_snapshot!($ran, @$expected) })
    };
    ($ran:expr, $name:expr) => {
        insta::with_settings!({filters => crate::cli::filters(), prepend_module_to_snapshot => false, omit_expression => true},
            { insta::assert_snapshot!($name, $ran) })
    };
}
use assert_ran;

/// Magnitudes stay where they are exact by nature, such as 0.
fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r"[^ ]*/fixtures/golden", "golden"),
        (r"[-+]?\d\.\d+e-?[1-9]\d*", "[figure]"),
        (r"ratio [\d.]+", "ratio [figure]"),
        (r"\d+\.\d{6}\b", "[figure]"),
        (r" +\d+ %", " [share]"),
        (r"bounds at most \d\S+", "bounds at most [figure]"),
        (r"/tmp/[^ /]+|/var/[^ ]+/T/[^ /]+", "[folder]"),
    ]
}
