//! Copies files to a server of SWE-ReX and from it, as tar archives: SWE-ReX's own uploads of
//! folders lose links and permissions.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use mswea_core::ExecutorError;

use super::client::{RexClient, program};
use crate::archives::{self, ReceivedArchive, failed};

/// The most bytes of one request.
const PIECE: usize = 16 * 1024 * 1024;
/// The time limit of a request, and of packing or unpacking at the server.
const PASSING: Duration = Duration::from_secs(600);

/// Unpacks the pieces under `$0` into the folder `$1`.
const UNPACK_FOLDER: &str = r#"mkdir -p -- "$1" && cat "$0".* | tar -xf - -C "$1""#;
/// Unpacks the file `$1` with the permissions `$2`, or a file in the folder `$1`.
const UNPACK_FILE: &str = r#"if [ -d "$1" ]; then cat "$0".* | tar -xf - -C "$1"; else
mkdir -p -- "$(dirname -- "$1")" && cat "$0".* | tar -xOf - >"$1" && chmod "$2" "$1"; fi"#;
/// Prints an archive of `$0`.
const PACK: &str = r#"[ -e "$0" ] || { echo "no such file or folder" >&2; exit 1; }
tar -cf - -C "$(dirname -- "$0")" -- "$(basename -- "$0")" | base64"#;

/// Copies `from`, a path of this machine, to `to`, which is relative to `cwd`.
///
/// # Errors
/// [`ExecutorError`] if `from` can't be read, `to` can't be written, or the server fails.
pub(super) async fn upload(
    client: &RexClient,
    from: &Path,
    to: &str,
    cwd: Option<&str>,
) -> Result<(), ExecutorError> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = from.display().to_string();
    let fail = |why: String| failed(&shown, to, why);
    let found = std::fs::metadata(from).map_err(|error| fail(error.to_string()))?;
    let mode = format!("{:o}", found.permissions().mode() & 0o777);
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let (script, name) = match found.is_dir() {
        true => (UNPACK_FOLDER, "".into()),
        false => (UNPACK_FILE, name),
    };
    let archive = archives::packed(from, &name, (0, 0)).await.map_err(fail)?;
    let mut content =
        std::fs::File::open(archive.path()).map_err(|error| fail(error.to_string()))?;
    let place = format!(
        "/tmp/.mswea-{:016x}{:016x}",
        fastrand::u64(..),
        fastrand::u64(..)
    );
    let mut piece = Vec::with_capacity(PIECE);
    let mut passed = Ok(());
    for number in 0.. {
        piece.clear();
        let read = content.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        read.map_err(|error| fail(error.to_string()))?;
        if piece.is_empty() {
            break;
        }
        let path = format!("{place}.{number:08}");
        passed = client.upload(&piece, &path, PASSING).await;
        if passed.is_err() {
            break;
        }
    }
    let script = match passed {
        Ok(()) => script,
        Err(_) => "true",
    };
    let script = format!("{script}\nstatus=$?; rm -f -- \"$0\".*; exit $status");
    let argv = ["sh", "-c", &script, &place, to, &mode];
    let unpacked = client.run(&program(&argv, cwd, PASSING), PASSING).await;
    passed.map_err(|error| fail(error.to_string()))?;
    match unpacked.map_err(|error| fail(error.to_string()))? {
        (_, 0) => Ok(()),
        (said, _) => Err(fail(said.trim().to_owned())),
    }
}

/// Copies `from`, which is relative to `cwd`, to `to`, a path of this machine.
///
/// # Errors
/// [`ExecutorError`] if `from` can't be read, `to` can't be written, or the server fails.
pub(super) async fn download(
    client: &RexClient,
    from: &str,
    to: &Path,
    cwd: Option<&str>,
) -> Result<(), ExecutorError> {
    let shown = to.display().to_string();
    let fail = |why: String| failed(from, &shown, why);
    let archive = ReceivedArchive::new().map_err(fail)?;
    let argv = ["sh", "-c", PACK, from];
    let packed = client.run(&program(&argv, cwd, PASSING), PASSING).await;
    let (text, status) = packed.map_err(|error| fail(error.to_string()))?;
    if status != 0 {
        return Err(fail(text.trim().to_owned()));
    }
    let text: String = text.split_ascii_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let bytes = bytes.map_err(|error| fail(format!("no archive has come: {error}")))?;
    let written = std::fs::write(archive.path(), bytes);
    written.map_err(|error| fail(archives::no_room(&error)))?;
    let unpacked = archive.unpack(false).await.map_err(fail)?;
    archive.settle(unpacked, from, to).await
}
