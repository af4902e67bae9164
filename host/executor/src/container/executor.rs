//! The container executor: one container per run, each action a new process in it.

mod removal;
mod session;
#[cfg(test)]
mod tests;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::action::in_exec;
use super::leftovers::removal_of;
use super::running::{Container, Way};
use super::trouble::{self, Count, Trouble};
use super::{ContainerSettings, fast, start, transfer};
use crate::capture::Capture;
use crate::failure::ActionFailure;
use crate::guard::Lease;
use crate::helper::HelperError;
use crate::interactive::{HelperGuard as _, OpenPrograms, ProgramsOf};
use crate::local::fresh_id;
use crate::placed::{
    GRACE, PlacedAction, PlacedEnd, check, limit_of, not_begun, output_of, usable,
};
use crate::shell::BEGUN;
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, Front, InteractivePrograms,
    Object, Output, Progress, Stop,
};
use mswea_helper::processes::ACTION_VARIABLE;

/// The exit code of a shell whose child was killed.
const KILLED: i32 = 137;

/// The container executor.
pub struct ContainerExecutor {
    settings: ContainerSettings,
    /// The variables that all commands get, or the reason why one of them can't be passed to a
    /// process.
    env: Result<Vec<(String, String)>, String>,
    container: Option<Container>,
    /// The session with the helper that starts the actions, if there is one.
    session: Option<fast::ContainerSession>,
    programs: OpenPrograms,
    /// A message about the shell for the model, which is added to the output of the next action in
    /// it.
    notice: Option<&'static str>,
    /// The number of actions so far. It is part of an action's [`ACTION_VARIABLE`].
    actions: u64,
    /// The mark of an action whose end was not seen.
    unfinished: Option<String>,
    /// Why the container is gone, if there was one.
    gone: Option<String>,
    /// Whether the engine did not answer the last question about an action.
    is_silent: bool,
    /// The number of processes that were killed for lack of memory.
    oom_kills: u64,
    front: Option<Arc<dyn Front>>,
    /// Held while there is, or may be, a container: the guardian removes it if this process is
    /// killed.
    lease: Option<Lease>,
    /// Whether the container is being removed. If the executor is dropped then, its guardian
    /// removes the container, and the drop does not wait.
    removing: bool,
}

impl ContainerExecutor {
    /// An executor; nothing is started or checked yet.
    pub fn new(mut settings: ContainerSettings) -> Self {
        if settings.run_id.is_empty() {
            settings.run_id = fresh_id();
        }
        let env = settings.environment();
        Self {
            settings,
            env,
            container: None,
            session: None,
            programs: OpenPrograms::default(),
            notice: None,
            actions: 0,
            unfinished: None,
            gone: None,
            is_silent: false,
            oom_kills: 0,
            front: None,
            lease: None,
            removing: false,
        }
    }

    /// The name of the container, while there is one.
    pub fn container_name(&self) -> Option<&str> {
        self.container
            .as_ref()
            .map(|container| container.name.as_str())
    }

    /// The mark of this run's processes.
    pub fn run_id(&self) -> &str {
        &self.settings.run_id
    }

    /// Kills the processes of an action whose future was dropped before its end, and ends the
    /// session, which may be in the middle of a message.
    async fn finish_unfinished(&mut self) {
        let Some(mark) = self.unfinished.take() else {
            return;
        };
        let Some(container) = &self.container else {
            return;
        };
        container.kill(&mark).await;
        if self.session.take().is_some() {
            self.notice = Some(BEGUN);
        }
    }

