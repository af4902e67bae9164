//! The command line: the flags ([`args`]), the commands (one module each), and the output
//! ([`front`]).
//!
//! Only this module and those below it print. Stdout is data, stderr is for users.

mod again;
pub mod args;
mod atif;
mod batch;
mod configs;
mod demo;
mod doctor;
mod dotenv;
pub mod exit;
mod export;
mod finished;
mod first_steps;
pub mod front;
mod gc;
mod inspect;
mod limits;
mod on_end;
mod output;
mod panics;
mod person;
mod plugin;
mod prices;
mod replay;
mod run;
mod run_id;
mod runs;
mod runtime;
mod sent;
mod setup;
mod ship;
mod signals;
mod sweagent;
mod view;

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use clap::Parser as _;

use mswea_plugin_host as plugins;
use output::Failure;

use args::{
    BatchCommand, Cli, ConfigCommand, DisplayArgs, HostCommand, PluginCommand, PricesCommand,
    RunsCommand, RuntimeCommand,
};

/// The whole program, from arguments to exit code.
pub fn main() -> ExitCode {
    // The stack of the first thread can be too small for the parser (`ulimit -s`).
    let parsed = on_a_thread(Cli::try_parse).unwrap_or_else(|_| Cli::try_parse());
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let typed: Vec<String> = std::env::args_os()
                .skip(1)
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            if let Some(advice) = args::advice(&error, &typed) {
                return Failure::usage(advice).report().into();
            }
            // clap prints help and version to stdout, and does not treat them as errors.
            let code = if error.use_stderr() {
                exit::ExitCode::Usage
            } else {
                exit::ExitCode::Submitted
            };
            let _ = error.print();
            return code.into();
        }
    };
    if let Some(HostCommand::Guard { run_id }) = &cli.command {
        // Done before anything else, so that the guardian stays small and prints nothing.
        mswea_executor::guard::run(run_id, gc::after_host);
        return ExitCode::SUCCESS;
    }
    // Done while there is only one thread, and before anything is started.
    plugins::withdraw_key();
    plugins::compile::in_processes();
    mswea_dataset::parquet_in_processes();
    let display = match &cli.command {
        Some(HostCommand::Demo(demo)) => demo.display,
        Some(HostCommand::Resume(resume)) => resume.change.display,
        Some(HostCommand::Fork(fork)) => fork.change.display,
        Some(HostCommand::GoOn(next)) => next.change.display,
        Some(HostCommand::Replay(replay)) => replay.change.display,
        Some(HostCommand::Batch(BatchCommand::Run(batch))) => batch.run.display,
        Some(HostCommand::Batch(BatchCommand::Worker(worker))) => worker.run.display,
        Some(HostCommand::Batch(BatchCommand::Submit(submit))) => submit.batch.run.display,
        Some(HostCommand::Swebench(batch)) => batch.run.display,
        Some(HostCommand::SwebenchSingle(single)) => single.run.display,
        // A check makes thousands of calls with unusual input, whose logs are not for users.
        Some(HostCommand::Plugin(
            PluginCommand::Check(_) | PluginCommand::Bench(_) | PluginCommand::Diff(_),
        )) => DisplayArgs {
            quiet: true,
            ..DisplayArgs::default()
        },
        _ => cli.run.display,
    };
    signals::mind_interrupts();
    limits::survive_large_files();
    output::start_log(display);
    if let Err(failure) = limits::check() {
        return failure.report().into();
    }
    dotenv::load();
    if let Some(problem) = mswea_files::state_problem() {
        return Failure::usage(problem.to_owned()).report().into();
    }
    let done = off_the_first_thread(move || run_command(cli));
    let code = done.unwrap_or_else(Failure::report);
    person::give_back();
    signals::let_go();
    front::settle();
    code.into()
}

/// Does the program's work on a second thread, and waits. The kernel delivers signals to the first
/// thread, even while the second one is blocked by a file system that does not answer; so the first
/// thread does nothing that can block.
fn off_the_first_thread(
    work: impl FnOnce() -> Result<exit::ExitCode, Failure> + Send,
) -> Result<exit::ExitCode, Failure> {
    on_a_thread(work).unwrap_or_else(|error| {
        Err(Failure::new(
            exit::ExitCode::Failed,
            format!(
                "no thread can be started: {error}; raise the limit of processes (`ulimit -u`)"
            ),
        ))
    })
}

