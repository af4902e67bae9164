//! A running action: reads its output, and finds out when it has ended.

use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use mswea_helper::processes::{self, ACTION_VARIABLE, Children, ProcessTarget, Session};

use crate::input::ProgramInput;
use crate::spawn::StartedProcess;
use crate::terminal::Terminal;
use crate::{KILLING, sys};

/// How many bytes of output are read at once and dropped after the end of an action.
const PIECE: usize = 64 * 1024;
/// The pause after each such read, so that a background process that floods its output is slowed
/// down and does not keep the helper busy.
const FLOOD_PAUSE: Duration = Duration::from_millis(10);

/// A started action.
pub struct RunningAction {
    pid: i32,
    /// A time before its start.
    since: u64,
    until: u64,
    /// The value of [`ACTION_VARIABLE`] in the environment of all its processes.
    mark: Option<Vec<u8>>,
    /// None once the output has ended.
    output: Option<OwnedFd>,
    pub input: ProgramInput,
    grace: Duration,
    end: Option<ProcessEnd>,
    killed: bool,
    left: usize,
}

/// The end of an action, or of a command of the shell.
pub struct ActionEnd {
    pub status: i32,
    pub killed: bool,
    /// How many processes could not be killed.
    pub left: usize,
    /// Messages about the shell, one per line.
    pub notes: String,
}

/// How the action's process ended.
struct ProcessEnd {
    status: i32,
    /// How many bytes of the output were written before the end of the process, and are always
    /// read.
    pending: usize,
    /// The time from which processes that still hold the output open count as background processes.
    settled: Instant,
}

impl RunningAction {
    /// `since` is a time before the action's start; `mark` is the value of its [`ACTION_VARIABLE`].
    pub fn new(started: StartedProcess, since: u64, mark: Option<&[u8]>, grace: Duration) -> Self {
        // Of nested marks, the innermost one is that of this action.
        let mark = mark
            .and_then(|value| value.rsplit(|byte| *byte == b':').next())
            .filter(|id| !id.is_empty());
        Self {
            pid: started.pid,
            since,
            until: sys::ticks(),
            mark: mark.map(<[u8]>::to_vec),
            output: Some(started.output),
            input: started.input,
            grace,
            end: None,
            killed: false,
            left: 0,
        }
    }

    /// Records that a child was reaped, which may be the action's process.
    pub fn buried(&mut self, pid: i32, status: ExitStatus) {
        if self.pid == pid && self.end.is_none() {
            self.ended(sys::exit_code(status));
        }
    }

    fn bury(&mut self) {
        if self.end.is_none()
            && let Some((pid, status)) = sys::bury_child(self.pid)
        {
            self.buried(pid, status);
        }
    }

    fn pending(&self) -> usize {
        self.output
            .as_ref()
            .map_or(0, |fd| sys::pending(fd.as_fd()))
    }

    fn ended(&mut self, status: i32) {
        let pending = self.pending();
        // The output of a terminal ends only when no process has the terminal open.
        self.input = ProgramInput::default();
        self.end = Some(ProcessEnd {
            status,
            pending,
            settled: Instant::now() + self.grace,
        });
    }

    /// The descriptor to read output from, unless the output has ended.
    pub fn output(&self) -> Option<RawFd> {
        self.output.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Reads once, when output is available.
    pub fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) {
        let Some(fd) = self.output() else {
            return;
        };
        match sys::read(fd, buffer, limit) {
            Ok(None) => {}
            Ok(Some(0)) | Err(_) => self.output = None,
            Ok(Some(count)) => {
                if let Some(end) = &mut self.end {
                    end.pending = end.pending.saturating_sub(count);
                }
            }
        }
    }

    /// The end of the action, once the process has ended and its output is read.
    pub fn over(&self) -> Option<ActionEnd> {
        let end = self.end.as_ref()?;
        let is_read = end.pending == 0 || self.pending() == 0;
        let over = self.output.is_none() || is_read && Instant::now() >= end.settled;
        over.then(|| ActionEnd {
            status: end.status,
            killed: self.killed,
            left: self.left,
            notes: String::new(),
        })
    }

    /// The latest time at which the action counts as over; none while its process runs.
    pub fn settled(&self) -> Option<Instant> {
        self.end.as_ref().map(|end| end.settled)
    }

    /// Sends a signal to the processes in the foreground of its terminal, or to its process group.
    pub fn signal(&self, number: i32) {
        if self.end.is_none() {
            let terminal = self.input.as_terminal();
            let group = terminal.and_then(Terminal::foreground).unwrap_or(self.pid);
            sys::signal_group(group, number);
        }
    }

    /// Kills the action's process and all processes that it started. If it has ended by itself,
    /// only its grace period ends.
    pub fn kill(&mut self) {
        self.bury();
        if let Some(end) = &mut self.end {
            end.settled = Instant::now();
            return;
        }
        self.killed = true;
        let mark = self.mark.as_deref().map(String::from_utf8_lossy);
        let target = ProcessTarget {
            since: self.since,
            sessions: vec![Session {
                id: self.pid,
                start: self.until,
            }],
            children: Children::Unmarked,
            ..ProcessTarget::marked(ACTION_VARIABLE, mark.map(Into::into))
        };
        self.left = processes::kill_until_gone(&target, KILLING);
        // Needed if there is no `/proc`. The process has not been reaped, so the pid is still its
        // own.
        sys::signal_group(self.pid, libc::SIGKILL);
        let killed = Instant::now();
        while self.end.is_none() && killed.elapsed() < KILLING / 10 {
            self.bury();
            if self.end.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if self.end.is_none() {
            self.left = self.left.max(1);
            self.ended(128 + libc::SIGKILL);
        }
    }

    /// The action's output, if other processes still hold it open after the end.
    pub fn left_open(self) -> Option<BackgroundOutput> {
        let output = self.output.filter(|_| !self.killed)?;
        Some(BackgroundOutput::new(output))
    }
}

/// The output of background processes. It is read and dropped, because otherwise their writes would
/// fail.
pub struct BackgroundOutput {
    output: OwnedFd,
    next: Instant,
}

impl BackgroundOutput {
    /// An output that is read from now on.
    pub fn new(output: OwnedFd) -> Self {
        Self {
            output,
            next: Instant::now(),
        }
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.output.as_raw_fd()
    }

    /// How many bytes can be read now.
    pub fn pending(&self) -> usize {
        sys::pending(self.output.as_fd())
    }

    /// The descriptor to read from now, or the time of the next read.
    pub fn due(&self, now: Instant) -> Result<RawFd, Instant> {
        if now >= self.next {
            Ok(self.output.as_raw_fd())
        } else {
            Err(self.next)
        }
    }

    /// Reads a piece and drops it; returns whether there may be more.
    pub fn skip(&mut self, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        self.next = Instant::now() + FLOOD_PAUSE;
        !matches!(
            sys::read(self.output.as_raw_fd(), scratch, PIECE),
            Ok(Some(0)) | Err(_)
        )
    }
}
