//! A small host, and functions that inspect the processes of this machine.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use mswea_helper::dialogue::ARGUMENTS;
use mswea_helper::protocol::{self, ActionInput, HELLO, HelperReply, HelperRequest, TerminalSize};

pub const HELPER: &str = env!("CARGO_BIN_EXE_mswea-helper");

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// A session with the helper.
pub struct Client {
    pub child: Child,
    pub input: Option<ChildStdin>,
    pieces: Option<Receiver<Vec<u8>>>,
    inbox: Vec<u8>,
    next: u32,
    /// The grace of commands of the shell.
    pub grace: Duration,
    /// The note about the shell at the end of the last action.
    pub notes: String,
    /// The terminal of the shell.
    pub terminal: Option<TerminalSize>,
    /// How much of its input the action has taken, and whether it takes more.
    pub taken: (usize, bool),
}

/// How an action ended.
#[derive(Debug, PartialEq)]
pub enum End {
    Exited {
        status: i32,
        killed: bool,
        left: u32,
    },
    Failed {
        errno: i32,
        text: String,
    },
    /// The stream ended before.
    Gone,
}

impl End {
    pub fn by_itself(status: i32) -> Self {
        Self::Exited {
            status,
            killed: false,
            left: 0,
        }
    }

    pub fn killed() -> Self {
        Self::Exited {
            status: 137,
            killed: true,
            left: 0,
        }
    }
}

/// An action to be run.
pub struct Action {
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    pub grace: Duration,
    pub input: ActionInput,
}

pub fn sh(command: &str) -> Action {
    argv(&["bash", "-c", command])
}

pub fn argv(argv: &[&str]) -> Action {
    Action {
        argv: argv.iter().map(|text| text.as_bytes().to_vec()).collect(),
        env: vec![format!("MSWEA_ACTION={}", fresh_id()).into_bytes()],
        cwd: Vec::new(),
        grace: Duration::from_millis(100),
        input: ActionInput::Empty,
    }
}

impl Client {
    pub fn new() -> Self {
        Self::from(Command::new(HELPER).arg("session"))
    }

    pub fn from(command: &mut Command) -> Self {
        let mut client = Self::unread(command);
        client.read_on();
        let hello = client.take(HELLO);
        assert_eq!(protocol::version(&hello), Some(protocol::VERSION));
        client
    }

