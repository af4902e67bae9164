//! Temporary folders of a run, which go when it ends, and whoever they belonged to is known if
//! the host could not remove them.
//!
//! Beside each folder `mswea-<run>-<kind>-<number>` lies a file of the same name with `.owner`
//! at its end, which says which process made it ([`Owner`]). It is written first and removed
//! last, so that there is never a folder without one. A second line in it may name the
//! folder of a repository that holds the credentials of a fetch ([`SETUP`]): these go with it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::owner::{Life, Owner};
use crate::roles::ExecutorError;

const PREFIX: &str = "mswea-";
const OWNER: &str = ".owner";
/// Where a repository has the credentials of a fetch, for the time that it takes.
pub(super) const SETUP: &str = ".git/mswea-setup";
/// No owner is longer than this, with a path behind it.
const OWNER_BYTES: u64 = 8192;
/// How long there may be nothing in such a file.
const UNWRITTEN: Duration = Duration::from_secs(60);

/// A folder that is removed with what is in it, at the latest when this is dropped.
#[derive(Debug)]
pub(super) struct TempFolder {
    path: PathBuf,
    also: Option<PathBuf>,
    removed: bool,
}

impl TempFolder {
    /// A new, empty folder that only this user can enter.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn new(run_id: &str, kind: &str) -> Result<Self, ExecutorError> {
        Self::with(run_id, kind, None)
    }

    /// The same; the credentials in `also`, a repository's [`SETUP`], are removed with it.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn with(
        run_id: &str,
        kind: &str,
        also: Option<&Path>,
    ) -> Result<Self, ExecutorError> {
        let parent = std::env::temp_dir();
        Self::new_in(&parent, run_id, kind, also).map_err(|error| ExecutorError {
            message: format!(
                "no temporary folder can be made in `{}`: {error}; free some space there, or set the variable `TMPDIR` to another folder",
                parent.display()
            ),
        })
    }

    fn new_in(parent: &Path, run_id: &str, kind: &str, also: Option<&Path>) -> io::Result<Self> {
        let run = in_name(run_id);
        let parent = std::path::absolute(parent)?;
        let path = parent.join(format!("{PREFIX}{run}-{kind}-{:08x}", fastrand::u32(..)));
        let mut owner = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(owner_file(&path))?;
        let this = Self {
            path,
            also: also.map(Path::to_owned),
            removed: false,
        };
        let mut text = Owner::current().to_string().into_bytes();
        if let Some(also) = also {
            text.push(b'\n');
            text.extend_from_slice(also.as_os_str().as_bytes());
        }
        owner.write_all(&text)?;
        DirBuilder::new().mode(0o700).create(&this.path)?;
        Ok(this)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, off the event loop.
    pub(super) async fn remove(mut self) {
        let _ = tokio::task::spawn_blocking(move || self.remove_now()).await;
    }

    fn remove_now(&mut self) {
        if std::mem::replace(&mut self.removed, true) {
            return;
        }
        if let Err(error) = remove(&self.path, self.also.as_deref()) {
            tracing::warn!(
                folder = %self.path.display(), %error,
                "a temporary folder can't be removed: `mswea-host gc` tries again, or remove it by hand"
            );
        }
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        self.remove_now();
    }
}

/// A folder that a host left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftFolder {
    /// Where it is, or was.
    pub path: PathBuf,
    /// What goes with it.
    also: Option<PathBuf>,
    /// Why it is still there, if it could not be removed.
    pub error: Option<String>,
}

impl LeftFolder {
    /// The run that it belongs to, by its name.
    pub fn run_id(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let id = name.strip_prefix(PREFIX).unwrap_or(&name);
        // Behind it stand the kind and a number.
        id.rsplitn(3, '-').last().unwrap_or(id).to_owned()
    }
}

/// A run id as the names of its folders have it: it may hold anything printable.
fn in_name(run_id: &str) -> String {
    run_id
        .chars()
        .take(100)
        .map(|char| match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => char,
            _ => '_',
        })
        .collect()
}

/// Removes the temporary folders of this user's hosts that are gone for certain, or only says
/// which those are; with `only_run`, those of that run alone. Looks where this process would make
/// its own: `TMPDIR`, or `/tmp`.
pub fn remove_leftover_folders(only_run: Option<&str>, dry_run: bool) -> Vec<LeftFolder> {
    leftovers(&std::env::temp_dir(), only_run, dry_run)
}

pub(super) fn leftovers(parent: &Path, only_run: Option<&str>, dry_run: bool) -> Vec<LeftFolder> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| leftover(&entry.path()))
        .filter(|left| only_run.is_none_or(|only| in_name(only) == left.run_id()))
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    if !dry_run {
        for left in &mut found {
            let removed = remove(&left.path, left.also.as_deref());
            left.error = removed.err().map(|error| error.to_string());
        }
    }
    found
}

