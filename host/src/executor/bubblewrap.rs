//! Runs actions on this machine, each inside of bubblewrap (`bwrap`).
//!
//! To the local executor `bwrap` is one more process of the command: so timeouts, capture and
//! cleanup are its. The arguments are mini-swe-agent's: `bwrap <wrapper_args> --bind CWD CWD
//! --chdir CWD --setenv NAME VALUE ... bash -c COMMAND`.
//!
//! Other than there, `bwrap` itself is given the same few variables of the host as commands of
//! the local executor, and no keys; and two more variables are set inside, which name the run
//! and the action, so that every process of theirs is found. Configured variables are handed over
//! by a descriptor (`--args 3`), since other users of the machine can see arguments.
//!
//! The default has namespaces for processes and for System V's objects, so that no command sees the
//! host or its guardian. Signals and abstract sockets are kept in by the kernel's Landlock too, where
//! it can do that ([`landlock::scope`]): whoever has the machine's network has its abstract sockets
//! otherwise. Sockets of known services below the working directory are covered ([`SERVICES`]).
//! `SANDBOX.md`, beside this file, has what is kept out and what remains.
//!
//! There is no `--die-with-parent`: what it ends is whatever a command has left running, at the end
//! of each action, because the parent is the `bwrap` of that action and not the host. When the host
//! dies, its guardian ends it.
//!
//! `--new-session` hides the session of what it starts: without `--unshare-pid`, a process that goes
//! on in the background with an emptied environment is found only where the host adopts orphans
//! ([`super::orphans`]), as the program does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::folders::{TempFolder, inside};
use super::local::wrap::{self, Wrap};
use super::local::{LocalExecutor, LocalSettings};
use super::{files, landlock, userns};
use crate::roles::{Command, Context, Executor, ExecutorError, Object, Output, Stop};

/// What a sandbox consists of unless the config says otherwise: the system, read-only, and a
/// temporary folder of its own.
pub const DEFAULT_WRAPPER_ARGS: &[&str] = &[
    "--unshare-user-try",
    "--ro-bind",
    "/usr",
    "/usr",
    "--ro-bind",
    "/bin",
    "/bin",
    "--ro-bind",
    "/lib",
    "/lib",
    "--ro-bind",
    "/lib64",
    "/lib64",
    "--ro-bind",
    "/etc",
    "/etc",
    "--tmpfs",
    "/tmp",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--new-session",
    "--unshare-pid",
    "--unshare-ipc",
    "--setenv",
    "PATH",
    "/usr/local/bin:/usr/sbin:/usr/bin:/bin",
];

/// Where services of this machine have sockets, or folders of sockets, by which a command could have
/// something done outside of its sandbox; below `~` for those of a user.
const SERVICES: &[&str] = &[
    "/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/dbus",
    "/run/systemd",
    "/run/snapd.socket",
    "/run/libvirt",
    "/run/screen",
    "/run/tmux",
    "/run/user",
    "/tmp/.X11-unix",
    "~/.docker/run",
    "~/.docker/desktop",
    "~/.colima",
    "~/.rd",
    "~/.screen",
    "~/.ssh/agent",
    "~/.gnupg",
    "~/.1password",
];

/// How long the first, empty command may take.
const TRIAL: Duration = Duration::from_secs(20);

/// How a bubblewrap environment is set up.
#[derive(Clone, Debug)]
pub struct BubblewrapSettings {
    /// What it has in common with a local one. `cwd` is the folder that commands can write to;
    /// without one a fresh folder is made, which goes with the environment. `env` is what is set
    /// inside.
    pub local: LocalSettings,
    /// The program, by path or by its name in `PATH`.
    pub executable: String,
    /// Its arguments, before those that the environment adds.
    pub wrapper_args: Vec<String>,
}

impl Default for BubblewrapSettings {
    fn default() -> Self {
        Self {
            local: LocalSettings {
                interpreter: vec!["bash".to_owned(), "-c".to_owned()],
                ..LocalSettings::default()
            },
            executable: "bwrap".to_owned(),
            wrapper_args: DEFAULT_WRAPPER_ARGS
                .iter()
                .map(|&arg| arg.to_owned())
                .collect(),
        }
    }
}

