//! Which hosts a plugin's requests may go to, and which secrets they may carry.
//!
//! Grants are set in the config; the user is never asked. So the message of a denial contains the
//! lines to add.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use super::plain_http::is_loopback;
use mswea_core::{ModelError, ModelFailure};

/// A host that is granted: `host`, `host:port`, `*.example.com` or `*.example.com:port`.
///
/// Without a port, every port of the host is granted. A wildcard stands for one or more labels, so
/// it does not match the bare domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: String,
    wildcard: bool,
    port: Option<u16>,
}

/// A text that is not a host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a host: write `host`, `host:port` or `*.example.com`, without a scheme or a path"
)]
pub struct PatternError(String);

impl HostPattern {
    /// The pattern of exactly `url`'s host and port: what a configured base URL grants.
    #[must_use]
    pub fn of_url(url: &Url) -> Option<Self> {
        Some(Self {
            host: normal(url.host_str()?),
            wildcard: false,
            port: Some(url.port_or_known_default()?),
        })
    }

    /// Whether the pattern matches the host and port of `url`.
    #[must_use]
    pub fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str().map(normal) else {
            return false;
        };
        if self.port.is_some() && self.port != url.port_or_known_default() {
            return false;
        }
        if !self.wildcard {
            return host == self.host;
        }
        // Only names: `*.0.0.1` must not grant 127.0.0.1.
        matches!(url.host(), Some(Host::Domain(_)))
            && host
                .strip_suffix(&self.host)
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|labels| !labels.is_empty())
    }
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let error = || PatternError(text.to_owned());
        let (wildcard, rest) = match text.trim().strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        // An IPv6 address may be written without brackets if no port follows.
        let bare = rest.parse::<std::net::Ipv6Addr>().is_ok();
        if rest.is_empty() || rest.contains(['/', '\\', '?', '#', '@', '*', ' ', '\t', '\r', '\n'])
        {
            return Err(error());
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !bare && !rest.ends_with(']') => {
                (host, Some(port.parse::<u16>().map_err(|_| error())?))
            }
            _ => (rest, None),
        };
        // The URL parser normalises case, IDNA names and addresses, as it does for requests.
        let authority = if bare {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let url = Url::parse(&format!("http://{authority}/")).map_err(|_| error())?;
        let host = url.host_str().map(normal).filter(|host| !host.is_empty());
        if url.port().is_some() || (wildcard && !matches!(url.host(), Some(Host::Domain(_)))) {
            return Err(error());
        }
        Ok(Self {
            host: host.ok_or_else(error)?,
            wildcard,
            port,
        })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.wildcard { "*." } else { "" };
        write!(f, "{star}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Removes a trailing dot, which does not change the host.
fn normal(host: &str) -> String {
    host.trim_end_matches('.').to_owned()
}

/// The hosts and secrets that one plugin may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Hosts that its requests may go to.
    pub hosts: Vec<HostPattern>,
    /// Names of the secrets that its requests may carry.
    pub secrets: Vec<String>,
    /// Hosts to which these secrets may be sent over plain `http`, in addition to this machine.
    pub plain_http: Vec<HostPattern>,
    /// The plugin's file, if no entry of the config names this file: without such an entry nothing
    /// can be granted.
    pub unnamed: Option<String>,
}

impl Grants {
    /// The first lines of the entry that a denial's message shows.
    fn entry(&self, plugin: &str) -> String {
        let key = toml_key(plugin);
        match &self.unnamed {
            Some(file) => format!(
                "[plugins.{key}]\npath = {}",
                toml::Value::from(file.as_str())
            ),
            None => format!("[plugins.{key}]"),
        }
    }

    /// Whether `url` goes to a granted host.
    #[must_use]
    pub fn allows(&self, url: &Url) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(url))
    }

    /// Checks that `plugin` may send a request to `url`.
    pub(super) fn check_host(&self, plugin: &str, url: &Url) -> Result<(), ModelError> {
        if self.allows(url) {
            return Ok(());
        }
        let host = host_and_port(url);
        Err(ModelError::new(
            ModelFailure::Refused,
            format!(
                "the plugin `{plugin}` may not reach `{host}`; to allow it, add to the config\n\
                 {entry}\nallow_hosts = [\"{host}\"]\nor pass `--allow-host {host}`",
                entry = self.entry(plugin),
            ),
        ))
    }

    /// Checks that `plugin` may use the secret `name`.
    pub(super) fn check_secret(&self, plugin: &str, name: &str) -> Result<(), ModelError> {
        if self.secrets.iter().any(|granted| granted == name) {
            return Ok(());
        }
        Err(ModelError::new(
            ModelFailure::Refused,
            format!(
                "the plugin `{plugin}` may not use the secret `{name}`; to allow it, add to the \
                 config\n{entry}\nsecrets = [\"{name}\"]",
                entry = self.entry(plugin),
            ),
        ))
    }

    /// Whether a secret may go to `url` over a connection that others can read.
    #[must_use]
    pub fn is_exposed(&self, url: &Url) -> bool {
        let is_safe = url.scheme() == "https" || is_loopback(url);
        !is_safe && self.plain_http.iter().any(|host| host.matches(url))
    }

    /// Checks that the secret `name` may be sent to `url`, whose host is granted: over an encrypted
    /// connection, or where plain `http` is allowed.
    pub(super) fn check_way(&self, name: &str, url: &Url) -> Result<(), ModelError> {
        if url.scheme() == "https" || is_loopback(url) || self.is_exposed(url) {
            return Ok(());
        }
        let host = host_and_port(url);
        Err(ModelError::new(
            ModelFailure::Refused,
            format!(
                "the secret `{name}` is not sent to `{host}` over plain http, because others on the network could read it: use an `https:` URL, tunnel the server to 127.0.0.1 (`ssh -L`), \
                 configure the model without a key, or allow it with \
                 `-c 'model.plain_http_hosts=[\"{host}\"]'`",
            ),
        ))
    }
}

