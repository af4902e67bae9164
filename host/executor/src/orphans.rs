//! Orphans: processes whose parents have ended, and which the kernel then hands to the host.
//!
//! A daemon that has left its session and emptied its environment has none of the signs by which
//! [`mswea_helper::processes`] recognises processes. If the host is a *subreaper*, the daemon
//! becomes the host's child when its parent ends. That is a sign again: a child in another session,
//! which the host has not started, descends from a command.
//!
//! Being a subreaper is a property of the whole process, so the program decides about it
//! ([`adopt`]) and not the library: an embedding program may have children of its own.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::spawn;
use mswea_helper::processes::{self, Process, Session};

static ADOPTING: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of its orphaned descendants. Only for programs whose own children
/// all stay in the program's session.
pub fn adopt() {
    let me = rustix::process::getpid();
    if rustix::process::set_child_subreaper(Some(me)).is_ok() {
        ADOPTING.store(true, Ordering::Relaxed);
    }
}

/// Whether orphans become children of this process.
pub(super) fn is_adopting() -> bool {
    ADOPTING.load(Ordering::Relaxed)
}

/// The runs of this process that have started a process and have not cleaned up yet.
static RUNS: Mutex<Runs> = Mutex::new(Runs {
    count: 0,
    ending: 0,
    since: 0,
});

struct Runs {
    count: usize,
    /// How many of them are being ended now.
    ending: usize,
    /// When the first of them began.
    since: u64,
}

/// Up to this number, runs do not delay each other noticeably.
const FEW: usize = 4;

/// A run that may leave orphans while this value exists.
#[derive(Debug)]
pub(super) struct Presence(());

impl Presence {
    /// Registers a run that began at `since`.
    pub(super) fn new(since: u64) -> Self {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.since = if runs.count == 0 {
            since
        } else {
            runs.since.min(since)
        };
        runs.count += 1;
        Self(())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        RUNS.lock().unwrap_or_else(PoisonError::into_inner).count -= 1;
    }
}

/// The number of runs that are being ended while this value exists. They hold a [`Presence`] for
/// longer than that.
pub(super) struct RunsEnding(usize);

impl RunsEnding {
    /// Registers `count` runs.
    pub(super) fn new(count: usize) -> Self {
        RUNS.lock().unwrap_or_else(PoisonError::into_inner).ending += count;
        Self(count)
    }
}

impl Drop for RunsEnding {
    fn drop(&mut self) {
        RUNS.lock().unwrap_or_else(PoisonError::into_inner).ending -= self.0;
    }
}

/// Whether there are so many runs that starting their processes delays the others noticeably.
pub(super) fn are_many() -> bool {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner).count > FEW
}

/// The orphans among `processes`, and the dead ones, which are reaped, if there is only one run, or all runs are being ended. It is not
/// known to which run an orphan belongs, so while there are others, orphans are left to the last
/// run.
pub(super) fn of_last_run(processes: &[Process]) -> Vec<i32> {
    if !is_adopting() {
        return Vec::new();
    }
    let since = {
        let runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.count > runs.ending.max(1) {
            return Vec::new();
        }
        runs.since
    };
    let me = std::process::id() as i32;
    let Some(session) = own_session() else {
        return Vec::new();
    };
    let mut children: Vec<Process> = processes
        .iter()
        .filter(|process| process.parent == me && process.session != session)
        .filter(|process| process.start >= since)
        .copied()
        .collect();
    spawn::retain_adopted(&mut children, |process| process.pid);
    let dead = children.iter().filter(|process| process.is_gone());
    // Many of them would delay the search for others.
    spawn::reap_adopted(&dead.map(|process| process.pid).collect::<Vec<_>>());
    children.into_iter().map(|process| process.pid).collect()
}

/// The numbers of the host's children. The file is opened once: finding it costs more than reading
/// it, and it is read in every step.
fn children(buffer: &mut Vec<u8>) -> Option<&str> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let file = match FILE.get() {
        Some(file) => file,
        None => {
            let me = std::process::id();
            // The kernel gives orphans to the first thread.
            let path = format!("/proc/{me}/task/{me}/children");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            // The file may fail to open now for lack of descriptors, and open later.
            let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
            FILE.get_or_init(|| file)
        }
    };
    loop {
        buffer.reserve(4096);
        let offset = buffer.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(buffer), offset) {
            Ok(0) => return std::str::from_utf8(buffer).ok(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Whether no run of this process has called this for `pause`: of hundreds of runs with commands,
/// one searches for the orphans of all.
pub(super) fn is_due(pause: Duration) -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = last.is_none_or(|last| last.elapsed() >= pause);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

/// Reaps the orphans that have died and returns the sessions of the living ones. It is cheap,
/// because only children are examined; on a kernel that does not list children it finds nothing.
pub(super) fn look() -> Vec<Session> {
    let mut buffer = Vec::new();
    let Some(children) = children(&mut buffer) else {
        return Vec::new();
    };
    let mut children: Vec<i32> = children
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    spawn::retain_adopted(&mut children, |pid| *pid);
    if children.is_empty() {
        return Vec::new();
    }
    let Some(session) = own_session() else {
        return Vec::new();
    };
    let mut adopted: Vec<Process> = children
        .into_iter()
        .filter_map(|pid| processes::stat(pid, &mut buffer))
        .filter(|process| process.session != session)
        .collect();
    // Checked once more: at the first check, a process that was just being started had no session
    // of its own.
    spawn::retain_adopted(&mut adopted, |process| process.pid);
    let (dead, living): (Vec<_>, Vec<_>) = adopted.into_iter().partition(Process::is_gone);
    let dead: Vec<i32> = dead.iter().map(|process| process.pid).collect();
    spawn::reap_adopted(&dead);
    living
        .iter()
        .map(|process| Session {
            id: process.session,
            start: process.start,
        })
        .collect()
}

/// Reaps the orphans that the host inherited, if it is process 1 or a subreaper.
///
/// Commands run in sessions of their own, and their descendants can't return to the host's session.
/// So a dead child in another session, for which no code waits, is an orphan.
pub(super) fn bury() {
    let me = std::process::id() as i32;
    if me != 1 && !matches!(rustix::process::child_subreaper(), Ok(Some(_))) {
        return;
    }
    let processes = processes::all();
    let Some(session) = own_session() else {
        return;
    };
    let zombies: Vec<i32> = processes
        .iter()
        .filter(|process| process.parent == me && process.is_gone() && process.session != session)
        .map(|process| process.pid)
        .collect();
    spawn::reap_adopted(&zombies);
}

/// This process's session, read from the same source as other sessions, so that they can be
/// compared: in a PID namespace whose first process is not the first of a session (`docker exec`,
/// `unshare --pid`), it is 0.
fn own_session() -> Option<i32> {
    let me = std::process::id() as i32;
    Some(processes::stat(me, &mut Vec::new())?.session)
}
