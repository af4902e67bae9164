//! Makes the request that is sent from the one that an adapter describes: validates it, checks the
//! grants, and fills in the secrets.

use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue as WireValue};
use url::{Host, Url};

use super::fault;
use super::grants::Grants;
use super::secrets::{Secret, Secrets};
use mswea_core::{ErrorClass, HeaderValue, HttpRequest, ModelError, RequestBody};

/// Headers of the connection, which adapters may not set: with them an adapter could smuggle in a
/// second request, or reach another host behind the same address.
const RESERVED: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// A request that may be sent.
pub(super) struct Prepared {
    pub method: Method,
    pub url: Url,
    /// [`fault::origin`] of the URL.
    pub origin: Arc<str>,
    pub headers: HeaderMap,
    pub body: RequestBody,
    /// Names of the secrets that it contains.
    pub secrets: Vec<String>,
}

/// A URL that the grants of one adapter allow.
#[derive(Clone)]
pub(super) struct GrantedUrl {
    pub url: Url,
    /// [`fault::origin`] of the URL.
    pub origin: Arc<str>,
}

/// The last URL of an adapter that its grants have allowed: an adapter makes most of its requests to the same one.
#[derive(Default)]
pub(super) struct LastUrl(Option<(String, GrantedUrl)>);

impl LastUrl {
    fn known(&self, text: &str) -> Option<GrantedUrl> {
        let (_, granted) = self.0.as_ref().filter(|(known, _)| known == text)?;
        Some(granted.clone())
    }

    fn keep(&mut self, text: &str, url: Url) -> GrantedUrl {
        let origin = fault::origin(&url).into();
        let granted = GrantedUrl { url, origin };
        self.0 = Some((text.to_owned(), granted.clone()));
        granted
    }
}

/// Checks `request` against the grants of `plugin` and fills in its secrets.
///
/// # Errors
/// A [`ModelError`] of class `refused` without a grant, `authentication` without the secret,
/// `bad-request` for an invalid method, URL or header.
pub(super) fn prepare(
    request: &HttpRequest,
    plugin: &str,
    grants: &Grants,
    secrets: &Secrets,
    last_url: &mut LastUrl,
) -> Result<Prepared, ModelError> {
    let bad = |what: String| {
        ModelError::new(
            ErrorClass::BadRequest,
            format!("the plugin `{plugin}` made an invalid request: {what}"),
        )
    };
    let GrantedUrl { url, origin } = match last_url.known(&request.url) {
        Some(granted) => granted,
        None => {
            let url = parse_url(&request.url).map_err(bad)?;
            grants.check_host(plugin, &url)?;
            last_url.keep(&request.url, url)
        }
    };
    let method = Method::from_bytes(request.method.as_bytes())
        .ok()
        .filter(|method| *method != Method::CONNECT)
        .ok_or_else(|| {
            bad(format!(
                "`{}` is not an HTTP method",
                request.method.escape_debug()
            ))
        })?;
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    let mut used = Vec::new();
    for (name, value) in &request.headers {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(format!("`{}` is not a header name", name.escape_debug())))?;
        if RESERVED.contains(&key.as_str()) {
            return Err(bad(format!(
                "the host sets the header `{key}` itself; leave it out"
            )));
        }
        let value = match value {
            HeaderValue::Plain(text) => WireValue::from_str(text).map_err(|_| {
                bad(format!(
                    "the value of the header `{key}` has control characters"
                ))
            })?,
            HeaderValue::Secret { name, prefix } => {
                grants.check_secret(plugin, name)?;
                if WireValue::from_str(prefix).is_err() {
                    return Err(bad(format!(
                        "the text before the secret `{name}` in the header `{key}` has control characters"
                    )));
                }
                used.push(name.clone());
                let secret = secret(name, secrets)?;
                if !secret.is_placeholder() {
                    grants.check_way(name, &url)?;
                }
                header(name, prefix, &secret)?
            }
        };
        headers.append(key, value);
    }
    Ok(Prepared {
        method,
        url,
        origin,
        headers,
        body: request.body.clone(),
        secrets: used,
    })
}

/// The longest URL that the HTTP client sends.
const LONGEST_URL: usize = 65_000;

fn parse_url(text: &str) -> Result<Url, String> {
    if text.len() > LONGEST_URL {
        return Err(format!(
            "its URL has {} bytes; at most {LONGEST_URL} are sent",
            text.len()
        ));
    }
    // The message does not repeat the URL, because its query may hold a key.
    let url = Url::parse(text).map_err(|error| format!("its URL is malformed ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "its URL has the scheme `{}`; only `http` and `https` are sent",
            url.scheme()
        ));
    }
    if let Some(what) = unreachable(&url) {
        return Err(format!("its URL leads nowhere: {what}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "its URL has a user name or a password; put a key into the environment or the \
             secrets file instead"
                .to_owned(),
        );
    }
    Ok(url)
}

