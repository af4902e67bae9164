//! The place of an updated price table, and how it is written.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::table::{self, PackedTable};
use mswea_files as regular_file;

/// The file of the table that replaces the one in this binary:
/// `$XDG_CONFIG_HOME/mswea-host/prices.table`, else below `~/.config`; none without a home folder.
#[must_use]
pub fn updated_table(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        var(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join("mswea-host/prices.table"))
}

/// Why a table was not written.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The file with the new prices can't be read.
    #[error("can't read `{}`: {source}: check the path", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a JSON object.
    #[error("`{}` is not a price file: {detail}: give litellm's `model_prices_and_context_window.json`", path.display())]
    NoPrices {
        /// The file.
        path: PathBuf,
        /// The mistake.
        detail: String,
    },
    /// The table can't be written or removed.
    #[error("can't write the price table `{}`: {source}: make its folder writable", path.display())]
    Unwritable {
        /// The table.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// How many models have a price in the new table.
    pub models: usize,
    /// Entries that were left out, with the reason.
    pub refused: Vec<(String, String)>,
}

/// Makes a table of the price file `file` (litellm's JSON) and puts it at `table`. The old table
/// stays until the new one is complete.
///
/// # Errors
/// [`PlaceError`] if the file can't be read or is no JSON object, or the table can't be written.
pub fn update(file: &Path, table: &Path, source: &str) -> Result<Updated, PlaceError> {
    let bytes = regular_file::read(file, regular_file::RECORDS).map_err(|source| {
        PlaceError::Unreadable {
            path: file.to_owned(),
            source,
        }
    })?;
    let none = |detail: String| PlaceError::NoPrices {
        path: file.to_owned(),
        detail,
    };
    let prices = match mswea_text::read_json(&bytes) {
        Ok(Value::Object(prices)) => prices,
        Ok(_) => return Err(none("it is JSON, but no object of models".to_owned())),
        Err(error) => return Err(none(format!("it is not JSON: {error}"))),
    };
    let PackedTable {
        bytes,
        models,
        refused,
    } = table::pack(&prices, source);
    let refused: Vec<_> = refused
        .into_iter()
        .map(|(name, error)| (name, error.to_string()))
        .collect();
    if models == 0 {
        return Err(none(match refused.first() {
            Some((name, error)) => format!("none of its entries can be used (`{name}`: {error})"),
            None => "no model in it has a price per token".to_owned(),
        }));
    }
    write(table, &bytes).map_err(|source| PlaceError::Unwritable {
        path: table.to_owned(),
        source,
    })?;
    Ok(Updated { models, refused })
}

/// Replaces the file completely or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Removes an updated table, and returns whether there was one.
///
/// # Errors
/// [`PlaceError::Unwritable`] if it can't be removed.
pub fn reset(table: &Path) -> Result<bool, PlaceError> {
    match std::fs::remove_file(table) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(PlaceError::Unwritable {
            path: table.to_owned(),
            source,
        }),
    }
}
