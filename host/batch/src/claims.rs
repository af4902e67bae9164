//! Claims: the files by which many workers on one directory agree which worker makes which attempt.
//!
//! All files are in the folder of the instance. `claim.N` is made once by `link(2)` and never
//! removed, so exactly one worker makes attempt N, in the folder `attempt.N`. `claim.N.beat`
//! changes as long as the worker lives. `claim.N.free` says that the worker has given up the
//! attempt. Another worker takes over the instance by making `claim.N+1`: at once if attempt N was
//! given up, else only if its heartbeat has stopped and the engine does not know the worker's job.
//! The worker of attempt N stops when it sees that claim, and then publishes nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::whole_file;

/// The largest claim that is read.
const LIMIT: u64 = 1 << 16;
/// The highest number of an attempt.
const MOST: u32 = 1_000_000;

/// The identity of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerName {
    /// The engine that started the worker: `slurm`, or `none`.
    pub engine: String,
    /// The engine's name of the job.
    pub job: String,
    /// The start time of the job as the engine reports it: a job that is started again keeps its
    /// name.
    pub start: String,
    /// The name of the machine.
    pub host: String,
    /// The id of the worker's process.
    pub pid: u32,
    /// The start of the process, in ticks since the machine's start.
    pub since: u64,
    /// A value that no other worker has.
    pub token: String,
}

impl WorkerName {
    /// The identity of this process. `job` and `start` are those of the engine.
    pub fn of_this_process(engine: &str, job: String, start: String) -> Self {
        let pid = std::process::id();
        let uname = rustix::system::uname();
        let name = uname.nodename().to_string_lossy();
        // Another machine may have the same name, and a container on this machine has process ids
        // of its own.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            engine: engine.to_owned(),
            job,
            start,
            host: format!("{name}/{}/{}", boot.trim(), space.display()),
            pid,
            since: process_start(pid).unwrap_or_default(),
            token: mswea_session::new_run_id(),
        }
    }

    /// The name of the worker's machine.
    pub fn machine(&self) -> &str {
        self.host.split('/').next().unwrap_or_default()
    }

    /// Whether the worker's process has ended; none if that can't be seen from this machine.
    fn has_ended(&self, me: &Self) -> Option<bool> {
        (self.host == me.host && self.pid > 0).then(|| process_start(self.pid) != Some(self.since))
    }
}

/// The start of a process of this machine, in ticks; none if the process has ended.
pub(crate) fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie has ended.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Why an attempt has been given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimRelease {
    /// The worker had to stop, through no fault of the instance.
    Released,
    /// A fault of the infrastructure ended the attempt.
    Failed,
}

impl ClaimRelease {
    fn text(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Failed => "failed",
        }
    }
}

/// The claims of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimsOf {
    /// The number of the last claim; 0 if there is none.
    pub(crate) last: u32,
    /// Whether the last attempt was given up.
    pub(crate) is_free: bool,
    /// Attempts that were not released.
    pub(crate) counted: u32,
}

impl ClaimsOf {
    /// Reads the claims in the folder of an instance.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let (mut numbers, mut free) = (Vec::new(), Vec::new());
        for entry in entries {
            let name = entry?.file_name();
            let Some(rest) = name.to_str().and_then(|it| it.strip_prefix("claim.")) else {
                continue;
            };
            match (rest.parse::<u32>(), rest.strip_suffix(".free")) {
                (Ok(number), _) if number <= MOST => numbers.push(number),
                (_, Some(number)) => free.extend(number.parse::<u32>()),
                _ => {}
            }
        }
        let last = numbers.iter().copied().max().unwrap_or_default();
        let released = free.iter().filter(|number| {
            let text = fs::read_to_string(file(folder, **number, ".free"));
            text.is_ok_and(|text| text.trim() == ClaimRelease::Released.text())
        });
        let released = u32::try_from(released.count()).unwrap_or(u32::MAX);
        Ok(Self {
            last,
            is_free: free.contains(&last),
            counted: u32::try_from(numbers.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(released),
        })
    }

