//! The parity program.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::cli::main()
}
