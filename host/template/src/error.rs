//! Errors in a template, for its author: the position, the line with a caret, and a suggestion.

use std::error::Error as _;
use std::fmt;
use std::ops::Range;

use minijinja::{Error, ErrorKind};
use serde_json::Value;

use super::Vars;
use super::meter::Bound;

/// A source line is shown up to this many characters.
const MAX_SHOWN: usize = 100;

/// A message is shown up to this many bytes: some repeat their input.
const MAX_MESSAGE: usize = 2 << 10;

const BOUND_HINT: &str =
    "make its loops and texts shorter, or prepare the text before it is rendered";

/// A hint lists at most this many names.
const MAX_NAMES: usize = 12;

/// The beginning of the message of an error that is no fault of a template.
pub const NO_THREAD: &str = "the thread that renders it can't be started";

/// A template that does not compile or render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The template's name: a config key, or `template`.
    pub name: String,
    /// Line, from 1, if it is known.
    pub line: Option<usize>,
    /// Column in characters, from 1, if it is known.
    pub column: Option<usize>,
    /// The mistake.
    pub message: String,
    /// The source line and a line with carets below it, if the position is known.
    pub snippet: Option<Box<str>>,
    /// The remedy.
    pub hint: Option<Box<str>>,
    /// Whether the template is invalid, whatever its variables are.
    pub is_syntax: bool,
}

impl TemplateError {
    /// The same error with another template name, for callers that know where the template came
    /// from.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    pub(super) fn too_long(length: usize, limit: usize) -> Self {
        Self {
            name: "template".to_owned(),
            line: None,
            column: None,
            message: format!("the template has {length} bytes, more than the {limit} allowed"),
            snippet: None,
            hint: Some("put long text into a variable".into()),
            is_syntax: true,
        }
    }

    pub(super) fn no_thread(error: &std::io::Error) -> Self {
        Self {
            name: "template".to_owned(),
            line: None,
            column: None,
            message: format!("{NO_THREAD}: {error}"),
            snippet: None,
            hint: Some(
                "a command may have started too many processes; or raise the limits on processes and memory (`ulimit -u`, `ulimit -v`)".into(),
            ),
            is_syntax: false,
        }
    }

    pub(super) fn unknown_name(kind: &str, source: &str, range: Range<usize>) -> Self {
        let (line, column) = place(source, range.start);
        Self {
            name: "template".to_owned(),
            line: Some(line),
            column: Some(column),
            message: format!("there is no {kind} `{}`", &source[range.clone()]),
            snippet: snippet(source, line, Some(column), Some(range)).map(Into::into),
            hint: None,
            is_syntax: true,
        }
    }

    /// Made from the engine's error or the exceeded bound; `vars` are the template's variables.
    pub(super) fn new(
        error: Option<&Error>,
        bound: Option<Bound>,
        source: &str,
        vars: Option<Vars<'_>>,
    ) -> Self {
        let range = error.and_then(Error::range).filter(|range| {
            range.start <= range.end
                && range.end <= source.len()
                && source.is_char_boundary(range.start)
                && source.is_char_boundary(range.end)
        });
        let place = range.as_ref().map(|range| place(source, range.start));
        let line = place.map(|(line, _)| line).or(error.and_then(Error::line));
        let column = place.map(|(_, column)| column);
        Self {
            name: "template".to_owned(),
            line,
            column,
            message: match bound {
                Some(bound) => bound.message(),
                None => shortened(error.map(message).unwrap_or_default()),
            },
            snippet: line
                .and_then(|line| snippet(source, line, column, range))
                .map(Into::into),
            hint: match bound {
                Some(_) => Some(BOUND_HINT.into()),
                None => error.and_then(|error| hint(error, vars)).map(Into::into),
            },
            is_syntax: matches!(
                error.map(Error::kind),
                Some(
                    ErrorKind::SyntaxError
                        | ErrorKind::BadEscape
                        | ErrorKind::UnknownFilter
                        | ErrorKind::UnknownTest
                )
            ),
        }
    }
}

