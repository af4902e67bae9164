//! Starts a process in a session of its own: an action, or the shell of a session.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

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

/// The system's message without the number that Rust appends.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
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
        let (output, mut ends, input) = match input {
            ActionInput::Terminal(size) => {
                let terminal = Terminal::open(size).map_err(no_terminal)?;
                let slave = || sys::above(terminal.slave()).map_err(lacking);
                let ends = vec![(slave()?, 0), (slave()?, 1), (slave()?, 2)];
                let output = terminal.output().map_err(lacking)?;
                (output, ends, ProgramInput::terminal(terminal))
            }
            other => {
                let (output, writing) = sys::pipe().map_err(lacking)?;
                let (reading, input) = match other {
                    ActionInput::Pipe => {
                        let (reading, writing) = sys::pipe().map_err(lacking)?;
                        (reading, ProgramInput::pipe(writing).map_err(lacking)?)
                    }
                    _ => (
                        sys::above(self.null()).map_err(lacking)?,
                        ProgramInput::default(),
                    ),
                };
                let errors = sys::above(&writing).map_err(lacking)?;
                (output, vec![(reading, 0), (writing, 1), (errors, 2)], input)
            }
        };
        ends.extend(command.map(|file| (file, long::DESCRIPTOR)));
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
        descriptors: &[(OwnedFd, i32)],
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
        // Above all numbers that they get, so that none is overwritten before it is copied.
        let copies = descriptors
            .iter()
            .map(|(fd, number)| Ok((sys::above(fd)?, *number)))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| NotStarted::new("no descriptors", &error))?;
        let spec = SpawnParameters {
            program: &program[0],
            argv: &argv,
            env: &env,
            cwd: directory.as_deref(),
            descriptors: &copies,
            terminal: terminal.map(Terminal::path),
            restored: &self.ignored,
        };
        spec.spawn()
            .map_err(|error| blame(&error, &shown_name, cwd))
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

/// Whether the working directory or the program caused the error, which the kernel does not tell.
fn blame(error: &io::Error, program: &str, cwd: Option<&[u8]>) -> NotStarted {
    if let Some(cwd) = cwd {
        let what = format!("working directory `{}`", shown(cwd));
        match fs::metadata(OsStr::from_bytes(cwd)) {
            Err(error) => return NotStarted::new(&what, &error),
            Ok(found) if !found.is_dir() => return NotStarted::number(&what, libc::ENOTDIR),
            Ok(_) => {}
        }
    }
    NotStarted::new(&format!("program `{program}`"), error)
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

/// The parameters of `posix_spawn`, which shares the memory until the exec and so need not copy
/// page tables.
struct SpawnParameters<'a> {
    program: &'a CStr,
    argv: &'a [CString],
    env: &'a [CString],
    cwd: Option<&'a CStr>,
    /// Each with the number that it has in the process.
    descriptors: &'a [(OwnedFd, i32)],
    /// The path of its terminal.
    terminal: Option<&'a CStr>,
    restored: &'a libc::sigset_t,
}

impl SpawnParameters<'_> {
    fn spawn(&self) -> io::Result<i32> {
        let argv = pointers(self.argv);
        let env = pointers(self.env);
        let mut actions = MaybeUninit::uninit();
        let actions = FileActions::new(&mut actions)?;
        if let Some(path) = self.terminal {
            // In a new session this makes it the controlling terminal.
            actions.open(path, 0)?;
        }
        for (fd, to) in self.descriptors {
            actions.dup(fd.as_fd(), *to)?;
        }
        if let Some(cwd) = self.cwd {
            actions.chdir(cwd)?;
        }
        let mut attributes = MaybeUninit::uninit();
        let attributes = SpawnAttributes::new(&mut attributes, self.restored)?;
        let mut pid = 0;
        // SAFETY: the program is a C string, `argv` and `env` are null-terminated arrays of C
        // strings, all of which live until the call returns; actions and attributes are
        // initialised.
        check(unsafe {
            libc::posix_spawn(
                &mut pid,
                self.program.as_ptr(),
                actions.0,
                attributes.0,
                argv.as_ptr(),
                env.as_ptr(),
            )
        })?;
        Ok(pid)
    }
}

/// A null-terminated array for C, which does not write to it although the type allows it.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings
        .iter()
        .map(|text| text.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

fn check(code: libc::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// The child's actions before the exec; borrowed, because C does not allow it to be moved.
struct FileActions<'a>(&'a mut libc::posix_spawn_file_actions_t);

impl<'a> FileActions<'a> {
    fn new(place: &'a mut MaybeUninit<libc::posix_spawn_file_actions_t>) -> io::Result<Self> {
        // SAFETY: the memory belongs to this call and may be written.
        check(unsafe { libc::posix_spawn_file_actions_init(place.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        Ok(Self(unsafe { place.assume_init_mut() }))
    }

    fn dup(&self, from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
        let this = ptr::from_ref(&*self.0).cast_mut();
        // SAFETY: `this` is initialised and nothing else uses it during the call.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(this, from.as_raw_fd(), to) })
    }

    fn open(&self, path: &CStr, to: i32) -> io::Result<()> {
        let this = ptr::from_ref(&*self.0).cast_mut();
        // SAFETY: as above; the path is a C string, which the call copies.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(this, to, path.as_ptr(), libc::O_RDWR, 0)
        })
    }

    fn chdir(&self, path: &CStr) -> io::Result<()> {
        let this = ptr::from_ref(&*self.0).cast_mut();
        // SAFETY: as above; the path is a C string, which the call copies.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(this, path.as_ptr()) })
    }
}

impl Drop for FileActions<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after this.
        let _ = unsafe { libc::posix_spawn_file_actions_destroy(self.0) };
    }
}

/// Session and signals of the child.
struct SpawnAttributes<'a>(&'a mut libc::posix_spawnattr_t);

impl<'a> SpawnAttributes<'a> {
    fn new(
        place: &'a mut MaybeUninit<libc::posix_spawnattr_t>,
        restored: &libc::sigset_t,
    ) -> io::Result<Self> {
        // SAFETY: the memory belongs to this call and may be written.
        check(unsafe { libc::posix_spawnattr_init(place.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        let this = Self(unsafe { place.assume_init_mut() });
        let flags = libc::POSIX_SPAWN_SETSID as i32
            | libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_SETSIGDEF;
        // SAFETY: `this.0` and both sets are initialised.
        unsafe {
            check(libc::posix_spawnattr_setflags(
                this.0,
                flags as libc::c_short,
            ))?;
            check(libc::posix_spawnattr_setsigmask(this.0, &sys::signals([])))?;
            check(libc::posix_spawnattr_setsigdefault(this.0, restored))?;
        }
        Ok(this)
    }
}

impl Drop for SpawnAttributes<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after this.
        let _ = unsafe { libc::posix_spawnattr_destroy(self.0) };
    }
}