/// What `file` says, if it is a file of ours and its folder is or may be left over.
fn leftover(file: &Path) -> Option<LeftFolder> {
    let name = file.file_name()?.to_str()?;
    if !name.starts_with(PREFIX) {
        return None;
    }
    let path = file.with_file_name(name.strip_suffix(OWNER)?);
    let mut text = Vec::new();
    // Other users may have put anything there: a link to our files, a pipe that never ends.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(file)
        .ok()?;
    let found = opened.metadata().ok()?;
    if !found.is_file() || !is_mine(&found) {
        return None;
    }
    File::take(opened, OWNER_BYTES)
        .read_to_end(&mut text)
        .ok()?;
    let mut lines = text.splitn(2, |byte| *byte == b'\n');
    let owner = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let also = lines
        .next()
        .map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let is_gone = match owner.parse::<Owner>() {
        Ok(owner) => owner.life() == Life::Gone,
        // Its host was killed before it had written what it is, and so before it made the folder.
        Err(()) => text.is_empty() && is_old(&found),
    };
    if !is_gone {
        return None;
    }
    match fs::symlink_metadata(&path) {
        Ok(it) if !it.is_dir() || !is_mine(&it) => return None,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
        // Without a folder, the file is what is left.
        _ => {}
    }
    Some(LeftFolder {
        path,
        also,
        error: None,
    })
}

fn is_mine(it: &fs::Metadata) -> bool {
    it.uid() == rustix::process::geteuid().as_raw()
}

/// Whether nobody can be about to write to it any more.
fn is_old(it: &fs::Metadata) -> bool {
    it.modified()
        .is_ok_and(|time| time.elapsed().unwrap_or_default() > UNWRITTEN)
}

fn owner_file(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(OWNER);
    folder.with_file_name(name)
}

/// Removes a folder, what goes with it, and then the file that says whose it is.
fn remove(folder: &Path, also: Option<&Path>) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    // Neither of the two follows links, also not those that appear meanwhile.
    match gone(fs::remove_dir_all(folder)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            unlock(&rustix::fs::open(folder, flags, Mode::empty())?);
            gone(fs::remove_dir_all(folder))?;
        }
        result => result?,
    }
    if let Some(setup) = also.filter(|also| also.is_absolute() && also.ends_with(SETUP)) {
        gone(remove_credentials(setup))?;
    }
    gone(fs::remove_file(owner_file(folder)))
}

/// Removes the credentials of a fetch from a repository. A command may have written the file that
/// names this folder, so nothing but that one file goes, and the folder only if it is empty then.
fn remove_credentials(setup: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(setup, flags, Mode::empty())?;
    match rustix::fs::unlinkat(&opened, "credentials", AtFlags::empty()) {
        Err(error) if error != rustix::io::Errno::NOENT => return Err(error.into()),
        _ => {}
    }
    match fs::remove_dir(setup) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        result => result,
    }
}

/// Makes a folder and those below writable for us, as far as they are ours: images contain
/// folders that even their owner may not write to.
fn unlock(folder: &OwnedFd) {
    let itself = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let _ = rustix::fs::chmod(itself, Mode::RWXU);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(entries) = rustix::fs::openat(folder, ".", flags, Mode::empty()).and_then(Dir::new)
    else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if !is_folder || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if let Ok(inner) = rustix::fs::openat(folder, name, flags | OFlags::PATH, Mode::empty()) {
            unlock(&inner);
        }
    }
}

