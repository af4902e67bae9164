//! Which plugin takes which role, what each is told, and what it is granted.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::entries::{self, Tie};
use super::pins::Locks;
use super::replayed::{REPLAY, Replayed};
use super::{Job, Runtime, SetupError, keys, nothing, origins, wiring};
use crate::config::{ModelChoice, PluginEntry, WireKwargs, resolve_model};
use crate::experiment::{Steps, shadow};
use crate::plugin::{
    Kind, Limits, LoadError, Plugin, Recipe, Renderer, Source, WasmAdapter, WasmFormatter,
    WasmParser, WasmPolicy, WasmProcessor, builtin,
};
use crate::provider::{Grants, HostPattern, Prices, ProviderModel, Secrets};
use crate::roles::{
    Adapter, Context, Model, Object, Onlooker, Parser, PluginFault, Policy, Processor, Progress,
};
use crate::run::Variables;

/// A compilation that takes longer than this is said.
const SLOW: std::time::Duration = std::time::Duration::from_millis(300);

/// Makes the roles of one run.
pub struct Roles<'a> {
    /// What all runs share.
    pub runtime: &'a Runtime,
    /// The run.
    pub job: &'a Job<'a>,
    /// Front and journal.
    pub context: &'a Context,
    /// For the plugins' templates.
    pub variables: &'a Arc<Variables>,
    /// Which digests must be found.
    pub locks: Locks,
    /// The recorded run that is played, if the model's name says so.
    pub replayed: Option<&'a Replayed>,
}

/// The roles, made.
pub struct Made {
    pub model: Box<dyn Model>,
    /// Parser, formatter, processors and policies.
    pub cast: shadow::Cast,
    /// Those who look on.
    pub onlookers: Vec<Box<dyn Onlooker>>,
    /// What the model's replies cost.
    pub prices: Prices,
    /// Names of the secrets that were granted.
    pub secrets: Vec<String>,
    /// Name, kind, version, digest and grants of each, for the journal.
    pub report: Vec<Value>,
    /// The journal that the run has to write through, if somebody looks on.
    pub steps: Option<Arc<Steps>>,
}

/// A plugin under the name that the config has for it: the key of its `[plugins.NAME]` entry
/// (one plugin may have several, with different configs), else the name that it gives itself.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) name: Arc<str>,
    pub(super) plugin: Arc<Plugin>,
    /// The entry that it has.
    tie: Tie,
}

impl Actor {
    fn is_built_in(&self) -> bool {
        matches!(self.plugin.source, Source::BuiltIn(_))
    }
}

/// The plugins by role, before they are configured.
struct Cast {
    adapter: Option<Actor>,
    parser: Option<Actor>,
    formatter: Option<Actor>,
    processors: Vec<Actor>,
    policies: Vec<Actor>,
}

/// The history processor that marks what may be cached.
const CACHE_CONTROL: &str = "cache_control";

