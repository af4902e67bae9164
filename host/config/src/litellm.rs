//! Parameters in `model_kwargs` of mini-swe-agent's files that litellm handles itself: litellm does
//! not send them to the server, so this host must not either. The config keeps them as they were
//! written, for templates and trajectories. A key is the exception: it is removed as soon as its
//! layer is read.

use serde_json::{Map, Value};

use super::given_key::{GIVEN_KEY, VARIABLE};
use super::sections::{Config, ModelConfig};

/// Parameters of litellm and of its HTTP client, which servers reject.
const OWN: &[&str] = &[
    "additional_drop_params",
    "allowed_openai_params",
    "api_base",
    "api_key",
    "base_url",
    "caching",
    "custom_llm_provider",
    "drop_params",
    "extra_body",
    "extra_headers",
    "fallbacks",
    "headers",
    "input_cost_per_token",
    "max_retries",
    "mock_response",
    "model_info",
    "num_retries",
    "organization",
    "output_cost_per_token",
    "request_timeout",
    "ssl_verify",
    "stream_timeout",
    "timeout",
    "verbose",
];

/// The parameters in [`OWN`] that this host translates into settings of its own. The built-in
/// adapters know the others, and log which ones they drop.
const TAKEN: [&str; 13] = [
    "api_base",
    "api_key",
    "base_url",
    "custom_llm_provider",
    "extra_body",
    "extra_headers",
    "headers",
    "organization",
    "request_timeout",
    "ssl_verify",
    "stream_timeout",
    "timeout",
    "verbose",
];

/// The provider that `custom_llm_provider` names, if it is set.
pub(super) fn custom_provider(kwargs: &Map<String, Value>) -> Option<&str> {
    let custom = kwargs.get("custom_llm_provider")?.as_str()?.trim();
    (!custom.is_empty()).then_some(custom)
}

/// The file of trusted certificates that `ssl_verify` names, if it names one.
#[must_use]
pub fn trusted_certificates(kwargs: &Map<String, Value>) -> Option<&str> {
    let text = kwargs.get("ssl_verify")?.as_str()?;
    let is_word = ["true", "false"].map(|word| text.eq_ignore_ascii_case(word));
    (!text.is_empty() && is_word == [false, false]).then_some(text)
}

/// The warning for an `ssl_verify` that would switch off the check of certificates, which is not
/// done.
pub(super) fn unverified(kwargs: &Map<String, Value>) -> Option<String> {
    let wish = kwargs.get("ssl_verify")?;
    let is_off = *wish == false
        || wish
            .as_str()
            .is_some_and(|text| text.eq_ignore_ascii_case("false"));
    is_off.then(|| {
        "`model.model_kwargs.ssl_verify` = false has no effect: a server's certificate is always \
         checked; for one that no public authority has signed, write the file of the certificates \
         to trust there, or into `SSL_CERT_FILE`"
            .to_owned()
    })
}

/// Moves parameters of `model_kwargs` that have a key of their own to that key, unless the key is
/// set.
pub(super) fn translate(model: &mut ModelConfig, key_is_given: bool) {
    let kwargs = &model.model_kwargs;
    let text = |name: &str| {
        let text = kwargs.get(name).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
    };
    let base_url = text("api_base").or_else(|| text("base_url"));
    let named = text("api_key").and_then(|key| key.strip_prefix(VARIABLE));
    let key = named.or(key_is_given.then_some(GIVEN_KEY));
    let (base_url, key) = (base_url.map(str::to_owned), key.map(str::to_owned));
    model.base_url = model.base_url.take().or(base_url);
    model.api_key_env = model.api_key_env.take().or(key);
}

/// `model_kwargs` as an adapter gets them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireKwargs {
    /// Parameters of the request.
    pub parameters: Map<String, Value>,
    /// Headers of the request.
    pub headers: Vec<(String, String)>,
    /// The OpenAI organization that is billed, which OpenAI's client sends as a header.
    pub organization: Option<String>,
}

impl WireKwargs {
    /// Sorts the parameters of `config`. A `native` adapter also gets the parameters that control
    /// what it leaves out of a request.
    #[must_use]
    pub fn of(config: &Config, native: bool) -> Self {
        let given = &config.model.model_kwargs;
        let object = |name: &str| {
            given
                .get(name)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
        };
        let dropped: Vec<&str> = match given.get("additional_drop_params") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        // litellm uses it for its own logs only.
        let is_own = |name: &str| {
            OWN.contains(&name) && (!native || TAKEN.contains(&name))
                || config.mini && name == "metadata"
        };
        let parameters = given
            .iter()
            .filter(|(name, _)| !is_own(name) && !dropped.contains(&name.as_str()))
            .chain(object("extra_body"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let session = &config.model.session_header;
        let is_set_anew = |name: &str| session.keys().any(|it| it.eq_ignore_ascii_case(name));
        let headers = object("headers")
            .chain(object("extra_headers"))
            .filter(|(name, _)| !is_set_anew(name))
            .map(|(name, value)| (name.clone(), words(value)))
            .chain(session.clone())
            .collect();
        let organization = given.get("organization").filter(|name| !name.is_null());
        Self {
            parameters,
            headers,
            organization: organization.map(words),
        }
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
