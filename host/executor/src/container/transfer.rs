//! Copies files and folders into a container and out of it, as tar archives.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::attend::ProgramAnswer;
use super::engine::ExecSpec;
use super::running::Container;
use crate::archives::{self, ReceivedArchive, failed};
use mswea_core::ExecutorError;

/// The time limit of inspecting a folder.
const LOOKING: Duration = Duration::from_secs(20);
/// How many links are followed for one path.
const LINKS: usize = 16;

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
    let packed = archives::packed(from, &target.name, target.owner).await;
    let archive = packed.map_err(fail)?;
    let path = archive.path();
    let put = container
        .engine
        .put_file(&container.id, &target.folder, &path);
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
    let spec = ExecSpec::of(&["sh", "-c", PREPARE, "sh", to, kind]);
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
        let archive = ReceivedArchive::new().map_err(fail)?;
        let place = archive.path();
        let got = container.engine.get(&container.id, &path, &place);
        got.await.map_err(|e| fail(e.message))?;
        let unpacked = archive.unpack(path == "/").await.map_err(fail)?;
        // The engine has packed a link and not its target, which is in the container.
        if let Ok(points_to) = fs::read_link(&unpacked) {
            let parent = Path::new(&path).parent().unwrap_or(Path::new("/"));
            path = parent.join(points_to).to_string_lossy().into_owned();
            continue;
        }
        return archive.settle(unpacked, from, to).await;
    }
    Err(fail("there are too many symbolic links".to_owned()))
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
}
