//! Fronts: the output of a run for users and for programs.
//!
//! Stdout is data (the submission, or one event per line), stderr is for users. No front asks the
//! user; `cli::person` does, on the screen of the front for users ([`Desk`]).

mod batch;
mod batch_lines;
mod below;
mod data_urls;
mod ending;
mod header;
mod highlight;
mod human;
mod json;
mod log;
mod look;
mod outlet;
mod quiet;
mod shorten;
mod sink;
mod spool;
mod words;
mod wrap;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mswea_core::Front;

use super::args::DisplayArgs;
use super::exit::ExitCode;

pub use batch::BatchFront;
pub(super) use batch_lines::{CostSum, ResultRate, clock, progress_line};
pub use header::RunHeader;
pub(super) use human::RELEASE;
pub use human::{Desk, HumanFront, InputView};
pub use json::JsonFront;
pub(super) use log::{LogLine, PlainFormat};
pub(super) use look::Colour;
pub use look::{Look, Width};
use outlet::Drain;
pub(super) use outlet::{deliver, say, settle};
pub use quiet::QuietFront;
pub(super) use shorten::{Size, cut_to, shorten};
pub(super) use words::{account, dollars_text, faults_line};
pub(super) use wrap::{cut as cut_to_columns, width as text_width};

/// A front of the command line.
pub trait CliFront: Front {
    /// Stores the header, which is shown when the run's files are known.
    fn begin(&self, _: RunHeader) {}

    /// The screen for a user who answers questions; none if the front has no such user.
    fn desk(&self) -> Option<Desk> {
        None
    }

    /// The error of stdout, if data could not be written to it; called after the run has ended. A
    /// closed pipe is no error, because its reader needs no more data.
    fn take_output_error(&self) -> Option<io::Error>;

    /// Called with the exit code of the process, which is known only after the run's files were
    /// written.
    fn conclude(&self, code: ExitCode, error: Option<&str>) {
        let _ = (code, error);
    }
}

/// The front that the flags ask for, on this process's stdout and stderr.
pub fn make(display: &DisplayArgs) -> Arc<dyn CliFront> {
    let look = Look::detect(display.verbose).plainly(display.plain);
    let lost = if display.json {
        json::lost
    } else {
        outlet::lost_words
    };
    match outlet::start(look, lost) {
        Some(outlets) => on(display, look, outlets.err.clone(), outlets.out.clone()),
        // If the thread can't be started, the output is written by the caller.
        None => on(display, look, io::stderr(), io::stdout()),
    }
}

fn on(
    display: &DisplayArgs,
    look: Look,
    err: impl Drain + 'static,
    out: impl Drain + 'static,
) -> Arc<dyn CliFront> {
    if display.json {
        Arc::new(JsonFront::new(out))
    } else if display.quiet {
        Arc::new(QuietFront::new(err, out, look))
    } else {
        Arc::new(HumanFront::new(err, out, look).with_log())
    }
}

/// Locks also after a panic of another thread, so that the rest of the output is shown.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod testing;