/// Does `work` on a thread whose stack does not depend on the limit of the first thread's, and
/// waits for its end.
///
/// # Errors
/// The system's error if no thread can be started.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    // The default size of the first thread's stack.
    const STACK: usize = 8 << 20;
    let thread = thread::Builder::new()
        .name("main".to_owned())
        .stack_size(STACK);
    thread::scope(|scope| {
        let thread = thread.spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Runs the command of the command line.
fn run_command(cli: Cli) -> Result<exit::ExitCode, Failure> {
    match cli.command {
        None => run::run(&cli.run).and_then(again::to_the_end),
        Some(HostCommand::Demo(args)) => run::demo(&args),
        Some(HostCommand::Resume(args)) => again::resume(&args).and_then(again::to_the_end),
        Some(HostCommand::Fork(args)) => again::fork(&args).and_then(again::to_the_end),
        Some(HostCommand::GoOn(args)) => again::go_on(&args).and_then(again::to_the_end),
        Some(HostCommand::Replay(args)) => replay::replay(&args),
        Some(HostCommand::Plugin(command)) => plugin::run(&command),
        Some(HostCommand::Config(ConfigCommand::Show { origin, run })) => {
            configs::show(&run, origin)
        }
        Some(HostCommand::Config(ConfigCommand::Schema)) => configs::schema(),
        Some(HostCommand::Prices(PricesCommand::Show {
            model,
            json,
            configs,
        })) => prices::show(&model, json, &configs),
        Some(HostCommand::Prices(PricesCommand::Update {
            file,
            source,
            output,
        })) => prices::update(&file, source.as_deref(), output),
        Some(HostCommand::Prices(PricesCommand::Reset)) => prices::reset(),
        Some(HostCommand::Runs(command)) => match command {
            RunsCommand::List(args) => runs::list(&args),
            RunsCommand::Show(args) => runs::show(&args),
            RunsCommand::Remove(args) => runs::remove(&args),
            RunsCommand::Repair(args) => runs::repair(&args),
        },
        Some(HostCommand::Export(args)) => export::export(&args),
        Some(HostCommand::View(args)) => view::view(&args),
        Some(HostCommand::Inspect(args)) => inspect::inspect(&args),
        Some(HostCommand::Batch(command)) => match command {
            BatchCommand::Run(args) => batch::run(&args),
            BatchCommand::Worker(args) => batch::worker(&args),
            BatchCommand::Submit(args) => batch::submit(&args),
            BatchCommand::Cancel(args) => batch::cancel(&args),
            BatchCommand::Status(args) => batch::status(&args),
            BatchCommand::Watch(args) => batch::watch(&args),
            BatchCommand::Report(args) => batch::report(&args),
            BatchCommand::Preds(args) => batch::preds(&args),
            BatchCommand::Compare(args) => batch::compare(&args),
            BatchCommand::Merge(args) => batch::merge(&args),
            BatchCommand::Export(args) => batch::export(&args),
        },
        Some(HostCommand::Swebench(args)) => batch::swebench(&args),
        Some(HostCommand::SwebenchSingle(args)) => batch::single(&args),
        Some(HostCommand::Sweagent(command)) => sweagent::run(&command),
        Some(HostCommand::Doctor(args)) => doctor::run(&args),
        Some(HostCommand::Installation(command)) => doctor::check_self(&command),
        Some(HostCommand::Setup(args)) => setup::setup(&args),
        Some(HostCommand::Gc(args)) => gc::run(&args),
        Some(HostCommand::Runtime(RuntimeCommand::Serve(args))) => runtime::serve(&args),
        Some(HostCommand::Completions { shell }) => output::data(|out| {
            args::write_completions(shell, out);
            Ok(())
        }),
        Some(HostCommand::Man) => output::data(|out| args::write_man(out)),
        Some(HostCommand::Ship { output, plugins }) => ship::run(&output, &plugins),
        Some(HostCommand::Guard { .. }) => Ok(exit::ExitCode::Submitted),
    }
}
