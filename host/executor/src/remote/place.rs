//! The executor of another machine.

use std::time::Duration;

use async_trait::async_trait;
use mswea_core::Executor;

use super::endpoint::Endpoint;
use super::link::RemoteSession;
use crate::stream::{HelperPlace, HelperStream, StreamExecutor, StreamSettings};

/// Another machine, on which `mswea-host runtime serve` runs.
struct RemotePlace {
    endpoint: Endpoint,
    /// How long a lost connection is retried.
    again: Duration,
}

#[async_trait]
impl HelperPlace for RemotePlace {
    type Link = RemoteSession;

    fn name(&self) -> &str {
        self.endpoint.url()
    }

    fn masked(&self, output: String) -> String {
        self.endpoint.output(output)
    }

    /// The mark is ignored: the server gives each session a mark of its own.
    async fn open(&self, _: &str, _: bool) -> Result<(HelperStream, RemoteSession), String> {
        let opened = RemoteSession::open(&self.endpoint, self.again).await;
        let (session, stream) = opened.map_err(|fault| fault.to_string())?;
        let (output, input) = tokio::io::split(stream);
        Ok(((Box::new(output), Box::new(input)), session))
    }
}

/// An executor for the machine of this server; nothing is started or checked yet. A lost connection
/// is retried for `again`.
pub fn remote_executor(
    endpoint: Endpoint,
    again: Duration,
    settings: StreamSettings,
) -> impl Executor {
    StreamExecutor::new(settings, RemotePlace { endpoint, again })
}
