//! What litellm takes out of `model_kwargs` for itself, in files written for mini-swe-agent:
//! it never reaches the server there and must not here. The config keeps it as it was written:
//! templates and trajectories show it.

use serde_json::{Map, Value};

use super::error::{Kind, Problem};
use super::layers::Layers;
use super::sections::{Config, ModelConfig};

/// How litellm says that a key stands in an environment variable.
const VARIABLE: &str = "os.environ/";

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
    "output_cost_per_token",
    "request_timeout",
    "timeout",
];

/// Those of them that have been taken for something else; the built-in adapters know the rest,
/// and say what becomes of it.
const TAKEN: [&str; 6] = [
    "api_base",
    "api_key",
    "base_url",
    "extra_body",
    "extra_headers",
    "headers",
];

/// Takes from `model_kwargs` what has a key of its own; what is set there already wins.
pub(super) fn translate(model: &mut ModelConfig) {
    let kwargs = &model.model_kwargs;
    let text = |name: &str| kwargs.get(name).and_then(Value::as_str);
    let base_url = text("api_base").or_else(|| text("base_url"));
    let key = text("api_key").and_then(|key| key.strip_prefix(VARIABLE));
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
            .map(|(name, value)| {
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                (name.clone(), value)
            })
            .collect();
        Self {
            parameters,
            headers,
        }
    }
}

/// A key in `model_kwargs` would travel through a plugin and in the request's body.
pub(super) fn bare_key(layers: &Layers) -> Option<Problem> {
    let path = ["model", "model_kwargs", "api_key"];
    let value = layers.merged.get(&path)?.to_value();
    let text = value.as_str()?;
    if text.starts_with(VARIABLE) {
        return None;
    }
    let dotted = path.join(".");
    let problem = Problem::new(
        Kind::WrongValue,
        format!("`{dotted}` holds a key, not the name of one"),
    )
    .key(dotted)
    .hint(
        "put the key into an environment variable or `model.secrets_file`, and its name \
             into `model.api_key_env`",
    );
    // Only the place: the line itself would show the key.
    Some(match layers.merged.origin_of(&path) {
        Some(origin) => problem.place(origin),
        None => problem,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Memory;
    use super::*;

    #[test]
    fn litellm_s_own_parameters_go_where_they_belong() {
        let env = Memory::new();
        let kwargs = json!({
            "api_base": "http://h/v1", "api_key": "os.environ/K", "drop_params": true,
            "custom_llm_provider": "openai", "top_p": 1, "timeout": 5, "top_k": 3,
            "extra_body": {"top_k": 5, "nested": {"a": 1}}, "extra_headers": {"X-A": 1, "X-B": "b"},
            "additional_drop_params": ["seed"], "seed": 1, "metadata": {},
        });
        let config = env
            .resolve(&[&format!("model.model_kwargs={kwargs}")])
            .unwrap();
        assert_eq!(Value::Object(config.model.model_kwargs.clone()), kwargs);
        assert_eq!(config.model.base_url.as_deref(), Some("http://h/v1"));
        assert_eq!(config.model.api_key_env.as_deref(), Some("K"));
        let wire = WireKwargs::of(&config, false);
        assert_eq!(
            Value::Object(wire.parameters),
            json!({"top_p": 1, "top_k": 5, "metadata": {}, "nested": {"a": 1}})
        );
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(wire.headers, [header("X-A", "1"), header("X-B", "b")]);
        let native = WireKwargs::of(&config, true).parameters;
        assert_eq!(native["drop_params"], true);
        let mini = Config {
            mini: true,
            ..config
        };
        assert!(
            !WireKwargs::of(&mini, true)
                .parameters
                .contains_key("metadata")
        );
        let explicit = env
            .resolve(&[
                "model.model_kwargs.api_base=http://h/v1",
                "model.base_url=http://own",
            ])
            .unwrap();
        assert_eq!(explicit.model.base_url.as_deref(), Some("http://own"));
    }

    #[test]
    fn a_key_in_the_config_is_refused_and_not_shown() {
        let env = Memory::new().file(
            "/work/k.toml",
            "[model.model_kwargs]\napi_key = \"sk-123\"\n",
        );
        for (configs, place) in [
            (&["k.toml"][..], "k.toml:2"),
            (
                &["model.model_kwargs.api_key=sk-123"],
                "-c model.model_kwargs.api_key=[redacted]",
            ),
        ] {
            let text = env.resolve(configs).unwrap_err().to_string();
            assert!(
                text.contains(place) && text.contains("model.api_key_env"),
                "{text}"
            );
            assert!(!text.contains("sk-123"), "{text}");
        }
    }
}
