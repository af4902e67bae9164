//! Finds the processes of a run or an action in `/proc`, and ends them.
//!
//! Three signs say whose a process is: the variable that the command was started with and that
//! every child inherits, the session, and the parent. A daemon loses its parent and its
//! session but keeps the variable; a child with an emptied environment keeps its parent. One
//! that gives up all three becomes a child of the host when its parent ends, if the host is a
//! program that adopts orphans ([`super::orphans`]).
//!
//! What is lost to us: such a daemon (1) at the timeout of an action (it is found at the end of
//! the run), (2) where the host is embedded in a program that does not adopt, (3) when the host
//! is killed with -9 within a fraction of a second of its birth, before the guardian was told,
//! and (4) when another run of the same process goes on (it is found when the last one ends).
//! And a process of another user, which can be named but not killed; and what asks a service
//! (cron, systemd, docker) to start something on its behalf.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::orphans;

/// Names the run in the environment of every process that an action starts.
pub const RUN_VARIABLE: &str = "MSWEA_RUN_ID";
/// Names the action likewise.
pub const ACTION_VARIABLE: &str = "MSWEA_ACTION";

/// How often the hunt starts over for processes that were born during it.
const ROUNDS: usize = 64;

/// How often in a row nothing has to be found before nothing is there; see [`Hunt`].
const LOOKS: u32 = 2;
/// How often at most, while some process might be one of ours.
const LOOKS_IN_DOUBT: u32 = 15;

/// Units of a start time in a second: `USER_HZ`, which Linux never changes.
pub(super) const TICKS: f64 = 100.0;

/// Separates the ids of nested runs (a host that is a command of another one) in the variables:
/// the outer one first.
pub(super) const NESTED: char = ':';

/// A session that began with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session {
    /// Its number, which is the pid of its first process.
    pub(super) id: i32,
    /// When its first process started, or any time after that at which it was there.
    pub(super) start: u64,
}

impl Session {
    /// The session of a child that has been started just now and not been waited for.
    pub(super) fn of(child: i32) -> Self {
        Self {
            id: child,
            start: ticks(Duration::ZERO),
        }
    }

