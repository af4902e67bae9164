//! Prints data to stdout, and messages and errors to stderr.

use std::io::{self, Write};
use std::thread::available_parallelism;

use tokio::runtime::Runtime;
use tracing_subscriber::filter::LevelFilter;

use super::args::DisplayArgs;
use super::exit::ExitCode;
use super::front::{Colour, LogLine, Look, PlainFormat, say};
use mswea_text::harmless;

/// The most threads for many runs, because agents mostly wait.
const MOST_THREADS: usize = 8;

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// Cause and remedy.
    pub message: String,
}

impl Failure {
    /// A failure with this code.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Wrong flags, task or config.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// The failure with another message, which is made of this one.
    #[must_use]
    pub fn reworded(mut self, reword: impl Fn(&str) -> String) -> Self {
        self.message = reword(&self.message);
        self
    }

    /// Prints the failure to stderr.
    pub fn report(self) -> ExitCode {
        error(&self.message);
        self.code
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(ExitCode::Failed, format!("{error:#}"))
    }
}

/// Prints `error: ...` for users.
pub fn error(message: &str) {
    let prefix = if message.starts_with("error: ") {
        ""
    } else {
        "error: "
    };
    // The message may contain text of a server or a plugin.
    say(&format!("{prefix}{}\n", harmless(message.trim_end())));
}

/// Prints a text for users, unless the flags ask for less or for JSON.
pub fn remark(display: DisplayArgs, text: &str) {
    if !display.quiet && !display.json {
        note(text);
    }
}

/// Prints `warning: ...` for users, as a front does.
pub fn warning(message: &str) {
    let label = Look::detect(0).paint(Colour::Yellow, "warning:");
    say(&format!("{label} {}\n", harmless(message.trim_end())));
}

/// Prints a line for users.
pub fn note(message: &str) {
    say(&format!("{}\n", harmless(message)));
}

/// Writes data to stdout. A closed pipe is no error.
pub fn data(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<ExitCode, Failure> {
    let mut buffer = Vec::new();
    let mut out = io::stdout().lock();
    let written = write(&mut buffer)
        .and_then(|()| out.write_all(&buffer))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            ExitCode::Failed,
            format!("can't write to stdout: {error}"),
        )),
        _ => Ok(ExitCode::Submitted),
    }
}

/// Writes text for users to stdout, which may contain text of a plugin or of a file.
pub fn text(text: &str) -> Result<ExitCode, Failure> {
    data(|out| out.write_all(harmless(text).as_bytes()))
}

/// Writes JSON to stdout. Characters that have an effect on a terminal are escaped, which does not
/// change the JSON value.
pub fn json(value: &serde_json::Value) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    data(|out| {
        for c in text.chars() {
            match c {
                // JSON itself does not escape C1 controls and marks that change the direction of
                // writing.
                '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    write!(out, "\\u{:04x}", u32::from(c))?;
                }
                c => write!(out, "{c}")?,
            }
        }
        writeln!(out)
    })
}

/// The runtime of commands that have one run, or none.
pub fn runtime() -> Result<Runtime, Failure> {
    built(tokio::runtime::Builder::new_current_thread())
}

/// The runtime of commands with many runs: with all loops on one thread, they could not use more
/// than one processor.
pub fn runtime_for_many() -> Result<Runtime, Failure> {
    let processors = available_parallelism().map_or(1, usize::from);
    if processors == 1 {
        return runtime();
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(processors.min(MOST_THREADS));
    built(builder)
}

fn built(mut builder: tokio::runtime::Builder) -> Result<Runtime, Failure> {
    builder.enable_all().build().map_err(|error| {
        Failure::new(
            ExitCode::Failed,
            format!(
                "the event loop can't be made: {error}; raise the limit of open files (`ulimit -n`)"
            ),
        )
    })
}

/// Logs go to stderr: warnings, with `-vv` everything.
pub fn start_log(display: DisplayArgs) {
    let level = if display.quiet {
        LevelFilter::ERROR
    } else {
        match display.verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::INFO,
            _ => LevelFilter::DEBUG,
        }
    };
    let _ = tracing_subscriber::fmt()
        .with_ansi(false)
        // An error of the logger would be printed to stderr, which panics if stderr is closed.
        .log_internal_errors(false)
        .event_format(PlainFormat)
        .with_writer(LogLine::default)
        .with_max_level(level)
        .try_init();
}
