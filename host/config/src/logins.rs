//! litellm's login parameters in `model_kwargs`, which are refused.

use serde_json::Value;

use super::error::{ConfigProblem, ProblemKind};
use super::given_key::VARIABLE;
use super::layers::Layers;
use super::node::Node;
use super::providers;

/// The errors for login parameters in `model_kwargs`. They are refused, because they would pass
/// through a plugin and into the request's body, and because the host does not support these
/// logins.
pub(super) fn credentials(layers: &Layers) -> Vec<ConfigProblem> {
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
                format!("`{dotted}` holds a key: only the name of a key may be set here"),
                hint.to_owned(),
            )
        } else {
            let hint = login(name).filter(|_| !value.is_null())?;
            (
                format!("`{dotted}` is for a login of litellm, which this host does not support"),
                hint.to_owned(),
            )
        };
        let problem = ConfigProblem::new(ProblemKind::WrongValue, message)
            .key(dotted)
            .hint(hint);
        // Only the place is shown: the line itself would show the key.
        Some(
            match layers.merged.origin_of(&[path[0], path[1], name.as_str()]) {
                Some(origin) => problem.place(origin),
                None => problem,
            },
        )
    });
    problems.collect()
}

/// The remedy for a login parameter; none for any other parameter.
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
