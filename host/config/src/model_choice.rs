//! From the model's name to its provider: `openai/gpt-5` is the model `gpt-5` of the provider
//! `openai`.

use super::error::{ConfigError, ConfigProblem, ProblemKind};
use super::host_env::{HostEnvironment, ProcessEnvironment};
use super::key_rule;
use super::litellm;
use super::model_class::{self, ModelClass};
use super::providers::{self, AddressShape, LOCAL, PROVIDERS, Provider, REPLAY};
use super::sections::Config;
use super::set_by::NamedModel;
use serde_json::Value;

/// The provider of a model, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// The provider's prefix; `local` when a bare name goes to `base_url`.
    pub prefix: String,
    /// The model's name as the provider knows it.
    pub model: String,
    /// Name or file of the adapter.
    pub adapter: String,
    /// Base URL of the API, if the adapter needs one.
    pub base_url: Option<String>,
    /// Name of the secret that holds the key; none: no key is sent, unless one of `optional_keys`
    /// is set.
    pub api_key_env: Option<String>,
    /// Names of secrets of which the first that is set is the key, for servers that often need
    /// none. They are not in the environment, but may be in the secrets file.
    pub optional_keys: Vec<String>,
    /// The header that the key is sent in; none: the adapter's own.
    pub auth_header: Option<String>,
    /// Further headers of every request.
    pub headers: Vec<(String, String)>,
    /// Further headers, and the names of the secrets in them.
    pub secret_headers: Vec<(String, String)>,
    /// The API, if the adapter has several: `responses`, or Ollama's own; none: chat completions.
    pub api: Option<&'static str>,
    /// The provider's name in litellm's price file; none: the file does not list it.
    pub listed_as: Option<String>,
    /// The provider's replies contain their cost.
    pub reports_cost: bool,
    /// The server is the user's own (or a recording answers): calls cost nothing.
    pub self_hosted: bool,
    /// The address was set by the user and is not the provider's own, so it is not known whose
    /// prices apply.
    pub own_address: bool,
    /// Marks for the prompt cache are left out.
    pub no_cache_marks: bool,
}

impl ModelChoice {
    /// The names of the secrets that its requests carry.
    pub(super) fn secret_names(&self) -> impl Iterator<Item = &str> {
        let headers = self.secret_headers.iter().map(|(_, secret)| secret);
        let key = self.api_key_env.iter().chain(headers);
        key.chain(&self.optional_keys).map(String::as_str)
    }
}

const OPENAI: &str = "openai";

/// Finds the provider of the configured model, with addresses and keys as the environment of this
/// process has them.
///
/// # Errors
/// [`ConfigError`] if no model is set, its prefix or `custom_llm_provider` is unknown, it has no
/// name after the prefix, its base URL is missing, or its key may not be sent to its address.
pub fn resolve_model(config: &Config) -> Result<ModelChoice, ConfigError> {
    resolve(config, &ProcessEnvironment, true)
}

/// As [`resolve_model`], for callers that need only the provider: the base URL may be missing.
///
/// # Errors
/// [`ConfigError`] in the other cases in which [`resolve_model`] fails.
pub fn whose_model(config: &Config) -> Result<ModelChoice, ConfigError> {
    resolve(config, &ProcessEnvironment, false)
}

/// As [`resolve_model`], with the given environment.
///
/// # Errors
/// [`ConfigError`] in the same cases.
pub fn resolve_model_in(
    config: &Config,
    env: &dyn HostEnvironment,
) -> Result<ModelChoice, ConfigError> {
    resolve(config, env, true)
}

fn resolve(
    config: &Config,
    env: &dyn HostEnvironment,
    needs_address: bool,
) -> Result<ModelChoice, ConfigError> {
    let name = config
        .model
        .model_name
        .as_deref()
        .unwrap_or_default()
        .trim();
    let class = config
        .model
        .model_class
        .as_deref()
        .and_then(model_class::find);
    if name.is_empty() && class.and_then(|class| class.provider) != Some(REPLAY) {
        return Err(ConfigProblem::new(
            ProblemKind::Model,
            "no model: pass `-m PREFIX/NAME`, for example `-m openai/gpt-5`",
        )
        .key("model.model_name")
        .hint("or set `model.model_name` in a config file, or `MSWEA_MODEL_NAME`")
        .into());
    }
    let chooser = Chooser {
        config,
        class,
        env,
        needs_address,
    };
    chooser.choose(name)
}

