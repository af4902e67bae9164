//! Archives of files and folders that are copied into an environment, or out of it. Both ways behave
//! like [`crate::files`]: a folder is merged into an existing one, a file is put into one; missing
//! parents are made; symbolic links stay links.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mswea_core::ExecutorError;
use mswea_helper::archive::{self, LeftOut};

use crate::files::{self, CallerWaits, PlacedPath};
use crate::folders::TempFolder;

/// The size of the write buffer.
const BUFFER: usize = 128 * 1024;

/// The error of a copy.
pub(super) fn failed(from: &str, to: &str, why: impl std::fmt::Display) -> ExecutorError {
    ExecutorError::from(format!(
        "`{from}` can't be copied to `{to}`: {why}; check both paths and their permissions"
    ))
}

/// A file to which writing fails when the caller no longer waits.
struct AbortableFile<'a> {
    file: BufWriter<fs::File>,
    wanted: &'a CallerWaits,
}

impl Write for AbortableFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.wanted.strong_count() == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The error of making an archive; a full disk has a remedy of its own.
pub(super) fn no_room(error: &io::Error) -> String {
    let folder = std::env::temp_dir();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
            "there is no room for its archive in `{}`: {}; set `TMPDIR` to a folder with more",
            folder.display(),
            archive::with_causes(error)
        ),
        _ => archive::with_causes(error),
    }
}

/// The error of a temporary file that can't be made.
fn no_file(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => no_room(error),
        _ => format!(
            "its archive can't be made in `{}`: {error}; set `TMPDIR` to a folder that can be written to",
            std::env::temp_dir().display()
        ),
    }
}

/// An archive on this machine's disk, as a file without a name: it is gone when the host ends,
/// however the host ends.
pub(super) struct PackedArchive(fs::File);

impl PackedArchive {
    /// A path by which this process can open the archive, positioned at its beginning.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Packs `from`, a path of this machine, off the event loop, into a file: a repository may be
/// larger than the memory. `name` and `owner` are those of [`archive::pack`].
///
/// # Errors
/// A message if something can't be read or written.
pub(super) async fn packed(
    from: &Path,
    name: &str,
    owner: (u64, u64),
) -> Result<PackedArchive, String> {
    let (from, name) = (from.to_owned(), PathBuf::from(name));
    let wanted = Arc::new(());
    let is_wanted = Arc::downgrade(&wanted);
    let packing = tokio::task::spawn_blocking(move || {
        let archive = tempfile::tempfile().map_err(|error| no_file(&error))?;
        let copy = archive.try_clone();
        let done = copy.and_then(|copy| pack(&from, &name, owner, copy, &is_wanted));
        files::name(&done.map_err(|error| no_room(&error))?);
        Ok(PackedArchive(archive))
    });
    let packed = packing.await;
    packed.unwrap_or_else(|error| Err(error.to_string()))
}

fn pack(
    from: &Path,
    name: &Path,
    owner: (u64, u64),
    to: fs::File,
    wanted: &CallerWaits,
) -> io::Result<LeftOut> {
    let mut archive = tar::Builder::new(AbortableFile {
        file: BufWriter::with_capacity(BUFFER, to),
        wanted,
    });
    let left_out = archive::pack(&mut archive, &fs::canonicalize(from)?, name, owner)?;
    archive.into_inner()?.flush()?;
    Ok(left_out)
}

/// A temporary folder for an archive and its content. If this host is killed, the next one removes
/// the folder.
pub(super) struct ReceivedArchive(TempFolder);

impl ReceivedArchive {
    /// Makes the folder.
    ///
    /// # Errors
    /// A message if the folder can't be made.
    pub(super) fn new() -> Result<Self, String> {
        let folder = TempFolder::new("copy", "archive");
        folder.map(Self).map_err(|error| error.message)
    }

    /// The path where the archive has to be put.
    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("archive.tar")
    }

