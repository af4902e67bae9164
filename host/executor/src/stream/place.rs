//! A place where helpers can be started, and the connection to one of them.

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::interactive::HelperGuard;

/// The output and the input of a helper.
pub(crate) type HelperStream = (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
);

/// A place where helpers can be started, each behind a stream of its own.
#[async_trait]
pub(crate) trait HelperPlace: Send + Sync {
    /// The connection to a helper.
    type Link: HelperLink;
    /// The name of the place in messages.
    fn name(&self) -> &str;
    /// An output of a command or a program without the place's own secrets.
    fn masked(&self, output: String) -> String {
        output
    }
    /// Starts a helper, whose processes get the mark `id`. `is_again`: a helper with this mark was
    /// started before, and its remaining processes are ended first.
    ///
    /// # Errors
    /// A message with the cause and the remedy.
    async fn open(&self, id: &str, is_again: bool) -> Result<(HelperStream, Self::Link), String>;
}

/// The connection to a helper. Dropping it ends the helper in the background.
pub(crate) trait HelperLink: HelperGuard + 'static {
    /// Called when a command is about to be written.
    fn mark(&self) {}
    /// Whether the stream has ended, and no byte that was written since [`Self::mark`] has arrived.
    fn is_unsent(&self) -> bool {
        false
    }
}
