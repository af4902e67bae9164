//! An unpacked image as the root of a sandbox. Each run works in a copy, in a temporary folder that
//! is removed with the environment, so that no run sees changes of another one.

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;

use crate::folders::TempFolder;
use crate::local::{LocalExecutor, LocalSettings};
use crate::programs;
use mswea_core::{Context, Executor as _, ExecutorError, Progress};
use mswea_helper::files::PlaceFiles;

/// The arguments with an image, in place of the default ones: the commands are root there, use the
/// image's programs, and get no variables of this machine (`--unsetenv`).
pub const IMAGE_WRAPPER_ARGS: &[&str] = &[
    "--unshare-user-try",
    "--uid",
    "0",
    "--gid",
    "0",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--new-session",
    "--unshare-pid",
    "--unshare-ipc",
    "--setenv",
    "HOME",
    "/root",
    "--setenv",
    "PATH",
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
];

/// The files by which host names are resolved; those in an image are from another network.
const NETWORK: &[&str] = &["resolv.conf", "hosts"];

/// How an image is copied.
#[derive(Clone, Debug)]
pub struct SandboxImage {
    /// The folder with the unpacked image.
    pub folder: PathBuf,
    /// The time limit of the copy.
    pub build_timeout: Duration,
}

impl SandboxImage {
    /// Copies the image into a new folder.
    ///
    /// # Errors
    /// [`ExecutorError`] if there is no such folder, it can't be copied completely, or the run is
    /// stopped.
    pub(super) async fn copy(
        &self,
        local: &LocalSettings,
        context: &Context,
    ) -> Result<TempFolder, ExecutorError> {
        let image = self.found()?;
        let shown = image.display().to_string();
        let what = format!("copying the image `{shown}`");
        context.front.show(&Progress::Preparing(&what));
        let folder = TempFolder::new(&local.run_id, "bubblewrap")?;
        let mut settings = local.clone();
        settings.run_id = format!("{}-build", local.run_id);
        let mut copier = LocalExecutor::for_wrapped(settings, IndexMap::new());
        // Links are kept, and so are the times of files, which build tools compare.
        let args: [OsString; 4] = [
            programs::find("cp")
                .unwrap_or_else(|| "/bin/cp".into())
                .into(),
            "-a".into(),
            image.join(".").into(),
            root(&folder).into(),
        ];
        let copied = copier.run_program(&args, self.build_timeout, &context.stop);
        let copied = copied.await;
        copier.cleanup().await;
        let kind = copied.extra.get("exception_type").and_then(Value::as_str);
        let why = match kind {
            None if copied.returncode == 0 => {
                name_machines(&root(&folder));
                return Ok(folder);
            }
            None => {
                let said = copied.output.trim().lines().next().unwrap_or_default();
                let parent = folder.path().parent().unwrap_or(Path::new(""));
                format!(
                    "{said}; every file in it has to be readable, and `{}` needs room for a copy for each run (`TMPDIR` names another place)",
                    parent.display()
                )
            }
            Some("TimeoutExpired") => format!(
                "it took longer than {} s: set `environment.build_timeout` to more, or put the image on a local disk",
                self.build_timeout.as_secs_f64()
            ),
            Some(_) => copied.exception_info,
        };
        folder.remove().await;
        Err(ExecutorError {
            message: format!("the image `{shown}` can't be copied: {why}"),
        })
    }

    fn found(&self) -> Result<PathBuf, ExecutorError> {
        let found = std::path::absolute(&self.folder)
            .and_then(|path| Ok((path.metadata()?.is_dir(), path)));
        let why = match found {
            Ok((true, path)) => return Ok(path),
            Ok((false, _)) => "it is no folder".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(ExecutorError {
            message: format!(
                "the image `{0}` can't be used: {why}; in the class `bubblewrap` an image is a folder with its unpacked files: `mkdir DIR && docker export $(docker create {0} sh) | tar -x -C DIR` makes one where docker is",
                self.folder.display()
            ),
        })
    }
}

/// The folder with the copy of the image.
pub(super) fn root(folder: &TempFolder) -> PathBuf {
    folder.path().join("image")
}

/// The arguments that do not pass the variables `names` into the sandbox. Versions of bubblewrap
/// before 0.5, which some supported systems have, lack the option `--clearenv`.
pub(super) fn unsetenv<'a>(names: impl Iterator<Item = &'a str>) -> Vec<OsString> {
    let args = names.flat_map(|name| ["--unsetenv", name]);
    args.map(OsString::from).collect()
}

