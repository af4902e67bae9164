//! Keeps local commands in without any other program, by the kernel's landlock.
//!
//! A process can only lock itself in, and commands are started by `posix_spawn`, which runs no
//! code of ours in between. So the host's own binary stands in front of the interpreter: as
//! [`SUBCOMMAND`] it applies the rules (`child`) and then becomes the interpreter.
//!
//! What Landlock has no rights for is refused by a filter of system calls (`seccomp`): UNIX sockets,
//! since a service behind one (docker's, tmux's) would write elsewhere on a command's behalf;
//! set-user-id bits; and typing into other terminals.
//!
//! What the sandbox keeps out and what remains is in `SANDBOX.md`, beside this folder.
//!
//! `scope` is a smaller sandbox, around programs that make one of their own (bubblewrap): it leaves
//! files alone and keeps signals and abstract sockets in.

mod child;
mod kernel;
mod network;
mod seccomp;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use super::folders::TempFolder;
use super::local::LocalExecutor;
use super::local::wrap::Wrap;
use crate::roles::{ExecutorError, Stop};

pub use child::run;

/// The hidden subcommand.
pub const SUBCOMMAND: &str = "__landlock";

/// Since then, truncation is covered: before, every file of the user could be emptied.
const ABI: i32 = 3;
/// How long the trial may take.
const TRIAL: Duration = Duration::from_secs(20);

/// What keeps the commands of a local environment in.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// By what.
    pub kind: SandboxKind,
    /// Files and folders, beside the working directory and temporary folders, that commands
    /// may write to.
    pub writable: Vec<PathBuf>,
    /// Whether commands may use the network.
    pub network: bool,
    /// Whether commands may use UNIX sockets, those of services outside among them.
    pub sockets: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            kind: SandboxKind::None,
            writable: Vec::new(),
            network: true,
            sockets: false,
        }
    }
}

/// Kinds of sandbox for local commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxKind {
    /// None.
    #[default]
    None,
    /// The kernel's landlock.
    Landlock,
}

/// What puts a local executor's commands into its sandbox, after a trial of it.
///
/// # Errors
/// When this machine can't enforce all of it.
pub(super) async fn prepare(
    executor: &mut LocalExecutor,
    stop: &Stop,
) -> Result<Wrap, ExecutorError> {
    let settings = executor.settings();
    let sandbox = settings.sandbox.clone();
    let cwd = settings.cwd.clone().unwrap_or_else(|| ".".into());
    let Some(program) = settings.guard_program.clone() else {
        return refuse(
            "there is no program that applies it: set `guard_program` to the host's own binary",
        );
    };
    let absolute = |path: PathBuf| {
        std::path::absolute(&path)
            .or_else(|error| refuse(&format!("`{}` is no usable path: {error}", path.display())))
    };
    let program = absolute(program)?;
    let name = match executor.interpreter() {
        Ok(interpreter) => interpreter,
        Err(failure) => return refuse(&failure.text()),
    };
    check_kernel()?;
    if absolute(cwd.clone())?
        .canonicalize()
        .is_ok_and(|cwd| cwd == Path::new("/"))
    {
        return refuse(
            "the working directory is `/`, so that all would be writable: set `cwd` to the folder to work in",
        );
    }
    let mut args: Vec<OsString> = vec![program.clone().into(), SUBCOMMAND.into()];
    for path in &sandbox.writable {
        let path = absolute(cwd.join(path))?;
        if let Err(error) = path.metadata() {
            return refuse(&format!(
                "`{}` is to be writable, but {error}: make it, or take it from `writable`",
                path.display()
            ));
        }
        args.extend(["--write".into(), path.into()]);
    }
    let flags = flags(&sandbox);
    try_it(executor, &program, &flags, stop).await?;
    args.extend(flags);
    Ok(Wrap {
        program,
        before: args,
        variable: |_, _| Vec::new(), // the environment passes as it is
        after: vec!["--".into(), name.into()],
        third: None,
    })
}

/// The arguments that say what may be done beside files.
fn flags(sandbox: &Sandbox) -> Vec<OsString> {
    let network = (!sandbox.network).then_some("--no-network");
    let sockets = sandbox.sockets.then_some("--sockets");
    network
        .into_iter()
        .chain(sockets)
        .map(OsString::from)
        .collect()
}

