//! What stands in front of the interpreter: the program that puts a command into a sandbox.
//!
//! To this executor it is one more process of the command: found, timed and ended like the rest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::launch::{in_path, is_program};

/// How commands get into a sandbox: `program before... variables... after... interpreter
/// command`.
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