struct Chooser<'a> {
    config: &'a Config,
    class: Option<&'static ModelClass>,
    env: &'a dyn HostEnvironment,
    /// Whether a missing address of the server is an error.
    needs_address: bool,
}

/// A provider's key.
enum ProviderKey {
    None,
    Named(String),
    /// The first of these that is set.
    Optional(&'static [&'static str]),
}

impl Chooser<'_> {
    fn choose(&self, name: &str) -> Result<ModelChoice, ConfigError> {
        let mut choice = self.find(name)?;
        if choice.adapter == REPLAY {
            return Ok(choice);
        }
        let provider = providers::canonical(&choice.prefix);
        let whose = |named: &NamedModel| self.provider_of(named, name);
        let secret = choice.secret_names().next().unwrap_or_default();
        let checked = key_rule::check(&self.config.set_by, secret, name, provider, whose);
        if choice.api_key_env.is_some() || !choice.secret_headers.is_empty() {
            checked?;
        } else if checked.is_err() {
            // The key is optional, so it is left out.
            choice.optional_keys.clear();
        }
        Ok(choice)
    }

    fn find(&self, name: &str) -> Result<ModelChoice, ConfigError> {
        let model = &self.config.model;
        let adapter = self.config.pipeline.adapter.as_deref();
        if let Some(provider) = self.class.and_then(|class| class.provider) {
            let provider = providers::find(provider);
            let provider = provider.expect("invariant: a test finds the provider of every class");
            let name = if provider.prefix == REPLAY {
                REPLAY
            } else {
                name
            };
            return self.of(Some(provider), provider.prefix, name, name);
        }
        let (first, rest) = name.split_once('/').unwrap_or((name, ""));
        // As in litellm, the value of `custom_llm_provider` is put in front of the name, unless it
        // is there already. The rest is the model's name, whatever prefix that has.
        let (prefix, rest) = match self.custom_provider()? {
            Some(custom) if custom != first => (custom, name),
            _ => (first, rest),
        };
        let built_in = providers::find(prefix);
        if built_in.is_none() && !self.config.providers.contains_key(prefix) {
            // `ADAPTER/NAME`, where the config names that adapter.
            if !rest.is_empty() && (adapter == Some(prefix) || self.is_entry(prefix)) {
                return self.of(None, prefix, rest, name);
            }
            // The whole name is the model's: the slash in `Qwen/Qwen3` does not follow a provider's
            // prefix.
            if model.base_url.is_some() || adapter.is_some() {
                return Ok(ModelChoice {
                    prefix: LOCAL.to_owned(),
                    model: name.to_owned(),
                    adapter: adapter.unwrap_or(OPENAI).to_owned(),
                    base_url: model.base_url.clone(),
                    api_key_env: model.api_key_env.clone(),
                    self_hosted: true,
                    own_address: model.base_url.is_some(),
                    ..ModelChoice::default()
                });
            }
            let bare = providers::of_bare_name(name).filter(|_| !name.contains('/'));
            return match bare {
                Some(provider) => self.of(Some(provider), provider.prefix, name, name),
                None => Err(unknown(self.config, name, prefix).into()),
            };
        }
        let replays =
            built_in.is_some_and(|provider| provider.adapter == REPLAY) || adapter == Some(REPLAY);
        if rest.trim().is_empty() && !replays {
            let message = format!("the model `{name}` has no name after its prefix `{prefix}/`");
            let hint =
                format!("write `{prefix}/NAME`, with the name that the provider gives the model");
            return Err(ConfigProblem::new(ProblemKind::Model, message)
                .key("model.model_name")
                .hint(hint)
                .into());
        }
        let rest = if rest.is_empty() { prefix } else { rest };
        self.of(built_in, prefix, rest, name)
    }

    /// The provider that `custom_llm_provider` names.
    fn custom_provider(&self) -> Result<Option<&str>, ConfigError> {
        let Some(custom) = litellm::custom_provider(&self.config.model.model_kwargs) else {
            return Ok(None);
        };
        if providers::find(custom).is_some() || self.config.providers.contains_key(custom) {
            return Ok(Some(custom));
        }
        let key = "model.model_kwargs.custom_llm_provider";
        let message = format!("`{key}` names an unknown provider, `{custom}`");
        let known = PROVIDERS.iter().flat_map(Provider::prefixes);
        let hint = match (
            providers::without_adapter(custom),
            mswea_text::nearest(custom, known),
        ) {
            (Some(instead), _) => instead.to_owned(),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => "write `openai` for a server that speaks OpenAI's protocol, and its \
                             address into `api_base`"
                .to_owned(),
        };
        Err(ConfigProblem::new(ProblemKind::Model, message)
            .key(key)
            .hint(hint)
            .into())
    }

    /// The provider of a model that a file names; `name` is the run's model.
    fn provider_of(&self, named: &NamedModel, name: &str) -> String {
        let class = named.class.as_deref().and_then(model_class::find);
        let name = named.name.as_deref().unwrap_or(name);
        let (prefix, _) = name.split_once('/').unwrap_or((name, ""));
        let known = |prefix: &&str| {
            providers::find(prefix).is_some() || self.config.providers.contains_key(*prefix)
        };
        let provider = class
            .and_then(|class| class.provider)
            .or(named.custom.as_deref())
            .or(Some(prefix).filter(known))
            .or_else(|| providers::of_bare_name(name).map(|provider| provider.prefix));
        providers::canonical(provider.unwrap_or(LOCAL)).to_owned()
    }

    /// Whether a plugin of the config has this name.
    fn is_entry(&self, name: &str) -> bool {
        let entry = self.config.plugins.get(name);
        entry.is_some_and(|entry| entry.path.is_some())
    }

    /// The model `model` of a provider, with the user's entry laid over the provider's row.
    fn of(
        &self,
        row: Option<&'static Provider>,
        prefix: &str,
        model: &str,
        typed: &str,
    ) -> Result<ModelChoice, ConfigError> {
        let config = self.config;
        let own = config.providers.get(prefix);
        let configured = config
            .model
            .base_url
            .clone()
            .or_else(|| own.and_then(|own| own.base_url.clone()))
            .or_else(|| self.first(row.map_or(&[], |row| row.base_url_vars)));
        let (model, responses) = self.api_of(row, model, configured.as_deref());
        let from_row = row.map_or(OPENAI, |row| row.adapter);
        let provided = match own.map(|own| own.adapter.as_str()) {
            // An entry that does not set `adapter` also has `openai` here, the default of the key.
            None | Some(OPENAI) => from_row,
            Some(own) => own,
        };
        let adapter = match config.pipeline.adapter.as_deref() {
            Some(adapter) => adapter,
            None if responses && provided == OPENAI => "openai_responses",
            None if row.is_none() && own.is_none() => prefix,
            None => provided,
        };
        let own_address = configured.is_some();
        let base_url = configured.or_else(|| row?.base_url.map(str::to_owned));
        if base_url.is_none() && adapter.starts_with(OPENAI) && self.needs_address {
            let message = format!(
                "the model `{typed}` needs a base URL: where does the server of `{prefix}` listen?"
            );
            let variable = row.and_then(|row| row.base_url_vars.first());
            let variable = variable.map_or_else(String::new, |name| format!(" or `{name}`"));
            let hint = format!(
                "pass `--base-url`, for example `--base-url http://127.0.0.1:8000/v1`, or set \
                 `model.base_url`{variable}"
            );
            return Err(ConfigProblem::new(ProblemKind::Model, message)
                .key("model.base_url")
                .hint(hint)
                .into());
        }
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };
        let mut secret_headers = pairs(row.map_or(&[], |row| row.secret_headers));
        secret_headers.retain(|(_, secret)| self.is_set(secret));
        let mut headers = pairs(row.map_or(&[], |row| row.headers));
        if let (Some("portkey"), Some(provider)) =
            (row.map(|row| row.prefix), &config.model.provider)
            && secret_headers.is_empty()
            && !responses
        {
            headers.push(("x-portkey-provider".to_owned(), provider.clone()));
        }
        let name_prefix = row.and_then(|row| row.name_prefix).filter(|prefix| {
            let family = prefix.split('/').next().unwrap_or_default();
            !model.starts_with(family)
        });
        let model = format!("{}{model}", name_prefix.unwrap_or_default());
        let shape = row.map_or(AddressShape::Plain, |row| row.shape);
        let api_key_env = config
            .model
            .api_key_env
            .clone()
            .or_else(|| own.and_then(|own| own.api_key_env.clone()));
        let key = match (api_key_env, row) {
            (Some(name), _) => ProviderKey::Named(name),
            (None, Some(row)) => self.key(row, own_address),
            (None, None) => ProviderKey::None,
        };
        let is_own_api = shape == AddressShape::Ollama
            && adapter == OPENAI
            && base_url.as_deref().is_some_and(|url| !is_compatible(url));
        let api = match adapter {
            "openrouter" if responses => Some("responses"),
            _ if is_own_api => Some("ollama"),
            _ => None,
        };
        let base_url = base_url.map(|url| match is_own_api {
            true => url.trim_end_matches("/api/generate").to_owned(),
            false => self.shaped(shape, &url, &model, responses),
        });
        let (api_key_env, optional_keys) = match key {
            ProviderKey::None => (None, &[][..]),
            ProviderKey::Named(name) => (Some(name), &[][..]),
            ProviderKey::Optional(names) => (None, names),
        };
        Ok(ModelChoice {
            prefix: prefix.to_owned(),
            base_url,
            adapter: adapter.to_owned(),
            api_key_env,
            optional_keys: optional_keys.iter().map(ToString::to_string).collect(),
            auth_header: row.and_then(|row| row.auth_header).map(str::to_owned),
            headers,
            secret_headers,
            api,
            listed_as: row
                .filter(|row| row.prefix != LOCAL)
                .map(|row| row.prefix.to_owned()),
            reports_cost: row.is_some_and(|row| row.reports_cost),
            self_hosted: row.map_or(own.is_none(), |row| row.self_hosted),
            own_address,
            no_cache_marks: row.is_some_and(|row| row.no_cache_marks),
            model,
        })
    }

    /// The model's name without `responses/`, and whether it is asked over OpenAI's Responses API: if
    /// its class says so, and as in litellm if its name does, or if the API of chat completions would
    /// refuse its tools.
    fn api_of<'m>(
        &self,
        row: Option<&Provider>,
        model: &'m str,
        address: Option<&str>,
    ) -> (&'m str, bool) {
        let config = self.config;
        if self.class.is_some_and(|class| class.responses) {
            return (model, true);
        }
        let is_openais = row.is_some_and(|row| matches!(row.prefix, OPENAI | "azure"));
        let is_litellms = self.class.is_none_or(|class| class.provider.is_none());
        if !is_openais || !is_litellms || config.pipeline.adapter.is_some() {
            return (model, false);
        }
        if let Some(model) = model.strip_prefix("responses/") {
            return (model, true);
        }
        let effort = config.model.model_kwargs.get("reasoning_effort");
        let effort = effort.map(|effort| effort.get("effort").unwrap_or(effort));
        // Another server at this address may not have the other API, and no such rule.
        let is_openais_own = address.is_none_or(|it| it.contains("api.openai.com"))
            || row.is_some_and(|row| row.prefix != OPENAI);
        let reasons = match effort.filter(|effort| !effort.is_null()) {
            Some(effort) => effort != "none",
            None => is_openais_own,
        };
        let refuses_tools =
            config.pipeline.parser == "toolcall" && reasons && refuses_tools_while_reasoning(model);
        (model, is_of_responses(model) || refuses_tools)
    }

    /// The first of the provider's secrets that is set. If none is set, the first one: it may be in
    /// the secrets file, and messages name it. All are optional for a server of the user's own,
    /// which rarely needs a key, and if a variable is set to an empty value, which states that the
    /// server needs none.
    fn key(&self, row: &'static Provider, own_address: bool) -> ProviderKey {
        let set = row.keys.iter().find(|name| self.is_set(name));
        let is_emptied = |name: &&str| self.env.var(name).is_some_and(|value| value.is_empty());
        let is_optional = row.key_is_optional || own_address && row.keys.iter().any(is_emptied);
        match set.or(row.keys.first()) {
            Some(_) if set.is_none() && is_optional => ProviderKey::Optional(row.keys),
            Some(name) => ProviderKey::Named((*name).to_owned()),
            None => ProviderKey::None,
        }
    }

    fn is_set(&self, name: &str) -> bool {
        self.env.var(name).is_some_and(|value| !value.is_empty())
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        let mut values = names.iter().filter_map(|name| self.env.var(name));
        values.find(|value| !value.trim().is_empty())
    }

    fn shaped(&self, shape: AddressShape, url: &str, model: &str, responses: bool) -> String {
        let bare = |url: &str| {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            !rest.trim_end_matches('/').contains(['/', '?'])
        };
        match shape {
            AddressShape::Ollama if bare(url) => format!("{}/v1", url.trim_end_matches('/')),
            AddressShape::Azure if bare(url) => {
                let url = url.trim_end_matches('/');
                let given = self.config.model.model_kwargs.get("api_version");
                let given = given.and_then(Value::as_str).map(str::to_owned);
                // Azure's newer API takes the deployment as the model, and no version.
                match given.or_else(|| self.first(&["AZURE_API_VERSION"])) {
                    Some(version) if !matches!(version.as_str(), "v1" | "latest" | "preview") => {
                        let place = match responses {
                            true => "openai".to_owned(),
                            false => format!("openai/deployments/{model}"),
                        };
                        format!("{url}/{place}?api-version={version}")
                    }
                    _ => format!("{url}/openai/v1"),
                }
            }
            _ => url.to_owned(),
        }
    }
}