/// What has to stand in front of `program` so that it and all that it starts can neither signal a
/// process outside nor connect to an abstract socket there; none where the kernel can't do that, or
/// the program needs its set-user-id bit, which it would lose.
pub(super) fn scope(
    guard_program: Option<&Path>,
    program: &Path,
) -> Option<(PathBuf, Vec<OsString>)> {
    let host = std::path::absolute(guard_program?).ok()?;
    let sets_user_id = program.metadata().ok()?.mode() & libc::S_ISUID != 0;
    if sets_user_id || kernel::abi().ok()? < kernel::SCOPES {
        return None;
    }
    let args = [SUBCOMMAND, "--scope", "--"].map(OsString::from);
    let args = [host.clone().into()]
        .into_iter()
        .chain(args)
        .chain([program.into()])
        .collect();
    Some((host, args))
}

fn refuse<T>(why: &str) -> Result<T, ExecutorError> {
    Err(ExecutorError {
        message: format!(
            "the landlock sandbox can't be used: {why}; to run without it, set the sandbox to `none` (the environment classes `bubblewrap` and `docker` need no landlock)"
        ),
    })
}

/// Whether the kernel's landlock is enough.
fn check_kernel() -> Result<(), ExecutorError> {
    let release = rustix::system::uname();
    check_version(kernel::abi(), &release.release().to_string_lossy())
}

fn check_version(abi: Result<i32, Errno>, release: &str) -> Result<(), ExecutorError> {
    match abi {
        Ok(abi) if abi >= ABI => Ok(()),
        Ok(abi) => refuse(&format!(
            "this kernel ({release}) has version {abi} of landlock, under which commands could empty any file; version {ABI} is needed (Linux 6.2 or later)"
        )),
        Err(Errno::OPNOTSUPP) => refuse(&format!(
            "this kernel ({release}) has landlock switched off: boot it with `landlock` in its parameter `lsm=`"
        )),
        Err(Errno::NOSYS) => refuse(&format!(
            "this kernel ({release}) is built without landlock, or something around this process (an old container engine, gVisor) hides it; Linux 6.2 or later with `CONFIG_SECURITY_LANDLOCK` is needed"
        )),
        Err(error) => refuse(&format!(
            "the kernel ({release}) does not answer: {error}; Linux 6.2 or later is needed"
        )),
    }
}

/// Has a process lock itself in and try what is forbidden; answers what it says of itself.
async fn try_it(
    executor: &mut LocalExecutor,
    program: &Path,
    flags: &[OsString],
    stop: &Stop,
) -> Result<String, ExecutorError> {
    let folder = TempFolder::new(executor.run_id(), "trial")?;
    let mut args: Vec<OsString> = vec![
        program.into(),
        SUBCOMMAND.into(),
        "--trial".into(),
        folder.path().into(),
    ];
    args.extend_from_slice(flags);
    let output = executor.run_program(&args, TRIAL, stop).await;
    folder.remove().await;
    let said = output.output.trim();
    match said.strip_prefix(child::TRIED) {
        Some(what) if output.returncode == 0 => Ok(what.trim().to_owned()),
        _ if said.is_empty() && !output.exception_info.is_empty() => refuse(&output.exception_info),
        _ => refuse(&format!(
            "`{} {SUBCOMMAND}` says: {said}",
            program.display()
        )),
    }
}

/// Tries the sandbox; answers what there is of it, or why there is none.
///
/// # Errors
/// When it can't be used.
pub(super) async fn probe(program: PathBuf, network: bool) -> Result<String, ExecutorError> {
    check_kernel()?;
    let program = std::path::absolute(&program).unwrap_or(program);
    let mut executor = LocalExecutor::new(super::LocalSettings::default());
    let flags = flags(&Sandbox {
        network,
        ..Sandbox::default()
    });
    let tried = try_it(&mut executor, &program, &flags, &Stop::never()).await;
    crate::roles::Executor::cleanup(&mut executor).await;
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_not_enough_are_refused() {
        let vectors = [
            (Ok(1), "version 1 of landlock"),
            (Ok(2), "Linux 6.2 or later"),
            (Err(Errno::OPNOTSUPP), "`lsm=`"),
            (Err(Errno::NOSYS), "CONFIG_SECURITY_LANDLOCK"),
            (Err(Errno::PERM), "Linux 6.2 or later"),
        ];
        for (abi, wanted) in vectors {
            let error = check_version(abi, "6.1.0-x").unwrap_err().message;
            for part in [wanted, "6.1.0-x", "set the sandbox to `none`"] {
                assert!(error.contains(part), "{error}");
            }
        }
        assert!(check_version(Ok(ABI), "").is_ok() && check_version(Ok(99), "").is_ok());
    }
}
