//! Starts a process in a session of its own: an action, or the shell of a session.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mswea_helper::child::{self, ProcessSpec, StartError, StartNote, StartStage, plain};
use mswea_helper::long;
use mswea_helper::protocol::ActionInput;

use crate::input::ProgramInput;
use crate::sys;
use crate::terminal::Terminal;

/// The `PATH` if none is set, as container engines set it.
const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most characters of a name in a message.
const SHOWN: usize = 300;

/// The values that all actions need at their start.
pub struct Starter {
    /// The helper's own environment, by name.
    env: BTreeMap<Vec<u8>, Vec<u8>>,
    /// An empty standard input.
    null: OwnedFd,
    ignored: libc::sigset_t,
}

/// Why an action was not started.
#[derive(Debug)]
pub struct NotStarted {
    pub errno: i32,
    pub text: String,
}

/// A started process and its output.
pub struct StartedProcess {
    pub pid: i32,
    pub output: OwnedFd,
    pub input: ProgramInput,
}

impl NotStarted {
    pub fn new(what: &str, error: &io::Error) -> Self {
        Self {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            text: format!("{what}: {}", plain(error)),
        }
    }

    pub fn number(what: &str, errno: i32) -> Self {
        Self::new(what, &io::Error::from_raw_os_error(errno))
    }
}

/// A text for a message, shortened.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

impl Starter {
    pub fn new() -> io::Result<Self> {
        // An image may have no `/dev`: then a pipe without a writer serves as an empty input.
        let null = match fs::File::open("/dev/null") {
            Ok(file) => file.into(),
            Err(_) => sys::pipe()?.0,
        };
        Ok(Self {
            env: env::vars_os()
                .map(|(name, value)| (name.into_vec(), value.into_vec()))
                .collect(),
            null,
            ignored: sys::ignored_signals(),
        })
    }

    /// An empty input.
    pub fn null(&self) -> BorrowedFd<'_> {
        self.null.as_fd()
    }

    /// A variable of the helper's own environment.
    pub fn var(&self, name: &[u8]) -> Option<&[u8]> {
        self.env.get(name).map(Vec::as_slice)
    }

    /// Starts `argv` with the variables `over` laid over the helper's own, and with one pipe or the
    /// terminal of its input for all its output.
    pub fn start(
        &self,
        argv: Vec<Vec<u8>>,
        over: &[Vec<u8>],
        cwd: Option<&[u8]>,
        input: ActionInput,
    ) -> Result<StartedProcess, NotStarted> {
        let mut argv = argv;
        let command = long_command(&mut argv)?;
        let lacking = |error: io::Error| NotStarted::new("no pipe for its output", &error);
        let copy = |fd| sys::copy(fd).map_err(lacking);
        let (output, reading, writing, input) = match input {
            ActionInput::Terminal(size) => {
                let terminal = Terminal::open(size).map_err(no_terminal)?;
                let output = terminal.output().map_err(lacking)?;
                let (reading, writing) = (copy(terminal.slave())?, copy(terminal.slave())?);
                (output, reading, writing, ProgramInput::terminal(terminal))
            }
            ActionInput::Pipe => {
                let (output, writing) = sys::pipe().map_err(lacking)?;
                let (reading, input) = sys::pipe().map_err(lacking)?;
                let input = ProgramInput::pipe(input).map_err(lacking)?;
                (output, reading, writing, input)
            }
            ActionInput::Empty => {
                let (output, writing) = sys::pipe().map_err(lacking)?;
                (output, copy(self.null())?, writing, ProgramInput::default())
            }
        };
        let mut ends = vec![
            (reading.as_fd(), 0),
            (writing.as_fd(), 1),
            (writing.as_fd(), 2),
        ];
        ends.extend(
            command
                .as_ref()
                .map(|file| (file.as_fd(), long::DESCRIPTOR)),
        );
        let pid = self.start_with(argv, over, cwd, &ends, input.as_terminal())?;
        Ok(StartedProcess { pid, output, input })
    }

    /// Starts `argv` with the variables `over` laid over the helper's own and with these descriptors;
    /// returns its pid. It is the first process of a session, whose terminal is `terminal`.
    pub fn start_with(
        &self,
        argv: Vec<Vec<u8>>,
        over: &[Vec<u8>],
        cwd: Option<&[u8]>,
        descriptors: &[(BorrowedFd<'_>, i32)],
        terminal: Option<&Terminal>,
    ) -> Result<i32, NotStarted> {
        let mut env = self.env.clone();
        for entry in over {
            let at = entry
                .iter()
                .position(|byte| *byte == b'=')
                .filter(|at| *at > 0);
            let Some(at) = at else {
                let what = format!("variable `{}` is not `NAME=value`", shown(entry));
                return Err(NotStarted::number(&what, libc::EINVAL));
            };
            env.insert(entry[..at].to_vec(), entry[at + 1..].to_vec());
        }
        let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
            return Err(NotStarted::number(
                "the command names no program",
                libc::EINVAL,
            ));
        };
        let path = env.get(&b"PATH"[..]).map_or(PATH, Vec::as_slice);
        let shown_name = shown(name);
        let program = find(name, path, cwd)
            .ok_or_else(|| NotStarted::number(&format!("program `{shown_name}`"), libc::ENOENT))?;
        let entries = env.into_iter().map(|(mut name, value)| {
            name.push(b'=');
            name.extend_from_slice(&value);
            name
        });
        let argv = strings("an argument", argv)?;
        let env = strings("a variable", entries)?;
        let directory = cwd.map(|cwd| strings("the working directory", [cwd.to_vec()]));
        let directory = directory.transpose()?.and_then(|mut only| only.pop());
        let program = strings("the program", [program.into_os_string().into_vec()])?;
        let args: Vec<_> = argv.iter().map(CString::as_c_str).collect();
        child::start(&ProcessSpec {
            program: &program[0],
            args: &args,
            env: &env.iter().map(CString::as_c_str).collect::<Vec<_>>(),
            cwd: directory.as_deref(),
            descriptors,
            own_below: None,
            terminal: terminal.map(Terminal::slave),
            restored: &self.ignored,
            blocked: &sys::signals([]),
            start: &StartNote::default(),
        })
        .map_err(|failed| blame(&failed, &shown_name, cwd))
    }
}

