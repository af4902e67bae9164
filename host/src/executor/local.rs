//! Runs actions on this machine: each in a fresh process, with nothing left behind.

mod attend;
pub(super) mod launch;
mod settings;
pub(super) mod wrap;

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::process::Signal;
use serde_json::Value;
use tokio::task::AbortHandle;

use super::failure::Failure;
use super::guard::Lease;
use super::landlock::{self, Sandbox, SandboxKind};
use super::orphans::{self, Presence};
use super::processes::{self, RUN_VARIABLE, Session, Target};
use super::{capture::Capture, files, machine};
use crate::roles::{
    Command, Context, ENVIRONMENT_GONE, Executor, ExecutorError, Object, Output, Progress, Stop,
};
use attend::{End, Running};
use launch::{Task, is_program};
pub use settings::LocalSettings;
use settings::base_environment;
pub(super) use settings::fresh_id;
use wrap::Wrap;

/// How long processes that are asked to end may take before they are killed.
const POLITE: Duration = Duration::from_millis(100);
/// How long killing may take: only a process inside the kernel (dead NFS, ...) takes long.
const KILLING: Duration = Duration::from_secs(3);

/// The pause before the next try to start a command for which descriptors were too few.
const SHORTAGE: Duration = Duration::from_millis(5);
/// How often orphans are looked for while a command runs.
const ORPHANS: Duration = Duration::from_millis(200);

/// The local executor.
#[derive(Debug)]
pub struct LocalExecutor {
    settings: LocalSettings,
    /// The commands' environment as far as it is the same for all; or why there is none.
    env: Result<Vec<CString>, String>,
    /// Names of the host's variables that commands do not see.
    withheld: Vec<String>,
    /// How many actions there have been; their names in `MSWEA_ACTION`.
    actions: u64,
    /// When the run can have had its first process.
    since: u64,
    /// Sessions of actions that have ended but left something running.
    sessions: Vec<Session>,
    /// Sessions of orphans that the guardian was told.
    told: Vec<Session>,
    /// Tasks that read on for background processes, which would die of a closed pipe.
    drains: Vec<AbortHandle>,
    lease: Option<Lease>,
    /// What puts commands into a sandbox.
    wrap: Option<Wrap>,
    guard_failed: bool,
    /// While there may be something to clean up.
    presence: Option<Presence>,
}

impl LocalExecutor {
    /// An executor; nothing is started or checked yet.
    pub fn new(mut settings: LocalSettings) -> Self {
        if settings.run_id.is_empty() {
            settings.run_id = fresh_id();
        }
        let (env, withheld) = match base_environment(&settings) {
            Ok(built) => (Ok(built.variables), built.withheld),
            Err(why) => (Err(why), Vec::new()),
        };
        Self {
            settings,
            env,
            withheld,
            actions: 0,
            since: processes::now(),
            sessions: Vec::new(),
            told: Vec::new(),
            drains: Vec::new(),
            lease: None,
            wrap: None,
            guard_failed: false,
            presence: None,
        }
    }

    /// An executor for commands that another program puts into a sandbox: the configured
    /// variables are for the inside, and that program is given those of `for_program` in their place.
    /// Landlock does not go with it.
    pub(super) fn for_wrapped(
        settings: LocalSettings,
        for_program: BTreeMap<String, String>,
    ) -> Self {
        let mut this = Self::new(settings);
        this.settings.sandbox = Sandbox::default();
        if this.env.is_ok() {
            let settings = LocalSettings {
                env: for_program,
                ..this.settings.clone()
            };
            this.env = base_environment(&settings).map(|built| built.variables);
        }
        this
    }

    /// What marks the processes of this run.
    pub fn run_id(&self) -> &str {
        &self.settings.run_id
    }

    /// Has commands run in a sandbox from now on.
    pub(super) fn wrap(&mut self, wrap: Wrap) {
        self.wrap = Some(wrap);
    }

    /// Says nothing of variables that commands do not see: where they are not to see the host's.
    pub(super) fn withhold_silently(&mut self) {
        self.withheld.clear();
    }

    /// How it is set up.
    pub(super) fn settings(&self) -> &LocalSettings {
        &self.settings
    }

    /// Every process of the run.
    fn target(&mut self) -> Target {
        self.sessions
            .retain(|session| processes::group_lives(session.id));
        Target {
            sessions: self.sessions.clone(),
            since: self.since,
            orphans: true,
            ..Target::marked(RUN_VARIABLE, [self.settings.run_id.clone()])
        }
    }

