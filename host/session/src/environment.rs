//! Makes the executor that the config's sections `environment` and `workspace` describe.

use std::path::{Path, PathBuf};

use super::error::SetupError;
use super::shell;
use super::toolset;
use super::wiring::seconds;
use mswea_config::{
    Config, EnvironmentClass, EnvironmentKind, environment_class, is_credential_value,
};
use mswea_core::Executor;
use mswea_core::MARK;
use mswea_executor::command::{PassedVariables, command_executor};
use mswea_executor::remote::{AccessToken, Endpoint, remote_executor};
use mswea_executor::swerex::{RexClient, SwerexExecutor};
use mswea_executor::{
    BubblewrapSettings, ContainerSettings, LocalSettings, Sandbox, SandboxImage, SandboxKind,
    SingularitySettings, StartupCommand, StreamSettings, Transport, WorkspaceSettings,
};
use mswea_run::AgentRules;
use mswea_secrecy as secrecy;
use mswea_tools::{ToolsExecutor, ToolsPlace, Toolset};

/// The parts of the executor of a run.
pub(super) struct EnvironmentPlan<'a> {
    pub(super) config: &'a Config,
    /// The value of `MSWEA_RUN_ID` for the processes of the environment.
    pub(super) run_id: &'a str,
    /// The id of the run, which is the same in every process that continues the run.
    pub(super) journal_id: &'a str,
    pub(super) guard_program: Option<PathBuf>,
    /// Names of the environment variables that commands never get.
    pub(super) secret_names: Vec<String>,
    /// The commands that run before the agent's first action, with their templates rendered.
    pub(super) startup_commands: Vec<StartupCommand>,
    /// The tools of the model and their place, if there are any.
    pub(super) tools: Option<(&'a Toolset, ToolsPlace)>,
}

