//! Which hosts and secrets an adapter's requests may name.

use serde_json::Value;

use super::schema_law::LawInput;
use mswea_core::{HeaderValue, HttpRequest};

/// The declared secrets and hosts, and the texts of the config, which may name others.
pub(super) struct AllowedRequests {
    secrets: Vec<String>,
    hosts: Vec<String>,
    config: Vec<String>,
}

impl AllowedRequests {
    pub fn new(known: &LawInput, config: &Value) -> Self {
        let mut texts = Vec::new();
        collect(config, &mut texts);
        Self {
            secrets: known.secrets.clone(),
            hosts: known.hosts.clone(),
            config: texts,
        }
    }

    fn host(&self, host: &str, port: &str) -> bool {
        let with_port = format!("{host}:{port}");
        let declared = |known: &String| *known == host || *known == with_port;
        self.hosts.iter().any(declared) || self.config.iter().any(|text| text.contains(host))
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|item| collect(item, texts)),
        Value::Object(map) => map.values().for_each(|item| collect(item, texts)),
        _ => {}
    }
}

/// The breach in a request: what was expected, and what came.
pub(super) fn breach(request: &HttpRequest, allowed: &AllowedRequests) -> Option<(String, String)> {
    let came = |expected: &str, came: &str| Some((expected.to_owned(), format!("`{came}`")));
    let method = &request.method;
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return came("a method in capital letters", method);
    }
    let url = &request.url;
    let Some((host, port)) = host_of(url) else {
        return came("an absolute URL with the scheme `http` or `https`", url);
    };
    if !allowed.host(&host, &port) {
        return came(
            "a URL of a host that the descriptor declares in `hosts` or the config names",
            url,
        );
    }
    for (name, value) in &request.headers {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return came("a header with a name of letters, digits and `-`", name);
        }
        let text = match value {
            HeaderValue::Plain(value) => value,
            HeaderValue::Secret { name, prefix } => {
                let known = allowed.secrets.iter().chain(&allowed.config);
                if known.clone().all(|known| known != name) {
                    return came(
                        "a secret that the descriptor declares in `secrets` or the config names",
                        name,
                    );
                }
                prefix
            }
        };
        if text.chars().any(char::is_control) {
            return came(
                "a header's value without control characters",
                &format!("{name}: {text:?}"),
            );
        }
    }
    None
}

/// Host and port of an absolute URL.
fn host_of(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let port = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let is_url = !authority.is_empty() && !url.chars().any(|c| c.is_control() || c == ' ');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, given)) if given.bytes().all(|byte| byte.is_ascii_digit()) => (host, given),
        _ => (authority, port),
    };
    is_url.then(|| (host.to_ascii_lowercase(), port.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests() {
        let known = LawInput {
            configs: Vec::new(),
            secrets: vec!["KEY".into()],
            hosts: vec!["api.example".into(), "local:8080".into()],
        };
        let config = json!({"base_url": "https://own.example/v1", "api_key": "OWN_KEY"});
        let allowed = AllowedRequests::new(&known, &config);
        let plain = |value: &str| HeaderValue::Plain(value.to_owned());
        let secret = |name: &str| HeaderValue::Secret {
            name: name.to_owned(),
            prefix: "Bearer ".into(),
        };
        let table = [
            ("https://api.example/x", "a", plain("b"), ""),
            ("https://api.example", "a", secret("KEY"), ""),
            ("http://own.example:9/x?y", "a", secret("OWN_KEY"), ""),
            ("http://local:8080/x", "a", plain(""), ""),
            ("http://local:8081/x", "a", plain(""), "a host that"),
            ("https://other.example/x", "a", plain(""), "a host that"),
            (
                "https://x@other.example/api.example",
                "a",
                plain(""),
                "a host that",
            ),
            ("/v1/chat", "a", plain(""), "an absolute URL"),
            ("ftp://api.example/", "a", plain(""), "an absolute URL"),
            ("https:///x", "a", plain(""), "an absolute URL"),
            ("https://api.example/a b", "a", plain(""), "an absolute URL"),
            (
                "https://api.example/",
                "a",
                secret("OTHER"),
                "a secret that",
            ),
            ("https://api.example/", "a b", plain(""), "a header with"),
            (
                "https://api.example/",
                "a",
                plain("x\r\ny: z"),
                "control characters",
            ),
        ];
        for (url, name, value, expected) in table {
            let request = HttpRequest {
                method: "POST".into(),
                url: url.into(),
                headers: vec![(name.into(), value)],
                body: mswea_core::RequestBody::default(),
            };
            match breach(&request, &allowed) {
                None => assert_eq!(expected, "", "{url}"),
                Some((said, _)) => assert!(
                    !expected.is_empty() && said.contains(expected),
                    "{url}: {said}"
                ),
            }
        }
    }
}
