//! The guardian: a small process that outlives the host by a moment.
//!
//! A host that is killed with -9 can't clean up. So it starts a second process, which holds
//! the reading end of a pipe and sleeps. When the host is gone, for whatever reason, the kernel
//! closes the writing end; then the guardian kills every process of the host's runs and exits.
//! One guardian serves all the runs of a host.
//!
//! Processes with an emptied environment carry no run's mark: so the guardian also finds, in a
//! table, each session that an action began, and those of orphans that the host came across.

mod table;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::PipeFlags;

use super::processes::{self, RUN_VARIABLE, Session, Target};
use super::spawn::{Child, Spec, spawn};
use table::Table;

/// The hidden subcommand of the guard program; the run's id follows it.
pub const SUBCOMMAND: &str = "__guard";

/// Where the guardian has the table of sessions.
const TABLE: i32 = 3;

/// What of the environment it needs: to start, and to find an engine of containers.
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

/// How long the guardian hunts at most.
const HUNT: Duration = Duration::from_secs(5);
/// How long the host waits for a guardian that it has dismissed.
const FAREWELL: Duration = Duration::from_secs(1);

/// Sessions that have ended are forgotten now and then, before their numbers mean others: not
/// more often than this,
const FORGET: Duration = Duration::from_secs(10);
/// unless there are more than this.
const SESSIONS: usize = 1000;

/// The body of the subcommand: returns when the host is gone, and its processes too.
///
/// A program that has the subcommand calls this first of all, before it reads a config or
/// starts a thread: the guardian has to stay small.
///
/// Standard input brings `+RUN` and `-RUN` lines for runs that begin and end later, and `!PROGRAM`
/// lines for engines that run containers for them (an empty name: they have folders); it ends with the host. Descriptor 3 is the
/// table of sessions. `after` is called last, with those engines, if there are any: what the
/// host left with them is nobody's by then.
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
    // SAFETY: nothing in this process closes a descriptor that it was started with; where it was
    // started without one, or with something else, reading it fails or finds no sessions.
    let memory = unsafe { BorrowedFd::borrow_raw(TABLE) };
    let target = Target {
        sessions: table::read(memory).unwrap_or_default(),
        ..Target::marked(RUN_VARIABLE, runs.clone())
    };
    processes::kill_until_gone(&target, HUNT);
    // Every run that ended in order has taken its things away itself.
    if !runs.is_empty() && !engines.is_empty() {
        after(Orphaned { runs, engines });
    }
}

/// What a host has left to its guardian.
#[derive(Debug)]
pub struct Orphaned {
    /// The runs that have not ended in order.
    pub runs: BTreeSet<String>,
    /// The engines that run containers for them; an empty name: they have folders.
    pub engines: BTreeSet<String>,
}

/// The sessions that are guarded.
#[derive(Debug)]
struct Sessions {
    list: Vec<Session>,
    table: Table,
    looked: Instant,
}

