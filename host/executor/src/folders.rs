//! Temporary folders of a run, which are removed when it ends. A folder that the host could not
//! remove is found by its owner file.
//!
//! Beside each folder `mswea-<run>-<kind>-<number>` there is a file of the same name with the
//! suffix `.owner`, which names the process that made it ([`Owner`]). It is written first and
//! removed last, so that every folder has one. A second line may name the folder of a repository
//! with the credentials of a fetch ([`SETUP`]), which are removed with it.

mod remove;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::leftovers::{Fate, Leftover};
use super::owner::{Life, Owner};
use mswea_core::ExecutorError;
use remove::remove;
pub use remove::remove_tree;

const PREFIX: &str = "mswea-";
const OWNER: &str = ".owner";
/// The path in a repository of the credentials of a fetch while it takes place.
pub(super) const SETUP: &str = ".git/mswea-setup";
/// The most bytes of an owner file, with a path.
const OWNER_BYTES: u64 = 8192;
/// How long such a file may be empty before it counts as abandoned.
const UNWRITTEN: Duration = Duration::from_secs(60);

/// A folder that is removed with its content when this is dropped, or before.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
    also: Option<PathBuf>,
    removed: bool,
}

impl TempFolder {
    /// A new, empty folder that only this user can enter.
    ///
    /// # Errors
    /// [`ExecutorError`] if it can't be made.
    pub fn new(run_id: &str, kind: &str) -> Result<Self, ExecutorError> {
        Self::with(run_id, kind, None)
    }

    /// The same; the credentials in `also`, a repository's [`SETUP`], are removed with it.
    ///
    /// # Errors
    /// [`ExecutorError`] if it can't be made.
    pub(super) fn with(
        run_id: &str,
        kind: &str,
        also: Option<&Path>,
    ) -> Result<Self, ExecutorError> {
        let parent = std::env::temp_dir();
        Self::new_in(&parent, run_id, kind, also).map_err(|error| ExecutorError::from(format!(
                "no temporary folder can be made in `{}`: {error}; free some space there, or set the variable `TMPDIR` to another folder",
                parent.display()
            )))
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, off the event loop.
    pub async fn remove(mut self) {
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
struct LeftFolder {
    path: PathBuf,
    /// The credentials to be removed with the folder.
    also: Option<PathBuf>,
}

impl LeftFolder {
    /// The run that it belongs to, by its name.
    fn run_id(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let id = name.strip_prefix(PREFIX).unwrap_or(&name);
        // It is followed by the kind and a number.
        id.rsplitn(3, '-').last().unwrap_or(id).to_owned()
    }
}

/// A run id in the form of folder names, because an id may contain any printable character.
pub(super) fn in_name(run_id: &str) -> String {
    run_id
        .chars()
        .take(100)
        .map(|char| match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => char,
            _ => '_',
        })
        .collect()
}

/// Removes the temporary folders of this user's hosts that are certainly gone; with `dry_run` only
/// lists them; with `only_run`, only those of that run. Searches where this process would make its
/// own: `TMPDIR`, or `/tmp`.
pub fn remove_leftover_folders(only_run: Option<&str>, dry_run: bool) -> Vec<Leftover> {
    leftovers(&std::env::temp_dir(), only_run, dry_run)
}

pub(super) fn leftovers(parent: &Path, only_run: Option<&str>, dry_run: bool) -> Vec<Leftover> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| leftover(&entry.path()))
        .filter(|left| only_run.is_none_or(|only| in_name(only) == left.run_id()))
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let swept = found.into_iter().map(|left| Leftover {
        kind: "folder",
        name: left.path.display().to_string(),
        run_id: left.run_id(),
        fate: match dry_run {
            true => Fate::Found,
            false => match remove(&left.path, left.also.as_deref()) {
                Ok(()) => Fate::Removed,
                Err(error) => Fate::Failed(error.to_string()),
            },
        },
    });
    swept.collect()
}

/// The folder that `file` names, if it is an owner file and the folder is or may be left over.
fn leftover(file: &Path) -> Option<LeftFolder> {
    let name = file.file_name()?.to_str()?;
    if !name.starts_with(PREFIX) {
        return None;
    }
    let path = file.with_file_name(name.strip_suffix(OWNER)?);
    let (found, text) = own_file(file, OWNER_BYTES)?;
    let mut lines = text.splitn(2, |byte| *byte == b'\n');
    let owner = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let also = lines
        .next()
        .map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let is_gone = match owner.parse::<Owner>() {
        Ok(owner) => owner.life() == Life::Gone,
        // The host was killed before it wrote the owner, and so before it made the folder.
        Err(()) => text.is_empty() && is_old(&found),
    };
    if !is_gone {
        return None;
    }
    match fs::symlink_metadata(&path) {
        Ok(it) if !it.is_dir() || !is_mine(&it) => return None,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
        // If the folder does not exist, only the owner file is left.
        _ => {}
    }
    Some(LeftFolder { path, also })
}

