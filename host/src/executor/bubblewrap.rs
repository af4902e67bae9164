//! Runs actions on this machine, each inside of bubblewrap (`bwrap`).
//!
//! To the local executor `bwrap` is one more process of the command: so timeouts, capture and
//! cleanup are its. The arguments are mini-swe-agent's: `bwrap <wrapper_args> --bind CWD CWD
//! --chdir CWD --setenv NAME VALUE ... bash -c COMMAND`.
//!
//! Other than there, `bwrap` itself is given the same few variables of the host as commands of
//! the local executor, and no keys; and two more variables are set inside, which name the run
//! and the action, so that every process of theirs is found. Configured variables stand among
//! the arguments of `bwrap`, where other users of the machine can see them.
//!
//! `--new-session` hides the session of what it starts: a process that goes on in the background
//! with an emptied environment is then found only where the host adopts orphans
//! ([`super::orphans`]), as the program does; or with `--unshare-pid`, always.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::folders::{TempFolder, inside};
use super::local::wrap::{self, Wrap};
use super::local::{LocalExecutor, LocalSettings};
use super::{files, userns};
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
    "--setenv",
    "PATH",
    "/usr/local/bin:/usr/sbin:/usr/bin:/bin",
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
            local: LocalExecutor::for_wrapped(local),
            folder: None,
        }
    }

    /// What marks the processes of this run.
    pub fn run_id(&self) -> &str {
        self.local.run_id()
    }

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
        let env = self
            .env
            .iter()
            .flat_map(|(name, value)| setenv(name, value));
        [self.executable.clone()]
            .into_iter()
            .chain(wrapper_args)
            .map(OsString::from)
            .chain(place)
            .chain(env.map(OsString::from))
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
        self.local.wrap(Wrap {
            program,
            before: self.args(&cwd),
            variable: |name, value| setenv(name, value).into(),
            after: Vec::new(),
        });
        if cwd == Path::new("/") {
            tracing::warn!("`cwd` is `/`: commands in the sandbox can write everywhere");
        }
        self.cwd = Some(cwd);
        self.local.start(context).await?;
        self.try_it(&context.stop).await
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
        let args = BubblewrapExecutor::new(settings).args(Path::new("/w"));
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
            "--setenv",
            "A",
            "a b",
            "--setenv",
            "B",
            "2",
        ];
        assert_eq!(args, wanted);
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
