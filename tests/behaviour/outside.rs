//! A folder in which a sandboxed command may not write. The unit tests of the executors include this file, too.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The folders, besides `TMPDIR`, in which every sandboxed command may write.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// A new folder that is below no temporary one, wherever the clone, its target directory and the home folder are.
/// `MSWEA_TEST_OUTSIDE` names a place for it.
pub fn outside() -> Option<TempDir> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let target = option_env!("CARGO_TARGET_TMPDIR").map(PathBuf::from);
    let usual = ["/var/lib", "/run", "/root", "/run/lock"].map(PathBuf::from);
    let own = std::env::temp_dir();
    let temporary = TEMPORARY.iter().map(Path::new).chain([own.as_path()]);
    let temporary: Vec<PathBuf> = temporary.filter_map(|it| it.canonicalize().ok()).collect();
    [variable("MSWEA_TEST_OUTSIDE"), target]
        .into_iter()
        .chain([variable("HOME"), variable("XDG_RUNTIME_DIR")])
        .flatten()
        .chain(usual)
        .filter_map(|place| place.canonicalize().ok())
        .filter(|place| !temporary.iter().any(|it| place.starts_with(it)))
        .find_map(|place| {
            let mut folder = tempfile::Builder::new();
            folder.prefix("mswea-outside-").tempdir_in(place).ok()
        })
}
