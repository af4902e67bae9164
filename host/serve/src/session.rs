//! One session of a client: a helper, the bytes from it and the bytes to it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mswea_core::{ExecutorError, Stop};
use mswea_executor::{LocalSettings, ServedHelper};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::output::KeptOutput;

/// How long a session that ends waits for a request that writes to it.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// A helper, and its client's position in its input and output.
pub(super) struct ServedSession {
    pub(super) output: Arc<KeptOutput>,
    input: AsyncMutex<HelperInput>,
    /// The time of the client's last request.
    heard: Mutex<Instant>,
    filling: AbortHandle,
    helper: Mutex<Option<ServedHelper>>,
    /// A permit, which is held until all processes have ended.
    _place: OwnedSemaphorePermit,
}

struct HelperInput {
    /// How many bytes of input the helper has received.
    at: u64,
    /// None when the session is over.
    pipe: Option<pipe::Sender>,
}

/// Why input was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error("input up to {0} has come: nothing may be left out")]
    Gap(u64),
    #[error("the helper has ended")]
    Ended,
}

impl ServedSession {
    pub(super) async fn start(
        settings: LocalSettings,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, ExecutorError> {
        let (helper, output, input) = ServedHelper::start(settings, &Stop::never()).await?;
        tracing::info!(run = helper.run_id(), "a session has begun");
        let kept = Arc::new(KeptOutput::default());
        let fill = kept.clone();
        let filling = tokio::spawn(async move { fill.fill(output).await });
        Ok(Self {
            output: kept,
            input: AsyncMutex::new(HelperInput {
                at: 0,
                pipe: Some(input),
            }),
            heard: Mutex::new(Instant::now()),
            filling: filling.abort_handle(),
            helper: Mutex::new(Some(helper)),
            _place: place,
        })
    }

    /// Records that the client has sent a request.
    pub(super) fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The time since the client's last request.
    pub(super) fn silence(&self) -> Duration {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.elapsed()
    }

    /// Passes `bytes`, which begin at the offset `at`, to the helper, except for those that it
    /// already has. If the future is dropped before its end, some of them have been passed, and are
    /// counted. Returns the offset after the last one.
    ///
    /// # Errors
    /// [`InputError`] if there is a gap, or the helper has ended.
    pub(super) async fn write(&self, at: u64, bytes: &[u8]) -> Result<u64, InputError> {
        let mut input = self.input.lock().await;
        loop {
            let HelperInput { at: done, pipe } = &mut *input;
            let known = done.checked_sub(at).ok_or(InputError::Gap(*done))?;
            let new = usize::try_from(known)
                .ok()
                .and_then(|known| bytes.get(known..));
            let Some(new @ [_, ..]) = new else {
                return Ok(*done);
            };
            let pipe = pipe.as_mut().ok_or(InputError::Ended)?;
            // No await between the write and the count.
            match pipe.write(new).await {
                Ok(count @ 1..) => *done += count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return Err(InputError::Ended),
            }
        }
    }

    /// Ends the helper and all its descendants. A second call does nothing.
    pub(super) async fn end(&self) {
        let helper = {
            let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
            helper.take()
        };
        let Some(helper) = helper else {
            return;
        };
        let run = helper.run_id().to_owned();
        // The helper ends at the end of its input. If a request is waiting until the helper reads,
        // this does not wait for it, and the helper is killed.
        if let Ok(mut input) = timeout(LAST_WRITE, self.input.lock()).await {
            input.pipe = None;
        }
        // Closed before the helper ends: a client would otherwise take its end for that of the
        // command.
        self.output.close();
        helper.end().await;
        self.filling.abort();
        tracing::info!(run, "a session has ended");
    }
}
