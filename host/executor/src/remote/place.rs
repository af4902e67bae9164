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
    /// How long a lost connection is tried to be taken up again.
    again: Duration,
    session: Option<RemoteSession>,
}

#[async_trait]
impl HelperPlace for RemotePlace {
    fn name(&self) -> &str {
        self.endpoint.url()
    }

    async fn open(&mut self) -> Result<HelperStream, String> {
        let opened = RemoteSession::open(&self.endpoint, self.again).await;
        let (session, stream) = opened.map_err(|fault| fault.to_string())?;
        self.session = Some(session);
        let (output, input) = tokio::io::split(stream);
        Ok((Box::new(output), Box::new(input)))
    }

    fn mark(&self) {
        if let Some(session) = &self.session {
            session.mark();
        }
    }

    fn is_unsent(&self) -> bool {
        let lost = self.session.as_ref().and_then(RemoteSession::lost);
        lost.is_some_and(|lost| lost.is_unsent())
    }

    async fn lost(&mut self) -> Option<String> {
        let lost = self.session.as_ref()?.lost()?;
        Some(lost.to_string())
    }

    async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.end().await;
        }
    }
}

/// An executor for the machine of this server; nothing is started or checked yet. A connection that is
/// lost is tried to be taken up again for `again`.
pub fn remote_executor(
    endpoint: Endpoint,
    again: Duration,
    settings: StreamSettings,
) -> impl Executor {
    let place = RemotePlace {
        endpoint,
        again,
        session: None,
    };
    StreamExecutor::new(settings, |_| place)
}
