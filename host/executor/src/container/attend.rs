//! Reads the output of a process in a container and waits for its end.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until, timeout};

use super::engine::{Engine, EngineError, EngineErrorKind, Exec, ExecSpec};
use super::stream;
use crate::capture::Capture;
use mswea_core::Stop;

/// The most bytes of one read.
const READ: usize = 32 * 1024;
/// If no output has come for so long, none is in transit.
const QUIET: Duration = Duration::from_millis(50);
/// The most output in transit when a process ends; more comes from a background process.
const UNDERWAY: usize = 8 * 1024 * 1024;
/// How long output in transit may take.
const ARRIVING: Duration = Duration::from_secs(5);
/// If a deadline is noticed this much too late, this program was stopped meanwhile (SIGSTOP, a
/// suspended laptop), and ends of processes in that time have not been noticed yet.
const LATE: Duration = Duration::from_secs(1);
/// How long noticing them may take then.
const NOTICING: Duration = Duration::from_secs(3);
/// The most bytes that are kept of the output of one of the host's own programs.
const ANSWER: usize = 64 * 1024;

/// How the wait for a process ended.
#[derive(Debug)]
pub(super) enum ExecEnd {
    Exited(i32),
    TimedOut,
    Stopped,
    Failed(EngineError),
}

/// A process that is being read and waited for.
pub(super) struct Attended {
    exec: Exec,
    /// Whether more output may come.
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

    /// Reads until the process exits or has to be ended. Must not be called again after an exit.
    pub(super) async fn attend(
        &mut self,
        capture: &mut Capture,
        until: Instant,
        stop: &Stop,
    ) -> ExecEnd {
        let mut until = until;
        let mut stood_still = false;
        loop {
            // In this order, so that much output does not delay the other three.
            tokio::select! {
                biased;
                status = &mut self.exec.status => {
                    return status.map_or_else(ExecEnd::Failed, ExecEnd::Exited);
                }
                () = stop.stopped() => return ExecEnd::Stopped,
                () = sleep_until(until) => {
                    if stood_still || until.elapsed() < LATE {
                        return ExecEnd::TimedOut;
                    }
                    stood_still = true;
                    until = Instant::now() + NOTICING;
                }
                read = self.exec.output.read(&mut self.buffer), if self.open => match read {
                    Ok(count) if count > 0 => capture.push(&self.buffer[..count]),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return ExecEnd::Failed(stream::cut());
                    }
                    // The exit status tells the meaning of another end.
                    _ => self.open = false,
                }
            }
        }
    }

    /// Reads the rest after the end of the process: all output in transit, and then for `grace`
    /// that of background processes.
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

/// The result of one of the host's own programs.
#[derive(Debug)]
pub(super) struct ProgramAnswer {
    pub(super) status: i32,
    pub(super) text: String,
}

impl ProgramAnswer {
    pub(super) fn is_ok(&self) -> bool {
        self.status == 0
    }
}

/// Runs one of the host's own programs in container `id` to its end.
///
/// # Errors
/// [`EngineError`] if the engine fails, or the program takes longer than `limit`.
pub(super) async fn ask(
    engine: &dyn Engine,
    id: &str,
    spec: &ExecSpec,
    limit: Duration,
) -> Result<ProgramAnswer, EngineError> {
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
        ExecEnd::Exited(status) => {
            attended.settle(&mut capture, Duration::ZERO).await;
            Ok(ProgramAnswer {
                status,
                text: capture.finish(true).text,
            })
        }
        ExecEnd::Failed(error) => Err(error),
        ExecEnd::TimedOut | ExecEnd::Stopped => Err(late()),
    }
}
