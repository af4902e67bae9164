//! From a resolved config to a running agent: plugins are loaded and configured, the provider
//! layer and the executor are made, and all of it is put together for the loop.
//!
//! [`Runtime`] holds what all runs of a process share; [`Runtime::prepare`] makes one run.

mod entries;
mod environment;
mod error;
mod keys;
mod origins;
pub mod outside;
pub mod pins;
mod plugins;
mod replayed;
mod shadows;
mod shell;
mod wiring;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use environment::Wanted;
pub use error::SetupError;
use replayed::Replayed;
pub use wiring::prices;
pub use wiring::seconds;

use crate::config::{self, Config, Layers, Origin};
use crate::executor::{StartupCommand, secrecy};
use crate::history::Chain;
use crate::journal::{Event, FORMAT};
use crate::plugin::{Cache, Loader};
use crate::provider::{self, Http, Secrets};
use crate::roles::{Context, Executor, Front, Object, Progress};
use crate::run::{
    Agent, GlobalAccount, GlobalLimits, LimitError, Limits, Multimodal, Parts, Prompts, Settings,
    Variables,
};
use crate::template::Templates;

/// What all runs of a process share.
pub struct Runtime {
    loader: Loader,
    http: Http,
    templates: Arc<Templates>,
    global: Result<Arc<GlobalAccount>, LimitError>,
}

/// One run to be made.
pub struct Job<'a> {
    /// What to do.
    pub task: &'a str,
    /// The resolved config.
    pub config: &'a Config,
    /// Where its values came from, for messages.
    pub layers: Option<&'a Layers>,
    /// Plugins that take the place of the config's, each in the roles that it has.
    pub plugins: &'a [String],
    /// Plugins that run beside the real ones of their kinds.
    pub shadows: &'a [String],
    /// Hosts that the adapter may reach besides.
    pub allow_hosts: &'a [String],
    /// Build plugins anew for every call.
    pub fresh_instances: bool,
    /// Unique among the runs of this machine.
    pub run_id: &'a str,
    /// The names of the files that are written for this run, as git's glob patterns: they may be
    /// in the repository that is worked on.
    pub own_files: &'a [String],
    /// The program that cleans up after a killed host; see [`crate::executor::guard`].
    pub guard_program: Option<PathBuf>,
}

/// The lock files of the current folder and of the config's folders.
fn locks(layers: Option<&Layers>) -> Result<pins::Locks, SetupError> {
    let folders = layers.into_iter().flat_map(Layers::folders);
    Ok(pins::Locks::of(
        std::iter::once(Path::new(".")).chain(folders),
    )?)
}

impl Job<'_> {
    /// Where a config value was set.
    fn origin(&self, key: &str) -> Option<String> {
        Some(self.layers?.origin_of(key)?.to_string())
    }

    /// Whether somebody has set a config value.
    fn is_set(&self, key: &str) -> bool {
        self.layers.is_some_and(|layers| layers.has(key))
    }
}

impl Runtime {
    /// A runtime; compiled plugins are kept in `cache`.
    pub fn new(cache: Option<Cache>) -> Self {
        Self {
            loader: Loader::new(cache),
            http: Http::new(provider::process_environment()),
            templates: Arc::new(Templates::new()),
            global: GlobalLimits::of_variables(secrecy::var)
                .map(|limits| Arc::new(GlobalAccount::new(limits))),
        }
    }

