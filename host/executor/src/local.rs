//! Runs actions on this machine, each in a new process, and leaves no process behind.

mod attend;
mod checks;
mod confine;
mod ending;
mod folder;
mod keys;
pub(super) mod launch;
mod served;
mod served_place;
mod served_shell;
mod session;
mod settings;

use std::ffi::CString;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::capture::Capture;
use super::failure::ActionFailure;
use super::files::{self, PlacedPath};
use super::guard::Lease;
use super::hanging::StartLimit;
use super::orphans::{self, Presence};
use super::sandbox::Sandbox;
use super::wrap::Wrap;
use super::{handle, leftovers, machine};
use crate::interactive::{OpenPrograms, ProgramsOf};
use crate::placed::{limit_of, output_of};
use attend::{CommandEnd, Running};
use launch::Task;
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, InteractivePrograms, Object,
    Output, Progress, Stop,
};
use mswea_helper::processes::{self, Children, ProcessTarget, RUN_VARIABLE, Session};
pub use served::{HELPER_PROTOCOL, ServedHelper};
pub use served_place::{ServedCommand, ServedError, ServedOutput, ServedPlace, ServedTask};
pub use served_shell::{
    ServedShell, ShellAnswer, ShellAnswerEnd, ShellError, ShellInterruption, ShellLine,
};
use session::LocalShell;
pub use settings::LocalSettings;
use settings::base_environment;
pub(super) use settings::fresh_id;

/// The pause before the next attempt to start a command when file descriptors were lacking.
const SHORTAGE: Duration = Duration::from_millis(5);
/// How long the end of a run waits for a start that was given up.
const STARTING: Duration = Duration::from_secs(2);
/// How often orphans are searched for while a command runs.
const ORPHANS: Duration = Duration::from_millis(200);

/// The local executor.
#[derive(Debug)]
pub struct LocalExecutor {
    settings: LocalSettings,
    /// The variables that all commands get, or the reason why one of them can't be passed to a
    /// process.
    env: Result<Arc<[CString]>, String>,
    /// Names of the host's variables that are not passed to commands.
    withheld: Vec<String>,
    /// The number of actions so far. It is part of an action's `MSWEA_ACTION`.
    actions: u64,
    /// The earliest time at which the run can have had a process.
    since: u64,
    /// Sessions of actions that have ended and left processes.
    sessions: Vec<Session>,
    /// Sessions of orphans that were reported to the guardian.
    told: Vec<Session>,
    /// Tasks that read the output of background processes, which would otherwise be killed by a
    /// closed pipe.
    drains: Vec<AbortHandle>,
    lease: Option<Lease>,
    /// The wrapper that puts commands into a sandbox.
    wrap: Option<Wrap>,
    guard_failed: bool,
    /// Held while there may be something to clean up.
    presence: Option<Presence>,
    /// Locked while another thread starts a process.
    starting: Arc<Mutex<()>>,
    shared: LocalShell,
    programs: OpenPrograms,
}

impl LocalExecutor {
    /// An executor; nothing is started or checked yet.
    pub fn new(mut settings: LocalSettings) -> Self {
        if settings.run_id.is_empty() {
            settings.run_id = fresh_id();
        }
        let (env, withheld) = match base_environment(&settings) {
            Ok(built) => (Ok(built.variables.into()), built.withheld),
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
            starting: Arc::default(),
            shared: LocalShell::default(),
            programs: OpenPrograms::default(),
        }
    }

    /// An executor for commands that another program puts into a sandbox: the configured variables
    /// are set inside, and that program gets `for_program` instead. Without Landlock.
    pub(super) fn for_wrapped(
        settings: LocalSettings,
        for_program: IndexMap<String, String>,
    ) -> Self {
        let mut this = Self::new(settings);
        this.settings.sandbox = Sandbox::default();
        if this.env.is_ok() {
            let mut env = for_program;
            env.extend(leftovers::of_this_namespace());
            let settings = LocalSettings {
                env,
                ..this.settings.clone()
            };
            this.env = base_environment(&settings).map(|built| built.variables.into());
        }
        this
    }

    /// The mark of this run's processes.
    pub fn run_id(&self) -> &str {
        &self.settings.run_id
    }

    /// Runs all further commands in a sandbox.
    pub(super) fn wrap(&mut self, wrap: Wrap) {
        self.shared = LocalShell::default();
        self.wrap = Some(wrap);
    }

    /// Switches off the message about variables that are not passed, for environments that should
    /// not have the host's.
    pub(super) fn withhold_silently(&mut self) {
        self.withheld.clear();
    }

    pub(super) fn settings(&self) -> &LocalSettings {
        &self.settings
    }

    /// The names of the variables that commands, or the program in front of them, get.
    pub(super) fn variable_names(&self) -> impl Iterator<Item = &str> {
        let entries = self.env.as_deref().unwrap_or_default().iter();
        entries.filter_map(|entry| Some(entry.to_str().ok()?.split_once('=')?.0))
    }

    /// Every process of the run.
    fn target(&mut self) -> ProcessTarget {
        self.sessions
            .retain(|session| processes::group_lives(session.id));
        ProcessTarget {
            sessions: self.sessions.clone(),
            since: self.since,
            children: Children::Chosen(orphans::of_last_run),
            ..ProcessTarget::marked(RUN_VARIABLE, [self.settings.run_id.clone()])
        }
    }

