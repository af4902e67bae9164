//! Errors in a configuration, and how they are printed: what is wrong, where, and the remedy.

use std::fmt;
use std::sync::Arc;

use super::origin::Origin;
use super::redact;

/// The kind of a problem, for callers that decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A `-c` names neither a file nor a preset.
    NotFound,
    /// A file is there but can't be read.
    Unreadable,
    /// A file is not valid TOML or YAML.
    Syntax,
    /// A key that does not exist.
    UnknownKey,
    /// A value of the wrong type, or out of range.
    WrongValue,
    /// A value that is needed and not given.
    Missing,
    /// A malformed `-c`.
    BadSpec,
    /// A model name that belongs to no known provider.
    Model,
}

/// A line of a source with a marked position.
#[derive(Clone, Debug)]
pub(super) struct Snippet {
    path: String,
    line: usize,
    column: usize,
    /// How many characters are marked.
    width: usize,
    text: String,
}

impl Snippet {
    /// Cuts line `line` out of `source`; `width` is clamped to that line.
    pub(super) fn new(path: &str, source: &str, line: usize, column: usize, width: usize) -> Self {
        let text = source
            .lines()
            .nth(line.saturating_sub(1))
            .unwrap_or_default();
        let rest = text
            .chars()
            .count()
            .saturating_sub(column.saturating_sub(1));
        Self {
            path: path.to_owned(),
            line,
            column,
            width: width.clamp(1, rest.max(1)),
            text: redact::line(text),
        }
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A window of a very long line (a minified template), so that the caret stays visible.
        const BEFORE: usize = 60;
        const WINDOW: usize = 120;
        let skip = self.column.saturating_sub(1).saturating_sub(BEFORE);
        // One column per character keeps the caret below its mark; tabs and control characters
        // (also escape sequences) are replaced, because they take other widths.
        let shown: String = self
            .text
            .chars()
            .skip(skip)
            .take(WINDOW)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let indent = " ".repeat(self.column.saturating_sub(1) - skip);
        let carets = "^".repeat(self.width.min(WINDOW - BEFORE));
        writeln!(f, "{gutter}--> {}:{}:{}", self.path, self.line, self.column)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {shown}")?;
        write!(f, "{gutter} | {indent}{carets}")
    }
}

/// One error. Boxed, because it is the error type of many small functions.
#[derive(Clone, Debug)]
pub struct ConfigProblem(Box<Details>);

#[derive(Clone, Debug)]
struct Details {
    kind: ProblemKind,
    message: String,
    key: Option<String>,
    origin: Option<Origin>,
    snippet: Option<Snippet>,
    hint: Option<String>,
}

impl ConfigProblem {
    /// A problem without a place.
    pub(super) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            message: message.into(),
            key: None,
            origin: None,
            snippet: None,
            hint: None,
        }))
    }

    /// Names the dotted key.
    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// Sets the origin of the value; for files, the source line is shown.
    pub(super) fn at(mut self, origin: &Origin, width: usize, files: &Files) -> Self {
        if let Origin::File { path, line, column } = origin {
            self.0.snippet = files
                .source(path)
                .map(|source| Snippet::new(path, source, *line, *column, width));
        }
        self.0.origin = Some(origin.clone());
        self
    }

    /// Sets the origin of the value, without its source line.
    pub(super) fn place(mut self, origin: &Origin) -> Self {
        self.0.origin = Some(origin.clone());
        self
    }

    /// Shows a position in a text that did not parse.
    pub(super) fn snippet(mut self, snippet: Snippet) -> Self {
        self.0.origin = Some(Origin::File {
            path: snippet.path.clone(),
            line: snippet.line,
            column: snippet.column,
        });
        self.0.snippet = Some(snippet);
        self
    }

    /// Says what to do.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The kind of the problem.
    pub fn kind(&self) -> ProblemKind {
        self.0.kind
    }

    /// The problem, without place and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The dotted key that it is about.
    pub fn dotted_key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The place of the problem.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
    }

    /// The text to write instead.
    pub fn remedy(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match (&self.0.snippet, &self.0.origin) {
            (Some(snippet), _) => write!(f, "\n{snippet}")?,
            (None, Some(origin)) => write!(f, "\n --> {origin}")?,
            (None, None) => {}
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// All errors, in the order in which they were found, so that the user can correct them all at
/// once.
#[derive(Clone, Debug)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

impl ConfigError {
    /// `Err` if there are problems.
    pub(super) fn check(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }

    /// The problems; at least one.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl From<ConfigProblem> for ConfigError {
    fn from(problem: ConfigProblem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The sources of the files that were read, to show lines of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(Vec<(String, Arc<str>)>);

impl Files {
    /// Keeps a source.
    pub(super) fn add(&mut self, path: &str, source: Arc<str>) {
        self.0.push((path.to_owned(), source));
    }

    /// The names of the sources, files and others.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(path, _)| &**path)
    }

    fn source(&self, path: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == path)
            .map(|(_, source)| &**source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_no_key() {
        for (source, expected) in [
            ("  api_key: sk-12 # mine", "  api_key: ***** # mine"),
            (
                "kw: {api_key: \"sk-1, 2\", top_p: 1}",
                "kw: {api_key: \"*******\", top_p: 1}",
            ),
            ("'api-key' : 'sk-1' x", "'api-key' : '****' x"),
            ("api_key = \"sk-1", "api_key = \"****"),
            ("Authorization: Bearer sk-1", "Authorization: ***********"),
            ("api_key_env: NAME", "api_key_env: NAME"),
            ("max_tokens: 5", "max_tokens: 5"),
            ("a token of thanks: x", "a token of thanks: x"),
        ] {
            let shown = Snippet::new("f", source, 1, 1, 1).to_string();
            assert!(shown.contains(&format!("| {expected}\n")), "{shown}");
        }
    }

    #[test]
    fn a_snippet_puts_the_caret_under_its_mark() {
        for (source, line, column, width, expected) in [
            (
                "a = 1\nbé = x\n",
                2,
                6,
                1,
                " --> f:2:6\n  |\n2 | bé = x\n  |      ^",
            ),
            (
                "\tkey = 1",
                1,
                2,
                3,
                " --> f:1:2\n  |\n1 |  key = 1\n  |  ^^^",
            ),
            ("ab", 1, 2, 50, " --> f:1:2\n  |\n1 | ab\n  |  ^"),
            ("ab", 9, 1, 2, " --> f:9:1\n  |\n9 | \n  | ^"),
        ] {
            let snippet = Snippet::new("f", source, line, column, width);
            assert_eq!(snippet.to_string(), expected, "{source:?}");
        }
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let source = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let text = Snippet::new("f", &source, 1, 501, 1).to_string();
        let lines: Vec<_> = text.lines().collect();
        let caret = lines[3].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[2].chars().nth(caret), Some('X'));
        assert!(lines[2].len() < 130, "{text}");
    }

    #[test]
    fn problems_are_told_with_place_and_remedy() {
        let error = ConfigError {
            problems: vec![
                ConfigProblem::new(ProblemKind::Missing, "no model"),
                ConfigProblem::new(ProblemKind::WrongValue, "bad value")
                    .at(&Origin::Flag { name: "-x".into() }, 1, &Files::default())
                    .hint("do this"),
            ],
        };
        assert_eq!(
            error.to_string(),
            "no model\n\nbad value\n --> flag -x\nhint: do this"
        );
    }
}
