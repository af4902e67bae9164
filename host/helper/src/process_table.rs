//! The processes that `/proc` shows, and their sessions.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sys;

/// A session that began with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Its number, the pid of its first process.
    pub id: i32,
    /// When its first process started, or any later time at which it existed.
    pub start: u64,
}

impl Session {
    /// The session of a child that was started just now and not waited for.
    pub fn of(child: i32) -> Self {
        Self {
            id: child,
            start: sys::ticks(),
        }
    }

    /// Whether another session has the number by now: its first process is younger.
    pub fn is_reused(&self, processes: &[Process]) -> bool {
        processes
            .iter()
            .any(|process| process.pid == self.id && process.start > self.start)
    }
}

/// Keeps the sessions that still have processes.
pub fn retain_living(sessions: &mut Vec<Session>) {
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
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The pid of its parent.
    pub parent: i32,
    /// The number of its process group.
    pub group: i32,
    /// The number of its session.
    pub session: i32,
    /// When it started, in the unit and by the clock of [`now`].
    pub start: u64,
    state: u8,
}

impl Process {
    /// Whether only its exit status is left.
    pub fn is_gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether it still exists and runs.
    pub fn lives(&self) -> bool {
        stat(self.pid, &mut Vec::new()).is_some_and(|now| now.start == self.start && !now.is_gone())
    }

    /// Sends a signal, unless the pid belongs to another process by now. Returns whether the
    /// process was still running and could be signalled.
    pub fn signal(&self, signal: i32) -> bool {
        sys::signal_process(self.pid, signal, || {
            stat(self.pid, &mut Vec::new()).is_some_and(|now| now.start == self.start)
        })
    }
}

/// Waits until a process that was sent SIGSTOP has stopped or is gone. A parent that has not
/// stopped may still notice that one of its children stops.
pub fn await_stop(pid: i32, until: Instant) {
    let mut buffer = Vec::new();
    let runs = |process: Process| !process.is_gone() && !matches!(process.state, b'T' | b't');
    while stat(pid, &mut buffer).is_some_and(runs) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The time since boot in the unit and the clock of [`Process::start`], a little earlier because of
/// their coarseness.
pub fn now() -> u64 {
    sys::ticks().saturating_sub(10)
}

/// Reads a file of a process, without asking for its size, which is 0 for all these files.
pub fn read_proc(pid: i32, file: &str, buffer: &mut Vec<u8>) -> bool {
    buffer.clear();
    let Ok(mut file) = File::open(format!("/proc/{pid}/{file}")) else {
        return false;
    };
    loop {
        let mut piece = [0; 4096];
        match file.read(&mut piece) {
            Ok(0) => return true,
            Ok(count) => buffer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The numbers of this process's children; on a kernel that does not list them, none. The kernel gives orphans
/// to the first thread.
pub fn children(buffer: &mut Vec<u8>) -> Vec<i32> {
    let me = std::process::id() as i32;
    if !read_proc(me, &format!("task/{me}/children"), buffer) {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(buffer);
    text.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// The process with this pid, if it is visible.
pub fn stat(pid: i32, buffer: &mut Vec<u8>) -> Option<Process> {
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
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// A list of processes that several threads read together.
struct SharedList {
    state: Mutex<SharedReading>,
    is_read: Condvar,
}

struct SharedReading {
    /// The number of the last reading that has begun.
    begun: u64,
    is_reading: bool,
    /// The number of the last reading that is complete.
    complete: u64,
    list: Option<Arc<Vec<Process>>>,
}

impl SharedList {
    const fn new() -> Self {
        Self {
            state: Mutex::new(SharedReading {
                begun: 0,
                is_reading: false,
                complete: 0,
                list: None,
            }),
            is_read: Condvar::new(),
        }
    }

    /// The result of a `read` that begins after this call, here or on another thread.
    fn get(&self, read: impl FnOnce() -> Vec<Process>) -> Arc<Vec<Process>> {
        let lock = || self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock();
        // A reading that has already begun may have passed the process that is searched for.
        let wanted = state.begun + 1;
        while state.is_reading && state.complete < wanted {
            state = self
                .is_read
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let (true, Some(list)) = (state.complete >= wanted, &state.list) {
            return list.clone();
        }
        state.begun += 1;
        state.is_reading = true;
        let number = state.begun;
        drop(state);
        let list = Arc::new(read());
        let mut state = lock();
        state.is_reading = false;
        state.complete = number;
        state.list = Some(list.clone());
        self.is_read.notify_all();
        list
    }
}

/// All visible processes. Runs of one process that end together share the readings.
pub fn all() -> Vec<Process> {
    static LIST: SharedList = SharedList::new();
    LIST.get(read_all).to_vec()
}

fn read_all() -> Vec<Process> {
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
                group: 12,
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
    fn a_reading_that_had_begun_before_is_not_shared() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let (list, readings) = (SharedList::new(), AtomicU32::new(0));
        let gate = std::sync::Barrier::new(2);
        let slow = || {
            readings.fetch_add(1, Ordering::Relaxed);
            gate.wait();
            gate.wait();
            Vec::new()
        };
        let quick = || {
            readings.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
            Vec::new()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| list.get(slow));
            gate.wait();
            // All of these calls come while the first reading continues.
            let others: Vec<_> = (0..16).map(|_| scope.spawn(|| list.get(quick))).collect();
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(readings.load(Ordering::Relaxed), 1);
            gate.wait();
            others.into_iter().for_each(|it| drop(it.join().unwrap()));
        });
        assert_eq!(readings.load(Ordering::Relaxed), 2);
        assert!(list.get(quick).is_empty());
        assert_eq!(readings.load(Ordering::Relaxed), 3);
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
        assert!(!former.signal(libc::SIGKILL));
        assert!(child.try_wait().unwrap().is_none());
        assert!(real.signal(libc::SIGKILL));
        child.wait().unwrap();
        assert!(!real.signal(libc::SIGKILL));
    }
}
