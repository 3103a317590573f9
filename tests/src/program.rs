//! The parity program, where the tests find it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::commands::cli::main()
}