/// Why no server can have this address, if none can: the query would fail again and again.
fn unreachable(url: &Url) -> Option<&'static str> {
    if url.port() == Some(0) {
        return Some("no server listens at the port 0");
    }
    let Some(Host::Domain(name)) = url.host() else {
        return None;
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| (1..=63).contains(&label.len());
    (name.len() > 253 || !name.split('.').all(is_label))
        .then_some("a host name has at most 253 bytes, and 1 to 63 between its dots")
}

fn secret(name: &str, secrets: &Secrets) -> Result<Secret, ModelError> {
    let found = secrets
        .get(name)
        .map_err(|error| unusable(error.to_string()))?;
    found.ok_or_else(|| {
        let file = match secrets.path() {
            Some(path) => format!("`{}` (the `model.secrets_file`, mode 0600)", path.display()),
            None => "a file (mode 0600) that `model.secrets_file` names".to_owned(),
        };
        unusable(format!(
            "no API key: set the environment variable `{name}`, or write `{name}=...` into {file}"
        ))
    })
}

fn header(name: &str, prefix: &str, secret: &Secret) -> Result<WireValue, ModelError> {
    let mut value = WireValue::from_str(&format!("{prefix}{}", secret.expose())).map_err(|_| {
        unusable(format!(
            "the value of `{name}` has characters that are not allowed in a header: copy the key again"
        ))
    })?;
    // Keeps the value out of the HTTP client's logs and of HTTP/2's shared header table.
    value.set_sensitive(true);
    Ok(value)
}

