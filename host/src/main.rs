//! The program; everything is in the library.

use mswea_host::{cli, executor};

fn main() -> std::process::ExitCode {
    // First of all: while there are no other threads, and before anything is started.
    executor::secrecy::protect();
    executor::adopt_orphans();
    cli::main()
}
