//! `punctual`: what was typed, and what it means.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual::cli::main()
}