/// The bubblewrap executor.
#[derive(Debug)]
pub struct BubblewrapExecutor {
    executable: String,
    wrapper_args: Vec<String>,
    env: BTreeMap<String, String>,
    /// Before the start: as configured.
    cwd: Option<PathBuf>,
    local: LocalExecutor,
    /// The fresh folder, if it is one.
    folder: Option<TempFolder>,
}

impl BubblewrapExecutor {
    /// An executor; nothing is started or checked yet.
    pub fn new(settings: BubblewrapSettings) -> Self {
        let BubblewrapSettings {
            mut local,
            executable,
            wrapper_args,
        } = settings;
        // Relative paths in `wrapper_args` begin where the host is.
        let cwd = local.cwd.take().filter(|cwd| !cwd.as_os_str().is_empty());
        Self {
            executable,
            wrapper_args,
            env: local.env.clone(),
            cwd,
            local: LocalExecutor::for_wrapped(local, BTreeMap::new()),
            folder: None,
        }
    }

    /// What marks the processes of this run.
    pub fn run_id(&self) -> &str {
        self.local.run_id()
    }

    /// The arguments up to the command's own variables, which [`Self::variables`] has.
    fn args(&self, cwd: &Path) -> Vec<OsString> {
        let is_default = self.wrapper_args == DEFAULT_WRAPPER_ARGS;
        let wrapper_args = if is_default {
            present(&self.wrapper_args)
        } else {
            self.wrapper_args.clone()
        };
        let place: [OsString; 5] = [
            "--bind".into(),
            cwd.into(),
            cwd.into(),
            "--chdir".into(),
            cwd.into(),
        ];
        let covers = covers(cwd, &self.wrapper_args);
        let variables = ["--args", "3"].map(OsString::from);
        [self.executable.clone()]
            .into_iter()
            .chain(wrapper_args)
            .map(OsString::from)
            .chain(place)
            .chain(covers)
            .chain(variables)
            .collect()
    }

    /// The arguments that set the configured variables, as `--args` reads them.
    fn variables(&self) -> Vec<u8> {
        let args = self
            .env
            .iter()
            .flat_map(|(name, value)| setenv(name, value));
        args.flat_map(|arg| [arg.into_bytes(), vec![0]].concat())
            .collect()
    }

    async fn prepare(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let program = wrap::program(&self.executable).ok_or_else(|| ExecutorError {
            message: format!(
                "`{}` (bubblewrap) is not installed; install it (`sudo apt-get install bubblewrap` or `sudo dnf install bubblewrap`), or set `environment.executable` to its path",
                self.executable
            ),
        })?;
        let cwd = match &self.cwd {
            Some(cwd) => folder(cwd)?,
            None => {
                self.local.guard_folders();
                let folder = TempFolder::new(self.local.run_id(), "bubblewrap")?;
                self.folder.insert(folder).path().to_owned()
            }
        };
        let args = self.args(&cwd);
        let guard = self.local.settings().guard_program.as_deref();
        let scope = landlock::scope(guard, &program);
        let bare = self.wrap(program, args.clone());
        if cwd == Path::new("/") {
            tracing::warn!("`cwd` is `/`: commands in the sandbox can write everywhere");
        }
        self.cwd = Some(cwd);
        let Some((host, front)) = scope else {
            self.local.wrap(bare);
            self.local.start(context).await?;
            return self.try_it(&context.stop).await;
        };
        let scoped = self.wrap(host, front.into_iter().chain(args).collect());
        self.local.wrap(scoped);
        self.local.start(context).await?;
        let Err(error) = self.try_it(&context.stop).await else {
            return Ok(());
        };
        // A security module may forbid to `bwrap` what it needs once it can't gain rights any more.
        self.local.wrap(bare);
        self.try_it(&context.stop).await?;
        tracing::warn!(
            %error,
            "commands can signal your processes and connect to abstract sockets: Landlock does not go with `bwrap` here"
        );
        Ok(())
    }

    /// What puts commands into the sandbox: `program` with `before` as its first arguments.
    fn wrap(&self, program: PathBuf, before: Vec<OsString>) -> Wrap {
        Wrap {
            program,
            before,
            variable: |name, value| setenv(name, value).into(),
            after: Vec::new(),
            third: Some(self.variables()),
        }
    }

