//! A bash that is kept between commands: its process, its pipes, and its reports.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use mswea_helper::dialogue::{self, Dialogue, Report, taken_over};
use mswea_helper::processes::{self, ACTION_VARIABLE, ProcessTarget, Session};
use mswea_helper::protocol::TerminalSize;

use crate::action::BackgroundOutput;
use crate::input::ProgramInput;
use crate::spawn::{NotStarted, Starter, no_terminal};
use crate::terminal::Terminal;
use crate::{KILLING, sys};

/// The most bytes of a shell's exported variables.
const STATE: u64 = 4 * 1024 * 1024;
/// How long a shell that is no longer needed may take to end by itself.
const FAREWELL: Duration = Duration::from_millis(100);
/// How many bytes of the shell's own standard error are read at once.
const READ: usize = 4096;

/// A command for the shell.
pub struct ShellCommand {
    /// Program and arguments of a shell, if one has to be started.
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value`, for a shell that is started.
    pub env: Vec<Vec<u8>>,
    /// The directory of the first shell; empty: the helper's.
    pub cwd: Vec<u8>,
    /// Whether a shell that is started reads the files of a login shell.
    pub login: bool,
    pub command: String,
    /// Its value of [`ACTION_VARIABLE`].
    pub mark: String,
    pub grace: Duration,
    /// The terminal of a shell that is started.
    pub terminal: Option<TerminalSize>,
}

/// A shell that was started.
pub struct LivingShell {
    /// Its pid is the number.
    pub session: Session,
    /// How the shell ended, once it has ended.
    pub end: Option<ExitStatus>,
    /// All output of commands; none once it has ended.
    pub output: Option<BackgroundOutput>,
    /// The working directory that it reported last.
    pub folder: Option<Vec<u8>>,
    /// The input of its commands: its terminal, if it has one.
    pub input: ProgramInput,
    /// The pipe to which its lines are written.
    control: OwnedFd,
    /// The shell's own standard error; none once that has ended, as after `exec PROGRAM`.
    reports: Option<OwnedFd>,
    /// The file with the command.
    text: File,
    /// The file with the exported variables.
    state: File,
    dialogue: Dialogue,
}

impl LivingShell {
    /// Starts a shell for its first command, in `folder` if that exists, with the variables of
    /// `exported`.
    pub fn start(
        starter: &Starter,
        first: &ShellCommand,
        folder: Option<&[u8]>,
        exported: &[u8],
    ) -> Result<Self, NotStarted> {
        let lacking = |error: io::Error| NotStarted::new("no descriptors for the shell", &error);
        let pipe = || sys::pipe().map_err(lacking);
        let ((input, control), (reports, errors)) = (pipe()?, pipe()?);
        let terminal = first.terminal.map(Terminal::open).transpose();
        let terminal = terminal.map_err(no_terminal)?;
        let (output, writing) = match &terminal {
            Some(terminal) => {
                let slave = sys::copy(terminal.slave());
                (terminal.output().map_err(lacking)?, slave.map_err(lacking)?)
            }
            None => pipe()?,
        };
        for fd in [&control, &output, &reports] {
            sys::set_nonblocking(fd).map_err(lacking)?;
        }
        let file = |content: &[u8]| sys::file(content).map_err(lacking);
        let (text, state, proof) = (file(b"")?, file(exported)?, file(dialogue::PROOF_TEXT)?);
        let ends = [
            (&input, 0),
            (&writing, 1),
            (&errors, 2),
            (&writing, dialogue::OUTPUT),
            (&state, dialogue::STATE),
            (&text, dialogue::TEXT),
            (&proof, dialogue::PROOF),
        ];
        let ends = ends.map(|(fd, number)| (fd.as_fd(), number));
        // A mark that no action has: processes that bash forks inherit it until bash sets that of
        // the action.
        let mark = format!("{ACTION_VARIABLE}={}.shell", first.mark).into_bytes();
        let env: Vec<_> = first.env.iter().cloned().chain([mark]).collect();
        let folder = folder
            .filter(|folder| Path::new(OsStr::from_bytes(folder)).is_dir())
            .unwrap_or(&first.cwd);
        let folder = Some(folder).filter(|folder| !folder.is_empty());
        let pid = starter.start_with(first.argv.clone(), &env, folder, &ends, terminal.as_ref())?;
        let session = Session::of(pid);
        let shell = Self {
            session,
            end: None,
            output: Some(BackgroundOutput::new(output)),
            folder: folder.map(<[u8]>::to_vec),
            input: terminal.map_or_else(ProgramInput::default, ProgramInput::terminal),
            control,
            reports: Some(reports),
            text: text.into(),
            state: state.into(),
            dialogue: Dialogue::new(
                &format!("{pid}x{}", session.start),
                first.terminal.is_some(),
            ),
        };
        let opened = shell.tell(&shell.dialogue.opening(first.login));
        opened.map_err(|error| NotStarted::new("the shell", &error))?;
        Ok(shell)
    }

    /// Writes a line. The pipe has room for it, because the shell has read the line before.
    fn tell(&self, line: &[u8]) -> io::Result<()> {
        match sys::write(self.control.as_raw_fd(), line)? {
            Some(count) if count == line.len() => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        }
    }

    /// Gives the shell a command, as the action `mark`. Earlier output is dropped.
    pub fn ask(&mut self, command: &str, mark: &str) -> io::Result<()> {
        let mut pending = self.pending();
        while let Some(output) = self.output.as_mut().filter(|_| pending > 0) {
            let mut dropped = Vec::new();
            if !output.skip(&mut dropped) {
                self.output = None;
            }
            if dropped.is_empty() {
                break;
            }
            pending = pending.saturating_sub(dropped.len());
        }
        self.input.reset();
        let (text, line) = self.dialogue.ask(command, mark);
        self.text.set_len(0)?;
        self.text.write_all_at(&text, 0)?;
        self.tell(&line)
    }

    /// Asks again for the report of the command.
    pub fn ask_again(&self) {
        let _ = self.tell(&self.dialogue.ask_again());
    }

    /// How many bytes of output can be read now.
    pub fn pending(&self) -> usize {
        self.output.as_ref().map_or(0, BackgroundOutput::pending)
    }

    /// The descriptor of the shell's own standard error.
    pub fn reports(&self) -> Option<RawFd> {
        self.reports.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Reads the shell's own standard error; returns the report of the last command if it is
    /// complete.
    pub fn hear(&mut self) -> Option<Report> {
        let mut heard = Vec::new();
        let mut report = None;
        while let Some(fd) = self.reports() {
            heard.clear();
            match sys::read(fd, &mut heard, READ) {
                Ok(None) => break,
                Ok(Some(0)) | Err(_) => self.reports = None,
                Ok(Some(_)) => report = self.dialogue.hear(&heard).or(report),
            }
        }
        report
    }

    /// Records the working directory in a report.
    pub fn note_report(&mut self, report: &Report) {
        self.folder = Some(report.folder.clone()).filter(|folder| folder.starts_with(b"/"));
    }

    /// Records the working directory while the shell exists.
    pub fn note_folder(&mut self) {
        if let Ok(folder) = fs::read_link(format!("/proc/{}/cwd", self.session.id)) {
            self.folder = Some(folder.into_os_string().into_vec());
        }
    }

    /// Sends the shell a signal.
    pub fn signal(&self, number: i32) {
        if self.end.is_none() {
            sys::signal_child(self.session.id, number);
        }
    }

    /// Kills the shell alone, and waits for it for a bounded time.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        let killed = Instant::now();
        while self.end.is_none() && killed.elapsed() < KILLING / 10 {
            if let Some((_, status)) = sys::bury_child(self.session.id) {
                self.ended(status);
            } else {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Records the shell's end.
    pub fn ended(&mut self, status: ExitStatus) {
        self.end = Some(status);
        // The output of a terminal ends only when no process has the terminal open.
        self.input = ProgramInput::default();
    }

    /// Closes the shell's input, and waits for its end for a bounded time.
    pub fn dismiss(self) {
        let Self {
            session, control, ..
        } = self;
        drop(control);
        let asked = Instant::now();
        while asked.elapsed() < FAREWELL && sys::bury_child(session.id).is_none() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The text with which a new shell takes over its exported variables.
    pub fn exported(&self) -> Vec<u8> {
        let length = self.state.metadata().map_or(0, |found| found.len());
        let mut state = vec![0; usize::try_from(length.min(STATE)).unwrap_or(0)];
        match self.state.read_exact_at(&mut state, 0) {
            Ok(()) if length <= STATE => taken_over(&state),
            _ => Vec::new(),
        }
    }

    /// The shell's children; none where the kernel does not list them.
    pub fn children(&self) -> Vec<i32> {
        let mut buffer = Vec::new();
        let pid = self.session.id;
        if !processes::read_proc(pid, &format!("task/{pid}/children"), &mut buffer) {
            return Vec::new();
        }
        String::from_utf8_lossy(&buffer)
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    /// Whether the shell has children that it did not have when the action of `target` began.
    pub fn has_other_children(&self, target: &ProcessTarget) -> bool {
        let before = target.shell.as_ref().map_or(&[][..], |shell| &shell.before);
        self.children().iter().any(|child| !before.contains(child))
    }
}
