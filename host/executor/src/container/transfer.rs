//! Copies files and folders into a container and out of it, as tar archives.
//!
//! It behaves like `executor::files`: a folder is merged into an existing one, a file is put into
//! one; missing parents are made; symbolic links stay links.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::attend::ProgramAnswer;
use super::engine::ExecSpec;
use super::running::Container;
use crate::files;
use mswea_core::ExecutorError;

/// The time limit of inspecting a folder.
const LOOKING: Duration = Duration::from_secs(20);
/// How many links are followed for one path.
const LINKS: usize = 16;
/// How much of an archive is written at once.
const BUFFER: usize = 128 * 1024;

/// Makes the folder that the target `$1` needs, for a source that is a `$2` (`file`, `folder`).
/// Prints whether the source goes `into` the target or becomes the target (`as`), and the owner of
/// new files.
const PREPARE: &str = r#"
folder=$1
if [ "$2" = file ] && ! [ -d "$1" ]; then
    folder=${1%/*}
fi
mkdir -p "${folder:-/}" || exit 1
[ "$2" = file ] && [ -d "$1" ] && echo into || echo as
id -u && id -g
"#;

/// A path inside, made absolute with the working directory of commands.
pub(super) fn absolute(cwd: &str, path: &str) -> String {
    let joined = Path::new("/").join(cwd).join(path);
    let text = joined.to_string_lossy();
    let text = text.trim_end_matches('/');
    match text {
        "" => "/".to_owned(),
        text => text.to_owned(),
    }
}

fn failed(from: &str, to: &str, why: impl std::fmt::Display) -> ExecutorError {
    ExecutorError {
        message: format!(
            "`{from}` can't be copied to `{to}`: {why}; check both paths and their permissions"
        ),
    }
}

/// The target of an upload.
#[derive(Debug, PartialEq)]
struct UploadTarget {
    /// The existing folder into which the archive is unpacked.
    folder: String,
    /// The name in it; empty for the folder itself.
    name: String,
    /// The owner of the files.
    owner: (u64, u64),
}

/// Copies `from`, a path of this machine, to `to`, an absolute path of the container.
///
/// # Errors
/// [`ExecutorError`] if `from` can't be read, or `to` can't be written.
pub(super) async fn upload(
    container: &Container,
    from: &Path,
    to: &str,
) -> Result<(), ExecutorError> {
    let shown = from.display().to_string();
    let fail = |why: String| failed(&shown, to, why);
    let is_folder = fs::metadata(from)
        .map_err(|e| fail(e.to_string()))?
        .is_dir();
    let target = prepare(container, from, to, is_folder)
        .await
        .map_err(fail)?;
    let (source, folder) = (from.to_owned(), target.folder.clone());
    // In a file and not in memory, because a repository may be larger than that.
    let archive = tempfile::NamedTempFile::new().map_err(|e| fail(no_room(&e)))?;
    let to_write = archive.reopen().map_err(|e| fail(no_room(&e)))?;
    let given_up = Arc::new(AtomicBool::new(false));
    let _give_up = GiveUp(given_up.clone());
    let packed = tokio::task::spawn_blocking(move || pack(&source, &target, to_write, &given_up))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    packed.map_err(|e| fail(no_room(&e)))?;
    let put = container
        .engine
        .put_file(&container.id, &folder, archive.path());
    put.await.map_err(|e| fail(e.message))
}

/// Makes the folder that `to` needs.
async fn prepare(
    container: &Container,
    from: &Path,
    to: &str,
    is_folder: bool,
) -> Result<UploadTarget, String> {
    let kind = if is_folder { "folder" } else { "file" };
    let spec = ExecSpec {
        argv: ["sh", "-c", PREPARE, "sh", to, kind]
            .map(str::to_owned)
            .to_vec(),
        cwd: Some("/".to_owned()),
        ..ExecSpec::default()
    };
    let mut answer = container.ask(&spec, LOOKING).await;
    if answer.as_ref().is_ok_and(|answer| answer.status == 1) {
        // As root if the actions' user may not write there, like the engine's own copy.
        let spec = ExecSpec {
            user: Some("0".to_owned()),
            ..spec
        };
        answer = container.ask(&spec, LOOKING).await;
    }
    let (parent, name) = to.rsplit_once('/').unwrap_or_default();
    match answer {
        Ok(ProgramAnswer { status: 0, text }) => {
            let mut lines = text.lines();
            let into = lines.next() == Some("into");
            let mut number = || lines.next().and_then(|line| line.trim().parse().ok());
            let owner = (number().unwrap_or(0), number().unwrap_or(0));
            let file_name = from.file_name().unwrap_or_default().to_string_lossy();
            let (folder, name) = match (is_folder, into) {
                (true, _) => (to, ""),
                (false, true) => (to, file_name.as_ref()),
                (false, false) => (parent, name),
            };
            Ok(UploadTarget {
                folder: if folder.is_empty() { "/" } else { folder }.to_owned(),
                name: name.to_owned(),
                owner,
            })
        }
        Ok(ProgramAnswer { status: 1, text }) => Err(text.trim().to_owned()),
        // Without a shell, the engine makes the folders of the archive, and a file can't be put
        // into an existing folder.
        _ => Ok(UploadTarget {
            folder: "/".to_owned(),
            name: to.trim_start_matches('/').to_owned(),
            owner: (0, 0),
        }),
    }
}

/// Ends the packing thread when it is dropped, which means that the caller no longer waits.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file that can be written only while the caller waits.
struct AbortableFile<'a> {
    file: BufWriter<fs::File>,
    given_up: &'a AtomicBool,
}

impl Write for AbortableFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The error of making an archive; a full disk has a remedy of its own.
fn no_room(error: &io::Error) -> String {
    let folder = std::env::temp_dir();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
            "there is no room for its archive in `{}`: {error}; set `TMPDIR` to a folder with more",
            folder.display()
        ),
        _ => error.to_string(),
    }
}

fn pack(from: &Path, target: &UploadTarget, to: fs::File, given_up: &AtomicBool) -> io::Result<()> {
    let mut archive = tar::Builder::new(AbortableFile {
        file: BufWriter::with_capacity(BUFFER, to),
        given_up,
    });
    add(
        &mut archive,
        &fs::canonicalize(from)?,
        Path::new(&target.name),
        target.owner,
    )?;
    archive.into_inner()?.flush()
}

fn add(
    archive: &mut tar::Builder<AbortableFile<'_>>,
    from: &Path,
    name: &Path,
    owner: (u64, u64),
) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&found);
    header.set_uid(owner.0);
    header.set_gid(owner.1);
    // Only the numbers are stored; this machine's names have no meaning inside.
    header.set_username("")?;
    header.set_groupname("")?;
    let kind = found.file_type();
    if kind.is_dir() {
        if name != Path::new("") {
            header.set_size(0);
            archive.append_data(&mut header, name, io::empty())?;
        }
        let mut entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            add(archive, &entry.path(), &name.join(entry.file_name()), owner)?;
        }
    } else if kind.is_symlink() {
        header.set_size(0);
        archive.append_link(&mut header, name, fs::read_link(from)?)?;
    } else if kind.is_file() {
        archive.append_data(&mut header, name, fs::File::open(from)?)?;
    }
    // Sockets, pipes and devices have no content to copy.
    Ok(())
}

/// Copies `from`, an absolute path of the container, to `to`, a path of this machine.
///
/// # Errors
/// [`ExecutorError`] if `from` can't be read, or `to` can't be written.
pub(super) async fn download(
    container: &Container,
    from: &str,
    to: &Path,
) -> Result<(), ExecutorError> {
    let shown = to.display().to_string();
    let fail = |why: String| failed(from, &shown, why);
    let mut path = from.to_owned();
    for _ in 0..LINKS {
        let folder = tempfile::tempdir().map_err(|e| fail(e.to_string()))?;
        let archive = folder.path().join("archive.tar");
        let got = container.engine.get(&container.id, &path, &archive).await;
        got.map_err(|e| fail(e.message))?;
        let unpacking = folder.path().to_owned();
        let is_root = path == "/";
        let unpacked = tokio::task::spawn_blocking(move || unpack(&archive, &unpacking, is_root))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        let unpacked = unpacked.map_err(|e| fail(e.to_string()))?;
        // The engine has packed a link and not its target, which is in the container.
        if let Ok(points_to) = fs::read_link(&unpacked) {
            let parent = Path::new(&path).parent().unwrap_or(Path::new("/"));
            path = parent.join(points_to).to_string_lossy().into_owned();
            continue;
        }
        let is_file = !unpacked.is_dir();
        let name = Path::new(from).file_name();
        let to = match name {
            Some(name) if is_file && to.is_dir() => to.join(name),
            _ => to.to_owned(),
        };
        let temporary = unpacked.display().to_string();
        let copied = files::copy(unpacked, to).await;
        open_up(folder.path());
        return copied.map_err(|error| ExecutorError {
            message: error.message.replace(&temporary, from),
        });
    }
    Err(fail("there are too many symbolic links".to_owned()))
}

/// Unpacks an archive beside it; returns its top entry.
fn unpack(archive: &Path, folder: &Path, is_root: bool) -> io::Result<PathBuf> {
    let content = folder.join("content");
    fs::create_dir(&content)?;
    let mut reader = tar::Archive::new(io::BufReader::new(fs::File::open(archive)?));
    reader.unpack(&content)?;
    match fs::read_dir(&content)?.next() {
        // The root folder is packed without a name of its own.
        Some(first) if !is_root => Ok(first?.path()),
        _ => Ok(content),
    }
}

/// Makes folders writable, so that they can be removed.
fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(found) = fs::symlink_metadata(folder) else {
        return;
    };
    if !found.is_dir() {
        return;
    }
    let mode = found.permissions().mode() | 0o700;
    let _ = fs::set_permissions(folder, PermissionsExt::from_mode(mode));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_where_commands_start() {
        for (cwd, path, wanted) in [
            ("/", "a", "/a"),
            ("/w", "a/b", "/w/a/b"),
            ("/w", "/a", "/a"),
            ("/w/", "", "/w"),
            ("/", "/", "/"),
            ("/w", "a/", "/w/a"),
        ] {
            assert_eq!(absolute(cwd, path), wanted);
        }
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("a/b/empty")).unwrap();
        fs::write(at("a/b/x"), "x").unwrap();
        std::os::unix::fs::symlink("b/x", at("a/link")).unwrap();
        let long = "n".repeat(150);
        fs::write(at("a").join(&long), "long").unwrap();
        let target = UploadTarget {
            folder: "/".into(),
            name: "to".into(),
            owner: (7, 8),
        };
        let given_up = AtomicBool::new(true);
        let create = || fs::File::create(at("archive.tar")).unwrap();
        let error = pack(&at("a"), &target, create(), &given_up).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let given_up = AtomicBool::new(false);
        pack(&at("a"), &target, create(), &given_up).unwrap();
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
    }
}
