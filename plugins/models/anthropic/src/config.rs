//! The adapter's config: what users may set, checked once at start.

use mswea_sdk::types::PluginError;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::models;
use crate::params::Params;

/// JSON Schema of the config, as the descriptor hands it to the host.
pub const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["model"],
  "properties": {
    "model": {
      "type": "string",
      "minLength": 1,
      "description": "Name of the model, in the server's words."
    },
    "base_url": {
      "type": "string",
      "minLength": 1,
      "default": "https://api.anthropic.com",
      "description": "Where the server's API begins; `/v1/messages` is added to it."
    },
    "api_key": {
      "type": ["string", "null"],
      "default": "ANTHROPIC_API_KEY",
      "description": "NAME of the secret (never the key itself) that is sent; null (or an empty text, as TOML has no null) for servers that want none."
    },
    "auth": {
      "type": "string",
      "enum": ["x-api-key", "bearer"],
      "default": "x-api-key",
      "description": "How the secret is sent: in the header `x-api-key`, or as a bearer token in `authorization`."
    },
    "stream": {
      "type": "boolean",
      "default": true,
      "description": "Ask for the answer piece by piece, so that it can be shown as it arrives."
    },
    "max_output_tokens": {
      "type": ["integer", "null"],
      "minimum": 1,
      "default": null,
      "description": "The most that the model writes in one answer, if that is known; else a table of Claude models says it. `model_kwargs.max_tokens` goes before."
    },
    "model_kwargs": {
      "type": "object",
      "default": {},
      "description": "Further keys of the request's body (`temperature`, `thinking`, ...), in the words of the Messages API or of chat completions; laid over it last, so they may replace what the adapter put there."
    },
    "headers": {
      "type": "object",
      "additionalProperties": { "type": "string" },
      "default": {},
      "description": "Further plain headers (`anthropic-beta`). No keys here: they would be recorded."
    }
  }
}"#;

/// What stands after the base URL, and what it may end in already.
const ENDPOINT: [&str; 2] = ["/v1", "/messages"];

/// Keys of `model_kwargs` that other systems take for settings of the client. Sent to a server
/// they would do nothing, or put a key into the record, while the request goes elsewhere.
const MISPLACED: [(&str, &str); 3] = [
    (
        "api_key",
        "put the key into the environment and its name into `model.api_key_env`",
    ),
    ("api_base", "set `model.base_url` instead"),
    ("base_url", "set `model.base_url` instead"),
];

/// The config as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    model: String,
    #[serde(default = "default_base_url")]
    base_url: String,
    #[serde(default = "default_api_key")]
    api_key: Option<String>,
    #[serde(default)]
    auth: Auth,
    #[serde(default = "default_true")]
    stream: bool,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    model_kwargs: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
}

fn default_base_url() -> String {
    "https://api.anthropic.com".to_owned()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "null is a value of its own: no secret"
)]
fn default_api_key() -> Option<String> {
    Some("ANTHROPIC_API_KEY".to_owned())
}

const fn default_true() -> bool {
    true
}

/// How the secret is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Auth {
    /// In a header of its own.
    #[default]
    #[serde(rename = "x-api-key")]
    Key,
    /// As a bearer token.
    #[serde(rename = "bearer")]
    Bearer,
}

/// The config, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the model.
    pub model: String,
    /// Where requests go.
    pub url: String,
    /// Name of the secret; none for no key.
    pub api_key: Option<String>,
    /// How it is sent.
    pub auth: Auth,
    /// Whether streaming is asked for (`model_kwargs` may say so too).
    pub stream: bool,
    /// Further parameters.
    pub params: Params,
    /// Further headers, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Config {
    /// Reads the config.
    ///
    /// # Errors
    /// `invalid-config` with the pointer of what does not fit.
    pub fn new(config: Value) -> Result<Self, PluginError> {
        let written: Written =
            serde_json::from_value(config).map_err(|error| invalid("", error.to_string()))?;
        if written.model.trim().is_empty() {
            return Err(invalid(
                "/model",
                "`model.model_name` is empty; name a model",
            ));
        }
        let api_key = written.api_key.filter(|name| !name.is_empty());
        if let Some(name) = &api_key {
            // The value is not repeated: whoever got this wrong has pasted a key here.
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !name.starts_with(|c: char| c.is_ascii_digit());
            if !is_name {
                return Err(invalid(
                    "/api_key",
                    "`model.api_key_env` is not the name of a secret (letters, digits and `_`); put the \
                     key itself into the environment or the secrets file and its name here, or \
                     null for a server that wants none",
                ));
            }
        }
        for (key, remedy) in MISPLACED {
            if written.model_kwargs.contains_key(key) {
                return Err(invalid(
                    &format!("/model_kwargs/{key}"),
                    format!(
                        "`model.model_kwargs.{key}` would be sent to the server as it is; {remedy}"
                    ),
                ));
            }
        }
        let mut kwargs = written.model_kwargs;
        let stream = match kwargs.shift_remove("stream") {
            None | Some(Value::Null) => written.stream,
            Some(value) => value.as_bool().unwrap_or(false),
        };
        let traits = models::traits(&written.model);
        let mut params = Params::new(kwargs, traits, written.max_output_tokens)?;
        let mut own = headers("/model_kwargs/extra_headers", &params.headers)?;
        params.headers.clear();
        for (name, value) in headers("/headers", &written.headers)? {
            own.retain(|(known, _)| *known != name);
            own.push((name, value));
        }
        Ok(Self {
            url: endpoint(&written.base_url)?,
            model: written.model,
            api_key,
            auth: written.auth,
            stream,
            headers: own,
            params,
        })
    }

    /// Host (and port) of the URL, for messages.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or(rest)
    }
}

