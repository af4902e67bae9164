//! The program in front of the interpreter that puts a command into a sandbox.
//!
//! The local executor treats it as one more process of the command: found, timed and ended like the
//! others.

use std::ffi::OsString;
use std::path::PathBuf;

/// How commands are put into a sandbox: `program before... marks... after... interpreter command`.
#[derive(Clone, Debug)]
pub(crate) struct Wrap {
    /// Path of the program.
    pub(crate) program: PathBuf,
    /// Its first arguments, beginning with its own name.
    pub(crate) before: Vec<OsString>,
    /// The arguments that set a variable inside: the marks by which the processes of a run are
    /// found must be set also if the environment is emptied.
    pub(crate) variable: fn(&str, &str) -> Vec<String>,
    /// The arguments after those that set variables. If folders and programs are those of the host,
    /// the last one is the path of the interpreter.
    pub(crate) after: Vec<OsString>,
    /// The path of the helper inside, if folders and programs are not those of the host.
    pub(crate) inside: Option<&'static str>,
    /// The content of descriptor 3, for arguments that other users must not see.
    pub(crate) third: Option<Vec<u8>>,
}
