//! A running command: reads its output, waits for it, ends it.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::aside::hunt;
use crate::capture::Capture;
use crate::orphans;
use crate::spawn::ChildProcess;
use mswea_core::Stop;
use mswea_helper::processes::{self, ProcessTarget, Session};

/// How long a killed command may take to end.
pub(super) const DYING: Duration = Duration::from_secs(1);
/// The pause after each piece that is read and dropped, so that a background process that floods
/// its output is slowed down and does not keep the host busy.
const FLOOD_PAUSE: Duration = Duration::from_millis(10);

/// After this time, the end of a command is waited for apart from the end of its output. Most commands end
/// sooner, and both ends come together; then the descriptor that reports the first one is not opened. It
/// matters only to a command whose background process keeps the output open.
const WATCHED_AFTER: Duration = Duration::from_millis(5);
/// The same while this process has many runs, whose commands share the processors.
const WATCHED_AFTER_AMONG_MANY: Duration = Duration::from_millis(100);

/// How the wait for a command ended.
#[derive(Debug)]
pub(super) enum CommandEnd {
    Exited(i32),
    TimedOut,
    Stopped,
    Lost(io::Error),
}

/// A started command. Dropped before its end, it is killed with all processes that it started.
#[derive(Debug)]
pub(super) struct Running {
    child: ChildProcess,
    /// None once the output has ended.
    pipe: Option<AsyncFd<OwnedFd>>,
    target: ProcessTarget,
}

