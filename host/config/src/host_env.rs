//! The data that the configuration reads from the system, as a trait, so that tests run in memory.

use std::io;
use std::path::{Path, PathBuf};

use mswea_files as regular_file;
use mswea_secrecy as secrecy;

/// Environment variables, files and the working directory.
pub trait HostEnvironment {
    /// The value of a variable; `None` when it is not set or not Unicode.
    fn var(&self, name: &str) -> Option<String>;
    /// The whole content of a file.
    ///
    /// # Errors
    /// If the file can't be opened or read, is not a regular file, or is larger than the limit for
    /// settings.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Whether `path` is a file that can be read.
    fn is_file(&self, path: &Path) -> bool {
        self.read(path).is_ok()
    }
    /// The working directory, which relative paths are relative to.
    fn cwd(&self) -> PathBuf;
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl HostEnvironment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        secrecy::var(name)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        regular_file::read(path, regular_file::SETTINGS)
    }

    fn is_file(&self, path: &Path) -> bool {
        regular_file::open(path, u64::MAX).is_ok()
    }

    fn cwd(&self) -> PathBuf {
        // A working directory that was deleted has no path. Relative paths then fail where they are
        // used, under the name that the user wrote.
        std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
    }
}
