//! From a command to a process: the program, its arguments, and its working directory.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mswea_core::{Command, Output, Stop};
use mswea_helper::{long, sys};
use rustix::pipe::PipeFlags;

use super::LocalExecutor;
use super::attend::Running;
use super::keys;
use super::settings::nested;
use crate::environment;
use crate::failure::ActionFailure;
use crate::hanging::{self, StartLimit};
use crate::low_descriptors::null;
use crate::orphans::{self, Presence};
use crate::programs::in_path;
use crate::sandbox::SandboxKind;
use crate::spawn::{ChildProcess, ProcessStart, ProgramCall, spawn, watched};
use crate::starters;
use crate::wrap::Wrap;
use mswea_helper::processes::{ACTION_VARIABLE, ProcessTarget, RUN_VARIABLE, Session};

/// The path of the helper in its own process.
pub(crate) const PROGRAM: &str = "/proc/self/fd/4";
/// The descriptor that this path names.
pub(super) const HELPER_DESCRIPTOR: i32 = 4;

/// The purpose of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task<'a> {
    /// A command, run by the interpreter, in the sandbox if there is one.
    Command(&'a str),
    /// The helper with the shell of a session, in the sandbox if there is one.
    Helper,
    /// A program and its arguments, outside any sandbox, because it makes or tries one.
    Program(&'a [OsString]),
}

impl Task<'_> {
    /// A text for messages.
    pub(super) fn text(self) -> String {
        match self {
            Self::Command(text) => text.to_owned(),
            Self::Helper => "mswea-helper".to_owned(),
            Self::Program(args) => args.join(OsStr::new(" ")).to_string_lossy().into_owned(),
        }
    }
}

impl LocalExecutor {
    /// Runs a program outside any sandbox, under the same rules as commands.
    pub(crate) async fn run_program(
        &mut self,
        args: &[OsString],
        timeout: Duration,
        stop: &Stop,
    ) -> Output {
        let task = Task::Program(args);
        let text = task.text();
        let command = Command {
            timeout: Some(timeout),
            apart: true,
            ..Command::new(&text)
        };
        self.perform(task, &command, stop).await
    }

    /// The interpreter's path, as far as it can be found without running it.
    pub(crate) fn interpreter(&self) -> Result<PathBuf, ActionFailure> {
        let Some(name) = self.settings.interpreter.first() else {
            return Err(ActionFailure::no_interpreter("", "it is empty"));
        };
        if name.contains('/') {
            return Ok(PathBuf::from(name));
        }
        self.in_path(name)
            .ok_or_else(|| ActionFailure::no_interpreter(name, "it is in no folder of `PATH`"))
    }

    /// The program `name` in the `PATH` of commands.
    pub(super) fn in_path(&self, name: &str) -> Option<PathBuf> {
        let env = self.env.as_deref().unwrap_or_default();
        let path = environment::get(env, "PATH").unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
        in_path(name, OsStr::from_bytes(path))
    }