    /// Loads plugins.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// Makes a run. When this returns, every plugin is loaded and configured, every template
    /// parses, and the journal has its first line; nothing has been started or sent.
    ///
    /// # Errors
    /// When something named in the config can't be used.
    pub async fn prepare(&self, job: Job<'_>, mut context: Context) -> Result<Agent, SetupError> {
        let replayed = Replayed::of(job.config)?;
        let fitted = replayed.as_ref().and_then(|replayed| replayed.fit(&job));
        let config = fitted.as_ref().unwrap_or(job.config);
        let job = Job { config, ..job };
        self.check_templates(&job)?;
        let multimodal = multimodal(&job)?;
        let global = self.global.clone()?;
        let secrets = Arc::new(keys::secrets(config));
        let known_secrets = secret_names(config, &secrets, Vec::new());
        let base = wiring::base_variables(config, job.task);
        let variables = Variables::new(self.templates.clone(), base, config::redacted);
        let variables = Arc::new(if config.mini {
            variables.over(wiring::process_variables(&known_secrets))
        } else {
            variables
        });
        let roles = plugins::Roles {
            runtime: self,
            job: &job,
            context: &context,
            variables: &variables,
            locks: locks(job.layers)?,
            replayed: replayed.as_ref(),
        }
        .make(secrets.clone())
        .await?;
        if let Some(steps) = &roles.steps {
            context.journal = steps.clone();
        }
        // Before the first action: it could read them from this very process.
        let secret_names = secret_names(config, &secrets, roles.secrets);
        secrecy::hide(&secret_names);
        let executor = Wanted {
            config,
            run_id: job.run_id,
            guard_program: job.guard_program.clone(),
            secret_names,
            startup_commands: startup_commands(&job, &variables, context.front.as_ref()).await?,
        }
        .executor()?;
        context
            .journal
            .record(&Event::RunStarted {
                format: FORMAT.to_owned(),
                run_id: job.run_id.to_owned(),
                host_version: env!("CARGO_PKG_VERSION").to_owned(),
                task: job.task.to_owned(),
                config: config.redacted(),
                plugins: Value::Array(roles.report),
            })
            .map_err(SetupError::Journal)?;
        let parts = Parts {
            model: roles.model,
            parser: roles.cast.parser,
            formatter: roles.cast.formatter,
            history: Chain::new(roles.cast.processors),
            policies: roles.cast.policies,
            executor,
            pricing: Arc::new(roles.prices),
            global,
            prompts: Prompts {
                system: config.agent.system_template.clone(),
                instance: config.agent.instance_template.clone(),
                format_error: config.model.format_error_template.clone(),
                variables,
            },
            multimodal,
            onlookers: roles.onlookers,
        };
        Ok(Agent::new(parts, settings(&job), context))
    }

    /// Syntax only: undefined variables show when a template is rendered.
    fn check_templates(&self, job: &Job<'_>) -> Result<(), SetupError> {
        let config = job.config;
        let templates = [
            ("agent.system_template", Some(&config.agent.system_template)),
            (
                "agent.instance_template",
                Some(&config.agent.instance_template),
            ),
            (
                "model.format_error_template",
                Some(&config.model.format_error_template),
            ),
            (
                "model.observation_template",
                config.model.observation_template.as_ref(),
            ),
        ];
        for (key, template) in templates {
            if let Some(template) = template {
                self.templates
                    .check(key, template)
                    .map_err(|error| SetupError::Template {
                        error,
                        origin: job.origin(key),
                    })?;
            }
        }
        Ok(())
    }
}

/// What finds images in messages.
fn multimodal(job: &Job<'_>) -> Result<Option<Multimodal>, SetupError> {
    let config = job.config;
    // What mini-swe-agent asks of a Responses model shows images in the prompts only. Nobody
    // who brings such a config along shall pay for more than there.
    let observations = !(config.mini && wiring::speaks_responses(config));
    Multimodal::new(&config.model.multimodal_regex, observations).map_err(|error| {
        SetupError::Multimodal {
            error,
            origin: job.origin("model.multimodal_regex"),
        }
    })
}

