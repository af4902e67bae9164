//! Runs the real binary in an isolated environment: a new folder, cleared variables, no terminal,
//! and a time limit for every wait.
//!
//! A test sets up files, variables and servers (`file`, `env`, `server`), runs the binary, and
//! checks the result ([`Run`]). A process that hangs is killed and its output shown; processes that
//! a failed test leaves behind are killed with it.

#![allow(
    dead_code,
    reason = "a vocabulary for tests, not every word of which is in use at all times"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::Server;
use serde_json::Value;
use tempfile::TempDir;

use crate::printed::Printed;
use crate::processes;
use crate::run::{Run, journal, shown};
use crate::watchdog::WatchedGroup;
pub use rustix::process::Signal;

/// An address at which nobody listens until this process ends: the port is that of a connection's own end, so no other
/// process gets it.
pub fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let address = held.local_addr().unwrap();
    std::mem::forget((listener, held));
    address
}

/// The default time limit of a run. Only a host that hangs reaches it, on a loaded machine too.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The default path of the trajectory.
const TRAJECTORY: &str = "traj.json";

/// A call of the binary, before its start.
#[must_use]
pub struct Host {
    pub root: Arc<TempDir>,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: BTreeMap<OsString, OsString>,
    stdin: Option<Vec<u8>>,
    reading: Reading,
    timeout: Duration,
}

impl Host {
    /// A call without arguments, in an empty folder.
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("mswea-test-").tempdir();
        let root = Arc::new(root.unwrap());
        fs::create_dir(root.path().join("work")).unwrap();
        Self::inside(root)
    }

    /// A call with the folders of an earlier run: its working folder, its home, its state.
    pub fn after(run: &Run) -> Self {
        Self::inside(Arc::clone(&run.root))
    }

    /// A call with the folders of a run that has not ended.
    pub fn beside(running: &Running) -> Self {
        Self::inside(Arc::clone(running.root.as_ref().unwrap()))
    }

    /// A call with these folders.
    pub fn inside(root: Arc<TempDir>) -> Self {
        // All tests and runs share this cache, so that plugins are compiled once.
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
        // `PATH` leads to installed tools; `LLVM_PROFILE_FILE` is for measuring coverage.
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                env.insert(name.into(), value);
            }
        }
        env.insert("LANG".into(), "C.UTF-8".into());
        // The temporary folder may be in a repository, for example the clone.
        if let Some(above) = root.path().parent() {
            env.insert("GIT_CEILING_DIRECTORIES".into(), above.into());
        }
        // Without a login session the cache is used only with `trust`.
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

    /// The folder in which the binary runs.
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

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// Uses an empty cache.
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

    /// Uses the server at this URL as the model server.
    pub fn base_url(self, url: &str) -> Self {
        self.args(["-m", "local/test", "--base-url", url])
    }

    /// Sets the task; the trajectory is written to the default path.
    pub fn task(self, task: &str) -> Self {
        self.args(["-t", task, "-o", TRAJECTORY])
    }

    /// Writes this to its standard input and closes it; without this call, standard input is empty.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// Runs this program instead of the binary.
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
    pub fn stalled(self) -> Self {
        self.stalled_on(true, true)
    }

    /// Keeps the other ends of these two open, and never reads from them.
    pub fn stalled_on(mut self, stdout: bool, stderr: bool) -> Self {
        self.reading = Reading::Never { stdout, stderr };
        self
    }

    /// Sets the time limit. After it, the run is killed and the test fails.
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
        // SAFETY: gives signals their default actions, which is allowed between fork and exec. The
        // tests themselves may have been started with `nohup`, or by a script's `&`.
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
            // In a process group of its own, so that a hanging run can be killed without the tests.
            .process_group(0)
            .spawn()
            .unwrap();
        let group = WatchedGroup::new(child.id());
        if let (Some(text), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // The program may end without reading.
            thread::spawn(move || pipe.write_all(&text).ok());
        }
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let nothing = || Printed::collect(std::io::empty());
        let mut unread = (None, None);
        let (stdout, stderr) = match self.reading {
            Reading::All => (Printed::collect(stdout), Printed::collect(stderr)),
            Reading::Closed => {
                drop((stdout, stderr));
                (nothing(), nothing())
            }
            Reading::Never {
                stdout: out,
                stderr: err,
            } => (
                match out {
                    true => {
                        unread.0 = Some(stdout);
                        nothing()
                    }
                    false => Printed::collect(stdout),
                },
                match err {
                    true => {
                        unread.1 = Some(stderr);
                        nothing()
                    }
                    false => Printed::collect(stderr),
                },
            ),
        };
        let trajectory = dir.join(output_argument(&self.args).unwrap_or(TRAJECTORY.into()));
        Running {
            end: Instant::now() + self.timeout,
            timeout: self.timeout,
            args: self.args,
            trajectory,
            dir,
            child,
            group: Some(group),
            stdout,
            stderr,
            unread,
            root: Some(self.root),
        }
    }
}

/// How its output is read.
#[derive(Clone, Copy)]
enum Reading {
    All,
    /// The pipes are closed.
    Closed,
    /// The pipes stay open, and the named ones are not read.
    Never {
        stdout: bool,
        stderr: bool,
    },
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
    /// Until it has been waited for.
    group: Option<WatchedGroup>,
    args: Vec<OsString>,
    dir: PathBuf,
    trajectory: PathBuf,
    end: Instant,
    timeout: Duration,
    stdout: Printed,
    stderr: Printed,
    /// Pipes that are not read.
    unread: (Option<ChildStdout>, Option<ChildStderr>),
    /// None after the folder has been passed to the [`Run`].
    root: Option<Arc<TempDir>>,
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

    /// Reads the pipes that were not read until now, to their ends.
    pub fn read(mut self) -> Self {
        if let Some(stdout) = self.unread.0.take() {
            self.stdout = Printed::collect(stdout);
        }
        if let Some(stderr) = self.unread.1.take() {
            self.stderr = Printed::collect(stderr);
        }
        self
    }

    /// The journal so far.
    pub fn journal(&self) -> Vec<Value> {
        journal(&self.trajectory)
    }

    /// Waits until a condition is true; `what` describes it in the message if it never is.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        while !is_so(self) {
            // Checked once more after its end, because the condition may have become true in
            // between.
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

    /// Waits for a file, by its path relative to the folder.
    #[track_caller]
    pub fn until_file(&mut self, name: &str) {
        self.until(&format!("the file `{name}`"), |run| {
            run.dir.join(name).exists()
        });
    }

    /// Waits for its end; kills it and fails after the time limit.
    #[track_caller]
    pub fn wait(mut self) -> Run {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.group = None;
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
        // Pipes that nothing has read hold the last part of the output.
        let (mut unread_out, mut unread_err) = (String::new(), String::new());
        if let Some(mut stdout) = self.unread.0.take() {
            let _ = stdout.read_to_string(&mut unread_out);
        }
        if let Some(mut stderr) = self.unread.1.take() {
            let _ = stderr.read_to_string(&mut unread_err);
        }
        // Processes that it left behind may hold the pipes open; that is for the test to detect.
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
        // The processes may have ended by themselves.
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
