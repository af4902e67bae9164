//! Which `[plugins.NAME]` entry is a plugin's.
//!
//! An entry grants hosts and secrets to what it *names*: a built-in plugin, a file by `path`, a
//! component by `sha256`. What a file calls itself is the file's own word. By that it gets the
//! config and the limits of an entry that names no file, which are nobody's secrets, and no grants.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::PluginEntry;
use crate::plugin::{Found, LoadError, Source, builtin};

type Entries = BTreeMap<String, PluginEntry>;

/// What ties a plugin to an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// The entry names it.
    Named(String),
    /// It calls itself so, and the entry names nothing else.
    Called(String),
    /// There is none.
    None,
}

impl Tie {
    /// The entry's key.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Named(key) | Self::Called(key) => Some(key),
            Self::None => None,
        }
    }
}

/// The keys of the entries that name what was found as `spec`. Several may, with different configs.
///
/// # Errors
/// When one of them pins another digest.
pub(super) fn naming<'a>(
    entries: &'a Entries,
    spec: &str,
    found: &Found,
) -> Result<Vec<&'a str>, LoadError> {
    let names = |key: &str, entry: &PluginEntry| match &found.source {
        Source::BuiltIn(_) => entry.path.is_none() && key == found.label,
        Source::File(file) => {
            let pinned = entry.sha256.as_deref();
            match &entry.path {
                Some(path) => same_file(Path::new(path), file),
                None => pinned.is_some_and(|pin| pin.eq_ignore_ascii_case(&found.digest)),
            }
        }
    };
    let keys: Vec<&str> = match entries.get_key_value(spec) {
        Some((key, _)) => vec![key],
        None => entries
            .iter()
            .filter(|(key, entry)| names(key, entry))
            .map(|(key, _)| key.as_str())
            .collect(),
    };
    for key in &keys {
        found.pinned(key, entries[*key].sha256.as_deref())?;
    }
    Ok(keys)
}

/// What ties a plugin that calls itself `name` to an entry; `naming` are those that name it.
pub(super) fn tie(entries: &Entries, naming: &[&str], source: &Source, name: &str) -> Tie {
    if let Some(key) = naming.iter().find(|key| **key == name).or(naming.first()) {
        return Tie::Named((*key).to_owned());
    }
    // A built-in plugin's entry names that plugin, and one with a path its file.
    let is_file = matches!(source, Source::File(_)) && builtin::find(name).is_none();
    match entries.get(name) {
        Some(entry) if is_file && entry.path.is_none() => Tie::Called(name.to_owned()),
        _ => Tie::None,
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