    /// Program and arguments of `task`, for the action `action`.
    pub(super) fn argv(
        &self,
        task: Task<'_>,
        action: &str,
    ) -> Result<(PathBuf, Vec<OsString>), ActionFailure> {
        let (interpreter, words): (PathBuf, Vec<OsString>) = match task {
            Task::Command(text) => {
                let words = self.settings.interpreter.iter().map(OsString::from);
                let words = words.chain([text.into()]).collect();
                match self.wrap {
                    Some(_) => (PathBuf::new(), words),
                    None => (self.interpreter()?, words),
                }
            }
            Task::Helper => {
                let inside = self.wrap.as_ref().and_then(|wrap| wrap.inside);
                let words = [inside.unwrap_or(PROGRAM), "session"].map(OsString::from);
                (PathBuf::from(PROGRAM), words.to_vec())
            }
            Task::Program(args) => {
                let program = args.first().map(PathBuf::from).unwrap_or_default();
                return Ok((program, args.to_vec()));
            }
        };
        let Some(wrap) = &self.wrap else {
            if self.settings.sandbox.kind != SandboxKind::None {
                return Err(ActionFailure::value(
                    "the sandbox was not started: nothing is run without it",
                ));
            }
            return Ok((interpreter, words));
        };
        let run = nested(RUN_VARIABLE, &self.settings.run_id);
        let marks = [
            (RUN_VARIABLE, run.as_str()),
            (ACTION_VARIABLE, &nested(ACTION_VARIABLE, action)),
        ];
        let Wrap {
            program,
            before,
            variable,
            after,
            inside,
            third: _,
        } = wrap;
        let marks = marks
            .iter()
            .flat_map(|(name, value)| variable(name, value))
            .map(OsString::from);
        let mut after = after.clone();
        if let (Task::Helper, None, Some(last)) = (task, inside, after.last_mut()) {
            *last = interpreter.into();
        }
        let args = before
            .iter()
            .cloned()
            .chain(marks)
            .chain(after)
            .chain(words);
        Ok((program.clone(), args.collect()))
    }

    /// A file with the command, if the command is too long for an argument and the interpreter is a
    /// shell that can read it. The last of `args` is then replaced by the request to read the file.
    fn long_command(
        &self,
        text: &str,
        args: &mut [OsString],
    ) -> Result<Option<OwnedFd>, ActionFailure> {
        if !long::is_long(text.as_bytes()) || !long::takes_file(&self.settings.interpreter) {
            return Ok(None);
        }
        if text.contains('\0') {
            return Err(ActionFailure::null_byte());
        }
        let Some(last) = args.last_mut() else {
            return Ok(None);
        };
        *last = long::SOURCE.into();
        let file = sys::file(&long::file(text.as_bytes()));
        file.map(Some)
            .map_err(|error| ActionFailure::system(&error, None))
    }

    /// Starts `task`. The thread waits until the new process executes its program, so with many
    /// runs in this process, the start takes place on another thread. If the future is dropped, the
    /// process is not started or is ended. With few runs, a start that hangs blocks this thread
    /// until `limit` is reached.
    pub(super) async fn launch(
        &mut self,
        task: Task<'_>,
        limit: &StartLimit<'_>,
    ) -> Result<Running, ActionFailure> {
        // No other action may get this number, even if this start is given up while it waits.
        self.actions += 1;
        let action = format!("{}.{}", self.settings.run_id, self.actions);
        let system = |error: io::Error| ActionFailure::system(&error, None);
        let keys = &self.settings.keys;
        let with_keys = match task {
            Task::Command(text) if !keys.is_empty() => {
                Some((keys::reading(text), keys::socket(keys).map_err(system)?))
            }
            _ => None,
        };
        let task = match &with_keys {
            Some((text, _)) => Task::Command(text),
            None => task,
        };
        let (program, mut args) = self.argv(task, &action)?;
        let command = match task {
            Task::Command(text) => self.long_command(text, &mut args)?,
            Task::Program(_) | Task::Helper => None,
        };
        let keys = with_keys.as_ref().map(|(_, socket)| socket.try_clone());
        let keys = keys.transpose().map_err(system)?;
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (reading, writing) = pipe.map_err(|error| system(error.into()))?;
        // The two ends have separate flags: the command's end stays blocking.
        rustix::io::ioctl_fionbio(&reading, true).map_err(|error| system(error.into()))?;
        // Done before the start, because an error after the start must not count as a start that
        // can be repeated.
        let reading = watched(reading).map_err(system)?;
        let null = null().map_err(system)?;
        let launching = self.launching(task, program, args, action)?;
        let process = launching.process.clone();
        let env = self.variables()?;
        let start = move || {
            let mut ends = vec![(null, 0), (writing.as_fd(), 1), (writing.as_fd(), 2)];
            ends.extend(
                command
                    .as_ref()
                    .map(|file| (file.as_fd(), long::DESCRIPTOR)),
            );
            ends.extend(keys.as_ref().map(|keys| (keys.as_fd(), keys::DESCRIPTOR)));
            let (child, target) = launching.start(&env, &ends)?;
            // Dropping it before it is attended ends the child.
            Ok(Running::new(child, reading, target))
        };
        let is_first = self.presence.is_none();
        let running = match orphans::are_many() || hanging::can_hang() {
            false => {
                let (started, is_given_up) = hanging::attended(&process, limit, start);
                settled(started, is_given_up, limit)
            }
            true => self.start_elsewhere(process, start).await,
        };
        match &running {
            Ok(running) => self.note_start(running.session()),
            Err(_) if is_first => self.presence = None,
            Err(_) => {}
        }
        running
    }

