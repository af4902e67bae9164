//! From the model's name to who answers: `openai/gpt-5` is the model `gpt-5` of the provider
//! `openai`.

use super::error::{ConfigError, Kind, Problem};
use super::sections::{Config, ProviderEntry};
use super::suggest;

/// Who answers, and how to reach them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// The provider's prefix; `local` when a bare name goes to `base_url`.
    pub prefix: String,
    /// The model's name as the provider knows it.
    pub model: String,
    /// Name or file of the adapter.
    pub adapter: String,
    /// Base URL of the API, if the adapter needs one.
    pub base_url: Option<String>,
    /// Name of the secret that holds the key; none: no key is sent.
    pub api_key_env: Option<String>,
}

struct BuiltIn {
    prefix: &'static str,
    adapter: &'static str,
    base_url: Option<&'static str>,
    api_key_env: Option<&'static str>,
}

/// The providers that need no config.
const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        prefix: "openai",
        adapter: OPENAI,
        base_url: Some("https://api.openai.com/v1"),
        api_key_env: Some("OPENAI_API_KEY"),
    },
    BuiltIn {
        prefix: LOCAL,
        adapter: OPENAI,
        base_url: None,
        api_key_env: None,
    },
    BuiltIn {
        prefix: "replay",
        adapter: REPLAY,
        base_url: None,
        api_key_env: None,
    },
];

const OPENAI: &str = "openai";
const LOCAL: &str = "local";
/// Answers from a recording: the only adapter that goes nowhere and so needs no URL.
const REPLAY: &str = "replay";

/// Finds the provider of the configured model.
///
/// # Errors
/// When there is no model, its prefix is not known, or its base URL is missing.
pub fn resolve_model(config: &Config) -> Result<ModelChoice, ConfigError> {
    let name = config
        .model
        .model_name
        .as_deref()
        .unwrap_or_default()
        .trim();
    if name.is_empty() {
        return Err(Problem::new(
            Kind::Model,
            "no model: pass `-m PREFIX/NAME`, for example `-m openai/gpt-5`",
        )
        .key("model.model_name")
        .hint("or set `model.model_name` in a config file, or `MSWEA_MODEL_NAME`")
        .into());
    }
    let (prefix, model) = name.split_once('/').unwrap_or((name, ""));
    let adapter = config.pipeline.adapter.as_deref();
    let Some(provider) = provider(config, prefix) else {
        // The whole name is the model's: `Qwen/Qwen3` has a slash and no prefix of ours.
        if config.model.base_url.is_some() || adapter.is_some() {
            return Ok(ModelChoice {
                prefix: LOCAL.to_owned(),
                model: name.to_owned(),
                adapter: adapter.unwrap_or(OPENAI).to_owned(),
                base_url: config.model.base_url.clone(),
                api_key_env: config.model.api_key_env.clone(),
            });
        }
        return Err(unknown(config, name, prefix).into());
    };
    let adapter = adapter.unwrap_or(&provider.adapter);
    if model.trim().is_empty() && adapter != REPLAY {
        let message = format!("the model `{name}` has no name after its prefix `{prefix}/`");
        let hint =
            format!("write `{prefix}/NAME`, with the name that the provider gives the model");
        return Err(Problem::new(Kind::Model, message)
            .key("model.model_name")
            .hint(hint)
            .into());
    }
    let base_url = config.model.base_url.clone().or(provider.base_url);
    if base_url.is_none() && adapter == OPENAI {
        let message = format!(
            "the model `{name}` needs a base URL: where does the server of `{prefix}` listen?"
        );
        let hint = "pass `--base-url`, for example `--base-url http://127.0.0.1:8000/v1`, or set `model.base_url`";
        return Err(Problem::new(Kind::Model, message)
            .key("model.base_url")
            .hint(hint)
            .into());
    }
    Ok(ModelChoice {
        prefix: prefix.to_owned(),
        model: if model.is_empty() { prefix } else { model }.to_owned(),
        adapter: adapter.to_owned(),
        base_url,
        api_key_env: config.model.api_key_env.clone().or(provider.api_key_env),
    })
}

fn provider(config: &Config, prefix: &str) -> Option<ProviderEntry> {
    let built_in = BUILT_IN.iter().find(|provider| provider.prefix == prefix);
    match (config.providers.get(prefix), built_in) {
        // What the user says about a built-in provider is laid over it.
        (Some(own), Some(built_in)) => Some(ProviderEntry {
            adapter: own.adapter.clone(),
            base_url: own
                .base_url
                .clone()
                .or(built_in.base_url.map(str::to_owned)),
            api_key_env: own
                .api_key_env
                .clone()
                .or(built_in.api_key_env.map(str::to_owned)),
        }),
        (Some(own), None) => Some(own.clone()),
        (None, Some(built_in)) => Some(ProviderEntry {
            adapter: built_in.adapter.to_owned(),
            base_url: built_in.base_url.map(str::to_owned),
            api_key_env: built_in.api_key_env.map(str::to_owned),
        }),
        (None, None) => None,
    }
}