    /// Unpacks the archive beside it, off the event loop; returns the unpacked file or folder.
    /// `is_root`: the archive was packed without a top folder.
    ///
    /// # Errors
    /// A message if the file is no archive, or its content can't be written.
    pub(super) async fn unpack(&self, is_root: bool) -> Result<PathBuf, String> {
        let (archive, folder) = (self.path(), self.0.path().to_owned());
        let unpacking = tokio::task::spawn_blocking(move || unpack(&archive, &folder, is_root));
        let unpacked = unpacking.await;
        let unpacked = unpacked.unwrap_or_else(|error| Err(io::Error::other(error)));
        unpacked.map_err(|error| no_room(&error))
    }

    /// Copies the unpacked content to `to`. `from` is its path in the environment, for messages.
    ///
    /// # Errors
    /// [`ExecutorError`] if `to` can't be written.
    pub(super) async fn settle(
        self,
        unpacked: PathBuf,
        from: &str,
        to: &Path,
    ) -> Result<(), ExecutorError> {
        let is_file = !unpacked.is_dir();
        let to = match Path::new(from).file_name() {
            Some(name) if is_file && to.is_dir() => to.join(name),
            _ => to.to_owned(),
        };
        let temporary = unpacked.display().to_string();
        let copied = files::copy(PlacedPath::here(unpacked), PlacedPath::here(to)).await;
        self.0.remove().await;
        copied.map_err(|error| ExecutorError::from(error.message.replace(&temporary, from)))
    }
}

