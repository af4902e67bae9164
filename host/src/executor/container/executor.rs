//! The container executor: one container for a run, each action a fresh process in it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mswea_helper::long;
use serde_json::Value;

use super::action::{Action, Ended};
use super::connect::connect;
use super::engine::{Engine, EngineError, EngineErrorKind};
use super::kill::Place;
use super::record::{self, Record};
use super::trouble::{self, Count, Trouble};
use super::{ContainerSettings, fast, start, transfer};
use crate::executor::capture::Capture;
use crate::executor::failure::Failure;
use crate::executor::guard::Lease;
use crate::executor::local::fresh_id;
use crate::executor::processes::ACTION_VARIABLE;
use crate::roles::{
    Command, Context, ENVIRONMENT_GONE, Executor, ExecutorError, Front, Object, Output, Progress,
    Stop,
};

/// How long one removal may take.
const REMOVING: Duration = Duration::from_secs(60);
/// How long a forgotten container holds up its owner's end.
const DROPPING: Duration = Duration::from_secs(15);
/// What a shell says of a child that was killed.
const KILLED: i32 = 137;

/// A running container.
pub(super) struct Container {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) id: String,
    pub(super) name: String,
    /// What is written down of it.
    pub(super) record: Option<Record>,
    pub(super) began: Instant,
    pub(super) way: Way,
}

/// How actions get into a container, where there is no session with the helper: by one exec each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In which the helper runs it.
    Helper,
    /// As it is.
    Plain {
        /// Whether the image has a shell, so that stdout and stderr can be made one.
        shell: bool,
    },
}

impl Container {
    pub(super) fn place(&self) -> Place<'_> {
        Place {
            engine: self.engine.as_ref(),
            id: &self.id,
            helper: self.way == Way::Helper,
            shell: self.way != Way::Plain { shell: false },
        }
    }
}

/// The container executor.
pub struct ContainerExecutor {
    settings: ContainerSettings,
    /// The commands' environment as far as it is the same for all; or why there is none.
    env: Result<Vec<(String, String)>, String>,
    container: Option<Container>,
    /// The helper that starts the actions, where that works.
    session: Option<fast::Session>,
    /// How many actions there have been; their names in [`ACTION_VARIABLE`].
    actions: u64,
    /// The mark of an action whose end nobody has seen.
    unfinished: Option<String>,
    /// Why there is no container any more, although there was one.
    gone: Option<String>,
    /// How often memory has run out so far.
    oom_kills: u64,
    front: Option<Arc<dyn Front>>,
    /// While there is, or may be, a container: removes it if this process is killed.
    lease: Option<Lease>,
    /// The container is being removed: whoever drops this meanwhile does not want to wait.
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
            actions: 0,
            unfinished: None,
            gone: None,
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

    /// What marks the processes of this run.
    pub fn run_id(&self) -> &str {
        &self.settings.run_id
    }

    fn check(&self, command: &str) -> Result<(), Failure> {
        if let Err(why) = &self.env {
            return Err(Failure::value(why));
        }
        if command.contains('\0') {
            return Err(Failure::null_byte());
        }
        let has_helper = self.session.is_some()
            || self
                .container
                .as_ref()
                .is_none_or(|it| it.way == Way::Helper);
        let takes_file = has_helper && long::takes_file(&self.settings.interpreter);
        if long::is_long(command.as_bytes()) && !takes_file {
            let error = rustix::io::Errno::TOOBIG.into();
            let program = self.settings.interpreter.first().map_or("", String::as_str);
            return Err(Failure::start(
                &error,
                program.as_ref(),
                None,
                command.len(),
            ));
        }
        Ok(())
    }

    /// Kills what a step left that was dropped before its end, and mends what it broke.
    async fn finish_unfinished(&mut self) {
        let Some(mark) = self.unfinished.take() else {
            return;
        };
        let Some(container) = &self.container else {
            return;
        };
        container.place().kill(&mark).await;
        if self.session.take().is_some() {
            // It may be in the middle of anything.
            let session = fast::session(container.engine.as_ref(), &container.id).await;
            self.session = session.ok();
        }
    }

