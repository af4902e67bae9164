//! Finds the processes of a run or an action in `/proc`, and ends them.
//!
//! A process is recognised by these signs: the variable that the command was started with and that
//! every child inherits, the session, and the parent. A daemon loses its parent and its session but
//! keeps the variable; a child with an emptied environment keeps its parent. A process that loses
//! all three becomes a child of this process when its parent ends, if this process adopts orphans:
//! the helper does, and the host does if its program decides so.
//!
//! Such a daemon is not found (1) by a host at the timeout of an action (it is found at the end of the
//! run), (2) if the host is embedded in a program that does not adopt orphans, (3) if the host is
//! killed with -9 within a fraction of a second of the daemon's start, before the guardian was told,
//! and (4) while another run of the same process continues (it is found when the last run ends). A
//! process of another user can be named but not killed, and a process that a service (cron,
//! systemd, docker) starts on a command's behalf is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

pub use crate::process_table::{
    Process, Session, all, await_stop, children, now, read_proc, retain_living, stat,
};
use crate::sys;

/// The variable with the run's id in the environment of every process that an action starts.
pub const RUN_VARIABLE: &str = "MSWEA_RUN_ID";
/// The variable with the action's id.
pub const ACTION_VARIABLE: &str = "MSWEA_ACTION";
/// Separates the ids of nested runs (a host that is a command of another one) in the variables, the
/// outer one first.
pub const NESTED: char = ':';

/// How often the search is repeated for processes that started during it.
const ROUNDS: usize = 64;
/// How many searches in a row must find nothing before a hunt is over: a process may have started
/// another and ended after the list of processes was read and before it was examined.
const LOOKS: u32 = 2;
/// The number of such searches once a process was found and killed.
const LOOKS_AFTER_A_KILL: u32 = 3;
/// The number of such searches while a process is in the middle of an `exec` and so shows no
/// environment.
const LOOKS_IN_DOUBT: u32 = 15;
/// How long an interruption waits until the processes have stopped.
pub const STOPPING: Duration = Duration::from_millis(100);
/// The pause between two searches.
const PAUSE: Duration = Duration::from_millis(2);
/// How long only the children of this process are watched, while they start others and end.
const WATCH: Duration = Duration::from_millis(50);
/// How long no child must appear until the watch is over.
const CALM: Duration = Duration::from_millis(3);

/// A set of processes: those that have one of several signs, and all their descendants. This process
/// and those above it never belong to it.
#[derive(Debug, Clone, Default)]
pub struct ProcessTarget {
    /// The variables of the environment that are compared.
    pub variables: &'static [&'static str],
    /// Processes one of whose variables has one of these values.
    pub values: Vec<String>,
    /// Sessions whose processes all belong to the set.
    pub sessions: Vec<Session>,
    /// Processes that started before this (see [`now`]) do not belong to the set.
    pub since: u64,
    /// Which children of this process belong to the set.
    pub children: Children,
    /// The shell in which the action runs, if the shell and the processes that earlier actions left
    /// in it must be kept.
    pub shell: Option<Shell>,
}

/// Which children of this process belong to a set, without another sign.
#[derive(Debug, Clone, Copy, Default)]
pub enum Children {
    /// None.
    #[default]
    None,
    /// Those without any of the variables. For an action, these are the orphans, which become
    /// children of the helper.
    Unmarked,
    /// All.
    All,
    /// The processes that this function chooses from all, living and dead; it may reap the dead ones, of which
    /// each counts as a sign that others appear.
    Chosen(fn(&[Process]) -> Vec<i32>),
}

/// A shell of whose processes only some belong to the action.
#[derive(Debug, Clone, Default)]
pub struct Shell {
    /// Its pid.
    pub pid: i32,
    /// Its children when the action began.
    pub before: Vec<i32>,
}

