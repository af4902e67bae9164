//! A server: its address, its trusted certificates, and requests to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use mswea_files as regular_file;
use mswea_secrecy::{self as secrecy, SecretFinder};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::fault::RemoteFault;
use super::token::AccessToken;
use super::wire::{LOST, RUNTIME_HEADER};

/// The most bytes of an answer that is not output.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Tokens shorter than this are not masked in the outputs of commands.
const SHORTEST_MASKED: usize = 8;

/// A server.
#[derive(Clone)]
pub struct Endpoint {
    /// The URL for messages, without a login.
    url: String,
    host: String,
    port: u16,
    /// Host and port, as the URL has them.
    authority: String,
    /// The prefix of every path; empty, or begins with `/` and does not end with it.
    prefix: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The header with the token.
    authorization: (HeaderName, HeaderValue),
    /// Finds the token in what the server says: it may send back what it was sent.
    token: Option<SecretFinder>,
    /// Whether the token may be an ordinary word: it is short, or has only small letters.
    is_word: bool,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", self.url)
    }
}

impl Endpoint {
    /// The server at `url`. Its certificate must be that of `ca_file`, or be signed by it; without
    /// such a file, the system's authorities are trusted.
    ///
    /// # Errors
    /// A message if the URL or the file can't be used.
    pub fn new(url: &str, token: &AccessToken, ca_file: Option<&Path>) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("`environment.url` is `{url}`, {why}: write `https://HOST:PORT`");
        let uri: Uri = url.parse().map_err(|_| wrong("which is no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("which does not begin with `https:` or `http:`")),
        };
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err("`environment.url` has a login, and the server wants a token: set `environment.token_file`".to_owned());
        }
        if uri.query().is_some() {
            return Err(wrong("which has a query"));
        }
        let host = uri.host().unwrap_or_default();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if host.is_empty() {
            return Err(wrong("which names no host"));
        }
        if !is_tls && !is_near(&host) {
            tracing::warn!(
                "the token and all commands go to `{url}` in clear text: use `https:`, or a tunnel to this machine"
            );
        }
        let tls = match is_tls {
            true => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| wrong("whose host no certificate can have"))?;
                Some((connector(ca_file)?, name))
            }
            false => None,
        };
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            host,
            authority: uri
                .authority()
                .map_or_else(String::new, ToString::to_string),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            tls,
            authorization: (AUTHORIZATION, hidden(&token.header())?),
            token: SecretFinder::new([&token.text().to_owned()]),
            is_word: token.text().len() < SHORTEST_MASKED
                || token.text().bytes().all(|byte| byte.is_ascii_lowercase()),
        })
    }

    /// A text of the server without the token, in whatever spelling.
    pub(crate) fn masked(&self, text: &str) -> String {
        let places = self.token.as_ref().map(|token| token.find(text));
        secrecy::replaced(text, &places.unwrap_or_default(), "[token]")
    }

    /// An output of a command or a program without the token, unless the token may be an ordinary word.
    pub(crate) fn output(&self, text: String) -> String {
        match self.is_word {
            true => text,
            false => self.masked(&text),
        }
    }

    /// The same server, with the token unchanged in another header.
    ///
    /// # Errors
    /// A message if the token can't be the value of a header.
    pub(crate) fn with_key(self, name: &'static str, token: &AccessToken) -> Result<Self, String> {
        Ok(Self {
            authorization: (HeaderName::from_static(name), hidden(token.text())?),
            ..self
        })
    }

    /// The URL, for messages.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Checks that the server is a runtime of this program; returns its version.
    ///
    /// # Errors
    /// [`RemoteFault`] if it can't be reached, refuses the token, or is another server.
    pub async fn check(&self) -> Result<String, RemoteFault> {
        let mut connection = self.connect().await?;
        let server = connection
            .call(Method::GET, "/v1/alive", Bytes::new())
            .await?;
        match RemoteFault::on_version(&self.url, &server) {
            Some(fault) => Err(fault),
            None => Ok(server["version"].as_str().unwrap_or("?").to_owned()),
        }
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// [`RemoteFault`] if there is none within [`LOST`].
    pub(crate) async fn connect(&self) -> Result<RemoteConnection, RemoteFault> {
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
            let stream = stream.map_err(|error| RemoteFault::on_connect(&self.url, &error))?;
            // Each request is small, and the client waits for its answer.
            let _ = stream.set_nodelay(true);
            match &self.tls {
                None => self.begin(stream).await,
                Some((tls, name)) => {
                    let stream = tls.connect(name.clone(), stream).await;
                    let fault = |error| RemoteFault::on_handshake(&self.url, &error);
                    self.begin(stream.map_err(fault)?).await
                }
            }
        };
        match timeout(LOST, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(self.silent()),
        }
    }

    async fn begin(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<RemoteConnection, RemoteFault> {
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| RemoteFault::broken(&self.url, &error))?;
        let driving = tokio::spawn(async move {
            // An error is reported to the request.
            let _ = connection.await;
        });
        Ok(RemoteConnection {
            endpoint: self.clone(),
            sender,
            is_unsent: false,
            driving: driving.abort_handle(),
        })
    }

    pub(super) fn silent(&self) -> RemoteFault {
        RemoteFault::Unreachable {
            url: self.url.clone(),
            reason: format!("nothing came for {} s", LOST.as_secs()),
            remedy: "check the network, and that the server goes on",
        }
    }
}

