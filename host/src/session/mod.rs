//! From a resolved config to a running agent: plugins are loaded and configured, the provider
//! layer and the executor are made, and all of it is put together for the loop.
//!
//! [`Runtime`] holds what all runs of a process share; [`Runtime::prepare`] makes one run.

mod error;
mod origins;
mod plugins;
mod shell;
mod wiring;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

pub use error::SetupError;
pub use wiring::prices;
pub use wiring::seconds;

use crate::config::{Config, Layers};
use crate::executor::{self, LocalSettings, secrecy};
use crate::history::Chain;
use crate::journal::{Event, FORMAT};
use crate::plugin::{Cache, Loader};
use crate::provider::{self, Http, Secrets};
use crate::roles::{Context, Object};
use crate::run::{
    Agent, GlobalAccount, GlobalLimits, LimitError, Limits, MARK, Multimodal, Parts, Prompts,
    Settings, Variables,
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
    /// Hosts that the adapter may reach besides.
    pub allow_hosts: &'a [String],
    /// Build plugins anew for every call.
    pub fresh_instances: bool,
    /// Unique among the runs of this machine.
    pub run_id: &'a str,
    /// The program that cleans up after a killed host; see [`executor::guard`].
    pub guard_program: Option<PathBuf>,
}

impl Job<'_> {
    /// Where a config value was set.
    fn origin(&self, key: &str) -> Option<String> {
        Some(self.layers?.origin_of(key)?.to_string())
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
    pub async fn prepare(&self, job: Job<'_>, context: Context) -> Result<Agent, SetupError> {
        let config = job.config;
        executor::check_class(&config.environment.environment_class)
            .map_err(|error| SetupError::Environment(error.message))?;
        self.check_templates(&job)?;
        let multimodal = multimodal(&job)?;
        let global = self.global.clone()?;
        let secrets = Arc::new(Secrets::new(
            provider::process_environment(),
            config.model.secrets_file.as_ref().map(PathBuf::from),
        ));
        let known_secrets = secret_names(config, &secrets, Vec::new());
        let base = wiring::base_variables(config, job.task);
        let variables = Variables::new(self.templates.clone(), base);
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
        }
        .make(secrets.clone())
        .await?;
        // Before the first action: it could read them from this very process.
        let secret_names = secret_names(config, &secrets, roles.secrets);
        secrecy::hide(&secret_names);
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
            parser: roles.parser,
            formatter: roles.formatter,
            history: Chain::new(roles.processors),
            policies: roles.policies,
            executor: executor::local(local_settings(&job, secret_names)),
            pricing: Arc::new(roles.prices),
            global,
            prompts: Prompts {
                system: config.agent.system_template.clone(),
                instance: config.agent.instance_template.clone(),
                format_error: config.model.format_error_template.clone(),
                variables,
            },
            multimodal,
        };
        Ok(Agent::new(parts, settings(config), context))
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

fn settings(config: &Config) -> Settings {
    let agent = &config.agent;
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

fn local_settings(job: &Job<'_>, secret_names: Vec<String>) -> LocalSettings {
    let environment = &job.config.environment;
    let standard = LocalSettings::default();
    let mut env_allow = standard.env_allow.clone();
    env_allow.extend(environment.env_allow.iter().cloned());
    LocalSettings {
        cwd: Some(PathBuf::from(&environment.cwd)).filter(|cwd| !cwd.as_os_str().is_empty()),
        env: environment.env.clone(),
        timeout: seconds(environment.timeout),
        interpreter: shell::interpreter(environment),
        env_allow,
        secret_names,
        capture_bytes: usize::try_from(environment.capture_bytes).unwrap_or(usize::MAX),
        whole_after: Some(MARK.to_owned()),
        run_id: job.run_id.to_owned(),
        grace: standard.grace,
        guard_program: job.guard_program.clone(),
    }
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
