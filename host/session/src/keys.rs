//! The key and the server of a run: which secret is the model's key, the checks and warnings before
//! an adapter may send it, and the address of the server. `config/key_rule.rs` decides which key
//! goes to which address; this file has the part that depends on the plugins' own configs.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use url::Url;

use super::SetupError;
use mswea_config::{Config, GIVEN_KEY, ModelChoice, PluginEntry};
use mswea_provider::{Grants, HostPattern, Http, Secrets};

/// The longest token of a server, in bytes.
const LONGEST_TOKEN: u64 = 4096;

/// The secrets of a run, with the key that its config may hold itself.
pub fn secrets(config: &Config) -> Secrets {
    let secrets = Secrets::new(
        mswea_provider::process_environment(),
        config.model.secrets_file.as_ref().map(Into::into),
    );
    let mut secrets = match &config.given_key {
        Some(key) => secrets.with(GIVEN_KEY, key.expose()),
        None => secrets,
    };
    // The token of a server of the environment is sent by the executor, and masked as keys are. What is wrong with it is
    // said when it is used.
    let environment = &config.environment;
    if let Some(name) = &environment.token_env {
        let _ = secrets.get(name);
    }
    let file = environment.token_file.as_deref().map(Path::new);
    if let Some(Ok(token)) = file.map(|file| mswea_files::read_text(file, LONGEST_TOKEN)) {
        secrets = secrets.with("environment.token_file", token.trim());
    }
    secrets
}

/// The clients of a run: the process's own, unless `ssl_verify` in `model_kwargs` names certificates.
///
/// # Errors
/// [`SetupError`] if it does not name a file.
pub fn http(config: &Config, shared: &Http) -> Result<Http, SetupError> {
    let Some(path) = mswea_config::trusted_certificates(&config.model.model_kwargs) else {
        return Ok(shared.clone());
    };
    if !std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return Err(SetupError::Grant(format!(
            "`model.model_kwargs.ssl_verify` names no file: `{path}`: write the path of a PEM file \
             with the certificates to trust"
        )));
    }
    let (path, others) = (path.to_owned(), mswea_provider::process_environment());
    Ok(Http::new(Arc::new(move |name| match name {
        "SSL_CERT_FILE" => Some(path.clone()),
        "SSL_CERT_DIR" => None,
        _ => others(name),
    })))
}

/// The name of the model's key, if one is to be sent.
pub fn of_model(choice: &ModelChoice, secrets: &Secrets) -> Option<String> {
    let is_there = |name: &&String| matches!(secrets.get(name), Ok(Some(_)));
    let optional = || choice.optional_keys.iter().find(is_there).cloned();
    choice.api_key_env.clone().or_else(optional)
}

/// The base URL of an adapter's requests: that of its config, else the model's.
///
/// # Errors
/// [`SetupError`] if it is not a URL.
pub fn base_url(choice: &ModelChoice, own: &Value) -> Result<Option<Url>, SetupError> {
    let own = own.get("base_url").and_then(Value::as_str);
    let Some(text) = own.or(choice.base_url.as_deref()) else {
        return Ok(None);
    };
    let url = Url::parse(text).map_err(|error| {
        SetupError::Grant(format!(
            "the base URL `{text}` is invalid: {error}: write it as `https://HOST/v1`"
        ))
    })?;
    Ok(Some(url))
}

fn is_set(entry: Option<&PluginEntry>, name: &str) -> bool {
    entry.is_some_and(|entry| entry.config.contains_key(name))
}

/// The hosts to which keys may go over plain `http`: those of the config, and the base URL's if the
/// user has named it and it is near.
///
/// # Errors
/// [`SetupError::Grant`] if an entry of the config is not a host.
pub fn plain_http(
    config: &Config,
    choice: &ModelChoice,
    entry: Option<&PluginEntry>,
    base_url: Option<&Url>,
) -> Result<Vec<HostPattern>, SetupError> {
    let hosts = config.model.plain_http_hosts.iter();
    let hosts: Result<Vec<HostPattern>, _> = hosts.map(|host| host.parse()).collect();
    let mut hosts =
        hosts.map_err(|error| SetupError::Grant(format!("`model.plain_http_hosts`: {error}")))?;
    let is_named = is_set(entry, "base_url") || choice.own_address;
    let near = base_url.filter(|url| is_named && mswea_provider::is_near(url));
    hosts.extend(near.and_then(HostPattern::of_url));
    Ok(hosts)
}

/// Checks the address in an adapter's own config. A `base_url` there needs a key that is named
/// there or in the config, because the key of the model's provider must not go to another address.
///
/// # Errors
/// [`SetupError::Grant`] if only the provider's key is known, and the address is not the model's.
pub fn check_own_address(
    name: &str,
    config: &Config,
    choice: &ModelChoice,
    entry: Option<&PluginEntry>,
    key: Option<&str>,
    base_url: Option<&Url>,
) -> Result<(), SetupError> {
    let model = choice.base_url.as_deref();
    let model = model.and_then(|text| Url::parse(text).ok());
    let is_elsewhere =
        is_set(entry, "base_url") && base_url.map(Url::origin) != model.as_ref().map(Url::origin);
    let has_key = key.is_some() || !choice.secret_headers.is_empty();
    let is_named = is_set(entry, "api_key") || config.set_by.key.is_some();
    if !is_elsewhere || !has_key || is_named {
        return Ok(());
    }
    Err(SetupError::Grant(format!(
        "`plugins.{name}.config.base_url` is an address without a key: the key of `{}` is not sent \
         there; name its key beside it, `plugins.{name}.config.api_key=NAME` (empty for none), or \
         write the address as `model.base_url`",
        choice.prefix
    )))
}

/// Warnings for the user before a key is sent.
pub fn warnings(config: &Config, grants: &Grants, own: &Value, secrets: &Secrets) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_used = own.get("api_key").and_then(Value::as_str) == Some(GIVEN_KEY);
    if let Some(key) = config.given_key.as_ref().filter(|_| is_used)
        && !mswea_provider::is_placeholder(key.expose())
    {
        warnings.push(key.warning());
    }
    let is_secret =
        |name: &&String| matches!(secrets.get(name), Ok(Some(secret)) if !secret.is_placeholder());
    let base_url = own.get("base_url").and_then(Value::as_str);
    let base_url = base_url.and_then(|text| Url::parse(text).ok());
    if let Some(url) = base_url.filter(|url| grants.is_exposed(url))
        && let Some(name) = grants.secrets.iter().find(is_secret)
    {
        warnings.push(format!(
            "the key `{name}` is sent to `{}` over plain http: others on that network can read it",
            url.host_str().unwrap_or_default()
        ));
    }
    warnings
}
