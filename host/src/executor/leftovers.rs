//! What runs have left behind whose host is gone: killed with -9 together with its guardian, or
//! without one.
//!
//! Processes are known by the mark in their environment ([`RUN_VARIABLE`]). A process is removed
//! when it is certain that every run it belongs to has ended; whatever is in doubt is left, and
//! told about.

mod host;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Serialize, Serializer};

use super::processes::{self, NESTED, Process, RUN_VARIABLE};
use host::{Host, World};

/// How long killing may take: only a process inside the kernel (dead NFS, ...) takes long.
const KILLING: Duration = Duration::from_secs(5);
/// How often in a row nothing has to be found before nothing is there: a process may bring up
/// another and end between our list of all processes and our look at it.
const LOOKS: u32 = 15;
/// How long those that were killed have to go.
const PAUSE: Duration = Duration::from_millis(5);

/// Something that a run has left behind, or may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// What it is: `process`, `folder`, `container`.
    pub kind: &'static str,
    /// Its name, for people: `1234 (sleep)`, a path, a container's name.
    pub name: String,
    /// The run; the outer one first if there are several, with `:` between them.
    pub run_id: String,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What became of a leftover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is gone.
    Removed,
    /// It would be removed; nothing was done.
    Found,
    /// It is not to be removed: why.
    Left(String),
    /// It could not be removed: why, and what to do.
    Failed(String),
}

impl Fate {
    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Found => "found",
            Self::Left(_) => "left",
            Self::Failed(_) => "failed",
        }
    }

    /// Why it is still there.
    pub fn reason(&self) -> &str {
        match self {
            Self::Removed | Self::Found => "",
            Self::Left(reason) | Self::Failed(reason) => reason,
        }
    }
}

impl Serialize for Fate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("fate", self.word())?;
        map.serialize_entry("reason", self.reason())?;
        map.end()
    }
}

/// Ends the processes of every run whose host is gone; only looks for them if `dry_run`.
/// Blocks for as long as that takes, at most some seconds.
pub fn remove_leftover_processes(dry_run: bool) -> Vec<Leftover> {
    sweep(None, dry_run)
}

/// The same, for one run.
pub fn remove_leftover_processes_of(run_id: &str, dry_run: bool) -> Vec<Leftover> {
    sweep(Some(run_id), dry_run)
}

fn sweep(run: Option<&str>, dry_run: bool) -> Vec<Leftover> {
    let mut survey = Survey::make(run);
    for _ in 1..LOOKS {
        if !survey.found.is_empty() || !survey.in_doubt {
            break;
        }
        survey = Survey::make(run);
    }
    let left = survey.left.into_iter();
    let left = left.map(|(process, marks, why)| leftover(&process, &marks, Fate::Left(why)));
    let mut leftovers: Vec<Leftover> = left.collect();
    if survey.found.is_empty() {
        return leftovers;
    }
    if dry_run {
        let found = survey.found.iter();
        leftovers.extend(found.map(|(process, marks)| leftover(process, marks, Fate::Found)));
    } else {
        leftovers.extend(remove(run, survey.found));
    }
    leftovers
}

/// Kills what was found, and whatever turns up meanwhile.
///
/// They are stopped first, until no new ones turn up: so that none can bring up another while
/// its parent, by which we would have known it, is being killed.
fn remove(run: Option<&str>, found: Vec<(Process, String)>) -> Vec<Leftover> {
    let dead: BTreeSet<String> = found
        .iter()
        .flat_map(|(_, marks)| marks.split(NESTED).map(str::to_owned))
        .collect();
    let started = Instant::now();
    let mut caught = Caught::default();
    caught.stop(found);
    loop {
        let mut quiet = 0;
        while quiet < LOOKS && started.elapsed() < KILLING {
            let known = caught.0.len();
            caught.stop_marked(run, &dead);
            caught.stop(Survey::make(run).found);
            quiet = if caught.0.len() > known { 0 } else { quiet + 1 };
        }
        if !caught.kill() || started.elapsed() >= KILLING {
            return caught.fates();
        }
        std::thread::sleep(PAUSE);
    }
}