impl std::error::Error for TemplateError {}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(snippet) = &self.snippet {
            write!(f, "\n{snippet}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Line and column of an offset, both from 1.
fn place(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..offset];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        1 + before.matches('\n').count(),
        1 + before[start..].chars().count(),
    )
}

fn message(error: &Error) -> String {
    let mut message = match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (ErrorKind::UndefinedError, None) => "an undefined value is used".to_owned(),
        (ErrorKind::WriteFailure, _) if error.source().is_some() => String::new(),
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    message
}

fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
    message
}

/// The line, shortened to a window, and carets below the range.
fn snippet(
    source: &str,
    line: usize,
    column: Option<usize>,
    range: Option<Range<usize>>,
) -> Option<String> {
    let text = source.lines().nth(line.checked_sub(1)?)?;
    let from = column.map_or(0, |column| {
        let lead = column - 1;
        if lead < MAX_SHOWN - 20 {
            0
        } else {
            lead - MAX_SHOWN / 2
        }
    });
    let shown: String = text
        .chars()
        .skip(from)
        .take(MAX_SHOWN)
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    let (start_mark, end_mark) = (
        if from > 0 { "…" } else { "" },
        if text.chars().count() > from + MAX_SHOWN {
            "…"
        } else {
            ""
        },
    );
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let mut out = format!(" {number} | {start_mark}{shown}{end_mark}");
    if let (Some(column), Some(range)) = (column, range) {
        // for `{% for in x %}` the engine's range ends before it begins
        let marked = source
            .get(range)
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default();
        let lead = column - 1 - from + start_mark.chars().count();
        let room = (MAX_SHOWN + 1).saturating_sub(lead).max(1);
        let carets = marked.chars().count().clamp(1, room);
        out.push_str(&format!(
            "\n {gutter} | {}{}",
            " ".repeat(lead),
            "^".repeat(carets)
        ));
    }
    Some(out)
}

fn hint(error: &Error, vars: Option<Vars<'_>>) -> Option<String> {
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownMethod if detail.contains("append") || detail.contains("update") => {
            return Some(
                "lists and maps can't be changed: `{% set x = x + [y] %}` makes a new one; what a loop \
                 sets is gone after each turn, so write `{% set all = namespace(x=[]) %}` before a loop, and \
                 `{% set all.x = all.x + [y] %}` in it"
                    .to_owned(),
            );
        }
        _ => {}
    }
    // the engine's detail ends with the expression of the undefined value
    let end = detail.rfind("` is undefined")?;
    let path = &detail[detail[..end].rfind('`')? + 1..end];
    let (parent, missing) = match path.rsplit_once('.') {
        Some((parent, missing)) => (Some(parent), missing),
        None => (None, path),
    };
    let vars = vars?;
    let (names, whole): (Vec<&str>, _) = match parent {
        None => (vars.names().collect(), "the variables here are".to_owned()),
        Some(parent) => match lookup(&vars, parent)? {
            Value::Object(map) => (
                map.keys().map(String::as_str).collect(),
                format!("`{parent}` has"),
            ),
            _ => return None,
        },
    };
    let close = mswea_text::near(missing, names.iter().copied(), 3);
    if !close.is_empty() {
        return Some(format!("did you mean {}?", list(&close, "or")));
    }
    if names.is_empty() || names.len() > MAX_NAMES {
        return Some(format!(
            "`{path} is defined` tests for it, `{path}|default('')` gives a value in its place"
        ));
    }
    Some(format!("{whole} {}", list(&names, "and")))
}

fn lookup<'v>(vars: &Vars<'v>, path: &str) -> Option<&'v Value> {
    let mut parts = path.split('.');
    let mut value = vars.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(value)
}

fn list(names: &[&str], word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {word} {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
