//! A bash that lives on between actions: its process, its pipes, and what is heard of it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mswea_helper::dialogue::{Dialogue, Report, taken_over};
use rustix::process::{Pid, Signal};
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::attend::{DYING, FLOOD_PAUSE, exited, fill, register};
use crate::capture::Capture;
use crate::processes::{self, ProcessTarget, Session, Shell};
use crate::spawn::ChildProcess;
use mswea_core::Stop;

/// The pause between two looks whether an action's background processes have ended.
const LOOK: Duration = Duration::from_millis(5);
/// How long a shell that is no longer needed may take to end by itself.
const FAREWELL: Duration = Duration::from_millis(100);
/// The most bytes of a shell's exported variables.
const STATE: u64 = 4 * 1024 * 1024;

/// The ends of the shell's pipes and files that the host has.
#[derive(Debug)]
pub(super) struct Ends {
    /// Where its commands are written to.
    pub(super) control: OwnedFd,
    /// All output.
    pub(super) output: OwnedFd,
    /// What the shell itself says.
    pub(super) reports: OwnedFd,
    /// The file with the command.
    pub(super) text: File,
    /// The file with the exported variables.
    pub(super) state: File,
}

/// What the wait for an action ended with.
#[derive(Debug)]
pub(super) enum Wake {
    Reported(Report),
    Exited(i32),
    TimedOut,
    Stopped,
    Lost(io::Error),
}

/// A living shell. Dropped, it is killed with all processes of its session.
#[derive(Debug)]
pub(super) struct LivingShell {
    child: ChildProcess,
    pidfd: Option<AsyncFd<OwnedFd>>,
    control: OwnedFd,
    output: Arc<AsyncFd<OwnedFd>>,
    reports: AsyncFd<OwnedFd>,
    text: File,
    state: File,
    dialogue: Dialogue,
    /// Reads the output of background processes between two actions.
    drain: Option<JoinHandle<()>>,
    /// All processes of its session.
    target: ProcessTarget,
    /// Its children when the action began.
    before: Vec<i32>,
    /// When the action began.
    since: u64,
    /// Its working directory, as it has reported it last.
    pub(super) folder: Option<PathBuf>,
}