    /// Calls `start`, which starts `process`, on another thread. If the future is dropped, the
    /// start is given up and its result dropped.
    async fn start_elsewhere<T: Send + 'static>(
        &mut self,
        process: ProcessStart,
        start: impl FnOnce() -> Result<T, ActionFailure> + Send + 'static,
    ) -> Result<T, ActionFailure> {
        self.note_presence();
        let starting = self.starting.clone().lock_owned().await;
        let mut waiting = AwaitedStart(Some(process), Instant::now());
        let started = starters::start(move || {
            let _starting = starting;
            start()
        });
        let panicked = || io::Error::other("the start panicked");
        let started = started.await;
        waiting.0 = None;
        started.unwrap_or_else(|| Err(ActionFailure::system(&panicked(), None)))
    }

    /// Starts a program with the mark of the action `action` and these descriptors; another
    /// descriptor has the wrapper's arguments. The guardian is told of the session. `made` takes
    /// the started process, and ends it when it is dropped. If the future is dropped, the program
    /// is not started or is ended.
    pub(super) async fn start_marked<T: Send + 'static>(
        &mut self,
        task: Task<'_>,
        program: PathBuf,
        args: Vec<OsString>,
        action: String,
        descriptors: Vec<(StartDescriptor, i32)>,
        made: impl FnOnce(ChildProcess, ProcessTarget) -> T + Send + 'static,
    ) -> Result<T, ActionFailure> {
        let launching = self.launching(task, program, args, action)?;
        let (process, env) = (launching.process.clone(), self.variables()?);
        let start = move || {
            let ends = descriptors.iter().map(|(fd, number)| (fd.as_fd(), *number));
            let (child, target) = launching.start(&env, &ends.collect::<Vec<_>>())?;
            let session = Session::of(child.pid());
            Ok((made(child, target), session))
        };
        let (made, session) = self.start_elsewhere(process, start).await?;
        self.note_start(session);
        Ok(made)
    }

    /// The variables that all commands get.
    fn variables(&self) -> Result<Arc<[CString]>, ActionFailure> {
        let env = self.env.as_ref().map_err(|why| ActionFailure::value(why))?;
        Ok(env.clone())
    }

    fn launching(
        &mut self,
        task: Task<'_>,
        program: PathBuf,
        args: Vec<OsString>,
        action: String,
    ) -> Result<Launching, ActionFailure> {
        let args: Vec<CString> = args
            .into_iter()
            .map(|arg| CString::new(arg.into_vec()).map_err(|_| ActionFailure::null_byte()))
            .collect::<Result<_, _>>()?;
        self.guard();
        let third = match (task, &self.wrap) {
            (Task::Program(_), _) | (_, None) => None,
            (_, Some(Wrap { third, .. })) => third.as_deref(),
        };
        let third = third.map(sys::file).transpose();
        let third = third.map_err(|error| ActionFailure::system(&error, None))?;
        let cwd = self.settings.cwd.clone();
        Ok(Launching {
            path: c_path(&program)?,
            program,
            args,
            mark: entry(ACTION_VARIABLE, &nested(ACTION_VARIABLE, &action))?,
            folder: cwd.as_deref().map(c_path).transpose()?,
            cwd,
            third,
            process: ProcessStart::default(),
            target: ProcessTarget {
                since: self.since,
                ..ProcessTarget::marked(ACTION_VARIABLE, [action])
            },
        })
    }

    /// Registers the run with the orphan search and the guardian, because it may have to be cleaned
    /// up.
    fn note_presence(&mut self) {
        self.presence
            .get_or_insert_with(|| Presence::new(self.since));
    }

    /// Called after a process was started: the run must be cleaned up, if necessary by the
    /// guardian.
    fn note_start(&mut self, session: Session) {
        self.note_presence();
        if let Some(lease) = &self.lease {
            lease.tell_session(session);
        }
    }
}

