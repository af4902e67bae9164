//! Files of a place, which its helper reads and writes, each by a subcommand of the helper.

use std::time::Duration;

use mswea_core::Stop;
use mswea_helper::protocol::ActionInput;
use tokio::fs::File;

use super::transfer::{ITSELF, SAID};
use super::{ANSWERING, HelperAction, HelperEnd, HelperError, HelperSession};
use crate::capture::Capture;

/// The most bytes of a message.
const MESSAGE: usize = 4096;

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileFault {
    /// The place's system refuses.
    #[error("{text}")]
    Failed {
        /// The system's error number; none if it is another error.
        errno: Option<i32>,
        /// The message.
        text: String,
    },
    /// The operation took too long, or was stopped.
    #[error("the time limit is over")]
    TimedOut,
    /// The helper has ended.
    #[error(transparent)]
    NoHelper(#[from] HelperError),
}

impl FileFault {
    /// The error for a message of the helper.
    pub(crate) fn said(text: String) -> Self {
        let parts = text.trim().strip_suffix(')');
        let parts = parts.and_then(|text| text.rsplit_once(" (os error "));
        let known = parts.and_then(|(text, number)| Some((text, number.parse().ok()?)));
        match known {
            Some((text, number)) => Self::Failed {
                errno: Some(number),
                text: text.to_owned(),
            },
            None => Self::Failed { errno: None, text },
        }
    }
}

impl HelperSession {
    /// Reads a file of at most `most` bytes.
    ///
    /// # Errors
    /// [`FileFault`] if the file is longer or can't be read, the time is over, or the helper has
    /// ended.
    pub(crate) async fn read_file(
        &mut self,
        path: &str,
        cwd: Option<&str>,
        most: usize,
        limit: Duration,
        stop: &Stop,
    ) -> Result<Vec<u8>, FileFault> {
        let bound = most.to_string();
        let args = ["read", path, &bound];
        self.file_program(&args, cwd, most, limit, stop).await
    }

    /// Writes a file, and makes the folders around it. If `path` is a folder and there is a `name`,
    /// the file is made in that folder.
    ///
    /// # Errors
    /// [`FileFault`] if the file or a folder can't be written, the time is over, or the helper has
    /// ended.
    pub(crate) async fn write_file(
        &mut self,
        path: &str,
        name: &str,
        content: File,
    ) -> Result<(), FileFault> {
        let written = self.pass(["write", path, name], None, Some(content), None);
        written.await.map_err(|text| match self.busy {
            // The helper's input has not ended, so the session can't be used any more.
            true => FileFault::NoHelper(HelperError::Cut(text)),
            false => FileFault::said(text),
        })
    }

    /// Makes a folder and the folders around it, as far as they are missing.
    ///
    /// # Errors
    /// [`FileFault`] if a folder can't be made, the time is over, or the helper has ended.
    pub(crate) async fn make_folder(&mut self, path: &str, stop: &Stop) -> Result<(), FileFault> {
        let args = ["make", path];
        let made = self.file_program(&args, None, MESSAGE, ANSWERING, stop);
        made.await.map(drop)
    }

    /// Runs one of the helper's subcommands for files; returns its output.
    pub(super) async fn file_program(
        &mut self,
        args: &[&str],
        cwd: Option<&str>,
        most: usize,
        limit: Duration,
        stop: &Stop,
    ) -> Result<Vec<u8>, FileFault> {
        let argv = [ITSELF].iter().chain(args).map(|&arg| arg.to_owned());
        let action = HelperAction {
            argv: &argv.collect::<Vec<_>>(),
            env: &[],
            cwd,
            grace: Duration::ZERO,
            input: ActionInput::Empty,
        };
        let mut capture = Capture::new(most.max(MESSAGE)).whole();
        let status = match self.run(&action, &mut capture, limit, stop).await? {
            HelperEnd::Exited(status) => status,
            HelperEnd::TimedOut | HelperEnd::Stopped => return Err(FileFault::TimedOut),
            HelperEnd::Failed { errno, text } => {
                let errno = Some(errno);
                return Err(FileFault::Failed { errno, text });
            }
        };
        let (content, _, missing) = capture.raw();
        match status {
            0 if missing == 0 && content.len() <= most => Ok(content),
            0 => Err(FileFault::Failed {
                errno: Some(libc::EFBIG),
                text: "File too large".to_owned(),
            }),
            _ => {
                let text = String::from_utf8_lossy(&content);
                let said = text.rsplit_once(SAID).map_or(&*text, |(_, said)| said);
                Err(FileFault::said(said.trim().to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_helper::protocol::hello;
    use tokio::io::{AsyncWriteExt as _, duplex};

    #[tokio::test]
    async fn a_helper_that_ends_is_no_fault_of_the_file() {
        let (output, mut theirs) = duplex(1024);
        theirs.write_all(&hello()).await.unwrap();
        let limit = Duration::from_secs(20);
        let input = Box::new(tokio::io::sink());
        let session = HelperSession::start(Box::new(output), input, limit).await;
        let mut session = session.unwrap();
        drop(theirs);
        let content = tempfile::tempfile().unwrap();
        let written = session.write_file("/nowhere", "", content.into()).await;
        assert!(
            matches!(written, Err(FileFault::NoHelper(_))),
            "{written:?}"
        );
    }
}
