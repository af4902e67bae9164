//! Fronts: what people and machines see of a run.
//!
//! Stdout is data (the submission, or one event a line), stderr is for people. Nothing in here
//! asks anybody anything: a front that talks back comes with the interactive modes.

mod data_urls;
mod ending;
mod header;
mod human;
mod json;
mod log;
mod look;
mod outlet;
mod quiet;
mod safe;
mod shorten;
mod sink;
mod words;
mod wrap;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::roles::Front;

use super::args::DisplayArgs;
use super::exit::ExitCode;

pub use header::Header;
pub use human::HumanFront;
pub use json::JsonFront;
pub(super) use log::{LogLine, PlainFormat};
pub(super) use look::Colour;
pub use look::{Look, Width};
use outlet::Drain;
pub(super) use outlet::{deliver, say, settle};
pub use quiet::QuietFront;
pub(super) use safe::harmless;

/// A front of the command line.
pub trait CliFront: Front {
    /// A run is about to begin.
    fn begin(&self, _: &Header) {}

    /// Why data is missing on stdout, if it is: asked for once the run has ended. A reader that
    /// closed its end of the pipe has what it wanted, so that is no error.
    fn take_output_error(&self) -> Option<io::Error>;

    /// The run's files are written, or can't be: what the process ends with. Only now is that
    /// known.
    fn conclude(&self, code: ExitCode, error: Option<&str>) {
        let _ = (code, error);
    }
}

/// The front that the flags ask for, on this process's stdout and stderr.
pub fn make(display: &DisplayArgs) -> Arc<dyn CliFront> {
    let look = Look::detect(display.verbose);
    let lost = if display.json {
        json::lost
    } else {
        outlet::lost_words
    };
    match outlet::start(look, lost) {
        Some(outlets) => on(display, look, outlets.err.clone(), outlets.out.clone()),
        // Without a thread, what is shown has to be waited for.
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

/// Locks also after a panic elsewhere: showing what is left is better than a second panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod testing;