    /// Whether a worker is making an attempt, or died during it.
    pub(crate) fn is_taken(&self) -> bool {
        self.last > 0 && !self.is_free
    }
}

fn file(folder: &Path, number: u32, suffix: &str) -> PathBuf {
    folder.join(format!("claim.{number}{suffix}"))
}

/// The folder of an attempt.
pub(crate) fn attempt_folder(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("attempt.{number}"))
}

/// The worker that made this claim; none if the claim can't be read.
pub(crate) fn claimed_by(folder: &Path, number: u32) -> Option<WorkerName> {
    let text = mswea_files::read(&file(folder, number, ""), LIMIT).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Makes a claim. Returns whether this worker has made it.
pub(crate) fn claim(folder: &Path, number: u32, worker: &WorkerName) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    let text = serde_json::to_vec(worker)?;
    whole_file::make_among(&file(folder, number, ""), &text, &worker.token)
}

/// Writes the heartbeat of a claim.
pub(crate) fn beat(folder: &Path, number: u32, count: u64) -> io::Result<()> {
    whole_file::replace(&file(folder, number, ".beat"), count.to_string().as_bytes())
}

/// Gives up an attempt.
pub(crate) fn give_up(folder: &Path, number: u32, why: ClaimRelease) -> io::Result<()> {
    whole_file::replace(&file(folder, number, ".free"), why.text().as_bytes())
}

/// Whether another worker has taken over the instance. The file is opened, because a network file
/// system may answer from its cache that the file does not exist.
pub(crate) fn is_fenced(folder: &Path, number: u32) -> bool {
    fs::File::open(file(folder, number + 1, "")).is_ok()
}

/// What this worker has seen of others, timed by its own clock: those of other machines and of file servers may
/// be ahead, or behind.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Their heartbeats.
    beats: HashMap<String, (u32, String, Instant)>,
    /// The failed attempts, each since it was first seen.
    failures: HashMap<String, (u32, Instant)>,
}

/// The state of the worker of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderLife {
    /// The worker lives, or may still live.
    Living,
    /// The heartbeat has stopped for one lease. The engine decides whether the worker has ended.
    Silent,
    /// The heartbeat has stopped for four leases. The worker counts as ended if no engine can be
    /// asked.
    LongSilent,
    /// The worker's process has ended.
    Ended,
}

impl Observed {
    /// Reads the heartbeat of an attempt.
    pub(crate) fn life(
        &mut self,
        (id, folder): (&str, &Path),
        number: u32,
        me: &WorkerName,
        lease: Duration,
    ) -> HolderLife {
        let beat = fs::read_to_string(file(folder, number, ".beat")).unwrap_or_default();
        let entry = self.beats.entry(id.to_owned());
        let known = entry.or_insert_with(|| (number, beat.clone(), Instant::now()));
        if (known.0, &known.1) != (number, &beat) {
            *known = (number, beat, Instant::now());
        }
        let silent = known.2.elapsed();
        let by = claimed_by(folder, number);
        match by.and_then(|by| by.has_ended(me)) {
            Some(true) => HolderLife::Ended,
            _ if silent >= lease * 4 => HolderLife::LongSilent,
            // The process exists on this machine, so it is frozen or its disk does not answer.
            None if silent >= lease => HolderLife::Silent,
            _ => HolderLife::Living,
        }
    }

    /// The time since this worker has seen that an attempt has failed; none if it has not failed.
    pub(crate) fn failed_for(
        &mut self,
        (id, folder): (&str, &Path),
        number: u32,
    ) -> Option<Duration> {
        let text = fs::read_to_string(file(folder, number, ".free")).ok()?;
        if text.trim() != ClaimRelease::Failed.text() {
            return None;
        }
        let now = (number, Instant::now());
        let seen = self.failures.entry(id.to_owned()).or_insert(now);
        if seen.0 != number {
            *seen = now;
        }
        Some(seen.1.elapsed())
    }

