//! A place with a helper, and the stream to it.

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// The output and the input of a helper.
pub(crate) type HelperStream = (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
);

/// A place with a helper, and the stream to it.
#[async_trait]
pub(crate) trait HelperPlace: Send {
    /// What a message calls it.
    fn name(&self) -> &str;
    /// Starts a helper there. The one before, if there was one, was closed.
    ///
    /// # Errors
    /// A message with the cause and the remedy.
    async fn open(&mut self) -> Result<HelperStream, String>;
    /// A command is about to be written.
    fn mark(&self) {}
    /// Whether the stream has ended, and nothing that was written since [`Self::mark`] has arrived.
    fn is_unsent(&self) -> bool {
        false
    }
    /// Why the stream has ended, and what became of the command, if the place knows; none if the
    /// helper itself has ended.
    async fn lost(&mut self) -> Option<String>;
    /// Ends the helper and all that it started, if there is one.
    async fn close(&mut self);
}