fn settings(job: &Job<'_>) -> Settings {
    let config = job.config;
    let agent = &config.agent;
    let salvage_set_by = job
        .layers
        .and_then(|layers| layers.origin_of("agent.salvage_command"));
    Settings {
        limits: Limits {
            steps: agent.step_limit,
            cost: agent.cost_limit,
            wall_time_seconds: agent.wall_time_limit_seconds,
            consecutive_format_errors: agent.max_consecutive_format_errors,
        },
        action_timeout: seconds(config.environment.timeout),
        salvage_command: agent
            .salvage_command
            .clone()
            .filter(|command| !command.trim().is_empty()),
        salvage_is_explicit: !matches!(
            salvage_set_by,
            None | Some(Origin::BuiltIn | Origin::Preset { .. })
        ),
        salvage_prologue: shell::arguments(
            job.own_files
                .iter()
                .map(|name| format!(":(top,glob)**/{name}")),
        ),
        salvage_timeout: seconds(agent.salvage_timeout),
        warn_unknown_cost: agent.cost_limit > 0.0 && config.model.cost_tracking != "ignore_errors",
        bare_submission: agent.agent_class.as_deref() == Some("default"),
    }
}

/// The names of all secrets that the config, the secrets file and the grants speak of.
fn secret_names(config: &Config, secrets: &Secrets, granted: Vec<String>) -> Vec<String> {
    let providers = config.providers.values();
    let mut names: Vec<String> = config
        .model
        .api_key_env
        .iter()
        .chain(providers.filter_map(|provider| provider.api_key_env.as_ref()))
        .chain(config.plugins.values().flat_map(|entry| &entry.secrets))
        .cloned()
        .chain(secrets.names())
        .chain(granted)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The executor of a config, without a run around it; `startup_commands` are rendered already.
///
/// # Errors
/// When what is asked for can't be.
pub fn executor(
    config: &Config,
    run_id: &str,
    guard_program: Option<PathBuf>,
    startup_commands: Vec<StartupCommand>,
) -> Result<Box<dyn Executor>, SetupError> {
    let wanted = Wanted {
        config,
        run_id,
        guard_program,
        secret_names: Vec::new(),
        startup_commands,
    };
    wanted.executor()
}

/// The commands that make the workspace ready, rendered.
async fn startup_commands(
    job: &Job<'_>,
    variables: &Variables,
    front: &dyn Front,
) -> Result<Vec<StartupCommand>, SetupError> {
    let config = job.config;
    let commands = config.workspace.startup_commands.iter();
    let mut commands: Vec<(&'static str, &String)> = commands
        .map(|command| ("workspace.startup_commands", command))
        .collect();
    let last = config.run.env_startup_command.iter();
    commands.extend(
        last.filter(|command| !command.is_empty())
            .map(|command| ("run.env_startup_command", command)),
    );
    let mut rendered = Vec::new();
    for (key, command) in commands {
        match variables.render(command, &place(config)).await {
            Ok(text) => rendered.push(StartupCommand { text, key }),
            // In mini-swe-agent only batch runs know this key, and what is in its templates.
            Err(error) if config.mini && key == "run.env_startup_command" => {
                front.show(&Progress::Warning(&format!(
                    "`{key}` is left out, it is for batch runs: {}",
                    error.named(key)
                )));
            }
            Err(error) => {
                return Err(SetupError::Template {
                    error: error.named(key),
                    origin: job.origin(key),
                });
            }
        }
    }
    Ok(rendered)
}

/// What templates may say of an environment before it is there.
fn place(config: &Config) -> Object {
    let environment = &config.environment;
    let cwd = match &config.workspace.path {
        Some(path) => path.clone(),
        None => environment.cwd.clone(),
    };
    let env = environment.env.iter();
    let env: Object = env
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    [
        ("cwd", Value::from(cwd)),
        ("timeout", environment.timeout.into()),
        ("env", Value::Object(env)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

/// A run id: time, process and chance, so that it is unique and sorts by time.
pub fn new_run_id() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{:x}-{:x}-{:06x}",
        now.as_millis(),
        std::process::id(),
        fastrand::u32(..1 << 24)
    )
}

/// An empty object, for configs that say nothing.
fn nothing() -> Object {
    Object::new()
}
