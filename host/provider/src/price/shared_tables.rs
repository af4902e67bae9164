//! The tables of prices that this process has read. All runs of a process share them: a table is
//! read again only if its file has changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::{BUILT_IN, PriceError, Table};
use mswea_files as regular_file;

static BUILT_IN_TABLE: Mutex<Option<Arc<Table>>> = Mutex::new(None);
static UPDATED_TABLE: Mutex<Option<ReadTable>> = Mutex::new(None);

/// A table that was read from a file.
struct ReadTable {
    path: PathBuf,
    version: FileVersion,
    table: Arc<Table>,
}

/// Tells one content of a file from a later one.
type FileVersion = (Option<SystemTime>, u64);

/// The table in this binary.
///
/// # Errors
/// [`PriceError::BuiltIn`] if it has another format.
pub(super) fn built_in() -> Result<Arc<Table>, PriceError> {
    let mut kept = BUILT_IN_TABLE
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = &*kept {
        return Ok(table.clone());
    }
    let table = Arc::new(Table::read(BUILT_IN).map_err(PriceError::BuiltIn)?);
    *kept = Some(table.clone());
    Ok(table)
}

/// The table in a file; none if the file or its folder is missing, if a part of the path is not a
/// folder, or if this user has no access to it.
///
/// # Errors
/// [`PriceError::Unreadable`], or [`PriceError::Table`] if it has another format.
pub(super) fn updated(path: &Path) -> Result<Option<Arc<Table>>, PriceError> {
    let version = fs::metadata(path).map(|it| (it.modified().ok(), it.len()));
    let version = version.unwrap_or_default();
    let mut kept = UPDATED_TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(read) = kept.as_ref()
        && read.path == path
        && read.version == version
    {
        return Ok(Some(read.table.clone()));
    }
    let bytes = match regular_file::read(path, regular_file::RECORDS) {
        Ok(bytes) => bytes,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(None);
        }
        Err(source) => {
            let path = path.to_owned();
            return Err(PriceError::Unreadable { path, source });
        }
    };
    let table = Table::read(&bytes).map_err(|source| PriceError::Table {
        path: path.to_owned(),
        source,
    })?;
    let table = Arc::new(table);
    *kept = Some(ReadTable {
        path: path.to_owned(),
        version,
        table: table.clone(),
    });
    Ok(Some(table))
}