    /// Ends everything of the run; returns what could not be ended.
    pub(super) async fn end_processes(&mut self) -> Vec<String> {
        let target = self.target();
        if processes::signal(&target, Signal::TERM) > 0 {
            let asked = Instant::now();
            while asked.elapsed() < POLITE && processes::exist(&target) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        // Also if none was found: see `Hunt`.
        attend::kill_until_gone(&target, KILLING).await;
        orphans::bury();
        processes::names(&target)
    }

    /// Buries dead orphans, and tells the guardian of living ones.
    fn look_for_orphans(&mut self) {
        if !orphans::is_adopting() {
            return;
        }
        let living = orphans::look();
        if let Some(lease) = &self.lease {
            living
                .iter()
                .filter(|session| !self.told.contains(session))
                .for_each(|session| lease.tell_session(*session));
        }
        self.told = living;
    }

    /// Has commands start in the host's own folder by its path: a command may remove it and make
    /// it anew, and the host would stay in the one that is gone.
    fn pin_folder(&mut self) -> Result<(), ExecutorError> {
        if self.settings.cwd.is_some() {
            return Ok(());
        }
        let path = std::env::current_dir().map_err(|error| ExecutorError {
            message: format!(
                "the current folder can't be used: {error}; go to one that is there, or set `environment.cwd`"
            ),
        })?;
        // Somebody may be in a folder that has no way to it.
        let is_here = |one: &std::fs::Metadata, other: &std::fs::Metadata| {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        };
        if let (Ok(there), Ok(here)) = (path.metadata(), Path::new(".").metadata())
            && is_here(&there, &here)
        {
            self.settings.cwd = Some(path);
        }
        Ok(())
    }

    /// What is said when commands can't start because their folder is gone: the run ends with it.
    fn folder_is_gone(&self) -> Option<Output> {
        let cwd = self.settings.cwd.as_deref()?;
        let why = match cwd.metadata() {
            Ok(found) if found.is_dir() => return None,
            Ok(_) => "something else is in its place".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "a command has removed it".to_owned()
            }
            Err(error) => error.to_string(),
        };
        let text = format!(
            "the folder `{}`, in which every command starts, is gone: {why}; make it anew and start the run again",
            cwd.display()
        );
        let mut output = Failure::environment("EnvironmentGone", text).output(String::new());
        output
            .extra
            .insert(ENVIRONMENT_GONE.to_owned(), Value::Bool(true));
        Some(output)
    }

    fn guard(&mut self) {
        let Some(program) = &self.settings.guard_program else {
            return;
        };
        if self.guard_failed || self.lease.as_ref().is_some_and(Lease::is_alive) {
            return;
        }
        // Before the old lease goes: the new guardian takes over what the old one guarded.
        let lease = Lease::new(program, &self.settings.run_id);
        match lease {
            Ok(lease) => {
                if let Some(old) = self.lease.replace(lease) {
                    old.forget();
                }
            }
            Err(error) => {
                self.guard_failed = true;
                tracing::warn!(
                    program = %program.display(), %error,
                    "no guardian: if this host is killed with -9, its commands live on"
                );
            }
        }
    }

    /// Has the guardian look for folders, too, from now on: before one is made.
    pub(super) fn guard_folders(&mut self) {
        self.guard();
        if let Some(lease) = &self.lease {
            lease.tell_engine("");
        }
    }

    /// Runs a program outside of any sandbox, with all that holds for commands.
    pub(super) async fn run_program(
        &mut self,
        args: &[OsString],
        timeout: Duration,
        stop: &Stop,
    ) -> Output {
        let task = Task::Program(args);
        let text = task.text();
        let command = Command {
            timeout: Some(timeout),
            ..Command::new(&text)
        };
        self.perform(task, &command, stop).await
    }

    async fn perform(&mut self, task: Task<'_>, command: &Command<'_>, stop: &Stop) -> Output {
        if stop.is_stopped() {
            return Failure::interrupted(command.text).output(String::new());
        }
        let timeout = command
            .timeout
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or(self.settings.timeout);
        let asked = Instant::now();
        loop {
            match self.launch(task) {
                Ok(running) => return self.attend(running, command, timeout, stop).await,
                // Hundreds of agents in one process take turns instead of failing.
                Err(failure) if failure.is_passing() && asked.elapsed() < timeout => {
                    tokio::time::sleep(SHORTAGE).await;
                }
                Err(failure) => {
                    let gone = self.folder_is_gone().filter(|_| self.presence.is_some());
                    return gone.unwrap_or_else(|| failure.output(String::new()));
                }
            }
            if stop.is_stopped() {
                return Failure::interrupted(command.text).output(String::new());
            }
        }
    }