/// Lets guests render templates with the run's variables.
struct RunRenderer {
    variables: Arc<Variables>,
    /// Whether it is one of ours that asks.
    built_in: bool,
    /// Templates of its config, each with the key that users have for it.
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

impl Roles<'_> {
    /// Loads, configures and grants.
    pub async fn make(&self, secrets: Arc<Secrets>) -> Result<Made, SetupError> {
        let config = self.job.config;
        let mut cast = self.cast().await?;
        // Before the model's name: it may begin with the adapter's.
        if let (None, Some(adapter)) = (&cast.adapter, &config.pipeline.adapter) {
            cast.adapter = Some(self.load(adapter, Some("pipeline.adapter")).await?);
        }
        // What `--plugin` brought decides the adapter before the model's prefix does.
        let choice = match &cast.adapter {
            Some(adapter) => {
                let mut config = config.clone();
                config.pipeline.adapter = Some(adapter.name.to_string());
                resolve_model(&config)?
            }
            None => resolve_model(config)?,
        };
        // Last, so that it sees what is sent.
        let marks = |actor: &Actor| &*actor.plugin.name == CACHE_CONTROL;
        let is_wanted = config.model.set_cache_control.is_some() && !choice.no_cache_marks;
        if is_wanted && !cast.processors.iter().any(marks) {
            cast.processors.push(self.load(CACHE_CONTROL, None).await?);
        }
        let prices = self.prices(&choice)?;
        let adapter = match cast.adapter {
            Some(adapter) => adapter,
            None => self.load(&choice.adapter, Some("pipeline.adapter")).await?,
        };
        let parser = match cast.parser {
            Some(parser) => parser,
            None => {
                self.load(&config.pipeline.parser, Some("pipeline.parser"))
                    .await?
            }
        };
        let formatter = match cast.formatter {
            Some(formatter) => formatter,
            None => {
                self.load(&config.pipeline.formatter, Some("pipeline.formatter"))
                    .await?
            }
        };
        let everyone: Vec<&Actor> = [&adapter, &parser, &formatter]
            .into_iter()
            .chain(&cast.processors)
            .chain(&cast.policies)
            .collect();
        self.warn_about_unused(&everyone);
        let mut report = Vec::new();
        let (model, grants) = self.model(&adapter, &choice, secrets).await?;
        report.push(describe(&adapter, Kind::ModelAdapter, Some(&grants)));

        let offer = self.offer(&parser, Kind::ActionParser);
        let recipe = self.recipe(&parser, Kind::ActionParser, &offer)?;
        let made_parser = WasmParser::start(recipe)
            .await
            .map_err(|error| self.located(error))?;
        report.push(describe(&parser, Kind::ActionParser, None));
        self.warn_about_prompts(&made_parser);

        let offer = self.offer(&formatter, Kind::ObservationFormatter);
        let recipe = self.recipe(&formatter, Kind::ObservationFormatter, &offer)?;
        let made_formatter = WasmFormatter::start(recipe)
            .await
            .map_err(|error| self.located(error))?;
        report.push(describe(&formatter, Kind::ObservationFormatter, None));

        let mut processors: Vec<Box<dyn Processor>> = Vec::new();
        for plugin in &cast.processors {
            let offer = self.offer(plugin, Kind::HistoryProcessor);
            let recipe = self.recipe(plugin, Kind::HistoryProcessor, &offer)?;
            let made = WasmProcessor::start(recipe).await;
            processors.push(Box::new(made.map_err(|error| self.located(error))?));
            report.push(describe(plugin, Kind::HistoryProcessor, None));
        }
        let mut policies: Vec<Box<dyn Policy>> = Vec::new();
        for plugin in &cast.policies {
            let recipe = self.recipe(plugin, Kind::ActionPolicy, &Value::Null)?;
            let made = WasmPolicy::start(recipe).await;
            policies.push(Box::new(made.map_err(|error| self.located(error))?));
            report.push(describe(plugin, Kind::ActionPolicy, None));
        }
        let made = Made {
            model,
            cast: shadow::Cast {
                parser: Box::new(made_parser),
                formatter: Box::new(made_formatter),
                processors,
                policies,
            },
            onlookers: Vec::new(),
            prices,
            secrets: grants.secrets,
            report,
            steps: None,
        };
        self.shadow(made).await
    }

    /// What the model costs. Before anything is sent: a limit that can't be kept is told
    /// before it is paid for.
    fn prices(&self, choice: &ModelChoice) -> Result<Prices, SetupError> {
        let config = self.job.config;
        let (prices, warnings) = wiring::prices(config, choice)?;
        for warning in &warnings {
            self.context.front.show(&Progress::Warning(warning));
        }
        // A limit that nobody has asked for does not keep anybody from a server of their own.
        let asked = self.job.origin("agent.cost_limit").as_deref() != Some("preset default");
        if asked || !choice.own_address {
            wiring::check_price(config, choice, &prices)?;
        }
        Ok(prices)
    }

    /// Who plays what: `--plugin` takes the role of its kind, or joins the list of its kind.
    async fn cast(&self) -> Result<Cast, SetupError> {
        let pipeline = &self.job.config.pipeline;
        let mut cast = Cast {
            adapter: None,
            parser: None,
            formatter: None,
            processors: Vec::new(),
            policies: Vec::new(),
        };
        for spec in &pipeline.processors {
            let plugin = self.load(spec, Some("pipeline.processors")).await?;
            cast.processors.push(plugin);
        }
        for spec in &pipeline.policies {
            let plugin = self.load(spec, Some("pipeline.policies")).await?;
            cast.policies.push(plugin);
        }
        for spec in self.job.plugins {
            let plugin = self.load(spec, None).await?;
            for kind in &plugin.plugin.kinds {
                let plugin = plugin.clone();
                match kind {
                    Kind::ModelAdapter => cast.adapter = Some(plugin),
                    Kind::ActionParser => cast.parser = Some(plugin),
                    Kind::ObservationFormatter => cast.formatter = Some(plugin),
                    Kind::HistoryProcessor => cast.processors.push(plugin),
                    Kind::ActionPolicy => cast.policies.push(plugin),
                }
            }
        }
        Ok(cast)
    }

