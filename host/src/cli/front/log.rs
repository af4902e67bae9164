//! Prints lines of the log between the other output of a front. `tracing` makes the lines, and does
//! not know of an unfinished line or of the line that counts seconds.

use std::fmt;
use std::io::{self, Write};
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::{lock, say};

/// Shows a line; returns whether it did.
type Show = Box<dyn Fn(&str) -> bool + Send>;

static FRONT: Mutex<Option<Show>> = Mutex::new(None);

/// Makes a front print the lines from now on, until it is dropped.
pub(super) fn send_to(show: impl Fn(&str) -> bool + Send + 'static) {
    *lock(&FRONT) = Some(Box::new(show));
}

/// The output of the log: one line per writer.
#[derive(Default)]
pub(crate) struct LogLine(Vec<u8>);

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.0);
        // A front that logs while it shows a line must not wait for itself.
        let shown = match FRONT.try_lock() {
            Ok(front) => front.as_ref().is_some_and(|show| show(&text)),
            Err(_) => false,
        };
        if !shown {
            say(&text);
        }
    }
}

/// Formats a line like the other messages of this program: `warning: TEXT (NAME: VALUE)`; in lines for
/// the program's authors, `debug: TEXT name=value`.
pub(crate) struct PlainFormat;

/// The parts of a line for people.
#[derive(Default)]
struct LogParts {
    message: String,
    fields: Vec<String>,
}

impl LogParts {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self
                .fields
                .push(format!("{}: {value}", name.replace('_', " "))),
        }
    }
}

impl Visit for LogParts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

impl<S, N> FormatEvent<S, N> for PlainFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let label = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(writer, "{label}: ")?;
        if *event.metadata().level() <= Level::WARN {
            let mut parts = LogParts::default();
            event.record(&mut parts);
            return match parts.fields.is_empty() {
                true => writeln!(writer, "{}", parts.message),
                false => writeln!(writer, "{} ({})", parts.message, parts.fields.join("; ")),
            };
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::front::testing::Buffer;

    #[test]
    fn a_line_reads_as_all_others() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .event_format(PlainFormat)
            .with_max_level(Level::DEBUG)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(container = "c1", "a container is left");
            tracing::warn!(process_id = 3, "it stays");
            tracing::warn!("it is gone");
            tracing::debug!(url = "u", "asked");
        });
        assert_eq!(
            buffer.text(),
            "warning: a container is left (container: c1)\nwarning: it stays (process id: 3)\n\
             warning: it is gone\ndebug: asked url=\"u\"\n"
        );
    }

    #[test]
    fn a_front_shows_what_it_is_given() {
        let shown = Buffer::default();
        let writer = shown.clone();
        send_to(move |text| writeln!(writer.clone(), "<{}>", text.trim_end()).is_ok());
        let mut line = LogLine::default();
        line.write_all(b"half a line, ").unwrap();
        assert_eq!(shown.text(), "");
        line.write_all(b"and the rest\n").unwrap();
        drop(line);
        assert_eq!(shown.text(), "<half a line, and the rest>\n");
    }
}