    async fn run(&mut self, command: &Command<'_>, timeout: Duration, stop: &Stop) -> Output {
        self.actions += 1;
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        let mut env = self.env.clone().unwrap_or_default();
        env.push((ACTION_VARIABLE.to_owned(), mark.clone()));
        let marker = self.settings.whole_after.as_deref();
        let mut capture = Capture::of(command, self.settings.capture_bytes, marker);
        self.unfinished = Some(mark.clone());
        let mut notes = Vec::new();
        let is_shared = self.settings.session && !command.apart;
        let has_helper = tokio::select! {
            biased;
            found = self.need_session() => found,
            () = stop.stopped() => Err("the run was stopped".to_owned()),
        };
        if is_shared {
            notes.extend(self.notice.take().map(str::to_owned));
        }
        let ended = if let (Err(why), true) = (&has_helper, is_shared) {
            PlacedEnd::Broken(HelperError::Missing(format!(
                "`environment.session` needs the helper, which can't be started: {why}; set `environment.session` to false"
            )))
        } else {
            let Some(container) = &self.container else {
                return not_started().output(String::new());
            };
            let action = PlacedAction {
                interpreter: &self.settings.interpreter,
                cwd: Some(&self.settings.cwd),
                env: &env,
                pty: self.settings.pty,
                grace: GRACE,
                mark: &mark,
                command: command.text,
                timeout,
                stop,
            };
            match self.session.as_mut().map(|(helper, _)| helper) {
                Some(helper) if is_shared => {
                    action.in_shell(helper, &mut capture, &mut notes).await
                }
                Some(helper) => action.in_session(helper, &mut capture).await,
                None => in_exec(&action, container, &mut capture, &mut notes).await,
            }
        };
        self.unfinished = None;
        self.is_silent &= matches!(ended, PlacedEnd::Broken(_));
        let ended = match ended {
            PlacedEnd::Exited(KILLED) => self.after_kill().await,
            PlacedEnd::Exited(returncode) => Ok(returncode),
            PlacedEnd::Failed(failure) => Err(failure),
            PlacedEnd::FolderGone => Err(self.is_gone(format!(
                "the folder `{}`, in which every command starts, is gone from the container: a command has removed it",
                self.settings.cwd
            ))),
            PlacedEnd::Broken(error) => Err(tokio::select! {
                biased;
                failure = self.after_break(&mark, error) => failure,
                // The run was asked to stop, so the reason does not matter.
                () = stop.stopped() => ActionFailure::interrupted(command.text),
            }),
        };
        output_of(capture, notes, ended)
    }

    /// The end of an action that was killed.
    async fn after_kill(&mut self) -> Result<i32, ActionFailure> {
        let Some(container) = &self.container else {
            return Err(not_started());
        };
        match trouble::oom_kills(container).await {
            Count::Known(count) if is_more(&mut self.oom_kills, count) => {
                Err(out_of_memory().with_code(KILLED))
            }
            Count::Known(_) | Count::Unknown => Ok(KILLED),
            Count::Failed => match trouble::wait_for_end(container, &self.settings).await {
                Trouble::Gone(text) => Err(self.is_gone(text)),
                _ => Ok(KILLED),
            },
        }
    }

    fn is_gone(&mut self, why: String) -> ActionFailure {
        self.gone = Some(why.clone());
        ActionFailure::gone(why)
    }

    /// The failure of an action whose exec or session ended before it.
    async fn after_break(&mut self, mark: &str, error: HelperError) -> ActionFailure {
        let Some(container) = &self.container else {
            return not_started();
        };
        // The reason why the connection ended, and the mark of a helper that may still run.
        let lost = match (&error, self.session.take()) {
            (HelperError::Missing(_), _) => None,
            (_, Some((_helper, mut client))) => {
                let why = client.lost().await;
                why.map(|why| (why, Some(client.mark)))
            }
            (error, None) => Some((fast::cut(&error.to_string()), None)),
        };
        let mut trouble = trouble::find_out(container, &self.settings).await;
        let mut killed = false;
        if matches!(trouble, Trouble::Passing) {
            // When the shell ends, everything that runs in it ends.
            let mark = match self.settings.session {
                true => &self.settings.run_id,
                false => mark,
            };
            killed = container.kill(mark).await;
            if let Some((_, Some(mark))) = &lost {
                container.kill(mark).await;
            }
            trouble = match trouble::oom_kills(container).await {
                Count::Known(count) if is_more(&mut self.oom_kills, count) => {
                    return out_of_memory();
                }
                Count::Known(_) | Count::Unknown => Trouble::Passing,
                Count::Failed => trouble::wait_for_end(container, &self.settings).await,
            };
        }
        let is_silent = matches!(trouble, Trouble::Silent(_));
        let was_silent = mem::replace(&mut self.is_silent, is_silent);
        match trouble {
            Trouble::Gone(text) => self.is_gone(text),
            // One command may fail so. Each further one would wait as long, and cost a query.
            Trouble::Silent(text) if was_silent => {
                self.is_gone(format!("no further command can be run: {text}"))
            }
            Trouble::Silent(text) | Trouble::Paused(text) => {
                ActionFailure::environment("EnvironmentError", text)
            }
            Trouble::Passing => {
                self.notice = Some(BEGUN);
                let ends = match killed {
                    true => "the command was ended",
                    false => "some of the command's processes may still be running",
                };
                let (kind, text) = match (error, lost) {
                    (HelperError::Missing(why), _) => ("EnvironmentError", why),
                    (_, Some((why, _))) => ("ConnectionLost", format!("{why}; {ends}")),
                    (error, None) => (
                        "HelperKilled",
                        format!("the command ended the helper that ran it ({error}); {ends}"),
                    ),
                };
                tracing::warn!(text, "an action was broken off");
                ActionFailure::environment(kind, text)
            }
        }
    }

