//! Speaks HTTP with an engine's daemon, over a unix socket or plain TCP.
//!
//! It uses hyper, which the program contains anyway. The crate `bollard` does the same and would
//! make the program 1.5 MB larger.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use mswea_helper::archive::with_causes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Handle};
use tokio::time::timeout;

use super::body::Body;

/// The time limit of an answer that needs no work.
pub(super) const QUICK: Duration = Duration::from_secs(60);
/// The newest version of the API that is supported.
const NEWEST: (u32, u32) = (1, 47);
/// The oldest version of the API that is supported.
const OLDEST: (u32, u32) = (1, 35);
/// How many bytes of a refusal are read.
const REFUSAL: usize = 64 * 1024;
/// The most connections that wait for further requests.
const IDLE: usize = 16;
/// How long a connection waits for the next request. Short, because a daemon may close it meanwhile.
const RESTING: Duration = Duration::from_secs(5);

/// The daemons in use, so that all runs of this process share their connections.
static DAEMONS: Mutex<Vec<Weak<Daemon>>> = Mutex::new(Vec::new());

/// The address on which a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// Why there is no usable answer.
#[derive(Debug)]
pub(super) enum DaemonFault {
    /// The socket does not exist, or refuses this user.
    Unreachable(io::Error),
    /// The daemon refused the request.
    Refused {
        status: u16,
        text: String,
    },
    /// The connection ended early, or the answer is not HTTP.
    Broken(String),
    TimedOut(Duration),
}

/// A header of a request, in addition to those that every request has.
pub(super) type Header = (&'static str, String);

/// The content of a request.
#[derive(Debug)]
pub(super) enum RequestPayload {
    None,
    Json(Value),
    Tar(Bytes),
    /// A tar archive in an open file, and its size: read piece by piece while it is sent.
    TarFile(tokio::fs::File, u64),
}

/// A daemon that has answered.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) address: Address,
    /// Begins the path of every request: `/v1.41`; empty before the version is known.
    prefix: String,
    /// `docker` or `podman`.
    pub(super) product: &'static str,
    /// The engine's version.
    pub(super) version: String,
    idle: Mutex<Vec<IdleConnection>>,
}

/// A connection that waits for the next request.
#[derive(Debug)]
struct IdleConnection {
    sender: http1::SendRequest<Body>,
    /// The runtime whose task drives the connection: another runtime would wait for ever if this
    /// one is blocked.
    runtime: runtime::Id,
    since: Instant,
}