fn unusable(message: String) -> ModelError {
    ModelError::new(ErrorClass::Authentication, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_core::ModelFailure;

    #[test]
    fn what_is_sent_and_what_is_not() {
        let plain =
            |name: &str, value: &str| (name.to_owned(), HeaderValue::Plain(value.to_owned()));
        let key = |name: &str| {
            let value = HeaderValue::Secret {
                name: name.to_owned(),
                prefix: "Bearer ".to_owned(),
            };
            ("authorization".to_owned(), value)
        };
        let a = "https://a.com/v1?key=hidden";
        use ErrorClass::{Authentication, BadRequest};
        use ModelFailure::Refused;
        for (method, url, header, expected) in [
            ("POST", a, plain("x-a", "b"), None),
            ("POST", a, key("KEY"), None),
            // a placeholder is no secret
            ("POST", "http://a.com/", key("NO_KEY"), None),
            (
                "P OST",
                a,
                plain("x-a", "b"),
                Some((BadRequest.into(), "not an HTTP method")),
            ),
            (
                "POST",
                "http://a.com:0/",
                plain("x-a", "b"),
                Some((
                    BadRequest.into(),
                    "leads nowhere: no server listens at the port 0",
                )),
            ),
            (
                "POST",
                "http://a..com/",
                plain("x-a", "b"),
                Some((BadRequest.into(), "leads nowhere: a host name has at most")),
            ),
            (
                "POST",
                &format!("http://{}.com/", "a".repeat(64)),
                plain("x-a", "b"),
                Some((BadRequest.into(), "leads nowhere: a host name has at most")),
            ),
            (
                "POST",
                &format!("http://a.com/{}", "a".repeat(65_000)),
                plain("x-a", "b"),
                Some((BadRequest.into(), "its URL has 65013 bytes")),
            ),
            (
                "CONNECT",
                a,
                plain("x-a", "b"),
                Some((BadRequest.into(), "not an HTTP method")),
            ),
            (
                "POST",
                a,
                plain("x a", "b"),
                Some((BadRequest.into(), "not a header name")),
            ),
            (
                "POST",
                a,
                plain("x-a", "b\r\nc: d"),
                Some((BadRequest.into(), "control characters")),
            ),
            (
                "POST",
                a,
                plain("Host", "b.com"),
                Some((BadRequest.into(), "`host`")),
            ),
            (
                "POST",
                a,
                plain("Transfer-Encoding", "chunked"),
                Some((BadRequest.into(), "the host sets the header")),
            ),
            (
                "POST",
                "/v1",
                plain("x-a", "b"),
                Some((BadRequest.into(), "malformed")),
            ),
            (
                "POST",
                "file:///etc/passwd",
                plain("x-a", "b"),
                Some((BadRequest.into(), "`file`")),
            ),
            (
                "POST",
                "https://u:hidden@a.com/",
                plain("x-a", "b"),
                Some((BadRequest.into(), "password")),
            ),
            (
                "POST",
                "https://b.com/",
                plain("x-a", "b"),
                Some((Refused, "--allow-host b.com")),
            ),
            (
                "POST",
                "https://b.com/",
                key("KEY"),
                Some((Refused, "--allow-host b.com")),
            ),
            (
                "POST",
                "http://a.com/",
                key("KEY"),
                Some((Refused, "plain http")),
            ),
            (
                "POST",
                a,
                key("OTHER"),
                Some((Refused, "secrets = [\"OTHER\"]")),
            ),
            (
                "POST",
                a,
                key("ABSENT"),
                Some((
                    Authentication.into(),
                    "variable `ABSENT`, or write `ABSENT=...` into `/nonexistent/s` (the \
                     `model.secrets_file`",
                )),
            ),
            (
                "POST",
                a,
                key("BROKEN"),
                Some((Authentication.into(), "copy the key again")),
            ),
            (
                "POST",
                a,
                (
                    "authorization".to_owned(),
                    HeaderValue::Secret {
                        name: "KEY".to_owned(),
                        prefix: "Bearer\r\nx-other: ".to_owned(),
                    },
                ),
                Some((
                    BadRequest.into(),
                    "before the secret `KEY` in the header `authorization` has control",
                )),
            ),
        ] {
            let grants = Grants {
                hosts: vec!["a.com".parse().unwrap()],
                secrets: ["KEY", "ABSENT", "BROKEN", "NO_KEY"]
                    .map(str::to_owned)
                    .to_vec(),
                ..Grants::default()
            };
            let secrets = Secrets::new(
                Arc::new(|name| match name {
                    "KEY" => Some("sk-hidden".to_owned()),
                    "OTHER" => Some("hidden-too".to_owned()),
                    "BROKEN" => Some("hid\nden".to_owned()),
                    "NO_KEY" => Some("EMPTY".to_owned()),
                    _ => None,
                }),
                Some("/nonexistent/s".into()),
            );
            let request = HttpRequest {
                method: method.to_owned(),
                url: url.to_owned(),
                headers: vec![header.clone()],
                body: b"{}".to_vec().into(),
            };
            let mut last_url = LastUrl::default();
            let prepared = prepare(&request, "p", &grants, &secrets, &mut last_url);
            match (prepared, expected) {
                (Ok(prepared), None) => {
                    assert_eq!(prepared.headers.len(), 1);
                    assert!(!format!("{:?}", prepared.headers).contains("hidden"));
                }
                (Err(error), Some((class, part))) => {
                    assert_eq!(error.class, class, "{}", error.message);
                    assert!(error.message.contains(part), "{}", error.message);
                    assert!(!error.message.contains("hidden"), "{}", error.message);
                }
                (outcome, _) => panic!("{method} {url} {header:?}: {:?}", outcome.err()),
            }
        }
    }

    #[test]
    fn what_is_known_of_the_last_url_allows_nothing_else() {
        let grants = Grants {
            hosts: vec!["a.com".parse().unwrap()],
            secrets: vec!["KEY".to_owned()],
            ..Grants::default()
        };
        let secrets = Secrets::new(Arc::new(|_| Some("sk-hidden".to_owned())), None);
        let mut last_url = LastUrl::default();
        for (url, secret, refused) in [
            ("https://a.com/", None, None),
            ("https://b.com/", None, Some("--allow-host b.com")),
            ("https://b.com/", None, Some("--allow-host b.com")),
            ("https://a.com/", Some("KEY"), None),
            (
                "https://a.com/",
                Some("OTHER"),
                Some("secrets = [\"OTHER\"]"),
            ),
            ("http://a.com/", None, None),
            ("http://a.com/", Some("KEY"), Some("plain http")),
            ("http://a.com/", None, None),
            ("https://a.com/", Some("KEY"), None),
        ] {
            let secret = secret.map(|name| HeaderValue::Secret {
                name: name.to_owned(),
                prefix: String::new(),
            });
            let request = HttpRequest {
                method: "POST".to_owned(),
                url: url.to_owned(),
                headers: secret
                    .map(|value| ("x-key".to_owned(), value))
                    .into_iter()
                    .collect(),
                body: b"{}".to_vec().into(),
            };
            match (
                prepare(&request, "p", &grants, &secrets, &mut last_url),
                refused,
            ) {
                (Ok(prepared), None) => {
                    assert_eq!(prepared.url.as_str(), url);
                    assert_eq!(prepared.origin, fault::origin(&prepared.url).into());
                }
                (Err(error), Some(part)) => {
                    assert!(error.message.contains(part), "{}", error.message);
                }
                (outcome, _) => panic!("{url} {:?}: {:?}", request.headers, outcome.err()),
            }
        }
    }
}
