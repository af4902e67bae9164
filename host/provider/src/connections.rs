//! Whether a request has begun a connection, or uses one that an earlier request has left open. The
//! HTTP client does not tell, but a connector is called only for new connections.

use std::cell::Cell;
use std::future::Future;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

tokio::task_local! {
    /// Set when the current request begins a connection.
    static BEGUN: Cell<bool>;
}

/// Awaits `sending`; returns whether it has begun a connection, too.
pub(super) async fn noticing<T>(sending: impl Future<Output = T>) -> (T, bool) {
    let sent = async {
        let sent = sending.await;
        (sent, BEGUN.with(Cell::get))
    };
    BEGUN.scope(Cell::new(false), sent).await
}

/// A layer around the client's connector.
#[derive(Clone, Copy)]
pub(super) struct Noticed;

impl<S> Layer<S> for Noticed {
    type Service = NoticedConnector<S>;

    fn layer(&self, inner: S) -> Self::Service {
        NoticedConnector(inner)
    }
}

/// A connector whose calls are noticed.
#[derive(Clone)]
pub(super) struct NoticedConnector<S>(S);

impl<S: Service<T>, T> Service<T> for NoticedConnector<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: T) -> S::Future {
        // Outside of a request: a connection that is begun again in the background.
        let _ = BEGUN.try_with(|begun| begun.set(true));
        self.0.call(target)
    }
}
