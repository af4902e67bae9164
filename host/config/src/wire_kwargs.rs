//! `model_kwargs` as an adapter gets them. litellm does not send its own parameters to the server, so
//! this host must not either.

use serde_json::{Map, Value};

use super::model_choice::ModelChoice;
use super::sections::Config;
use super::{provider_params, providers};

/// Parameters of litellm and of its HTTP client, which servers reject.
const OWN: &[&str] = &[
    "additional_drop_params",
    "allowed_openai_params",
    "api_base",
    "api_key",
    "base_url",
    "cache_creation_input_token_cost",
    "cache_read_input_token_cost",
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
const TAKEN: [&str; 17] = [
    "api_base",
    "api_key",
    "base_url",
    "cache_creation_input_token_cost",
    "cache_read_input_token_cost",
    "custom_llm_provider",
    "extra_body",
    "extra_headers",
    "headers",
    "input_cost_per_token",
    "organization",
    "output_cost_per_token",
    "request_timeout",
    "ssl_verify",
    "stream_timeout",
    "timeout",
    "verbose",
];

/// `model_kwargs` as an adapter gets them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireKwargs {
    /// Parameters of the request.
    pub parameters: Map<String, Value>,
    /// Headers of the request.
    pub headers: Vec<(String, String)>,
    /// The OpenAI organization that is billed, which OpenAI's client sends as a header.
    pub organization: Option<String>,
    /// What is not sent as it was written, for the user.
    pub notes: Vec<String>,
}

impl WireKwargs {
    /// Sorts the parameters of `config` for the chosen model. A `native` adapter also gets the
    /// parameters that control what it leaves out of a request, and `extra_body` by itself.
    #[must_use]
    pub fn of(config: &Config, choice: &ModelChoice, native: bool) -> Self {
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
        let is_responses = choice.adapter == "openai_responses" || choice.api.is_some();
        // A part of the address, which then has it already.
        let is_in_address = |name: &str| {
            let address = choice.base_url.as_deref().unwrap_or_default();
            name == "api_version" && address.contains("api-version=")
        };
        let is_own = |name: &str| {
            OWN.contains(&name) && (!native || TAKEN.contains(&name))
                // litellm uses it for its own logs only, except for Responses.
                || config.mini && name == "metadata" && !is_responses
                || is_in_address(name)
        };
        let sent = given
            .iter()
            .filter(|(name, _)| !is_own(name) && !dropped.contains(&name.as_str()));
        let mut parameters: Map<String, Value> = sent
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        // As in litellm, which puts parameters that are not OpenAI's into `extra_body` itself.
        let extra = object("extra_body");
        let extra: Map<String, Value> = extra
            .filter(|(name, _)| {
                provider_params::is_openais(name) || !parameters.contains_key(*name)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut notes = Vec::new();
        if !is_responses && choice.adapter == "openai" {
            let drops = given.get("drop_params") == Some(&Value::Bool(true));
            let provider = providers::canonical(&choice.prefix);
            notes = provider_params::fit(provider, &choice.model, drops, &mut parameters);
        }
        match native {
            true if !extra.is_empty() => {
                parameters.insert("extra_body".to_owned(), extra.into());
            }
            true => {}
            false => parameters.extend(extra),
        }
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
            notes,
        }
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
