//! Processes left behind by runs whose host is gone: killed with -9 together with its guardian, or
//! without one.
//!
//! Processes are recognised by the mark in their environment ([`RUN_VARIABLE`]). A process is
//! removed when it is certain that every run it belongs to has ended; in case of doubt it is left,
//! and reported. One in a PID namespace of its own is of a host here if a second variable says so
//! (`NAMESPACE_VARIABLE`): else its host may be in that namespace, or in a third one.

mod host;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

use host::{Host, World};
use mswea_helper::processes::{self, NESTED, Process, RUN_VARIABLE};

/// The variable with the PID namespace of the host, for programs that make another one for commands.
const NAMESPACE_VARIABLE: &str = "MSWEA_RUN_NAMESPACE";
/// How long killing may take; only a process inside the kernel (dead NFS, ...) takes long.
const KILLING: Duration = Duration::from_secs(5);
/// How many searches in a row must find nothing before the hunt is over: a process may start
/// another and end after the list of processes was read and before it was examined.
const LOOKS: u32 = 15;
/// How long killed processes have to end.
const PAUSE: Duration = Duration::from_millis(5);

/// Something that a run has left behind, or may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// Its kind: `process`, `folder`, `container`.
    pub kind: &'static str,
    /// Its name, for people: `1234 (sleep)`, a path, a container's name.
    pub name: String,
    /// The run; of several the outer one first, with `:` between them.
    pub run_id: String,
    /// The result of removing it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// The result of removing a leftover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was removed.
    Removed,
    /// It would be removed; nothing was done.
    Found,
    /// It is not to be removed: the reason.
    Left(String),
    /// It could not be removed: the reason and the remedy.
    Failed(String),
}

impl Fate {
    /// The fate in one word, for reports.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Found => "found",
            Self::Left(_) => "left",
            Self::Failed(_) => "failed",
        }
    }

    /// Why the leftover still exists; empty if it was removed or only found.
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

/// Ends the processes of every run whose host is gone; with `dry_run` only lists them. Blocks until
/// that is done, at most some seconds.
pub fn remove_leftover_processes(dry_run: bool) -> Vec<Leftover> {
    sweep(Scope::All, dry_run)
}

/// The same, for one run.
pub fn remove_leftover_processes_of(run_id: &str, dry_run: bool) -> Vec<Leftover> {
    sweep(Scope::Run(run_id), dry_run)
}

/// The same, for run ids whose hosts are known to be gone, because the caller holds the journal of
/// their run. Such an id need not tell which process its host was.
pub fn remove_processes_of_gone_hosts(run_ids: &[String]) -> Vec<Leftover> {
    sweep(Scope::Gone(run_ids), false)
}

/// Which processes are searched for.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// Processes of all runs.
    All,
    /// Processes of one run.
    Run(&'a str),
    /// Processes of these ids, whose hosts are gone.
    Gone(&'a [String]),
}

impl Scope<'_> {
    /// Whether a process with these marks is searched for.
    fn has(self, marks: &str) -> bool {
        let mut ids = marks.split(NESTED);
        match self {
            Self::All => true,
            Self::Run(run) => ids.any(|id| id == run),
            Self::Gone(gone) => ids.any(|id| gone.iter().any(|it| it == id)),
        }
    }

    /// The ids whose hosts are known to be gone.
    fn gone(self) -> Vec<String> {
        match self {
            Self::Gone(gone) => gone.to_vec(),
            Self::All | Self::Run(_) => Vec::new(),
        }
    }
}