/// The failure of an action that has no terminal.
pub fn no_terminal(error: io::Error) -> NotStarted {
    NotStarted::new("no terminal (`/dev/ptmx`, `/dev/pts`)", &error)
}

/// A file with the command, if it is too long for an argument and the program is a shell; the
/// arguments then tell the shell to read the file.
fn long_command(argv: &mut [Vec<u8>]) -> Result<Option<OwnedFd>, NotStarted> {
    let Some((command, interpreter)) = argv.split_last_mut() else {
        return Ok(None);
    };
    if !long::is_long(command) || !long::takes_file(interpreter) || command.contains(&0) {
        return Ok(None);
    }
    let file = sys::file(&long::file(command));
    *command = long::SOURCE.into();
    file.map(Some)
        .map_err(|error| NotStarted::new("no memory for the command", &error))
}

fn blame(failed: &StartError, program: &str, cwd: Option<&[u8]>) -> NotStarted {
    let what = match failed.stage {
        StartStage::Process => format!("a process for `{program}`"),
        StartStage::Folder => format!("working directory `{}`", shown(cwd.unwrap_or_default())),
        StartStage::Program => format!("program `{program}`"),
    };
    NotStarted::new(&what, &failed.error)
}

fn strings(
    what: &str,
    texts: impl IntoIterator<Item = Vec<u8>>,
) -> Result<Vec<CString>, NotStarted> {
    let strings: Result<_, _> = texts.into_iter().map(CString::new).collect();
    strings.map_err(|_| NotStarted::number(&format!("{what} contains a NUL"), libc::EINVAL))
}

/// The program that a shell would start from `cwd`; a name with a slash is used unchanged.
fn find(name: &[u8], path: &[u8], cwd: Option<&[u8]>) -> Option<PathBuf> {
    if name.contains(&b'/') {
        return Some(OsString::from_vec(name.to_vec()).into());
    }
    let from = Path::new(OsStr::from_bytes(cwd.unwrap_or_default()));
    let candidates = || {
        path.split(|byte| *byte == b':')
            .map(|folder| Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name)))
    };
    let mode = |path: &PathBuf| {
        let found = fs::metadata(from.join(path)).ok()?;
        found.is_file().then(|| found.permissions().mode())
    };
    candidates()
        .find(|path| mode(path).is_some_and(|mode| mode & 0o111 != 0))
        // The kernel's reason to refuse an existing file is better than "not found".
        .or_else(|| candidates().find(|path| mode(path).is_some()))
}
