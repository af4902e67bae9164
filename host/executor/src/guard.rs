//! The guardian: a small process that ends shortly after the host.
//!
//! A host that is killed with -9 can't clean up. So it starts a second process, which holds the
//! reading end of a pipe and sleeps. When the host ends for any reason, the kernel closes the
//! writing end; then the guardian kills every process of the host's runs and exits. One guardian
//! serves all runs of a host.
//!
//! Processes with an emptied environment do not carry a run's mark. So a table tells the guardian
//! each session that an action began, and the sessions of orphans that the host has found.

mod table;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::pipe::PipeFlags;
use tokio::time::timeout;

use super::spawn::{ChildProcess, ProcessStart, ProgramCall, spawn};
use crate::low_descriptors::null;
use mswea_helper::processes::{self, ProcessTarget, RUN_VARIABLE, Session};
use table::SessionTable;

/// The hidden subcommand of the guard program; the run's id follows it.
pub const SUBCOMMAND: &str = "__guard";

/// The guardian's descriptor of the table of sessions.
const TABLE: i32 = 3;

/// The variables that the guardian needs: to start, and to find a container engine.
const INHERITED: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "HOME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "CONTAINER_HOST",
    "CONTAINER_SSHKEY",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "SSH_AUTH_SOCK",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// How long the guardian searches for processes at most.
const HUNT: Duration = Duration::from_secs(5);
/// How long the host waits for the end of a guardian that is no longer needed.
const FAREWELL: Duration = Duration::from_secs(1);

/// The least time between two removals of ended sessions from the table. Ended sessions have to be
/// removed before their numbers are reused.
const FORGET: Duration = Duration::from_secs(10);
/// With more sessions than this in the table, the least time is a hundredth of that.
const SESSIONS: usize = 1000;

/// The body of the subcommand: returns when the host and its processes are gone.
///
/// A program with the subcommand calls this before it reads a config or starts a thread, because
/// the guardian has to stay small.
///
/// The host writes to standard input: `+RUN` and `-RUN` lines for runs that begin and end later,
/// and `!PROGRAM` lines for engines that run containers for them (an empty name: they have
/// folders). The input ends when the host does. Descriptor 3 is the table of sessions. If runs and
/// engines are left, `after` is called last: containers that the host left there have no owner
/// then.
pub fn run(run_id: &str, after: impl FnOnce(Orphaned)) {
    let mut runs = BTreeSet::from([run_id.to_owned()]);
    let mut engines = BTreeSet::new();
    let mut line = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        match text.trim_end_matches('\n').split_at_checked(1) {
            Some(("+", id)) => drop(runs.insert(id.to_owned())),
            Some(("-", id)) => drop(runs.remove(id)),
            Some(("!", program)) => drop(engines.insert(program.to_owned())),
            _ => {}
        }
    }
    // SAFETY: nothing in this process closes a descriptor that it was started with. If it was
    // started without this one, or with another file in its place, reading fails or finds no
    // sessions.
    let memory = unsafe { BorrowedFd::borrow_raw(TABLE) };
    let target = ProcessTarget {
        sessions: table::read(memory).unwrap_or_default(),
        ..ProcessTarget::marked(RUN_VARIABLE, runs.clone())
    };
    processes::kill_until_gone(&target, HUNT);
    // A run that ended properly has removed its containers and folders.
    if !runs.is_empty() && !engines.is_empty() {
        after(Orphaned { runs, engines });
    }
}

/// The processes, folders and containers that a dead host has left to its guardian.
#[derive(Debug)]
pub struct Orphaned {
    /// The runs that were not cleaned up by the host.
    pub runs: BTreeSet<String>,
    /// The engines that run containers for them; an empty name: they have folders.
    pub engines: BTreeSet<String>,
}

/// The guarded sessions.
#[derive(Debug)]
struct Sessions {
    list: Vec<Session>,
    table: SessionTable,
    looked: Instant,
}

