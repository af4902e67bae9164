//! One action in a container: how it is run, and how it is killed.

use std::pin::pin;
use std::time::Duration;

use super::attend::{Attended, ExecEnd};
use super::engine::{EngineError, EngineErrorKind, ExecSpec};
use super::running::{Container, Way, joined};
use crate::capture::Capture;
use crate::failure::ActionFailure;
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
    /// The working directory does not exist any more.
    FolderGone,
    /// The container is gone for good: the reason.
    Gone(String),
    /// The exec or the session in which it ran ended before it: the reason.
    Broken(String),
    /// It did not begin, because it needs the helper, and there is none: the reason.
    Unserved(String),
}

/// Runs the action by an exec of its own, without the helper. `notes` gets what is added to the output.
pub(super) async fn in_exec(
    action: &PlacedAction<'_>,
    container: &Container,
    capture: &mut Capture,
    notes: &mut Vec<String>,
) -> ActionEnd {
    let argv = match container.way {
        Way::Plain { shell: false } => action.argv(),
        _ => joined(action.argv()),
    };
    let spec = ExecSpec {
        argv,
        env: action.env.to_vec(),
        cwd: action.cwd.map(str::to_owned),
        ..ExecSpec::default()
    };
    let until = tokio::time::Instant::now() + action.timeout;
    let exec = tokio::select! {
        biased;
        exec = container.engine.exec(&container.id, &spec) => exec,
        () = action.stop.stopped() => {
            return killed(action, container, None, capture, notes, ActionFailure::interrupted(action.command)).await;
        }
        () = tokio::time::sleep_until(until) => {
            return killed(action, container, None, capture, notes, action.timed_out()).await;
        }
    };
    let mut attended = match exec {
        Ok(exec) => Attended::new(exec),
        Err(error) => return failed(error),
    };
    let end = attended.attend(capture, until, action.stop).await;
    let failure = match end {
        ExecEnd::Exited(status) => {
            attended.settle(capture, action.grace).await;
            return ActionEnd::Exited(status);
        }
        ExecEnd::Failed(error) => return failed(error),
        ExecEnd::TimedOut => action.timed_out(),
        ExecEnd::Stopped => ActionFailure::interrupted(action.command),
    };
    killed(action, container, Some(attended), capture, notes, failure).await
}

/// Kills the action, and reads the rest of its output.
async fn killed(
    action: &PlacedAction<'_>,
    container: &Container,
    attended: Option<Attended>,
    capture: &mut Capture,
    notes: &mut Vec<String>,
    failure: ActionFailure,
) -> ActionEnd {
    let mut killing = pin!(container.kill(action.mark));
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
        notes.push(
            "the command can't be killed in this container, and may go on until the end of the run"
                .to_owned(),
        );
    } else if let Some(mut attended) = rest {
        let until = tokio::time::Instant::now() + DYING;
        attended.attend(capture, until, &never).await;
        attended.settle(capture, Duration::ZERO).await;
    }
    ActionEnd::Failed(failure)
}

fn failed(error: EngineError) -> ActionEnd {
    match error.kind {
        EngineErrorKind::NotStarted if is_no_folder(&error.message) => ActionEnd::FolderGone,
        EngineErrorKind::NotStarted => ActionEnd::Failed(ActionFailure::environment(
            "FileNotFoundError",
            error.message,
        )),
        _ => ActionEnd::Broken(error.message),
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
