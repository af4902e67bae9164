//! Where the program's own words go, and how a failure is told.

use std::io::{self, Write};

use tokio::runtime::Runtime;
use tracing_subscriber::filter::LevelFilter;

use super::args::DisplayArgs;
use super::exit::ExitCode;
use super::front::{Colour, LogLine, Look, PlainFormat, harmless, say};

/// A command that did not do what it was asked for.
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

    /// Tells it on stderr.
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

/// Prints `error: ...` for people.
pub fn error(message: &str) {
    let prefix = if message.starts_with("error: ") {
        ""
    } else {
        "error: "
    };
    // Part of it may be a server's or a plugin's text.
    say(&format!("{prefix}{}\n", harmless(message.trim_end())));
}

/// Prints `warning: ...` for people, as a front does.
pub fn warning(message: &str) {
    let label = Look::detect(0).paint(Colour::Yellow, "warning:");
    say(&format!("{label} {}\n", harmless(message.trim_end())));
}

/// Prints a line for people.
pub fn note(message: &str) {
    say(&format!("{}\n", harmless(message)));
}

/// Writes data to stdout. A reader that has gone away has what it wanted.
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

/// Writes text for people to stdout: part of it may be a plugin's, or come from a file.
pub fn text(text: &str) -> Result<ExitCode, Failure> {
    data(|out| out.write_all(harmless(text).as_bytes()))
}

/// Writes JSON to stdout. What acts on a terminal is escaped; to a parser it is the same.
pub fn json(value: &serde_json::Value) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    data(|out| {
        for c in text.chars() {
            match c {
                // What JSON itself leaves as it is: C1 controls, and marks that turn the
                // direction of writing.
                '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    write!(out, "\\u{:04x}", u32::from(c))?;
                }
                c => write!(out, "{c}")?,
            }
        }
        writeln!(out)
    })
}

/// What commands wait with that are no runs.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                ExitCode::Failed,
                format!(
                    "can't wait for anything: {error}; raise the limit of open files (`ulimit -n`)"
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
        // It would be told on stderr, which panics if nobody reads that any more.
        .log_internal_errors(false)
        .event_format(PlainFormat)
        .with_writer(LogLine::default)
        .with_max_level(level)
        .try_init();
}