/// The host, and the port if it is not the scheme's default.
pub(super) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// `name` as a TOML key.
fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        // A JSON string is a TOML basic string.
        serde_json::Value::from(name).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn patterns() {
        for (pattern, target, expected) in [
            ("api.openai.com", "https://api.openai.com/v1", true),
            ("API.OpenAI.com", "https://api.openai.com/v1", true),
            ("api.openai.com", "https://api.openai.com./v1", true),
            ("api.openai.com.", "https://api.openai.com/v1", true),
            ("api.openai.com", "http://api.openai.com:8000/", true),
            ("api.openai.com", "https://evil-api.openai.com/", false),
            ("api.openai.com", "https://api.openai.com.evil.com/", false),
            ("api.openai.com", "https://evil.com/?api.openai.com", false),
            ("api.openai.com", "https://api.openai.com@evil.com/", false),
            ("localhost:8000", "http://localhost:8000/v1", true),
            ("localhost:8000", "http://localhost:8001/v1", false),
            ("localhost:80", "http://localhost/", true),
            ("localhost:443", "https://localhost/", true),
            ("*.example.com", "https://a.example.com/", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://badexample.com/", false),
            ("*.example.com:8443", "https://a.example.com:8443/", true),
            ("*.example.com:8443", "https://a.example.com/", false),
            ("127.0.0.1", "http://127.1:9/", true),
            ("[::1]:80", "http://[::1]/", true),
            ("::1", "http://[0:0:0:0:0:0:0:1]:8000/", true),
            ("bücher.de", "https://xn--bcher-kva.de/", true),
        ] {
            let parsed: HostPattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(&url(target)), expected, "{pattern} {target}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{pattern}");
        }
        for bad in [
            "",
            " ",
            "*",
            "*.",
            "https://a.com",
            "a.com/v1",
            "a.com:x",
            "a.com:",
            "a:1:2",
            "u@a.com",
            "*.*.com",
            "*.0.0.1",
            "a b",
            "[::1",
            "a.com:99999",
        ] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
        let base = HostPattern::of_url(&url("https://a.com/v1")).unwrap();
        assert_eq!(base.to_string(), "a.com:443");
        assert!(base.matches(&url("https://a.com/")) && !base.matches(&url("http://a.com/")));
    }

    #[test]
    fn denials_print_what_to_add() {
        let grants = Grants {
            hosts: vec!["a.com".parse().unwrap()],
            secrets: vec!["KEY".to_owned()],
            ..Grants::default()
        };
        grants.check_host("p", &url("https://a.com/x")).unwrap();
        let error = grants
            .check_host("my plugin", &url("https://b.com:8443/x"))
            .unwrap_err();
        assert_eq!(error.class, ModelFailure::Refused);
        for part in [
            "[plugins.\"my plugin\"]\nallow_hosts = [\"b.com:8443\"]",
            "`--allow-host b.com:8443`",
        ] {
            assert!(error.message.contains(part), "{}", error.message);
        }
        grants.check_secret("p", "KEY").unwrap();
        let error = grants.check_secret("p", "OTHER").unwrap_err();
        assert_eq!(error.class, ModelFailure::Refused);
        let lines = "[plugins.p]\nsecrets = [\"OTHER\"]";
        assert!(error.message.contains(lines), "{}", error.message);
    }

    #[test]
    fn secrets_take_safe_ways_and_those_that_the_user_allows() {
        let grants = Grants {
            plain_http: vec!["node17:8000".parse().unwrap(), "b.com".parse().unwrap()],
            ..Grants::default()
        };
        for (target, refused) in [
            ("https://a.com/", None),
            ("http://127.0.0.1:1/", None),
            ("http://node17:8000/v1", None),
            ("http://b.com:9000/", None),
            ("http://node17:8001/v1", Some("node17:8001")),
            ("http://a.com/", Some("a.com")),
            ("http://a.com:8000/", Some("a.com:8000")),
        ] {
            let outcome = grants.check_way("KEY", &url(target));
            let Some(host) = refused else {
                outcome.unwrap();
                continue;
            };
            let error = outcome.unwrap_err();
            assert_eq!(error.class, ModelFailure::Refused);
            let remedy = format!("`-c 'model.plain_http_hosts=[\"{host}\"]'`");
            for part in ["over plain http", &*remedy] {
                assert!(error.message.contains(part), "{}", error.message);
            }
        }
    }
}
