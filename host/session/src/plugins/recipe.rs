//! The parameters with which a plugin is started: its config, its limits, its seed, and the
//! renderer of its templates.

use std::sync::Arc;

use mswea_config::PluginEntry;
use mswea_core::Object;
use mswea_plugin_host::{PluginLimits, Recipe, Renderer, RoleKind, Source};
use mswea_run::Variables;
use serde_json::{Map, Value, json};

use super::load::{NamedPlugin, limits};
use super::{CACHE_CONTROL, RoleSetup};
use crate::{SetupError, nothing};

/// Lets guests render templates with the run's variables.
struct RunRenderer {
    variables: Arc<Variables>,
    /// Whether the plugin is built in.
    built_in: bool,
    /// The templates in the plugin's config, each with its key in the user's config, for messages.
    keys: Vec<(String, String)>,
}

#[async_trait::async_trait]
impl Renderer for RunRenderer {
    async fn render(&self, template: &str, vars: Object) -> Result<String, String> {
        let rendered = if self.built_in {
            self.variables.render(template, &vars).await
        } else {
            self.variables.render_for_guest(template, &vars).await
        };
        rendered.map_err(|error| {
            let key = self.keys.iter().find(|(text, _)| text == template);
            match key {
                Some((_, key)) => error.named(key).to_string(),
                None => error.to_string(),
            }
        })
    }
}

impl RoleSetup<'_> {
    /// The values outside `[plugins.NAME.config]` that a plugin of this kind may use, under the names
    /// that its config schema may have for them; null if there are none.
    pub(crate) fn offer(&self, named: &NamedPlugin, kind: RoleKind) -> Value {
        let model = &self.job.config.model;
        match kind {
            RoleKind::ActionParser => {
                let mut offer = json!({ "action_regex": model.action_regex });
                if let Some(tools) = self.tools {
                    offer["commands"] = tools.parser_commands();
                    offer["bash_tool"] = self.job.config.tools.bash_tool.into();
                }
                offer
            }
            RoleKind::ObservationFormatter => {
                json!({ "observation_template": model.observation_template })
            }
            // `mode` belongs to this plugin: another plugin may use the same key differently.
            RoleKind::HistoryProcessor
                if matches!(named.plugin.source, Source::BuiltIn(_))
                    && &*named.plugin.name == CACHE_CONTROL =>
            {
                json!({ "mode": model.set_cache_control })
            }
            _ => Value::Null,
        }
    }

    /// The parameters with which the plugin is started. Its config has the values of `offer` for
    /// which its schema has properties, and the user's `[plugins.NAME.config]`, which takes
    /// precedence.
    ///
    /// # Errors
    /// [`SetupError::Plugin`] if the plugin is of another kind, or if the config does not fit its
    /// schema.
    pub(crate) fn recipe(
        &self,
        named: &NamedPlugin,
        kind: RoleKind,
        offer: &Value,
    ) -> Result<Recipe, SetupError> {
        let plugin = &named.plugin;
        plugin.require(kind).map_err(|error| self.located(error))?;
        let known = plugin
            .descriptor
            .config_schema
            .get("properties")
            .and_then(Value::as_object);
        let mut config = Map::new();
        for (key, value) in offer.as_object().into_iter().flatten() {
            let wanted = known.and_then(|known| known.get(key));
            // `null` stands for no value. It is passed on only if the schema allows it. A plugin that
            // is not built in does not get it for a property with a default, since it would replace
            // the default.
            let null = |wanted: &Value| {
                takes_null(wanted) && (named.is_built_in() || wanted.get("default").is_none())
            };
            if wanted.is_some_and(|wanted| !value.is_null() || null(wanted)) {
                config.insert(key.clone(), value.clone());
            }
        }
        let entry = self.entry(named);
        config.extend(entry.map_or_else(nothing, |entry| entry.config.clone()));
        let config = plugin
            .check_config(&named.name, &Value::Object(config))
            .map_err(|error| self.located(error))?;
        let own = |key: &String| entry.is_some_and(|entry| entry.config.contains_key(key));
        let templates = config.as_object().into_iter().flatten();
        let keys = templates.filter_map(|(key, value)| {
            let text = value.as_str().filter(|_| key.ends_with("_template"))?;
            let key = match own(key) {
                true => format!("plugins.{}.config.{key}", named.name),
                false => format!("model.{key}"),
            };
            Some((text.to_owned(), key))
        });
        Ok(Recipe {
            name: named.name.clone(),
            plugin: plugin.clone(),
            config: config.to_string(),
            limits: self.limits(named, kind, entry),
            seed: seed(self.job.run_id),
            renderer: Some(Arc::new(RunRenderer {
                variables: self.variables.clone(),
                built_in: matches!(plugin.source, Source::BuiltIn(_)),
                keys: keys.collect(),
            })),
            fresh: self.job.fresh_instances,
        })
    }

    /// The plugin's limits. Those of a built-in adapter are at least what the largest response
    /// needs that `model.max_response_bytes` allows, unless its entry sets them.
    fn limits(
        &self,
        named: &NamedPlugin,
        kind: RoleKind,
        entry: Option<&PluginEntry>,
    ) -> PluginLimits {
        let given = entry.map_or(PluginLimits::STANDARD, limits);
        if kind != RoleKind::ModelAdapter || !matches!(named.plugin.source, Source::BuiltIn(_)) {
            return given;
        }
        let room = PluginLimits::for_answers(self.job.config.model.max_response_bytes);
        let is_set = |key: &str| {
            let place = format!("/plugins/{}/{key}", named.name);
            self.job.is_set(&place)
        };
        let larger = |key, given: usize, room: usize| match is_set(key) {
            true => given,
            false => given.max(room),
        };
        PluginLimits {
            deadline: match is_set("deadline_ms") {
                true => given.deadline,
                false => given.deadline.max(room.deadline),
            },
            memory: larger("memory_mb", given.memory, room.memory),
            output: larger("max_output_mb", given.output, room.output),
            log: given.log,
        }
    }
}

/// Whether a property's schema allows `null`.
fn takes_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

/// The seed of the plugins of a run: a function of the run's id, so that a replay can use the same.
fn seed(run_id: &str) -> u64 {
    // FNV-1a.
    run_id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
