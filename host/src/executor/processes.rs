//! Finds the processes of a run or an action in `/proc`, and ends them.
//!
//! Three signs say whose a process is: the variable that the command was started with and that
//! every child inherits, the session, and the parent. A daemon loses its parent and its
//! session but keeps the variable; a child with an emptied environment keeps its parent; only
//! one that gives up all three (and outlives the parent that knew it) is lost to us.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::spawn::reap_adopted;

/// Names the run in the environment of every process that an action starts.
pub const RUN_VARIABLE: &str = "MSWEA_RUN_ID";
/// Names the action likewise.
pub const ACTION_VARIABLE: &str = "MSWEA_ACTION";

/// How often the hunt starts over for processes that were born during it.
const ROUNDS: usize = 64;

/// Units of a start time in a second: `USER_HZ`, which Linux never changes.
const TICKS: f64 = 100.0;

/// Which processes are meant.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    /// An entry `NAME=value` of the environment.
    pub(super) mark: Vec<u8>,
    /// Sessions that belong to it wholly.
    pub(super) sessions: Vec<i32>,
    /// Processes that started before this (see [`now`]) are somebody else's.
    pub(super) since: u64,
}

impl Target {
    /// Everything that carries `variable` with `value`.
    pub(super) fn marked(variable: &str, value: &str) -> Self {
        Self {
            mark: format!("{variable}={value}").into_bytes(),
            ..Self::default()
        }
    }
}

/// A process as `/proc/PID/stat` shows it; pid and start time together never mean another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    start: u64,
    state: u8,
}

impl Process {
    /// Whether there is nothing left of it but its exit status.
    fn is_gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Sends a signal, unless the pid means another process by now. Returns whether it could
    /// be sent to a process that still lived.
    fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return false;
        };
        let still_it =
            || stat(self.pid, &mut Vec::new()).is_some_and(|now| now.start == self.start);
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor holds one process fast; only then is the check worth anything.
            Ok(fd) => still_it() && rustix::process::pidfd_send_signal(fd, signal).is_ok(),
            Err(Errno::SRCH) => false,
            // No such call here, or no descriptor left: the window is microseconds wide.
            Err(_) => still_it() && rustix::process::kill_process(pid, signal).is_ok(),
        }
    }
}

/// The time since boot in the unit and the clock of [`Target::since`], less a little for the
/// coarseness of both; 0 if there is no telling.
pub(super) fn now() -> u64 {
    let read = || {
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        let seconds: f64 = text.split(' ').next()?.parse().ok()?;
        Some(((seconds - 0.1) * TICKS).max(0.0) as u64)
    };
    read().unwrap_or(0)
}