fn sweep(run: Scope<'_>, dry_run: bool) -> Vec<Leftover> {
    let mut known = BTreeSet::new();
    let mut survey = Survey::of_new(run, &mut known);
    for _ in 1..LOOKS {
        if !survey.found.is_empty() || !survey.in_doubt {
            break;
        }
        let left = std::mem::take(&mut survey.left);
        survey = Survey::of_new(run, &mut known);
        survey.left.extend(left);
    }
    if !survey.found.is_empty() {
        // This survey includes the descendants of the processes that were found.
        let mut first = std::mem::replace(&mut survey, Survey::make(run)).found;
        if dry_run {
            first.retain(|(process, _)| lives(process));
        }
        survey.keep(first);
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

/// Kills the processes that were found, and those that appear meanwhile. They are stopped first,
/// until no new ones appear: so none can start a child that is no longer recognised once its parent
/// was killed.
fn remove(run: Scope<'_>, found: Vec<(Process, String)>) -> Vec<Leftover> {
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

/// A leftover that was stopped, and its name.
struct StoppedLeftover {
    process: Process,
    leftover: Leftover,
    /// Whether it could be killed.
    killed: bool,
}

/// The processes that have been stopped so far, by number and start.
#[derive(Default)]
struct Caught(BTreeMap<(i32, u64), StoppedLeftover>);

impl Caught {
    fn stop(&mut self, found: Vec<(Process, String)>) {
        for (process, marks) in found {
            let key = (process.pid, process.start);
            // It may have become a host since it was examined.
            let is_host = || host::is_program(process.pid);
            if self.0.contains_key(&key) || !lives(&process) || is_host() {
                continue;
            }
            process.signal(libc::SIGSTOP);
            let leftover = leftover(&process, &marks, Fate::Found);
            let stopped = StoppedLeftover {
                process,
                leftover,
                killed: false,
            };
            self.0.insert(key, stopped);
        }
    }

    /// Stops each process as soon as its mark is read: a survey of all takes longer than some of
    /// them exist.
    fn stop_marked(&mut self, run: Scope<'_>, dead: &BTreeSet<String>) {
        let here = namespace("self");
        let mut buffer = Vec::new();
        for pid in numbers() {
            let readable = processes::read_proc(pid, "environ", &mut buffer);
            let Some(marks) = marks(&buffer).filter(|_| readable) else {
                continue;
            };
            let is_near = is_near(pid, &marks, &buffer, here.as_deref());
            if !marks.split(NESTED).all(|id| dead.contains(id))
                || !run.has(&marks)
                || host::is_program(pid)
                || !is_near
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

    /// Kills those that are running; returns whether one could be reached.
    fn kill(&mut self) -> bool {
        let mut reached = false;
        for stopped in self.0.values_mut() {
            if lives(&stopped.process) && stopped.process.signal(libc::SIGKILL) {
                stopped.killed = true;
                reached = true;
            }
        }
        reached
    }

    /// The fates of the processes. One that ended by itself was no leftover, and has none.
    fn fates(self) -> Vec<Leftover> {
        let fate = |stopped: StoppedLeftover| {
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
        _ => {
            "it was killed and has not ended (busy in the kernel?): look at it with `ps`".to_owned()
        }
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

/// The state at one moment.
#[derive(Default)]
struct Survey {
    /// To be removed, with the runs that they belong to.
    found: Vec<(Process, String)>,
    /// To be left, with the reason.
    left: Vec<(Process, String, String)>,
    /// Whether some could not be examined before they ended, or were about to become another
    /// program: they may have been leftovers.
    in_doubt: bool,
}

impl Survey {
    /// Examines all visible processes, or those with the mark of `run`.
    fn make(run: Scope<'_>) -> Self {
        Self::of_new(run, &mut BTreeSet::new())
    }

    /// The same, without the processes with the numbers `known`. Adds the numbers of those about which
    /// there is no doubt.
    fn of_new(run: Scope<'_>, known: &mut BTreeSet<i32>) -> Self {
        let here = namespace("self");
        let mut buffer = Vec::new();
        let mut marked: Vec<(Process, String, bool)> = Vec::new();
        let mut others = Vec::new();
        let mut survey = Self::default();
        for pid in numbers() {
            if known.contains(&pid) {
                continue;
            }
            // Read first, as it may end at any moment.
            let readable = processes::read_proc(pid, "environ", &mut buffer);
            let is_bare = readable && buffer.is_empty();
            let marks = marks(&buffer).filter(|_| readable);
            let marks = marks.map(|marks| {
                let near = is_near(pid, &marks, &buffer, here.as_deref());
                (marks, near)
            });
            let Some(process) = processes::stat(pid, &mut buffer) else {
                survey.in_doubt = true;
                continue;
            };
            if process.is_gone() {
                // It may have started others before it ended.
                survey.in_doubt |= known.insert(pid);
                continue;
            }
            match marks {
                Some((marks, near)) => marked.push((process, marks, near)),
                // Kernel threads, which have no environment, are children of process 2.
                None => {
                    let in_doubt = is_bare && process.pid > 2 && process.parent != 2;
                    survey.in_doubt |= in_doubt;
                    if !in_doubt {
                        known.insert(pid);
                    }
                    others.push(process);
                }
            }
        }
        let world = World::now(&marked_starts(&marked), run.gone());
        let mut far = Vec::new();
        for (process, marks, near) in marked {
            known.insert(process.pid);
            if !run.has(&marks) {
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

    /// Adds the processes that an earlier survey has found, and this one has not examined: they may have ended
    /// after they had started others, which are not seen yet.
    fn keep(&mut self, earlier: Vec<(Process, String)>) {
        let found = self.found.iter().map(|it| it.0.pid);
        let left = self.left.iter().map(|it| it.0.pid);
        let examined: BTreeSet<_> = found.chain(left).collect();
        let earlier = earlier.into_iter();
        let ended = earlier.filter(|(process, _)| !examined.contains(&process.pid));
        self.found.extend(ended);
    }

    /// Adds the descendants of leftovers, which may have lost the mark or be in a PID namespace of
    /// their own.
    fn add_families(&mut self, mut others: Vec<Process>, mut far: Vec<(Process, String)>) {
        let mut runs: BTreeMap<i32, String> = self
            .found
            .iter()
            .map(|(process, marks)| (process.pid, marks.clone()))
            .collect();
        if !runs.is_empty() {
            others.retain(|process| !host::is_program(process.pid));
        }
        while !runs.is_empty() {
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
        let reason = "it is in another PID namespace (a container?): it ends with that namespace";
        let far = far.into_iter();
        self.left
            .extend(far.map(|(process, marks)| (process, marks, reason.to_owned())));
    }
}

/// Why a marked process has to be left; none if it can be removed.
fn verdict(process: &Process, marks: &str, world: &World) -> Option<String> {
    let hosts: Vec<(&str, Host)> = marks
        .split(NESTED)
        .map(|id| (id, world.host_of(id)))
        .collect();
    // A process of nested runs is left if any of their hosts is alive.
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
                "it is a host, perhaps with a run in progress: if not, end it with `kill {}`",
                process.pid
            )
        })
    };
    living.or_else(unknown).or_else(host)
}

/// When the first process of each run started that still exists.
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

/// The numbers of all processes except this and the first, the newest first, because short-lived
/// ones are among them.
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
    let value = value_of(RUN_VARIABLE, environment)?;
    (!value.is_empty()).then(|| String::from_utf8_lossy(value).into_owned())
}

fn value_of<'a>(name: &str, environment: &'a [u8]) -> Option<&'a [u8]> {
    environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Whether the host of a marked process is or was in the PID namespace `here`, in which its number means what it
/// means for us.
fn is_near(pid: i32, marks: &str, environment: &[u8], here: Option<&Path>) -> bool {
    let of_host = || {
        let here = here.map(|here| here.as_os_str().as_bytes());
        here.is_some() && value_of(NAMESPACE_VARIABLE, environment) == here
    };
    namespace(&pid.to_string()).as_deref() == here || !marks.contains(NESTED) && of_host()
}

/// The variable for a program that makes a PID namespace for commands of this host.
pub(super) fn of_this_namespace() -> Option<(String, String)> {
    let here = namespace("self")?.into_os_string().into_string().ok()?;
    Some((NAMESPACE_VARIABLE.to_owned(), here))
}

/// The PID namespace of a process; none if it can't be read.
fn namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}
