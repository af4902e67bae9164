//! Makes a run from its config: its roles, its environment, and the first events of its journal.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::earlier::{Earlier, Others};
use crate::environment::{self, EnvironmentPlan};
use crate::plugins::{RoleSetup, StartedRoles};
use crate::replayed::Replayed;
use crate::wiring::{self, seconds};
use crate::{Job, Runtime, SetupError, keys, locks, shell, toolset};
use mswea_config::{Config, resolve_model};
use mswea_core::Event;
use mswea_core::{Context, Executor, Front, Object, Person, Progress};
use mswea_executor::{StartupCommand, aside};
use mswea_provider::Secrets;
use mswea_record::journal::FORMAT;
use mswea_run::history::Chain;
use mswea_run::{
    ActionSampler, Agent, Demonstration, Multimodal, Parts, Prompts, RunLimits, RunSettings, State,
    TemplateTrial, Variables, bug,
};
use mswea_secrecy as secrecy;
use mswea_tools::Toolset;

impl Runtime {
    /// Makes a run for a journal of the caller; [`run()`](crate::run()) also makes the journal and runs the loop.
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
        context: Context,
        person: Arc<dyn Person>,
        own_files: &[String],
    ) -> Result<Agent, SetupError> {
        let prepared = self.prepared(job, context, person, own_files).await?;
        prepared.begin().await
    }

    /// Like [`Self::prepare`], but without the first line of the journal.
    pub(crate) async fn prepared(
        &self,
        job: Job<'_>,
        mut context: Context,
        person: Arc<dyn Person>,
        own_files: &[String],
    ) -> Result<PreparedRun, SetupError> {
        let replayed = Replayed::of(job.config)?;
        let fitted = replayed.as_ref().and_then(|replayed| replayed.fit(&job));
        let config = fitted.as_ref().unwrap_or(job.config);
        let job = Job { config, ..job };
        self.check_templates(&job)?;
        let multimodal = multimodal(&job)?;
        let global = self.global.clone()?;
        let secrets = Arc::new(keys::secrets(config));
        let tools = toolset::read(&job)?;
        let redacted = config.redacted();
        let variables = self.variables(&job, &redacted, &secrets);
        variables.add(toolset::variables(config, tools.as_ref()));
        let setup = RoleSetup {
            runtime: self,
            job: &job,
            context: &context,
            variables: &variables,
            tools: tools.as_ref(),
            locks: locks(job.layers)?,
            replayed: replayed.as_ref(),
        };
        let (roles, others) = checked_roles(setup, &secrets).await?;
        if let Some(steps) = &roles.steps {
            context.journal = steps.clone();
        }
        // Hidden before the first action, which could read them from this process.
        let secret_names = secret_names(config, &secrets, roles.secrets);
        secrecy::hide(&secret_names);
        let settings = settings(&job, own_files)?;
        let commands = startup_commands(&job, &variables, context.front.as_ref()).await?;
        let inner = environment_of(&job, secret_names, commands, tools.as_ref())?;
        let executor = placed(&job, inner, &others, &settings, own_files)?;
        let (state, first) = beginning(&job, redacted, Value::Array(roles.report));
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
            prompts: prompts(&job, variables)?,
            multimodal,
            onlookers: roles.onlookers,
        };
        let agent = Agent::new(parts, settings, context, state);
        let forked = job.from.as_ref().and_then(Earlier::forked);
        let mut events = vec![first];
        events.extend_from_slice(forked.unwrap_or_default());
        Ok(PreparedRun { agent, events })
    }

    /// Begins to load the plugins that a run most likely needs, while its files are made. Errors are
    /// found later, when the roles are made.
    pub(crate) fn expect_plugins(&self, job: &Job<'_>) {
        let pipeline = &job.config.pipeline;
        let adapter = resolve_model(job.config).ok().map(|choice| choice.adapter);
        // In the order in which they will be loaded.
        let names = pipeline.processors.iter().chain(&pipeline.policies);
        let names = names.chain(job.plugins).chain(&adapter);
        let names = names.chain([&pipeline.parser, &pipeline.formatter]);
        self.loader.expect(names.map(String::as_str));
    }

    /// The variables of the templates; `redacted` is the job's config without secrets.
    pub(crate) fn variables(
        &self,
        job: &Job<'_>,
        redacted: &Value,
        secrets: &Secrets,
    ) -> Arc<Variables> {
        let config = job.config;
        let clean = wiring::config_variables(redacted);
        let variables = Variables::new(self.templates.clone(), clean, mswea_config::redacted);
        for (name, value) in wiring::base_variables(config, job.task) {
            variables.set(&name, value);
        }
        Arc::new(if config.mini {
            let known = secret_names(config, secrets, Vec::new());
            variables.over(wiring::process_variables(&known))
        } else {
            variables
        })
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
                "agent.strategy_template",
                config.agent.strategy_template.as_ref(),
            ),
            (
                "agent.syntax_error_template",
                Some(&config.agent.syntax_error_template),
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
        let sampler = sampler(job)?;
        let of_sampler = sampler.iter().flat_map(ActionSampler::templates);
        let demonstrations = demonstrations(job)?;
        let of_demonstrations = demonstrations.iter().filter_map(|it| match it {
            Demonstration::Template(template) => Some(("agent.demonstrations", &**template)),
            Demonstration::Recorded(_) => None,
        });
        let given = templates.map(|(key, template)| (key, template.map(String::as_str)));
        let more = of_sampler.chain(of_demonstrations);
        let more = more.map(|(key, template)| (key, Some(template)));
        for (key, template) in given.into_iter().chain(more) {
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

/// Makes the roles of the run, and meanwhile searches for other runs in its folder. A continued run
/// or a fork is checked against both.
async fn checked_roles(
    setup: RoleSetup<'_>,
    secrets: &Arc<Secrets>,
) -> Result<(StartedRoles, Others), SetupError> {
    let (job, front) = (setup.job, setup.context.front.clone());
    let looking = async {
        match &job.from {
            Some(earlier) => earlier.others(job.config).await,
            None => Others::default(),
        }
    };
    let (roles, others) = tokio::join!(setup.make(secrets.clone()), looking);
    let roles = roles?;
    if let Some(earlier) = &job.from {
        earlier.check_plugins(&roles.report)?;
        let warning = match earlier.forked() {
            None => others.check_resume()?,
            Some(_) => others.check_fork(),
        };
        if let Some(warning) = warning {
            front.show(&Progress::Warning(&warning));
        }
    }
    Ok((roles, others))
}

/// The environment of the config.
fn environment_of(
    job: &Job<'_>,
    secret_names: Vec<String>,
    startup_commands: Vec<StartupCommand>,
    tools: Option<&Toolset>,
) -> Result<Box<dyn Executor>, SetupError> {
    let process_id = match &job.from {
        Some(earlier) if earlier.forked().is_none() => earlier.process_id(),
        _ => job.run_id.to_owned(),
    };
    let plan = EnvironmentPlan {
        config: job.config,
        run_id: &process_id,
        journal_id: job.run_id,
        guard_program: job.guard_program.clone(),
        secret_names,
        startup_commands,
        tools: tools.map(|tools| (tools, toolset::place(job.config, job.task, job.run_id))),
    };
    plan.executor()
}

/// Wraps the environment to restore the files of the earlier run, if there is one.
fn placed(
    job: &Job<'_>,
    inner: Box<dyn Executor>,
    others: &Others,
    settings: &RunSettings,
    own_files: &[String],
) -> Result<Box<dyn Executor>, SetupError> {
    let Some(earlier) = &job.from else {
        return Ok(inner);
    };
    let on_host = environment::is_on_host(job.config);
    let executor = earlier.place(inner, on_host, others, settings, own_files.to_vec());
    earlier.check_restore(&*executor)?;
    Ok(executor)
}

/// A run whose journal has not begun.
pub(crate) struct PreparedRun {
    agent: Agent,
    events: Vec<Event>,
}

impl PreparedRun {
    /// Records how the run begins, on a thread of its own: the first event also writes the first
    /// trajectory and copies an earlier journal. Once this has begun, it is completed.
    pub(crate) async fn begin(self) -> Result<Agent, SetupError> {
        let begin = move || {
            let mut events = self.events.iter();
            let begun = events.try_for_each(|event| self.agent.begin(event));
            begun.map(|()| self.agent).map_err(SetupError::Journal)
        };
        let begun = aside(begin).await;
        begun.unwrap_or_else(|| Err(SetupError::Internal(bug("the beginning of a run"))))
    }
}

/// The state with which the run begins, and its first event. `redacted` is the config without
/// secrets.
fn beginning(job: &Job<'_>, redacted: Value, plugins: Value) -> (State, Event) {
    match &job.from {
        Some(earlier) if earlier.forked().is_none() => {
            let resumed = Earlier::resumed(redacted, plugins);
            (earlier.state().clone(), resumed)
        }
        _ => (State::default(), started(job, redacted, plugins)),
    }
}

fn prompts(job: &Job<'_>, variables: Arc<Variables>) -> Result<Prompts, SetupError> {
    let config = job.config;
    Ok(Prompts {
        system: config.agent.system_template.clone(),
        instance: config.agent.instance_template.clone(),
        demonstrations: demonstrations(job)?,
        strategy: config.agent.strategy_template.clone(),
        format_error: config.model.format_error_template.clone(),
        syntax_error: config.agent.syntax_error_template.clone(),
        trials: trials(config),
        variables,
    })
}

/// The templates of later messages whose variables are known: those of the plugins that come with the
/// host. Tools have variables of their own.
fn trials(config: &Config) -> Vec<TemplateTrial> {
    let pipeline = &config.pipeline;
    let own = config.plugins.get("jinja").map(|plugin| &plugin.config);
    let own = own.and_then(|config| config.get("observation_template")?.as_str());
    let given = config.model.observation_template.as_deref();
    let observation = match own {
        Some(template) => Some(("plugins.jinja.config.observation_template", template)),
        None => given.map(|template| ("model.observation_template", template)),
    };
    let observation = observation.filter(|_| pipeline.formatter == "jinja");
    let feedback = ["toolcall", "text_regex"].contains(&&*pipeline.parser);
    let format_error = config.model.format_error_template.as_str();
    let feedback = feedback.then_some(("model.format_error_template", format_error));
    let object = |value: Value| match value {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    let output = |output: &str, returncode: i32, exception: &str| {
        let mut output =
            json!({ "output": output, "returncode": returncode, "exception_info": exception });
        if !exception.is_empty() {
            output["extra"] = json!({ "exception_type": "TimeoutExpired", "exception": exception });
        }
        object(json!({ "output": output, "n_model_calls": 1, "model_cost": 1.0 }))
    };
    let problem = |actions: &[&str], reason: &str, has_tool_calls: bool| {
        object(json!({
            "actions": actions, "n_actions": actions.len(), "finish_reason": reason, "error": "an example",
            "code": "example", "has_tool_calls": has_tool_calls, "n_model_calls": 1, "model_cost": 1.0,
        }))
    };
    let observations = vec![
        output("an example\n", 0, ""),
        output(&"an example\n".repeat(2_000), 1, ""),
        output("", -1, "an example"),
    ];
    let problems = vec![
        problem(&[], "stop", false),
        problem(&["ls", "pwd"], "stop", true),
        problem(&[], "length", false),
    ];
    let trials = [(observation, observations), (feedback, problems)];
    let trials = trials.into_iter().filter_map(|(template, examples)| {
        let (key, template) = template?;
        Some(TemplateTrial {
            key: key.to_owned(),
            template: template.to_owned(),
            is_needed: key != "model.format_error_template",
            examples,
        })
    });
    match config.tools.bundles.is_empty() {
        true => trials.collect(),
        false => Vec::new(),
    }
}

fn demonstrations(job: &Job<'_>) -> Result<Vec<Demonstration>, SetupError> {
    let read = Demonstration::of(&job.config.agent.demonstrations);
    read.map_err(bad_value(job, "agent.demonstrations"))
}

fn sampler(job: &Job<'_>) -> Result<Option<ActionSampler>, SetupError> {
    let read = ActionSampler::of(&job.config.agent.action_sampler);
    read.map_err(bad_value(job, "agent.action_sampler"))
}

fn bad_value(job: &Job<'_>, key: &'static str) -> impl FnOnce(String) -> SetupError {
    let origin = job.origin(key);
    move |message| SetupError::Value {
        key,
        message,
        origin,
    }
}

/// The first event of a new run. `redacted` is the config without secrets.
pub(crate) fn started(job: &Job<'_>, redacted: Value, plugins: Value) -> Event {
    Event::RunStarted {
        format: FORMAT.to_owned(),
        run_id: job.run_id.to_owned(),
        host_version: env!("CARGO_PKG_VERSION").to_owned(),
        task: job.task.to_owned(),
        config: redacted,
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

/// The value of `agent.salvage_command` for the patch that this host makes itself.
const OWN_SALVAGE: &str = "@patch";

fn settings(job: &Job<'_>, own_files: &[String]) -> Result<RunSettings, SetupError> {
    let config = job.config;
    let agent = &config.agent;
    let salvage = agent.salvage_command.as_deref();
    Ok(RunSettings {
        sampler: sampler(job)?,
        limits: RunLimits {
            steps: agent.step_limit,
            cost: agent.cost_limit,
            wall_time_seconds: agent.wall_time_limit_seconds,
            consecutive_format_errors: agent.max_consecutive_format_errors,
            consecutive_timeouts: agent.max_consecutive_timeouts,
            execution_seconds: agent.total_execution_timeout,
        },
        rules: toolset::rules(config),
        action_timeout: seconds(config.environment.timeout),
        salvage_command: salvage
            .filter(|command| *command != OWN_SALVAGE)
            .map(str::to_owned),
        salvage_is_explicit: salvage != Some(OWN_SALVAGE),
        salvage_prologue: shell::own_files(own_files),
        salvage_timeout: seconds(agent.salvage_timeout),
        warn_unknown_cost: agent.cost_limit > 0.0 && config.model.cost_tracking != "ignore_errors",
        bare_submission: agent.agent_class.as_deref() == Some("default"),
        ..RunSettings::default()
    })
}

/// The names of all secrets in the config, the secrets file and the grants.
pub(crate) fn secret_names(
    config: &Config,
    secrets: &Secrets,
    granted: Vec<String>,
) -> Vec<String> {
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

/// The rendered commands that prepare the workspace.
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