    pub(super) async fn load(&self, spec: &str, key: Option<&str>) -> Result<Actor, SetupError> {
        let entries = &self.job.config.plugins;
        let loader = self.runtime.loader();
        let unusable = |error| SetupError::Plugin {
            error,
            origin: key.and_then(|key| self.job.origin(key)),
        };
        let path = entries.get(spec).and_then(|entry| entry.path.as_deref());
        let found = match path {
            Some(path) => loader.find_file(Path::new(path)),
            None => loader.find(spec),
        }
        .map_err(unusable)?;
        // Everything that is known of the right one is asked before anything of this one is
        // compiled or run.
        let naming = entries::naming(entries, spec, &found).map_err(|error| self.located(error))?;
        self.locks
            .check(&found.source, &found.label, &found.digest)?;
        let allowed = naming.first().map(|key| limits(&entries[*key]));
        let allowed = allowed.unwrap_or(Limits::STANDARD);
        let plugin = loader.load_found(found, &allowed).await.map_err(unusable)?;
        let tie = entries::tie(entries, &naming, &plugin.source, &plugin.name);
        let name = match &tie {
            Tie::Named(key) => key.as_str().into(),
            _ => plugin.name.clone(),
        };
        let actor = Actor { name, plugin, tie };
        if let Tie::Called(key) = &actor.tie {
            let entry = &entries[key];
            // A digest that names another.
            actor
                .plugin
                .pinned(key, entry.sha256.as_deref())
                .map_err(|error| self.located(error))?;
            if !(entry.allow_hosts.is_empty() && entry.secrets.is_empty()) {
                let text = format!(
                    "`plugins.{key}` grants hosts or secrets and names no file: `{}` calls itself so, and gets none of them; if it is the one, put `path = \"{}\"` (or its `sha256`) into the entry",
                    file(&actor.plugin),
                    file(&actor.plugin),
                );
                self.context.front.show(&Progress::Warning(&text));
            }
        }
        if let Some(before) = &actor.plugin.changed_from {
            let short = |digest: &str| digest.get(..12).unwrap_or(digest).to_owned();
            tracing::info!(
                "plugin `{}` has changed since it was last used: sha256 {} is now {}",
                actor.name,
                short(before),
                short(&actor.plugin.digest)
            );
        }
        if let Some(took) = actor.plugin.take_compile_time().filter(|took| *took > SLOW) {
            let text = format!(
                "plugin `{}` was compiled in {:.1} s; {}",
                actor.name,
                took.as_secs_f64(),
                loader.next_time()
            );
            self.context.front.show(&Progress::Warning(&text));
        }
        Ok(actor)
    }

    /// The entry of an actor.
    fn entry(&self, actor: &Actor) -> Option<&PluginEntry> {
        self.job.config.plugins.get(actor.tie.key()?)
    }

    /// An entry that no plugin of this run bears is most likely a slip of the pen.
    fn warn_about_unused(&self, cast: &[&Actor]) {
        for (name, entry) in &self.job.config.plugins {
            let used = cast.iter().any(|actor| actor.tie.key() == Some(name));
            if used || entry.path.is_some() || builtin::find(name).is_some() {
                continue;
            }
            let near = builtin::all()
                .iter()
                .map(|builtin| builtin.name)
                .chain(cast.iter().map(|actor| &*actor.name))
                .map(|known| (strsim::jaro_winkler(known, name), known))
                .filter(|(score, _)| *score > 0.8)
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .map_or_else(String::new, |(_, near)| format!(": did you mean `{near}`?"));
            let text = format!("`plugins.{name}` has no effect, no plugin has that name{near}");
            self.context.front.show(&Progress::Warning(&text));
        }
    }

    /// Says where a wrong plugin config was written.
    fn located(&self, error: LoadError) -> SetupError {
        let origin = match &error {
            LoadError::Config {
                plugin, pointer, ..
            } => self.job.layers.and_then(|layers| {
                origins::of_plugin_value(layers, self.job.config, plugin, pointer)
            }),
            // What `--plugin` brings is given the roles that it has, so the config is at fault.
            LoadError::WrongKind { wanted, .. } => self.job.origin(match wanted {
                Kind::ModelAdapter => "pipeline.adapter",
                Kind::ActionParser => "pipeline.parser",
                Kind::ObservationFormatter => "pipeline.formatter",
                Kind::HistoryProcessor => "pipeline.processors",
                Kind::ActionPolicy => "pipeline.policies",
            }),
            LoadError::Digest { plugin, .. } => {
                self.job.origin(&format!("/plugins/{plugin}/sha256"))
            }
            _ => None,
        };
        SetupError::Plugin { error, origin }
    }