    /// Whether another session has the number by now: its first process is younger.
    fn is_reused(&self, processes: &[Process]) -> bool {
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

/// Which processes are meant.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    /// A variable of the environment.
    pub(super) variable: &'static str,
    /// One of these has to be in it.
    pub(super) values: Vec<String>,
    /// Sessions that belong to it wholly.
    pub(super) sessions: Vec<Session>,
    /// Processes that started before this (see [`now`]) are somebody else's.
    pub(super) since: u64,
    /// Orphans too, as far as they can only be of this run.
    pub(super) orphans: bool,
}

impl Target {
    /// Everything that carries `variable` with one of `values`.
    pub(super) fn marked(variable: &'static str, values: impl IntoIterator<Item = String>) -> Self {
        Self {
            variable,
            values: values.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Whether an environment carries the mark, be it as that of an outer run.
    fn marks(&self, environment: &[u8]) -> bool {
        environment.split(|byte| *byte == 0).any(|entry| {
            entry
                .strip_prefix(self.variable.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="))
                .is_some_and(|value| {
                    value
                        .split(|byte| *byte == NESTED as u8)
                        .any(|id| self.values.iter().any(|wanted| wanted.as_bytes() == id))
                })
        })
    }
}

/// A process as `/proc/PID/stat` shows it; pid and start time together never mean another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    pub(super) start: u64,
    state: u8,
}

impl Process {
    /// Whether there is nothing left of it but its exit status.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Sends a signal, unless the pid means another process by now. Returns whether it could
    /// be sent to a process that still lived.
    pub(super) fn signal(&self, signal: Signal) -> bool {
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
/// coarseness of both.
pub(super) fn now() -> u64 {
    ticks(Duration::from_millis(100))
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

/// The living processes of `target` and everything below them and below `also`.
fn find(target: &Target, also: &BTreeMap<i32, u64>) -> Vec<Process> {
    let me = std::process::id() as i32;
    let mut buffer = Vec::new();
    let mut living = all();
    let sessions: BTreeSet<i32> = target
        .sessions
        .iter()
        .filter(|session| !session.is_reused(&living))
        .map(|session| session.id)
        .collect();
    living.retain(|process| !process.is_gone() && process.pid != me && process.pid != 1);
    let orphans = if target.orphans {
        orphans::of_last_run(&living)
    } else {
        Vec::new()
    };
    let (mut found, mut rest): (Vec<_>, Vec<_>) = living.into_iter().partition(|process| {
        also.get(&process.pid) == Some(&process.start)
            || orphans.contains(&process.pid)
            || process.start >= target.since
                && (sessions.contains(&process.session)
                    || read_proc(process.pid, "environ", &mut buffer) && target.marks(&buffer))
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

/// What is left, for people: pid and name of each.
pub(super) fn names(target: &Target) -> Vec<String> {
    let mut buffer = Vec::new();
    find(target, &BTreeMap::new())
        .iter()
        .map(|process| {
            let name = match read_proc(process.pid, "comm", &mut buffer) {
                true => String::from_utf8_lossy(&buffer),
                false => "?".into(),
            };
            format!("{} ({})", process.pid, name.trim_end())
        })
        .collect()
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

/// Kills until none is left.
///
/// That nothing was found once does not mean that nothing is there: a process may have brought
/// up another and ended between our list of all processes and our look at it, and a process in
/// the middle of an `exec` has no environment for a moment.
#[derive(Debug, Default)]
pub(super) struct Hunt {
    empty: u32,
}

impl Hunt {
    /// Kills once; returns whether none is left. If not, call again after [`Hunt::PAUSE`].
    pub(super) fn is_over(&mut self, target: &Target) -> bool {
        if kill(target) > 0 {
            self.empty = 0;
            return false;
        }
        self.empty += 1;
        self.empty >= LOOKS && (self.empty >= LOOKS_IN_DOUBT || !is_in_doubt(target))
    }

    /// Between two looks.
    pub(super) const PAUSE: Duration = Duration::from_millis(2);
}

/// Whether there is a process without an environment that may get one yet.
fn is_in_doubt(target: &Target) -> bool {
    let mut buffer = Vec::new();
    let me = std::process::id() as i32;
    all().iter().any(|process| {
        // Threads of the kernel, which have none either, are children of process 2.
        let can_be_ours = process.pid > 2 && process.parent != 2 && process.pid != me;
        can_be_ours
            && !process.is_gone()
            && process.start >= target.since
            && read_proc(process.pid, "environ", &mut buffer)
            && buffer.is_empty()
    })
}

/// Kills until none is left, for at most `limit`; blocks. Returns whether none is left.
pub(super) fn kill_until_gone(target: &Target, limit: Duration) -> bool {
    let started = Instant::now();
    let mut hunt = Hunt::default();
    while !hunt.is_over(target) {
        if started.elapsed() > limit {
            return false;
        }
        thread::sleep(Hunt::PAUSE);
    }
    true
}

/// Whether the process group that `leader` began has members; meant for a leader that was just
/// waited for, whose number nobody else can have got yet unless the group is empty.
pub(super) fn group_lives(leader: i32) -> bool {
    Pid::from_raw(leader)
        .is_some_and(|leader| rustix::process::test_kill_process_group(leader) != Err(Errno::SRCH))
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
    fn marks_of_nested_runs_count() {
        let target = Target::marked(RUN_VARIABLE, ["a".to_owned(), "b.1".to_owned()]);
        for (environment, wanted) in [
            ("MSWEA_RUN_ID=a", true),
            ("X=y\0MSWEA_RUN_ID=b.1\0", true),
            ("MSWEA_RUN_ID=outer:a", true),
            ("MSWEA_RUN_ID=a:inner:more", true),
            ("MSWEA_RUN_ID=ab", false),
            ("MSWEA_RUN_ID=a.b", false),
            ("MSWEA_RUN_ID=", false),
            ("XMSWEA_RUN_ID=a", false),
            ("MSWEA_RUN_IDS=a", false),
            ("X=MSWEA_RUN_ID=a", false),
            ("", false),
        ] {
            assert_eq!(
                target.marks(environment.as_bytes()),
                wanted,
                "{environment}"
            );
        }
    }

    #[test]
    fn sessions_whose_number_is_anothers_are_spared() {
        let mut child = std::process::Command::new("setsid")
            .args(["sleep", "60"])
            .spawn()
            .unwrap();
        let id = child.id() as i32;
        let name = || std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap();
        while name() != "sleep\n" {
            thread::sleep(Duration::from_millis(1));
        }
        let start = stat(id, &mut Vec::new()).unwrap().start;
        let real = Session { id, start };
        assert!(Session::of(id).start >= start);
        let earlier = Session {
            start: real.start - 1,
            ..real
        };
        let ended = Session {
            id: 1 << 22,
            ..real
        };
        let mut sessions = vec![real, earlier, ended];
        retain_living(&mut sessions);
        assert_eq!(sessions, [real]);
        let target = |session| Target {
            sessions: vec![session],
            ..Target::marked(RUN_VARIABLE, [])
        };
        assert_eq!(names(&target(real)), [format!("{id} (sleep)")]);
        assert_eq!(kill(&target(earlier)), 0);
        assert_eq!(kill(&target(real)), 1);
        child.wait().unwrap();
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
