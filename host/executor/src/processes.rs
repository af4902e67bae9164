//! Finds the processes of a run or an action in `/proc`, and ends them.
//!
//! A process is recognised by three signs: the variable that the command was started with and that
//! every child inherits, the session, and the parent. A daemon loses its parent and its session but
//! keeps the variable; a child with an emptied environment keeps its parent. A process that loses
//! all three becomes a child of the host when its parent ends, if the host is a program that adopts
//! orphans ([`super::orphans`]).
//!
//! Such a daemon is not found (1) at the timeout of an action (it is found at the end of the run),
//! (2) if the host is embedded in a program that does not adopt orphans, (3) if the host is killed
//! with -9 within a fraction of a second of the daemon's start, before the guardian was told, and
//! (4) while another run of the same process continues (it is found when the last run ends). A
//! process of another user can be named but not killed, and a process that a service (cron,
//! systemd, docker) starts on a command's behalf is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::orphans;
pub(super) use super::process_table::{
    Process, Session, TICKS, all, now, read_proc, retain_living, stat, this_tick,
};

/// The variable with the run's id in the environment of every process that an action starts.
pub const RUN_VARIABLE: &str = "MSWEA_RUN_ID";
/// The variable with the action's id.
pub const ACTION_VARIABLE: &str = "MSWEA_ACTION";

/// How often the search is repeated for processes that started during it.
const ROUNDS: usize = 64;

/// How many searches in a row must find nothing before a hunt is over; see [`Hunt`].
const LOOKS: u32 = 2;
/// The same while a process without an environment may still turn out to be one of them.
const LOOKS_IN_DOUBT: u32 = 15;

/// Separates the ids of nested runs (a host that is a command of another one) in the variables, the
/// outer one first.
pub(super) const NESTED: char = ':';

/// A set of processes, chosen by any of several signs.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessTarget {
    /// The variable of the environment that is compared.
    pub(super) variable: &'static str,
    /// Processes whose variable has one of these values.
    pub(super) values: Vec<String>,
    /// Sessions whose processes all belong to the set.
    pub(super) sessions: Vec<Session>,
    /// Processes that started before this (see [`now`]) do not belong to the set.
    pub(super) since: u64,
    /// Whether orphans belong to the set, if they can only be of this run.
    pub(super) orphans: bool,
    /// The shell in which the action runs, if it is to live on with what earlier actions have left
    /// running in it.
    pub(super) shell: Option<Shell>,
}

/// A shell whose processes are only in part those of the action that is meant.
#[derive(Debug, Clone, Default)]
pub(super) struct Shell {
    /// Its pid.
    pub(super) pid: i32,
    /// Its children when the action began.
    pub(super) before: Vec<i32>,
}

impl Shell {
    /// Whether `process` belongs to the shell or to an earlier action: it is one of the earlier
    /// children, or comes from one, or from a process of the shell's session that is older than the
    /// action.
    fn keeps(&self, process: &Process, since: u64, parents: &BTreeMap<i32, Process>) -> bool {
        let mut one = *process;
        // Bounded, because the table was not read in one moment.
        for _ in 0..=parents.len() {
            if one.pid == self.pid {
                return one == *process;
            }
            if self.before.contains(&one.pid) || one.start < since && one.session == self.pid {
                return true;
            }
            match parents.get(&one.parent) {
                Some(parent) => one = *parent,
                None => return false,
            }
        }
        false
    }
}