impl Sessions {
    fn new() -> io::Result<Self> {
        Ok(Self {
            list: Vec::new(),
            table: SessionTable::new()?,
            looked: Instant::now(),
        })
    }

    fn add(&mut self, session: Session) -> io::Result<()> {
        self.table.add(session)?;
        self.list.push(session);
        let age = self.looked.elapsed();
        if age > FORGET || self.list.len() > SESSIONS && age > FORGET / 100 {
            processes::retain_living(&mut self.list);
            self.table.keep(&self.list)?;
            self.looked = Instant::now();
        }
        Ok(())
    }
}

/// A running guardian.
#[derive(Debug)]
struct Guardian {
    program: PathBuf,
    child: ChildProcess,
    /// The only writing end of the pipe.
    input: Option<OwnedFd>,
    runs: BTreeSet<String>,
    /// The engines that the host has reported to it.
    engines: BTreeSet<String>,
    /// The sessions, for a successor.
    sessions: Sessions,
}

type SharedGuardian = Arc<Mutex<Guardian>>;

/// The guardians of this process, one for each program.
static GUARDIANS: Mutex<Vec<Weak<Mutex<Guardian>>>> = Mutex::new(Vec::new());

/// Keeps one run guarded.
#[derive(Debug)]
pub(super) struct Lease {
    guardian: Option<SharedGuardian>,
    run_id: String,
}

impl Lease {
    /// Guards the processes of `run_id`; starts the guardian if there is none yet.
    ///
    /// # Errors
    /// [`io::Error`] if the program can't be started.
    pub(super) fn new(program: &Path, run_id: &str) -> io::Result<Self> {
        let mut guardians = GUARDIANS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inherited = BTreeSet::new();
        let mut engines = BTreeSet::new();
        let mut sessions = Vec::new();
        guardians.retain(|weak| weak.strong_count() > 0);
        for shared in guardians.iter().filter_map(Weak::upgrade) {
            let mut guardian = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if guardian.program != program {
                continue;
            }
            if guardian.add(run_id) {
                drop(guardian);
                return Ok(Self {
                    guardian: Some(shared),
                    run_id: run_id.to_owned(),
                });
            }
            // This guardian was killed: the next one takes over its runs.
            inherited.append(&mut guardian.runs);
            engines.append(&mut guardian.engines);
            sessions.append(&mut guardian.sessions.list);
        }
        let mut guardian = Guardian::start(program, run_id)?;
        for other in inherited {
            guardian.add(&other);
        }
        for engine in &engines {
            guardian.add_engine(engine);
        }
        processes::retain_living(&mut sessions);
        for session in sessions {
            guardian.add_session(session);
        }
        let shared = Arc::new(Mutex::new(guardian));
        guardians.push(Arc::downgrade(&shared));
        Ok(Self {
            guardian: Some(shared),
            run_id: run_id.to_owned(),
        })
    }

    /// The same, if a program is given. If it can't be started, a warning says that `follows`.
    pub(super) fn of(program: Option<&Path>, run_id: &str, follows: &str) -> Option<Self> {
        let program = program?;
        let lease = Self::new(program, run_id);
        let lease = lease.inspect_err(|error| {
            let program = program.display();
            tracing::warn!(%program, %error, "no guardian: if this host is killed with -9, {follows}");
        });
        lease.ok()
    }

    /// Whether the guardian is running.
    pub(super) fn is_alive(&self) -> bool {
        self.guardian.as_ref().is_some_and(|shared| {
            let mut guardian = shared.lock().unwrap_or_else(PoisonError::into_inner);
            matches!(guardian.child.try_wait(), Ok(None))
        })
    }

    /// Guards all processes of a session, with or without the mark of a run.
    pub(super) fn tell_session(&self, session: Session) {
        if let Some(shared) = &self.guardian {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add_session(session);
        }
    }

    /// Guards the containers that `program` (an engine's) runs for this host; an empty name: only
    /// folders.
    pub(super) fn tell_engine(&self, program: &str) {
        if let Some(shared) = &self.guardian {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add_engine(program);
        }
    }

