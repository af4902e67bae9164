//! A process in a container while it runs: reads its output and waits for it.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until, timeout};

use super::engine::{Engine, EngineError, EngineErrorKind, Exec, ExecSpec};
use crate::executor::capture::Capture;
use crate::roles::Stop;

/// How much one read takes at most.
const READ: usize = 32 * 1024;
/// When nothing came for this long, nothing is on its way any more.
const QUIET: Duration = Duration::from_millis(50);
/// How much can be on its way when a process ends: more than that is a background process.
const UNDERWAY: usize = 8 * 1024 * 1024;
/// How long what is on its way may take.
const ARRIVING: Duration = Duration::from_secs(5);
/// A deadline that is noticed so much too late has passed while this program stood still
/// (SIGSTOP, a laptop that slept): what has ended meanwhile can't have been noticed yet.
const LATE: Duration = Duration::from_secs(1);
/// How long that may take then.
const NOTICING: Duration = Duration::from_secs(3);
/// How much of the answer of a program of ours is kept.
const ANSWER: usize = 64 * 1024;

/// How the wait for a process ended.
#[derive(Debug)]
pub(super) enum End {
    Exited(i32),
    TimedOut,
    Stopped,
    Failed(EngineError),
}

/// A process that is attended to.
pub(super) struct Attended {
    exec: Exec,
    /// Whether there may be more output.
    open: bool,
    buffer: Vec<u8>,
}

impl Attended {
    pub(super) fn new(exec: Exec) -> Self {
        Self {
            exec,
            open: true,
            buffer: vec![0; READ],
        }
    }

    /// Reads until the process exits or has to. Not to be called again after an exit.
    pub(super) async fn attend(
        &mut self,
        capture: &mut Capture,
        until: Instant,
        stop: &Stop,
    ) -> End {
        let mut until = until;
        let mut stood_still = false;
        loop {
            // In this order: a flood of output must not put off the other three.
            tokio::select! {
                biased;
                status = &mut self.exec.status => {
                    return status.map_or_else(End::Failed, End::Exited);
                }
                () = stop.stopped() => return End::Stopped,
                () = sleep_until(until) => {
                    if stood_still || until.elapsed() < LATE {
                        return End::TimedOut;
                    }
                    stood_still = true;
                    until = Instant::now() + NOTICING;
                }
                read = self.exec.output.read(&mut self.buffer), if self.open => match read {
                    Ok(count) if count > 0 => capture.push(&self.buffer[..count]),
                    // What a failure means, the status tells.
                    _ => self.open = false,
                }
            }
        }
    }

    /// Reads what is left after the end of the process: all that is on its way, and then for
    /// `grace` what background processes write.
    pub(super) async fn settle(&mut self, capture: &mut Capture, grace: Duration) {
        let began = Instant::now();
        let mut count_since = 0;
        while self.open && began.elapsed() < grace.max(ARRIVING) {
            let elapsed = began.elapsed();
            if elapsed >= grace && count_since > UNDERWAY {
                return;
            }
            let patience = grace.saturating_sub(elapsed).max(QUIET);
            match timeout(patience, self.exec.output.read(&mut self.buffer)).await {
                Ok(Ok(count)) if count > 0 => {
                    count_since += count;
                    capture.push(&self.buffer[..count]);
                }
                Ok(_) => self.open = false,
                Err(_) => return,
            }
        }
    }
}

/// What a program of ours answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: i32,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        self.status == 0
    }
}

/// Runs a program of ours in container `id` to its end.
///
/// # Errors
/// When the engine fails, or after `limit`.
pub(super) async fn ask(
    engine: &dyn Engine,
    id: &str,
    spec: &ExecSpec,
    limit: Duration,
) -> Result<Answer, EngineError> {
    let until = Instant::now() + limit;
    let late = || EngineError {
        kind: EngineErrorKind::TimedOut,
        message: format!(
            "`{}` did not end within {} s inside the container",
            spec.argv.join(" "),
            limit.as_secs_f64()
        ),
    };
    let exec = timeout(limit, engine.exec(id, spec))
        .await
        .map_err(|_| late())??;
    let mut attended = Attended::new(exec);
    let mut capture = Capture::new(ANSWER);
    match attended.attend(&mut capture, until, &Stop::never()).await {
        End::Exited(status) => {
            attended.settle(&mut capture, Duration::ZERO).await;
            Ok(Answer {
                status,
                text: capture.finish(true).text,
            })
        }
        End::Failed(error) => Err(error),
        End::TimedOut | End::Stopped => Err(late()),
    }
}
