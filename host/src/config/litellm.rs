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
            "additional_drop_params": ["seed"], "seed": 1, "metadata": {}, "organization": "org-1",
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
        assert_eq!(wire.organization.as_deref(), Some("org-1"));
        let native = WireKwargs::of(&config, true).parameters;
        assert_eq!(native["drop_params"], true);
        assert!(!native.contains_key("custom_llm_provider"));
        assert!(!native.contains_key("organization"));
        assert_eq!(
            config.redacted()["model"]["model_kwargs"]["organization"],
            "[redacted]"
        );
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

    const MINI: &str = "agent: {system_template: s, instance_template: i}\nmodel:\n  model_name: \
                        openai/m\n  model_kwargs:\n    api_key: ";

    /// Taken out at once, and in nothing that is shown or written down.
    #[test]
    fn a_key_in_a_file_of_mini_becomes_a_secret() {
        for (configs, key) in [
            (&["m.yaml"][..], "sk-in-yaml"),
            (
                &["m.yaml", "model.model_kwargs.api_key=sk-typed"],
                "sk-typed",
            ),
        ] {
            let env = Memory::new().file("/work/m.yaml", &format!("{MINI}sk-in-yaml\n"));
            let layers = env.load(configs).unwrap();
            let config = layers.resolve().unwrap();
            let given = config.given_key.clone().unwrap();
            assert_eq!(given.expose(), key);
            assert_eq!(config.model.api_key_env.as_deref(), Some(GIVEN_KEY));
            let warning = given.warning();
            assert!(warning.contains("`model.api_key_env`"), "{warning}");
            let shown = [
                layers.show(true),
                layers.show(false),
                layers.merged().to_string(),
                format!("{config:?}"),
                config.redacted().to_string(),
                format!("{:?}", WireKwargs::of(&config, true)),
                warning,
                layers.names().join(" "),
            ];
            for text in shown {
                assert!(!text.contains("sk-"), "{text}");
            }
        }
    }

    #[test]
    fn what_else_stands_where_a_key_would() {
        for (value, later, given, name) in [
            ("os.environ/K", None, None, Some("K")),
            ("''", None, None, None),
            ("null", None, None, None),
            ("EMPTY", None, Some("EMPTY"), Some(GIVEN_KEY)),
            ("1234", None, Some("1234"), Some(GIVEN_KEY)),
            // a later layer wins
            ("sk-1", Some("null"), None, None),
            ("sk-1", Some("os.environ/K"), None, Some("K")),
        ] {
            let env = Memory::new().file("/work/m.yaml", &format!("{MINI}{value}\n"));
            let later = later.map(|value| format!("model.model_kwargs.api_key={value}"));
            let configs: Vec<&str> = std::iter::once("m.yaml").chain(later.as_deref()).collect();
            let config = env.resolve(&configs).unwrap();
            let found = config.given_key.as_ref().map(GivenKey::expose);
            assert_eq!(found, given, "{configs:?} {value}");
            assert_eq!(
                config.model.api_key_env.as_deref(),
                name,
                "{configs:?} {value}"
            );
        }
        // What the user names wins over what the file holds.
        let env = Memory::new().file("/work/m.yaml", &format!("{MINI}sk-1\n"));
        let config = env.resolve(&["m.yaml", "model.api_key_env=MINE"]).unwrap();
        assert_eq!(config.model.api_key_env.as_deref(), Some("MINE"));
        // A file of ours above one of mini's is held to our rule.
        let toml = "[model.model_kwargs]\napi_key = \"sk-2\"\n";
        let text = env
            .file("/work/k.toml", toml)
            .resolve(&["m.yaml", "k.toml"]);
        let text = text.unwrap_err().to_string();
        assert!(text.contains("k.toml:2") && !text.contains("sk-"), "{text}");
    }

    #[test]
    fn a_broken_file_does_not_show_its_key() {
        let env = Memory::new().file("/work/m.yaml", &format!("{MINI}sk-1: x\n"));
        let text = env.resolve(&["m.yaml"]).unwrap_err().to_string();
        assert!(text.contains("m.yaml:5") && !text.contains("sk-"), "{text}");
        let yaml = "model: {model_kwargs: {api_key: sk-1}, stream: [x]}\n";
        let text = Memory::new()
            .file("/work/m.yaml", yaml)
            .resolve(&["m.yaml"]);
        let text = text.unwrap_err().to_string();
        assert!(
            text.contains("`model.stream`") && !text.contains("sk-"),
            "{text}"
        );
    }

    #[test]
    fn settings_of_litellm_s_connection_stay_here() {
        let env = Memory::new();
        for (wish, told, file) in [
            ("true", false, None),
            ("null", false, None),
            ("false", true, None),
            ("\"False\"", true, None),
            ("\"/ca.pem\"", false, Some("/ca.pem")),
        ] {
            let kwargs = format!("{{\"ssl_verify\": {wish}, \"verbose\": true, \"top_k\": 1}}");
            let layers = env
                .load(&[&format!("model.model_kwargs={kwargs}")])
                .unwrap();
            let warned = layers
                .warnings()
                .iter()
                .any(|text| text.contains("`SSL_CERT_FILE`"));
            assert_eq!(warned, told, "{:?}", layers.warnings());
            let config = layers.resolve().unwrap();
            assert_eq!(trusted_certificates(&config.model.model_kwargs), file);
            for native in [true, false] {
                let sent = Value::Object(WireKwargs::of(&config, native).parameters);
                assert_eq!(sent, json!({"top_k": 1}));
            }
        }
    }

    /// Each key of litellm's that logs somebody in: refused by name, with what to do, and without
    /// what it holds.
    #[test]
    fn logins_are_refused_with_what_to_do_instead() {
        for (name, remedy) in [
            ("azure_ad_token", "`model.api_key_env`"),
            ("azure_ad_token_provider", "`model.api_key_env`"),
            ("azure_username", "az account get-access-token"),
            ("azure_password", "az account get-access-token"),
            ("tenant_id", "az account get-access-token"),
            ("client_id", "az account get-access-token"),
            ("client_secret", "az account get-access-token"),
            ("aws_access_key_id", "have to be signed"),
            ("aws_secret_access_key", "have to be signed"),
            ("aws_session_token", "have to be signed"),
            ("aws_profile_name", "have to be signed"),
            ("aws_region_name", "have to be signed"),
            ("vertex_credentials", "`gemini/NAME`"),
            ("vertex_ai_credentials", "`gemini/NAME`"),
            ("vertex_project", "`gemini/NAME`"),
            ("watsonx_username", "gateway"),
        ] {
            let env = Memory::new().file(
                "/work/m.yaml",
                &format!("model:\n  model_kwargs:\n    {name}: hush-123\n"),
            );
            let dotted = format!("model.model_kwargs.{name}");
            let spec = format!("{dotted}=os.environ/hush-123");
            for (configs, place) in [
                (["m.yaml"], "m.yaml:3"),
                ([&*spec], "-c model.model_kwargs."),
            ] {
                let text = env.resolve(&configs).unwrap_err().to_string();
                for part in [&*format!("`{dotted}`"), remedy, place] {
                    assert!(text.contains(part), "{part}: {text}");
                }
                assert!(!text.contains("hush"), "{text}");
            }
            assert!(env.resolve(&[&format!("{dotted}=null")]).is_ok());
        }
        for name in ["user", "top_k", "region", "awsome", "input_cost_per_token"] {
            let spec = format!("model.model_kwargs.{name}=1");
            assert!(Memory::new().resolve(&[&spec]).is_ok(), "{name}");
        }
    }
}
