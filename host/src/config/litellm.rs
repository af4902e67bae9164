//! What litellm takes out of `model_kwargs` for itself, in files written for mini-swe-agent:
//! it never reaches the server there and must not here.

use super::error::{Kind, Problem};
use super::layers::Layers;
use super::sections::ModelConfig;

/// How litellm says that a key stands in an environment variable.
const VARIABLE: &str = "os.environ/";

/// Switches of litellm itself; servers reject them.
const SWITCHES: &[&str] = &["drop_params", "custom_llm_provider"];

/// Moves litellm's own parameters to where they belong; what is set there already wins.
pub(super) fn translate(model: &mut ModelConfig) {
    for switch in SWITCHES {
        model.model_kwargs.shift_remove(*switch);
    }
    for (name, prefix, target) in [
        ("api_base", "", &mut model.base_url),
        ("api_key", VARIABLE, &mut model.api_key_env),
    ] {
        let Some(text) = model
            .model_kwargs
            .get(name)
            .and_then(|value| value.as_str())
        else {
            continue;
        };
        if let Some(rest) = text.strip_prefix(prefix) {
            target.get_or_insert_with(|| rest.to_owned());
            model.model_kwargs.shift_remove(name);
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
    use serde_json::{Value, json};

    use super::super::testing::Memory;

    #[test]
    fn litellm_s_own_parameters_go_where_they_belong() {
        let env = Memory::new();
        let config = env
            .resolve(&[
                "model.model_kwargs={\"api_base\": \"http://h/v1\", \"api_key\": \"os.environ/K\", \
                        \"drop_params\": true, \"custom_llm_provider\": \"openai\", \"top_p\": 1}",
            ])
            .unwrap();
        assert_eq!(
            Value::Object(config.model.model_kwargs),
            json!({"top_p": 1})
        );
        assert_eq!(config.model.base_url.as_deref(), Some("http://h/v1"));
        assert_eq!(config.model.api_key_env.as_deref(), Some("K"));
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
