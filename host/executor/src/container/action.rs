//! One action in a container: how it runs, and how it is killed.

use std::pin::pin;
use std::time::Duration;

use super::attend::{Attended, ExecEnd};
use super::engine::{EngineError, EngineErrorKind, ExecSpec};
use super::running::{Container, Way, joined};
use crate::capture::Capture;
use crate::failure::ActionFailure;
use crate::helper::HelperError;
use crate::placed::{PlacedAction, PlacedEnd, is_no_folder};
use mswea_core::Stop;

/// How long killed processes may take to end.
const DYING: Duration = Duration::from_secs(2);

/// Runs the action by an exec of its own, without the helper. `notes` gets the texts that are added
/// to the output.
pub(super) async fn in_exec(
    action: &PlacedAction<'_>,
    container: &Container,
    capture: &mut Capture,
    notes: &mut Vec<String>,
) -> PlacedEnd {
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
            return PlacedEnd::Exited(status);
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
) -> PlacedEnd {
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
    PlacedEnd::Failed(failure)
}

fn failed(error: EngineError) -> PlacedEnd {
    match error.kind {
        EngineErrorKind::NotStarted if is_no_folder(&error.message) => PlacedEnd::FolderGone,
        EngineErrorKind::NotStarted => PlacedEnd::Failed(ActionFailure::environment(
            "FileNotFoundError",
            error.message,
        )),
        _ => PlacedEnd::Broken(HelperError::Cut(error.message)),
    }
}
