//! Accepts the connections. Those without the token have a limit of their own
//! (`mswea_serve::ConnectionPlace`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mswea_core::Stop;
use mswea_serve::{ConnectionPlace, Newcomers, talk};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use crate::door::ViewDoor;
use crate::routes::{self, ViewRoutes};
use crate::settings::{ViewError, ViewSettings};

/// The largest number of connections that have shown the token.
const CONNECTIONS: usize = 128;
/// The pause after a connection could not be accepted for lack of descriptors.
const SHORTAGE: Duration = Duration::from_millis(100);

/// The server of the page.
pub struct ViewServer {
    listener: TcpListener,
    address: SocketAddr,
    newcomers: Arc<Newcomers>,
    connections: Arc<Semaphore>,
    routes: Arc<ViewRoutes>,
}

impl ViewServer {
    /// Binds the address; no connection is accepted yet.
    ///
    /// # Errors
    /// [`ViewError`] if the address can't be used, or no token can be made.
    pub async fn bind(settings: ViewSettings) -> Result<Self, ViewError> {
        let refused = |error: std::io::Error| ViewError::Listen {
            address: settings.listen.clone(),
            reason: match error.kind() {
                std::io::ErrorKind::InvalidInput => {
                    "it has to be ADDRESS:PORT, as `127.0.0.1:8080`".to_owned()
                }
                _ => error.to_string(),
            },
        };
        let listener = TcpListener::bind(&settings.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let door = ViewDoor::new(&settings.listen, address.port());
        let door = door.map_err(|error| ViewError::Token(error.to_string()))?;
        Ok(Self {
            listener,
            address,
            newcomers: Arc::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            routes: Arc::new(ViewRoutes::new(door, settings)),
        })
    }

    /// The address of the page, with the token.
    pub fn url(&self) -> String {
        let token = self.routes.door.token();
        format!("http://{}/?token={token}", self.address)
    }

    /// Whether other machines can reach the server.
    pub fn is_public(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Serves until stopped.
    pub async fn run(self, stop: &Stop) {
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream, stop),
                    Err(error) => {
                        tracing::warn!(%error, "a connection can't be accepted");
                        sleep(SHORTAGE).await;
                    }
                },
            }
        }
    }

    fn admit(&self, stream: TcpStream, stop: &Stop) {
        let (place, given_up) = ConnectionPlace::take(&self.newcomers, &self.connections);
        let place = Arc::new(place);
        let (routes, stop) = (self.routes.clone(), stop.clone());
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let served = talk(stream, |request| {
                let (routes, place) = (routes.clone(), place.clone());
                async move { routes::answer(&routes, &place, request).await }
            });
            tokio::select! {
                biased;
                () = stop.stopped() => {}
                () = served => {}
                () = replaced(given_up, &place) => {}
            }
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