/// Whether an address of Ollama is that of its compatible API.
fn is_compatible(url: &str) -> bool {
    url.split('/')
        .any(|step| matches!(step, "v1" | "completions"))
}

/// Whether a model of OpenAI's is only there in the Responses API, by its own name.
fn is_of_responses(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_newer = name.starts_with("gpt-5");
    let is_pro = |name: &str| name.ends_with("-pro") || name.contains("-pro-20");
    name.starts_with("codex-mini")
        || name.contains("-deep-research")
        || is_newer && (name.contains("-codex") || is_pro(name))
        || ["o1-pro", "o3-pro"].iter().any(|it| name.starts_with(it))
}

/// Whether the model is one of `gpt-5.4` and later, which take no tools in chat completions while
/// they reason.
fn refuses_tools_while_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gpt-") else {
        return false;
    };
    let end = version.find(|c: char| c != '.' && !c.is_ascii_digit());
    let version = &version[..end.unwrap_or(version.len())];
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let number = |text: &str| text.parse::<u32>().ok();
    number(major).zip(number(minor)) >= Some((5, 4)) && !name.contains("search")
}

fn unknown(config: &Config, name: &str, prefix: &str) -> ConfigProblem {
    let mut known: Vec<&str> = PROVIDERS.iter().map(|provider| provider.prefix).collect();
    let own = config.providers.keys().map(String::as_str);
    known.extend(own.filter(|own| providers::find(own).is_none()));
    let list: Vec<_> = known.iter().map(|prefix| format!("`{prefix}`")).collect();
    let list = list.join(", ");
    let message = match name.contains('/') {
        true => format!("unknown prefix `{prefix}` of the model `{name}`; known: {list}"),
        false => format!("the model `{name}` has no prefix that names its provider; known: {list}"),
    };
    known.extend(PROVIDERS.iter().flat_map(|provider| provider.aliases));
    let hint = match (name.contains('/'), mswea_text::nearest(prefix, known)) {
        (true, _) if providers::without_adapter(prefix).is_some() => {
            providers::without_adapter(prefix)
                .unwrap_or_default()
                .to_owned()
        }
        (true, Some(near)) => format!("did you mean `{near}{}`?", &name[prefix.len()..]),
        (false, _) => format!(
            "write `openai/{name}` for OpenAI's API, or pass `--base-url` for a server of your own"
        ),
        (true, None) => "pass `--base-url` for a server that speaks OpenAI's protocol, or define \
                         the prefix under `[providers]` in a config file"
            .to_owned(),
    };
    ConfigProblem::new(ProblemKind::Model, message)
        .key("model.model_name")
        .hint(hint)
}

#[cfg(test)]
mod tests;
