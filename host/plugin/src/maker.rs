//! A loaded plugin as a [`Maker`] of roles, for the conformance kit and the experiments.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::descriptor::Descriptor;
use super::error::LoadError;
use super::limits::PluginLimits;
use super::plugin::Plugin;
use super::store::Renderer;
use super::{Recipe, WasmAdapter, WasmFormatter, WasmParser, WasmPolicy, WasmProcessor};
use mswea_core::{ConfiguredRole, Identity, Maker, PluginFault, Refused, RoleKind};

/// Makes instances of one plugin.
pub struct WasmMaker {
    plugin: Arc<Plugin>,
    identity: Identity,
    limits: PluginLimits,
    renderer: Option<Arc<dyn Renderer>>,
}

impl WasmMaker {
    /// Makes instances within `limits`, which render templates with `renderer`.
    pub fn new(
        plugin: Arc<Plugin>,
        limits: PluginLimits,
        renderer: Option<Arc<dyn Renderer>>,
    ) -> Self {
        let descriptor = &plugin.descriptor;
        let identity = Identity {
            name: plugin.name.to_string(),
            version: descriptor.version.clone(),
            digest: plugin.digest.clone(),
            kinds: plugin.kinds.clone(),
            config_schema: descriptor.config_schema.clone(),
        };
        Self {
            plugin,
            identity,
            limits,
            renderer,
        }
    }

    /// The same maker with the plugin's name in the config.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.identity.name);
        self
    }

    /// The recipe of an instance that is not configured.
    pub fn bare_recipe(&self) -> Recipe {
        self.recipe_of("{}".to_owned(), false)
    }

    /// The recipe of an instance with this config.
    ///
    /// # Errors
    /// [`LoadError::Config`] if the config does not fit the schema.
    pub fn recipe(&self, config: &Value, fresh: bool) -> Result<Recipe, Refused> {
        let name = &self.plugin.name;
        let config = self
            .plugin
            .check_config(name, config)
            .map_err(|error| refused(error, false))?;
        Ok(self.recipe_of(config.to_string(), fresh))
    }

    fn recipe_of(&self, config: String, fresh: bool) -> Recipe {
        Recipe {
            name: self.identity.name.as_str().into(),
            plugin: self.plugin.clone(),
            config,
            limits: self.limits.clone(),
            seed: 0,
            renderer: self.renderer.clone(),
            fresh,
        }
    }
}

fn refused(error: LoadError, by_plugin: bool) -> Refused {
    match error {
        LoadError::Config {
            pointer, detail, ..
        } => Refused::Config {
            pointer,
            detail,
            by_plugin,
        },
        other => Refused::Failed(other.to_string()),
    }
}

/// A descriptor as JSON.
pub fn descriptor_json(descriptor: &Descriptor) -> Value {
    json!({
        "name": descriptor.name,
        "version": descriptor.version,
        "summary": descriptor.summary,
        "config_schema": descriptor.config_schema,
        "secrets": descriptor.secrets,
        "hosts": descriptor.hosts,
    })
}

#[async_trait]
impl Maker for WasmMaker {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn describe(&self, config: Option<&Value>) -> Result<Value, PluginFault> {
        let recipe = match config {
            Some(config) => self
                .recipe(config, false)
                .map_err(|refused| PluginFault::new(refused.to_string()))?,
            None => self.bare_recipe(),
        };
        let mut descriptor = recipe.describe(config.is_some()).await?;
        self.plugin.as_variant(&mut descriptor);
        Ok(descriptor_json(&descriptor))
    }

    async fn make(
        &self,
        kind: RoleKind,
        config: &Value,
        fresh: bool,
    ) -> Result<ConfiguredRole, Refused> {
        let recipe = self.recipe(config, fresh)?;
        let made = match kind {
            RoleKind::ModelAdapter => WasmAdapter::start(recipe)
                .await
                .map(|made| ConfiguredRole::Adapter(Box::new(made))),
            RoleKind::ActionParser => WasmParser::start(recipe)
                .await
                .map(|made| ConfiguredRole::Parser(Box::new(made))),
            RoleKind::ObservationFormatter => WasmFormatter::start(recipe)
                .await
                .map(|made| ConfiguredRole::Formatter(Box::new(made))),
            RoleKind::HistoryProcessor => WasmProcessor::start(recipe)
                .await
                .map(|made| ConfiguredRole::Processor(Box::new(made))),
            RoleKind::ActionPolicy => WasmPolicy::start(recipe)
                .await
                .map(|made| ConfiguredRole::Policy(Box::new(made))),
        };
        made.map_err(|error| refused(error, true))
    }
}