/// A leftover that was stopped, and what it is called.
struct Stopped {
    process: Process,
    leftover: Leftover,
    /// It could be killed.
    killed: bool,
}

/// What has been stopped so far, by number and start.
#[derive(Default)]
struct Caught(BTreeMap<(i32, u64), Stopped>);

impl Caught {
    fn stop(&mut self, found: Vec<(Process, String)>) {
        for (process, marks) in found {
            let key = (process.pid, process.start);
            if self.0.contains_key(&key) || !lives(&process) {
                continue;
            }
            process.signal(Signal::STOP);
            let leftover = leftover(&process, &marks, Fate::Found);
            let stopped = Stopped {
                process,
                leftover,
                killed: false,
            };
            self.0.insert(key, stopped);
        }
    }

    /// Stops each process as soon as its mark is read: a survey of all takes longer than some
    /// live.
    fn stop_marked(&mut self, run: Option<&str>, dead: &BTreeSet<String>) {
        let here = namespace("self");
        let mut buffer = Vec::new();
        for pid in numbers() {
            let readable = processes::read_proc(pid, "environ", &mut buffer);
            let Some(marks) = marks(&buffer).filter(|_| readable) else {
                continue;
            };
            let mut ids = marks.split(NESTED);
            if !ids.clone().all(|id| dead.contains(id))
                || run.is_some_and(|run| ids.all(|id| id != run))
                || host::is_program(pid)
                || namespace(&pid.to_string()) != here
            {
                continue;
            }
            let process = processes::stat(pid, &mut buffer);
            self.stop(
                process
                    .map(|process| (process, marks))
                    .into_iter()
                    .collect(),
            );
        }
    }

    /// Kills all that live; returns whether one could be reached.
    fn kill(&mut self) -> bool {
        let mut reached = false;
        for stopped in self.0.values_mut() {
            if lives(&stopped.process) && stopped.process.signal(Signal::KILL) {
                stopped.killed = true;
                reached = true;
            }
        }
        reached
    }

    /// What has become of them. What has ended by itself was no leftover.
    fn fates(self) -> Vec<Leftover> {
        let fate = |stopped: Stopped| {
            let mut leftover = stopped.leftover;
            leftover.fate = match lives(&stopped.process) {
                true => Fate::Failed(why_it_lives(&stopped.process)),
                false if stopped.killed => Fate::Removed,
                false => return None,
            };
            Some(leftover)
        };
        self.0.into_values().filter_map(fate).collect()
    }
}

fn lives(process: &Process) -> bool {
    processes::stat(process.pid, &mut Vec::new())
        .is_some_and(|now| now.start == process.start && !now.is_gone())
}

fn why_it_lives(process: &Process) -> String {
    let owner = std::fs::metadata(format!("/proc/{}", process.pid)).map(|found| found.uid());
    let me = rustix::process::geteuid();
    match owner {
        Ok(owner) if !me.is_root() && owner != me.as_raw() => {
            format!("it belongs to the user with the id {owner}: run this as that user or as root")
        }
        _ => "it does not end although it was killed (busy in the kernel?): look at it with `ps`"
            .to_owned(),
    }
}

fn leftover(process: &Process, marks: &str, fate: Fate) -> Leftover {
    Leftover {
        kind: "process",
        name: format!("{} ({})", process.pid, host::name(process.pid)),
        run_id: marks.to_owned(),
        fate,
    }
}

/// What there is at one moment.
#[derive(Default)]
struct Survey {
    /// To be removed, with the runs that they are of.
    found: Vec<(Process, String)>,
    /// To be left, and why.
    left: Vec<(Process, String, String)>,
    /// Some could not be looked at before they ended, or were about to become another program:
    /// they may have been leftovers.
    in_doubt: bool,
}

