//! Copies files through a helper as archives, which the helper unpacks or packs in an action.

use std::path::Path;
use std::time::Duration;

use mswea_core::ExecutorError;
use mswea_helper::protocol::{ActionInput, HelperReply, HelperRequest, PIECE};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep;

use super::{HelperAction, HelperError, HelperSession};
use crate::archives::{self, ReceivedArchive, failed};

/// The path of the helper's own program, for a process that becomes it.
pub(crate) const ITSELF: &str = "/proc/self/exe";
/// The most bytes that are sent to the action and not yet taken.
const WINDOW: usize = 1024 * 1024;
/// How long the transfer may stand still.
const STALLED: Duration = Duration::from_secs(60);
/// The message of a failed action is among so many bytes at the end of its output.
const MESSAGE: usize = 2000;
/// The beginning of that message.
pub(super) const SAID: &str = "mswea-helper: ";

impl HelperSession {
    /// Copies `from`, a path of this machine, to `to`, which is relative to `cwd`.
    ///
    /// # Errors
    /// [`ExecutorError`] if `from` can't be read, `to` can't be written, or the session has ended.
    pub(crate) async fn upload(
        &mut self,
        from: &Path,
        to: &str,
        cwd: Option<&str>,
    ) -> Result<(), ExecutorError> {
        let shown = from.display().to_string();
        let fail = |why: String| failed(&shown, to, why);
        let found = std::fs::metadata(from).map_err(|error| fail(error.to_string()))?;
        let (kind, name) = match found.is_dir() {
            true => ("folder", "".into()),
            false => (
                "file",
                from.file_name().unwrap_or_default().to_string_lossy(),
            ),
        };
        let archive = archives::packed(from, &name, (0, 0)).await.map_err(fail)?;
        let content = File::open(archive.path()).await;
        let content = Some(content.map_err(|error| fail(error.to_string()))?);
        let passed = self.pass(["unpack", kind, to], cwd, content, None).await;
        passed.map_err(fail)
    }

    /// Unpacks an archive into the folder `to`, which is relative to `cwd`.
    ///
    /// # Errors
    /// A message if the archive can't be read, `to` can't be written, or the session has ended.
    pub(crate) async fn unpack(
        &mut self,
        archive: File,
        to: &str,
        cwd: Option<&str>,
    ) -> Result<(), String> {
        let args = ["unpack", "folder", to];
        self.pass(args, cwd, Some(archive), None).await
    }

    /// Copies `from`, which is relative to `cwd`, to `to`, a path of this machine.
    ///
    /// # Errors
    /// [`ExecutorError`] if `from` can't be read, `to` can't be written, or the session has ended.
    pub(crate) async fn download(
        &mut self,
        from: &str,
        to: &Path,
        cwd: Option<&str>,
    ) -> Result<(), ExecutorError> {
        let shown = to.display().to_string();
        let fail = |why: String| failed(from, &shown, why);
        let archive = ReceivedArchive::new().map_err(fail)?;
        let content = File::create(archive.path()).await;
        let content = content.map_err(|error| fail(error.to_string()))?;
        let passed = self.pass(["pack", from], cwd, None, Some(content)).await;
        passed.map_err(fail)?;
        let unpacked = archive.unpack(false).await.map_err(fail)?;
        archive.settle(unpacked, from, to).await
    }

    /// Runs a subcommand of the helper to its end: `from` is its input, and its output goes to
    /// `to`.
    pub(super) async fn pass<const COUNT: usize>(
        &mut self,
        args: [&str; COUNT],
        cwd: Option<&str>,
        from: Option<File>,
        to: Option<File>,
    ) -> Result<(), String> {
        let argv: Vec<_> = [ITSELF]
            .iter()
            .chain(&args)
            .map(|&arg| arg.to_owned())
            .collect();
        match self.pass_through(&argv, cwd, from, to).await? {
            (0, _) => Ok(()),
            (status, text) => {
                let said = text
                    .rsplit_once(SAID)
                    .map(|(_, said)| said.trim().to_owned());
                Err(said.unwrap_or_else(|| format!("the helper ended with exit code {status}")))
            }
        }
    }

    /// Runs a program to its end: `from` is its input, and its output goes to `to`. Like
    /// [`Self::run`], but without a time limit as long as bytes are passed. Returns the exit code
    /// and the end of the output.
    ///
    /// # Errors
    /// A message if the program can't be started, the session has ended, or a file can't be read or
    /// written.
    async fn pass_through(
        &mut self,
        argv: &[String],
        cwd: Option<&str>,
        mut from: Option<File>,
        mut to: Option<File>,
    ) -> Result<(i32, String), String> {
        if self.busy {
            return Err(HelperError::Unusable.to_string());
        }
        self.last = self.last.wrapping_add(1);
        let id = self.last;
        let action = HelperAction {
            argv,
            env: &[],
            cwd,
            grace: Duration::ZERO,
            input: match from {
                Some(_) => ActionInput::Pipe,
                None => ActionInput::Empty,
            },
        };
        self.wire.post(&action.request(id));
        let mut on_the_way = 0;
        let mut piece = vec![0; PIECE];
        let mut message = Vec::new();
        self.busy = true;
        let told = |error: HelperError| error.to_string();
        let end = 'passing: loop {
            while let Some(reply) = self.wire.next(Some(id)).map_err(told)? {
                match reply {
                    HelperReply::Output { bytes, .. } => {
                        if let Some(file) = &mut to {
                            let written = file.write_all(bytes).await;
                            written.map_err(|error| archives::no_room(&error))?;
                        }
                        message.extend_from_slice(bytes);
                        message.drain(..message.len().saturating_sub(MESSAGE));
                    }
                    HelperReply::Taken { count, is_open, .. } => {
                        on_the_way -= on_the_way.min(count as usize);
                        from = from.filter(|_| is_open);
                    }
                    HelperReply::Exited { status, .. } => break 'passing status,
                    HelperReply::Failed { text, .. } => {
                        self.busy = false;
                        return Err(text.to_owned());
                    }
                }
            }
            let may_go_on = self.wire.is_flushed() && on_the_way < WINDOW;
            if let Some(file) = from.as_mut().filter(|_| may_go_on) {
                let read = file.read(&mut piece).await;
                let count = read.map_err(|error| error.to_string())?;
                let bytes = piece[..count].to_vec();
                self.wire.post(&match count {
                    0 => HelperRequest::Close { id },
                    _ => HelperRequest::Input { id, bytes },
                });
                on_the_way += count;
                from = from.filter(|_| count > 0);
            }
            tokio::select! {
                biased;
                goes_on = self.wire.step() => if !goes_on {
                    return Err(HelperError::Gone.to_string());
                },
                () = sleep(STALLED) => return Err(HelperError::Stalled(STALLED).to_string()),
            }
        };
        self.busy = false;
        if let Some(mut file) = to {
            let flushed = file.flush().await;
            flushed.map_err(|error| archives::no_room(&error))?;
        }
        Ok((end, String::from_utf8_lossy(&message).into_owned()))
    }
}