fn unknown(config: &Config, name: &str, prefix: &str) -> Problem {
    let mut known: Vec<&str> = BUILT_IN.iter().map(|provider| provider.prefix).collect();
    known.extend(
        config
            .providers
            .keys()
            .map(String::as_str)
            .filter(|own| BUILT_IN.iter().all(|b| b.prefix != *own)),
    );
    let list: Vec<_> = known.iter().map(|prefix| format!("`{prefix}`")).collect();
    let list = list.join(", ");
    let message = match name.contains('/') {
        true => format!("unknown prefix `{prefix}` of the model `{name}`; known: {list}"),
        false => format!("the model `{name}` has no prefix that says whose it is; known: {list}"),
    };
    let hint = match (name.contains('/'), suggest::nearest(prefix, known)) {
        (true, Some(near)) => format!("did you mean `{near}{}`?", &name[prefix.len()..]),
        (false, _) => format!(
            "write `openai/{name}` for OpenAI's, or pass `--base-url` for a server of your own"
        ),
        (true, None) => "pass `--base-url` for a server that speaks OpenAI's protocol, or define \
                         the prefix under `[providers]` in a config file"
            .to_owned(),
    };
    Problem::new(Kind::Model, message)
        .key("model.model_name")
        .hint(hint)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Memory;
    use super::*;

    fn choose(configs: &[&str]) -> Result<ModelChoice, String> {
        let config = Memory::new().resolve(configs).unwrap();
        resolve_model(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn names_lead_to_providers() {
        let openai = Some("https://api.openai.com/v1");
        let key = Some("OPENAI_API_KEY");
        let url = Some("http://h/v1");
        let base = "model.base_url=http://h/v1";
        let mine = "providers.mine={\"base_url\": \"http://m\", \"api_key_env\": \"MINE\"}";
        for (configs, prefix, model, adapter, base_url, api_key_env) in [
            (
                &["model.model_name=openai/gpt-5"][..],
                "openai",
                "gpt-5",
                "openai",
                openai,
                key,
            ),
            (
                &["model.model_name=openai/a/b"],
                "openai",
                "a/b",
                "openai",
                openai,
                key,
            ),
            (
                &["model.model_name=openai/x", base],
                "openai",
                "x",
                "openai",
                url,
                key,
            ),
            (
                &["model.model_name=openai/x", "model.api_key_env=K"],
                "openai",
                "x",
                "openai",
                openai,
                Some("K"),
            ),
            (
                &["model.model_name=local/qwen", base],
                "local",
                "qwen",
                "openai",
                url,
                None,
            ),
            (
                &["model.model_name=Qwen/Qwen3", base],
                "local",
                "Qwen/Qwen3",
                "openai",
                url,
                None,
            ),
            (
                &["model.model_name=gpt-5", base, "model.api_key_env=K"],
                "local",
                "gpt-5",
                "openai",
                url,
                Some("K"),
            ),
            (
                &["model.model_name=replay/a.json"],
                "replay",
                "a.json",
                "replay",
                None,
                None,
            ),
            (
                &["model.model_name=replay"],
                "replay",
                "replay",
                "replay",
                None,
                None,
            ),
            (
                &["model.model_name=mine/m", mine],
                "mine",
                "m",
                "openai",
                Some("http://m"),
                Some("MINE"),
            ),
            (
                &[
                    "model.model_name=openai/m",
                    "providers.openai.base_url=http://m",
                ],
                "openai",
                "m",
                "openai",
                Some("http://m"),
                key,
            ),
            (
                &["model.model_name=x/y", "pipeline.adapter=a.wasm"],
                "local",
                "x/y",
                "a.wasm",
                None,
                None,
            ),
            (
                &["model.model_name=openai/y", "pipeline.adapter=a.wasm"],
                "openai",
                "y",
                "a.wasm",
                openai,
                key,
            ),
        ] {
            let expected = ModelChoice {
                prefix: prefix.into(),
                model: model.into(),
                adapter: adapter.into(),
                base_url: base_url.map(str::to_owned),
                api_key_env: api_key_env.map(str::to_owned),
            };
            assert_eq!(choose(configs), Ok(expected), "{configs:?}");
        }
    }

    #[test]
    fn a_name_that_leads_nowhere_is_explained() {
        for (configs, parts) in [
            (
                &[][..],
                &[
                    "no model: pass `-m",
                    "`-m openai/gpt-5`",
                    "MSWEA_MODEL_NAME",
                ][..],
            ),
            (&["model.model_name= "], &["no model"]),
            (
                &["model.model_name=opnai/gpt-5"],
                &[
                    "unknown prefix `opnai`",
                    "`openai`, `local`, `replay`",
                    "did you mean `openai/gpt-5`?",
                ],
            ),
            (
                &[
                    "model.model_name=zzzzzz/m",
                    "providers.mine.base_url=http://m",
                ],
                &["`replay`, `mine`", "--base-url", "[providers]"],
            ),
            (
                &["model.model_name=gpt-5"],
                &["`gpt-5` has no prefix", "`openai/gpt-5`"],
            ),
            (
                &["model.model_name=openai/"],
                &["has no name after its prefix `openai/`"],
            ),
            (
                &["model.model_name=openai"],
                &["has no name after its prefix `openai/`"],
            ),
            (
                &["model.model_name=local/qwen"],
                &["needs a base URL", "--base-url http://127.0.0.1:8000/v1"],
            ),
        ] {
            let text = choose(configs).unwrap_err();
            for part in parts {
                assert!(text.contains(part), "{configs:?}: {text}");
            }
        }
    }
}
