//! The lock of a batch's directory, held by one process alone or shared by many workers, and the
//! checks of its file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::error::{BatchError, is_full};
use crate::whole_file;

const LOCK: &str = ".lock";
/// The pause between attempts to lock: a process that only reads the batch holds the lock for a
/// moment.
const PAUSE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 25;

/// Checks that the directory is that of a batch, so that a directory with other files is not used
/// by mistake.
pub(crate) fn check_kind(path: &Path) -> Result<(), BatchError> {
    let ours = ["batch.json", "manifest.jsonl", LOCK];
    // mini-swe-agent and SWE-agent may have been stopped before their first result.
    let is_ours = ours
        .into_iter()
        .chain(["preds.json", "minisweagent.log"])
        .chain(["run_batch.config.yaml", "run_batch.log"])
        .any(|name| path.join(name).exists());
    if is_ours {
        return Ok(());
    }
    let mut entries = fs::read_dir(path).map_err(BatchError::io("read", path))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(BatchError::Refused(format!(
            "`{}` has files in it and is not the directory of a batch: name a directory that is empty or not there yet",
            path.display()
        ))),
    }
}

/// Checks that the file system can replace a file by renaming.
pub(crate) fn check_rename(path: &Path) -> Result<(), BatchError> {
    let probe = path.join(".probe");
    fs::write(&probe, b"1").map_err(BatchError::io("write to", path))?;
    let works = whole_file::replace(&probe, b"2").and_then(|()| fs::read(&probe));
    let _ = fs::remove_file(&probe);
    let why = match works {
        Ok(text) if text == b"2" => return Ok(()),
        Ok(_) => "the old one stays".to_owned(),
        Err(error) if is_full(&error) => return Err(BatchError::io("write to", path)(error)),
        Err(error) => error.to_string(),
    };
    Err(BatchError::Refused(format!(
        "`{}` is on a file system on which a file can't be replaced by renaming another one ({why}), so results could be lost: use a directory on a local disk",
        path.display()
    )))
}

pub(crate) fn lock(path: &Path) -> Result<File, BatchError> {
    let file = path.join(LOCK);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&file)
        .map_err(BatchError::io("open", &file))?;
    for attempt in 1.. {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(BatchError::Refused(format!(
                    "another process works on `{}`{}: wait for its end, or stop it (Ctrl-C); `mswea-host batch status` shows how far it is",
                    path.display(),
                    holder(&mut lock).map_or_else(String::new, |it| format!(" ({it})"))
                )));
            }
            Err(TryLockError::Error(error)) => return Err(BatchError::io("lock", &file)(error)),
        }
    }
    // The file's text is used in messages only.
    let told = format!("process {}", std::process::id());
    let _ = lock.set_len(0);
    let _ = lock.rewind().and_then(|()| lock.write_all(told.as_bytes()));
    Ok(lock)
}

/// Locks the directory for one of many workers, which share it. On file systems where locks work,
/// this excludes `batch run`.
pub(crate) fn shared_lock(path: &Path) -> Result<File, BatchError> {
    let file = path.join(LOCK);
    let mut options = OpenOptions::new();
    let lock = options.read(true).write(true).create(true).truncate(false);
    let lock = lock.open(&file).map_err(BatchError::io("open", &file))?;
    for _ in 0..ATTEMPTS {
        match lock.try_lock_shared() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => {
                tracing::warn!("`{}` can't be locked: {error}", file.display());
                return Ok(lock);
            }
        }
    }
    Err(BatchError::Refused(format!(
        "a process of this machine works alone on `{}` (`batch run`): wait for its end, or stop it",
        path.display()
    )))
}

/// Checks that the file system has hard links, by which claims and results are made.
pub(crate) fn check_links(path: &Path) -> Result<(), BatchError> {
    let own = format!("{}-{}", std::process::id(), mswea_session::new_run_id());
    let probe = path.join(format!(".probe-{own}"));
    let writes = fs::write(&probe, b"0").and_then(|()| fs::remove_file(&probe));
    writes.map_err(BatchError::io("write to", path))?;
    let first = whole_file::make_among(&probe, b"1", &own);
    let second = whole_file::make_among(&probe, b"2", &own);
    let _ = fs::remove_file(&probe);
    let why = match (first, second) {
        (Ok(true), Ok(false)) => return Ok(()),
        (Err(error), _) | (_, Err(error)) if is_full(&error) => {
            return Err(BatchError::io("write to", path)(error));
        }
        (Err(error), _) | (_, Err(error)) => error.to_string(),
        _ => "two links of one name were made".to_owned(),
    };
    Err(BatchError::Refused(format!(
        "`{}` is on a file system without hard links that can be relied on ({why}), so two workers could make one result: use a directory on another one, or `mswea-host batch run`, which works alone",
        path.display()
    )))
}

fn holder(lock: &mut File) -> Option<String> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(100).read_to_string(&mut text).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

pub(crate) fn worker(path: &Path) -> Option<String> {
    let mut lock = File::open(path.join(LOCK)).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            Some(holder(&mut lock).unwrap_or_else(|| "a process".to_owned()))
        }
        _ => None,
    }
}
