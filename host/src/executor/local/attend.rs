//! A command while it runs: reads its output, waits for it, ends it.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::executor::capture::Capture;
use crate::executor::processes::{self, Hunt, Session, Target};
use crate::executor::spawn::Child;
use crate::roles::Stop;

/// How long a killed command may take to be gone.
const DYING: Duration = Duration::from_secs(1);
/// The pause between two looks at a child where the kernel can't tell us by itself.
const LOOK: Duration = Duration::from_millis(2);
/// The pause after each piece that is read and thrown away: a background process that floods
/// its output is slowed down instead of keeping the host busy.
const FLOOD_PAUSE: Duration = Duration::from_millis(10);

/// How the wait for a command ended.
#[derive(Debug)]
pub(super) enum End {
    Exited(i32),
    TimedOut,
    Stopped,
    Lost(io::Error),
}

/// A started command. Dropped before its end, it is killed with all that it started.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pidfd: Option<AsyncFd<OwnedFd>>,
    /// None once it has ended.
    pipe: Option<AsyncFd<OwnedFd>>,
    target: Target,
}

impl Running {
    pub(super) fn new(child: Child, pipe: OwnedFd, target: Target) -> io::Result<Self> {
        let mut this = Self {
            child,
            pidfd: None,
            pipe: None,
            target,
        };
        // From here on a failure ends the child.
        this.pipe = Some(register(pipe)?);
        if let Some(fd) = this.child.pidfd() {
            this.pidfd = Some(register(fd)?);
        }
        Ok(this)
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// The session that the command began.
    pub(super) fn session(&self) -> Session {
        let id = self.child.pid();
        let start = self.target.sessions.first().map_or(0, |s| s.start);
        Session { id, start }
    }

    /// Reads until the command exits or has to.
    pub(super) async fn attend(
        &mut self,
        capture: &mut Capture,
        limit: Duration,
        stop: &Stop,
    ) -> End {
        let mut expired = pin!(sleep(limit));
        let mut stopped = pin!(stop.stopped());
        loop {
            // In this order: a flood of output must not put off the other three.
            tokio::select! {
                biased;
                end = exited(&mut self.child, self.pidfd.as_ref()) => {
                    return end.map_or_else(End::Lost, End::Exited);
                }
                () = &mut stopped => return End::Stopped,
                // A host that stood still (SIGSTOP) has not heard of what ended meanwhile.
                () = &mut expired => return match self.child.try_wait() {
                    Ok(Some(returncode)) => End::Exited(returncode),
                    _ => End::TimedOut,
                },
                open = fill(self.pipe.as_ref(), capture), if self.pipe.is_some() => {
                    if !open {
                        self.pipe = None;
                    }
                }
            }
        }
    }

    /// Kills the command and all that it started, and waits for it, but not for ever.
    pub(super) async fn end(&mut self) {
        kill_until_gone(&self.target, DYING).await;
        if timeout(DYING / 10, exited(&mut self.child, self.pidfd.as_ref()))
            .await
            .is_ok()
        {
            return;
        }
        // The last resort where `/proc` can't be read, for want of descriptors or of itself.
        self.child.kill_group();
        if timeout(DYING, exited(&mut self.child, self.pidfd.as_ref()))
            .await
            .is_err()
        {
            tracing::warn!(pid = self.pid(), "a killed command does not end");
        }
    }

    /// Reads what is left after the command's end; returns whether somebody still holds the
    /// pipe after `grace`.
    pub(super) async fn settle(&mut self, capture: &mut Capture, grace: Duration) -> bool {
        let Some(pipe) = &self.pipe else {
            return false;
        };
        // What the command itself wrote is in the pipe by now: that much is always read.
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

    /// Goes on reading for background processes, whose writes would fail otherwise.
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
        if self.child.is_reaped() {
            return;
        }
        processes::kill_until_gone(&self.target, DYING / 2);
        self.child.kill_group();
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < DYING / 10 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Kills until none is left, for at most `limit`. Returns whether none is left.
pub(super) async fn kill_until_gone(target: &Target, limit: Duration) -> bool {
    let started = Instant::now();
    let mut hunt = Hunt::default();
    while !hunt.is_over(target) {
        if started.elapsed() > limit {
            return false;
        }
        sleep(Hunt::PAUSE).await;
    }
    true
}

fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as it lives, and the
    // `AsyncFd` owns it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Waits for the child; may be dropped and begun again.
async fn exited(child: &mut Child, pidfd: Option<&AsyncFd<OwnedFd>>) -> io::Result<i32> {
    loop {
        let ready = match pidfd {
            Some(fd) => Some(fd.readable().await?),
            None => None,
        };
        if let Some(returncode) = child.try_wait()? {
            return Ok(returncode);
        }
        match ready {
            Some(mut ready) => ready.clear_ready(),
            None => sleep(LOOK).await,
        }
    }
}

/// Reads one piece when there is one; returns whether the pipe goes on. May be dropped and
/// begun again.
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
    use super::super::launch::Task;
    use crate::executor::{LocalExecutor, LocalSettings};
    use crate::roles::{Command, Stop};
    use std::time::Duration;

    /// As after a SIGSTOP of the host, when it sees the clock before it sees the end.
    #[tokio::test]
    async fn what_has_ended_has_not_timed_out() {
        let mut executor = LocalExecutor::new(LocalSettings::default());
        let mut running = executor.launch(Task::Command("echo done; exit 3")).unwrap();
        while !crate::executor::processes::stat(running.pid(), &mut Vec::new())
            .is_none_or(|process| process.is_gone())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nothing tells of the end.
        running.pidfd = None;
        let limit = Duration::ZERO;
        let command = Command::new("echo done; exit 3");
        let output = executor
            .attend(running, &command, limit, &Stop::never())
            .await;
        assert_eq!((output.output.as_str(), output.returncode), ("done\n", 3));
    }

    #[tokio::test]
    async fn kernels_without_pidfds_are_served_by_looking() {
        let mut executor = LocalExecutor::new(LocalSettings::default());
        let vectors = [
            ("seq 1 30000 | tail -n 1; exit 4", 5.0, "30000\n", 4),
            ("echo x; sleep 9", 0.3, "x\n", -1),
            ("yes >/dev/null & echo y", 5.0, "y\n", 0),
        ];
        for (command, limit, text, returncode) in vectors {
            let mut running = executor.launch(Task::Command(command)).unwrap();
            running.pidfd = None;
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
}
