//! The address of requests, and their headers and parameters: the part of the config that all
//! adapters have.

use mswea_sdk::Descriptor;
use mswea_sdk::adapter::{Header, HttpRequest};
use mswea_sdk::types::PluginError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::config::{Table, invalid};
use crate::params::{Foreign, Report, take_foreign};

/// The defaults of an adapter.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// The API's base URL.
    pub base_url: &'static str,
    /// The path after it; `{model}` is the model's name.
    pub path: &'static str,
    /// The path of a stream, if it differs.
    pub stream_path: Option<&'static str>,
    /// The name of the secret.
    pub api_key: &'static str,
    /// The header of the secret.
    pub auth_header: &'static str,
}

impl Defaults {
    /// The adapter's descriptor, with the secret and the host of its defaults; `own` are its own
    /// properties of the config, each with a comma after it.
    pub fn describe(&self, name: &str, version: &str, summary: &str, own: &str) -> Descriptor {
        let mut descriptor = Descriptor::new(name, version, summary)
            .secret(self.api_key)
            .host(host_of(self.base_url));
        descriptor.config_schema = schema(self, own);
        descriptor
    }
}

/// Keys of `model_kwargs` that are settings of the client in other systems. If they were sent to a
/// server, they would have no effect, or a secret would be recorded while the request goes to
/// another address. Those that end in `_` are prefixes.
const MISPLACED: [(&str, &str); 11] = [
    (
        "api_key",
        "put the key into the environment and its name into `model.api_key_env`",
    ),
    ("api_base", "set `model.base_url` instead"),
    ("base_url", "set `model.base_url` instead"),
    (
        "organization",
        "write it as the header `openai-organization` into `extra_headers`",
    ),
    (
        "azure_",
        "put a token or a key into the environment and its name into `model.api_key_env`",
    ),
    ("tenant_id", NO_LOGIN),
    ("client_id", NO_LOGIN),
    ("client_secret", NO_LOGIN),
    ("aws_", "requests are not signed here; go through a gateway"),
    (
        "vertex_",
        "there is no login at Google Cloud here; go through a gateway",
    ),
    ("watsonx_", NO_LOGIN),
];

const NO_LOGIN: &str = "there is no such login here; remove it";

/// The remedy for a key that is not a parameter.
fn misplaced(key: &str) -> Option<&'static str> {
    let is_it = |name: &str| key == name || name.ends_with('_') && key.starts_with(name);
    let found = MISPLACED.iter().find(|(name, _)| is_it(name));
    found.map(|(_, remedy)| *remedy)
}

const AUTHORIZATION: &str = "authorization";

/// The config, checked.
#[derive(Clone, Debug)]
pub struct Server {
    /// Name of the model.
    pub model: String,
    /// The URL of requests.
    pub url: String,
    /// Name of the secret; none: no key is sent.
    pub api_key: Option<String>,
    /// The header of the secret, in lower case.
    pub auth_header: String,
    /// The text before the secret in the header.
    pub auth_prefix: String,
    /// Further headers that hold secrets: header, name of the secret.
    pub secret_headers: Vec<(String, String)>,
    /// Whether streaming is requested (`model_kwargs` may set it too).
    pub stream: bool,
    /// Whether messages of the user that follow one another are sent as one.
    pub merge_user_messages: bool,
    /// Further keys of the body.
    pub model_kwargs: Map<String, Value>,
    /// Whether parameters that the model does not accept are left out.
    pub drop_params: bool,
    /// Keys of `model_kwargs.extra_body`, which are always sent.
    pub extra_body: Map<String, Value>,
    /// Further headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The parameters that are not sent as they were written.
    pub report: Report,
}