/// A connection to a server, for one request at a time. Dropping it closes the connection.
pub(crate) struct RemoteConnection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
    /// Whether no byte of the last request was written.
    is_unsent: bool,
    driving: AbortHandle,
}

impl Drop for RemoteConnection {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

/// A header's value that `Debug` does not show.
fn hidden(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| "the token has characters that no header can have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl RemoteConnection {
    /// Sends a request with a body of this type. Returns the answer, whatever its status, when its
    /// head has come, however long that takes.
    ///
    /// # Errors
    /// [`RemoteFault`] if the connection is lost.
    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, RemoteFault> {
        let Self {
            endpoint,
            sender,
            is_unsent,
            ..
        } = self;
        let broken = |error: hyper::Error| RemoteFault::broken(&endpoint.url, &error);
        let (name, value) = endpoint.authorization.clone();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", endpoint.prefix))
            .header(HOST, endpoint.authority.as_str())
            .header(CONTENT_TYPE, content_type)
            .header(name, value)
            .body(Full::new(body))
            .map_err(|error| RemoteFault::broken(&endpoint.url, &error))?;
        *is_unsent = true;
        // Lets the connection's task notice that the server has closed the connection.
        tokio::task::yield_now().await;
        sender.ready().await.map_err(broken)?;
        *is_unsent = false;
        let answer = sender.try_send_request(request).await;
        answer.map_err(|mut failed| {
            *is_unsent = failed.take_message().is_some();
            broken(failed.into_error())
        })
    }

    /// Sends a request. Returns the answer when its head has come, if its status is a success and
    /// the server is one of ours.
    ///
    /// # Errors
    /// [`RemoteFault`] if there is no such answer within [`LOST`].
    pub(super) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, RemoteFault> {
        let url = self.endpoint.url.clone();
        let asking = async {
            let kind = "application/octet-stream";
            let answer = self.exchange(method, path, kind, body).await?;
            let status = answer.status();
            let own = answer.headers().get(RUNTIME_HEADER).cloned();
            if status.is_success() && own.is_some() {
                return Ok(answer);
            }
            let text = read(answer).await.unwrap_or_default();
            let text = self.endpoint.masked(&text);
            let own = own.as_ref().and_then(|own| own.to_str().ok());
            Err(RemoteFault::on_answer(&url, status, own, &text))
        };
        match timeout(LOST, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(self.endpoint.silent()),
        }
    }

    /// Whether no byte of the last request was written, so that the server can't have acted on it.
    pub(super) fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Sends a request; returns the answer's JSON.
    ///
    /// # Errors
    /// [`RemoteFault`] if there is no such answer within [`LOST`], or it is not JSON.
    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Value, RemoteFault> {
        let answer = self.ask(method, path, body).await?;
        let url = self.endpoint.url.clone();
        let lost = |error: &(dyn std::error::Error + 'static)| RemoteFault::broken(&url, error);
        let text = match timeout(LOST, read(answer)).await {
            Ok(text) => text.map_err(|error| lost(&*error))?,
            Err(_) => return Err(self.endpoint.silent()),
        };
        serde_json::from_str(&text).map_err(|error| lost(&error))
    }
}

/// Whether a host is this machine.
fn is_near(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

async fn read(
    answer: Response<Incoming>,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let body = Limited::new(answer.into_body(), LONGEST_ANSWER)
        .collect()
        .await?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, String> {
    if let Some(file) = ca_file {
        let shown = file.display();
        let bytes = regular_file::read(file, regular_file::SETTINGS)
            .map_err(|error| format!("`environment.ca_file` `{shown}`: {error}"))?;
        let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
        if !found.is_ok_and(|found| !found.is_empty()) {
            return Err(format!(
                "`environment.ca_file` `{shown}` has no certificate: it has to be in the format PEM"
            ));
        }
    }
    let named: Option<PathBuf> = ca_file.map(Path::to_owned);
    let lookup = |name: &str| match (&named, name) {
        (Some(file), "SSL_CERT_FILE") => Some(file.to_string_lossy().into_owned()),
        (Some(_), _) => None,
        (None, name) => secrecy::var(name),
    };
    let config = mswea_tls::trusting_roots(&lookup, &["http/1.1"])?;
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_words_do_not_show_the_token() {
        let token = AccessToken::new("0123456789abcdef-token").unwrap();
        let endpoint = Endpoint::new("http://127.0.0.1:1", &token, None).unwrap();
        for (text, expected) in [
            ("you sent 0123456789abcdef-token!", "you sent [token]!"),
            ("0123456789abcdef%2Dtoken", "[token]"),
            (
                "QmVhcmVyIDAxMjM0NTY3ODlhYmNkZWYtdG9rZW4=",
                "QmVhcmVyID[token]4=",
            ),
            ("nothing", "nothing"),
        ] {
            assert_eq!(endpoint.masked(text), expected);
            assert_eq!(endpoint.output(text.to_owned()), expected);
        }
        // An output may be a patch, in which a word has to stay.
        for word in ["password", "shortly", "onlysmallletters"] {
            let word = AccessToken::foreign(word).unwrap();
            let endpoint = Endpoint::new("http://127.0.0.1:1", &word, None).unwrap();
            let text = "+ password shortly onlysmallletters";
            assert_eq!(endpoint.output(text.to_owned()), text);
        }
    }
}