    /// Whether a command gets as far as its interpreter.
    async fn try_it(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        let command = Command {
            timeout: Some(TRIAL),
            ..Command::new("true")
        };
        let output = self.local.execute(&command, stop).await;
        let said = output.output.trim();
        if output.returncode == 0 {
            return Ok(());
        }
        if !output.exception_info.is_empty() {
            return Err(ExecutorError {
                message: format!(
                    "`{}` can't be used: {}",
                    self.executable, output.exception_info
                ),
            });
        }
        // An interpreter that is no shell may fail at `true`; then it is there.
        let interpreter = self.local.settings().interpreter.first();
        let is_shell = interpreter.is_some_and(|name| name.ends_with("sh"));
        if !is_shell && !said.contains("bwrap: ") {
            return Ok(());
        }
        Err(ExecutorError {
            message: format!(
                "`{}` can't make the sandbox, it says: {said}; {}",
                self.executable,
                advice(said)
            ),
        })
    }
}

/// What to do when bubblewrap says this.
fn advice(said: &str) -> String {
    let is = |part: &str| said.contains(part);
    if is("source path") {
        "make the path, or take it from `wrapper_args`".to_owned()
    } else if is("execvp") {
        "what the interpreter needs has to be in the sandbox: bind its folders in `wrapper_args`, or set `interpreter` to another one".to_owned()
    } else if is("Unknown option") {
        "mend `wrapper_args`, or install a version of bubblewrap that has it".to_owned()
    } else if is("namespace") || is("uid map") || is("not permitted") || is("Permission denied") {
        userns::advice()
    } else {
        "mend `wrapper_args`".to_owned()
    }
}

fn setenv(name: &str, value: &str) -> [String; 3] {
    ["--setenv".to_owned(), name.to_owned(), value.to_owned()]
}

/// The arguments that hide the services' sockets below `cwd`, except for those that `wrapper_args`
/// name.
fn covers(cwd: &Path, wrapper_args: &[String]) -> Vec<OsString> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let places = SERVICES
        .iter()
        .filter_map(|place| match place.strip_prefix("~/") {
            Some(rest) => Some(home.as_ref()?.join(rest)),
            None => Some(PathBuf::from(place)),
        });
    let user = rustix::process::geteuid().as_raw();
    let tmux = std::env::var_os("TMUX_TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    let named = ["SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"].map(std::env::var_os);
    let named = named.into_iter().flatten().map(PathBuf::from);
    let mut args = Vec::new();
    let Ok(here) = cwd.canonicalize() else {
        return args;
    };
    for path in places
        .chain(named)
        .chain([tmux.join(format!("tmux-{user}"))])
    {
        let is_wanted = wrapper_args
            .iter()
            .any(|arg| Path::new(arg).starts_with(&path));
        let (Ok(found), Ok(real)) = (path.metadata(), path.canonicalize()) else {
            continue;
        };
        let Ok(below) = real.strip_prefix(&here) else {
            continue;
        };
        // Who works in such a folder means it.
        if is_wanted || below.as_os_str().is_empty() {
            continue;
        }
        let inside = cwd.join(below);
        if found.is_dir() {
            args.extend(["--tmpfs".into(), inside.into()]);
        } else {
            args.extend(["--ro-bind".into(), "/dev/null".into(), inside.into()]);
        }
    }
    args
}

/// The default arguments without what this machine does not have: not every one has a `/lib64`.
fn present(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--ro-bind" {
            let both = [rest.next(), rest.next()];
            if both[0].is_some_and(|source| Path::new(source).exists()) {
                kept.push(arg.clone());
                kept.extend(both.into_iter().flatten().cloned());
            }
        } else {
            kept.push(arg.clone());
        }
    }
    kept
}

fn folder(cwd: &Path) -> Result<PathBuf, ExecutorError> {
    let found = std::path::absolute(cwd).and_then(|path| Ok((path.metadata()?.is_dir(), path)));
    let why = match found {
        Ok((true, path)) => return Ok(path),
        Ok((false, _)) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ExecutorError {
        message: format!(
            "working directory `{}` can't be used: {why}; create it, set `cwd` to another, or leave `cwd` out for a fresh one",
            cwd.display()
        ),
    })
}

