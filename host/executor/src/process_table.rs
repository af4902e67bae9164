//! The processes that `/proc` shows, and the sessions that they are in.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

/// Units of a start time in a second: `USER_HZ`, which is constant on Linux.
pub(super) const TICKS: f64 = 100.0;

/// A session that began with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session {
    /// Its number, the pid of its first process.
    pub(super) id: i32,
    /// When its first process started, or any later time at which it existed.
    pub(super) start: u64,
}

impl Session {
    /// The session of a child that was started just now and not waited for.
    pub(super) fn of(child: i32) -> Self {
        Self {
            id: child,
            start: ticks(Duration::ZERO),
        }
    }

    /// Whether its number belongs to another session by now: the first process is younger.
    pub(super) fn is_reused(&self, processes: &[Process]) -> bool {
        processes
            .iter()
            .any(|process| process.pid == self.id && process.start > self.start)
    }
}

/// Keeps the sessions that have processes.
pub(super) fn retain_living(sessions: &mut Vec<Session>) {
    let processes = all();
    let living: BTreeSet<i32> = processes
        .iter()
        .filter(|process| !process.is_gone())
        .map(|process| process.session)
        .collect();
    sessions.retain(|session| living.contains(&session.id) && !session.is_reused(&processes));
}

/// A process according to `/proc/PID/stat`; pid and start time together identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    pub(super) start: u64,
    state: u8,
}

impl Process {
    /// Whether only its exit status is left.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Sends a signal, unless the pid belongs to another process by now. Returns whether the
    /// process was still running and could be signalled.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return false;
        };
        let still_it =
            || stat(self.pid, &mut Vec::new()).is_some_and(|now| now.start == self.start);
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor keeps the pid from being reused, so that the check is valid.
            Ok(fd) => still_it() && rustix::process::pidfd_send_signal(fd, signal).is_ok(),
            Err(Errno::SRCH) => false,
            // The kernel lacks the call, or descriptors are lacking; the pid could be reused within
            // microseconds.
            Err(_) => still_it() && rustix::process::kill_process(pid, signal).is_ok(),
        }
    }
}

/// The time since boot in the unit and the clock of [`Process::start`], a little earlier because of
/// their coarseness.
pub(super) fn now() -> u64 {
    ticks(Duration::from_millis(100))
}

/// The time since boot in that unit, not earlier than the clock has it.
pub(super) fn this_tick() -> u64 {
    ticks(Duration::ZERO)
}

/// The time since boot, `ago`, in the unit and the clock of [`Process::start`].
fn ticks(ago: Duration) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::try_from(now).unwrap_or_default();
    (now.saturating_sub(ago).as_secs_f64() * TICKS) as u64
}

/// Reads a file of a process; without std, which asks for the size of each file first.
pub(super) fn read_proc(pid: i32, file: &str, buffer: &mut Vec<u8>) -> bool {
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

pub(super) fn stat(pid: i32, buffer: &mut Vec<u8>) -> Option<Process> {
    if !read_proc(pid, "stat", buffer) {
        return None;
    }
    parse_stat(pid, buffer)
}

fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    // The name is in parentheses and may contain any byte, also `)`.
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

/// All visible processes.
pub(super) fn all() -> Vec<Process> {
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
