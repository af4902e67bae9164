//! What stands in front of the interpreter: the program that puts a command into a sandbox.
//!
//! To this executor it is one more process of the command: found, timed and ended like the rest.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;

use super::launch::{in_path, is_program};

/// How commands get into a sandbox: `program before... marks... after... interpreter command`.
#[derive(Clone, Debug)]
pub(in crate::executor) struct Wrap {
    /// Path of the program.
    pub(in crate::executor) program: PathBuf,
    /// Its first arguments, its own name among them.
    pub(in crate::executor) before: Vec<OsString>,
    /// The arguments that give a variable to what is inside: the marks by which the processes
    /// of a run are found have to get through, also where the environment is emptied.
    pub(in crate::executor) variable: fn(&str, &str) -> Vec<String>,
    /// Its last arguments.
    pub(in crate::executor) after: Vec<OsString>,
    /// What it reads from descriptor 3: arguments that nobody else is to see, which those of a
    /// process are not.
    pub(in crate::executor) third: Option<Vec<u8>>,
}

/// A file in memory that a program reads `bytes` from.
///
/// # Errors
/// Where there are no descriptors left, or no memory.
pub(super) fn readable(bytes: &[u8]) -> io::Result<File> {
    let fd = rustix::fs::memfd_create("mswea", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Finds the program that the host's user means by `name`: a path, or a name in his `PATH`.
pub(in crate::executor) fn program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = std::path::absolute(Path::new(name)).ok()?;
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    in_path(name, &path)
}