/// Where `path` of an environment is on this machine, if the environment's folder `root` is all
/// of it that exists here. `start` is where relative paths begin, below `root`.
///
/// What runs in the environment may have put links in there that lead out of it.
///
/// # Errors
/// When the path leads out of `root`.
pub(super) fn inside(root: &Path, start: &Path, path: &str) -> Result<PathBuf, ExecutorError> {
    let outside = || ExecutorError {
        message: format!(
            "`{path}` is not below `{}`, which is all of the environment that can be reached from outside; name a path in there, without links and `..` that lead out",
            root.display()
        ),
    };
    let wanted = start.join(path);
    let relative = wanted.strip_prefix(root).map_err(|_| outside())?;
    let real_root = root.canonicalize().map_err(|_| outside())?;
    let mut real = real_root.clone();
    for part in relative.components() {
        real.push(part);
        match real.canonicalize() {
            Ok(found) => real = found,
            // What does not exist leads nowhere, unless it is a link to a file to be made.
            Err(_) if fs::symlink_metadata(&real).is_ok() => return Err(outside()),
            Err(_) if part.as_os_str().as_bytes() == b".." => return Err(outside()),
            Err(_) => {}
        }
        if !real.starts_with(&real_root) {
            return Err(outside());
        }
    }
    Ok(real)
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TempFolder::new_in(parent.path(), "a/../b:1", "kind", None).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.parent(), Some(parent.path()));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("mswea-a_.._b_1-kind-"), "{name}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        let owner = fs::read_to_string(owner_file(&path)).unwrap();
        assert_eq!(owner.parse(), Ok(Owner::current()));
        // Its owner lives.
        assert_eq!(leftovers(parent.path(), None, false), []);

        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("x"), "x").unwrap();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "").unwrap();
        symlink(outside.path(), path.join("a/link")).unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(outside.path().join("x").exists());
    }

    #[test]
    fn only_what_belongs_to_the_dead_is_left_over() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let alive = Owner::current().to_string();
        let (start, last) = alive.rsplit_once('/').unwrap();
        let dead = format!("{start}/{}", last.parse::<u64>().unwrap() + 1);
        let elsewhere = format!("x{alive}");
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("x"), "x").unwrap();

        for (name, owner) in [
            ("mswea-alive", alive.as_str()),
            ("mswea-dead", &dead),
            ("mswea-elsewhere", &elsewhere),
            ("mswea-broken", "?"),
            ("other-dead", &dead),
        ] {
            fs::create_dir_all(at(name).join("in/side")).unwrap();
            fs::write(at(&format!("{name}.owner")), owner).unwrap();
        }
        fs::create_dir(at("mswea-no-owner")).unwrap();
        // A folder that was never made, links in both places, a pipe, a file for a folder.
        fs::write(at("mswea-missing.owner"), &dead).unwrap();
        fs::create_dir(at("mswea-link-owner")).unwrap();
        fs::write(outside.path().join("owner"), &dead).unwrap();
        symlink(outside.path().join("owner"), at("mswea-link-owner.owner")).unwrap();
        symlink(outside.path(), at("mswea-link")).unwrap();
        fs::write(at("mswea-link.owner"), &dead).unwrap();
        let status = std::process::Command::new("mkfifo")
            .arg(at("mswea-pipe.owner"))
            .status();
        assert!(status.unwrap().success());
        fs::write(at("mswea-file"), "").unwrap();
        fs::write(at("mswea-file.owner"), &dead).unwrap();
        // Hosts that were killed before they wrote what they were; one of them just now.
        fs::write(at("mswea-unwritten.owner"), "").unwrap();
        fs::write(at("mswea-empty.owner"), "").unwrap();
        let old = std::time::SystemTime::now() - UNWRITTEN * 2;
        let file = File::options().write(true).open(at("mswea-empty.owner"));
        file.unwrap().set_modified(old).unwrap();
        let mut expected = vec!["mswea-dead", "mswea-empty", "mswea-missing"];
        // Another user's; only root can make one.
        if rustix::process::geteuid().is_root() {
            fs::create_dir(at("mswea-foreign")).unwrap();
            fs::write(at("mswea-foreign.owner"), &dead).unwrap();
            std::os::unix::fs::chown(at("mswea-foreign"), Some(65534), None).unwrap();
            fs::create_dir(at("mswea-planted")).unwrap();
            fs::write(at("mswea-planted.owner"), &dead).unwrap();
            std::os::unix::fs::chown(at("mswea-planted.owner"), Some(65534), None).unwrap();
        }

        let count = || fs::read_dir(parent.path()).unwrap().count();
        let before = count();
        for dry_run in [true, false] {
            let found = leftovers(parent.path(), None, dry_run);
            let names: Vec<_> = found
                .iter()
                .map(|left| left.path.file_name().unwrap().to_str().unwrap())
                .collect();
            assert_eq!(names, expected);
            assert!(found.iter().all(|left| left.error.is_none()));
            assert_eq!(count(), if dry_run { before } else { before - 4 });
        }
        assert!(!at("mswea-dead").exists() && !at("mswea-dead.owner").exists());
        assert!(outside.path().join("x").exists());
        expected.clear();
        assert_eq!(leftovers(parent.path(), None, false), []);
    }

    #[test]
    fn credentials_of_a_fetch_go_along_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let setup = |repo: &str, file: &str| {
            fs::create_dir_all(at(repo)).unwrap();
            fs::write(at(repo).join(file), "x").unwrap();
        };
        setup("repo/.git/mswea-setup", "credentials");
        let also = at("repo/.git/mswea-setup");
        let folder = TempFolder::new_in(parent.path(), "r", "k", Some(&also)).unwrap();
        let owner = fs::read_to_string(owner_file(folder.path())).unwrap();
        let (mine, rest) = owner.split_once('\n').unwrap();
        assert_eq!(mine.parse(), Ok(Owner::current()));
        assert_eq!(Path::new(rest), also);
        drop(folder);
        assert!(!also.exists() && at("repo/.git").exists());
        // Of a host that is gone; a command may have written any path there.
        let (start, last) = mine.rsplit_once('/').unwrap();
        let dead = format!("{start}/{}", last.parse::<u64>().unwrap() + 1);
        setup("gone/.git/mswea-setup", "credentials");
        setup("home/mswea-host", "work");
        setup("full/.git/mswea-setup", "work");
        fs::create_dir_all(at("linked/.git")).unwrap();
        symlink(at("home/mswea-host"), at("linked/.git/mswea-setup")).unwrap();
        for also in ["gone", "full", "linked"] {
            let text = format!("{dead}\n{}", at(also).join(SETUP).display());
            fs::write(at("mswea-r-k-1.owner"), text).unwrap();
            assert_eq!(leftovers(parent.path(), None, false).len(), 1);
        }
        let text = format!("{dead}\n{}", at("home/mswea-host").display());
        fs::write(at("mswea-r-k-2.owner"), text).unwrap();
        leftovers(parent.path(), None, false);
        assert!(!at("gone/.git/mswea-setup").exists());
        assert!(at("full/.git/mswea-setup/work").exists());
        assert!(at("home/mswea-host/work").exists());
    }

    #[test]
    fn one_run_can_be_named() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let alive = Owner::current().to_string();
        let (start, last) = alive.rsplit_once('/').unwrap();
        let dead = format!("{start}/{}", last.parse::<u64>().unwrap() + 1);
        for name in ["mswea-a_1-x-0a", "mswea-a-1-x-0b", "mswea-b-x-0c"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(&format!("{name}.owner")), &dead).unwrap();
        }
        for (run, wanted) in [("c", None), ("a:1", Some("mswea-a_1-x-0a"))] {
            let found = leftovers(parent.path(), Some(run), false);
            let names: Vec<_> = found.iter().map(|left| left.path.clone()).collect();
            assert_eq!(names, wanted.map(at).into_iter().collect::<Vec<_>>());
        }
        assert!(!at("mswea-a_1-x-0a").exists());
        assert!(at("mswea-a-1-x-0b").exists() && at("mswea-b-x-0c").exists());
    }

    /// For an unprivileged user; see `executor/tests/unprivileged.rs`.
    pub(in crate::executor) fn locked_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TempFolder::new_in(parent.path(), "r", "k", None).unwrap();
        let path = folder.path().to_owned();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), path.join("link")).unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, mode) in [("a", 0o500), ("b", 0o000), ("c", 0o300)] {
            fs::create_dir_all(path.join(name).join("deep")).unwrap();
            fs::write(path.join(name).join("deep/x"), "").unwrap();
            for part in [format!("{name}/deep"), name.to_owned()] {
                fs::set_permissions(path.join(part), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        drop(folder);
        assert!(!path.exists() && !owner_file(&path).exists());
        let mode = fs::metadata(outside.path()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o755, "links are not followed");
    }

    #[test]
    fn locked_folders_of_anyone() {
        locked_folders_are_removed();
    }

    #[test]
    fn paths_do_not_lead_out() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("work/sub")).unwrap();
        fs::write(at("work/file"), "").unwrap();
        symlink("sub", at("work/fine")).unwrap();
        symlink(outside.path(), at("work/out")).unwrap();
        symlink(outside.path().join("new"), at("work/dangling")).unwrap();
        symlink("/", at("work/slash")).unwrap();
        let below = |path: &str| at(path).to_str().unwrap().to_owned();
        let vectors = [
            ("file", Some("work/file")),
            ("new/deep/er", Some("work/new/deep/er")),
            ("fine/x", Some("work/sub/x")),
            ("sub/../file", Some("work/file")),
            ("../top", Some("top")),
            (&below("work/file"), Some("work/file")),
            ("", Some("work")),
            ("../../x", None),
            ("out/x", None),
            ("out", None),
            ("dangling", None),
            ("slash/etc/passwd", None),
            ("new/../../../x", None),
            ("/etc/passwd", None),
        ];
        for (path, wanted) in vectors {
            let found = inside(root.path(), &at("work"), path).ok();
            let wanted = wanted.map(|path| root.path().canonicalize().unwrap().join(path));
            assert_eq!(found, wanted, "{path}");
        }
    }
}
