//! Runs the real binary in a world of its own: a fresh folder, a cleared environment, no
//! terminal, and a hard end to every wait.
//!
//! A test says what is there (`file`, `env`, `server`), runs, and looks at what came of it
//! ([`Run`]). Whatever hangs is killed and shown; whatever a failed test leaves behind is
//! killed with it.

#![allow(
    dead_code,
    reason = "a vocabulary for tests, not every word of which is in use at all times"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::Server;
use serde_json::Value;
use tempfile::TempDir;

use crate::processes;
use crate::run::{Run, journal, shown};
pub use rustix::process::Signal;

/// What a run may take if a test says nothing else.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where the trajectory goes if a test says nothing else.
const TRAJECTORY: &str = "traj.json";

/// A call of the binary, in the making.
#[must_use]
pub struct Host {
    root: TempDir,
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    stdin: Option<Vec<u8>>,
    reading: Reading,
    timeout: Duration,
}

impl Host {
    /// A call without arguments, in an empty folder.
    pub fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("mswea-test-")
            .tempdir()
            .unwrap();
        // Kept across tests and runs, so that plugins are compiled once.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let home = root.path().join("home");
        let folders = [
            ("HOME", home.clone()),
            ("XDG_CONFIG_HOME", home.join(".config")),
            ("XDG_DATA_HOME", home.join(".local/share")),
            ("XDG_STATE_HOME", home.join(".local/state")),
            ("XDG_RUNTIME_DIR", home.join(".run")),
            ("TMPDIR", root.path().join("tmp")),
            ("XDG_CACHE_HOME", cache),
        ];
        let mut env = BTreeMap::new();
        for (name, folder) in folders {
            fs::create_dir_all(&folder).unwrap();
            env.insert(name.into(), folder.into());
        }
        fs::create_dir(root.path().join("work")).unwrap();
        // Found tools stay found, and a coverage run still gets its counts.
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                env.insert(name.into(), value);
            }
        }
        env.insert("LANG".into(), "C.UTF-8".into());
        // Tests are started in all sorts of sessions, and nobody forges code here.
        env.insert("MSWEA_PLUGIN_CACHE".into(), "trust".into());
        Self {
            root,
            program: env!("CARGO_BIN_EXE_mswea-host").into(),
            args: Vec::new(),
            env,
            stdin: None,
            reading: Reading::All,
            timeout: TIMEOUT,
        }
    }

    /// The folder that the binary is run in.
    pub fn dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// Takes an environment variable away.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// Uses a cache that nothing is in yet.
    pub fn empty_cache(self) -> Self {
        let cache = self.home().join(".cache");
        self.env("XDG_CACHE_HOME", cache)
    }

    /// Writes a file, by its path relative to [`Host::dir`].
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.dir().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(path, content).unwrap();
        self
    }

    /// Uses this model server.
    pub fn server(self, server: &Server) -> Self {
        self.base_url(&server.url())
    }

    /// Uses whatever listens at this URL as the model server.
    pub fn base_url(self, url: &str) -> Self {
        self.args(["-m", "local/test", "--base-url", url])
    }

    /// Gives it a task; the trajectory is written beside it.
    pub fn task(self, task: &str) -> Self {
        self.args(["-t", task, "-o", TRAJECTORY])
    }

    /// Writes this to its standard input and closes it; without, there is none.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// Runs this program instead.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = program.to_owned();
        self
    }

    /// Closes the other end of its standard output and standard error at once.
    pub fn unread(mut self) -> Self {
        self.reading = Reading::Closed;
        self
    }

    /// Keeps the other end of its standard output and standard error open, and never reads.
    pub fn stalled(mut self) -> Self {
        self.reading = Reading::Never;
        self
    }

    /// Sets what the run may take before it is killed and the test fails.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Run {
        self.spawn().wait()
    }

    /// Starts it.
    pub fn spawn(self) -> Running {
        let dir = self.dir();
        let stdin = if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut command = Command::new(&self.program);
        // SAFETY: gives signals their default actions, which may be done between fork and exec.
        // The tests themselves may have been started with `nohup`, or by a script's `&`.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&dir)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: a hanging run is killed without the tests.
            .process_group(0)
            .spawn()
            .unwrap();
        if let (Some(text), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // It may end without reading.
            thread::spawn(move || pipe.write_all(&text).ok());
        }
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let nothing = || Printed::collect(std::io::empty());
        let mut unread = None;
        let (stdout, stderr) = match self.reading {
            Reading::All => (Printed::collect(stdout), Printed::collect(stderr)),
            Reading::Closed => {
                drop((stdout, stderr));
                (nothing(), nothing())
            }
            Reading::Never => {
                unread = Some((stdout, stderr));
                (nothing(), nothing())
            }
        };
        let trajectory = dir.join(output_argument(&self.args).unwrap_or(TRAJECTORY.into()));
        Running {
            end: Instant::now() + self.timeout,
            timeout: self.timeout,
            args: self.args,
            trajectory,
            dir,
            child,
            stdout,
            stderr,
            unread,
            root: Some(self.root),
        }
    }
}