/// JSON Schema of the config, with `@` in place of the defaults.
const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["model"],
  "properties": {@own
    "model": {
      "type": "string",
      "minLength": 1,
      "description": "Name of the model, as the server spells it."
    },
    "base_url": {
      "type": "string",
      "minLength": 1,
      "default": "@base_url",
      "description": "The base URL of the server's API; `path` is added to it. `{model}` in it is the model's name."
    },
    "path": {
      "type": "string",
      "description": "The path after the base URL, by default `@path`. `{model}` in it is the model's name."
    },
    "query": {
      "type": "object",
      "additionalProperties": { "type": "string" },
      "default": {},
      "description": "Query parameters of the URL, for example Azure's `api-version`."
    },
    "api_key": {
      "type": ["string", "null"],
      "default": "@api_key",
      "description": "NAME of the secret (never the key itself); null (or an empty text, as TOML has no null) for servers that need none."
    },
    "auth_header": {
      "type": "string",
      "minLength": 1,
      "default": "@auth_header",
      "description": "The header that the secret is sent in: `authorization` (as a bearer token), `api-key`, `x-api-key`, ..."
    },
    "auth_prefix": {
      "type": ["string", "null"],
      "description": "The text before the secret in its header; by default `Bearer ` in `authorization`, nothing in others."
    },
    "secret_headers": {
      "type": "object",
      "additionalProperties": { "type": "string" },
      "default": {},
      "description": "Further headers that hold secrets: header = NAME of the secret, for example `x-portkey-virtual-key`."
    },
    "stream": {
      "type": "boolean",
      "default": true,
      "description": "Ask for the answer piece by piece, so that it can be shown as it arrives."
    },
    "merge_user_messages": {
      "type": "boolean",
      "default": false,
      "description": "Send messages of the user that follow one another as one. Done in any case once the server has said that it wants alternating roles."
    },
    "model_kwargs": {
      "type": "object",
      "default": {},
      "description": "Further parameters of the model (`temperature`, ...). `extra_headers`, `extra_query` and `extra_body` are understood."
    },
    "headers": {
      "type": "object",
      "additionalProperties": { "type": "string" },
      "default": {},
      "description": "Further plain headers. No keys here: they would be recorded."
    }
  }
}"#;

/// JSON Schema of the config: the `own` properties, and those of all adapters.
fn schema(defaults: &Defaults, own: &str) -> String {
    SCHEMA
        .replace("@own", own)
        .replace("@base_url", defaults.base_url)
        .replace("@path", defaults.path)
        .replace("@api_key", defaults.api_key)
        .replace("@auth_header", defaults.auth_header)
}

impl Server {
    /// Takes the common keys.
    ///
    /// # Errors
    /// `invalid-config` with the pointer to the wrong value.
    pub fn take(table: &mut Table, defaults: &Defaults) -> Result<Self, PluginError> {
        let model: String = table.take("model")?.unwrap_or_default();
        if model.trim().is_empty() {
            return Err(invalid(
                "/model",
                "`model.model_name` is empty; name a model",
            ));
        }
        let api_key = match table.take::<Option<String>>("api_key")? {
            None => Some(defaults.api_key.to_owned()),
            Some(name) => name.filter(|name| !name.is_empty()),
        };
        if let Some(name) = &api_key {
            // The value is not quoted: the usual mistake is to paste a key here.
            check_secret(name, "/api_key", "`model.api_key_env`")?;
        }
        let secret_headers = lower(table.take_texts("secret_headers")?);
        for (header, name) in &secret_headers {
            let pointer = format!("/secret_headers/{header}");
            check_secret(name, &pointer, &format!("`secret_headers.{header}`"))?;
        }
        let auth_header: String = table
            .take("auth_header")?
            .unwrap_or_else(|| defaults.auth_header.to_owned());
        let auth_header = auth_header.to_ascii_lowercase();
        let auth_prefix = table.take::<Option<String>>("auth_prefix")?.flatten();
        let auth_prefix = auth_prefix.unwrap_or_else(|| {
            let is_bearer = auth_header == AUTHORIZATION;
            if is_bearer { "Bearer " } else { "" }.to_owned()
        });
        let mut report = Report::default();
        let mut model_kwargs: Map<String, Value> = table.take("model_kwargs")?.unwrap_or_default();
        model_kwargs.retain(|key, value| !value.is_null() || misplaced(key).is_none());
        for key in model_kwargs.keys() {
            if let Some(remedy) = misplaced(key) {
                return Err(invalid(
                    &format!("/model_kwargs/{key}"),
                    format!(
                        "`model.model_kwargs.{key}` would be sent to the server as it is; {remedy}"
                    ),
                ));
            }
        }
        let Foreign {
            headers: foreign_headers,
            query: foreign_query,
            body: extra_body,
            drop_params,
        } = take_foreign(&mut model_kwargs, &mut report)?;
        let own_stream = table.take("stream")?.unwrap_or(true);
        let stream = match model_kwargs.get("stream") {
            None | Some(Value::Null) => own_stream,
            Some(value) => value.as_bool().unwrap_or(false),
        };
        let path = table.take::<String>("path")?;
        let default_path = match defaults.stream_path {
            Some(path) if stream => path,
            _ => defaults.path,
        };
        let mut query = table.take_texts("query")?;
        query.extend(foreign_query);
        let base_url: String = table
            .take("base_url")?
            .unwrap_or_else(|| defaults.base_url.to_owned());
        let mut headers = lower(table.take_texts("headers")?);
        for (name, value) in foreign_headers {
            if headers.iter().all(|(known, _)| *known != name) {
                headers.push((name, value));
            }
        }
        Ok(Self {
            url: endpoint(
                &base_url,
                path.as_deref().unwrap_or(default_path),
                &query,
                &model,
            )?,
            model,
            api_key,
            auth_header,
            auth_prefix,
            secret_headers,
            stream,
            merge_user_messages: table.take("merge_user_messages")?.unwrap_or(false),
            model_kwargs,
            drop_params,
            extra_body,
            headers,
            report,
        })
    }