/// Reads a file of a process; without std, which asks for the size of each file first.
fn read_proc(pid: i32, file: &str, buffer: &mut Vec<u8>) -> bool {
    buffer.clear();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(format!("/proc/{pid}/{file}"), flags, Mode::empty()) else {
        return false;
    };
    loop {
        buffer.reserve(4096);
        match rustix::io::read(&fd, rustix::buffer::spare_capacity(buffer)) {
            Ok(0) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn stat(pid: i32, buffer: &mut Vec<u8>) -> Option<Process> {
    if !read_proc(pid, "stat", buffer) {
        return None;
    }
    parse_stat(pid, buffer)
}

fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    // The name stands in parentheses and may hold any byte, also `)`.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[end + 1..])
        .ok()?
        .split_ascii_whitespace()
        .take(20)
        .collect();
    Some(Process {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Every process that can be seen.
fn all() -> Vec<Process> {
    let mut buffer = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| stat(pid, &mut buffer))
        .collect()
}

/// The living processes of `target` and everything below them and below `also`.
fn find(target: &Target, also: &BTreeMap<i32, u64>) -> Vec<Process> {
    let me = std::process::id() as i32;
    let mut buffer = Vec::new();
    let mut living = all();
    living.retain(|process| !process.is_gone() && process.pid != me && process.pid != 1);
    let (mut found, mut rest): (Vec<_>, Vec<_>) = living.into_iter().partition(|process| {
        also.get(&process.pid) == Some(&process.start)
            || process.start >= target.since
                && (target.sessions.contains(&process.session)
                    || read_proc(process.pid, "environ", &mut buffer)
                        && buffer
                            .split(|byte| *byte == 0)
                            .any(|entry| entry == target.mark))
    });
    let mut family: BTreeSet<i32> = found.iter().map(|process| process.pid).collect();
    loop {
        let (children, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|process| family.contains(&process.parent));
        if children.is_empty() {
            return found;
        }
        family.extend(children.iter().map(|process| process.pid));
        found.extend(children);
        rest = others;
    }
}

/// Sends `signal` to every process of `target`; returns how many there were to be reached.
pub(super) fn signal(target: &Target, signal: Signal) -> usize {
    find(target, &BTreeMap::new())
        .iter()
        .filter(|process| process.signal(signal))
        .count()
}

/// Whether there is any.
pub(super) fn exist(target: &Target) -> bool {
    !find(target, &BTreeMap::new()).is_empty()
}

/// Kills every process of `target` once; returns how many there were to be reached.
///
/// They are stopped first, until no new ones turn up: so that none can bring up another while
/// its parent, by which we would have known it, is being killed.
pub(super) fn kill(target: &Target) -> usize {
    let mut stopped = BTreeMap::new();
    let mut reached = Vec::new();
    for _ in 0..ROUNDS {
        let found = find(target, &stopped);
        let new = found
            .iter()
            .filter(|process| !stopped.contains_key(&process.pid));
        let new: Vec<_> = new.copied().collect();
        if new.is_empty() {
            break;
        }
        for process in new {
            stopped.insert(process.pid, process.start);
            if process.signal(Signal::STOP) {
                reached.push(process);
            }
        }
    }
    reached
        .iter()
        .filter(|process| process.signal(Signal::KILL))
        .count()
}

/// Kills until none is left, for at most `limit`; blocks. Returns whether none is left.
pub(super) fn kill_until_gone(target: &Target, limit: Duration) -> bool {
    let started = Instant::now();
    while kill(target) > 0 {
        if started.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Waits for the orphans that the host inherited, if it is process 1 or a subreaper.
///
/// Commands run in sessions of their own, and whatever descends from them can't come back into
/// the host's: so a dead child in a foreign session that nobody waits for is one of them.
pub(super) fn reap_orphans() {
    let me = std::process::id() as i32;
    if me != 1 && !matches!(rustix::process::child_subreaper(), Ok(Some(_))) {
        return;
    }
    let processes = all();
    let Some(session) = processes
        .iter()
        .find(|process| process.pid == me)
        .map(|process| process.session)
    else {
        return;
    };
    let zombies: Vec<i32> = processes
        .iter()
        .filter(|process| process.parent == me && process.is_gone() && process.session != session)
        .map(|process| process.pid)
        .collect();
    reap_adopted(&zombies);
}

/// Whether the process group that `leader` began has members; meant for a leader that was just
/// waited for, whose number nobody else can have got yet unless the group is empty.
pub(super) fn group_lives(leader: i32) -> bool {
    Pid::from_raw(leader)
        .is_some_and(|leader| rustix::process::test_kill_process_group(leader) != Err(Errno::SRCH))
}

/// Whether `leader` is in use again: a session whose first process we have waited for has none
/// of that number.
pub(super) fn is_reused(leader: i32) -> bool {
    stat(leader, &mut Vec::new()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stat_lines_with_odd_names() {
        let tail = "S 7 12 11 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 2";
        for name in ["sh", "a b", "x) S 1 (y", ") (", ""] {
            let line = format!("12 ({name}) {tail}");
            let wanted = Process {
                pid: 12,
                parent: 7,
                session: 11,
                start: 98765,
                state: b'S',
            };
            assert_eq!(parse_stat(12, line.as_bytes()), Some(wanted), "{name}");
        }
        for bad in [
            "",
            "12 (sh",
            "12 (sh) S 7",
            "12 (sh) S x 12 11 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 9 1",
        ] {
            assert_eq!(parse_stat(12, bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn this_process_is_there_and_started_before_now() {
        let me = std::process::id() as i32;
        let this = all().into_iter().find(|process| process.pid == me).unwrap();
        assert!(this.start <= now() + 20, "{} {}", this.start, now());
        assert!(!this.is_gone());
    }

    #[test]
    fn another_process_of_the_same_pid_is_spared() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let real = stat(child.id() as i32, &mut Vec::new()).unwrap();
        let former = Process {
            start: real.start - 1,
            ..real
        };
        assert!(!former.signal(Signal::KILL));
        assert!(child.try_wait().unwrap().is_none());
        assert!(real.signal(Signal::KILL));
        child.wait().unwrap();
        assert!(!real.signal(Signal::KILL));
    }
}
