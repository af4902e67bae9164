//! The contents of files before their edits by `str_replace_editor`, kept beside the registry: a
//! folder for each file, with one file for each edit. They are kept across calls, shells and copies
//! of the container.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::answer::ToolRefusal;
use crate::places;
use crate::storage::{self, FileTrouble};
use crate::window::real;

/// The number of edits of a file that can be undone.
const MOST: usize = 50;

/// The edits of one file.
pub struct EditHistory {
    folder: PathBuf,
}

impl EditHistory {
    /// The edits of the file at `path`, with links resolved.
    pub fn of(path: &Path) -> Self {
        let path = real(path);
        // The hash only has to be the same in the next call of this program.
        let mut hasher = DefaultHasher::new();
        path.as_os_str().as_bytes().hash(&mut hasher);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(40).collect();
        let folder = format!("{:016x}-{name}", hasher.finish());
        Self {
            folder: places::undo().join(folder),
        }
    }

    /// The numbers of the edits, in ascending order.
    fn numbers(&self) -> Result<Vec<u64>, ToolRefusal> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.trouble(error)),
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut numbers: Vec<u64> = names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn trouble(&self, error: io::Error) -> ToolRefusal {
        FileTrouble::from(error).about(&self.folder).coded(20)
    }

    /// The content before the last edit.
    pub fn last(&self) -> Result<Option<Vec<u8>>, ToolRefusal> {
        let Some(number) = self.numbers()?.pop() else {
            return Ok(None);
        };
        let file = self.folder.join(number.to_string());
        let content = storage::bytes(&file).map_err(|trouble| trouble.about(&file).coded(20))?;
        Ok(Some(content))
    }

    /// Keeps the content before an edit.
    pub fn push(&self, content: &[u8]) -> Result<(), ToolRefusal> {
        let mut builder = fs::DirBuilder::new();
        // The folder is accessible to its owner only, because some of the files may be.
        let made = builder.recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| self.trouble(error))?;
        let numbers = self.numbers()?;
        for old in numbers.iter().rev().skip(MOST - 1) {
            let _ = fs::remove_file(self.folder.join(old.to_string()));
        }
        let next = numbers.last().map_or(0, |last| last + 1);
        let file = self.folder.join(next.to_string());
        storage::replace(&file, content).map_err(|trouble| trouble.about(&file).coded(20))
    }

    /// Forgets the last edit.
    pub fn pop(&self) -> Result<(), ToolRefusal> {
        if let Some(number) = self.numbers()?.pop() {
            let removed = fs::remove_file(self.folder.join(number.to_string()));
            removed.map_err(|error| self.trouble(error))?;
        }
        Ok(())
    }

    /// Forgets all edits.
    pub fn forget(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
