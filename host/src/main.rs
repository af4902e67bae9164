//! The program; everything is in the library.

use mswea_host::{cli, executor, plugin};

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
    if std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == plugin::compile::SUBCOMMAND)
    {
        return match plugin::compile::run(std::env::args_os().skip(2)) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(_) => std::process::ExitCode::FAILURE,
        };
    }
    executor::adopt_orphans();
    cli::main()
}
