//! YAML 1.1 as PyYAML's `safe_load` reads it, with the place of everything.
//!
//! Config files of mini-swe-agent were written against that reader: `off` is a boolean there, `010`
//! is 8, `1e3` is a text and `<<` merges. No crate agrees with it on all of that. So the syntax is
//! read by libyaml-safer, whose grammar is nearly PyYAML's, and the meaning is our own: `parse` makes
//! nodes of the events (`problem` has the words for what can't be read), `resolve` gives plain texts
//! their type, and `construct` merges keys and makes values. `tests/corpora/yaml.json` holds PyYAML's
//! results for thousands of documents; `tests.rs` names those that differ.
//!
//! Refused with a message: tags whose values a config can't hold (`!!binary`, `!!set`, `!!omap`,
//! `!!pairs`), values that contain themselves, and halves of surrogate pairs.

mod construct;
mod parse;
mod problem;
mod resolve;

/// A place in the text; all count from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Bytes before it, without a byte order mark.
    pub index: usize,
    /// The line.
    pub line: usize,
    /// The column in the line, in characters.
    pub column: usize,
}
/// Why a text is not accepted as a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The message.
    pub message: String,
    /// Its position.
    pub mark: Mark,
    /// The remedy.
    pub hint: Option<&'static str>,
}

impl Fault {
    fn new(mark: Mark, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            mark,
            hint: None,
        }
    }

    fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The position of the value; for a value from an alias, the alias's position.
    pub mark: Mark,
    /// The value.
    pub value: Yaml,
}

/// The kinds of values in a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Yaml {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// In decimal, of any length.
    Int(String),
    /// A number with a point or an exponent.
    Float(f64),
    /// A text.
    Text(String),
    /// A date or a time, as `isoformat()` writes it.
    Time(String),
    /// A list.
    List(Vec<Located>),
    /// In Python's order: a repeated key keeps its place and takes the later value.
    Map(Vec<Pair>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The key.
    pub key: Located,
    /// The value.
    pub value: Located,
    /// The position of the earlier key that this one replaces; none for keys that were merged in.
    pub hides: Option<Mark>,
}

/// Reads a document; `None` if there is none.
///
/// # Errors
/// [`Fault`] where PyYAML fails, at the same position, and for the documents that this module
/// refuses.
pub fn load(source: &str) -> Result<Option<Located>, Fault> {
    let document = parse::document(source)?;
    document.map(construct::construct).transpose()
}

#[cfg(test)]
mod tests;
