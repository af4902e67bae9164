//! What litellm takes out of `model_kwargs` for itself, in files written for mini-swe-agent:
//! it never reaches the server there and must not here. The config keeps it as it was written:
//! templates and trajectories show it. A key is the exception: it is taken out as soon as its layer
//! is read.

use std::fmt;

use serde_json::{Map, Value};

use super::error::{Kind, Problem};
use super::layers::Layers;
use super::node::{Content, Node};
use super::origin::Origin;
use super::providers;
use super::redact;
use super::sections::{Config, ModelConfig};

/// How litellm says that a key stands in an environment variable.
const VARIABLE: &str = "os.environ/";

/// The name of the secret that a key in `model_kwargs` becomes.
pub const GIVEN_KEY: &str = "MODEL_KWARGS_API_KEY";

/// Where such a key stands.
const KEY: [&str; 3] = ["model", "model_kwargs", "api_key"];

/// A key that a file of mini-swe-agent holds. `Debug` hides it and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenKey {
    text: String,
    origin: Origin,
}

impl GivenKey {
    /// The key, for the host's secrets.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// What its owner should know.
    #[must_use]
    pub fn warning(&self) -> String {
        let readers = match self.origin {
            Origin::File { .. } => "the model's commands can read that file",
            _ => "every process of this machine sees the command line",
        };
        format!(
            "`model.model_kwargs.api_key` ({}) holds a key: it is sent and not written down \
             anywhere, but {readers}; put it into an environment variable or \
             `model.secrets_file`, and its name into `model.api_key_env`",
            self.origin
        )
    }
}

impl fmt::Debug for GivenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenKey")
            .field("origin", &self.origin.to_string())
            .finish_non_exhaustive()
    }
}

/// What a layer does to the key in `model_kwargs`.
pub(super) enum KeyChange {
    /// It says nothing of it.
    None,
    /// There is none any more, or one by its name, or one that is refused.
    Gone,
    /// The layer held this one, and holds it no longer.
    Taken(GivenKey),
}

/// Takes a key out of a layer, if the layer may hold one: only `mini`-swe-agent's may.
pub(super) fn take_key(layer: &mut Node, mini: bool) -> KeyChange {
    let origin = layer.origin_of(&KEY).cloned();
    let (Some(node), Some(origin)) = (layer.get_mut(&KEY), origin) else {
        return KeyChange::None;
    };
    let text = match &node.content {
        Content::Scalar(Value::String(text)) => text.trim().to_owned(),
        Content::Scalar(Value::Number(number)) => number.to_string(),
        _ => return KeyChange::Gone,
    };
    if !mini || text.is_empty() || text.starts_with(VARIABLE) {
        return KeyChange::Gone;
    }
    node.content = Content::Scalar(redact::MARK.into());
    KeyChange::Taken(GivenKey { text, origin })
}

/// Parameters of litellm and of the client below it; servers reject them.
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

/// Those of them that have been taken for something else; the built-in adapters know the rest,
/// and say what becomes of it.
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

/// The provider that `custom_llm_provider` names, if it does.
pub(super) fn custom_provider(kwargs: &Map<String, Value>) -> Option<&str> {
    let custom = kwargs.get("custom_llm_provider")?.as_str()?.trim();
    (!custom.is_empty()).then_some(custom)
}

/// The file of certificates to trust that `ssl_verify` names, if it names one.
#[must_use]
pub fn trusted_certificates(kwargs: &Map<String, Value>) -> Option<&str> {
    let text = kwargs.get("ssl_verify")?.as_str()?;
    let is_word = ["true", "false"].map(|word| text.eq_ignore_ascii_case(word));
    (!text.is_empty() && is_word == [false, false]).then_some(text)
}

/// What `ssl_verify` asks for and does not get.
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

/// Takes from `model_kwargs` what has a key of its own; what is set there already wins.
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
    /// The account at OpenAI that pays, which its client sends as a header.
    pub organization: Option<String>,
}

impl WireKwargs {
    /// Sorts the parameters of `config` out. An adapter that is `native` gets the switches that
    /// say what it may leave out of a request, too.
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
        // litellm keeps it for its own logs.
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
        let headers = object("headers")
            .chain(object("extra_headers"))
            .map(|(name, value)| (name.clone(), words(value)))
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

/// What in `model_kwargs` logs somebody in: it would travel through a plugin and in the request's
/// body, and what it is for is not done here.
pub(super) fn credentials(layers: &Layers) -> Vec<Problem> {
    let path = ["model", "model_kwargs"];
    let Some(Value::Object(kwargs)) = layers.merged.get(&path).map(Node::to_value) else {
        return Vec::new();
    };
    let problems = kwargs.iter().filter_map(|(name, value)| {
        let dotted = format!("model.model_kwargs.{name}");
        let (message, hint) = if name == "api_key" {
            let text = value.as_str()?;
            if text.is_empty() || text.starts_with(VARIABLE) || layers.given_key.is_some() {
                return None;
            }
            let hint = "put the key into an environment variable or `model.secrets_file`, and its \
                        name into `model.api_key_env`";
            (
                format!("`{dotted}` holds a key, not the name of one"),
                hint.to_owned(),
            )
        } else {
            let hint = login(name).filter(|_| !value.is_null())?;
            (
                format!("`{dotted}` is for a login of litellm's, which is not done here"),
                hint.to_owned(),
            )
        };
        let problem = Problem::new(Kind::WrongValue, message)
            .key(dotted)
            .hint(hint);
        // Only the place: the line itself would show the key.
        Some(
            match layers.merged.origin_of(&[path[0], path[1], name.as_str()]) {
                Some(origin) => problem.place(origin),
                None => problem,
            },
        )
    });
    problems.collect()
}

/// What to do in place of a login; none for a parameter that is none.
fn login(name: &str) -> Option<&'static str> {
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    match name {
        _ if begins(&["aws_"]) => providers::without_adapter("bedrock"),
        _ if begins(&["vertex_"]) => providers::without_adapter("vertex_ai"),
        _ if begins(&["watsonx_", "wx_"]) => providers::without_adapter("watsonx"),
        "azure_ad_token" => Some(
            "put the token into an environment variable or `model.secrets_file`, its name into \
             `model.api_key_env`, and have it sent as a bearer token: `-c \
             plugins.openai.config.auth_header=authorization`",
        ),
        "tenant_id" | "client_id" | "client_secret" => Some(AZURE),
        _ if begins(&["azure_"]) => Some(AZURE),
        _ => None,
    }
}

const AZURE: &str = "get a token outside (`az account get-access-token`), put it into an \
                     environment variable, its name into `model.api_key_env`, and have it sent as \
                     a bearer token: `-c plugins.openai.config.auth_header=authorization`; or use \
                     the resource's own key";

#[cfg(test)]
mod tests;
