//! Compiled plugins on disk: kept, used, private, and ignored when damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mswea_host::plugin::{Cache, Loader};

use super::guests::hostile;
use crate::host::Host;

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    // First the code, then the records beside it.
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Loads the plugin through a cache; returns whether it had to be compiled.
async fn compiles(folder: &Path) -> bool {
    let loader = Loader::new(Some(Cache::at(folder.to_owned())));
    loader
        .load_file(hostile())
        .await
        .unwrap()
        .take_compile_time()
        .is_some()
}

#[tokio::test]
async fn the_second_load_does_not_compile() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a/b/wasm");
    assert!(compiles(&folder).await);
    assert!(!compiles(&folder).await);
    let [code, beside] = &files(&folder)[..] else {
        panic!("the cache does not have two files, the code and its record");
    };
    for path in [code, beside, &folder, folder.parent().unwrap()] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}

#[tokio::test]
async fn a_damaged_file_is_compiled_again_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("wasm");
    assert!(compiles(&folder).await);
    let file = files(&folder).remove(0);
    let good = fs::read(&file).unwrap();
    let flipped = |place: usize| {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        bytes
    };
    let damages = [
        Vec::new(),
        b"garbage".to_vec(),
        vec![0; good.len()],
        good[..good.len() / 2].to_vec(),
        good[..good.len() - 1].to_vec(),
        flipped(0),
        // Damaged machine code would load and run.
        flipped(good.len() / 2),
        flipped(good.len() - 1),
    ];
    for (index, damage) in damages.into_iter().enumerate() {
        fs::write(&file, damage).unwrap();
        assert!(compiles(&folder).await, "damage {index}");
        assert!(!compiles(&folder).await, "damage {index}");
    }
}

#[tokio::test]
async fn a_folder_that_others_can_write_to_is_not_trusted() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("wasm");
    assert!(compiles(&folder).await);
    for mode in [0o777, 0o770, 0o707] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        assert!(compiles(&folder).await, "{mode:o}");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!compiles(&folder).await);
}

#[tokio::test]
async fn a_cache_folder_that_can_not_be_made_is_no_error() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "in the way").unwrap();
    assert!(compiles(&file.join("wasm")).await);
    assert!(compiles(&file).await);
    assert_eq!(fs::read(&file).unwrap(), b"in the way");
}

#[test]
fn the_program_keeps_its_cache_in_the_users_cache_folder() {
    let path = hostile().to_str().unwrap();
    let host = Host::new().empty_cache();
    let folder = host.home().join(".cache/mswea-host/wasm");
    let run = host.args(["plugin", "inspect", path]).run().expect(0);
    assert_eq!(files(&folder).len(), 2, "{run}");
    // Without a home folder there is no cache, and no error.
    let host = Host::new().env_remove("HOME").env_remove("XDG_CACHE_HOME");
    host.args(["plugin", "inspect", path]).run().expect(0);
    let host = Host::new().env("XDG_CACHE_HOME", "/proc/no/such/folder");
    host.args(["plugin", "inspect", path]).run().expect(0);
    let host = Host::new().empty_cache().args(["plugin", "cache", "clear"]);
    host.run().expect(0).says(&["removed 0 files"]);
}
