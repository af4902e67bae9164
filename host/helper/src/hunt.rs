//! Finds the processes of an action or a run, and kills them until none is left.
//!
//! They are recognised as in the host's own executor: by the variable that a command was started
//! with and that its children inherit, by the session, and by the parent. In addition, processes
//! that have lost their parent become children of the helper, which runs one action at a time: a
//! new child without another action's variable belongs to the running one. (The exception is a
//! background process of an earlier action that has emptied its environment and starts daemons at
//! this moment.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// The variable with the action's id in the environment of all processes that it starts.
pub const ACTION: &[u8] = b"MSWEA_ACTION";
/// The variable with the run's id.
const RUN: &[u8] = b"MSWEA_RUN_ID";
/// Separates the ids of nested runs in these variables, the outer one first.
const NESTED: u8 = b':';

/// How often the search is repeated for processes that started during it.
const ROUNDS: usize = 64;
/// How many searches in a row must find nothing before the hunt is over: a process may have started
/// another and ended after the list of processes was read and before it was examined.
const LOOKS: u32 = 2;
/// The same while a process is in the middle of an exec and so shows no environment.
const LOOKS_IN_DOUBT: u32 = 15;
/// The pause between two searches.
const PAUSE: Duration = Duration::from_millis(2);

/// A set of processes: those that have one of these signs, and all their descendants.
#[derive(Default)]
pub struct HuntTarget<'a> {
    /// Processes that started before this time (see [`sys::ticks`]) do not belong to the set.
    pub since: u64,
    /// Their session: its number, and a time at which its first process existed.
    pub session: Option<(i32, u64)>,
    /// The variables that contain the id.
    pub names: &'a [&'a [u8]],
    pub id: Option<&'a [u8]>,
    /// Which children of the helper belong to the set.
    pub children: Children,
}

#[derive(Default, PartialEq)]
pub enum Children {
    #[default]
    None,
    /// All but those with the id of another action.
    Unmarked,
    All,
}

#[derive(Clone, Copy)]
struct ContainerProcess {
    pid: i32,
    parent: i32,
    session: i32,
    start: u64,
    dead: bool,
}

impl ContainerProcess {
    fn signal(&self, number: i32) -> bool {
        sys::signal_process(self.pid, number, || {
            stat(self.pid).is_some_and(|now| now.start == self.start)
        })
    }
}

/// Kills all processes whose environment has `id` as the id of an action or a run; returns whether
/// none is left.
///
/// # Errors
/// If `/proc` can't be read.
pub fn kill_marked(id: &[u8], limit: Duration) -> io::Result<bool> {
    if stat(std::process::id() as i32).is_none() {
        return Err(io::Error::other(
            "processes can't be seen in `/proc`: end the container instead",
        ));
    }
    let target = HuntTarget {
        names: &[ACTION, RUN],
        id: Some(id),
        ..HuntTarget::default()
    };
    Ok(kill_until_gone(&target, limit) == 0)
}

/// Kills until no process is left, for at most `limit`; returns how many are left.
pub fn kill_until_gone(target: &HuntTarget<'_>, limit: Duration) -> usize {
    let started = Instant::now();
    let mut spared = BTreeMap::new();
    let mut empty = 0;
    loop {
        if kill(target, &mut spared) > 0 {
            empty = 0;
        } else {
            empty += 1;
            let sure = empty >= LOOKS_IN_DOUBT || empty >= LOOKS && !is_in_doubt(target);
            if sure {
                break;
            }
        }
        if started.elapsed() > limit {
            break;
        }
        thread::sleep(PAUSE);
    }
    find(target, &spared).len()
}