    async fn run(&mut self, command: &Command<'_>, timeout: Duration, stop: &Stop) -> Output {
        self.actions += 1;
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        let mut env = self.env.clone().unwrap_or_default();
        env.push((ACTION_VARIABLE.to_owned(), mark.clone()));
        let mut capture = Capture::new(self.settings.capture_bytes);
        if command.whole {
            capture = capture.whole();
        } else if let Some(marker) = &self.settings.whole_after {
            capture = capture.whole_after(marker);
        }
        self.unfinished = Some(mark.clone());
        let mut note = None;
        let ended = {
            let Some(container) = &self.container else {
                return not_started().output(String::new());
            };
            let action = Action {
                settings: &self.settings,
                command: command.text,
                env,
                mark: &mark,
                timeout,
                stop,
            };
            match &mut self.session {
                Some(session) => action.in_session(&mut session.helper, &mut capture).await,
                None => action.in_exec(container, &mut capture, &mut note).await,
            }
        };
        self.unfinished = None;
        let (ended, is_gone) = match ended {
            Ended::Broken(why) => tokio::select! {
                biased;
                found = self.after_break(&mark, &why) => found,
                // Whoever wants the end does not want to know.
                () = stop.stopped() => {
                    (Ended::Failed(Failure::interrupted(command.text)), false)
                }
            },
            Ended::NotStarted(why) => (self.after_no_start(why).await, false),
            Ended::FolderGone => self.is_gone(format!(
                "the folder `{}`, in which every command starts, is gone from the container: a command has removed it",
                self.settings.cwd
            )),
            Ended::Exited(KILLED) => self.after_kill().await,
            other => (other, false),
        };
        let captured = capture.finish(matches!(ended, Ended::Exited(0)));
        let mut text = captured.text;
        if let Some(note) = note {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&note);
        }
        let mut output = match ended {
            Ended::OutOfMemory => Output {
                returncode: KILLED,
                ..out_of_memory().output(text)
            },
            Ended::Exited(returncode) => Output {
                output: text,
                returncode,
                ..Output::default()
            },
            Ended::Failed(failure) => failure.output(text),
            Ended::Broken(why) | Ended::NotStarted(why) => {
                Failure::environment("EnvironmentError", why).output(text)
            }
            Ended::FolderGone => not_started().output(text),
        };
        if captured.elided > 0 {
            let elided = Value::from(captured.elided);
            output.extra.insert("elided_bytes".to_owned(), elided);
        }
        if is_gone {
            output
                .extra
                .insert(ENVIRONMENT_GONE.to_owned(), Value::Bool(true));
        }
        output
    }

    /// Why an action was killed, and whether the container is gone.
    async fn after_kill(&mut self) -> (Ended, bool) {
        let Some(container) = &self.container else {
            return (Ended::Failed(not_started()), false);
        };
        match trouble::oom_kills(container).await {
            Count::Known(count) if is_more(&mut self.oom_kills, count) => {
                (Ended::OutOfMemory, false)
            }
            Count::Known(_) | Count::Unknown => (Ended::Exited(KILLED), false),
            Count::Failed => match trouble::wait_for_end(container, &self.settings).await {
                Trouble::Gone(text) => self.is_gone(text),
                _ => (Ended::Exited(KILLED), false),
            },
        }
    }

    /// Nothing of the action has run. A command may have removed the helper: then it comes back,
    /// or the next actions do without.
    async fn after_no_start(&mut self, why: String) -> Ended {
        if let Some(container) = &mut self.container
            && container.way == Way::Helper
        {
            let ours = mswea_helper_bundle::ARCHITECTURE;
            if let Err(error) = fast::put(container.engine.as_ref(), &container.id, ours).await {
                tracing::warn!(
                    error,
                    "no helper in the container any more: plain execs from here on"
                );
                container.way = Way::Plain { shell: true };
            }
        }
        Ended::Failed(Failure::environment("FileNotFoundError", why))
    }

    fn is_gone(&mut self, text: String) -> (Ended, bool) {
        self.gone = Some(text.clone());
        (
            Ended::Failed(Failure::environment("EnvironmentGone", text)),
            true,
        )
    }

    /// What an action that broke off means, and whether the container is gone.
    async fn after_break(&mut self, mark: &str, why: &str) -> (Ended, bool) {
        let Some(container) = &self.container else {
            return (Ended::Failed(not_started()), false);
        };
        self.session = None;
        let mut trouble = trouble::find_out(container, &self.settings).await;
        let mut killed = false;
        if matches!(trouble, Trouble::Passing) {
            killed = container.place().kill(mark).await;
            trouble = match trouble::oom_kills(container).await {
                Count::Known(count) if is_more(&mut self.oom_kills, count) => {
                    return (Ended::Failed(out_of_memory()), false);
                }
                Count::Known(_) | Count::Unknown => Trouble::Passing,
                Count::Failed => trouble::wait_for_end(container, &self.settings).await,
            };
        }
        match trouble {
            Trouble::Gone(text) => self.is_gone(text),
            Trouble::Silent(text) => {
                let failure = Failure::environment("EnvironmentError", text);
                (Ended::Failed(failure), false)
            }
            Trouble::Passing => {
                tracing::warn!(
                    why,
                    "an action broke off what it ran in; each further action is an exec of its own"
                );
                let ends = match killed {
                    true => "it was ended",
                    false => "some of it may go on",
                };
                let text = format!("the command broke off what it ran in ({why}); {ends}");
                let failure = Failure::environment("HelperKilled", text);
                (Ended::Failed(failure), false)
            }
        }
    }

    /// Before there is a container.
    fn guard(&mut self) {
        let Some(program) = &self.settings.guard_program else {
            return;
        };
        match Lease::new(program, &self.settings.run_id) {
            Ok(lease) => {
                lease.tell_engine(&self.settings.executable);
                self.lease = Some(lease);
            }
            Err(error) => tracing::warn!(
                program = %program.display(), %error,
                "no guardian: if this host is killed with -9, the next start removes its container"
            ),
        }
    }

    /// When there is none any more; what is left of one all the same becomes the guardian's.
    async fn unguard(&mut self) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        let run = BTreeSet::from([self.settings.run_id.clone()]);
        if record::is_awaited(&run) {
            return lease.hand_over();
        }
        lease.release().await;
    }

    /// Removes the container, whatever the settings say. It stays this one's until it is gone:
    /// whoever waits for that may give up.
    async fn remove(&mut self) {
        let Some(container) = &self.container else {
            return;
        };
        self.session = None;
        self.removing = true;
        let Container { engine, id, .. } = container;
        let mut result = engine.remove(id, REMOVING).await;
        let again = |error: &EngineError| error.kind != EngineErrorKind::TimedOut;
        if result.as_ref().err().is_some_and(again) {
            result = engine.remove(id, REMOVING).await;
        }
        self.removing = false;
        let Some(Container { name, record, .. }) = self.container.take() else {
            return;
        };
        match result {
            Ok(()) => record.iter().for_each(Record::forget),
            Err(error) => {
                let program = &self.settings.executable;
                tracing::warn!(
                    container = name, %error,
                    "a container is left behind: it is removed in the background, by the next run, or by `mswea-host gc`; by hand, `{program} rm -f {name}` does it"
                );
            }
        }
    }
}