impl EnvironmentPlan<'_> {
    /// The executor; nothing is started or touched yet.
    ///
    /// # Errors
    /// [`SetupError::Environment`] if this version has no such environment class,
    /// [`SetupError::Workspace`] if the settings of the workspace contradict each other.
    pub(super) fn executor(mut self) -> Result<Box<dyn Executor>, SetupError> {
        let tools = self.tools.take();
        let executor = self.without_tools()?;
        Ok(match tools {
            Some((tools, place)) => Box::new(ToolsExecutor::new(executor, tools, place)),
            None => executor,
        })
    }

    /// # Errors
    /// [`SetupError`] in the cases of [`Self::executor`].
    fn without_tools(self) -> Result<Box<dyn Executor>, SetupError> {
        let environment = &self.config.environment;
        let name = &environment.environment_class;
        let Some(class) = environment_class(name) else {
            // `Layers::resolve` has refused all other names.
            return Err(SetupError::Environment(format!(
                "the environment class `{name}` is not in this version"
            )));
        };
        let mut workspace = self.workspace();
        let refused = |error: mswea_core::ExecutorError| SetupError::Workspace(error.message);
        let cwd = workspace.settle(&environment.cwd).map_err(refused)?;
        let inner: Box<dyn Executor> = match class.kind {
            EnvironmentKind::Local => Box::new(mswea_executor::LocalExecutor::new(LocalSettings {
                sandbox: self.sandbox(),
                ..self.local(&cwd)
            })),
            EnvironmentKind::Bubblewrap => Box::new(mswea_executor::BubblewrapExecutor::new(
                self.bubblewrap(&cwd),
            )),
            EnvironmentKind::Singularity => Box::new(mswea_executor::SingularityExecutor::new(
                self.singularity(class, &cwd),
            )),
            EnvironmentKind::Container => Box::new(mswea_executor::ContainerExecutor::new(
                self.container(class, cwd),
            )),
            EnvironmentKind::Remote => self.remote(cwd)?,
            EnvironmentKind::Swerex => self.swerex(cwd)?,
            EnvironmentKind::Command => self.command(cwd)?,
        };
        Ok(Box::new(mswea_executor::WorkspaceExecutor::new(
            inner, workspace,
        )))
    }

    fn workspace(&self) -> WorkspaceSettings {
        let workspace = &self.config.workspace;
        WorkspaceSettings {
            repo: workspace.repo.clone(),
            repo_path: workspace.path.clone().unwrap_or_default(),
            base_commit: workspace.base_commit.clone(),
            reset: workspace.reset,
            startup_commands: self.startup_commands.clone(),
            startup_timeout: seconds(workspace.startup_timeout),
            on_host: is_on_host(self.config),
            run_id: self.run_id.to_owned(),
            guard_program: self.guard_program.clone(),
            submits_set_up: toolset::rules(self.config) == AgentRules::SweAgent,
            ..WorkspaceSettings::default()
        }
    }

    fn local(&self, cwd: &str) -> LocalSettings {
        let environment = &self.config.environment;
        let standard = LocalSettings::default();
        LocalSettings {
            cwd: Some(PathBuf::from(cwd)).filter(|cwd| !cwd.as_os_str().is_empty()),
            env: environment.env.clone(),
            timeout: seconds(environment.timeout),
            interpreter: shell::interpreter(environment),
            session: environment.session,
            pty: environment.pty,
            env_allow: environment.env_allow.clone(),
            secret_names: self.secret_names.clone(),
            is_credential: is_credential_value,
            capture_bytes: self.capture_bytes(),
            whole_after: Some(MARK.to_owned()),
            run_id: self.run_id.to_owned(),
            guard_program: self.guard_program.clone(),
            ..standard
        }
    }

    fn capture_bytes(&self) -> usize {
        usize::try_from(self.config.environment.capture_bytes).unwrap_or(usize::MAX)
    }

    fn sandbox(&self) -> Sandbox {
        let environment = &self.config.environment;
        Sandbox {
            kind: match environment.sandbox.as_str() {
                "landlock" => SandboxKind::Landlock,
                _ => SandboxKind::None,
            },
            writable: environment.writable.iter().map(PathBuf::from).collect(),
            network: environment.sandbox_network,
            sockets: environment.sandbox_sockets,
        }
    }

    fn bubblewrap(&self, cwd: &str) -> BubblewrapSettings {
        let standard = BubblewrapSettings::default();
        let environment = &self.config.environment;
        BubblewrapSettings {
            local: self.local(cwd),
            executable: environment
                .executable
                .clone()
                .unwrap_or(standard.executable),
            wrapper_args: environment.wrapper_args.clone(),
            image: image(self.config).map(|image| SandboxImage {
                folder: PathBuf::from(image),
                build_timeout: seconds(environment.build_timeout),
            }),
        }
    }

    fn singularity(&self, class: &EnvironmentClass, cwd: &str) -> SingularitySettings {
        let environment = &self.config.environment;
        SingularitySettings {
            local: self.local(""),
            image: environment.image.clone().unwrap_or_default(),
            cwd: cwd.to_owned(),
            forward_env: environment.forward_env.clone(),
            executable: environment.executable.clone().or_else(|| named(class)),
            sandbox_build_retries: environment.sandbox_build_retries,
            build_timeout: seconds(environment.build_timeout),
            global_args: environment.global_args.clone(),
            exec_args: environment.exec_args.clone(),
        }
    }

    fn container(&self, class: &EnvironmentClass, cwd: String) -> ContainerSettings {
        let environment = &self.config.environment;
        let own = class.executable.unwrap_or_default().to_owned();
        ContainerSettings {
            image: environment.image.clone().unwrap_or_default(),
            cwd,
            env: environment.env.clone(),
            forward_env: environment.forward_env.clone(),
            timeout: seconds(environment.timeout),
            executable: environment.executable.clone().unwrap_or(own),
            run_args: environment.run_args.clone(),
            container_timeout: environment.container_timeout.clone(),
            pull_timeout: seconds(environment.pull_timeout),
            start_timeout: seconds(environment.start_timeout),
            interpreter: environment.interpreter.clone(),
            transport: match environment.transport.as_str() {
                "api" => Transport::Api,
                "cli" => Transport::Cli,
                _ => Transport::Auto,
            },
            session: environment.session,
            pty: environment.pty,
            fast_path: environment.fast_path,
            keep: environment.keep_container,
            user: environment.user.clone(),
            network: environment.network.clone(),
            mounts: environment.mounts.clone(),
            memory: environment.memory.clone(),
            cpus: environment.cpus.map(|cpus| cpus.to_string()),
            platform: environment.platform.clone(),
            capture_bytes: self.capture_bytes(),
            whole_after: Some(MARK.to_owned()),
            run_id: self.run_id.to_owned(),
            journal_id: self.journal_id.to_owned(),
            secret_names: self.secret_names.clone(),
            guard_program: self.guard_program.clone(),
        }
    }
}