/// The longest record of an archive that has a name or attributes of a file: a path has at most 4096 bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// Refuses an archive with a longer name, because the library reads names into memory and goes through all
/// their parts.
fn check_names(mut archive: tar::Archive<impl io::Read>) -> io::Result<()> {
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let is_name = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if is_name && entry.size() > LONGEST_NAME {
            let message = format!("it has a name that is longer than {LONGEST_NAME} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if is_name {
            let mut name = Vec::new();
            io::Read::read_to_end(&mut entry, &mut name)?;
            // A name in the head itself is too short for that.
            if name.iter().filter(|byte| **byte == b'/').count() > 2 * archive::DEEPEST {
                let message = format!("its folders are nested more than {} deep", archive::DEEPEST);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }
    Ok(())
}

/// Unpacks an archive beside it; returns the unpacked file or folder.
fn unpack(archive: &Path, folder: &Path, is_root: bool) -> io::Result<PathBuf> {
    let content = folder.join("content");
    fs::create_dir(&content)?;
    let open = || {
        Ok::<_, io::Error>(tar::Archive::new(io::BufReader::new(fs::File::open(
            archive,
        )?)))
    };
    check_names(open()?)?;
    open()?.unpack(&content)?;
    match fs::read_dir(&content)?.next() {
        // The root folder is packed without a name of its own.
        Some(first) if !is_root => Ok(first?.path()),
        _ => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("a/b/empty")).unwrap();
        fs::write(at("a/b/x"), "x").unwrap();
        std::os::unix::fs::symlink("b/x", at("a/link")).unwrap();
        let targets = ["/", "d//x/", "/usr/./bin/", &"l".repeat(150)];
        for target in targets {
            let link = at("a").join(format!("to{}", target.len()));
            std::os::unix::fs::symlink(target, link).unwrap();
        }
        let long = "n".repeat(150);
        fs::write(at("a").join(&long), "long").unwrap();
        let name = Path::new("to");
        let nobody_waits = CallerWaits::new();
        let create = || fs::File::create(at("archive.tar")).unwrap();
        let error = pack(&at("a"), name, (7, 8), create(), &nobody_waits).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let wanted = Arc::new(());
        pack(&at("a"), name, (7, 8), create(), &Arc::downgrade(&wanted)).unwrap();
        let archive = fs::File::open(at("archive.tar")).unwrap();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.header().uid().unwrap(), 7);
            assert_eq!(entry.header().gid().unwrap(), 8);
        }
        let top = unpack(&at("archive.tar"), root.path(), false).unwrap();
        assert_eq!(top.file_name().unwrap(), "to");
        assert_eq!(fs::read_to_string(top.join("link")).unwrap(), "x");
        assert_eq!(fs::read_to_string(top.join(long)).unwrap(), "long");
        assert!(top.join("b/empty").is_dir());
        for target in targets {
            let found = fs::read_link(top.join(format!("to{}", target.len()))).unwrap();
            assert_eq!(found.as_os_str(), target);
        }
    }

    /// Folders in one another: `names` of them, each with this name.
    fn nested(top: &Path, name: &str, names: usize) {
        let mut at = fs::File::open(top).unwrap();
        for _ in 0..names {
            let mode = rustix::fs::Mode::from(0o700);
            rustix::fs::mkdirat(&at, name, mode).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            let inner = rustix::fs::openat(&at, name, flags, rustix::fs::Mode::empty());
            at = inner.unwrap().into();
        }
    }

    #[test]
    fn deep_folders_need_no_stack() {
        let small = |work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().stack_size(512 << 10);
            thread.spawn(work).unwrap().join().unwrap();
        };
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir(at("deep")).unwrap();
        nested(&at("deep"), "d", 300);
        let (from, to, outer) = (at("deep"), at("deep.tar"), root.path().to_owned());
        small(Box::new(move || {
            let wanted = Arc::new(());
            let file = fs::File::create(&to).unwrap();
            pack(
                &from,
                Path::new("to"),
                (0, 0),
                file,
                &Arc::downgrade(&wanted),
            )
            .unwrap();
            let mut top = unpack(&to, &outer, false).unwrap();
            for depth in 0..300 {
                top.push("d");
                assert!(top.is_dir(), "{depth}");
            }
        }));
        // The system has no path that is as long as the last one.
        for depth in [1_800, 20_000] {
            fs::create_dir(at("deepest")).unwrap();
            nested(&at("deepest"), "deep", depth);
            let from = at("deepest");
            small(Box::new(move || {
                let mut packed = tar::Builder::new(io::sink());
                let error = archive::pack(&mut packed, &from, Path::new("a"), (0, 0)).unwrap_err();
                let text = no_room(&error);
                assert!(text.contains("nested too deeply to be copied"), "{text}");
                assert!(text.len() < 1_000, "{}", text.len());
                crate::folders::remove_tree(&from).unwrap();
            }));
        }
        crate::folders::remove_tree(&at("deep")).unwrap();
        crate::folders::remove_tree(&at("content")).unwrap();
    }

    #[test]
    fn an_archive_with_an_endless_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        let name = "a/".repeat(100_000);
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_cksum();
        let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
        archive.append(&header, name.as_bytes()).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_path("x").unwrap();
        header.set_size(0);
        header.set_cksum();
        archive.append(&header, io::empty()).unwrap();
        archive.into_inner().unwrap();
        let error = unpack(&path, folder.path(), false).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    #[test]
    fn what_can_not_be_packed_is_named() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("missing");
        let mut packed = tar::Builder::new(Vec::new());
        let error = archive::pack(&mut packed, &missing, Path::new("a"), (0, 0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let text = no_room(&error);
        assert!(
            text.contains(&format!("`{}`: No such file", missing.display())),
            "{text}"
        );
    }

    /// A file whose size differs from the number of bytes that can be read: files of `/proc` have
    /// the size 0.
    #[test]
    fn an_archive_stays_in_step_with_files_that_grow() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("b");
        fs::write(&whole, "whole").unwrap();
        let mut packed = tar::Builder::new(Vec::new());
        let grown = Path::new("/proc/self/status");
        archive::pack(&mut packed, grown, Path::new("a"), (0, 0)).unwrap();
        archive::pack(&mut packed, &whole, Path::new("b"), (0, 0)).unwrap();
        let packed = packed.into_inner().unwrap();
        let to = folder.path().join("to");
        archive::unpack(&packed[..], &to, false).unwrap();
        assert_eq!(fs::read(to.join("a")).unwrap(), b"");
        assert_eq!(fs::read(to.join("b")).unwrap(), b"whole");
    }
}
