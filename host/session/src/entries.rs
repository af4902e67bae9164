//! Finds the `[plugins.NAME]` entry of a plugin.
//!
//! An entry grants hosts and secrets only to the plugin that it *identifies*: a built-in plugin by its
//! name, a file by `path`, a component by `sha256`. The name in a file's descriptor identifies nothing,
//! because the author of the file chose it. A file whose descriptor has the name of an entry that
//! identifies no file gets the config and the limits of this entry, and no grants.

use std::collections::BTreeMap;
use std::path::Path;

use mswea_config::PluginEntry;
use mswea_plugin_host::{FoundPlugin, LoadError, Source, builtin};

type Entries = BTreeMap<String, PluginEntry>;

/// The entry of a plugin, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryMatch {
    /// The entry with this key identifies the plugin.
    Identified(String),
    /// The descriptor has the key of this entry as its name, and the entry identifies no file.
    SameName(String),
    /// The plugin has no entry.
    None,
}

impl EntryMatch {
    /// The entry's key; none if the plugin has no entry.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Identified(key) | Self::SameName(key) => Some(key),
            Self::None => None,
        }
    }
}

/// The keys of the entries that identify the plugin found as `spec`. Several entries may identify one
/// plugin, with different configs.
///
/// # Errors
/// [`LoadError::Digest`] if one of these entries has a `sha256` that differs from the plugin's.
pub(super) fn naming<'a>(
    entries: &'a Entries,
    spec: &str,
    found: &FoundPlugin,
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

/// The entry of a plugin whose descriptor has the name `name`; `naming` are the keys of the entries that
/// identify it.
pub(super) fn match_entry(
    entries: &Entries,
    naming: &[&str],
    source: &Source,
    name: &str,
) -> EntryMatch {
    if let Some(key) = naming.iter().find(|key| **key == name).or(naming.first()) {
        return EntryMatch::Identified((*key).to_owned());
    }
    // A built-in plugin's entry names that plugin, and one with a path its file.
    let is_file = matches!(source, Source::File(_)) && builtin::find(name).is_none();
    match entries.get(name) {
        Some(entry) if is_file && entry.path.is_none() => EntryMatch::SameName(name.to_owned()),
        _ => EntryMatch::None,
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