    /// Ends all processes of the run; returns those that could not be ended.
    pub(super) async fn end_processes(&mut self) -> Vec<String> {
        let is_present = self.presence.is_some();
        ending::end(self.target(), is_present).await
    }

    /// Reaps dead orphans, and tells the guardian about living ones.
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

    fn guard(&mut self) {
        if self.guard_failed || self.lease.as_ref().is_some_and(Lease::is_alive) {
            return;
        }
        let program = self.settings.guard_program.as_deref();
        // Before the old lease is dropped, so that the new guardian takes over what the old one
        // guarded.
        match Lease::of(program, &self.settings.run_id, "its commands keep running") {
            Some(lease) => {
                if let Some(old) = self.lease.replace(lease) {
                    old.forget();
                }
            }
            None => self.guard_failed = true,
        }
    }

    /// Makes the guardian responsible for the run's folders, too. Must be called before one is
    /// made.
    pub(super) fn guard_folders(&mut self) {
        self.guard();
        if let Some(lease) = &self.lease {
            lease.tell_engine("");
        }
    }

    async fn perform(&mut self, task: Task<'_>, command: &Command<'_>, stop: &Stop) -> Output {
        if stop.is_stopped() {
            return ActionFailure::interrupted(command.text).output(String::new());
        }
        let timeout = limit_of(command, self.settings.timeout);
        if self.settings.session && !command.apart && matches!(task, Task::Command(_)) {
            return self.perform_in_session(command, timeout, stop).await;
        }
        let limit = StartLimit::new(command.text, timeout, stop);
        loop {
            let left = limit.left();
            let launched = tokio::select! {
                biased;
                launched = self.launch(task, &limit) => launched,
                () = stop.stopped() => {
                    return ActionFailure::interrupted(command.text).output(String::new());
                }
                // Starting the command can take long, for example on a dead network file system.
                () = tokio::time::sleep(left) => {
                    return ActionFailure::timed_out(command.text, timeout).output(String::new());
                }
            };
            match launched {
                Ok(running) => return self.attend(running, command, timeout, stop).await,
                // Descriptors are lacking: other agents of this process will release some.
                Err(failure) if failure.is_passing() && !limit.is_reached() => {
                    tokio::time::sleep(SHORTAGE).await;
                }
                Err(failure) => return self.not_started(failure, &limit).await,
            }
            if stop.is_stopped() {
                return ActionFailure::interrupted(command.text).output(String::new());
            }
        }
    }

    fn new_capture(&self, command: &Command<'_>) -> Capture {
        let marker = self.settings.whole_after.as_deref();
        Capture::of(command, self.settings.capture_bytes, marker)
    }

    async fn attend(
        &mut self,
        mut running: Running,
        command: &Command<'_>,
        timeout: Duration,
        stop: &Stop,
    ) -> Output {
        let mut capture = self.new_capture(command);
        let end = {
            let mut work = pin!(running.attend(&mut capture, timeout, stop));
            loop {
                tokio::select! {
                    biased;
                    end = &mut work => break end,
                    () = tokio::time::sleep(ORPHANS), if orphans::is_adopting() => {
                        if orphans::is_due(ORPHANS) {
                            self.look_for_orphans();
                        }
                    }
                }
            }
        };
        let killed = matches!(end, CommandEnd::TimedOut | CommandEnd::Stopped);
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
        let ended = match end {
            CommandEnd::Exited(returncode) => Ok(returncode),
            CommandEnd::Lost(error) => Err(ActionFailure::lost(&error)),
            CommandEnd::TimedOut => Err(ActionFailure::timed_out(command.text, timeout)),
            CommandEnd::Stopped => Err(ActionFailure::interrupted(command.text)),
        };
        output_of(capture, [], ended)
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if let (None, Some(before)) = (&self.settings.cwd, handle::folder_of(known)) {
            self.settings.cwd = Some(Path::new(before).to_owned());
        }
        self.make_ready(&context.stop).await?;
        if self.settings.session {
            self.bash()?;
            if known.is_some() {
                self.announce_shell();
            }
        }
        if !self.withheld.is_empty() {
            context.front.show(&Progress::Withheld(&self.withheld));
        }
        Ok(handle::ready(known, self.settings.cwd.as_deref()))
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
        files::copy(PlacedPath::here(from.to_owned()), PlacedPath::here(to)).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        let from = self
            .settings
            .cwd
            .as_deref()
            .unwrap_or(Path::new(""))
            .join(from);
        files::copy(PlacedPath::here(from), PlacedPath::here(to.to_owned())).await
    }

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        Some(Box::new(ProgramsOf(self)))
    }

    async fn cleanup(&mut self) {
        self.end_session().await;
        // A start that was given up ends its process; but a program on a dead network file system
        // never starts.
        let _ = tokio::time::timeout(STARTING, self.starting.lock()).await;
        if self.actions > 0 {
            let left = self.end_processes().await;
            if !left.is_empty() {
                tracing::warn!(
                    processes = left.join(", "),
                    "processes of the run can't be killed (another user's, busy in the kernel, or they start others all the time): end them by hand"
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
        machine::template_vars(&cwd.to_string_lossy(), &settings.env, settings.timeout)
    }
}

impl Drop for LocalExecutor {
    /// Cleans up after a panic, or if the cleanup was left out: kills at once, and blocks.
    fn drop(&mut self) {
        self.drains.drain(..).for_each(|drain| drain.abort());
        if self.presence.is_some() {
            let target = self.target();
            processes::kill_until_gone(&target, Duration::from_millis(500));
            orphans::bury();
        }
    }
}
