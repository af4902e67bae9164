//! Fetches one file. After a broken connection, only the missing part is fetched, and a file with
//! its final name is complete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{RequestBuilder, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::error::DatasetError;
use crate::file_rows::LIMIT;

/// How often one file or list is requested before that counts as an error.
pub(crate) const TRIES: u32 = 4;
/// The pause between two checks whether another process has fetched the file.
const LOOK: Duration = Duration::from_millis(200);

/// A file of the Hub, and where it is stored.
pub(crate) struct FileAt<'a> {
    pub(crate) url: String,
    pub(crate) path: &'a Path,
    /// In bytes, if it is known.
    pub(crate) size: Option<u64>,
    /// In hexadecimal digits, if it is known.
    pub(crate) sha256: Option<String>,
}

/// Why an attempt failed.
enum PartFault {
    /// Another attempt may succeed.
    Again(String),
    Status(u16),
    File(DatasetError),
}

/// Fetches `file`. `refused` makes the error for a status.
pub(crate) async fn fetch(
    get: &(dyn Fn(&str) -> RequestBuilder + Sync),
    file: &FileAt<'_>,
    refused: impl Fn(u16, &str) -> DatasetError,
) -> Result<(), DatasetError> {
    if let Some(folder) = file.path.parent() {
        fs::create_dir_all(folder).map_err(DatasetError::io("make", folder))?;
    }
    let part = part_of(file.path);
    let opened = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&part);
    let mut target = opened.map_err(DatasetError::io("make", &part))?;
    // Another process may fetch the same file.
    lock(&target)
        .await
        .map_err(DatasetError::io("lock", &part))?;
    if is_whole(file) {
        // The file is made anew, because the other process has renamed its own. Others that wait
        // for the lock check the complete file, too.
        let _ = fs::remove_file(&part);
        return Ok(());
    }
    let mut wait = Duration::from_millis(500);
    let mut number = 0;
    loop {
        number += 1;
        let why = match append(get, file, &mut target, &part).await {
            Ok(()) => break,
            Err(PartFault::File(error)) => return Err(error),
            Err(PartFault::Status(status)) if status < 500 && status != 429 => {
                return Err(refused(status, &file.url));
            }
            Err(PartFault::Status(status)) => format!("it answers {status}"),
            Err(PartFault::Again(why)) => why,
        };
        if number == TRIES {
            return Err(DatasetError::Unreachable(format!(
                "`{}` can't be fetched: {why}; what there is of it is kept, and the same command goes on",
                file.url
            )));
        }
        tracing::info!("fetching again: {why}");
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
    target
        .sync_all()
        .map_err(DatasetError::io("write", &part))?;
    fs::rename(&part, file.path).map_err(DatasetError::io("rename", &part))
}

/// Waits for a lock, and leaves the thread to others meanwhile.
async fn lock(file: &File) -> std::io::Result<()> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Whether another process has fetched the complete file in the meantime.
fn is_whole(file: &FileAt<'_>) -> bool {
    let found = fs::metadata(file.path);
    found.is_ok_and(|it| file.size.is_none_or(|size| size == it.len()))
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Fetches the bytes that are missing at the end of `target`.
async fn append(
    get: &(dyn Fn(&str) -> RequestBuilder + Sync),
    file: &FileAt<'_>,
    target: &mut File,
    part: &Path,
) -> Result<(), PartFault> {
    let io = |error| PartFault::File(DatasetError::io("write", part)(error));
    let again = |error: reqwest::Error| match error.is_redirect() {
        true => PartFault::File(DatasetError::Refused(format!(
            "`{}` can't be fetched: {}",
            file.url,
            said(error)
        ))),
        false => PartFault::Again(said(error)),
    };
    let mut have = target.seek(SeekFrom::End(0)).map_err(io)?;
    let is_complete = file.size == Some(have);
    if !is_complete {
        let mut request = get(&file.url);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let mut response = request.send().await.map_err(again)?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if have > 0 && begins_at(&response, have) => {}
            StatusCode::PARTIAL_CONTENT => {
                target.set_len(0).map_err(io)?;
                let why = "it sends another part of the file than was asked for";
                return Err(PartFault::Again(why.to_owned()));
            }
            // The server sends the whole file, or the file has no bytes after this position.
            StatusCode::OK | StatusCode::RANGE_NOT_SATISFIABLE => {
                target.set_len(0).map_err(io)?;
                target.rewind().map_err(io)?;
                have = 0;
                if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
                    return Err(PartFault::Again("its length has changed".to_owned()));
                }
            }
            status => return Err(PartFault::Status(status.as_u16())),
        }
        while let Some(chunk) = response.chunk().await.map_err(again)? {
            target.write_all(&chunk).map_err(io)?;
            have += chunk.len() as u64;
            if file.size.is_some_and(|size| have > size) {
                break;
            }
            if have > LIMIT {
                target.set_len(0).map_err(io)?;
                return Err(PartFault::File(too_large(&file.url)));
            }
        }
    }
    let right_size = file.size.is_none_or(|size| size == have);
    let digest = file.sha256.as_deref().filter(|_| right_size);
    let right_digest = match digest {
        Some(digest) => digest.eq_ignore_ascii_case(&sha256(target).map_err(io)?),
        None => true,
    };
    if right_size && right_digest {
        return Ok(());
    }
    let is_short = file.size.is_some_and(|size| have < size);
    if !is_short {
        target.set_len(0).map_err(io)?;
    }
    Err(PartFault::Again(match (is_short, file.size) {
        (true, Some(size)) => format!("{have} bytes of {size} have come"),
        _ => "what has come is not the file that the Hub lists (its size or its SHA-256 differ)"
            .to_owned(),
    }))
}

/// Whether a response with a part of a file is valid and begins at this byte.
fn begins_at(response: &Response, byte: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE);
    let begin = range.and_then(|it| {
        it.to_str()
            .ok()?
            .trim()
            .strip_prefix("bytes ")?
            .split('-')
            .next()
    });
    range.is_none() || begin.and_then(|it| it.trim().parse().ok()) == Some(byte)
}

/// The error for a file that is too large to be read, so it is not fetched.
pub(crate) fn too_large(name: &str) -> DatasetError {
    DatasetError::Refused(format!(
        "`{name}` is larger than {} GiB, and no larger file is read",
        LIMIT >> 30
    ))
}

fn sha256(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            len => hash.update(&buffer[..len]),
        }
    }
    let digits = hash.finalize();
    Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a small file, replacing an earlier one.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), DatasetError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(name);
    let written = fs::write(&new, content)
        .map_err(DatasetError::io("write", &new))
        .and_then(|()| fs::rename(&new, path).map_err(DatasetError::io("rename", &new)));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// A request's error with its causes, without the URL: after a redirect it may contain a signature.
pub(crate) fn said(error: reqwest::Error) -> String {
    chain(&error.without_url())
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
