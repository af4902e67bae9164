//! From a command to a process: which program gets which arguments, and where it starts.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mswea_helper::long;
use rustix::pipe::PipeFlags;

use super::attend::Running;
use super::settings::nested;
use super::wrap::{self, Wrap};
use super::{LocalExecutor, Presence};
use crate::executor::environment;
use crate::executor::failure::Failure;
use crate::executor::landlock::SandboxKind;
use crate::executor::processes::{ACTION_VARIABLE, RUN_VARIABLE, Session, Target};
use crate::executor::spawn::{Child, Spec, spawn};

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub(in crate::executor) enum Task<'a> {
    /// A command, by the interpreter, in the sandbox if there is one.
    Command(&'a str),
    /// A program and its arguments, as they are, outside of any sandbox: what makes one.
    Program(&'a [OsString]),
}

impl Task<'_> {
    /// For messages.
    pub(super) fn text(self) -> String {
        match self {
            Self::Command(text) => text.to_owned(),
            Self::Program(args) => args.join(OsStr::new(" ")).to_string_lossy().into_owned(),
        }
    }
}

impl LocalExecutor {
    /// The interpreter's path, as far as it can be found without running it.
    pub(in crate::executor) fn interpreter(&self) -> Result<PathBuf, Failure> {
        let Some(name) = self.settings.interpreter.first() else {
            return Err(Failure::no_interpreter("", "it is empty"));
        };
        if name.contains('/') {
            return Ok(PathBuf::from(name));
        }
        let env = self.env.as_deref().unwrap_or_default();
        let path = environment::get(env, "PATH").unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
        in_path(name, OsStr::from_bytes(path))
            .ok_or_else(|| Failure::no_interpreter(name, "it is in no folder of `PATH`"))
    }

    /// Program and arguments of `task`, which is the action `action`.
    fn argv(&self, task: Task<'_>, action: &str) -> Result<(PathBuf, Vec<OsString>), Failure> {
        let text = match task {
            Task::Command(text) => text,
            Task::Program(args) => {
                let program = args.first().map(PathBuf::from).unwrap_or_default();
                return Ok((program, args.to_vec()));
            }
        };
        let interpreter = &self.settings.interpreter;
        let command = interpreter.iter().map(OsString::from).chain([text.into()]);
        let Some(wrap) = &self.wrap else {
            if self.settings.sandbox.kind != SandboxKind::None {
                return Err(Failure::value(
                    "the sandbox was not started: nothing is run without it",
                ));
            }
            return Ok((self.interpreter()?, command.collect()));
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
            third: _,
        } = wrap;
        let marks = marks
            .iter()
            .flat_map(|(name, value)| variable(name, value))
            .map(OsString::from);
        let args = before
            .iter()
            .cloned()
            .chain(marks)
            .chain(after.iter().cloned())
            .chain(command);
        Ok((program.clone(), args.collect()))
    }

    /// The file with a command that is too long for an argument, if the interpreter is a shell that
    /// can read it: then the last of `args` tells it to.
    fn long_command(&self, text: &str, args: &mut [OsString]) -> Result<Option<OwnedFd>, Failure> {
        if !long::is_long(text.as_bytes()) || !long::takes_file(&self.settings.interpreter) {
            return Ok(None);
        }
        if text.contains('\0') {
            return Err(Failure::null_byte());
        }
        let Some(last) = args.last_mut() else {
            return Ok(None);
        };
        *last = long::SOURCE.into();
        let file = wrap::readable(&long::file(text.as_bytes()));
        // Not where another descriptor of the command is to be.
        let file = file.and_then(|file| {
            rustix::io::fcntl_dupfd_cloexec(&file, long::DESCRIPTOR + 1).map_err(io::Error::from)
        });
        file.map(Some)
            .map_err(|error| Failure::system(&error, None))
    }

    pub(super) fn launch(&mut self, task: Task<'_>) -> Result<Running, Failure> {
        let number = self.actions + 1;
        let action = format!("{}.{number}", self.settings.run_id);
        let (program, mut args) = self.argv(task, &action)?;
        let command = match task {
            Task::Command(text) => self.long_command(text, &mut args)?,
            Task::Program(_) => None,
        };
        let args: Vec<CString> = args
            .into_iter()
            .map(|arg| CString::new(arg.into_vec()).map_err(|_| Failure::null_byte()))
            .collect::<Result<_, _>>()?;
        self.guard();
        let third = match (task, &self.wrap) {
            (Task::Command(_), Some(Wrap { third, .. })) => third.as_deref(),
            _ => None,
        };
        let third = third.map(wrap::readable).transpose();
        let third = third.map_err(|error| Failure::system(&error, None))?;
        let env = self.env.as_mut().map_err(|why| Failure::value(why))?;
        env.push(entry(ACTION_VARIABLE, &nested(ACTION_VARIABLE, &action))?);
        let cwd = self.settings.cwd.as_deref();
        let third = third.as_ref().map(File::as_fd);
        let command = command.as_ref().map(OwnedFd::as_fd);
        let result = start(&program, &args, env, cwd, [third, command]);
        env.pop();
        let (child, pipe) = result?;
        self.actions = number;
        self.presence
            .get_or_insert_with(|| Presence::new(self.since));
        let session = Session::of(child.pid());
        if let Some(lease) = &self.lease {
            lease.tell_session(session);
        }
        let target = Target {
            sessions: vec![session],
            since: self.since,
            ..Target::marked(ACTION_VARIABLE, [action])
        };
        Running::new(child, pipe, target).map_err(|error| Failure::system(&error, None))
    }
}

fn start(
    program: &Path,
    args: &[CString],
    env: &[CString],
    cwd: Option<&Path>,
    [third, fourth]: [Option<BorrowedFd<'_>>; 2],
) -> Result<(Child, OwnedFd), Failure> {
    let system = |error: rustix::io::Errno| Failure::system(&error.into(), None);
    let program_text = c_path(program)?;
    let longest = args.last().map_or(0, |arg| arg.as_bytes().len());
    let args: Vec<_> = args.iter().map(CString::as_c_str).collect();
    let folder = cwd.map(c_path).transpose()?;
    let (reading, writing) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(system)?;
    // Of the two ends, each has its own flags: the command's stays blocking.
    rustix::io::ioctl_fionbio(&reading, true).map_err(system)?;
    let child = spawn(&Spec {
        program: &program_text,
        args: &args,
        env,
        cwd: folder.as_deref(),
        stdin: None,
        output: Some(writing.as_fd()),
        errors: None,
        third,
        fourth,
        deaf: false,
    })
    .map_err(|error| Failure::start(&error, program, cwd, longest))?;
    Ok((child, reading))
}

fn entry(name: &str, value: &str) -> Result<CString, Failure> {
    CString::new(format!("{name}={value}")).map_err(|_| Failure::null_byte())
}

fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Failure::null_byte())
}

/// The program `name` in the folders of `path`.
pub(in crate::executor) fn in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|candidate| is_program(candidate))
}

pub(in crate::executor) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
