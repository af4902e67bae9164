//! Sends one request and reads its response: clients, timeouts, redirects, the size cap. Compressed
//! responses are unpacked ([`super::coding`]).
//!
//! Redirects are followed here and not by the client: only within the same origin (or from `http:`
//! to `https:` of the same host), only where the grants allow the new URL, and never if a POST
//! would become a GET: the server's error message for that GET would mislead the user.

use std::collections::HashMap;
use std::fmt;
use std::future::Future as _;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use tokio::time::Instant;
use url::Url;

use super::EnvironmentLookup;
use super::coding::Decoder;
use super::connections::{Noticed, noticing};
use super::fault::{self, RequestFault, TimeoutPhase, origin};
use super::outgoing;
use super::pace::{Paces, ProviderPace};
use super::proxy::{self, Proxy};
use super::request::Prepared;
use super::settings::{Limit, RequestSettings};
use mswea_core::ErrorClass;

const MAX_REDIRECTS: u32 = 5;

/// How many connections that earlier requests have left open are tried for one request: each that
/// fails is gone, so the next one is another one or a fresh one.
const MAX_REUSED: u32 = 64;

/// Chunks of a body are joined up to about this size.
const MAX_JOINED: usize = 64 << 10;

/// How long the rest of a body after its reply is read.
const REST_TIME: Duration = Duration::from_secs(1);

/// The process's HTTP clients, with their connection pools. Cheap to make and to clone: a client is
/// built when the first request needs it. A client for plain http loads no certificates.
#[derive(Clone)]
pub struct Http {
    environment: EnvironmentLookup,
    clients: Arc<Mutex<HashMap<ClientKey, Client>>>,
    paces: Paces,
}

/// The properties in which clients differ.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    tls: bool,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
}

impl Http {
    /// Clients that take proxies and certificates from the variables of `environment`.
    #[must_use]
    pub fn new(environment: EnvironmentLookup) -> Self {
        Self {
            environment,
            clients: Arc::default(),
            paces: Paces::default(),
        }
    }

    /// The pace of the provider that gets `request`.
    pub(super) fn pace(&self, request: &Prepared) -> Arc<ProviderPace> {
        self.paces.of(&request.origin)
    }

    /// Sends `request` and waits for the head of the response. `may_follow` tells whether a
    /// redirect's target is granted.
    pub(super) async fn send(
        &self,
        request: &Prepared,
        settings: &RequestSettings,
        may_follow: &(dyn Fn(&Url) -> bool + Sync),
    ) -> Result<StartedResponse, RequestFault> {
        let start = Instant::now();
        let (mut url, mut at) = (request.url.clone(), request.origin.clone());
        for _ in 0..=MAX_REDIRECTS {
            let mut response = self.send_once(request, &url, settings, start).await?;
            let (status, headers) = (response.status(), response.headers());
            let target = target(status, headers, &url);
            let note = match target {
                Some(target) if may_redirect(request, status, &url, &target, may_follow) => {
                    let to: Arc<str> = origin(&target).into();
                    tracing::debug!(from = %at, to = %to, "redirected");
                    (url, at) = (target, to);
                    continue;
                }
                Some(target) => Some(not_followed(status, &url, &target)),
                None => None,
            };
            let decoder = Decoder::of(headers);
            return Ok(StartedResponse {
                status: status.as_u16(),
                redirect: note,
                decoder: decoder.map_err(|coding| fault::unknown_coding(&at, &coding))?,
                origin: at,
                headers: std::mem::take(response.headers_mut()),
                response,
                ahead: None,
                start,
                read: 0,
            });
        }
        Err(RequestFault::new(
            ErrorClass::Network,
            format!("`{at}` redirected more than {MAX_REDIRECTS} times: check `--base-url`"),
        )
        .if_address_is_right(0))
    }

