//! Connections: accepting them, TLS, and their limits. The cost of a connection without the token
//! is bounded: it takes one of a bounded number of places, for a bounded time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mswea_core::Stop;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::http::{self, HEAD_TIME};
use crate::newcomers::{ConnectionPlace, Newcomers};
use crate::rex::RexRoutes;
use crate::routes::{self, Routes};
use crate::settings::{ServeError, ServeSettings};
use crate::table::ServedSessions;
use crate::tls;

/// The interval between searches for sessions whose clients are gone.
const SWEEP: Duration = Duration::from_millis(500);
/// The pause after a connection could not be accepted because file descriptors were lacking.
const SHORTAGE: Duration = Duration::from_millis(100);

/// A server that listens.
pub struct RuntimeServer {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    newcomers: Arc<Newcomers>,
    connections: Arc<Semaphore>,
    routes: Arc<Routes>,
}

impl RuntimeServer {
    /// Listens; no connection is accepted yet.
    ///
    /// # Errors
    /// [`ServeError`] if the address or the certificate can't be used, or the address needs TLS.
    pub async fn bind(settings: ServeSettings) -> Result<Self, ServeError> {
        mswea_executor::reserve_low_descriptors();
        let refused = |error: std::io::Error| ServeError::Listen {
            address: settings.listen.clone(),
            reason: match error.kind() {
                std::io::ErrorKind::InvalidInput => {
                    "it has to be ADDRESS:PORT, as `127.0.0.1:8080`".to_owned()
                }
                _ => error.to_string(),
            },
        };
        let tls = match &settings.tls {
            Some((certificates, key)) => {
                Some(tls::acceptor(certificates, key).map_err(ServeError::Tls)?)
            }
            None => None,
        };
        let found = tokio::net::lookup_host(&settings.listen).await;
        let address = found.map_err(refused)?.next();
        let address = address.ok_or_else(|| refused(std::io::Error::other("it has no address")))?;
        if tls.is_none() && !settings.insecure && !address.ip().is_loopback() {
            return Err(ServeError::Insecure(address.to_string()));
        }
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let most = settings.max_sessions;
        let rex = settings
            .swerex
            .then(|| RexRoutes::new(settings.local.clone(), most));
        let table = ServedSessions::new(settings.local, settings.keep, most);
        Ok(Self {
            listener,
            address,
            tls,
            newcomers: Arc::default(),
            connections: Arc::new(Semaphore::new(settings.max_connections)),
            routes: Arc::new(Routes::new(settings.token, table, rex)),
        })
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> String {
        let scheme = match self.tls {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `stop` fires, and then ends all sessions with all their processes.
    pub async fn run(self, stop: &Stop) {
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                _ = sweep.tick() => self.routes.end_abandoned(),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer, stop),
                    Err(error) => {
                        tracing::warn!(%error, "a connection can't be accepted");
                        sleep(SHORTAGE).await;
                    }
                },
            }
        }
        drop(self.listener);
        self.routes.end_all().await;
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr, stop: &Stop) {
        let (place, given_up) = ConnectionPlace::take(&self.newcomers, &self.connections);
        let place = Arc::new(place);
        let (tls, routes, stop) = (self.tls.clone(), self.routes.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.stopped() => {}
                () = connect(stream, tls, &routes, &place) => {}
                () = replaced(given_up, &place) => {}
            }
            tracing::debug!(%peer, "a connection has ended");
        });
    }
}

/// Waits until another connection needs the place of this one.
async fn replaced(given_up: oneshot::Receiver<()>, place: &ConnectionPlace) {
    let _ = given_up.await;
    if place.is_kept() {
        let () = std::future::pending().await;
    }
}

async fn connect(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: &Arc<Routes>,
    place: &Arc<ConnectionPlace>,
) {
    // Each answer is small, and the client waits for it.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return talk(stream, routes, place).await;
    };
    match timeout(HEAD_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => talk(stream, routes, place).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    routes: &Arc<Routes>,
    place: &Arc<ConnectionPlace>,
) {
    http::talk(stream, |request| {
        let (routes, place) = (routes.clone(), place.clone());
        async move { routes::answer(&routes, &place, request).await }
    })
    .await;
}