/// Whether memory has run out since the last time.
fn is_more(before: &mut u64, count: u64) -> bool {
    std::mem::replace(before, count) < count
}

/// What is said of a container that outlives its run.
fn kept(program: &str, name: &str, run: &str) -> String {
    let gc = match program {
        "docker" | "podman" => format!("mswea-host gc --run {run}"),
        other => format!("mswea-host gc --docker {other} --run {run}"),
    };
    format!(
        "container `{name}` is kept: enter it with `{program} exec -it {name} sh`, remove it with `{program} rm -f {name}` or `{gc}`"
    )
}

fn not_started() -> Failure {
    Failure::environment("EnvironmentError", "the container has not been started")
}

fn out_of_memory() -> Failure {
    Failure::environment(
        "OutOfMemory",
        "the memory of the container ran out, and the kernel killed the command or a part of it; use less memory (the limit is `environment.memory`)",
    )
}

#[async_trait]
impl Executor for ContainerExecutor {
    async fn start(&mut self, context: &Context) -> Result<(), ExecutorError> {
        if let Err(why) = &self.env {
            return Err(ExecutorError {
                message: why.clone(),
            });
        }
        self.remove().await;
        self.front = Some(context.front.clone());
        self.guard();
        match start::start(&self.settings, context).await {
            Ok((container, session)) => {
                self.container = Some(container);
                self.session = session;
            }
            Err(error) => {
                self.unguard().await;
                return Err(error);
            }
        }
        self.gone = None;
        self.oom_kills = 0;
        Ok(())
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        if stop.is_stopped() {
            return Failure::interrupted(command.text).output(String::new());
        }
        if let Some(why) = &self.gone {
            let mut output =
                Failure::environment("EnvironmentGone", why.as_str()).output(String::new());
            output
                .extra
                .insert(ENVIRONMENT_GONE.to_owned(), Value::Bool(true));
            return output;
        }
        if let Err(failure) = self.check(command.text) {
            return failure.output(String::new());
        }
        let timeout = command
            .timeout
            .filter(|timeout| !timeout.is_zero())
            .unwrap_or(self.settings.timeout);
        self.finish_unfinished().await;
        self.run(command, timeout, stop).await
    }

