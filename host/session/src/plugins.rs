//! Loads the plugins of a run, chooses the role of each, and starts them with their configs and
//! grants.

mod adapter;
mod load;
mod recipe;

use std::sync::Arc;

use mswea_config::{ModelChoice, resolve_model};
use mswea_core::{Context, Model, Onlooker, Parser, Policy, Processor, Progress};
use mswea_laboratory::experiment::{Steps, shadow};
use mswea_plugin_host::{RoleKind, Source, WasmFormatter, WasmParser, WasmPolicy, WasmProcessor};
use mswea_provider::{Grants, Prices, Secrets};
use mswea_run::Variables;
use mswea_tools::Toolset;
use serde_json::{Value, json};

use super::earlier::ASKED;
use super::pins::Locks;
use super::replayed::Replayed;
use super::{Earlier, Job, Runtime, SetupError, wiring};
use load::NamedPlugin;

/// The inputs for making the roles of one run.
pub struct RoleSetup<'a> {
    /// The parts that all runs of the process share.
    pub runtime: &'a Runtime,
    /// The run.
    pub job: &'a Job<'a>,
    /// The run's front and journal.
    pub context: &'a Context,
    /// The variables of the plugins' templates.
    pub variables: &'a Arc<Variables>,
    /// The tools of the model, if there are any.
    pub tools: Option<&'a Toolset>,
    /// The lock files, whose digests the plugins must have.
    pub locks: Locks,
    /// The recorded run that the `replay` adapter repeats, if the model's name names one.
    pub replayed: Option<&'a Replayed>,
}

/// The roles of a run, made of started plugins.
pub struct StartedRoles {
    pub model: Box<dyn Model>,
    /// Parser, formatter, processors and policies.
    pub roles: shadow::RunRoles,
    /// Observers: the plugins of `--shadow`, which get the same calls and change nothing.
    pub onlookers: Vec<Box<dyn Onlooker>>,
    /// The prices of the model's tokens.
    pub prices: Prices,
    /// Names of the secrets that the adapter is granted.
    pub secrets: Vec<String>,
    /// Name, kind, version, digest and grants of each plugin, for the journal.
    pub report: Vec<Value>,
    /// The journal that the run has to write to if there are onlookers: it passes the number of the
    /// current step on to them.
    pub steps: Option<Arc<Steps>>,
}

/// The plugins of `--plugin` and of the config's lists, by role.
struct LoadedPlugins {
    adapter: Option<NamedPlugin>,
    parser: Option<NamedPlugin>,
    formatter: Option<NamedPlugin>,
    processors: Vec<NamedPlugin>,
    policies: Vec<NamedPlugin>,
}

/// The model of a run, and a plugin for each role, not yet configured.
struct ChosenPlugins {
    choice: ModelChoice,
    prices: Prices,
    adapter: NamedPlugin,
    parser: NamedPlugin,
    formatter: NamedPlugin,
    processors: Vec<NamedPlugin>,
    policies: Vec<NamedPlugin>,
}

impl ChosenPlugins {
    fn all(&self) -> Vec<&NamedPlugin> {
        [&self.adapter, &self.parser, &self.formatter]
            .into_iter()
            .chain(&self.processors)
            .chain(&self.policies)
            .collect()
    }
}

/// The history processor that adds the marks for the prompt cache.
const CACHE_CONTROL: &str = "cache_control";

