//! Makes a run and its record from a resolved config: loads and configures plugins, makes the
//! provider layer and the executor, and passes all parts to the loop.
//!
//! [`Runtime`] has the parts that all runs of a process share; [`run()`] is one run, from its
//! [`Job`] to its end.

mod caught;
mod digests;
mod earlier;
mod entries;
mod environment;
mod error;
mod files;
pub mod index;
mod job;
mod keys;
mod leftovers;
mod origins;
pub mod outside;
pub mod pins;
mod plugins;
mod record;
mod record_error;
mod replay;
mod replayed;
mod run;
mod shadows;
mod shell;
mod sweep;
mod wiring;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use earlier::Others;
pub use earlier::{Earlier, EarlierError, UntrustedRecord};
use environment::EnvironmentPlan;
pub use error::SetupError;
pub use files::{RunFiles, journal_beside, runs_folder, trajectory_beside, trajectory_of};
pub use job::Job;
use record::RunRecord;
pub use record_error::{OutputError, Unwritten};
pub use replay::{Difference, Replay, replay};
use replayed::Replayed;
pub use run::{Done, RunOutcome, Unwatched, run};
use sweep::Sweep;
use tokio::sync::Semaphore;
pub use wiring::prices;
pub use wiring::seconds;

use mswea_config::{Config, Layers, Origin};
use mswea_core::{Context, Executor, Front, Object, Person, Progress};
use mswea_executor::StartupCommand;
use mswea_plugin_host::{Cache, Loader};
use mswea_provider::{Http, Secrets};
use mswea_run::history::Chain;
use mswea_run::journal::{Event, FORMAT};
use mswea_run::{
    Agent, GlobalAccount, GlobalLimits, LimitError, Multimodal, Parts, Prompts, RunLimits,
    RunSettings, State, Variables,
};
use mswea_secrecy as secrecy;
use mswea_template::Templates;

/// How many threads write trajectories at once: each has a whole journal in memory.
const WRITERS: usize = 8;

/// The parts that all runs of a process share: loaded plugins, connections, the common limits.
pub struct Runtime {
    loader: Loader,
    http: Http,
    templates: Arc<Templates>,
    global: Result<Arc<GlobalAccount>, LimitError>,
    /// Permits to write a trajectory.
    writers: Arc<Semaphore>,
    /// The records of the current runs.
    living: Mutex<Vec<Arc<RunRecord>>>,
    /// Removes the leftovers of killed hosts.
    sweep: Option<Sweep>,
}

/// The lock files of the current folder and of the config's folders.
fn locks(layers: Option<&Layers>) -> Result<pins::Locks, SetupError> {
    let folders = layers.into_iter().flat_map(Layers::folders);
    Ok(pins::Locks::of(
        std::iter::once(Path::new(".")).chain(folders),
    )?)
}

impl Runtime {
    /// A runtime; compiled plugins are kept in `cache`.
    pub fn new(cache: Option<Cache>) -> Self {
        Self {
            loader: Loader::new(cache),
            http: Http::new(mswea_provider::process_environment()),
            templates: Arc::new(Templates::new()),
            global: GlobalLimits::of_variables(secrecy::var)
                .map(|limits| Arc::new(GlobalAccount::new(limits))),
            writers: Arc::new(Semaphore::new(WRITERS)),
            living: Mutex::default(),
            sweep: None,
        }
    }

    /// Has the first run remove the processes and folders that killed hosts of this user have left on
    /// this machine, on a thread of its own.
    #[must_use]
    pub fn sweeping(self) -> Self {
        Self {
            sweep: Some(Sweep::new()),
            ..self
        }
    }

