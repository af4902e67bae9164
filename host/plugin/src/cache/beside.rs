//! Where compiled plugins are kept when there is no key: beside the program, if Cargo has built it there.
//!
//! Whoever can write to the program's folder can replace the program, so code in this folder is as safe as the
//! program itself, from the commands of the model, too: a command that can change the one can change the other.
//! Only this user and root may have written the program, its folder, the folder of the code, and each file in it
//! (which is checked once it is open; links are not followed). The code belongs to one state of the program: a
//! program that is built or copied anew, as after an attack, uses none of it.
//!
//! Only a folder of builds is used, that is, one below a folder that Cargo has marked: folders in which programs
//! are installed are not the place for such files.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{LARGEST, is_private};
use mswea_files as regular_file;

/// The folder's name.
const NAME: &str = "plugin-code";

/// Cargo's mark in a target directory.
const MARK: &str = "CACHEDIR.TAG";

/// A digest of what tells one state of a program's file from another.
type ProgramDigest = [u8; 32];

/// The folder beside the running program, and the program's present state.
pub(super) fn found() -> Option<(PathBuf, ProgramDigest)> {
    let program = fs::read_link("/proc/self/exe").ok()?;
    let running = fs::metadata("/proc/self/exe").ok()?;
    of(&program, &running)
}

/// The folder beside the program at `path`, if that is still the one that runs.
fn of(path: &Path, running: &Metadata) -> Option<(PathBuf, ProgramDigest)> {
    let program = fs::symlink_metadata(path).ok()?;
    let is_same = (program.dev(), program.ino()) == (running.dev(), running.ino());
    let folder = path.parent()?;
    // `target/debug`, or `target/TRIPLE/debug`.
    let is_of_a_build = folder
        .ancestors()
        .skip(1)
        .take(2)
        .any(|above| above.join(MARK).is_file());
    let is_safe = is_private(&program) && is_private(&fs::symlink_metadata(folder).ok()?);
    let state = [
        program.dev(),
        program.ino(),
        program.size(),
        program.mtime().cast_unsigned(),
        program.mtime_nsec().cast_unsigned(),
    ];
    let digest = Sha256::digest(state.map(u64::to_le_bytes).as_flattened());
    (is_same && is_of_a_build && is_safe).then(|| (folder.join(NAME), digest.into()))
}

/// A file that only this user and root can have written.
///
/// # Errors
/// [`io::Error`] if it is another kind of file, or is not safe.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || !is_private(&meta) {
        return Err(io::Error::other("others can have written it"));
    }
    regular_file::read_opened(&file, LARGEST)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A target directory with a program in it.
    fn build(folder: &Path) -> PathBuf {
        let profile = folder.join("ä target/debug");
        fs::create_dir_all(&profile).unwrap();
        mode(&profile, 0o755);
        fs::write(folder.join("ä target").join(MARK), "").unwrap();
        let program = profile.join("program");
        fs::write(&program, "x").unwrap();
        mode(&program, 0o755);
        program
    }

    fn place(program: &Path) -> Option<(PathBuf, ProgramDigest)> {
        of(program, &fs::metadata(program).ok()?)
    }

    #[test]
    fn only_a_program_in_a_safe_folder_of_builds_has_a_place() {
        let root = tempfile::tempdir().unwrap();
        let program = build(root.path());
        let profile = program.parent().unwrap();
        let (folder, state) = place(&program).unwrap();
        assert_eq!(folder, profile.join(NAME));
        for (path, right, wrong) in [
            (&*program, 0o755, 0o775),
            (&program, 0o755, 0o757),
            (profile, 0o755, 0o775),
            (profile, 0o755, 0o1777),
        ] {
            mode(path, wrong);
            assert_eq!(place(&program), None, "{wrong:o}");
            mode(path, right);
        }
        assert_eq!(place(&program), Some((folder, state)));
        // A link to it is no program of a build, and another program is not the one that runs.
        let link = profile.join("link");
        symlink(&program, &link).unwrap();
        assert_eq!(place(&link), None);
        let other = profile.join("other");
        fs::write(&other, "x").unwrap();
        assert_eq!(of(&program, &fs::metadata(&other).unwrap()), None);
        // A program that is built anew is in another state.
        fs::rename(&other, &program).unwrap();
        mode(&program, 0o755);
        assert_ne!(place(&program).unwrap().1, state);
        if rustix::process::geteuid().is_root() {
            for path in [&*program, profile] {
                chown(path, Some(12345), None).unwrap();
                assert_eq!(place(&program), None);
                chown(path, Some(0), None).unwrap();
            }
        }
        assert!(place(&program).is_some());
        fs::remove_file(root.path().join("ä target").join(MARK)).unwrap();
        assert_eq!(place(&program), None);
    }

    #[test]
    fn what_others_can_have_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("good"), "code").unwrap();
        mode(&at("good"), 0o600);
        assert_eq!(read(&at("good")).unwrap(), b"code");
        symlink(at("good"), at("link")).unwrap();
        assert!(read(&at("link")).is_err());
        assert!(read(folder.path()).is_err());
        for wrong in [0o620, 0o602, 0o666] {
            mode(&at("good"), wrong);
            assert!(read(&at("good")).is_err(), "{wrong:o}");
        }
        mode(&at("good"), 0o644);
        assert!(read(&at("good")).is_ok());
        if rustix::process::geteuid().is_root() {
            chown(at("good"), Some(12345), None).unwrap();
            assert!(read(&at("good")).is_err());
        }
        // Nobody writes to it, so opening it would wait.
        let pipe = rustix::fs::FileType::Fifo;
        let made = rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), pipe, 0o600.into(), 0);
        made.unwrap();
        assert!(read(&at("pipe")).is_err());
    }
}