impl Shell {
    /// Whether `process` belongs to the shell or to an earlier action: it is one of the earlier
    /// children, or comes from one, or from a process of the shell's session that is older than the
    /// action.
    fn keeps(&self, process: &Process, since: u64, parents: &BTreeMap<i32, Process>) -> bool {
        let mut one = *process;
        // Bounded, because the table was not read at one moment.
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
    pub fn marked(variable: &'static str, values: impl IntoIterator<Item = String>) -> Self {
        Self {
            variables: match variable {
                RUN_VARIABLE => &[RUN_VARIABLE],
                _ => &[ACTION_VARIABLE],
            },
            values: values.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Keeps those of this process's children that belong to the set.
    fn retain_children(&self, children: &mut Vec<Process>) {
        let kept = |pid| {
            let shell = self.shell.as_ref();
            shell.is_some_and(|shell| shell.pid == pid || shell.before.contains(&pid))
        };
        children.retain(|process| process.start >= self.since && !kept(process.pid));
        let mut buffer = Vec::new();
        match self.children {
            Children::None => children.clear(),
            Children::All => {}
            Children::Unmarked => children.retain(|process| {
                !read_proc(process.pid, "environ", &mut buffer)
                    || self.marks(&buffer).unwrap_or(true)
            }),
            Children::Chosen(choose) => {
                let chosen = choose(children);
                children.retain(|process| chosen.contains(&process.pid));
            }
        }
    }

    /// Whether an environment has the mark, also as that of an outer run; none if it has none of
    /// the variables.
    fn marks(&self, environment: &[u8]) -> Option<bool> {
        let values = environment.split(|byte| *byte == 0).filter_map(|entry| {
            let after = |name: &&str| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
            self.variables.iter().find_map(after)
        });
        let is_wanted = |id: &[u8]| self.values.iter().any(|wanted| wanted.as_bytes() == id);
        let marks = values.map(|value| value.split(|byte| *byte == NESTED as u8).any(is_wanted));
        marks.reduce(|one, other| one || other)
    }
}

/// The living processes of `target`, and the descendants of them and of `also`.
fn find(target: &ProcessTarget, also: &BTreeMap<i32, u64>) -> Vec<Process> {
    search(target, also).found
}

/// The result of one search.
#[derive(Default)]
struct ProcessLook {
    /// The living processes.
    found: Vec<Process>,
    /// Those of whom only the exit status is left. Each may have started others, which were not seen.
    ended: Vec<Process>,
    /// The process groups that have no other living member than those. A signal to a group reaches also those
    /// that are being started at this moment.
    groups: BTreeSet<i32>,
    /// Whether a process was in the middle of an `exec` and so showed no environment.
    in_doubt: bool,
}

/// Like [`find`], with more than the living processes.
fn search(target: &ProcessTarget, also: &BTreeMap<i32, u64>) -> ProcessLook {
    let me = std::process::id() as i32;
    let mut buffer = Vec::new();
    let mut everyone = all();
    let sessions: BTreeSet<i32> = target
        .sessions
        .iter()
        .filter(|session| !session.is_reused(&everyone))
        .map(|session| session.id)
        .collect();
    let spared = above(me, &everyone);
    let kept_groups = everyone.iter().filter(|it| spared.contains(&it.pid));
    let kept_groups: BTreeSet<i32> = kept_groups.map(|it| it.group).collect();
    everyone.retain(|process| !spared.contains(&process.pid));
    let chosen = match target.children {
        Children::Chosen(choose) => choose(&everyone),
        _ => Vec::new(),
    };
    let (ended, mut living): (Vec<Process>, Vec<Process>) =
        everyone.iter().partition(|process| process.is_gone());
    let has_sign = |process: &Process| {
        process.start >= target.since
            && (sessions.contains(&process.session)
                || process.parent == me && matches!(target.children, Children::All))
    };
    let mut look = ProcessLook {
        ended,
        ..ProcessLook::default()
    };
    look.ended
        .retain(|process| chosen.contains(&process.pid) || has_sign(process));
    let mut in_doubt = false;
    let mut mark = |process: &Process| match read_proc(process.pid, "environ", &mut buffer) {
        true => {
            // Kernel threads, which have no environment either, are children of process 2.
            in_doubt |= buffer.is_empty() && process.pid > 2 && process.parent != 2;
            target.marks(&buffer)
        }
        false => None,
    };
    if let Some(shell) = &target.shell {
        let parents = living.iter().map(|process| (process.pid, *process));
        let parents: BTreeMap<i32, Process> = parents.collect();
        living.retain(|process| {
            !shell.keeps(process, target.since, &parents)
                || process.pid != shell.pid
                    && process.start >= target.since
                    && mark(process) == Some(true)
        });
    }
    let (mut found, mut rest): (Vec<_>, Vec<_>) = living.into_iter().partition(|process| {
        if also.get(&process.pid) == Some(&process.start) || chosen.contains(&process.pid) {
            return true;
        }
        if process.start < target.since {
            return false;
        }
        let is_orphan = process.parent == me && matches!(target.children, Children::Unmarked);
        has_sign(process) || mark(process).unwrap_or(is_orphan)
    });
    look.in_doubt = in_doubt;
    let mut family: BTreeSet<i32> = found.iter().map(|process| process.pid).collect();
    loop {
        let (children, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|process| family.contains(&process.parent));
        if children.is_empty() {
            break;
        }
        family.extend(children.iter().map(|process| process.pid));
        found.extend(children);
        rest = others;
    }
    let members = found.iter().chain(&look.ended);
    look.groups = members.map(|it| it.group).filter(|it| *it > 1).collect();
    look.groups.retain(|group| !kept_groups.contains(group));
    let others = everyone
        .iter()
        .filter(|it| !it.is_gone() && !family.contains(&it.pid));
    for other in others {
        look.groups.remove(&other.group);
    }
    look.found = found;
    look
}

/// This process and its ancestors.
fn above(me: i32, processes: &[Process]) -> BTreeSet<i32> {
    let mut spared = BTreeSet::from([1, me]);
    let mut one = me;
    while let Some(process) = processes.iter().find(|process| process.pid == one) {
        one = process.parent;
        if !spared.insert(one) {
            break;
        }
    }
    spared
}

/// Sends `signal` to every process of `target`; returns how many were reached.
pub fn signal(target: &ProcessTarget, signal: i32) -> usize {
    let mut found = find(target, &BTreeMap::new());
    // The newest first: the last process of a pipeline must not see the end of its input before its
    // signal, or the shell takes the pipeline for complete and continues.
    found.sort_by_key(|process| std::cmp::Reverse(process.pid));
    found
        .iter()
        .filter(|process| process.signal(signal))
        .count()
}

/// Sends SIGINT to the processes of `target` at the same time: all of them are stopped meanwhile. A
/// shell takes an interruption for handled, and continues, if its child ends in another way than by
/// SIGINT, or if only its child gets the signal. A parent is stopped before its children, so that a
/// shell with job control does not notice that they stop.
///
/// `again` leaves out processes that handle SIGINT and may be busy with that: only processes that
/// the signal ends, and their parents, are interrupted. A process that was just forked may have
/// been a copy of its parent, with the parent's handler, when it got the first signal.
pub fn interrupt(target: &ProcessTarget, again: bool) {
    let mut buffer = Vec::new();
    let mut stopped = BTreeMap::new();
    let until = Instant::now() + STOPPING;
    loop {
        let mut found = find(target, &BTreeMap::new());
        if again {
            let mut fatal = |process: &Process| {
                read_proc(process.pid, "status", &mut buffer) && is_fatal(&buffer, libc::SIGINT)
            };
            let ended: Vec<_> = found.iter().filter(|it| fatal(it)).copied().collect();
            found.retain(|it| {
                ended
                    .iter()
                    .any(|end| end.pid == it.pid || end.parent == it.pid)
            });
        }
        found.retain(|process| !stopped.contains_key(&process.pid));
        if found.is_empty() {
            break;
        }
        for process in found {
            process.signal(libc::SIGSTOP);
            await_stop(process.pid, until);
            stopped.insert(process.pid, process);
        }
    }
    for number in [libc::SIGINT, libc::SIGCONT] {
        for process in stopped.values() {
            process.signal(number);
        }
    }
}

/// Whether a process with this `status` file neither ignores the signal nor handles it.
fn is_fatal(status: &[u8], signal: i32) -> bool {
    let sets = status.split(|byte| *byte == b'\n').filter_map(|line| {
        let set = line.strip_prefix(b"SigIgn:");
        let set = set.or_else(|| line.strip_prefix(b"SigCgt:"))?;
        u64::from_str_radix(str::from_utf8(set).ok()?.trim(), 16).ok()
    });
    sets.fold(0, |all, set| all | set) & (1 << (signal - 1)) == 0
}

/// The remaining processes, for messages: pid and name of each.
pub fn names(target: &ProcessTarget) -> Vec<String> {
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

/// Whether `target` has living processes.
pub fn exist(target: &ProcessTarget) -> bool {
    !find(target, &BTreeMap::new()).is_empty()
}

/// What a hunt knows from its earlier looks.
#[derive(Default)]
struct Hunt {
    /// Processes that can't be signalled, because they are another user's; their parents, by which they were
    /// recognised, may be dead by now.
    spared: BTreeMap<i32, u64>,
    /// Those of whom only the exit status was left.
    ended: BTreeMap<i32, u64>,
}

/// The result of killing all processes once.
#[derive(Default)]
struct Killed {
    /// How many could be signalled.
    count: usize,
    /// Whether a process was in the middle of an `exec` in the first search.
    in_doubt: bool,
    /// Whether one ended between being found and being stopped, or has ended since the last look: it may have
    /// started others, which were not seen.
    in_motion: bool,
}

impl Hunt {
    /// Kills all processes of `target` once, until `until`.
    ///
    /// The processes are stopped first, until no new ones appear: so none can start a child that is no
    /// longer recognised once its parent was killed.
    fn kill(&mut self, target: &ProcessTarget, until: Instant) -> Killed {
        let mut seen = self.spared.clone();
        let mut stopped = Vec::new();
        let mut in_doubt = None;
        let mut in_motion = false;
        for _ in 0..ROUNDS {
            let mut look = search(target, &seen);
            in_doubt.get_or_insert(look.in_doubt);
            look.found
                .retain(|process| seen.insert(process.pid, process.start) != Some(process.start));
            let is_empty = look.found.is_empty();
            let mut moves = self.note_ended(&look.ended);
            for process in look.found {
                moves |= !self.stop(process, &mut stopped);
            }
            if moves {
                in_motion = true;
                look.groups.into_iter().for_each(sys::stop_group);
                self.watch(target, &mut seen, &mut stopped);
            }
            if is_empty && !moves || Instant::now() > until {
                break;
            }
        }
        stopped.retain(|process: &Process| process.signal(libc::SIGKILL));
        Killed {
            count: stopped.len(),
            in_doubt: in_doubt.unwrap_or(false),
            in_motion,
        }
    }

    /// Returns whether one of them is new.
    fn note_ended(&mut self, ended: &[Process]) -> bool {
        let mut is_new = false;
        for process in ended {
            is_new |= self.ended.insert(process.pid, process.start) != Some(process.start);
        }
        is_new
    }

    /// Stops a process; returns false if it has ended before.
    fn stop(&mut self, process: Process, stopped: &mut Vec<Process>) -> bool {
        if process.signal(libc::SIGSTOP) {
            stopped.push(process);
        } else if process.lives() {
            self.spared.insert(process.pid, process.start);
        } else {
            return false;
        }
        true
    }

    /// Stops the children of this process as soon as they appear, for some time: those of a process that
    /// starts another one and ends, again and again, become its children, and exist for a shorter time than a
    /// search takes.
    fn watch(
        &mut self,
        target: &ProcessTarget,
        seen: &mut BTreeMap<i32, u64>,
        stopped: &mut Vec<Process>,
    ) {
        if matches!(target.children, Children::None) {
            return;
        }
        let began = Instant::now();
        let mut last = began;
        let mut buffer = Vec::new();
        let mut known = BTreeSet::new();
        while last.elapsed() < CALM && began.elapsed() < WATCH {
            let new = children(&mut buffer).into_iter();
            let new = new.filter(|pid| !seen.contains_key(pid) && known.insert(*pid));
            let new = new.collect::<Vec<_>>().into_iter();
            let mut new: Vec<Process> = new.filter_map(|pid| stat(pid, &mut buffer)).collect();
            target.retain_children(&mut new);
            if !new.is_empty() {
                last = Instant::now();
            }
            for process in new {
                if process.is_gone() || !self.stop(process, stopped) {
                    self.ended.insert(process.pid, process.start);
                } else {
                    seen.insert(process.pid, process.start);
                }
            }
        }
    }
}

/// Kills until no process is left, for at most `limit`; blocks. Returns how many are left.
///
/// That one search found nothing does not mean that nothing is left: a process may have started
/// another and ended after the list of processes was read and before it was examined, and a process
/// in the middle of an `exec` has no environment for a moment. A process that was found and ended before it
/// was stopped is no sign of an end, but one of others.
pub fn kill_until_gone(target: &ProcessTarget, limit: Duration) -> usize {
    let until = Instant::now() + limit;
    let mut hunt = Hunt::default();
    let mut empty = 0;
    let mut enough = LOOKS;
    let mut in_motion = false;
    while Instant::now() <= until {
        let killed = hunt.kill(target, until);
        in_motion = killed.in_motion;
        if killed.count > 0 {
            // A killed process may have started one that no search has found.
            enough = LOOKS_AFTER_A_KILL;
        }
        if killed.count > 0 || killed.in_motion {
            empty = 0;
        } else {
            empty += 1;
            if empty >= LOOKS_IN_DOUBT || empty >= enough && !killed.in_doubt {
                // The last search has found only processes of other users.
                return match hunt.spared.is_empty() {
                    true => 0,
                    false => find(target, &hunt.spared).len(),
                };
            }
        }
        thread::sleep(PAUSE);
    }
    find(target, &hunt.spared).len().max(usize::from(in_motion))
}

/// Whether the process group that `leader` began has members. Only for a leader that was just
/// waited for: its number can't be reused yet unless the group is empty.
pub fn group_lives(leader: i32) -> bool {
    sys::group_exists(leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_fatal_unless_it_is_ignored_or_handled() {
        for (ignored, handled, wanted) in [
            ("0000000000000000", "0000000000000000", true),
            ("0000000000000002", "0000000000000000", false),
            ("0000000000001000", "0000000000010002", false),
            ("fffffffffffffffd", "7ffffffffffffffd", true),
        ] {
            let status = format!(
                "Name:\tsh\nSigBlk:\tffffffffffffffff\nSigIgn:\t{ignored}\nSigCgt:\t{handled}\nCapInh:\t0\n"
            );
            assert_eq!(is_fatal(status.as_bytes(), 2), wanted, "{status}");
        }
    }

    #[test]
    fn marks_of_nested_runs_count() {
        let target = ProcessTarget::marked(RUN_VARIABLE, ["a".to_owned(), "b.1".to_owned()]);
        for (environment, wanted) in [
            ("MSWEA_RUN_ID=a", Some(true)),
            ("X=y\0MSWEA_RUN_ID=b.1\0", Some(true)),
            ("MSWEA_RUN_ID=outer:a", Some(true)),
            ("MSWEA_RUN_ID=a:inner:more", Some(true)),
            ("MSWEA_RUN_ID=x\0MSWEA_RUN_ID=a", Some(true)),
            ("MSWEA_RUN_ID=ab", Some(false)),
            ("MSWEA_RUN_ID=a.b", Some(false)),
            ("MSWEA_RUN_ID=", Some(false)),
            ("XMSWEA_RUN_ID=a", None),
            ("MSWEA_RUN_IDS=a", None),
            ("X=MSWEA_RUN_ID=a", None),
            ("", None),
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
        let until = Instant::now() + Duration::from_secs(9);
        assert_eq!(Hunt::default().kill(&target(earlier), until).count, 0);
        assert_eq!(Hunt::default().kill(&target(real), until).count, 1);
        child.wait().unwrap();
    }
}
