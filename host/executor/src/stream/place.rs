//! A place where helpers can be started, and the way to one of them.

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
    /// What carries the stream of a helper.
    type Link: HelperLink;
    /// What a message calls the place.
    fn name(&self) -> &str;
    /// Starts a helper, whose processes get the mark `id`. `is_again`: a helper with this mark was
    /// started before, and what it may have left is ended first.
    ///
    /// # Errors
    /// A message with the cause and the remedy.
    async fn open(&self, id: &str, is_again: bool) -> Result<(HelperStream, Self::Link), String>;
}

/// What carries the stream of a helper. Dropped, it ends the helper in the background.
pub(crate) trait HelperLink: HelperGuard + 'static {
    /// A command is about to be written.
    fn mark(&self) {}
    /// Whether the stream has ended, and nothing that was written since [`Self::mark`] has arrived.
    fn is_unsent(&self) -> bool {
        false
    }
}
