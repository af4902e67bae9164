//! Confines local commands without any other program, with the kernel's Landlock.
//!
//! A process can only confine itself, and a new command shares the host's memory until its program
//! runs, so it may make only a few system calls. So the host's own binary is started in place of
//! the interpreter: as [`SUBCOMMAND`] it applies the rules (`child`) and then becomes the
//! interpreter.
//!
//! A filter of system calls (`seccomp`) refuses what Landlock does not control: UNIX sockets,
//! because a service behind one (docker's, tmux's) could write elsewhere on a command's behalf;
//! set-user-id bits; input into other terminals; and changes of other processes (limits, priority).
//!
//! This crate's `SANDBOX.md` documents what the sandbox prevents and what it does not.
//!
//! `scope` is a smaller sandbox, around programs that make one of their own (bubblewrap): it does
//! not restrict files, and confines signals, abstract sockets, and what the program's namespaces leave open.

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
use super::sandbox::Sandbox;
use super::wrap::Wrap;
use mswea_core::{ExecutorError, Output};

pub use child::run;

/// The hidden subcommand.
pub const SUBCOMMAND: &str = "__landlock";

/// The least version that is accepted: earlier ones do not control truncation, so that every file
/// of the user could be emptied.
const ABI: i32 = 3;

/// The wrapper that puts the commands of a local environment into the sandbox: those of `interpreter`
/// in the folder `cwd` (none: the host's). `guard_program` is the host's own binary.
///
/// # Errors
/// [`ExecutorError`] if a path can't be used, or this machine has no sufficient Landlock. What the
/// kernel really enforces, only a [`Trial`] shows.
pub(super) fn wrap(
    sandbox: &Sandbox,
    guard_program: Option<PathBuf>,
    cwd: Option<&Path>,
    interpreter: PathBuf,
) -> Result<Wrap, ExecutorError> {
    let cwd = cwd.unwrap_or(Path::new("."));
    let Some(program) = guard_program else {
        return refuse(
            "there is no program that applies it: set `guard_program` to the host's own binary",
        );
    };
    let absolute = |path: PathBuf| {
        std::path::absolute(&path).or_else(|error| {
            refuse(&format!(
                "`{}` is not a usable path: {error}",
                path.display()
            ))
        })
    };
    let program = absolute(program)?;
    check_kernel()?;
    if absolute(cwd.to_owned())?
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
    args.extend(flags(sandbox));
    Ok(Wrap {
        program,
        before: args,
        variable: |_, _| Vec::new(), // the environment is passed unchanged
        after: vec!["--".into(), interpreter.into()],
        inside: None,
        third: None,
    })
}

/// The arguments for what is allowed besides files.
fn flags(sandbox: &Sandbox) -> Vec<OsString> {
    let network = (!sandbox.network).then_some("--no-network");
    let sockets = sandbox.sockets.then_some("--sockets");
    network
        .into_iter()
        .chain(sockets)
        .map(OsString::from)
        .collect()
}

/// The wrapper of `program` with which it and everything that it starts can neither signal a
/// process outside nor connect to an abstract socket there; none if the kernel can't do that, or
/// the program needs its set-user-id bit, which it would lose. From `namespaces`, the program's arguments,
/// follows what a filter of system calls has to add: without a process namespace, changes of other
/// processes are refused, and with a network namespace, sockets that are not in it.
pub(super) fn scope(
    guard_program: Option<&Path>,
    program: &Path,
    namespaces: &[String],
) -> Option<(PathBuf, Vec<OsString>)> {
    let host = std::path::absolute(guard_program?).ok()?;
    let sets_user_id = program.metadata().ok()?.mode() & libc::S_ISUID != 0;
    if sets_user_id || kernel::abi().ok()? < kernel::SCOPES {
        return None;
    }
    let has = |name: &str| namespaces.iter().any(|arg| arg == name);
    let is_all = has("--unshare-all");
    let contained =
        (has("--unshare-net") || is_all && !has("--share-net")).then_some("--contained");
    let processes = (!has("--unshare-pid") && !is_all).then_some("--processes");
    let flags = [
        Some(SUBCOMMAND),
        Some("--scope"),
        contained,
        processes,
        Some("--"),
    ];
    let args = [host.clone().into()]
        .into_iter()
        .chain(flags.into_iter().flatten().map(OsString::from))
        .chain([program.into()])
        .collect();
    Some((host, args))
}

pub(super) fn refuse<T>(why: &str) -> Result<T, ExecutorError> {
    Err(ExecutorError::from(format!(
        "the landlock sandbox can't be used: {why}; to run without it, set the sandbox to `none` (the environment classes `bubblewrap` and `docker` need no landlock)"
    )))
}

/// Checks that the kernel's Landlock is sufficient.
pub(super) fn check_kernel() -> Result<(), ExecutorError> {
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

/// A process that confines itself and tries what is forbidden, in a folder of its own.
pub(super) struct Trial {
    folder: TempFolder,
    program: PathBuf,
    args: Vec<OsString>,
}

impl Trial {
    /// How long it may take.
    pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

    /// The trial of `sandbox` by `program`, the host's own binary; nothing is started yet.
    ///
    /// # Errors
    /// [`ExecutorError`] if the folder can't be made.
    pub(super) fn new(
        run_id: &str,
        program: PathBuf,
        sandbox: &Sandbox,
    ) -> Result<Self, ExecutorError> {
        let folder = TempFolder::new(run_id, "trial")?;
        let mut args: Vec<OsString> = vec![
            program.clone().into(),
            SUBCOMMAND.into(),
            "--trial".into(),
            folder.path().into(),
        ];
        args.extend(flags(sandbox));
        Ok(Self {
            folder,
            program,
            args,
        })
    }

    /// The program to run, and its arguments.
    pub(super) fn args(&self) -> &[OsString] {
        &self.args
    }

    /// The description of the sandbox in the output of [`Self::args`].
    ///
    /// # Errors
    /// [`ExecutorError`] with the reason if it can't be used.
    pub(super) async fn report(self, output: &Output) -> Result<String, ExecutorError> {
        self.folder.remove().await;
        let said = output.output.trim();
        match said.strip_prefix(child::TRIED) {
            Some(what) if output.returncode == 0 => Ok(what.trim().to_owned()),
            _ if said.is_empty() && !output.exception_info.is_empty() => {
                refuse(&output.exception_info)
            }
            _ => refuse(&format!(
                "`{} {SUBCOMMAND}` says: {said}",
                self.program.display()
            )),
        }
    }
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
