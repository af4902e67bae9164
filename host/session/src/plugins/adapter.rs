//! The model of a run: its adapter, the hosts and secrets that it is granted, and the provider layer.

use std::sync::Arc;

use mswea_config::{ModelChoice, WireKwargs};
use mswea_core::{Adapter, Model, PluginFault, Progress};
use mswea_plugin_host::{RoleKind, Source, WasmAdapter};
use mswea_provider::{Grants, HostPattern, ProviderModel, Secrets};
use serde_json::{Value, json};

use super::RoleSetup;
use super::load::{NamedPlugin, file};
use crate::entries::EntryMatch;
use crate::replayed::{REPLAY, Replayed};
use crate::{SetupError, keys, wiring};

impl RoleSetup<'_> {
    pub(super) async fn model(
        &self,
        named: &NamedPlugin,
        choice: &ModelChoice,
        secrets: Arc<Secrets>,
    ) -> Result<(Box<dyn Model>, Grants), SetupError> {
        let config = self.job.config;
        let built_in = named.is_built_in();
        let key = keys::of_model(choice, &secrets);
        let kwargs = WireKwargs::of(config, choice, built_in);
        for note in &kwargs.notes {
            self.context.front.show(&Progress::Warning(note));
        }
        let mut headers = choice.headers.clone();
        if choice.adapter.starts_with("openai") {
            let organization = kwargs.organization;
            headers.extend(organization.map(|name| ("openai-organization".to_owned(), name)));
        }
        headers.extend(kwargs.headers);
        let mut offer = json!({
            "model": choice.model,
            "base_url": choice.base_url,
            "stream": config.model.stream,
            "merge_user_messages": config.model.merge_user_messages,
            "model_kwargs": kwargs.parameters,
            "api_key": key,
            "auth_header": choice.auth_header,
            "headers": pairs(&headers),
            "secret_headers": pairs(&choice.secret_headers),
            "api": choice.api,
        });
        if built_in && &*named.plugin.name == REPLAY {
            offer = match self.replayed {
                Some(replayed) => replayed.offer.clone(),
                None => Replayed::read(config, choice)?.offer,
            };
        }
        let recipe = self.recipe(named, RoleKind::ModelAdapter, &offer)?;
        let own: Value = serde_json::from_str(&recipe.config).unwrap_or_default();
        let grants = self.grants(named, choice, key, &own)?;
        for warning in keys::warnings(config, &grants, &own, &secrets) {
            self.context.front.show(&Progress::Warning(&warning));
        }
        let adapter = WasmAdapter::start(recipe.clone())
            .await
            .map_err(|error| self.located(error))?;
        let asker = move || -> Result<Box<dyn Adapter>, PluginFault> {
            Ok(Box::new(WasmAdapter::lazy(recipe.clone())))
        };
        let model = ProviderModel::new(
            Box::new(adapter),
            Box::new(asker),
            &*named.name,
            grants.clone(),
            secrets,
            keys::http(config, &self.runtime.http)?,
            wiring::provider_settings(config, self.job.is_set("model.network_retries")),
        );
        Ok((Box::new(model), grants))
    }

    /// The hosts and secrets that the adapter may use. A built-in adapter may reach the configured
    /// server and use the configured key; everything else has to be granted by name.
    ///
    /// # Errors
    /// [`SetupError::Grant`] if a granted host is no host pattern, or if the adapter's own config has an
    /// address without a key.
    fn grants(
        &self,
        named: &NamedPlugin,
        choice: &ModelChoice,
        key: Option<String>,
        own: &Value,
    ) -> Result<Grants, SetupError> {
        let mut hosts: Vec<String> = self.job.allow_hosts.to_vec();
        let mut secrets = Vec::new();
        let is_identified = matches!(named.entry_match, EntryMatch::Identified(_));
        let entry = self.entry(named).filter(|_| is_identified);
        if let Some(entry) = entry {
            hosts.extend(entry.allow_hosts.iter().cloned());
            secrets.extend(entry.secrets.iter().cloned());
        }
        let mut patterns = hosts
            .iter()
            .map(|host| host.parse::<HostPattern>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| SetupError::Grant(error.to_string()))?;
        let config = self.job.config;
        let base_url = match keys::base_url(choice, own) {
            // Only of built-in adapters it is known that `base_url` is an address.
            Err(_) if !named.is_built_in() => None,
            base_url => base_url?,
        };
        let plain_http = keys::plain_http(config, choice, entry, base_url.as_ref())?;
        if named.is_built_in() {
            let (name, key_name, url) = (&*named.name, key.as_deref(), base_url.as_ref());
            keys::check_own_address(name, config, choice, entry, key_name, url)?;
            patterns.extend(base_url.as_ref().and_then(HostPattern::of_url));
            secrets.extend(key);
            secrets.extend(
                choice
                    .secret_headers
                    .iter()
                    .map(|(_, secret)| secret.clone()),
            );
            if let Some(name) = own.get("api_key").and_then(Value::as_str) {
                secrets.push(name.to_owned());
            }
        }
        secrets.sort_unstable();
        secrets.dedup();
        Ok(Grants {
            hosts: patterns,
            secrets,
            plain_http,
            unnamed: (!is_identified && matches!(named.plugin.source, Source::File(_)))
                .then(|| file(&named.plugin)),
        })
    }
}

/// The pairs as an object; null if there are none, so that the plugin's default applies.
fn pairs(pairs: &[(String, String)]) -> Value {
    if pairs.is_empty() {
        return Value::Null;
    }
    let entries = pairs
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()));
    Value::Object(entries.collect())
}
