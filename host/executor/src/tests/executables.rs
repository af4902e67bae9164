//! Executable files for tests.

use std::path::Path;
use std::process::Command;

/// Copies a file, as an executable one with the permissions `mode`.
///
/// A child process writes it: a program that another test starts at the same moment would inherit
/// this process's descriptor of the file, and the system does not execute a file that is open for
/// writing ("Text file busy").
#[track_caller]
pub(crate) fn install(from: &Path, to: &Path, mode: &str) {
    let mut command = Command::new("install");
    let status = command.args(["-m", mode, "--"]).args([from, to]).status();
    assert!(status.unwrap().success(), "{}", from.display());
}

/// Makes a program of a text or of machine code.
#[track_caller]
pub(crate) fn program(path: &Path, content: impl AsRef<[u8]>) {
    let mut source = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut source, content.as_ref()).unwrap();
    install(source.path(), path, "755");
}