impl RoleSetup<'_> {
    /// Loads, configures and starts the plugins.
    ///
    /// # Errors
    /// [`SetupError`] if a plugin can't be used, if the config names no model or no price for a cost
    /// limit, or if a grant is no host pattern.
    pub async fn make(&self, secrets: Arc<Secrets>) -> Result<StartedRoles, SetupError> {
        let chosen = self.choose().await?;
        self.warn_about_unused(&chosen.all());
        let adapter = &chosen.adapter;
        let (model, grants) = self.model(adapter, &chosen.choice, secrets).await?;
        let mut report = vec![describe(adapter, RoleKind::ModelAdapter, Some(&grants))];

        let parser = &chosen.parser;
        let offer = self.offer(parser, RoleKind::ActionParser);
        let recipe = self.recipe(parser, RoleKind::ActionParser, &offer)?;
        let made = WasmParser::start(recipe).await;
        let made_parser = made.map_err(|error| self.located(error))?;
        report.push(describe(parser, RoleKind::ActionParser, None));
        self.warn_about_prompts(&made_parser);
        self.warn_about_tools(parser);

        let formatter = &chosen.formatter;
        let offer = self.offer(formatter, RoleKind::ObservationFormatter);
        let recipe = self.recipe(formatter, RoleKind::ObservationFormatter, &offer)?;
        let made = WasmFormatter::start(recipe).await;
        let made_formatter = made.map_err(|error| self.located(error))?;
        report.push(describe(formatter, RoleKind::ObservationFormatter, None));

        let mut processors: Vec<Box<dyn Processor>> = Vec::new();
        for plugin in &chosen.processors {
            let offer = self.offer(plugin, RoleKind::HistoryProcessor);
            let recipe = self.recipe(plugin, RoleKind::HistoryProcessor, &offer)?;
            let made = WasmProcessor::start(recipe).await;
            processors.push(Box::new(made.map_err(|error| self.located(error))?));
            report.push(describe(plugin, RoleKind::HistoryProcessor, None));
        }
        let mut policies: Vec<Box<dyn Policy>> = Vec::new();
        for plugin in &chosen.policies {
            let recipe = self.recipe(plugin, RoleKind::ActionPolicy, &Value::Null)?;
            let made = WasmPolicy::start(recipe).await;
            policies.push(Box::new(made.map_err(|error| self.located(error))?));
            report.push(describe(plugin, RoleKind::ActionPolicy, None));
        }
        let made = StartedRoles {
            model,
            roles: shadow::RunRoles {
                parser: Box::new(made_parser),
                formatter: Box::new(made_formatter),
                processors,
                policies,
            },
            onlookers: Vec::new(),
            prices: chosen.prices,
            secrets: grants.secrets,
            report,
            steps: None,
        };
        let made = self.shadow(made).await?;
        if let Some(text) = self.runtime.loader().compiled() {
            self.context.front.show(&Progress::Warning(&text));
        }
        Ok(made)
    }

    /// Chooses the model, and loads a plugin for each role.
    async fn choose(&self) -> Result<ChosenPlugins, SetupError> {
        let config = self.job.config;
        let mut loaded = self.load_all().await?;
        // Loaded before the model's name is resolved, because the name may begin with the adapter's.
        if let (None, Some(adapter)) = (&loaded.adapter, &config.pipeline.adapter) {
            loaded.adapter = Some(self.load(adapter, Some("pipeline.adapter")).await?);
        }
        // An adapter of `--plugin` has precedence over the adapter of the model's prefix.
        let choice = match &loaded.adapter {
            Some(adapter) => {
                let mut config = config.clone();
                config.pipeline.adapter = Some(adapter.name.to_string());
                resolve_model(&config)?
            }
            None => resolve_model(config)?,
        };
        // The last processor, so that it marks the messages that are sent.
        let marks = |named: &NamedPlugin| &*named.plugin.name == CACHE_CONTROL;
        let is_wanted = config.model.set_cache_control.is_some() && !choice.no_cache_marks;
        if is_wanted && !loaded.processors.iter().any(marks) {
            let cache_control = self.load(CACHE_CONTROL, None).await?;
            loaded.processors.push(cache_control);
        }
        let prices = self.prices(&choice)?;
        let pipeline = &config.pipeline;
        Ok(ChosenPlugins {
            adapter: self
                .or_load(loaded.adapter, &choice.adapter, "pipeline.adapter")
                .await?,
            parser: self
                .or_load(loaded.parser, &pipeline.parser, "pipeline.parser")
                .await?,
            formatter: self
                .or_load(loaded.formatter, &pipeline.formatter, "pipeline.formatter")
                .await?,
            processors: loaded.processors,
            policies: loaded.policies,
            choice,
            prices,
        })
    }

    /// The loaded plugin, else the one that the config's key `key` names.
    async fn or_load(
        &self,
        loaded: Option<NamedPlugin>,
        spec: &str,
        key: &str,
    ) -> Result<NamedPlugin, SetupError> {
        match loaded {
            Some(plugin) => Ok(plugin),
            None => self.load(spec, Some(key)).await,
        }
    }

    /// The prices of the model. They are looked up before the first query, so that a cost limit that
    /// can't be enforced is an error before anything has been spent.
    fn prices(&self, choice: &ModelChoice) -> Result<Prices, SetupError> {
        let config = self.job.config;
        if self.job.from.as_ref().is_some_and(Earlier::is_replay) {
            // Nothing is spent.
            let found = wiring::prices(config, choice);
            return Ok(found.map_or(Prices { quote: None }, |found| found.0));
        }
        let (prices, warnings) = wiring::prices(config, choice)?;
        for warning in &warnings {
            self.context.front.show(&Progress::Warning(warning));
        }
        // The preset's limit does not prevent the use of the user's own server, which has no price.
        let asked = self.job.origin("agent.cost_limit").as_deref() != Some("preset default");
        if asked || !choice.own_address {
            wiring::check_price(config, choice, &prices)?;
        }
        Ok(prices)
    }

    /// Loads the plugins of the config and of `--plugin`. A plugin of `--plugin` replaces the adapter,
    /// parser or formatter, or is appended to the processors or policies.
    async fn load_all(&self) -> Result<LoadedPlugins, SetupError> {
        let pipeline = &self.job.config.pipeline;
        let mut loaded = LoadedPlugins {
            adapter: None,
            parser: None,
            formatter: None,
            processors: Vec::new(),
            policies: Vec::new(),
        };
        for spec in &pipeline.processors {
            let plugin = self.load(spec, Some("pipeline.processors")).await?;
            loaded.processors.push(plugin);
        }
        for spec in &pipeline.policies {
            let plugin = self.load(spec, Some("pipeline.policies")).await?;
            loaded.policies.push(plugin);
        }
        for spec in self.job.plugins {
            let mut plugin = self.load(spec, None).await?;
            plugin.asked = Some(spec.clone());
            for kind in &plugin.plugin.kinds {
                let plugin = plugin.clone();
                match kind {
                    RoleKind::ModelAdapter => loaded.adapter = Some(plugin),
                    RoleKind::ActionParser => loaded.parser = Some(plugin),
                    RoleKind::ObservationFormatter => loaded.formatter = Some(plugin),
                    RoleKind::HistoryProcessor => loaded.processors.push(plugin),
                    RoleKind::ActionPolicy => loaded.policies.push(plugin),
                }
            }
        }
        Ok(loaded)
    }

    /// Warns if the parser does not get the commands of the tools.
    fn warn_about_tools(&self, parser: &NamedPlugin) {
        let schema = &parser.plugin.descriptor.config_schema;
        let takes = schema.pointer("/properties/commands").is_some();
        if self
            .tools
            .is_some_and(|tools| tools.names().next().is_some())
            && !takes
        {
            let text = format!(
                "the parser `{}` does not offer the commands of `tools.bundles` to the model, which can run them only in the shell: `pipeline.parser=function_calling` offers them",
                parser.name
            );
            self.context.front.show(&Progress::Warning(&text));
        }
    }

    /// Warns if the parser expects commands in the text, while the default prompts ask for tool calls.
    fn warn_about_prompts(&self, parser: &WasmParser) {
        let of_default =
            self.job.origin("agent.system_template").as_deref() == Some("preset default");
        if of_default && parser.tools().is_empty() && self.replayed.is_none() {
            let text = format!(
                "the parser `{}` reads commands from the text of replies, but the prompts ask for tool calls: `-c text` has prompts that ask for commands in the text",
                Parser::name(parser)
            );
            self.context.front.show(&Progress::Warning(&text));
        }
    }
}

/// The entry of a plugin in the journal's first line.
pub(super) fn describe(named: &NamedPlugin, kind: RoleKind, grants: Option<&Grants>) -> Value {
    let plugin = &named.plugin;
    let mut report = json!({
        "name": &*named.name,
        "plugin": &*plugin.name,
        "kind": kind.to_string(),
        "version": plugin.descriptor.version,
        "contract": plugin.contract,
        "sha256": plugin.digest,
        "source": match &plugin.source {
            Source::BuiltIn(_) => "built-in".to_owned(),
            Source::File(path) => path.display().to_string(),
        },
    });
    if let Some(asked) = &named.asked {
        report[ASKED] = asked.as_str().into();
    }
    if let Some(grants) = grants {
        let hosts: Vec<String> = grants.hosts.iter().map(ToString::to_string).collect();
        report["grants"] = json!({ "hosts": hosts, "secrets": grants.secrets });
    }
    report
}
