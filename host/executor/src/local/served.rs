//! A helper on this machine for a host on another machine: a server passes the bytes between them.

use mswea_core::{Executor as _, ExecutorError, Stop};
use mswea_helper::protocol;
use tokio::net::unix::pipe;

use super::launch::PROGRAM;
use super::session::LocalHelper;
use super::{LocalExecutor, LocalSettings};
use crate::hanging::StartLimit;
use crate::helper::ANSWERING;
use crate::interactive::HelperGuard as _;

/// The version of the helper's protocol, which must be the same on both sides.
pub const HELPER_PROTOCOL: u32 = protocol::VERSION;

/// A helper for a host on another machine, with the marks, the guardian and the sandbox of a local
/// environment. Dropping it kills the helper and all its descendants, which may block for a moment.
#[derive(Debug)]
pub struct ServedHelper {
    // The order matters: the helper ends before its executor searches for remaining processes.
    helper: LocalHelper,
    executor: LocalExecutor,
}

impl ServedHelper {
    /// Starts a helper with these settings; returns also its output and its input.
    ///
    /// # Errors
    /// [`ExecutorError`] if the settings can't be used, or processes or descriptors are lacking.
    pub async fn start(
        settings: LocalSettings,
        stop: &Stop,
    ) -> Result<(Self, pipe::Receiver, pipe::Sender), ExecutorError> {
        let mut executor = LocalExecutor::new(settings);
        executor.make_ready(stop).await?;
        // A number above zero makes the executor search for processes at the end.
        executor.actions = 1;
        let limit = StartLimit::new(PROGRAM, ANSWERING, stop);
        let launched = tokio::select! {
            biased;
            launched = executor.launch_helper() => launched,
            () = limit.reached() => Err(limit.failure()),
        };
        let (helper, output, input) = launched?;
        Ok((Self { helper, executor }, output, input))
    }

    /// Ends the helper and all its descendants. The caller must have closed its input before,
    /// otherwise it is killed after a second.
    pub async fn end(self) {
        let Self {
            mut helper,
            mut executor,
        } = self;
        helper.dismiss().await;
        drop(helper);
        executor.cleanup().await;
    }

    /// The mark of the helper's processes.
    pub fn run_id(&self) -> &str {
        self.executor.run_id()
    }
}
