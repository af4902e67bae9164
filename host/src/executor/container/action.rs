//! One action in a container: how it is run, and killed when it has to end.

use std::pin::pin;
use std::time::Duration;

use super::ContainerSettings;
use super::attend::{Attended, End};
use super::engine::{EngineError, EngineErrorKind, ExecSpec};
use super::executor::{Container, Way};
use super::helper::{HelperAction, HelperEnd, HelperSession};
use super::{fast, start};
use mswea_helper::long;
use tokio::io::AsyncWriteExt as _;

use crate::executor::capture::Capture;
use crate::executor::failure::Failure;
use crate::roles::Stop;

/// How long what was killed may take to be gone.
const DYING: Duration = Duration::from_secs(2);

/// How an action ended.
pub(super) enum Ended {
    Exited(i32),
    /// Killed by the kernel.
    OutOfMemory,
    Failed(Failure),
    /// The engine could not start what runs it: why.
    NotStarted(String),
    /// The folder in which it was to start is not there any more.
    FolderGone,
    /// What it ran in broke off.
    Broken(String),
}

/// An action that is about to run.
pub(super) struct Action<'a> {
    pub(super) settings: &'a ContainerSettings,
    pub(super) command: &'a str,
    pub(super) env: Vec<(String, String)>,
    pub(super) mark: &'a str,
    pub(super) timeout: Duration,
    pub(super) stop: &'a Stop,
}

impl Action<'_> {
    fn argv(&self) -> Vec<String> {
        let mut argv = self.settings.interpreter.clone();
        argv.push(self.command.to_owned());
        argv
    }

    /// What a helper is told that runs this alone; none if that is too long.
    fn frame(&self) -> Option<Vec<u8>> {
        let action = HelperAction {
            argv: &self.argv(),
            env: &self.env,
            cwd: None,
            grace: self.settings.grace,
        };
        action.frame()
    }

    /// Through the helper that stays in the container.
    pub(super) async fn in_session(
        &self,
        session: &mut HelperSession,
        capture: &mut Capture,
    ) -> Ended {
        let argv = self.argv();
        let action = HelperAction {
            argv: &argv,
            env: &self.env,
            cwd: Some(&self.settings.cwd),
            grace: self.settings.grace,
        };
        match session.run(&action, capture, self.timeout, self.stop).await {
            Ok(HelperEnd::Exited(status)) => Ended::Exited(status),
            Ok(HelperEnd::TimedOut) => Ended::Failed(self.timed_out()),
            Ok(HelperEnd::Stopped) => Ended::Failed(Failure::interrupted(self.command)),
            Ok(HelperEnd::Failed { text, .. }) if start::is_no_folder(&text) => Ended::FolderGone,
            Ok(HelperEnd::Failed { errno, text }) => Ended::Failed(self.not_started(errno, &text)),
            Err(error) => Ended::Broken(error.to_string()),
        }
    }

    /// By an exec of its own. `note` is what there is to say after the output.
    pub(super) async fn in_exec(
        &self,
        container: &Container,
        capture: &mut Capture,
        note: &mut Option<String>,
    ) -> Ended {
        let grace = self.settings.grace;
        let long = long::is_long(self.command.as_bytes());
        let mut input = None;
        let argv = match container.way {
            Way::Helper if long => {
                let Some(frame) = self.frame() else {
                    return Ended::Failed(self.not_started(libc::E2BIG, ""));
                };
                input = Some(frame);
                fast::single_from_stdin()
            }
            Way::Helper => fast::single(&self.settings.interpreter, self.command, grace),
            Way::Plain { shell: false } => self.argv(),
            Way::Plain { shell: true } => {
                let mut argv = ["sh", "-c", start::MERGE, "sh"].map(str::to_owned).to_vec();
                argv.extend(self.argv());
                argv
            }
        };
        let spec = ExecSpec {
            argv,
            env: self.env.clone(),
            cwd: Some(self.settings.cwd.clone()),
            stdin: input.is_some(),
            ..ExecSpec::default()
        };
        let until = tokio::time::Instant::now() + self.timeout;
        let exec = tokio::select! {
            biased;
            exec = container.engine.exec(&container.id, &spec) => exec,
            () = self.stop.stopped() => {
                return self.killed(container, None, capture, note, Failure::interrupted(self.command)).await;
            }
            () = tokio::time::sleep_until(until) => {
                return self.killed(container, None, capture, note, self.timed_out()).await;
            }
        };
        let mut attended = match exec {
            Ok(mut exec) => {
                if let (Some(frame), Some(mut to)) = (input, exec.input.take()) {
                    // Who ends before it has read all says why.
                    tokio::spawn(async move {
                        let _ = to.write_all(&frame).await;
                        let _ = to.shutdown().await;
                    });
                }
                Attended::new(exec)
            }
            Err(error) => return self.failed(error),
        };
        let end = attended.attend(capture, until, self.stop).await;
        let failure = match end {
            End::Exited(status) => {
                attended.settle(capture, grace).await;
                return Ended::Exited(status);
            }
            End::Failed(error) => return self.failed(error),
            End::TimedOut => self.timed_out(),
            End::Stopped => Failure::interrupted(self.command),
        };
        self.killed(container, Some(attended), capture, note, failure)
            .await
    }

    /// Kills the action, and reads what it still wrote.
    async fn killed(
        &self,
        container: &Container,
        attended: Option<Attended>,
        capture: &mut Capture,
        note: &mut Option<String>,
        failure: Failure,
    ) -> Ended {
        let place = container.place();
        let mut killing = pin!(place.kill(self.mark));
        let never = Stop::never();
        let mut rest = attended;
        // Its output is read on meanwhile: an engine that can't get rid of it does not notice
        // the end of anything else in the container either.
        let killed = loop {
            let until = tokio::time::Instant::now() + DYING;
            let Some(attended) = &mut rest else {
                break killing.await;
            };
            tokio::select! {
                killed = &mut killing => break killed,
                end = attended.attend(capture, until, &never) => if !matches!(end, End::TimedOut) {
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
        Ended::Failed(failure)
    }

    fn failed(&self, error: EngineError) -> Ended {
        match error.kind {
            EngineErrorKind::NotStarted if start::is_no_folder(&error.message) => Ended::FolderGone,
            EngineErrorKind::NotStarted => Ended::NotStarted(error.message),
            _ => Ended::Broken(error.message),
        }
    }

    fn timed_out(&self) -> Failure {
        Failure::timed_out(self.command, self.timeout)
    }

    /// Why the helper could not start it.
    fn not_started(&self, errno: i32, text: &str) -> Failure {
        let error = std::io::Error::from_raw_os_error(errno);
        if errno == rustix::io::Errno::TOOBIG.raw_os_error() {
            let program = self.settings.interpreter.first().map_or("", String::as_str);
            return Failure::start(&error, program.as_ref(), None, self.command.len());
        }
        Failure::told(&error, text)
    }
}
