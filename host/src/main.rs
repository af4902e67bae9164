//! The program; everything is in the library.

use mswea_host::{cli, executor};

fn main() -> std::process::ExitCode {
    // A command's own process on its way into its sandbox: nothing of what follows is for it.
    let mut args = std::env::args_os().skip(1);
    if args
        .next()
        .is_some_and(|arg| arg == executor::landlock::SUBCOMMAND)
    {
        executor::landlock::run(args);
    }
    // First of all: while there are no other threads, and before anything is started.
    executor::secrecy::protect();
    executor::adopt_orphans();
    cli::main()
}
