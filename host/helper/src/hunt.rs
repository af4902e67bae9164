//! Finds the processes of an action or a run, and kills them until none is left.
//!
//! The signs are those of the host's own executor: the variable that a command was started with
//! and that its children inherit, the session, and the parent. And one more: whatever has lost
//! its parent becomes a child of the helper, which starts one action at a time; so a new child
//! that carries no other action's variable is of this one. (Or of a background process of an
//! earlier one that emptied its environment and brings up daemons just now: that is taken for it.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// Names the action in the environment of all that it starts.
pub const ACTION: &[u8] = b"MSWEA_ACTION";
/// Names the run likewise.
const RUN: &[u8] = b"MSWEA_RUN_ID";
/// Separates the ids of nested runs in them, the outer one first.
const NESTED: u8 = b':';

/// How often the hunt starts over for processes that were born during it.
const ROUNDS: usize = 64;
/// How often in a row nothing has to be found before nothing is there: a process may have
/// brought up another and ended between our list of all and our look at it.
const LOOKS: u32 = 2;
/// How often at most, while some process is in the middle of an exec and shows no environment.
const LOOKS_IN_DOUBT: u32 = 15;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Which processes are meant. Whatever descends from one of them is too.
#[derive(Default)]
pub struct Target<'a> {
    /// None has started before this (see [`sys::ticks`]).
    pub since: u64,
    /// A session that is theirs: its number, and a time at which its first process was there.
    pub session: Option<(i32, u64)>,
    /// These variables with this id in them.
    pub names: &'a [&'a [u8]],
    pub id: Option<&'a [u8]>,
    /// Which of the helper's children.
    pub children: Children,
}

#[derive(Default, PartialEq)]
pub enum Children {
    #[default]
    None,
    /// All but those that carry another action's id.
    Unmarked,
    All,
}

#[derive(Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    start: u64,
    dead: bool,
}

impl Process {
    fn signal(&self, number: i32) -> bool {
        sys::signal_process(self.pid, number, || {
            stat(self.pid).is_some_and(|now| now.start == self.start)
        })
    }
}

/// Kills all that carry `id` as the id of an action or a run. Whether none is left.
///
/// # Errors
/// When there is no telling.
pub fn kill_marked(id: &[u8], limit: Duration) -> io::Result<bool> {
    if stat(std::process::id() as i32).is_none() {
        return Err(io::Error::other(
            "processes can't be seen in `/proc`: end the container instead",
        ));
    }
    let target = Target {
        names: &[ACTION, RUN],
        id: Some(id),
        ..Target::default()
    };
    Ok(kill_until_gone(&target, limit) == 0)
}

/// Kills until none is left, for at most `limit`; returns how many are.
pub fn kill_until_gone(target: &Target<'_>, limit: Duration) -> usize {
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

/// Kills all once; returns how many there were to be reached, and adds those that could not be
/// to `spared`: another user's, which may be known by its parent only, and that one is dead.
///
/// They are stopped first, so that none can bring up another while its parent, by which we would
/// have known it, is being killed.
fn kill(target: &Target<'_>, spared: &mut BTreeMap<i32, u64>) -> usize {
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

/// Those that live, and what descends from them and from `also`.
fn find(target: &Target<'_>, also: &BTreeMap<i32, u64>) -> Vec<Process> {
    let me = std::process::id() as i32;
    let all = all();
    let session = target
        .session
        // Another session has the number by now if its first process is younger.
        .filter(|(id, start)| !all.iter().any(|p| p.pid == *id && p.start > *start))
        .map(|(id, _)| id);
    // Whoever called the helper may carry the same id, and is not meant.
    let mut spared = BTreeSet::from([1, me]);
    let mut above = me;
    while let Some(process) = all.iter().find(|process| process.pid == above) {
        above = process.parent;
        if above <= 1 || !spared.insert(above) {
            break;
        }
    }
    let is_meant = |process: &Process| {
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
    let (mut found, mut rest): (Vec<Process>, Vec<_>) =
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

/// Whether an environment has `id` in one of the variables `names`; none if it has none of them.
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

/// Whether some process shows no environment but may get one of ours yet.
fn is_in_doubt(target: &Target<'_>) -> bool {
    let me = std::process::id() as i32;
    all().iter().any(|process| {
        // Threads of the kernel have none either, are children of process 2.
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

/// Without asking for the size first, which is 0 for all of them.
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

fn stat(pid: i32) -> Option<Process> {
    let stat = read(pid, "stat")?;
    // The name stands in parentheses and may hold any byte, also `)`.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
        start,
        dead: matches!(state, "Z" | "X" | "x"),
    })
}

/// Every process that can be seen.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}