/// Who reads what it prints.
#[derive(Clone, Copy)]
enum Reading {
    All,
    /// Nobody, and the pipes are closed.
    Closed,
    /// Nobody, and the pipes are open.
    Never,
}

fn output_argument(args: &[OsString]) -> Option<OsString> {
    let place = args
        .iter()
        .position(|arg| arg == "-o" || arg == "--output")?;
    args.get(place + 1).cloned()
}

/// A run that has not ended yet. Dropping it kills it.
pub struct Running {
    child: Child,
    args: Vec<OsString>,
    dir: PathBuf,
    trajectory: PathBuf,
    end: Instant,
    timeout: Duration,
    stdout: Printed,
    stderr: Printed,
    /// What nobody reads.
    unread: Option<(ChildStdout, ChildStderr)>,
    /// None once the folder has passed to the [`Run`].
    root: Option<TempDir>,
}

impl Running {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder that it runs in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Sends its process group a signal, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(pid, signal).unwrap();
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The journal so far.
    pub fn journal(&self) -> Vec<Value> {
        journal(&self.trajectory)
    }

    /// Waits until something is so; `what` says it in the message if it never is.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        while !is_so(self) {
            // Once more after its end: it may have come about in between.
            if let Some(status) = self.child.try_wait().unwrap()
                && !is_so(self)
            {
                panic!("ended ({status}) before {what}\n{}", self.shown());
            }
            if Instant::now() >= self.end {
                self.kill();
                panic!("no sign of {what} in {:?}\n{}", self.timeout, self.shown());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until there is such a file, by its path relative to the folder.
    #[track_caller]
    pub fn until_file(&mut self, name: &str) {
        self.until(&format!("the file `{name}`"), |run| {
            run.dir.join(name).exists()
        });
    }

    /// Waits until it ends; kills it and fails if that takes too long.
    #[track_caller]
    pub fn wait(mut self) -> Run {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= self.end {
                self.kill();
                panic!(
                    "killed: still running after {:?}\n{}",
                    self.timeout,
                    self.shown()
                );
            }
            thread::sleep(Duration::from_millis(2));
        };
        let mut rest = [String::new(), String::new()];
        if let Some((mut stdout, mut stderr)) = self.unread.take() {
            // What the pipes had room for.
            let _ = stdout.read_to_string(&mut rest[0]);
            let _ = stderr.read_to_string(&mut rest[1]);
        }
        let [unread_out, unread_err] = rest;
        // What it left behind may hold the pipes open: that is for the test to find out.
        let end = Instant::now() + Duration::from_secs(1);
        while !(self.stdout.is_whole() && self.stderr.is_whole()) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        Run {
            status: number(status),
            stdout: self.stdout.text() + &unread_out,
            stderr: self.stderr.text() + &unread_err,
            dir: self.dir.clone(),
            trajectory: self.trajectory.clone(),
            args: self.args.clone(),
            root: self.root.take().unwrap(),
        }
    }

    fn kill(&mut self) {
        // Each of them may have ended by itself.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            let _ = self.child.wait();
        }
        if let Some(root) = &self.root {
            processes::kill_inside(root.path());
        }
    }

    fn shown(&self) -> String {
        shown(&self.args, &self.stdout(), &self.stderr())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.root.is_some() {
            self.kill();
        }
    }
}

fn number(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| -signal))
        .unwrap()
}

/// What comes out of a pipe, as it comes.
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
}

impl Printed {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || {
                let mut block = [0; 8192];
                while let Ok(count @ 1..) = pipe.read(&mut block) {
                    bytes.lock().unwrap().extend_from_slice(&block[..count]);
                }
            }
        });
        Self { bytes, reader }
    }

    fn is_whole(&self) -> bool {
        self.reader.is_finished()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scripted_server::{Fault, Scenario, Turn};

    #[test]
    #[should_panic(expected = "killed: still running after 1.5s")]
    fn a_run_that_hangs_is_killed() {
        let server = Server::start(Scenario::always(Turn::fault(Fault::Silence)));
        let host = Host::new().server(&server).task("wait");
        host.timeout(Duration::from_millis(1500)).run();
    }
}