impl EnvironmentPlan<'_> {
    /// # Errors
    /// [`SetupError::Environment`] if the URL, the token or the certificate can't be used, and those of
    /// [`Self::stream`].
    fn remote(&self, cwd: String) -> Result<Box<dyn Executor>, SetupError> {
        let environment = &self.config.environment;
        let token = self.token(AccessToken::read, AccessToken::new);
        let url = environment.url.as_deref().unwrap_or_default();
        let ca_file = environment.ca_file.as_deref().map(Path::new);
        let endpoint = token.and_then(|token| Endpoint::new(url, &token, ca_file));
        let settings = self.stream(cwd)?;
        let again = seconds(environment.reconnect_seconds);
        match endpoint {
            Ok(endpoint) => Ok(Box::new(remote_executor(endpoint, again, settings))),
            Err(why) => Err(SetupError::Environment(why)),
        }
    }

    /// The token of a server, from its file or its variable.
    fn token(
        &self,
        read: impl FnOnce(&Path) -> Result<AccessToken, String>,
        make: impl FnOnce(&str) -> Result<AccessToken, String>,
    ) -> Result<AccessToken, String> {
        let environment = &self.config.environment;
        match (&environment.token_file, &environment.token_env) {
            (Some(file), _) => read(Path::new(file)),
            (None, Some(name)) => match secrecy::var(name) {
                Some(value) => make(&value).map_err(|why| format!("variable `{name}`: {why}")),
                None => Err(format!(
                    "variable `{name}`, which `environment.token_env` names, is not set"
                )),
            },
            (None, None) => Err("`environment.token_file` is not set".to_owned()),
        }
    }

    /// The executor at a server of SWE-ReX.
    ///
    /// # Errors
    /// [`SetupError`] in the cases of [`Self::remote`].
    fn swerex(&self, cwd: String) -> Result<Box<dyn Executor>, SetupError> {
        let environment = &self.config.environment;
        let url = environment.url.as_deref().unwrap_or_default();
        let ca_file = environment.ca_file.as_deref().map(Path::new);
        let key = self.token(AccessToken::read_foreign, AccessToken::foreign);
        let client = key.and_then(|key| RexClient::new(url, &key, ca_file));
        let settings = self.stream(cwd)?;
        let client = client.map_err(SetupError::Environment)?;
        Ok(Box::new(SwerexExecutor::new(client, settings)))
    }

    /// The executor of a place that a program reaches.
    ///
    /// # Errors
    /// [`SetupError`] in the cases of [`Self::stream`].
    fn command(&self, cwd: String) -> Result<Box<dyn Executor>, SetupError> {
        let environment = &self.config.environment;
        let settings = self.stream(cwd)?;
        let limit = seconds(environment.connect_timeout);
        let connect = environment.connect.clone();
        let variables = PassedVariables {
            allow: environment.env_allow.clone(),
            secret_names: self.secret_names.clone(),
            is_credential: is_credential_value,
        };
        Ok(Box::new(command_executor(
            connect, limit, variables, settings,
        )))
    }

    /// The settings of a place that is reached by a stream.
    ///
    /// # Errors
    /// [`SetupError::Workspace`] if the repository has no place there.
    fn stream(&self, cwd: String) -> Result<StreamSettings, SetupError> {
        let environment = &self.config.environment;
        let workspace = self.workspace();
        let is_placed = !environment.cwd.is_empty() || !workspace.repo_path.is_empty();
        if workspace.repo.is_some() && !is_placed {
            return Err(SetupError::Workspace(format!(
                "the repository needs a folder in the environment class `{}`: set `workspace.path`",
                environment.environment_class
            )));
        }
        Ok(StreamSettings {
            cwd,
            make_cwd: workspace.repo.is_some(),
            env: environment.env.clone(),
            timeout: seconds(environment.timeout),
            interpreter: environment.interpreter.clone(),
            session: environment.session,
            pty: environment.pty,
            capture_bytes: self.capture_bytes(),
            whole_after: Some(MARK.to_owned()),
            run_id: self.run_id.to_owned(),
        })
    }
}

/// The program of an environment class. None for `singularity`, which means `singularity` or
/// `apptainer`.
fn named(class: &EnvironmentClass) -> Option<String> {
    let name = class.executable.filter(|name| *name != "singularity");
    name.map(str::to_owned)
}

fn image(config: &Config) -> Option<&str> {
    let image = config.environment.image.as_deref();
    image.filter(|image| !image.is_empty())
}

/// Whether commands work on the host's own disk.
pub(super) fn is_on_host(config: &Config) -> bool {
    let class = environment_class(&config.environment.environment_class);
    class.is_some_and(|class| match class.kind {
        EnvironmentKind::Local => true,
        EnvironmentKind::Bubblewrap => image(config).is_none(),
        _ => false,
    })
}