    /// Stores a container that is ready for actions.
    fn ready(
        &mut self,
        (container, session): start::ReadyContainer,
        replaced: Option<String>,
    ) -> EnvironmentReady {
        let handle = start::Handle::value(&container, &self.settings);
        self.container = Some(container);
        self.session = session;
        self.gone = None;
        self.is_silent = false;
        self.oom_kills = 0;
        EnvironmentReady {
            handle,
            replaced,
            is_restored: false,
        }
    }
}

/// Whether more processes were killed for lack of memory than before.
fn is_more(before: &mut u64, count: u64) -> bool {
    mem::replace(before, count) < count
}

/// The message about a container that outlives its run.
fn kept(program: &str, name: &str, run: &str) -> String {
    let gc = removal_of(program, run);
    format!(
        "container `{name}` is kept: enter it with `{program} exec -it {name} sh`, remove it with `{program} rm -f {name}` or `{gc}`"
    )
}

fn not_started() -> ActionFailure {
    ActionFailure::environment("EnvironmentError", "the container has not been started")
}

fn out_of_memory() -> ActionFailure {
    ActionFailure::environment(
        "OutOfMemory",
        "the memory of the container ran out, and the kernel killed the command or a part of it; use less memory (the limit is `environment.memory`)",
    )
}

#[async_trait]
impl Executor for ContainerExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        usable(&self.env, self.settings.session, &self.settings.interpreter)?;
        self.remove().await;
        self.front = Some(context.front.clone());
        self.guard();
        let mut replaced = None;
        if let Some(known) = known {
            match start::find(&self.settings, known, context).await {
                Ok(Ok(found)) => {
                    let ready = self.ready(found, None);
                    self.notice = Some(BEGUN);
                    return self.with_shell(ready, true, &context.stop).await;
                }
                Ok(Err(why)) => replaced = Some(why),
                Err(error) => {
                    self.unguard().await;
                    return Err(error);
                }
            }
        }
        match start::start(&self.settings, context).await {
            Ok(made) => {
                let ready = self.ready(made, replaced);
                self.with_shell(ready, false, &context.stop).await
            }
            Err(error) => {
                self.unguard().await;
                Err(error)
            }
        }
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        if let Some(output) = not_begun(command, self.gone.as_ref(), stop) {
            return output;
        }
        let container = self.container.as_ref();
        let has_helper = container.is_none_or(|it| it.way == Way::Helper);
        let interpreter = &self.settings.interpreter;
        if let Err(failure) = check(&self.env, interpreter, command.text, has_helper) {
            return failure.output(String::new());
        }
        let timeout = limit_of(command, self.settings.timeout);
        self.finish_unfinished().await;
        self.run(command, timeout, stop).await
    }

    async fn upload(&mut self, from: &std::path::Path, to: &str) -> Result<(), ExecutorError> {
        let container = self.container.as_ref().ok_or_else(not_started)?;
        transfer::upload(container, from, &transfer::absolute(&self.settings.cwd, to)).await
    }

    async fn download(&mut self, from: &str, to: &std::path::Path) -> Result<(), ExecutorError> {
        let container = self.container.as_ref().ok_or_else(not_started)?;
        transfer::download(container, &transfer::absolute(&self.settings.cwd, from), to).await
    }

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        Some(Box::new(ProgramsOf(self)))
    }

    async fn cleanup(&mut self) {
        self.programs.end_all().await;
        self.unfinished = None;
        if !self.settings.keep {
            self.remove().await;
            return self.unguard().await;
        }
        self.session = None;
        if let Some(container) = self.container.take() {
            let (program, name) = (&self.settings.executable, &container.name);
            let text = kept(program, name, self.settings.label());
            match &self.front {
                Some(front) => front.show(&Progress::Warning(&text)),
                None => tracing::warn!("{text}"),
            }
        }
        self.unguard().await;
    }

    fn template_vars(&self) -> Object {
        self.settings.template_vars()
    }
}
