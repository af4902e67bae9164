//! Instructions before the first run: printed for a user at a terminal if the model or its key is
//! missing.

use super::exit::ExitCode;
use super::output::Failure;
use mswea_config::{Config, PROVIDERS, resolve_model};
use mswea_provider::{Secrets, process_environment};

/// A suggested model for each provider whose key most users have.
pub(super) const MODELS: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5"),
    ("GEMINI_API_KEY", "gemini/gemini-2.5-pro"),
    ("OPENROUTER_API_KEY", "openrouter/PROVIDER/MODEL"),
];

fn secrets(config: &Config) -> Secrets {
    Secrets::new(
        process_environment(),
        config.model.secrets_file.as_ref().map(Into::into),
    )
}

/// Checks that the model of this config has a provider, and that its key is set.
///
/// # Errors
/// A message with the missing value, or the mistake in the model's name.
pub(super) fn check_model(config: &Config) -> Result<(), String> {
    let choice = resolve_model(config).map_err(|error| error.to_string())?;
    match choice.api_key_env {
        Some(name) if !matches!(secrets(config).get(&name), Ok(Some(_))) => {
            Err(format!("no key for this model: `{name}` is not set"))
        }
        _ => Ok(()),
    }
}

/// Checks that this config has a model and a key; otherwise, the error has five lines of
/// instructions.
///
/// # Errors
/// [`Failure`] with these lines, if the model or the key is missing.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    let secrets = secrets(config);
    let is_set = |name: &str| matches!(secrets.get(name), Ok(Some(_)));
    let model = config
        .model
        .model_name
        .as_deref()
        .unwrap_or_default()
        .trim();
    let (code, missing) = match resolve_model(config) {
        Err(_) if model.is_empty() => (
            ExitCode::Usage,
            "no model is set: pass `-m`, or set `MSWEA_MODEL_NAME` or `model.model_name`"
                .to_owned(),
        ),
        Ok(choice) => match choice.api_key_env {
            Some(name) if config.given_key.is_none() && !is_set(&name) => (
                ExitCode::Provider,
                format!(
                    "no key for `{model}`: set `{name}`, or write `{name}=...` into the file (mode 0600) that `model.secrets_file` names"
                ),
            ),
            _ => return Ok(()),
        },
        // The error is reported where the config is used.
        Err(_) => return Ok(()),
    };
    let mut keys: Vec<&str> = PROVIDERS.iter().flat_map(|it| it.keys).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|name| is_set(name));
    let hosted = MODELS.iter().find(|(key, _)| keys.contains(key));
    let hosted = match hosted {
        Some((_, model)) => format!("mswea-host -m {model}"),
        None => "export OPENAI_API_KEY=...; mswea-host -m openai/gpt-5".to_owned(),
    };
    let found = match keys.as_slice() {
        [] => "no key of a known provider".to_owned(),
        keys => keys.join(", "),
    };
    Err(Failure::new(
        code,
        format!(
            "{missing}\n  found: {found}\n  a hosted model: {hosted}\n  \
             a server of your own: mswea-host -m local/NAME --base-url http://127.0.0.1:8000/v1\n  \
             without a model: mswea-host demo (`mswea-host setup` asks for a key and a model, `mswea-host doctor` tells what works here)"
        ),
    ))
}
