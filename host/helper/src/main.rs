//! Runs actions for a host: inside a container, or on the host's machine for a session. A small static
//! program.
//!
//! - `session` runs many actions, each as a fresh process, over stdin and stdout;
//! - `pack` and `unpack` copy files out of the place and into it; `read`, `write`, `stat`, `list`
//!   and `make` handle single files and folders;
//! - `kill` ends all remaining processes of an action or a run.
#![allow(clippy::print_stderr)] // its messages go to stderr
#![cfg(target_os = "linux")]

mod action;
mod input;
mod living;
mod session;
mod shell;
mod spawn;
mod terminal;
#[cfg(panic = "abort")]
mod unwinding;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use mswea_helper::archive;
use mswea_helper::files::{FileKind, PlaceFiles};
use mswea_helper::processes::{self, ACTION_VARIABLE, ProcessTarget, RUN_VARIABLE};
use mswea_helper::sys;

/// The exit code for an error of the helper itself, as with `env`, `nohup` and `docker run`.
const OWN_FAILURE: u8 = 125;

/// How much of an archive is read or written at once.
const BUFFER: usize = 64 * 1024;

/// How long killing may take; only a process inside the kernel takes long.
const KILLING: Duration = Duration::from_secs(3);

const USAGE: &str = "usage: mswea-helper session | pack PATH | unpack file|folder PATH | kill ID... |\n    read PATH MOST | write PATH NAME | stat PATH | list PATH | make PATH";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let known: Vec<&[u8]> = arguments.iter().map(|text| text.as_bytes()).collect();
    match known.as_slice() {
        [b"session"] => ended(session::serve()),
        [b"kill", ids @ ..] if !ids.is_empty() && ids.iter().all(|id| !id.is_empty()) => {
            ended(kill_marked(ids))
        }
        [b"pack", path] => ended(pack(path)),
        [b"read", path, most] => ended(read(path_of(path), most)),
        [b"write", path, name] => ended(write(path_of(path), path_of(name))),
        [b"stat", path] => ended(stat(path_of(path))),
        [b"list", path] => ended(list(path_of(path))),
        [b"make", path] => ended(PlaceFiles::all().make_folder(path_of(path)).map(|()| 0)),
        [b"unpack", kind @ (b"file" | b"folder"), path] => ended(unpack(path, *kind == b"file")),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

/// Writes an archive of one file or folder, with the name `content`, to stdout.
fn pack(path: &[u8]) -> io::Result<u8> {
    let path = fs::canonicalize(OsStr::from_bytes(path))?;
    let output = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut archive = tar::Builder::new(output);
    archive::pack(&mut archive, &path, Path::new("content"), (0, 0))?;
    archive.into_inner()?.flush().map(|()| 0)
}

/// Unpacks the archive on stdin.
fn unpack(path: &[u8], is_file: bool) -> io::Result<u8> {
    let input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    archive::unpack(input, Path::new(OsStr::from_bytes(path)), is_file).map(|()| 0)
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Writes the content of a file to stdout, at most one byte more than `most`.
fn read(path: &Path, most: &[u8]) -> io::Result<u8> {
    let most = str::from_utf8(most).ok().and_then(|text| text.parse().ok());
    let most: u64 = most.ok_or(io::ErrorKind::InvalidInput)?;
    // One byte more shows that the file is too long.
    let mut file = PlaceFiles::all().read(path)?.take(most.saturating_add(1));
    io::copy(&mut file, &mut io::stdout().lock()).map(|_| 0)
}

/// Writes stdin to a file, and makes the folders around it. If the path is a folder and there is a
/// `name`, the file is made in that folder.
fn write(path: &Path, name: &Path) -> io::Result<u8> {
    let files = PlaceFiles::all();
    let is_folder = || {
        files
            .facts(path)
            .is_ok_and(|it| it.kind == FileKind::Folder)
    };
    let path = match name != Path::new("") && is_folder() {
        true => path.join(name),
        false => path.to_owned(),
    };
    files.make_folder(path.parent().unwrap_or(Path::new("")))?;
    let mut file = files.create(&path)?;
    io::copy(&mut io::stdin().lock(), &mut file).map(|_| 0)
}

/// Writes the properties of a file to stdout: the letter of its kind, its length, its permissions
/// (octal), and the time of its last change in seconds since 1970.
fn stat(path: &Path) -> io::Result<u8> {
    let found = PlaceFiles::all().facts(path)?;
    let (kind, size, mode) = (found.kind.letter(), found.size, found.mode);
    writeln!(io::stdout(), "{kind} {size} {mode:o} {}", found.modified).map(|()| 0)
}

/// Writes the entries of a folder to stdout, each as the letter of its kind, a blank, its name, and
/// a null byte.
fn list(path: &Path) -> io::Result<u8> {
    let mut output = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    for (name, kind) in PlaceFiles::all().list(path)? {
        write!(output, "{} ", kind.letter())?;
        output.write_all(name.as_bytes())?;
        output.write_all(b"\0")?;
    }
    output.flush().map(|()| 0)
}

/// Kills all processes whose environment has one of these ids as that of an action or a run.
fn kill_marked(ids: &[&[u8]]) -> io::Result<u8> {
    if processes::stat(std::process::id() as i32, &mut Vec::new()).is_none() {
        return Err(io::Error::other(
            "processes can't be seen in `/proc`: end the container instead",
        ));
    }
    let target = ProcessTarget {
        variables: &[ACTION_VARIABLE, RUN_VARIABLE],
        values: ids
            .iter()
            .map(|id| String::from_utf8_lossy(id).into_owned())
            .collect(),
        ..ProcessTarget::default()
    };
    Ok(u8::from(processes::kill_until_gone(&target, KILLING) > 0))
}

fn ended(result: io::Result<u8>) -> ExitCode {
    ExitCode::from(result.unwrap_or_else(|error| {
        eprintln!("mswea-helper: {}", archive::with_causes(&error));
        OWN_FAILURE
    }))
}