impl LivingShell {
    pub(super) fn new(
        child: ChildProcess,
        ends: Ends,
        target: ProcessTarget,
        dialogue: Dialogue,
    ) -> io::Result<Self> {
        let pidfd = child.pidfd().map(register).transpose()?;
        let this = Self {
            pidfd,
            child,
            control: ends.control,
            output: Arc::new(register(ends.output)?),
            reports: register(ends.reports)?,
            text: ends.text,
            state: ends.state,
            dialogue,
            drain: None,
            target,
            before: Vec::new(),
            since: 0,
            folder: None,
        };
        this.tell(&this.dialogue.opening())?;
        Ok(this)
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    pub(super) fn session(&self) -> Session {
        let start = self.target.sessions.first().map_or(0, |s| s.start);
        Session {
            id: self.pid(),
            start,
        }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Writes a line, which has room in the pipe: the shell has read the one before.
    fn tell(&self, line: &[u8]) -> io::Result<()> {
        match rustix::io::write(&self.control, line)? {
            count if count == line.len() => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        }
    }

    /// Gives it a command, which is the action `action`. Output that came before is dropped.
    pub(super) async fn ask(&mut self, command: &str, action: &str) -> io::Result<()> {
        if let Some(drain) = self.drain.take() {
            drain.abort();
            let _ = drain.await;
        }
        self.take_pending(&mut Capture::new(0));
        self.before = self.children();
        self.since = processes::this_tick();
        let (text, line) = self.dialogue.ask(command, action);
        self.text.set_len(0)?;
        self.text.write_all_at(&text, 0)?;
        self.tell(&line)
    }

    /// Asks again for the report of the command.
    pub(super) fn ask_again(&self) {
        let _ = self.tell(&self.dialogue.ask_again());
    }

    /// Reads until the command has ended, or the shell, or the time.
    pub(super) async fn wait(
        &mut self,
        capture: &mut Capture,
        limit: Duration,
        stop: &Stop,
    ) -> Wake {
        let mut expired = pin!(sleep(limit));
        let mut stopped = pin!(stop.stopped());
        let (mut is_open, mut is_heard) = (true, true);
        loop {
            // In this order, so that much output does not delay the others.
            tokio::select! {
                biased;
                // Without it, the shell has ended or has become another program (`exec`).
                report = hear(&self.reports, &mut self.dialogue), if is_heard => match report {
                    Ok(report) => return Wake::Reported(report),
                    Err(_) => is_heard = false,
                },
                end = exited(&mut self.child, self.pidfd.as_ref()) => {
                    return end.map_or_else(Wake::Lost, Wake::Exited);
                }
                () = &mut stopped => return Wake::Stopped,
                () = &mut expired => return Wake::TimedOut,
                open = fill(Some(&self.output), capture), if is_open => is_open = open,
            }
        }
    }

    /// Reads what is in the pipe.
    fn take_pending(&self, capture: &mut Capture) {
        let mut pending = rustix::io::ioctl_fionread(&self.output).unwrap_or(0);
        while pending > 0 {
            match capture.read(&self.output) {
                Ok(0) => return,
                Ok(count) => pending = pending.saturating_sub(count as u64),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Reads the rest of an action's output. What the command itself has written is in the pipe by
    /// now; background processes of the action get `grace`.
    pub(super) async fn settle(&mut self, capture: &mut Capture, grace: Duration) {
        self.take_pending(capture);
        if self.has_ended() {
            let _ = timeout(grace, async {
                while fill(Some(&self.output), capture).await {}
            })
            .await;
            return;
        }
        let asked = Instant::now();
        while asked.elapsed() < grace
            && self
                .children()
                .iter()
                .any(|child| !self.before.contains(child))
        {
            let _ = timeout(LOOK, async {
                while fill(Some(&self.output), capture).await {}
            })
            .await;
        }
        self.take_pending(capture);
    }

    /// Continues to read for background processes, whose writes would block otherwise, until the
    /// next action.
    pub(super) fn read_on(&mut self) {
        self.drain = Some(tokio::spawn(drain(Arc::clone(&self.output))));
    }

    /// The same without an end, for a shell that has ended.
    pub(super) fn read_on_without_it(&self) -> JoinHandle<()> {
        tokio::spawn(drain(Arc::clone(&self.output)))
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.child.is_reaped()
            && let Some(pid) = Pid::from_raw(self.pid())
        {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// What the action `action` has started, without what earlier actions have left running.
    pub(super) fn action(&self, action: &str) -> ProcessTarget {
        ProcessTarget {
            sessions: vec![self.session()],
            since: self.since,
            shell: Some(Shell {
                pid: self.pid(),
                before: self.before.clone(),
            }),
            ..ProcessTarget::marked(processes::ACTION_VARIABLE, [action.to_owned()])
        }
    }

    /// Notes its working directory, as it has reported it.
    pub(super) fn note_report(&mut self, report: &Report) {
        let folder = PathBuf::from(OsStr::from_bytes(&report.folder));
        self.folder = Some(folder).filter(|folder| folder.is_absolute());
    }

    /// Notes its working directory while it can be asked for.
    pub(super) fn note_folder(&mut self) {
        if let Ok(folder) = std::fs::read_link(format!("/proc/{}/cwd", self.pid())) {
            self.folder = Some(folder);
        }
    }

    /// Kills the shell alone, and waits for it for a bounded time.
    pub(super) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let end = exited(&mut self.child, self.pidfd.as_ref());
        if timeout(DYING, end).await.is_err() {
            tracing::warn!(pid = self.pid(), "a killed shell does not end");
        }
    }

    /// Its exported variables, as a new shell takes them over.
    pub(super) fn exported(&self) -> Vec<u8> {
        let length = self.state.metadata().map_or(0, |found| found.len());
        let mut state = vec![0; usize::try_from(length.min(STATE)).unwrap_or(0)];
        match self.state.read_exact_at(&mut state, 0) {
            Ok(()) if length <= STATE => taken_over(&state),
            _ => Vec::new(),
        }
    }

    /// Has it end by itself, which runs its trap for that.
    pub(super) async fn dismiss(&mut self) {
        if let Some(drain) = self.drain.take() {
            drain.abort();
        }
        if let Ok((reading, _)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
            // The end of its input.
            self.control = reading;
        }
        let end = exited(&mut self.child, self.pidfd.as_ref());
        let _ = timeout(FAREWELL, end).await;
    }

    /// Its children; none where the kernel does not list them.
    fn children(&self) -> Vec<i32> {
        let mut buffer = Vec::new();
        let pid = self.pid();
        if !processes::read_proc(pid, &format!("task/{pid}/children"), &mut buffer) {
            return Vec::new();
        }
        String::from_utf8_lossy(&buffer)
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }
}

impl Drop for LivingShell {
    fn drop(&mut self) {
        if let Some(drain) = self.drain.take() {
            drain.abort();
        }
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

/// Reads and drops.
async fn drain(output: Arc<AsyncFd<OwnedFd>>) {
    loop {
        let mut nowhere = Capture::new(0);
        if !fill(Some(&output), &mut nowhere).await {
            return;
        }
        drop(nowhere);
        sleep(FLOOD_PAUSE).await;
    }
}

/// Waits for the report. Can be dropped and called again.
async fn hear(reports: &AsyncFd<OwnedFd>, dialogue: &mut Dialogue) -> io::Result<Report> {
    let mut buffer = [0; 4096];
    loop {
        let mut ready = reports.readable().await?;
        let read =
            ready.try_io(|fd| rustix::io::read(fd.get_ref(), &mut buffer).map_err(io::Error::from));
        match read {
            Err(_) => {}
            Ok(Ok(0)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(Ok(count)) => {
                if let Some(report) = dialogue.hear(&buffer[..count]) {
                    return Ok(report);
                }
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}

/// A copy of a descriptor above those numbers that the shell's descriptors get.
pub(super) fn above(fd: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 256)?)
}

/// A file without a name with this content.
pub(super) fn nameless(content: &[u8]) -> io::Result<File> {
    let fd = rustix::fs::memfd_create("mswea", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    Ok(file)
}