impl Sessions {
    fn new() -> io::Result<Self> {
        Ok(Self {
            list: Vec::new(),
            table: Table::new()?,
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
    child: Child,
    /// The only writing end.
    input: Option<OwnedFd>,
    runs: BTreeSet<String>,
    /// What it was told of engines.
    engines: BTreeSet<String>,
    /// For a successor.
    sessions: Sessions,
}

type Shared = Arc<Mutex<Guardian>>;

/// The guardians of this process, one for each program.
static GUARDIANS: Mutex<Vec<Weak<Mutex<Guardian>>>> = Mutex::new(Vec::new());

/// Keeps one run guarded.
#[derive(Debug)]
pub(super) struct Lease {
    guardian: Option<Shared>,
    run_id: String,
}

impl Lease {
    /// Has the processes of `run_id` guarded; starts the guardian if there is none yet.
    ///
    /// # Errors
    /// When the program can't be started.
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
            // It was killed. Its successor takes over its runs.
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

    /// Whether the guardian still lives.
    pub(super) fn is_alive(&self) -> bool {
        self.guardian.as_ref().is_some_and(|shared| {
            let mut guardian = shared.lock().unwrap_or_else(PoisonError::into_inner);
            matches!(guardian.child.try_wait(), Ok(None))
        })
    }

    /// Has a session guarded, whatever its processes carry.
    pub(super) fn tell_session(&self, session: Session) {
        if let Some(shared) = &self.guardian {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add_session(session);
        }
    }

    /// Has the containers guarded that `program` (an engine's) runs for this host; an empty name
    /// for folders alone.
    pub(super) fn tell_engine(&self, program: &str) {
        if let Some(shared) = &self.guardian {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add_engine(program);
        }
    }

    /// Gives up a guardian that has died, after another has taken over.
    pub(super) fn forget(mut self) {
        self.guardian = None;
    }

    /// Leaves what this run has not removed itself to the guardian, which acts once this process is
    /// gone.
    pub(super) fn hand_over(mut self) {
        // The guardian waits for the end of its input, which is now that of this process.
        if let Some(shared) = self.guardian.take() {
            std::mem::forget(shared);
        }
    }

    /// The run needs no guarding any more; waits for a guardian that nobody else needs.
    pub(super) async fn release(mut self) {
        let started = Instant::now();
        if let Some(mut guardian) = self.let_go() {
            while guardian.lives(started) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// Takes the run off the guardian's list, and the guardian out if this was the last.
    fn let_go(&mut self) -> Option<Guardian> {
        let shared = self.guardian.take()?;
        let guardians = GUARDIANS.lock().unwrap_or_else(PoisonError::into_inner);
        shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.run_id);
        // Under the lock of the list: nobody can revive it between these lines.
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
        let started = Instant::now();
        if let Some(mut guardian) = self.let_go() {
            while guardian.lives(started) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Guardian {
    fn start(program: &Path, run_id: &str) -> io::Result<Self> {
        // Found now: the guardian itself starts elsewhere.
        let path = CString::new(std::path::absolute(program)?.as_os_str().as_bytes())?;
        let subcommand = CString::new(SUBCOMMAND)?;
        let id = CString::new(run_id)?;
        // It must not carry the mark of any run, and has no use for keys.
        let env: Vec<CString> = INHERITED
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
            .filter_map(|(name, value)| {
                CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
            })
            .collect();
        let (reading, writing) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // A guardian that hangs must not hang the host.
        rustix::io::ioctl_fionbio(&writing, true)?;
        let sessions = Sessions::new()?;
        let child = spawn(&Spec {
            program: &path,
            args: &[&path, &subcommand, &id],
            env: &env,
            cwd: Some(c"/"),
            stdin: Some(reading.as_fd()),
            output: None,
            errors: None,
            third: Some(sessions.table.memory()),
            fourth: None,
            deaf: true,
        })?;
        Ok(Self {
            program: program.to_owned(),
            child,
            input: Some(writing),
            runs: BTreeSet::from([run_id.to_owned()]),
            engines: BTreeSet::new(),
            sessions,
        })
    }

    /// Returns whether the guardian could be told.
    fn add(&mut self, run_id: &str) -> bool {
        let told = matches!(self.child.try_wait(), Ok(None)) && self.tell('+', run_id);
        if told {
            self.runs.insert(run_id.to_owned());
        }
        told
    }

    fn add_session(&mut self, session: Session) {
        if let Err(error) = self.sessions.add(session) {
            tracing::debug!(session = session.id, %error, "the guardian was not told a session");
        }
    }

    fn add_engine(&mut self, program: &str) {
        if !self.engines.contains(program) && self.tell('!', program) {
            self.engines.insert(program.to_owned());
        }
    }

    fn remove(&mut self, run_id: &str) {
        if self.runs.remove(run_id) && !self.tell('-', run_id) {
            tracing::debug!(run_id, "the guardian is gone already");
        }
    }

    fn tell(&self, sign: char, run_id: &str) -> bool {
        let line = format!("{sign}{run_id}\n");
        self.input
            .as_ref()
            .is_some_and(|fd| rustix::io::write(fd, line.as_bytes()) == Ok(line.len()))
    }

    fn lives(&mut self, since: Instant) -> bool {
        since.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None))
    }
}
