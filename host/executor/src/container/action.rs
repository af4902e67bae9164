//! One action in a container: how it is run, and how it is killed.

use std::pin::pin;
use std::time::Duration;

use super::ContainerSettings;
use super::attend::{Attended, ExecEnd};
use super::engine::{EngineError, EngineErrorKind, ExecSpec};
use super::running::{Container, Way, joined};
use crate::capture::Capture;
use crate::failure::ActionFailure;
use crate::helper::HelperSession;
use crate::placed::{PlacedAction, PlacedEnd, is_no_folder};
use mswea_core::Stop;

/// How long killed processes may take to end.
const DYING: Duration = Duration::from_secs(2);

/// How an action ended.
pub(super) enum ActionEnd {
    Exited(i32),
    /// Killed by the kernel.
    OutOfMemory,
    Failed(ActionFailure),
    /// The engine could not start the program: the reason.
    NotStarted(String),
    /// The working directory does not exist any more.
    FolderGone,
    /// The container is gone for good: the reason.
    Gone(String),
    /// The exec or the session in which it ran ended before it: the reason.
    Broken(String),
    /// It did not begin, because it needs the helper, and there is none: the reason.
    Unserved(String),
}

/// An action before it runs.
pub(super) struct ContainerAction<'a> {
    pub(super) settings: &'a ContainerSettings,
    pub(super) command: &'a str,
    pub(super) env: Vec<(String, String)>,
    pub(super) mark: &'a str,
    pub(super) timeout: Duration,
    pub(super) stop: &'a Stop,
}

impl ContainerAction<'_> {
    /// The action as a helper takes it.
    fn placed(&self) -> PlacedAction<'_> {
        PlacedAction {
            interpreter: &self.settings.interpreter,
            cwd: Some(&self.settings.cwd),
            env: &self.env,
            pty: self.settings.pty,
            grace: self.settings.grace,
            mark: self.mark,
            command: self.command,
            timeout: self.timeout,
            stop: self.stop,
        }
    }

    /// Runs the action through the helper that stays in the container.
    pub(super) async fn in_session(
        &self,
        session: &mut HelperSession,
        capture: &mut Capture,
    ) -> ActionEnd {
        self.placed().in_session(session, capture).await.into()
    }

    /// Runs the action in the shell of the helper. `notes` gets what the model is told of the shell.
    pub(super) async fn in_shell(
        &self,
        session: &mut HelperSession,
        capture: &mut Capture,
        notes: &mut Vec<String>,
    ) -> ActionEnd {
        let placed = self.placed();
        placed.in_shell(session, capture, notes).await.into()
    }

    /// Runs the action by an exec of its own, without the helper. `note` gets a text for the end of the output.
    pub(super) async fn in_exec(
        &self,
        container: &Container,
        capture: &mut Capture,
        note: &mut Option<String>,
    ) -> ActionEnd {
        let grace = self.settings.grace;
        let argv = match container.way {
            Way::Plain { shell: false } => self.placed().argv(),
            _ => joined(self.placed().argv()),
        };
        let spec = ExecSpec {
            argv,
            env: self.env.clone(),
            cwd: Some(self.settings.cwd.clone()),
            ..ExecSpec::default()
        };
        let until = tokio::time::Instant::now() + self.timeout;
        let exec = tokio::select! {
            biased;
            exec = container.engine.exec(&container.id, &spec) => exec,
            () = self.stop.stopped() => {
                return self.killed(container, None, capture, note, ActionFailure::interrupted(self.command)).await;
            }
            () = tokio::time::sleep_until(until) => {
                return self.killed(container, None, capture, note, self.placed().timed_out()).await;
            }
        };
        let mut attended = match exec {
            Ok(exec) => Attended::new(exec),
            Err(error) => return self.failed(error),
        };
        let end = attended.attend(capture, until, self.stop).await;
        let failure = match end {
            ExecEnd::Exited(status) => {
                attended.settle(capture, grace).await;
                return ActionEnd::Exited(status);
            }
            ExecEnd::Failed(error) => return self.failed(error),
            ExecEnd::TimedOut => self.placed().timed_out(),
            ExecEnd::Stopped => ActionFailure::interrupted(self.command),
        };
        self.killed(container, Some(attended), capture, note, failure)
            .await
    }

    /// Kills the action, and reads the rest of its output.
    async fn killed(
        &self,
        container: &Container,
        attended: Option<Attended>,
        capture: &mut Capture,
        note: &mut Option<String>,
        failure: ActionFailure,
    ) -> ActionEnd {
        let mut killing = pin!(container.kill(self.mark));
        let never = Stop::never();
        let mut rest = attended;
        // The action's output is read at the same time: an engine that can't deliver output does
        // not notice the end of other processes in the container either.
        let killed = loop {
            let until = tokio::time::Instant::now() + DYING;
            let Some(attended) = &mut rest else {
                break killing.await;
            };
            tokio::select! {
                killed = &mut killing => break killed,
                end = attended.attend(capture, until, &never) => if !matches!(end, ExecEnd::TimedOut) {
                    attended.settle(capture, Duration::ZERO).await;
                    rest = None;
                }
            }
        };
        if !killed {
            *note = Some(
                "[the command can't be killed in this container, and may go on until the end of the run]\n"
                    .to_owned(),
            );
        } else if let Some(mut attended) = rest {
            let until = tokio::time::Instant::now() + DYING;
            attended.attend(capture, until, &never).await;
            attended.settle(capture, Duration::ZERO).await;
        }
        ActionEnd::Failed(failure)
    }

    fn failed(&self, error: EngineError) -> ActionEnd {
        match error.kind {
            EngineErrorKind::NotStarted if is_no_folder(&error.message) => ActionEnd::FolderGone,
            EngineErrorKind::NotStarted => ActionEnd::NotStarted(error.message),
            _ => ActionEnd::Broken(error.message),
        }
    }
}

impl From<PlacedEnd> for ActionEnd {
    fn from(end: PlacedEnd) -> Self {
        match end {
            PlacedEnd::Exited(status) => Self::Exited(status),
            PlacedEnd::Failed(failure) => Self::Failed(failure),
            PlacedEnd::FolderGone => Self::FolderGone,
            PlacedEnd::Broken(error) => Self::Broken(error.to_string()),
        }
    }
}
