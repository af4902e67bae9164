//! Errors in a template, for its author: the position, the line with a caret, and a suggestion.

use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::Vars;

/// A source line is shown up to this many characters.
const MAX_SHOWN: usize = 100;

/// A message is shown up to this many bytes: some repeat their input.
const MAX_MESSAGE: usize = 2 << 10;

const BOUND_HINT: &str =
    "make its loops and texts shorter, or prepare the text before it is rendered";

/// A hint lists at most this many names.
const MAX_NAMES: usize = 12;

/// The beginning of the message of an error that is no fault of a template.
pub const NO_ENGINE: &str = "the component that renders it can't be started";

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

    fn plain(message: String, hint: Option<&str>) -> Self {
        Self {
            name: "template".to_owned(),
            line: None,
            column: None,
            message,
            snippet: None,
            hint: hint.map(Into::into),
            is_syntax: false,
        }
    }
}

/// Why a template can't be compiled or rendered, as its engine says it.
#[derive(Clone, Debug, Default)]
pub struct TemplateFault {
    /// The mistake.
    pub message: String,
    /// The expression that is undefined.
    pub undefined: Option<String>,
    /// The remedy.
    pub hint: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// The bytes of the source, with `\n` as line ends.
    pub range: Option<(u32, u32)>,
    /// Whether the template is invalid, whatever its variables are.
    pub is_syntax: bool,
}

/// Why an engine has not rendered a template.
#[derive(Clone, Debug)]
pub enum EngineFailure {
    /// The template is at fault.
    Fault(TemplateFault),
    /// It exceeds a limit, which the text names.
    Limit(String),
    /// The engine can't be started.
    NoEngine(String),
}

/// The failure of a rendering.
#[derive(Debug)]
pub struct Unrendered {
    error: TemplateError,
    /// The expression that is undefined, which only the variables give a hint for.
    undefined: Option<String>,
}

impl Unrendered {
    pub(super) fn new(failure: EngineFailure, template: String) -> Self {
        let error = match failure {
            EngineFailure::Fault(fault) => return Self::at_fault(fault, &template),
            EngineFailure::Limit(reason) => {
                TemplateError::plain(shortened(reason), Some(BOUND_HINT))
            }
            EngineFailure::NoEngine(reason) => {
                TemplateError::plain(format!("{NO_ENGINE}: {reason}"), None)
            }
        };
        Self {
            error,
            undefined: None,
        }
    }

    fn at_fault(fault: TemplateFault, template: &str) -> Self {
        // as the engine has read it
        let source = template.replace("\r\n", "\n").replace('\r', "\n");
        let range = fault.range.and_then(|(start, end)| {
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            source.get(range.clone()).map(|_| range)
        });
        let place = range.as_ref().map(|range| place(&source, range.start));
        let line = fault.line.and_then(|line| usize::try_from(line).ok());
        let line = place.map(|(line, _)| line).or(line);
        let column = place.map(|(_, column)| column);
        let error = TemplateError {
            line,
            column,
            snippet: line
                .and_then(|line| snippet(&source, line, column, range))
                .map(Into::into),
            is_syntax: fault.is_syntax,
            ..TemplateError::plain(shortened(fault.message), fault.hint.as_deref())
        };
        Self {
            error,
            undefined: fault.undefined,
        }
    }

    /// The error for the template's author; `vars` are its variables.
    pub fn describe(self, vars: Vars<'_>) -> TemplateError {
        let hint = self.undefined.and_then(|path| hint(&path, vars));
        TemplateError {
            hint: hint.map(Into::into).or(self.error.hint),
            ..self.error
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

/// Names that come near an undefined one, or all that there are.
fn hint(path: &str, vars: Vars<'_>) -> Option<String> {
    let (parent, missing) = match path.rsplit_once('.') {
        Some((parent, missing)) => (Some(parent), missing),
        None => (None, path),
    };
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