    /// A client that does not read the helper's output.
    pub fn unread(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            child,
            pieces: None,
            inbox: Vec::new(),
            next: 0,
            grace: Duration::from_millis(100),
            notes: String::new(),
            terminal: None,
            taken: (0, true),
        }
    }

    /// Starts reading the helper's output.
    pub fn read_on(&mut self) {
        let mut output = self.child.stdout.take().unwrap();
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        self.pieces = Some(receiver);
    }

    fn more(&mut self) -> bool {
        match self.pieces.as_ref().unwrap().recv_timeout(LONG) {
            Ok(piece) => {
                self.inbox.extend_from_slice(&piece);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("the helper says nothing"),
        }
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        while self.inbox.len() < count {
            assert!(self.more(), "the helper has gone: {:?}", self.inbox);
        }
        self.inbox.drain(..count).collect()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn start(&mut self, action: &Action) -> u32 {
        self.next += 1;
        let request = HelperRequest::Run {
            id: self.next,
            argv: action.argv.clone(),
            env: action.env.clone(),
            cwd: action.cwd.clone(),
            grace_ms: action.grace.as_millis() as u32,
            input: action.input,
        };
        self.taken = (0, true);
        self.send(&request.encode().unwrap());
        self.next
    }

    /// Writes to the standard input of the action.
    pub fn write(&mut self, id: u32, bytes: &[u8]) {
        let bytes = bytes.to_vec();
        self.request(&HelperRequest::Input { id, bytes });
    }

    pub fn request(&mut self, request: &HelperRequest) {
        self.send(&request.encode().unwrap());
    }

    /// Reads until the output of the action has this text in it; returns it up to there.
    pub fn expect(&mut self, id: u32, text: &str) -> String {
        let mut output = Vec::new();
        while !String::from_utf8_lossy(&output).contains(text) {
            let (more, end) = self.until(id, 1);
            output.extend(more);
            let so_far = String::from_utf8_lossy(&output);
            assert!(end.is_none(), "no {text:?} in {so_far:?}: {end:?}");
        }
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Gives a command to the helper's shell.
    pub fn ask(&mut self, command: &str) -> u32 {
        self.next += 1;
        let argv = ["bash"].into_iter().chain(ARGUMENTS.iter().copied());
        let request = HelperRequest::Ask {
            id: self.next,
            argv: argv.map(|text| text.as_bytes().to_vec()).collect(),
            env: Vec::new(),
            cwd: Vec::new(),
            grace_ms: self.grace.as_millis() as u32,
            login: false,
            mark: fresh_id().into_bytes(),
            command: command.as_bytes().to_vec(),
            terminal: self.terminal,
        };
        self.send(&request.encode().unwrap());
        self.next
    }

    /// Runs a command in the helper's shell to its end.
    pub fn tell(&mut self, command: &str) -> (String, End) {
        let id = self.ask(command);
        let (output, end) = self.end(id);
        (String::from_utf8_lossy(&output).into_owned(), end)
    }

    pub fn kill(&mut self, id: u32) {
        self.send(&HelperRequest::Kill { id }.encode().unwrap());
    }

    /// Reads until the action has printed at least `enough` bytes or has ended.
    pub fn until(&mut self, id: u32, enough: usize) -> (Vec<u8>, Option<End>) {
        let mut output = Vec::new();
        while output.len() < enough {
            let frame = protocol::frame(&self.inbox, protocol::LONGEST_REPLY).unwrap();
            let Some((content, length)) = frame.map(|(content, end)| (content.to_vec(), end))
            else {
                if self.more() {
                    continue;
                }
                return (output, Some(End::Gone));
            };
            self.inbox.drain(..length);
            let reply = HelperReply::decode(&content).unwrap();
            assert_eq!(reply.id(), id, "{reply:?}");
            let end = match reply {
                HelperReply::Output { bytes, .. } => {
                    assert!((1..=protocol::PIECE).contains(&bytes.len()));
                    output.extend_from_slice(bytes);
                    continue;
                }
                HelperReply::Taken { count, is_open, .. } => {
                    self.taken = (self.taken.0 + count as usize, is_open);
                    continue;
                }
                HelperReply::Exited {
                    status,
                    killed,
                    left,
                    notes,
                    ..
                } => {
                    self.notes = notes.to_owned();
                    End::Exited {
                        status,
                        killed,
                        left,
                    }
                }
                HelperReply::Failed { errno, text, .. } => End::Failed {
                    errno,
                    text: text.to_owned(),
                },
            };
            return (output, Some(end));
        }
        (output, None)
    }

    pub fn end(&mut self, id: u32) -> (Vec<u8>, End) {
        let (output, end) = self.until(id, usize::MAX);
        (output, end.unwrap())
    }

    pub fn run(&mut self, action: &Action) -> (String, End) {
        let id = self.start(action);
        let (output, end) = self.end(id);
        (String::from_utf8_lossy(&output).into_owned(), end)
    }

    /// Closes the host's stream and waits for the helper.
    pub fn leave(&mut self) -> Option<i32> {
        self.input = None;
        self.wait()
    }

    pub fn wait(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < LONG, "the helper does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// A number from its `/proc/PID/status`, in kB.
    pub fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap()
            .trim_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input = None;
        if !thread::panicking() {
            self.wait();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An id that no other process has.
pub fn fresh_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("helper-test-{}-{next}", std::process::id())
}

/// A duration that no other `sleep` of these tests has, by which a process is recognised that has
/// lost all other marks.
pub fn nap() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{:04}", 1000 + std::process::id(), next)
}

/// The processes with this argument.
pub fn pids(argument: &str) -> Vec<String> {
    let has = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|one| one == argument.as_bytes())
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(has)
        .collect()
}

/// Their number.
pub fn living(argument: &str) -> usize {
    pids(argument).len()
}

/// Whether the test can act as another user; prints a message if not.
pub fn is_root(test: &str) -> bool {
    let root = uid() == "0";
    if !root {
        let _ = writeln!(std::io::stderr(), "SKIPPED (not root): {test}");
    }
    root
}

fn uid() -> String {
    let output = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LONG, "no {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The children of a process, as the kernel lists them.
pub fn child_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap()
        .trim()
        .to_owned()
}

/// Makes a file executable.
pub fn executable(path: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A new folder for a test.
pub fn tempfile() -> String {
    let path = format!("{}/{}", std::env::temp_dir().display(), fresh_id());
    fs::create_dir(&path).unwrap();
    path
}