/// The content of a file of this user, of at most `limit` bytes. Another user may have replaced it
/// by a link to this user's files, or by a pipe that never ends.
pub(super) fn own_file(path: &Path, limit: u64) -> Option<(fs::Metadata, Vec<u8>)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let found = file.metadata().ok()?;
    let mut content = Vec::new();
    let is_own = found.is_file() && is_mine(&found);
    (is_own && file.take(limit).read_to_end(&mut content).is_ok()).then_some((found, content))
}

fn is_mine(it: &fs::Metadata) -> bool {
    it.uid() == rustix::process::geteuid().as_raw()
}

/// Whether an empty owner file is so old that its host can't still be about to write it.
fn is_old(it: &fs::Metadata) -> bool {
    it.modified()
        .is_ok_and(|time| time.elapsed().unwrap_or_default() > UNWRITTEN)
}

fn owner_file(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(OWNER);
    folder.with_file_name(name)
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_content() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TempFolder::new_in(parent.path(), "a/../b:1", "kind", None).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.parent(), Some(parent.path()));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("mswea-a_.._b_1-kind-"), "{name}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        let owner = fs::read_to_string(owner_file(&path)).unwrap();
        assert_eq!(owner.parse(), Ok(Owner::current()));
        // Its owner is running.
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
    fn what_a_killed_script_of_git_has_left_is_removed() {
        use std::io::BufRead as _;
        let (parent, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut script = mswea_git::shell(&format!(
            "git init -q . && {}echo ready; sleep 5 & wait",
            mswea_git::entered("")
        ));
        script.current_dir(work.path()).env("TMPDIR", parent.path());
        let mut script = script.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = script.stdout.take().unwrap();
        io::BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        assert_eq!(leftovers(parent.path(), None, false), []);
        script.kill().unwrap();
        script.wait().unwrap();
        let found = leftovers(parent.path(), None, false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].fate, Fate::Removed);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_folders_of_dead_hosts_are_left_over() {
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
        // A folder that was never made, links in both places, a pipe, a file in place of a folder.
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
        // Hosts that were killed before they wrote their owner; one of them has only just been
        // killed.
        fs::write(at("mswea-unwritten.owner"), "").unwrap();
        fs::write(at("mswea-empty.owner"), "").unwrap();
        let old = std::time::SystemTime::now() - UNWRITTEN * 2;
        let file = fs::File::options()
            .write(true)
            .open(at("mswea-empty.owner"));
        file.unwrap().set_modified(old).unwrap();
        let mut expected = vec!["mswea-dead", "mswea-empty", "mswea-missing"];
        // The file belongs to another user; only root can make one.
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
                .map(|left| left.name.rsplit('/').next().unwrap())
                .collect();
            assert_eq!(names, expected);
            let wanted = if dry_run { Fate::Found } else { Fate::Removed };
            assert!(found.iter().all(|left| left.fate == wanted));
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
        // The owner is gone; a command may have written any path into the file.
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
            let names: Vec<_> = found.iter().map(|left| PathBuf::from(&left.name)).collect();
            assert_eq!(names, wanted.map(at).into_iter().collect::<Vec<_>>());
        }
        assert!(!at("mswea-a_1-x-0a").exists());
        assert!(at("mswea-a-1-x-0b").exists() && at("mswea-b-x-0c").exists());
    }

    #[test]
    fn folders_of_any_depth_are_removed_on_a_small_stack() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TempFolder::new_in(parent.path(), "r", "k", None).unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("x"), "x").unwrap();
        let depth = 20_000;
        let open = |path: &Path| {
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap()
        };
        let mut inner = open(folder.path());
        for level in 0..depth {
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mkdirat(&inner, "d", mode).unwrap();
            if level % 1000 == 0 {
                rustix::fs::symlinkat(outside.path(), &inner, "link").unwrap();
            }
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            inner = rustix::fs::openat(&inner, "d", flags, rustix::fs::Mode::empty()).unwrap();
        }
        drop(inner);
        let path = folder.path().to_owned();
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread.spawn(move || drop(folder)).unwrap().join().unwrap();
        assert!(!path.exists() && !owner_file(&path).exists());
        assert!(outside.path().join("x").exists());
        // A link has the place of the folder.
        symlink(outside.path(), &path).unwrap();
        remove_tree(&path).unwrap();
        assert!(fs::symlink_metadata(&path).is_err() && outside.path().join("x").exists());
    }

    /// For an unprivileged user; see `executor/tests/unprivileged.rs`.
    pub(crate) fn locked_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TempFolder::new_in(parent.path(), "r", "k", None).unwrap();
        let path = folder.path().to_owned();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), path.join("link")).unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let modes = [0o500, 0o000, 0o300, 0o600, 0o400];
        for (name, mode) in ["a", "b", "c", "d", "e"].into_iter().zip(modes) {
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
}