    async fn upload(&mut self, from: &std::path::Path, to: &str) -> Result<(), ExecutorError> {
        let container = self.container.as_ref().ok_or_else(|| ExecutorError {
            message: not_started().text(),
        })?;
        transfer::upload(container, from, &transfer::absolute(&self.settings.cwd, to)).await
    }

    async fn download(&mut self, from: &str, to: &std::path::Path) -> Result<(), ExecutorError> {
        let container = self.container.as_ref().ok_or_else(|| ExecutorError {
            message: not_started().text(),
        })?;
        transfer::download(container, &transfer::absolute(&self.settings.cwd, from), to).await
    }

    async fn cleanup(&mut self) {
        self.unfinished = None;
        if !self.settings.keep {
            self.remove().await;
            return self.unguard().await;
        }
        self.session = None;
        if let Some(container) = self.container.take() {
            let (program, name) = (&self.settings.executable, &container.name);
            let text = kept(program, name, &self.settings.run_id);
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

impl Drop for ContainerExecutor {
    /// For panics and forgotten cleanups: blocking, in an event loop of its own, as this one
    /// may be ending.
    fn drop(&mut self) {
        if self.removing
            && let Some(lease) = self.lease.take_if(|lease| lease.is_alive())
        {
            return lease.hand_over();
        }
        let Some(container) = self.container.take() else {
            return;
        };
        if self.settings.keep {
            return;
        }
        let settings = self.settings.clone();
        let (sender, receiver) = mpsc::channel();
        let (id, name) = (container.id.clone(), container.name.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let removed = runtime.is_ok_and(|runtime| {
                runtime
                    .block_on(async {
                        let engine = connect(&settings.executable, settings.transport).await?;
                        engine.remove(&id, REMOVING).await
                    })
                    .is_ok()
            });
            let _ = sender.send(removed);
        });
        if matches!(receiver.recv_timeout(DROPPING), Ok(true)) {
            container.record.iter().for_each(Record::forget);
        } else {
            if let Some(lease) = self.lease.take() {
                lease.hand_over();
            }
            let program = &self.settings.executable;
            tracing::warn!(
                container = name,
                "a container may be left behind: the next run removes it, or `{program} rm -f {name}`"
            );
        }
    }
}