    async fn send_once(
        &self,
        request: &Prepared,
        url: &Url,
        settings: &RequestSettings,
        start: Instant,
    ) -> Result<Response, RequestFault> {
        let setup = |message| RequestFault::new(ErrorClass::BadRequest, message).lasting();
        let proxy = proxy::for_url(&self.environment, url).map_err(setup)?;
        let client = self.client(url, proxy.as_ref(), settings).map_err(setup)?;
        let head = settings.first_byte_timeout.map(|limit| (limit, start));
        let due = Due::of(TimeoutPhase::Head, head, settings, start);
        let mut reused = 0;
        loop {
            let mut builder = client
                .request(request.method.clone(), url.clone())
                .headers(request.headers.clone());
            if !request.body.is_empty() || matches!(request.method, Method::POST | Method::PUT) {
                builder = builder.body(outgoing::body(&request.body));
            }
            let sending = noticing(builder.send());
            let Ok((sent, is_fresh)) = tokio::time::timeout_at(due.at, sending).await else {
                return Err(due.fault(&origin(url)));
            };
            let error = match sent {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            tracing::debug!(origin = %origin(url), is_fresh, cause = ?std::error::Error::source(&error), "request failed");
            // A server closes a connection that is idle at any time, also while a request is on its
            // way to it: that says nothing of the server.
            if is_fresh || reused == MAX_REUSED || !fault::is_unanswered(&error) {
                return Err(fault::on_send(&error, url, proxy.as_ref(), settings));
            }
            reused += 1;
        }
    }

    fn client(
        &self,
        url: &Url,
        proxy: Option<&Proxy>,
        settings: &RequestSettings,
    ) -> Result<Client, String> {
        let over_tls = |url: &Url| url.scheme() == "https";
        let key = ClientKey {
            tls: over_tls(url) || proxy.is_some_and(|proxy| over_tls(&proxy.url)),
            proxy: proxy.cloned(),
            connect_timeout: settings.connect_timeout,
        };
        // Building happens under the lock: otherwise two agents that start together would both load
        // the certificates and use two pools.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = self.build(&key)?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    fn build(&self, key: &ClientKey) -> Result<Client, String> {
        let tls = if key.tls {
            mswea_tls::trusting_roots(&*self.environment, &["h2", "http/1.1"])?
        } else {
            mswea_tls::trusting_nobody()?
        };
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("mswea-host/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(key.connect_timeout)
            .redirect(redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            // A pause may be long; with keepalive, a dead peer is found within two minutes.
            .tcp_keepalive(Duration::from_secs(30))
            .tcp_keepalive_interval(Duration::from_secs(30))
            .tcp_keepalive_retries(3)
            // The module `proxy` chooses the proxy.
            .no_proxy()
            .connector_layer(Noticed);
        if let Some(proxy) = &key.proxy {
            let unusable = |_| format!("the proxy {} can't be used", proxy.shown());
            builder = builder.proxy(reqwest::Proxy::all(proxy.url.clone()).map_err(unusable)?);
        }
        builder
            .build()
            .map_err(|error| format!("no HTTP client could be made: {error}"))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

/// The next timeout that expires.
struct Due {
    at: Instant,
    phase: TimeoutPhase,
    limit: Limit,
}

impl Due {
    /// The earlier of a phase's own limit, counted from some moment, and the limit of the whole
    /// attempt.
    fn of(
        phase: TimeoutPhase,
        own: Option<(Limit, Instant)>,
        settings: &RequestSettings,
        start: Instant,
    ) -> Self {
        let limit = settings.total_timeout;
        let total = Self {
            at: start + limit.time,
            phase: TimeoutPhase::Total,
            limit,
        };
        match own.map(|(limit, from)| (from + limit.time, limit)) {
            Some((at, limit)) if at <= total.at => Self { at, phase, limit },
            _ => total,
        }
    }

    fn fault(&self, origin: &str) -> RequestFault {
        fault::timeout(self.phase, origin, self.limit)
    }
}

/// A response whose head has arrived.
pub(super) struct StartedResponse {
    /// [`origin`] of its URL.
    pub origin: Arc<str>,
    pub status: u16,
    pub headers: HeaderMap,
    /// Why a redirect was not followed, if it is one.
    pub redirect: Option<String>,
    response: Response,
    /// The end of the body or an error, if it came with the last piece.
    ahead: Option<reqwest::Result<Option<Bytes>>>,
    decoder: Decoder,
    start: Instant,
    /// Bytes of the body that were returned.
    read: u64,
}

impl StartedResponse {
    /// Its headers for adapters: names in lower case, values as text; without those that describe
    /// the compressed body.
    pub fn plain_headers(&self) -> Vec<(String, String)> {
        let packed = self.decoder.unpacks();
        self.headers
            .iter()
            .filter(|(name, _)| !(packed && [CONTENT_ENCODING, CONTENT_LENGTH].contains(name)))
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect()
    }

    /// The bytes of the body that have arrived: the next chunk, and chunks that are already
    /// available, because a call of the adapter takes longer than joining them. An error is
    /// returned by the next call.
    async fn arrived(&mut self) -> reqwest::Result<Option<Bytes>> {
        if let Some(outcome) = self.ahead.take() {
            return outcome;
        }
        let Some(first) = self.response.chunk().await? else {
            return Ok(None);
        };
        let mut joined = BytesMut::new();
        // The client counts the length down, so 0 is left at the end of a body whose length is known.
        while self.response.content_length() != Some(0)
            && joined.len().max(first.len()) < MAX_JOINED
        {
            // The task of the connection passes on one chunk at a time.
            tokio::task::yield_now().await;
            match pin!(self.response.chunk()).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => break,
                Poll::Ready(Ok(Some(more))) => {
                    if joined.is_empty() {
                        joined.extend_from_slice(&first);
                    }
                    joined.extend_from_slice(&more);
                }
                Poll::Ready(end) => {
                    self.ahead = Some(end);
                    break;
                }
            }
        }
        Ok(Some(match joined.is_empty() {
            true => first,
            false => joined.freeze(),
        }))
    }

    /// The next piece of the body, unpacked; none at the end.
    pub async fn piece(
        &mut self,
        settings: &RequestSettings,
    ) -> Result<Option<Bytes>, RequestFault> {
        let cap = settings.max_response_bytes;
        if self.read == 0 && self.response.content_length().is_some_and(|len| len > cap) {
            return Err(fault::too_large(&self.origin, settings));
        }
        let idle = settings.idle_timeout.map(|limit| (limit, Instant::now()));
        let due = Due::of(TimeoutPhase::Body, idle, settings, self.start);
        let piece = match tokio::time::timeout_at(due.at, self.arrived()).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(error)) => return Err(fault::on_body(&error, &self.origin)),
            Err(_) => return Err(due.fault(&self.origin)),
        };
        let Some(piece) = piece else {
            if self.decoder.is_torn() {
                return Err(fault::torn(&self.origin));
            }
            return Ok(None);
        };
        let room = cap.saturating_sub(self.read);
        let piece = self.decoder.decode(piece, room);
        let piece = piece.map_err(|coding| fault::damaged(&self.origin, coding))?;
        self.read = self.read.saturating_add(piece.len() as u64);
        if self.read > cap {
            return Err(fault::too_large(&self.origin, settings));
        }
        // A body that never pauses would never let the timer of the whole attempt expire, so the
        // time is checked here.
        let total = Due::of(TimeoutPhase::Total, None, settings, self.start);
        if Instant::now() >= total.at {
            return Err(total.fault(&self.origin));
        }
        Ok(Some(piece))
    }

    /// Reads what follows a reply in the background: usually only the end of the body, after which
    /// the connection can be used again. A connection on which more follows, or nothing, is closed.
    pub fn release(mut self) {
        let rest = async move {
            let mut room = MAX_JOINED;
            while let Ok(Some(piece)) = self.response.chunk().await
                && piece.len() <= room
            {
                room -= piece.len();
            }
        };
        tokio::spawn(tokio::time::timeout(REST_TIME, rest));
    }
}

fn target(status: StatusCode, headers: &HeaderMap, url: &Url) -> Option<Url> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(LOCATION)?;
    url.join(&String::from_utf8_lossy(location.as_bytes())).ok()
}

fn may_redirect(
    request: &Prepared,
    status: StatusCode,
    from: &Url,
    to: &Url,
    may_follow: &(dyn Fn(&Url) -> bool + Sync),
) -> bool {
    let keeps_method = matches!(status.as_u16(), 307 | 308)
        || matches!(request.method, Method::GET | Method::HEAD);
    let same_host = from.host() == to.host();
    let same_origin = same_host
        && from.scheme() == to.scheme()
        && from.port_or_known_default() == to.port_or_known_default();
    let upgrade = same_host
        && (from.scheme(), to.scheme()) == ("http", "https")
        && (from.port(), to.port()) == (None, None);
    let plain = to.username().is_empty() && to.password().is_none();
    keeps_method && (same_origin || upgrade) && plain && may_follow(to)
}

fn not_followed(status: StatusCode, from: &Url, target: &Url) -> String {
    format!(
        "`{}` redirects (status {}) to `{}{}`, which is not followed: if that is the right \
         address, set `--base-url` accordingly",
        origin(from),
        status.as_u16(),
        origin(target),
        target.path(),
    )
}