/// Kills all processes of `target` once; returns how many could be signalled, and adds the others
/// to `spared`: processes of another user, which may have been recognised by a parent that is dead
/// by now.
///
/// They are stopped first, so that none starts another process while its parent, by which that one
/// would be recognised, is being killed.
fn kill(target: &HuntTarget<'_>, spared: &mut BTreeMap<i32, u64>) -> usize {
    let mut seen = spared.clone();
    let mut stopped = Vec::new();
    for _ in 0..ROUNDS {
        let mut new = find(target, &seen);
        new.retain(|process| seen.insert(process.pid, process.start) != Some(process.start));
        if new.is_empty() {
            break;
        }
        for process in new {
            if process.signal(libc::SIGSTOP) {
                stopped.push(process);
            } else {
                spared.insert(process.pid, process.start);
            }
        }
    }
    stopped.retain(|process| process.signal(libc::SIGKILL));
    stopped.len()
}

/// The living processes of `target`, and the descendants of them and of `also`.
fn find(target: &HuntTarget<'_>, also: &BTreeMap<i32, u64>) -> Vec<ContainerProcess> {
    let me = std::process::id() as i32;
    let all = all();
    let session = target
        .session
        // If its first process is younger, the number belongs to another session by now.
        .filter(|(id, start)| !all.iter().any(|p| p.pid == *id && p.start > *start))
        .map(|(id, _)| id);
    // The helper and the processes above it do not belong to the set, even if they have the id.
    let mut spared = BTreeSet::from([1, me]);
    let mut above = me;
    while let Some(process) = all.iter().find(|process| process.pid == above) {
        above = process.parent;
        if above <= 1 || !spared.insert(above) {
            break;
        }
    }
    let is_meant = |process: &ContainerProcess| {
        if also.get(&process.pid) == Some(&process.start) {
            return true;
        }
        if process.start < target.since {
            return false;
        }
        if session == Some(process.session) {
            return true;
        }
        let child = process.parent == me;
        if child && target.children == Children::All {
            return true;
        }
        let Some(environment) = environment(process.pid) else {
            return child && target.children == Children::Unmarked;
        };
        let marked = |names: &[&[u8]]| mark(&environment, names, target.id);
        match marked(target.names) {
            Some(ours) => ours,
            None => child && target.children == Children::Unmarked,
        }
    };
    let living = all
        .iter()
        .filter(|process| !process.dead && !spared.contains(&process.pid));
    let (mut found, mut rest): (Vec<ContainerProcess>, Vec<_>) =
        living.partition(|process| is_meant(process));
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

/// Whether an environment has `id` in one of the variables `names`; none if it has none of these
/// variables.
fn mark(environment: &[u8], names: &[&[u8]], id: Option<&[u8]>) -> Option<bool> {
    let values = environment.split(|byte| *byte == 0).filter_map(|entry| {
        names
            .iter()
            .find_map(|name| entry.strip_prefix(*name)?.strip_prefix(b"="))
    });
    let mut found = None;
    for value in values {
        let ours = value
            .split(|byte| *byte == NESTED)
            .any(|part| Some(part) == id);
        found = Some(ours || found == Some(true));
    }
    found
}

/// Whether there is a process that shows no environment yet and may belong to `target`.
fn is_in_doubt(target: &HuntTarget<'_>) -> bool {
    let me = std::process::id() as i32;
    all().iter().any(|process| {
        // Kernel threads have no environment either; they are children of process 2.
        let can_be_ours = process.pid > 2 && process.parent != 2 && process.pid != me;
        can_be_ours
            && !process.dead
            && process.start >= target.since
            && environment(process.pid).is_some_and(|environment| environment.is_empty())
    })
}

fn environment(pid: i32) -> Option<Vec<u8>> {
    read(pid, "environ")
}

/// Reads a file of a process, without asking for its size, which is 0 for all these files.
fn read(pid: i32, file: &str) -> Option<Vec<u8>> {
    let mut file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    let mut content = Vec::with_capacity(4096);
    loop {
        let mut piece = [0; 4096];
        match file.read(&mut piece) {
            Ok(0) => return Some(content),
            Ok(count) => content.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn stat(pid: i32) -> Option<ContainerProcess> {
    let stat = read(pid, "stat")?;
    // The name is in parentheses and may contain any byte, also `)`.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(ContainerProcess {
        pid,
        parent,
        session,
        start,
        dead: matches!(state, "Z" | "X" | "x"),
    })
}

/// All visible processes.
fn all() -> Vec<ContainerProcess> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}
