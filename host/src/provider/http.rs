//! Sends one request and reads its response: clients, timeouts, redirects, the size cap.
//!
//! Redirects are followed here and not by the client: only within the same origin (or from
//! `http:` to `https:` of the same host), only where the grants allow the new URL, and never by
//! turning a POST into a GET, which would make a confusing error of a simple one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use tokio::time::Instant;
use url::Url;

use super::Environment;
use super::fault::{self, Fault, Phase};
use super::grants::host_and_port;
use super::proxy::{self, Proxy};
use super::request::Prepared;
use super::settings::Settings;
use super::tls;
use crate::roles::ErrorClass;

const MAX_REDIRECTS: u32 = 5;

/// The process's HTTP clients, with their connection pools; cheap to clone, free to make.
///
/// A client is built when the first request needs it. One for plain http knows no certificates;
/// one for https loads them.
#[derive(Clone)]
pub struct Http {
    environment: Environment,
    clients: Arc<Mutex<HashMap<Key, Client>>>,
}

/// What makes a client differ from another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    tls: bool,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
}

impl Http {
    /// Clients that take proxies and certificates from `environment`.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            clients: Arc::default(),
        }
    }

    /// Sends `request` and waits for the head of the response. `may_follow` says whether a
    /// redirect's target is granted.
    pub(super) async fn send(
        &self,
        request: &Prepared,
        settings: &Settings,
        may_follow: &(dyn Fn(&Url) -> bool + Sync),
    ) -> Result<Answer, Fault> {
        let start = Instant::now();
        let total = start + settings.total_timeout;
        let mut url = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(request, &url, settings, start).await?;
            let (status, headers) = (response.status(), response.headers());
            let target = target(status, headers, &url);
            let note = match target {
                Some(target) if may_redirect(request, status, &url, &target, may_follow) => {
                    tracing::debug!(from = %origin(&url), to = %origin(&target), "redirected");
                    url = target;
                    continue;
                }
                Some(target) => Some(not_followed(status, &url, &target)),
                None => None,
            };
            return Ok(Answer {
                origin: origin(&url),
                status: status.as_u16(),
                headers: headers.clone(),
                redirect: note,
                response,
                total,
                read: 0,
            });
        }
        Err(Fault::new(
            ErrorClass::Network,
            format!(
                "`{}` redirected more than {MAX_REDIRECTS} times: check `--base-url`",
                origin(&url)
            ),
        )
        .lasting())
    }

    async fn send_once(
        &self,
        request: &Prepared,
        url: &Url,
        settings: &Settings,
        start: Instant,
    ) -> Result<Response, Fault> {
        let setup = |message| Fault::new(ErrorClass::BadRequest, message).lasting();
        let proxy = proxy::for_url(&self.environment, url).map_err(setup)?;
        let client = self.client(url, proxy.as_ref(), settings).map_err(setup)?;
        let origin = origin(url);
        let mut builder = client
            .request(request.method.clone(), url.clone())
            .headers(request.headers.clone());
        if !request.body.is_empty() || matches!(request.method, Method::POST | Method::PUT) {
            builder = builder.body(request.body.clone());
        }
        let (phase, limit) = if settings.first_byte_timeout <= settings.total_timeout {
            (Phase::Head, settings.first_byte_timeout)
        } else {
            (Phase::Total, settings.total_timeout)
        };
        match tokio::time::timeout_at(start + limit, builder.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                tracing::debug!(%origin, cause = ?std::error::Error::source(&error), "request failed");
                Err(fault::on_send(&error, url, proxy.as_ref(), settings))
            }
            Err(_) => Err(fault::timeout(phase, &origin, settings)),
        }
    }

    fn client(
        &self,
        url: &Url,
        proxy: Option<&Proxy>,
        settings: &Settings,
    ) -> Result<Client, String> {
        let over_tls = |url: &Url| url.scheme() == "https";
        let key = Key {
            tls: over_tls(url) || proxy.is_some_and(|proxy| over_tls(&proxy.url)),
            proxy: proxy.cloned(),
            connect_timeout: settings.connect_timeout,
        };
        // Building happens under the lock: two agents that start together must not both load
        // the certificates, and would end up with two pools.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = self.build(&key)?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    fn build(&self, key: &Key) -> Result<Client, String> {
        let tls = if key.tls {
            tls::trusting_roots(&self.environment)?
        } else {
            tls::trusting_nobody()?
        };
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("mswea-host/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(key.connect_timeout)
            .redirect(redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            // Proxies are chosen in `proxy`.
            .no_proxy();
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

/// A response whose head has arrived.
pub(super) struct Answer {
    /// Where it came from.
    pub origin: String,
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Why a redirect was not followed, if it is one.
    pub redirect: Option<String>,
    response: Response,
    total: Instant,
    read: u64,
}

impl Answer {
    /// Its headers as adapters see them: names in lower case, values as text.
    pub fn plain_headers(&self) -> Vec<(String, String)> {
        self.headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect()
    }

    /// The next piece of the body; none at its end.
    pub async fn piece(&mut self, settings: &Settings) -> Result<Option<Bytes>, Fault> {
        let cap = settings.max_response_bytes;
        if self.read == 0 && self.response.content_length().is_some_and(|len| len > cap) {
            return Err(fault::too_large(&self.origin, settings));
        }
        let idle = Instant::now() + settings.idle_timeout;
        let (phase, deadline) = if idle <= self.total {
            (Phase::Body, idle)
        } else {
            (Phase::Total, self.total)
        };
        let piece = match tokio::time::timeout_at(deadline, self.response.chunk()).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(error)) => return Err(fault::on_body(&error, &self.origin)),
            Err(_) => return Err(fault::timeout(phase, &self.origin, settings)),
        };
        if let Some(piece) = &piece {
            self.read = self.read.saturating_add(piece.len() as u64);
            if self.read > cap {
                return Err(fault::too_large(&self.origin, settings));
            }
            // A body that never pauses never lets the timer win.
            if Instant::now() >= self.total {
                return Err(fault::timeout(Phase::Total, &self.origin, settings));
            }
        }
        Ok(piece)
    }
}

/// Scheme, host and port: what messages show of a URL. Path and query may hold keys.
pub(super) fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host_and_port(url))
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
