//! Reads files whose content or kind is not under the user's control: files of a cloned repository,
//! or files that a command of the model has written.
//!
//! Such a path may lead to a pipe without a writer, or to a device whose content never ends. So
//! only regular files are opened, and only up to a size.

mod state;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

pub use state::{home_state_folder, made_state_folder, make_private, state_folder, state_problem};

/// The limit for files of settings: configs, keys, lock files, schemas, samples.
pub const SETTINGS: u64 = 16 << 20;

/// The limit for recordings and tables of prices.
pub const RECORDS: u64 = 1 << 30;

/// Opens a regular file of at most `limit` bytes.
///
/// # Errors
/// The system's error if the file can't be opened; an [`io::Error`] if it is not a regular file, or
/// is larger.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    // Checked before opening, because opening a device may have effects; and again afterwards,
    // because the file may have been replaced. In that case opening does not wait either, since the
    // flags forbid it.
    check(&std::fs::metadata(path)?, limit)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    check(&file.metadata()?, limit)?;
    Ok(file)
}

/// The bytes of a regular file.
///
/// # Errors
/// The errors of [`open`]; and an [`io::Error`] if the file grows beyond `limit` meanwhile.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(&open(path, limit)?, limit)
}

/// The text of a regular file.
///
/// # Errors
/// The errors of [`read`]; and an [`io::Error`] if the file is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read(path, limit)?)
}

/// The bytes of a file that [`open`] has opened.
///
/// # Errors
/// The system's error if reading fails; an [`io::Error`] if the file has grown beyond `limit`.
pub fn read_opened(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// Bytes as text.
///
/// # Errors
/// An [`io::Error`] if they are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("it is not UTF-8 text (byte {place})"),
        )
    })
}

fn check(meta: &std::fs::Metadata, limit: u64) -> io::Result<()> {
    let kind = meta.file_type();
    let sort = match () {
        () if kind.is_file() && meta.len() <= limit => return Ok(()),
        () if kind.is_file() => return Err(too_large(limit)),
        () if kind.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        format!("it is {sort}, not a regular file"),
    ))
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it is larger than {} MiB", limit >> 20),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1 << 20;

    #[test]
    fn only_regular_files_below_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let refused = |name: &str| read(&at(name), LIMIT).unwrap_err().to_string();
        std::fs::write(at("good"), "text").unwrap();
        assert_eq!(read_text(&at("good"), LIMIT).unwrap(), "text");
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        assert_eq!(read_text(&at("link"), LIMIT).unwrap(), "text");

        // Without a writer, opening it would wait without end.
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
        assert_eq!(refused("pipe"), "it is a pipe, not a regular file");
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        assert_eq!(refused("endless"), "it is a device, not a regular file");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(refused("socket"), "it is a socket, not a regular file");
        assert!(refused(".").contains("directory"));

        let file = File::create(at("large")).unwrap();
        file.set_len(LIMIT + 1).unwrap();
        assert_eq!(refused("large"), "it is larger than 1 MiB");
        file.set_len(LIMIT).unwrap();
        assert_eq!(read(&at("large"), LIMIT).unwrap().len(), 1 << 20);
        std::fs::write(at("bytes"), b"ab\xff").unwrap();
        let error = read_text(&at("bytes"), LIMIT).unwrap_err().to_string();
        assert_eq!(error, "it is not UTF-8 text (byte 2)");
        let none = read(&at("none"), LIMIT).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn files_of_the_kernel_that_say_they_are_empty_are_read() {
        let text = read_text(Path::new("/proc/self/status"), LIMIT).unwrap();
        assert!(text.contains("Pid:"), "{text}");
    }
}