/// Makes the folders that a sandbox needs in an image, as far as they are missing. `bwrap` resolves
/// the image's links before the image is the root, so a link would lead to this machine's folders.
pub(super) fn make_folders(root: &Path, cwd: &Path) -> Result<(), ExecutorError> {
    let failed = |path: &Path, error: &std::io::Error| ExecutorError {
        message: format!(
            "can't make the folder `{}` in the copy of the image: {error}",
            path.display()
        ),
    };
    for name in ["proc", "dev"] {
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|it| !it.is_dir()) {
            fs::remove_file(&path).map_err(|error| failed(Path::new(name), &error))?;
        }
    }
    // A folder behind a link that only the image's programs can follow must exist already.
    let files = PlaceFiles::below(root).map_err(|error| failed(root, &error))?;
    match files.make_folder(cwd) {
        Err(error) if error.raw_os_error() != Some(libc::EXDEV) => Err(failed(cwd, &error)),
        _ => Ok(()),
    }
}

/// Replaces the image's files for resolving host names by this machine's.
fn name_machines(root: &Path) {
    // If the image's `/etc` is missing or a link to elsewhere, its files stay as they are.
    let etc = PlaceFiles::below(root).and_then(|files| files.folder(Path::new("etc")));
    let Ok(folder) = etc else {
        return;
    };
    let etc = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    for name in NETWORK {
        let (own, inside) = (Path::new("/etc").join(name), etc.join(name));
        // The file may be a link that leads out of the image.
        let _ = fs::remove_file(&inside);
        if fs::symlink_metadata(&inside).is_err()
            && let Err(error) = fs::copy(&own, &inside)
        {
            tracing::debug!(%error, "`{}` is not in the sandbox", own.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_an_image_are_made_inside_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("image/usr/work")).unwrap();
        fs::create_dir_all(at("outside")).unwrap();
        for (target, link) in [
            (at("outside"), "absolute"),
            ("../outside".into(), "relative"),
            ("/oldroot/tmp".into(), "proc"),
            ("usr/work".into(), "plain"),
        ] {
            symlink(target, at("image").join(link)).unwrap();
        }
        for cwd in [
            "/absolute/a",
            "/relative/b",
            "/plain/c",
            "/new/d",
            "/",
            "/../e",
        ] {
            make_folders(&at("image"), Path::new(cwd)).unwrap();
        }
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
        assert!(at("image/usr/work/c").is_dir() && at("image/new/d").is_dir());
        assert!(fs::symlink_metadata(at("image/proc")).is_err() && !at("e").exists());
        // A file has the place of the folder.
        fs::write(at("image/file"), "").unwrap();
        let error = make_folders(&at("image"), Path::new("/file/x")).unwrap_err();
        assert!(error.message.contains("`/file/x` in the copy"), "{error:?}");
    }

    #[test]
    fn a_link_of_an_image_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("image/etc")).unwrap();
        fs::write(at("outside"), "mine").unwrap();
        symlink(at("outside"), at("image/etc/hosts")).unwrap();
        symlink("/nowhere/x", at("image/etc/resolv.conf")).unwrap();
        name_machines(&at("image"));
        assert_eq!(fs::read_to_string(at("outside")).unwrap(), "mine");
        for name in NETWORK {
            let own = fs::read(Path::new("/etc").join(name)).ok();
            let inside = at("image/etc").join(name);
            assert_eq!(fs::read(&inside).ok(), own, "{name}");
            assert!(
                fs::symlink_metadata(&inside).is_ok_and(|it| !it.is_symlink()) || own.is_none()
            );
        }
        // The folder of the image is a link.
        fs::create_dir_all(at("other/image")).unwrap();
        fs::create_dir_all(at("elsewhere")).unwrap();
        symlink(at("elsewhere"), at("other/image/etc")).unwrap();
        name_machines(&at("other/image"));
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
    }
}