impl Running {
    pub(super) fn new(child: ChildProcess, pipe: AsyncFd<OwnedFd>, target: ProcessTarget) -> Self {
        Self {
            child,
            pipe: Some(pipe),
            target,
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Whether the command has ended, and was not killed.
    pub(super) fn has_ended_by_itself(&self) -> bool {
        self.child.has_ended_by_itself()
    }

    /// The session that the command began.
    pub(super) fn session(&self) -> Session {
        let id = self.child.pid();
        let start = self.target.sessions.first().map_or(0, |s| s.start);
        Session { id, start }
    }

    /// Reads until the command exits or has to be ended.
    pub(super) async fn attend(
        &mut self,
        capture: &mut Capture,
        limit: Duration,
        stop: &Stop,
    ) -> CommandEnd {
        let watched_after = match orphans::are_many() {
            true => WATCHED_AFTER_AMONG_MANY,
            false => WATCHED_AFTER,
        };
        // One timer for both times, because setting one can cost a write to the runtime's `eventfd`.
        let begun = Instant::now();
        let mut due = pin!(sleep(limit.min(watched_after)));
        let mut is_last = limit <= watched_after;
        let mut stopped = pin!(stop.stopped());
        let mut is_watched = self.pipe.is_none();
        loop {
            // In this order, so that much output does not delay the others.
            tokio::select! {
                biased;
                end = self.child.exited(), if is_watched => {
                    return end.map_or_else(CommandEnd::Lost, CommandEnd::Exited);
                }
                () = &mut stopped => return CommandEnd::Stopped,
                () = &mut due => {
                    if !is_last {
                        (is_watched, is_last) = (true, true);
                        due.set(sleep(limit.saturating_sub(begun.elapsed())));
                        continue;
                    }
                    // A host that was stopped (SIGSTOP) has not noticed ends in that time.
                    return match self.child.try_wait() {
                        Ok(Some(returncode)) => CommandEnd::Exited(returncode),
                        _ => CommandEnd::TimedOut,
                    };
                }
                open = fill(self.pipe.as_ref(), capture), if self.pipe.is_some() => {
                    if !open {
                        self.pipe = None;
                        if let Ok(Some(returncode)) = self.child.try_wait() {
                            return CommandEnd::Exited(returncode);
                        }
                        is_watched = true;
                    }
                }
            }
        }
    }

    /// Kills the command and all processes that it started, and waits for it for a bounded time.
    pub(super) async fn end(&mut self) {
        hunt(&self.target, DYING).await;
        if timeout(DYING / 10, self.child.exited()).await.is_ok() {
            return;
        }
        // Used if `/proc` can't be read, because it does not exist or descriptors are lacking.
        self.child.kill_group();
        if timeout(DYING, self.child.exited()).await.is_err() {
            tracing::warn!(pid = self.pid(), "a killed command does not end");
        }
    }

    /// Reads the rest after the command's end; returns whether the pipe is still open after
    /// `grace`.
    pub(super) async fn settle(&mut self, capture: &mut Capture, grace: Duration) -> bool {
        let Some(pipe) = &self.pipe else {
            return false;
        };
        // The command's own output is in the pipe by now, and is always read.
        let mut pending = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
        loop {
            match capture.read(pipe) {
                Ok(0) => {
                    self.pipe = None;
                    return false;
                }
                Ok(count) => pending = pending.saturating_sub(count as u64),
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break,
            }
            if pending == 0 {
                break;
            }
        }
        let ended = timeout(grace, async { while fill(Some(pipe), capture).await {} }).await;
        if ended.is_ok() {
            self.pipe = None;
        }
        ended.is_err()
    }

    /// Continues to read for background processes, whose writes would fail otherwise.
    pub(super) fn read_on(&mut self) -> Option<AbortHandle> {
        let pipe = self.pipe.take()?;
        let task = tokio::spawn(async move {
            loop {
                // Nothing of it is kept.
                let mut nowhere = Capture::new(0);
                if !fill(Some(&pipe), &mut nowhere).await {
                    return;
                }
                drop(nowhere);
                sleep(FLOOD_PAUSE).await;
            }
        });
        Some(task.abort_handle())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_at_once(&mut self.child, &self.target);
    }
}

/// Kills a child that has not been reaped, with all processes of `target`; blocks for a bounded time.
pub(super) fn end_at_once(child: &mut ChildProcess, target: &ProcessTarget) {
    if child.is_reaped() {
        return;
    }
    processes::kill_until_gone(target, DYING / 2);
    child.kill_group();
    child.ends_within(DYING / 10);
}

/// Reads one piece when one is available; returns whether the pipe is still open. Can be dropped
/// and called again.
async fn fill(pipe: Option<&AsyncFd<OwnedFd>>, capture: &mut Capture) -> bool {
    let Some(pipe) = pipe else {
        return false;
    };
    let Ok(mut ready) = pipe.readable().await else {
        return false;
    };
    let read = |fd: &AsyncFd<OwnedFd>| capture.read(fd).map_err(io::Error::from);
    match ready.try_io(read) {
        Ok(Ok(0)) => false,
        Ok(Err(error)) => error.kind() == io::ErrorKind::Interrupted,
        Ok(Ok(_)) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch::{Task, settled};
    use super::Running;
    use crate::hanging::StartLimit;
    use crate::{LocalExecutor, LocalSettings};
    use mswea_core::{Command, Executor, Stop};
    use rustix::process::{Pid, Signal, kill_process};
    use std::time::Duration;

    /// The host was stopped by SIGSTOP, and then notices the expired time before the end of the
    /// command.
    #[tokio::test]
    async fn an_ended_command_has_not_timed_out() {
        let mut executor = LocalExecutor::new(LocalSettings::default());
        let stop = Stop::never();
        let limit = StartLimit::new("echo", Duration::from_secs(60), &stop);
        let task = Task::Command("echo done; exit 3");
        let mut running = executor.launch(task, &limit).await.unwrap();
        until_ended(&running);
        // The signal of the end is missing.
        running.child.has_no_signal();
        let limit = Duration::ZERO;
        let command = Command::new("echo done; exit 3");
        let output = executor
            .attend(running, &command, limit, &Stop::never())
            .await;
        assert_eq!((output.output.as_str(), output.returncode), ("done\n", 3));
    }

    fn until_ended(running: &Running) {
        while !mswea_helper::processes::stat(running.pid(), &mut Vec::new())
            .is_none_or(|process| process.is_gone())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn until_output(running: &Running, bytes: u64) {
        let pipe = running.pipe.as_ref().unwrap();
        while rustix::io::ioctl_fionread(pipe).unwrap() < bytes {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many processes sleep for so many seconds.
    fn sleeping(seconds: &str) -> usize {
        let all = mswea_helper::processes::all().into_iter();
        let line = format!("sleep\0{seconds}\0");
        let found = all.filter(|process| {
            let found = std::fs::read(format!("/proc/{}/cmdline", process.pid));
            found.is_ok_and(|found| found == line.as_bytes())
        });
        found.count()
    }

    /// A start is given up by a signal, which an ended program does not get.
    #[tokio::test]
    async fn an_ended_command_is_told_from_a_killed_one() {
        let mut executor = LocalExecutor::new(LocalSettings::default());
        let stop = Stop::never();
        for (command, by_itself) in [
            ("exit 3", true),
            ("kill -TERM $$", true),
            ("sleep 71.5 & echo; sleep 71.4", false),
        ] {
            let limit = StartLimit::new(command, Duration::from_secs(60), &stop);
            let started = executor.launch(Task::Command(command), &limit).await;
            let running = started.unwrap();
            match by_itself {
                true => until_ended(&running),
                false => {
                    until_output(&running, 1);
                    while sleeping("71.5") == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            // As a start is given up.
            let pid = Pid::from_raw(running.pid()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
            until_ended(&running);
            let settled = settled(Ok(running), true, &limit);
            assert_eq!(settled.is_ok(), by_itself, "{command}");
            drop(settled);
            assert_eq!(sleeping("71.5"), 0, "{command}");
        }
    }

    /// The first of the two times passes when the second has passed, too.
    #[tokio::test]
    async fn a_limit_that_passes_unnoticed_is_kept() {
        let mut executor = LocalExecutor::new(LocalSettings::default());
        let stop = Stop::never();
        let command = "echo x; sleep 71.4";
        let starting = StartLimit::new(command, Duration::from_secs(60), &stop);
        let running = executor
            .launch(Task::Command(command), &starting)
            .await
            .unwrap();
        until_output(&running, 2);
        let limit = Duration::from_millis(20);
        let command = Command::new(command);
        let output = executor.attend(running, &command, limit, &stop);
        // The only thread is busy until both are over.
        let busy = async { std::thread::sleep(Duration::from_millis(60)) };
        let (output, ()) = tokio::time::timeout(Duration::from_secs(30), async {
            tokio::join!(biased; output, busy)
        })
        .await
        .unwrap();
        assert_eq!((output.output.as_str(), output.returncode), ("x\n", -1));
    }

    #[tokio::test]
    async fn kernels_without_pidfds_are_served_by_looking() {
        let mut executor = LocalExecutor::new(LocalSettings::default());
        let vectors = [
            ("seq 1 30000 | tail -n 1; exit 4", 5.0, "30000\n", 4),
            ("echo x; sleep 9", 0.3, "x\n", -1),
            ("yes >/dev/null & echo y", 5.0, "y\n", 0),
        ];
        let stop = Stop::never();
        for (command, limit, text, returncode) in vectors {
            let starting = StartLimit::new(command, Duration::from_secs(60), &stop);
            let task = Task::Command(command);
            let mut running = executor.launch(task, &starting).await.unwrap();
            running.child.has_no_signal();
            let limit = Duration::from_secs_f64(limit);
            let output = executor
                .attend(running, &Command::new(command), limit, &Stop::never())
                .await;
            assert_eq!(
                (output.output.as_str(), output.returncode),
                (text, returncode)
            );
        }
    }

    /// With many runs a start waits for another thread, where it can be given up.
    #[tokio::test]
    async fn a_start_that_is_given_up_does_not_touch_the_next_command() {
        let mut others = Vec::new();
        for _ in 0..6 {
            let mut executor = LocalExecutor::new(LocalSettings::default());
            let command = Command::new("true");
            assert_eq!(
                executor.execute(&command, &Stop::never()).await.returncode,
                0
            );
            others.push(executor);
        }
        let mut executor = LocalExecutor::new(LocalSettings::default());
        for round in 0..60 {
            let long = Command::new("sleep 71.3 & sleep 71.3");
            let pause = Duration::from_micros(50 * round);
            let stop = Stop::never();
            let given_up = tokio::time::timeout(pause, executor.execute(&long, &stop));
            assert!(given_up.await.is_err());
            let next = Command::new("sleep 0.01; echo here");
            let output = executor.execute(&next, &Stop::never()).await;
            assert_eq!(
                (output.output.as_str(), output.returncode),
                ("here\n", 0),
                "{round}"
            );
        }
        executor.cleanup().await;
        assert_eq!(sleeping("71.3"), 0);
        for mut other in others {
            other.cleanup().await;
        }
    }
}