impl Daemon {
    /// The daemon that another run of this process uses, else a new one ([`Self::open`]).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) async fn shared(
        address: &Address,
        limit: Duration,
    ) -> Result<Arc<Self>, DaemonFault> {
        let known = || DAEMONS.lock().unwrap_or_else(PoisonError::into_inner);
        let living = known()
            .iter()
            .filter_map(Weak::upgrade)
            .find(|daemon| daemon.address == *address);
        if let Some(daemon) = living {
            return Ok(daemon);
        }
        let daemon = Arc::new(Self::open(address.clone(), limit).await?);
        let mut known = known();
        known.retain(|daemon| daemon.strong_count() > 0);
        known.push(Arc::downgrade(&daemon));
        Ok(daemon)
    }

    /// Asks the daemon for its version, and chooses a version of the API.
    ///
    /// # Errors
    /// [`DaemonFault`] if no daemon answers, or its versions of the API are too old or too new.
    pub(super) async fn open(address: Address, limit: Duration) -> Result<Self, DaemonFault> {
        let mut this = Self {
            address,
            prefix: String::new(),
            product: "docker",
            version: String::new(),
            idle: Mutex::default(),
        };
        let call = this.call(Method::GET, "/version", RequestPayload::None, limit);
        let found = call.await?;
        let version = |key: &str| parse_version(found[key].as_str().unwrap_or_default());
        let theirs = version("ApiVersion").ok_or_else(|| {
            DaemonFault::Broken("it does not name its version of the API".to_owned())
        })?;
        let agreed = theirs.min(NEWEST);
        if agreed < OLDEST || version("MinAPIVersion").is_some_and(|least| least > agreed) {
            return Err(DaemonFault::Broken(format!(
                "it speaks version {}.{} of the API, and this program {}.{} to {}.{}",
                theirs.0, theirs.1, OLDEST.0, OLDEST.1, NEWEST.0, NEWEST.1
            )));
        }
        this.prefix = format!("/v{}.{}", agreed.0, agreed.1);
        this.version = found["Version"].as_str().unwrap_or("?").to_owned();
        if found["Components"][0]["Name"].as_str() == Some("Podman Engine") {
            this.product = "podman";
        }
        Ok(this)
    }

    /// The chosen version of the API, without its `v`.
    pub(super) fn api_version(&self) -> &str {
        self.prefix.trim_start_matches("/v")
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[Header],
        payload: RequestPayload,
        upgrade: bool,
    ) -> Result<(Response<Incoming>, http1::SendRequest<Body>), DaemonFault> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(HOST, "engine");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if upgrade {
            request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "tcp");
        }
        let (kind, body) = match payload {
            RequestPayload::None => (None, Body::from(Bytes::new())),
            RequestPayload::Json(value) => {
                let text = Bytes::from(value.to_string());
                (Some("application/json"), Body::from(text))
            }
            RequestPayload::Tar(tar) => (Some("application/x-tar"), Body::from(tar)),
            RequestPayload::TarFile(file, size) => {
                (Some("application/x-tar"), Body::file(file, size))
            }
        };
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request
            .body(body)
            .map_err(|error| DaemonFault::Broken(error.to_string()))?;
        let (response, sender) = self.send(request).await?;
        let status = response.status();
        if status.is_success() || status.as_u16() == 101 || status.as_u16() == 304 {
            return Ok((response, sender));
        }
        let mut body = response.into_body();
        let mut text = Vec::new();
        while text.len() < REFUSAL
            && let Some(Ok(frame)) = body.frame().await
        {
            text.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
        }
        Err(DaemonFault::Refused {
            status: status.as_u16(),
            text: refusal(&text),
        })
    }

    /// Sends a request over a connection that waits, else over a new one.
    async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Incoming>, http1::SendRequest<Body>), DaemonFault> {
        let broken = |error: &hyper::Error| DaemonFault::Broken(with_causes(error));
        while let Some(mut sender) = self.resting() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                // The daemon has closed the connection before the request.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(failed.error())),
                },
            }
        }
        let mut sender = self.connected().await?;
        let response = sender.send_request(request).await;
        Ok((response.map_err(|error| broken(&error))?, sender))
    }

    /// A connection of this runtime that waits for a request.
    fn resting(&self) -> Option<http1::SendRequest<Body>> {
        let runtime = Handle::current().id();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|it| !it.sender.is_closed() && it.since.elapsed() < RESTING);
        let at = idle.iter().rposition(|it| it.runtime == runtime)?;
        Some(idle.swap_remove(at).sender)
    }

    /// Keeps a connection whose response was read to its end.
    fn rest(&self, sender: http1::SendRequest<Body>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(IdleConnection {
                sender,
                runtime: Handle::current().id(),
                since: Instant::now(),
            });
        }
    }

    async fn connected(&self) -> Result<http1::SendRequest<Body>, DaemonFault> {
        let stream: Box<dyn Stream> = match &self.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                Box::new(stream.map_err(DaemonFault::Unreachable)?)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await;
                Box::new(stream.map_err(DaemonFault::Unreachable)?)
            }
        };
        begin(stream).await
    }

    /// A response whose body is read piece by piece. Dropping it closes the connection.
    pub(super) async fn stream(
        &self,
        method: Method,
        path: &str,
        headers: &[Header],
        payload: RequestPayload,
    ) -> Result<Incoming, DaemonFault> {
        let (response, _) = self.request(method, path, headers, payload, false).await?;
        Ok(response.into_body())
    }

    /// A response as JSON; null if it is empty.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        payload: RequestPayload,
        limit: Duration,
    ) -> Result<Value, DaemonFault> {
        let answer = async {
            let (response, sender) = self.request(method, path, &[], payload, false).await?;
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| DaemonFault::Broken(with_causes(&error)))?;
            self.rest(sender);
            let body = body.to_bytes();
            if body.is_empty() {
                return Ok(Value::Null);
            }
            // Some responses without content have a line end.
            serde_json::from_slice(&body).or_else(|error| {
                if body.iter().all(u8::is_ascii_whitespace) {
                    Ok(Value::Null)
                } else {
                    Err(DaemonFault::Broken(format!(
                        "its answer is no JSON: {error}"
                    )))
                }
            })
        };
        timeout(limit, answer)
            .await
            .unwrap_or(Err(DaemonFault::TimedOut(limit)))
    }

    /// A connection that stops being HTTP: bytes in both directions.
    pub(super) async fn hijack(
        &self,
        path: &str,
        payload: Value,
    ) -> Result<TokioIo<Upgraded>, DaemonFault> {
        let payload = RequestPayload::Json(payload);
        let answer = async {
            let (response, _) = self.request(Method::POST, path, &[], payload, true).await?;
            let upgraded = hyper::upgrade::on(response).await;
            upgraded.map_err(|error| DaemonFault::Broken(with_causes(&error)))
        };
        let upgraded = timeout(QUICK, answer)
            .await
            .unwrap_or(Err(DaemonFault::TimedOut(QUICK)))?;
        Ok(TokioIo::new(upgraded))
    }
}

/// One type for both kinds of sockets, because a whole HTTP client would be compiled for each.
trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for T {}

async fn begin(stream: Box<dyn Stream>) -> Result<http1::SendRequest<Body>, DaemonFault> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| DaemonFault::Broken(with_causes(&error)))?;
    // The task ends with the connection: when nobody waits for an answer or has a use for it.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the container engine");
        }
    });
    Ok(sender)
}

/// The daemon's message: usually in JSON, sometimes plain.
fn refusal(body: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let message = json
        .as_ref()
        .and_then(|json| json["message"].as_str().or(json["cause"].as_str()));
    match message {
        Some(message) => message.trim().to_owned(),
        None => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Characters that are escaped in a URL's path and query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/')
    .remove(b':');

/// A text as a part of a URL: a segment of its path, or a value of its query. Slashes stay, because
/// both allow them.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_carry_any_text() {
        for (text, wanted) in [
            ("a/b:c-1_2.3~", "a/b:c-1_2.3~"),
            ("x@sha256:1", "x%40sha256:1"),
            ("a b?c#d%&=+", "a%20b%3Fc%23d%25%26%3D%2B"),
            (
                "{\"label\":[\"ü\"]}",
                "%7B%22label%22:%5B%22%C3%BC%22%5D%7D",
            ),
        ] {
            assert_eq!(encode(text), wanted);
        }
    }

    #[test]
    fn refusals_are_read_in_every_form() {
        for (body, wanted) in [
            (r#"{"message":"No such image: x\n"}"#, "No such image: x"),
            (r#"{"cause":"gone","response":404}"#, "gone"),
            ("page not found\n", "page not found"),
            ("{}", "{}"),
            ("", ""),
        ] {
            assert_eq!(refusal(body.as_bytes()), wanted, "{body}");
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(parse_version("1.9") < parse_version("1.41"));
        for bad in ["", "1", "x.1", "1.x", "1.4.1"] {
            assert_eq!(parse_version(bad), None, "{bad}");
        }
    }
}