/// The URL of the endpoint below a base URL, which may end in a slash or in `/v1`, carry a query
/// or be the endpoint already.
fn endpoint(base_url: &str) -> Result<String, PluginError> {
    let base = base_url.trim();
    let (path, query) = match base.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (base, None),
    };
    let [version, messages] = ENDPOINT;
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(messages).unwrap_or(path);
    let path = path.strip_suffix(version).unwrap_or(path);
    let has_host = ["http://", "https://"].iter().any(|scheme| {
        path.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && path.len() > scheme.len()
    });
    if !has_host || path.contains(char::is_whitespace) {
        return Err(invalid(
            "/base_url",
            format!(
                "`model.base_url` is no absolute URL: `{base}`; write it with its scheme, for example \
                 `https://api.anthropic.com`"
            ),
        ));
    }
    let mut url = format!("{path}{version}{messages}");
    if let Some(query) = query {
        url.push('?');
        url.push_str(query);
    }
    Ok(url)
}

fn headers(
    pointer: &str,
    written: &Map<String, Value>,
) -> Result<Vec<(String, String)>, PluginError> {
    let mut headers = Vec::with_capacity(written.len());
    for (name, value) in written {
        match value {
            Value::String(value) => headers.push((name.to_ascii_lowercase(), value.clone())),
            _ => {
                let key = name.replace('~', "~0").replace('/', "~1");
                return Err(invalid(
                    &format!("{pointer}/{key}"),
                    format!("header `{name}` is not a string; quote its value"),
                ));
            }
        }
    }
    Ok(headers)
}

fn invalid(pointer: &str, message: impl Into<String>) -> PluginError {
    PluginError::invalid_config(message).at(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_schema_is_json_and_its_defaults_are_the_ones_in_force() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        let mut config = Map::new();
        for (key, property) in properties {
            if let Some(default) = property.get("default") {
                config.insert(key.clone(), default.clone());
            }
        }
        config.insert("model".to_owned(), json!("m"));
        let full = Config::new(Value::Object(config)).unwrap();
        let short = Config::new(json!({"model": "m"})).unwrap();
        assert_eq!(format!("{full:?}"), format!("{short:?}"));
        assert_eq!(short.url, "https://api.anthropic.com/v1/messages");
        assert_eq!(short.api_key.as_deref(), Some("ANTHROPIC_API_KEY"));
        assert_eq!(short.host(), "api.anthropic.com");
    }

    #[test]
    fn base_urls_become_endpoints() {
        for (base, url) in [
            ("http://h", "http://h/v1/messages"),
            ("http://h:1/", "http://h:1/v1/messages"),
            ("http://h/v1", "http://h/v1/messages"),
            ("http://h/v1/messages/", "http://h/v1/messages"),
            (" https://h/anthropic ", "https://h/anthropic/v1/messages"),
            ("https://h/d?a=1", "https://h/d/v1/messages?a=1"),
        ] {
            assert_eq!(endpoint(base).unwrap(), url, "{base}");
        }
        for base in ["", "h/v1", "ftp://h", "http://", "http:///v1", "http://a b"] {
            let error = endpoint(base).unwrap_err();
            assert!(error.message.contains("https://api.anthropic"), "{base}");
        }
    }

    #[test]
    fn headers_come_from_both_places() {
        let config = Config::new(json!({
            "model": "m",
            "api_key": "",
            "headers": {"Anthropic-Beta": "x"},
            "model_kwargs": {"extra_headers": {"anthropic-beta": "y", "a": "b"}, "stream": false},
        }))
        .unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            config.headers,
            [pair("a", "b"), pair("anthropic-beta", "x")]
        );
        assert!(!config.stream);
        assert_eq!(config.api_key, None);
        assert_eq!(config.auth, Auth::Key);
    }

    #[test]
    fn bad_configs_name_the_key_and_never_repeat_a_pasted_secret() {
        for (config, pointer, word) in [
            (json!({}), "", "model"),
            (json!({"model": " "}), "/model", "model"),
            (json!({"model": "m", "nope": 1}), "", "nope"),
            (json!({"model": "m", "auth": "basic"}), "", "basic"),
            (json!({"model": "m", "base_url": "x"}), "/base_url", "`x`"),
            (
                json!({"model": "m", "api_key": "sk-secret"}),
                "/api_key",
                "secret",
            ),
            (
                json!({"model": "m", "headers": {"a/b": 1}}),
                "/headers/a~1b",
                "`a/b`",
            ),
            (
                json!({"model": "m", "model_kwargs": {"extra_headers": {"a": 1}}}),
                "/model_kwargs/extra_headers/a",
                "`a`",
            ),
            (
                json!({"model": "m", "model_kwargs": {"extra_body": 1}}),
                "/model_kwargs/extra_body",
                "extra_body",
            ),
            (
                json!({"model": "m", "model_kwargs": {"api_base": "http://x"}}),
                "/model_kwargs/api_base",
                "`model.base_url`",
            ),
            (
                json!({"model": "m", "model_kwargs": {"api_key": "sk-secret"}}),
                "/model_kwargs/api_key",
                "`model.api_key_env`",
            ),
        ] {
            let error = Config::new(config.clone()).unwrap_err();
            assert_eq!(error.code, "invalid-config");
            assert!(error.message.contains(word), "{config}: {}", error.message);
            assert!(!error.message.contains("sk-secret"));
            let extra: Value = serde_json::from_str(&error.extra.unwrap()).unwrap();
            assert_eq!(extra["pointer"], pointer, "{config}");
        }
    }
}