    /// What the rest of the config has for a plugin in this role.
    pub(super) fn offer(&self, actor: &Actor, kind: Kind) -> Value {
        let model = &self.job.config.model;
        match kind {
            Kind::ActionParser => json!({ "action_regex": model.action_regex }),
            Kind::ObservationFormatter => {
                json!({ "observation_template": model.observation_template })
            }
            // Under its own name for where the marks go, which others may give a meaning too.
            Kind::HistoryProcessor
                if matches!(actor.plugin.source, Source::BuiltIn(_))
                    && &*actor.plugin.name == CACHE_CONTROL =>
            {
                json!({ "mode": model.set_cache_control })
            }
            _ => Value::Null,
        }
    }

    /// A plugin with its config: what the host offers to plugins whose schema has a property
    /// of that name, and the user's own `[plugins.NAME.config]` over it.
    pub(super) fn recipe(
        &self,
        actor: &Actor,
        kind: Kind,
        offer: &Value,
    ) -> Result<Recipe, SetupError> {
        let plugin = &actor.plugin;
        plugin.require(kind).map_err(|error| self.located(error))?;
        let known = plugin
            .descriptor
            .config_schema
            .get("properties")
            .and_then(Value::as_object);
        let mut config = Map::new();
        for (key, value) in offer.as_object().into_iter().flatten() {
            let wanted = known.and_then(|known| known.get(key));
            // No value is offered as `null` only where the schema has a word for that, and to a
            // plugin of others only where that takes nothing away from a default of its own.
            let null = |wanted: &Value| {
                takes_null(wanted) && (actor.is_built_in() || wanted.get("default").is_none())
            };
            if wanted.is_some_and(|wanted| !value.is_null() || null(wanted)) {
                config.insert(key.clone(), value.clone());
            }
        }
        let entry = self.entry(actor);
        config.extend(entry.map_or_else(nothing, |entry| entry.config.clone()));
        let config = plugin
            .check_config(&actor.name, &Value::Object(config))
            .map_err(|error| self.located(error))?;
        let own = |key: &String| entry.is_some_and(|entry| entry.config.contains_key(key));
        let templates = config.as_object().into_iter().flatten();
        let keys = templates.filter_map(|(key, value)| {
            let text = value.as_str().filter(|_| key.ends_with("_template"))?;
            let key = match own(key) {
                true => format!("plugins.{}.config.{key}", actor.name),
                false => format!("model.{key}"),
            };
            Some((text.to_owned(), key))
        });
        Ok(Recipe {
            name: actor.name.clone(),
            plugin: plugin.clone(),
            config: config.to_string(),
            limits: self.limits(actor, kind, entry),
            seed: seed(self.job.run_id),
            renderer: Some(Arc::new(RunRenderer {
                variables: self.variables.clone(),
                built_in: matches!(plugin.source, Source::BuiltIn(_)),
                keys: keys.collect(),
            })),
            fresh: self.job.fresh_instances,
        })
    }

    /// A built-in adapter gets the room that the largest answer takes which may be read at all,
    /// unless its entry says how much it gets.
    fn limits(&self, actor: &Actor, kind: Kind, entry: Option<&PluginEntry>) -> Limits {
        let given = entry.map_or(Limits::STANDARD, limits);
        if kind != Kind::ModelAdapter || !matches!(actor.plugin.source, Source::BuiltIn(_)) {
            return given;
        }
        let room = Limits::for_answers(self.job.config.model.max_response_bytes);
        let is_set = |key: &str| {
            let place = format!("/plugins/{}/{key}", actor.name);
            self.job.is_set(&place)
        };
        let larger = |key, given: usize, room: usize| match is_set(key) {
            true => given,
            false => given.max(room),
        };
        Limits {
            deadline: match is_set("deadline_ms") {
                true => given.deadline,
                false => given.deadline.max(room.deadline),
            },
            memory: larger("memory_mb", given.memory, room.memory),
            output: larger("max_output_mb", given.output, room.output),
            log: given.log,
        }
    }