    pub(crate) fn forget(&mut self, id: &str) {
        self.beats.remove(id);
        self.failures.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(token: &str) -> WorkerName {
        let pid = std::process::id();
        WorkerName {
            engine: "none".to_owned(),
            host: "here".to_owned(),
            pid,
            since: process_start(pid).unwrap(),
            token: token.to_owned(),
            ..WorkerName::default()
        }
    }

    #[test]
    fn an_instance_is_claimed_given_up_and_taken_over() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("i");
        assert_eq!(ClaimsOf::read(&folder).unwrap(), ClaimsOf::default());
        assert!(claim(&folder, 1, &worker("a")).unwrap());
        assert!(!claim(&folder, 1, &worker("b")).unwrap());
        assert_eq!(claimed_by(&folder, 1).unwrap().token, "a");
        let of = |last, is_free, counted| ClaimsOf {
            last,
            is_free,
            counted,
        };
        assert_eq!(ClaimsOf::read(&folder).unwrap(), of(1, false, 1));
        give_up(&folder, 1, ClaimRelease::Released).unwrap();
        assert_eq!(ClaimsOf::read(&folder).unwrap(), of(1, true, 0));
        assert!(!is_fenced(&folder, 1));
        assert!(claim(&folder, 2, &worker("b")).unwrap());
        assert!(is_fenced(&folder, 1));
        give_up(&folder, 2, ClaimRelease::Failed).unwrap();
        assert_eq!(ClaimsOf::read(&folder).unwrap(), of(2, true, 1));
    }

    #[test]
    fn the_wait_after_a_failure_does_not_depend_on_the_clock_of_the_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("i");
        let mut observed = Observed::default();
        let mut failed = |number| observed.failed_for(("i", &folder), number);
        claim(&folder, 1, &worker("a")).unwrap();
        assert_eq!(failed(1), None);
        give_up(&folder, 1, ClaimRelease::Failed).unwrap();
        let day = Duration::from_secs(86_400);
        let now = std::time::SystemTime::now();
        for time in [now - day, now + day] {
            let free = fs::File::options()
                .write(true)
                .open(file(&folder, 1, ".free"));
            free.unwrap().set_modified(time).unwrap();
            assert!(failed(1).unwrap() < Duration::from_secs(60));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(failed(1).unwrap() >= Duration::from_millis(20));
        give_up(&folder, 2, ClaimRelease::Failed).unwrap();
        assert!(failed(2).unwrap() < Duration::from_millis(20));
        give_up(&folder, 3, ClaimRelease::Released).unwrap();
        assert_eq!(failed(3), None);
    }

    #[test]
    fn the_dead_are_told_from_the_living() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("i");
        let me = worker("me");
        let mut observed = Observed::default();
        let lease = Duration::from_millis(20);
        let mut life = |number, lease| observed.life(("i", &folder), number, &me, lease);

        // A living process of this machine does not count as ended before four leases.
        claim(&folder, 1, &worker("a")).unwrap();
        assert_eq!(life(1, Duration::from_secs(9)), HolderLife::Living);
        // A process that has ended counts as ended at once.
        let gone = WorkerName {
            since: 1,
            ..worker("b")
        };
        claim(&folder, 2, &gone).unwrap();
        assert_eq!(life(2, Duration::from_secs(9)), HolderLife::Ended);
        // Of a worker on another machine, only the heartbeat is known.
        let elsewhere = WorkerName {
            host: "there".to_owned(),
            ..worker("c")
        };
        claim(&folder, 3, &elsewhere).unwrap();
        assert_eq!(life(3, lease), HolderLife::Living);
        std::thread::sleep(lease * 2);
        assert_eq!(life(3, lease), HolderLife::Silent);
        beat(&folder, 3, 7).unwrap();
        assert_eq!(life(3, lease), HolderLife::Living);
        std::thread::sleep(lease * 5);
        assert_eq!(life(3, lease), HolderLife::LongSilent);
    }
}