/// The result of a start. One that was given up has failed, unless the program has run and ended: a host that
/// was stopped (SIGSTOP) notices that late.
pub(super) fn settled(
    started: Result<Running, ActionFailure>,
    is_given_up: bool,
    limit: &StartLimit<'_>,
) -> Result<Running, ActionFailure> {
    match started {
        started if !is_given_up => started,
        Ok(running) if running.has_ended_by_itself() => Ok(running),
        _ => Err(limit.failure()),
    }
}

/// A descriptor that a process gets: its own, or one of this process.
pub(super) enum StartDescriptor {
    Own(OwnedFd),
    Shared(BorrowedFd<'static>),
}

impl AsFd for StartDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(fd) => fd.as_fd(),
            Self::Shared(fd) => *fd,
        }
    }
}

/// A start on another thread, and the time when it began. Dropping it before its end gives up the
/// start.
struct AwaitedStart(Option<ProcessStart>, Instant);

impl Drop for AwaitedStart {
    fn drop(&mut self) {
        if let Some(start) = &self.0 {
            start.give_up();
            hanging::note(self.1);
        }
    }
}

/// The parameters of a process of the run.
struct Launching {
    program: PathBuf,
    path: CString,
    args: Vec<CString>,
    /// The variable with the mark of the action.
    mark: CString,
    cwd: Option<PathBuf>,
    folder: Option<CString>,
    /// The wrapper's arguments, which it reads from a descriptor.
    third: Option<OwnedFd>,
    process: ProcessStart,
    /// Recognises the process and its descendants.
    target: ProcessTarget,
}

impl Launching {
    /// Starts the process with these variables and descriptors, and waits until it executes its program.
    fn start(
        self,
        env: &[CString],
        descriptors: &[(BorrowedFd<'_>, i32)],
    ) -> Result<(ChildProcess, ProcessTarget), ActionFailure> {
        let longest = self.args.last().map_or(0, |arg| arg.as_bytes().len());
        let args: Vec<_> = self.args.iter().map(CString::as_c_str).collect();
        let third = self.third.as_ref().map(|third| (third.as_fd(), 3));
        let descriptors: Vec<_> = descriptors.iter().copied().chain(third).collect();
        let env: Vec<_> = env
            .iter()
            .chain([&self.mark])
            .map(CString::as_c_str)
            .collect();
        let call = ProgramCall {
            path: &self.path,
            args: &args,
            env: &env,
            cwd: self.folder.as_deref(),
        };
        let started = spawn(&self.process, call, &descriptors, false);
        let cwd = self.cwd.as_deref();
        let child =
            started.map_err(|failed| ActionFailure::start(&failed, &self.program, cwd, longest))?;
        let mut target = self.target;
        target.sessions = vec![Session::of(child.pid())];
        Ok((child, target))
    }
}

fn entry(name: &str, value: &str) -> Result<CString, ActionFailure> {
    CString::new(format!("{name}={value}")).map_err(|_| ActionFailure::null_byte())
}

fn c_path(path: &Path) -> Result<CString, ActionFailure> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| ActionFailure::null_byte())
}