    async fn model(
        &self,
        actor: &Actor,
        choice: &ModelChoice,
        secrets: Arc<Secrets>,
    ) -> Result<(Box<dyn Model>, Grants), SetupError> {
        let config = self.job.config;
        let built_in = actor.is_built_in();
        let key = keys::of_model(choice, &secrets);
        let kwargs = WireKwargs::of(config, built_in);
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
            "model_kwargs": kwargs.parameters,
            "api_key": key,
            "auth_header": choice.auth_header,
            "headers": pairs(&headers),
            "secret_headers": pairs(&choice.secret_headers),
            "api": choice.api,
        });
        if built_in && &*actor.plugin.name == REPLAY {
            offer = match self.replayed {
                Some(replayed) => replayed.offer.clone(),
                None => Replayed::read(config, choice)?.offer,
            };
        }
        let recipe = self.recipe(actor, Kind::ModelAdapter, &offer)?;
        let own: Value = serde_json::from_str(&recipe.config).unwrap_or_default();
        let grants = self.grants(actor, choice, key, &own)?;
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
            &*actor.name,
            grants.clone(),
            secrets,
            keys::http(config, &self.runtime.http)?,
            wiring::provider_settings(config, self.job.is_set("model.network_retries")),
        );
        Ok((Box::new(model), grants))
    }

    /// First-party adapters may reach the configured server and use the configured key; all
    /// else has to be granted by name.
    fn grants(
        &self,
        actor: &Actor,
        choice: &ModelChoice,
        key: Option<String>,
        own: &Value,
    ) -> Result<Grants, SetupError> {
        let mut hosts: Vec<String> = self.job.allow_hosts.to_vec();
        let mut secrets = Vec::new();
        let named = matches!(actor.tie, Tie::Named(_));
        let entry = self.entry(actor).filter(|_| named);
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
            // What a plugin of others takes for an address is its own business.
            Err(_) if !actor.is_built_in() => None,
            base_url => base_url?,
        };
        let plain_http = keys::plain_http(config, choice, entry, base_url.as_ref())?;
        if actor.is_built_in() {
            let (name, key_name, url) = (&*actor.name, key.as_deref(), base_url.as_ref());
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
            unnamed: (!named && matches!(actor.plugin.source, Source::File(_)))
                .then(|| file(&actor.plugin)),
        })
    }

    /// A text parser under prompts that speak of tool calls (or the reverse) never works.
    fn warn_about_prompts(&self, parser: &WasmParser) {
        let of_default =
            self.job.origin("agent.system_template").as_deref() == Some("preset default");
        if of_default && parser.tools().is_empty() && self.replayed.is_none() {
            let text = format!(
                "the parser `{}` finds commands in the text of a reply, but the prompts are those for tool calls: `-c text` has prompts that ask for text",
                Parser::name(parser)
            );
            self.context.front.show(&Progress::Warning(&text));
        }
    }
}

/// Where a plugin is, as a config has it.
fn file(plugin: &Plugin) -> String {
    match &plugin.source {
        Source::File(path) => path.display().to_string(),
        Source::BuiltIn(_) => plugin.name.to_string(),
    }
}

/// An object of these texts; null for none, so that a plugin's own default holds.
fn pairs(pairs: &[(String, String)]) -> Value {
    if pairs.is_empty() {
        return Value::Null;
    }
    let entries = pairs
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()));
    Value::Object(entries.collect())
}

/// Whether a property's schema allows `null`.
fn takes_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

fn limits(entry: &PluginEntry) -> Limits {
    let bytes = |count: u64, unit: u32| {
        usize::try_from(count.saturating_mul(1 << unit)).unwrap_or(usize::MAX)
    };
    Limits {
        deadline: std::time::Duration::from_millis(entry.deadline_ms),
        memory: bytes(entry.memory_mb, 20),
        output: bytes(entry.max_output_mb, 20),
        log: bytes(entry.log_kb, 10),
    }
}

/// The seed of a run's guests: a function of its id, so that a replay can have the same.
fn seed(run_id: &str) -> u64 {
    // FNV-1a.
    run_id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(super) fn describe(actor: &Actor, kind: Kind, grants: Option<&Grants>) -> Value {
    let plugin = &actor.plugin;
    let mut report = json!({
        "name": &*actor.name,
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
    if let Some(grants) = grants {
        let hosts: Vec<String> = grants.hosts.iter().map(ToString::to_string).collect();
        report["grants"] = json!({ "hosts": hosts, "secrets": grants.secrets });
    }
    report
}