impl ProcessTarget {
    /// All processes whose `variable` has one of `values`.
    pub(super) fn marked(variable: &'static str, values: impl IntoIterator<Item = String>) -> Self {
        Self {
            variable,
            values: values.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Whether an environment has the mark, also as that of an outer run.
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

/// The living processes of `target`, and the descendants of them and of `also`.
fn find(target: &ProcessTarget, also: &BTreeMap<i32, u64>) -> Vec<Process> {
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
    let mut parents = BTreeMap::new();
    if target.shell.is_some() {
        parents.extend(living.iter().map(|process| (process.pid, *process)));
    }
    if let Some(shell) = &target.shell {
        living.retain(|process| {
            !shell.keeps(process, target.since, &parents)
                || process.pid != shell.pid
                    && process.start >= target.since
                    && read_proc(process.pid, "environ", &mut buffer)
                    && target.marks(&buffer)
        });
    }
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

/// Sends `signal` to every process of `target`; returns how many were reached.
pub(super) fn signal(target: &ProcessTarget, signal: Signal) -> usize {
    let mut found = find(target, &BTreeMap::new());
    // The newest first: the end of a pipeline must not see the end of its input before its signal, or the shell
    // takes the pipeline for complete and goes on.
    found.sort_by_key(|process| std::cmp::Reverse(process.pid));
    found
        .iter()
        .filter(|process| process.signal(signal))
        .count()
}

/// The remaining processes, for messages: pid and name of each.
pub(super) fn names(target: &ProcessTarget) -> Vec<String> {
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

/// Whether there are processes of `target`.
pub(super) fn exist(target: &ProcessTarget) -> bool {
    !find(target, &BTreeMap::new()).is_empty()
}

/// Kills every process of `target` once; returns how many were reached.
///
/// They are stopped first, until no new ones appear, so that none can start another while its
/// parent, by which that one would be recognised, is being killed.
pub(super) fn kill(target: &ProcessTarget) -> usize {
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

/// Kills until no process is left.
///
/// That one search found nothing does not mean that nothing is left: a process may have started
/// another and ended after the list of processes was read and before it was examined, and a process
/// in the middle of an `exec` has no environment for a moment.
#[derive(Debug, Default)]
pub(super) struct Hunt {
    empty: u32,
}

impl Hunt {
    /// Kills once; returns whether none is left. If not, call again after [`Hunt::PAUSE`].
    pub(super) fn is_over(&mut self, target: &ProcessTarget) -> bool {
        if kill(target) > 0 {
            self.empty = 0;
            return false;
        }
        self.empty += 1;
        self.empty >= LOOKS && (self.empty >= LOOKS_IN_DOUBT || !is_in_doubt(target))
    }

    /// The pause between two searches.
    pub(super) const PAUSE: Duration = Duration::from_millis(2);
}

/// Whether there is a process without an environment that may still get one.
fn is_in_doubt(target: &ProcessTarget) -> bool {
    let mut buffer = Vec::new();
    let me = std::process::id() as i32;
    all().iter().any(|process| {
        // Kernel threads, which have none either, are children of process 2.
        let can_be_ours = process.pid > 2 && process.parent != 2 && process.pid != me;
        can_be_ours
            && !process.is_gone()
            && process.start >= target.since
            && read_proc(process.pid, "environ", &mut buffer)
            && buffer.is_empty()
    })
}

/// Kills until no process is left, for at most `limit`; blocks. Returns whether none is left.
pub(super) fn kill_until_gone(target: &ProcessTarget, limit: Duration) -> bool {
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

/// Whether the process group that `leader` began has members. Only for a leader that was just
/// waited for: its number can't be reused yet unless the group is empty.
pub(super) fn group_lives(leader: i32) -> bool {
    Pid::from_raw(leader)
        .is_some_and(|leader| rustix::process::test_kill_process_group(leader) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_nested_runs_count() {
        let target = ProcessTarget::marked(RUN_VARIABLE, ["a".to_owned(), "b.1".to_owned()]);
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
        let target = |session| ProcessTarget {
            sessions: vec![session],
            ..ProcessTarget::marked(RUN_VARIABLE, [])
        };
        assert_eq!(names(&target(real)), [format!("{id} (sleep)")]);
        assert_eq!(kill(&target(earlier)), 0);
        assert_eq!(kill(&target(real)), 1);
        child.wait().unwrap();
    }
}
