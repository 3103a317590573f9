//! The parity program, where the tests find it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::cli::main()
}