    /// Host (and port) of the URL, for messages.
    pub fn host(&self) -> &str {
        host_of(&self.url)
    }

    /// A request with this body. A configured header replaces the adapter's header of the same
    /// name.
    pub fn request(&self, body: Vec<u8>) -> HttpRequest {
        let mut http = HttpRequest::new("POST", &self.url).body(body);
        let is_replaced = |name: &str| self.headers.iter().any(|(own, _)| own == name);
        for name in ["content-type", "accept"] {
            if !is_replaced(name) {
                http = http.header(Header::plain(name, "application/json"));
            }
        }
        if let Some(secret) = &self.api_key
            && !is_replaced(&self.auth_header)
        {
            http = http.header(Header::secret(&self.auth_header, &self.auth_prefix, secret));
        }
        for (name, secret) in &self.secret_headers {
            if !is_replaced(name) {
                http = http.header(Header::secret(name, "", secret));
            }
        }
        for (name, value) in &self.headers {
            http = http.header(Header::plain(name, value));
        }
        http
    }
}

fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

fn check_secret(name: &str, pointer: &str, key: &str) -> Result<(), PluginError> {
    let is_name = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_name {
        return Ok(());
    }
    Err(invalid(
        pointer,
        format!(
            "{key} is not the name of a secret (letters, digits and `_`); put the key itself into \
             the environment or the secrets file and its name here, or null for a server that \
             wants none"
        ),
    ))
}

fn lower(pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect()
}

/// The URL below a base URL, which may end in a slash, have a query or be the endpoint already. A
/// version in both of them is used once.
fn endpoint(
    base_url: &str,
    path: &str,
    query: &[(String, String)],
    model: &str,
) -> Result<String, PluginError> {
    let model = escape(model);
    let base = base_url.trim().replace("{model}", &model);
    let path = path.replace("{model}", &model);
    let (path, own_query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*path, None),
    };
    let (base, base_query) = match base.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (&*base, None),
    };
    let base = base.trim_end_matches('/');
    let version = path.rfind('/').map_or("", |at| &path[..at]);
    let is_version = version
        .strip_prefix("/v")
        .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
    let base = match (base.strip_suffix(path), base.strip_suffix(version)) {
        (Some(start), _) if !path.is_empty() => start,
        (_, Some(start)) if is_version => start,
        _ => base,
    };
    let has_host = ["http://", "https://"].iter().any(|scheme| {
        base.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && base.len() > scheme.len()
    });
    if !has_host || base.contains(char::is_whitespace) {
        return Err(invalid(
            "/base_url",
            format!(
                "`model.base_url` is not an absolute URL: `{base_url}`; write it with its scheme, for \
                 example `http://127.0.0.1:8000/v1`"
            ),
        ));
    }
    let slash = match path.is_empty() || path.starts_with(['/', ':']) {
        true => "",
        false => "/",
    };
    let mut url = format!("{base}{slash}{path}");
    let given = [own_query, base_query].into_iter().flatten();
    let named = query
        .iter()
        .map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    let all: Vec<String> = given.map(str::to_owned).chain(named).collect();
    if !all.is_empty() {
        url.push('?');
        url.push_str(&all.join("&"));
    }
    Ok(url)
}

/// Characters of a model's name that are escaped in a URL. Slashes and colons stay: they are parts
/// of models' names, and have no meaning in a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@');

fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