#[async_trait]
impl Executor for BubblewrapExecutor {
    async fn start(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let started = self.prepare(context).await;
        if started.is_err() {
            self.cleanup().await;
        }
        started
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        self.local.execute(command, stop).await
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        files::copy(from.to_owned(), inside(cwd, cwd, to)?).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        files::copy(inside(cwd, cwd, from)?, to.to_owned()).await
    }

    async fn cleanup(&mut self) {
        self.local.cleanup().await;
        if let Some(folder) = self.folder.take() {
            folder.remove().await;
            self.cwd = None;
        }
    }

    fn template_vars(&self) -> Object {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        let mut variables = self.local.template_vars();
        variables.extend(
            [
                ("cwd", Value::from(cwd.to_string_lossy())),
                ("executable", Value::from(self.executable.as_str())),
                ("wrapper_args", Value::from(self.wrapper_args.clone())),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        variables
    }
}

/// Tries the default sandbox; answers which version there is.
///
/// # Errors
/// When it can't be used.
pub(super) async fn probe(context: &Context) -> Result<String, ExecutorError> {
    let mut executor = BubblewrapExecutor::new(BubblewrapSettings::default());
    let result = match executor.start(context).await {
        Ok(()) => {
            let program = wrap::program(&executor.executable).unwrap_or_default();
            let args = [program.clone().into(), "--version".into()];
            let output = executor
                .local
                .run_program(&args, TRIAL, &context.stop)
                .await;
            Ok(format!(
                "{} at `{}`",
                output.output.trim(),
                program.display()
            ))
        }
        Err(error) => Err(error),
    };
    executor.cleanup().await;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_left_out() {
        let args = [
            "--a",
            "--ro-bind",
            "/usr",
            "/usr",
            "--ro-bind",
            "/none",
            "/none",
            "--b",
            "c",
        ];
        let args = args.map(str::to_owned);
        assert_eq!(
            present(&args),
            ["--a", "--ro-bind", "/usr", "/usr", "--b", "c"]
        );
    }

    #[test]
    fn the_arguments_are_those_of_mini_swe_agent() {
        let mut settings = BubblewrapSettings {
            wrapper_args: ["--ro-bind", "/no/path", "/x"].map(str::to_owned).into(),
            ..BubblewrapSettings::default()
        };
        settings.local.env = [("B", "2"), ("A", "a b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let executor = BubblewrapExecutor::new(settings);
        let args = executor.args(Path::new("/w"));
        let wanted = [
            "bwrap",
            "--ro-bind",
            "/no/path",
            "/x",
            "--bind",
            "/w",
            "/w",
            "--chdir",
            "/w",
            "--args",
            "3",
        ];
        assert_eq!(args, wanted);
        let wanted = b"--setenv\0A\0a b\0--setenv\0B\x002\0";
        assert_eq!(executor.variables(), wanted);
        // Of the default, nothing is missing on a machine that has it all.
        let args = BubblewrapExecutor::new(BubblewrapSettings::default()).args(Path::new("/w"));
        let binds = DEFAULT_WRAPPER_ARGS
            .iter()
            .filter(|arg| **arg == "--ro-bind");
        let here = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(|path| Path::new(path).exists());
        let missing = here.iter().filter(|exists| !**exists).count();
        let kept = args.iter().filter(|arg| *arg == "--ro-bind");
        assert_eq!(kept.count(), binds.count() - missing);
    }

    #[test]
    fn advice_fits_what_went_wrong() {
        let vectors = [
            (
                "bwrap: Can't find source path /x: No such file or directory",
                "make the path",
            ),
            (
                "bwrap: execvp bash: No such file or directory",
                "`interpreter`",
            ),
            ("bwrap: Unknown option --x", "version"),
            (
                "bwrap: setting up uid map: Permission denied",
                "user namespaces",
            ),
            (
                "bwrap: No permissions to create new namespace, likely",
                "user namespaces",
            ),
            (
                "bwrap: Creating new namespace failed: Operation not permitted",
                "user namespaces",
            ),
        ];
        for (said, wanted) in vectors {
            let advice = advice(said);
            let wanted = wanted.replace("user namespaces", &userns::advice());
            assert!(advice.contains(&wanted), "{said}: {advice}");
        }
    }
}