    /// Loads plugins.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// Makes a run for a journal of the caller; [`run()`] also makes the journal and runs the loop.
    /// When this returns, every plugin is loaded and configured, every template parses, and the
    /// journal has its first line; nothing has been started or sent.
    ///
    /// `own_files` are the names of the files that are written for this run, as git's glob
    /// patterns: they may be in the repository of the run.
    ///
    /// # Errors
    /// [`SetupError`] if a part of the config can't be used.
    pub async fn prepare(
        &self,
        job: Job<'_>,
        mut context: Context,
        person: Arc<dyn Person>,
        own_files: &[String],
    ) -> Result<Agent, SetupError> {
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
        let variables = Variables::new(self.templates.clone(), base, mswea_config::redacted);
        let variables = Arc::new(if config.mini {
            variables.over(wiring::process_variables(&known_secrets))
        } else {
            variables
        });
        let setup = plugins::RoleSetup {
            runtime: self,
            job: &job,
            context: &context,
            variables: &variables,
            locks: locks(job.layers)?,
            replayed: replayed.as_ref(),
        };
        let making = setup.make(secrets.clone());
        let looking = async {
            match &job.from {
                Some(earlier) => earlier.others(config).await,
                None => Others::default(),
            }
        };
        let (roles, others) = tokio::join!(making, looking);
        let roles = roles?;
        if let Some(earlier) = &job.from {
            earlier.check_plugins(&roles.report)?;
            let warning = match earlier.forked() {
                None => others.check_resume()?,
                Some(_) => others.check_fork(),
            };
            if let Some(warning) = warning {
                context.front.show(&Progress::Warning(&warning));
            }
        }
        if let Some(steps) = &roles.steps {
            context.journal = steps.clone();
        }
        // Before the first action, which could read them from this process.
        let secret_names = secret_names(config, &secrets, roles.secrets);
        secrecy::hide(&secret_names);
        let process_id = match &job.from {
            Some(earlier) if earlier.forked().is_none() => earlier.process_id(),
            _ => job.run_id.to_owned(),
        };
        let executor = EnvironmentPlan {
            config,
            run_id: &process_id,
            journal_id: job.run_id,
            guard_program: job.guard_program.clone(),
            secret_names,
            startup_commands: startup_commands(&job, &variables, context.front.as_ref()).await?,
        }
        .executor()?;
        let settings = settings(&job, own_files);
        let executor = match &job.from {
            Some(earlier) => earlier.place(
                executor,
                environment::is_on_host(config),
                &others,
                &settings,
                own_files.to_vec(),
            ),
            None => executor,
        };
        if let Some(earlier) = &job.from {
            earlier.check_restore(&*executor)?;
        }
        let plugins = Value::Array(roles.report);
        let (state, first) = match &job.from {
            Some(earlier) if earlier.forked().is_none() => {
                let resumed = Earlier::resumed(config.redacted(), plugins);
                (earlier.state().clone(), resumed)
            }
            _ => (State::default(), started(&job, plugins)),
        };
        let parts = Parts {
            model: roles.model,
            parser: roles.roles.parser,
            formatter: roles.roles.formatter,
            history: Chain::new(roles.roles.processors),
            policies: roles.roles.policies,
            executor,
            person,
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
        let agent = Agent::new(parts, settings, context, state);
        agent.begin(&first).map_err(SetupError::Journal)?;
        for event in job
            .from
            .as_ref()
            .and_then(Earlier::forked)
            .unwrap_or_default()
        {
            agent.begin(event).map_err(SetupError::Journal)?;
        }
        Ok(agent)
    }

    /// Checks only the syntax: undefined variables are found when a template is rendered.
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

/// The first event of a new run.
fn started(job: &Job<'_>, plugins: Value) -> Event {
    Event::RunStarted {
        format: FORMAT.to_owned(),
        run_id: job.run_id.to_owned(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
        task: job.task.to_owned(),
        config: job.config.redacted(),
        plugins,
        parent: job.from.as_ref().and_then(Earlier::parent),
    }
}

/// The search for images in messages.
fn multimodal(job: &Job<'_>) -> Result<Option<Multimodal>, SetupError> {
    let config = job.config;
    // With a Responses model, mini-swe-agent sends only the images in prompts. With a config of
    // mini-swe-agent this host does the same, so that a run does not cost more.
    let observations = !(config.mini && wiring::speaks_responses(config));
    Multimodal::new(&config.model.multimodal_regex, observations).map_err(|error| {
        SetupError::Multimodal {
            error,
            origin: job.origin("model.multimodal_regex"),
        }
    })
}

fn settings(job: &Job<'_>, own_files: &[String]) -> RunSettings {
    let config = job.config;
    let agent = &config.agent;
    let salvage_set_by = job
        .layers
        .and_then(|layers| layers.origin_of("agent.salvage_command"));
    RunSettings {
        limits: RunLimits {
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
        salvage_prologue: shell::own_files(own_files),
        salvage_timeout: seconds(agent.salvage_timeout),
        warn_unknown_cost: agent.cost_limit > 0.0 && config.model.cost_tracking != "ignore_errors",
        bare_submission: agent.agent_class.as_deref() == Some("default"),
        ..RunSettings::default()
    }
}

/// The names of all secrets in the config, the secrets file and the grants.
fn secret_names(config: &Config, secrets: &Secrets, granted: Vec<String>) -> Vec<String> {
    let providers = config.providers.values();
    let mut names: Vec<String> = config
        .model
        .api_key_env
        .iter()
        .chain(providers.filter_map(|provider| provider.api_key_env.as_ref()))
        .chain(config.plugins.values().flat_map(|entry| &entry.secrets))
        .chain(&config.environment.token_env)
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
/// [`SetupError`] if the environment can't be made.
pub fn executor(
    config: &Config,
    run_id: &str,
    guard_program: Option<PathBuf>,
    startup_commands: Vec<StartupCommand>,
) -> Result<Box<dyn Executor>, SetupError> {
    let wanted = EnvironmentPlan {
        config,
        run_id,
        journal_id: run_id,
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
            // In mini-swe-agent only batch runs use this key, and its templates have variables of
            // batch runs.
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

/// The variables of templates about an environment that is not started yet.
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

/// A run id, made of the time, the process id and a random number, so that it is unique and sorts
/// by time.
pub fn new_run_id() -> String {
    /// The number of ids so far, so that this process makes no id twice.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{:x}-{:x}-{:06x}",
        now.as_millis(),
        std::process::id(),
        (fastrand::u32(..1 << 8) << 16) | (count & 0xffff)
    )
}

/// An empty object, for configs without keys.
fn nothing() -> Object {
    Object::new()
}
