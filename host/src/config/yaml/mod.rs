//! YAML 1.1 exactly as PyYAML's `safe_load` reads it, with the place of everything.
//!
//! Config files of mini-swe-agent were written against that reader: `off` is a boolean there,
//! `010` is 8, `1e3` is a text and `<<` merges. No crate agrees with it on all of that, so
//! the whole way is ours: [`cursor`] counts lines, [`scan`] makes tokens (indentation and
//! keys that are known only by the `:` after them) with [`names`], [`scalar`] reads texts, [`parse`] builds
//! nodes, [`resolve`] gives plain texts their type, and [`construct`] merges keys and makes
//! values. `tests/corpora/yaml.json` holds what the real one makes of thousands of documents.
//!
//! Refused on purpose, with a message: tags without a value in a config (`!!binary`, `!!set`,
//! `!!omap`, `!!pairs`), values that hold themselves, and halves of surrogate pairs.

mod construct;
mod cursor;
mod names;
mod parse;
mod resolve;
mod scalar;
mod scan;

/// A place in the text; all count from 0, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Why a text is no document that we take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What is wrong, for people.
    pub(super) message: String,
    /// Where.
    pub(super) mark: Mark,
    /// What to do.
    pub(super) hint: Option<&'static str>,
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

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    /// Where it is written; what an alias brings stands where the alias does.
    pub(super) mark: Mark,
    pub(super) value: Yaml,
}

/// What a document can hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    Null,
    Bool(bool),
    /// In decimal, of any length.
    Int(String),
    Float(f64),
    Text(String),
    /// A date or a time, as `isoformat()` writes it.
    Time(String),
    List(Vec<Located>),
    /// In Python's order: an equal key keeps its place and takes the later value.
    Map(Vec<Pair>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) key: Located,
    pub(super) value: Located,
    /// Where the map had the key before; not for keys that were merged in.
    pub(super) hides: Option<Mark>,
}

/// Reads a document; `None` if there is none.
///
/// # Errors
/// When PyYAML would fail, and at the same place; and for what the module refuses.
pub(super) fn load(source: &str) -> Result<Option<Located>, Fault> {
    let document = parse::document(source)?;
    document.map(construct::construct).transpose()
}

#[cfg(test)]
mod tests;