    async fn attend(
        &mut self,
        mut running: Running,
        command: &Command<'_>,
        timeout: Duration,
        stop: &Stop,
    ) -> Output {
        let mut capture = Capture::new(self.settings.capture_bytes);
        if command.whole {
            capture = capture.whole();
        } else if let Some(marker) = &self.settings.whole_after {
            capture = capture.whole_after(marker);
        }
        let end = {
            let mut work = pin!(running.attend(&mut capture, timeout, stop));
            loop {
                tokio::select! {
                    biased;
                    end = &mut work => break end,
                    () = tokio::time::sleep(ORPHANS), if orphans::is_adopting() => {
                        self.look_for_orphans();
                    }
                }
            }
        };
        let killed = matches!(end, End::TimedOut | End::Stopped);
        if killed {
            running.end().await;
        }
        if running.settle(&mut capture, self.settings.grace).await && !killed {
            self.drains.retain(|drain| !drain.is_finished());
            self.drains.extend(running.read_on());
        }
        if !killed && processes::group_lives(running.pid()) {
            self.sessions.push(running.session());
        }
        self.look_for_orphans();
        let captured = capture.finish(matches!(end, End::Exited(0)));
        let failure = match end {
            End::Exited(returncode) => {
                let mut output = Output {
                    output: captured.text,
                    returncode,
                    ..Output::default()
                };
                note_elided(&mut output, captured.elided);
                return output;
            }
            End::Lost(error) => Failure::lost(&error),
            End::TimedOut => Failure::timed_out(command.text, timeout),
            End::Stopped => Failure::interrupted(command.text),
        };
        let mut output = failure.output(captured.text);
        note_elided(&mut output, captured.elided);
        output
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    async fn start(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let fail = |message: String| Err(ExecutorError { message });
        if let Err(why) = &self.env {
            return fail(why.clone());
        }
        self.pin_folder()?;
        if let Some(cwd) = &self.settings.cwd {
            let shown = cwd.display();
            match std::fs::metadata(cwd) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    return fail(format!(
                        "working directory `{shown}` is not a directory; set `cwd` to one"
                    ));
                }
                Err(error) => {
                    return fail(format!(
                        "working directory `{shown}` can't be used: {error}; create it or set `cwd` to another"
                    ));
                }
            }
        }
        // In a sandbox there may be other programs than outside.
        if self.wrap.is_none() {
            let program = match self.interpreter() {
                Ok(program) => program,
                Err(failure) => return fail(failure.text()),
            };
            // As the kernel sees it after the change of directory.
            let seen = self
                .settings
                .cwd
                .as_deref()
                .map_or_else(|| program.clone(), |cwd| cwd.join(&program));
            if !is_program(&seen) {
                let shown = program.display().to_string();
                return fail(Failure::no_interpreter(&shown, "there is no such program").text());
            }
        }
        if let Some(guard) = &self.settings.guard_program
            && !is_program(guard)
        {
            return fail(format!(
                "guard program `{}` is not there or not executable; set it to the host's own binary",
                guard.display()
            ));
        }
        if self.settings.sandbox.kind == SandboxKind::Landlock && self.wrap.is_none() {
            self.wrap = Some(landlock::prepare(self, &context.stop).await?);
        }
        if !self.withheld.is_empty() {
            context.front.show(&Progress::Withheld(&self.withheld));
        }
        Ok(())
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        self.perform(Task::Command(command.text), command, stop)
            .await
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        let to = self
            .settings
            .cwd
            .as_deref()
            .unwrap_or(Path::new(""))
            .join(to);
        files::copy(from.to_owned(), to).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        let from = self
            .settings
            .cwd
            .as_deref()
            .unwrap_or(Path::new(""))
            .join(from);
        files::copy(from, to.to_owned()).await
    }

    async fn cleanup(&mut self) {
        if self.actions > 0 {
            let left = self.end_processes().await;
            if !left.is_empty() {
                tracing::warn!(
                    processes = left.join(", "),
                    "processes of the run can't be killed (another user's, or busy in the kernel): end them by hand"
                );
            }
        }
        self.presence = None;
        self.sessions.clear();
        self.told.clear();
        self.drains.drain(..).for_each(|drain| drain.abort());
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
    }

    fn template_vars(&self) -> Object {
        let settings = &self.settings;
        let cwd = match &settings.cwd {
            Some(cwd) => cwd.clone(),
            None => std::env::current_dir().unwrap_or_default(),
        };
        let env: Object = settings
            .env
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        [
            ("cwd", Value::from(cwd.to_string_lossy())),
            ("env", Value::Object(env)),
            ("timeout", machine::seconds(settings.timeout)),
        ]
        .into_iter()
        .chain(machine::variables())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

impl Drop for LocalExecutor {
    /// For panics and forgotten cleanups: at once, and blocking.
    fn drop(&mut self) {
        self.drains.drain(..).for_each(|drain| drain.abort());
        if self.presence.is_some() {
            let target = self.target();
            processes::kill_until_gone(&target, Duration::from_millis(500));
            orphans::bury();
        }
    }
}

fn note_elided(output: &mut Output, elided: u64) {
    if elided > 0 {
        output
            .extra
            .insert("elided_bytes".to_owned(), Value::from(elided));
    }
}
