//! The program; its code is in the library.

use mswea_host::{cli, dataset, executor, plugin, secrecy};

fn main() -> std::process::ExitCode {
    // The process of a command, before it enters its sandbox, ends here or becomes its program.
    let mut args = std::env::args_os().skip(1);
    if args
        .next()
        .is_some_and(|arg| arg == executor::landlock::SUBCOMMAND)
    {
        executor::landlock::run(args);
    }
    // Called first, while there is only one thread, and before anything is started.
    secrecy::protect();
    let subcommand = std::env::args_os().nth(1).unwrap_or_default();
    if subcommand == dataset::PARQUET_SUBCOMMAND {
        return dataset::parquet_process();
    }
    if subcommand == plugin::compile::SUBCOMMAND {
        return match plugin::compile::run(std::env::args_os().skip(2)) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(_) => std::process::ExitCode::FAILURE,
        };
    }
    executor::adopt_orphans();
    cli::main()
}
