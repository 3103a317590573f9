//! The parity program.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::commands::cli::main()
}