    /// Drops the lease of a guardian that has died, after another has taken over its runs.
    pub(super) fn forget(mut self) {
        self.guardian = None;
    }

    /// Leaves this run's remaining processes, containers and folders to the guardian, which removes
    /// them when this process has ended.
    pub(super) fn hand_over(mut self) {
        // The guardian's input then stays open until the end of this process.
        if let Some(shared) = self.guardian.take() {
            std::mem::forget(shared);
        }
    }

    /// Ends the guarding of the run; waits for the end of a guardian that no other run needs.
    pub(super) async fn release(mut self) {
        if let Some(mut guardian) = self.let_go() {
            let _ = timeout(FAREWELL, guardian.child.exited()).await;
        }
    }

    /// Removes the run from the guardian's list, and returns the guardian if this was its last run.
    fn let_go(&mut self) -> Option<Guardian> {
        let shared = self.guardian.take()?;
        let guardians = GUARDIANS.lock().unwrap_or_else(PoisonError::into_inner);
        shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.run_id);
        // While the list is locked, no other run can take the guardian over.
        let last = Arc::into_inner(shared).map(|guardian| {
            guardian
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
        });
        drop(guardians);
        last.map(|mut guardian| {
            guardian.input = None;
            guardian
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(mut guardian) = self.let_go() {
            guardian.child.ends_within(FAREWELL);
        }
    }
}

impl Guardian {
    fn start(program: &Path, run_id: &str) -> io::Result<Self> {
        // Resolved now, because the guardian itself has another working directory.
        let path = CString::new(std::path::absolute(program)?.as_os_str().as_bytes())?;
        let subcommand = CString::new(SUBCOMMAND)?;
        let id = CString::new(run_id)?;
        // The guardian must not carry the mark of any run, and needs no keys.
        let env: Vec<CString> = INHERITED
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
            .filter_map(|(name, value)| {
                CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
            })
            .collect();
        let (reading, writing) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // A guardian that does not read must not block the host.
        rustix::io::ioctl_fionbio(&writing, true)?;
        let sessions = Sessions::new()?;
        let null = null()?;
        let descriptors = [
            (reading.as_fd(), 0),
            (null, 1),
            (null, 2),
            (sessions.table.memory(), 3),
        ];
        let call = ProgramCall {
            path: &path,
            args: &[&path, &subcommand, &id],
            env: &env.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            cwd: Some(c"/"),
        };
        let child = spawn(&ProcessStart::default(), call, &descriptors, true)?;
        Ok(Self {
            program: program.to_owned(),
            child,
            input: Some(writing),
            runs: BTreeSet::from([run_id.to_owned()]),
            engines: BTreeSet::new(),
            sessions,
        })
    }

    /// Returns whether the run could be reported to the guardian.
    fn add(&mut self, run_id: &str) -> bool {
        let told = matches!(self.child.try_wait(), Ok(None)) && self.tell('+', run_id);
        if told {
            self.runs.insert(run_id.to_owned());
        }
        told
    }

    fn add_session(&mut self, session: Session) {
        if let Err(error) = self.sessions.add(session) {
            tracing::debug!(session = session.id, %error, "a session could not be reported to the guardian");
        }
    }

    fn add_engine(&mut self, program: &str) {
        if !self.engines.contains(program) && self.tell('!', program) {
            self.engines.insert(program.to_owned());
        }
    }

    fn remove(&mut self, run_id: &str) {
        if self.runs.remove(run_id) && !self.tell('-', run_id) {
            tracing::debug!(run_id, "the guardian has already ended");
        }
    }

    fn tell(&self, sign: char, run_id: &str) -> bool {
        let line = format!("{sign}{run_id}\n");
        self.input
            .as_ref()
            .is_some_and(|fd| rustix::io::write(fd, line.as_bytes()) == Ok(line.len()))
    }
}