impl Survey {
    /// Looks at every process that can be seen, or at those that carry the mark of `run`.
    fn make(run: Option<&str>) -> Self {
        let here = namespace("self");
        let mut buffer = Vec::new();
        let mut marked: Vec<(Process, String, bool)> = Vec::new();
        let mut others = Vec::new();
        let mut survey = Self::default();
        for pid in numbers() {
            // First of all: it may be gone in a moment.
            let readable = processes::read_proc(pid, "environ", &mut buffer);
            let is_bare = readable && buffer.is_empty();
            let marks = marks(&buffer).filter(|_| readable);
            let Some(process) = processes::stat(pid, &mut buffer) else {
                survey.in_doubt = true;
                continue;
            };
            if process.is_gone() {
                continue;
            }
            match marks {
                Some(marks) => {
                    let near = namespace(&process.pid.to_string()) == here;
                    marked.push((process, marks, near));
                }
                // Threads of the kernel, which have no environment, are children of process 2.
                None => {
                    survey.in_doubt |= is_bare && process.pid > 2 && process.parent != 2;
                    others.push(process);
                }
            }
        }
        let world = World::now(&marked_starts(&marked));
        let mut far = Vec::new();
        for (process, marks, near) in marked {
            if run.is_some_and(|run| marks.split(NESTED).all(|id| id != run)) {
                continue;
            }
            match verdict(&process, &marks, &world) {
                None if near => survey.found.push((process, marks)),
                None => far.push((process, marks)),
                Some(reason) => survey.left.push((process, marks, reason)),
            }
        }
        survey.add_families(others, far);
        survey
    }

    /// Adds what is below a leftover: it has lost the mark, or is in a PID namespace of its own.
    fn add_families(&mut self, mut others: Vec<Process>, mut far: Vec<(Process, String)>) {
        let mut runs: BTreeMap<i32, String> = self
            .found
            .iter()
            .map(|(process, marks)| (process.pid, marks.clone()))
            .collect();
        others.retain(|process| !host::is_program(process.pid));
        loop {
            let known = runs.len();
            let mut adopt = |process: &Process| match runs.get(&process.parent).cloned() {
                Some(marks) => {
                    runs.insert(process.pid, marks.clone());
                    self.found.push((*process, marks));
                    true
                }
                None => false,
            };
            others.retain(|process| !adopt(process));
            far.retain(|(process, _)| !adopt(process));
            if runs.len() == known {
                break;
            }
        }
        let reason =
            "it is in another PID namespace (a container?): it ends with that, not by itself";
        let far = far.into_iter();
        self.left
            .extend(far.map(|(process, marks)| (process, marks, reason.to_owned())));
    }
}

/// Why a marked process has to be left; none if it has not.
fn verdict(process: &Process, marks: &str, world: &World) -> Option<String> {
    let hosts: Vec<(&str, Host)> = marks
        .split(NESTED)
        .map(|id| (id, world.host_of(id)))
        .collect();
    // A living one counts most, also if it is not the inner one.
    let living = hosts.iter().find_map(|(_, host)| match host {
        Host::Alive(why) => Some(why.clone()),
        _ => None,
    });
    let unknown = || {
        hosts.iter().find_map(|(id, host)| match host {
            Host::Unknown(why) => Some(format!("`{id}` {why}")),
            _ => None,
        })
    };
    let host = || {
        host::is_program(process.pid).then(|| {
            format!(
                "it is a host itself, perhaps with a run that goes on: end it with `kill {}` if not",
                process.pid
            )
        })
    };
    living.or_else(unknown).or_else(host)
}

/// When the first process of each run has started, as far as it is still there.
fn marked_starts(marked: &[(Process, String, bool)]) -> BTreeMap<String, u64> {
    let mut starts = BTreeMap::new();
    for (process, marks, _) in marked.iter().filter(|(_, _, near)| *near) {
        for id in marks.split(NESTED) {
            let start = starts.entry(id.to_owned()).or_insert(process.start);
            *start = process.start.min(*start);
        }
    }
    starts
}

/// The numbers of all processes but this and the first, the newest before the others: those that
/// live for a moment only are among them.
fn numbers() -> Vec<i32> {
    let me = std::process::id() as i32;
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != me && *pid != 1)
        .collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers
}

/// The mark in an environment.
fn marks(environment: &[u8]) -> Option<String> {
    let value = environment.split(|byte| *byte == 0).find_map(|entry| {
        entry
            .strip_prefix(RUN_VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    })?;
    (!value.is_empty()).then(|| String::from_utf8_lossy(value).into_owned())
}

/// The PID namespace of a process; none if it can't be seen.
fn namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}
