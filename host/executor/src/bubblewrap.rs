//! Runs actions on this machine, each in a sandbox of bubblewrap (`bwrap`).
//!
//! The local executor starts `bwrap` with the command as its arguments, and does the timeouts, the
//! capture and the cleanup. The arguments are mini-swe-agent's: `bwrap <wrapper_args> --bind CWD
//! CWD --chdir CWD --setenv NAME VALUE ... bash -c COMMAND`.
//!
//! Unlike in mini-swe-agent, `bwrap` itself gets the same few variables of the host as commands of
//! the local executor, without keys; and two more variables are set inside, with the ids of the run
//! and the action, so that all their processes are found. Configured variables are passed by a
//! descriptor (`--args 3`), because other users of the machine can see arguments.
//!
//! The default has namespaces for processes and for System V's objects, so that no command sees the
//! host or its guardian. If the kernel's Landlock supports it, it also confines signals and
//! abstract sockets ([`landlock::scope`]): otherwise a command with the machine's network could use
//! its abstract sockets. With other `wrapper_args`, a filter of system calls refuses changes of processes
//! outside, and sockets that no network namespace contains. Sockets of known services below the working directory are hidden
//! ([`arguments::covers`]). This crate's `SANDBOX.md` documents what the sandbox prevents and what
//! it does not.
//!
//! `--die-with-parent` is not used: the parent is the `bwrap` of one action and not the host, so it
//! would end background processes after each action. When the host dies, its guardian ends them.
//!
//! `--new-session` moves the command to a session that the host does not know: without
//! `--unshare-pid`, a background process with an emptied environment is found only if the host
//! adopts orphans ([`super::orphans`]), as the program does.
//!
//! With an image ([`image`]) the sandbox has a copy of its folder as its root, in place of the machine's.

mod arguments;
mod image;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::Value;

use super::folders::TempFolder;
use super::local::launch::PROGRAM;
use super::local::{LocalExecutor, LocalSettings};
use super::programs;
use super::wrap::Wrap;
use super::{files, handle, landlock, userns};
pub use arguments::DEFAULT_WRAPPER_ARGS;
use arguments::{covers, present, setenv};
pub use image::{IMAGE_WRAPPER_ARGS, SandboxImage};
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, InteractivePrograms, Object,
    Output, Stop,
};

/// The time limit of the first, empty command.
const TRIAL: Duration = Duration::from_secs(20);

/// The settings of a bubblewrap environment.
#[derive(Clone, Debug)]
pub struct BubblewrapSettings {
    /// The settings that it shares with a local one. `cwd` is the folder that commands can write
    /// to; without one a new folder is made, which is removed with the environment. `env` is set
    /// inside.
    pub local: LocalSettings,
    /// The program, by path or by its name in `PATH`.
    pub executable: String,
    /// Its arguments, before those that the environment adds; none: [`DEFAULT_WRAPPER_ARGS`], or
    /// [`IMAGE_WRAPPER_ARGS`] in an image.
    pub wrapper_args: Option<Vec<String>>,
    /// The image whose files the commands see in place of the machine's. `cwd` is then a folder inside it.
    pub image: Option<SandboxImage>,
}

impl Default for BubblewrapSettings {
    fn default() -> Self {
        Self {
            local: LocalSettings {
                interpreter: vec!["bash".to_owned(), "-c".to_owned()],
                ..LocalSettings::default()
            },
            executable: "bwrap".to_owned(),
            wrapper_args: None,
            image: None,
        }
    }
}

/// The bubblewrap executor.
#[derive(Debug)]
pub struct BubblewrapExecutor {
    executable: String,
    wrapper_args: Vec<String>,
    env: IndexMap<String, String>,
    image: Option<SandboxImage>,
    /// The working directory; before the start, the configured one.
    cwd: Option<PathBuf>,
    local: LocalExecutor,
    /// The new folder, if one was made: the working directory, or that of the image's copy.
    folder: Option<TempFolder>,
}

impl BubblewrapExecutor {
    /// An executor; nothing is started or checked yet.
    pub fn new(settings: BubblewrapSettings) -> Self {
        let BubblewrapSettings {
            mut local,
            executable,
            wrapper_args,
            image,
        } = settings;
        let default = match image {
            Some(_) => IMAGE_WRAPPER_ARGS,
            None => DEFAULT_WRAPPER_ARGS,
        };
        let default = || default.iter().map(|&arg| arg.to_owned()).collect();
        // Relative paths in `wrapper_args` are relative to the host's folder.
        let cwd = local.cwd.take().filter(|cwd| !cwd.as_os_str().is_empty());
        Self {
            executable,
            wrapper_args: wrapper_args.unwrap_or_else(default),
            env: local.env.clone(),
            image,
            cwd,
            local: LocalExecutor::for_wrapped(local, IndexMap::new()),
            folder: None,
        }
    }

    /// The mark of this run's processes.
    pub fn run_id(&self) -> &str {
        self.local.run_id()
    }

    /// The arguments before the command's own variables, which are those of [`Self::variables`].
    fn args(&self, cwd: &Path) -> Vec<OsString> {
        let is_default = self.wrapper_args == DEFAULT_WRAPPER_ARGS;
        let wrapper_args = if is_default {
            present(&self.wrapper_args)
        } else {
            self.wrapper_args.clone()
        };
        let (root, place, covers) = match self.image_root() {
            // The image's files are all there is.
            Some(root) => {
                let mut first = vec!["--bind".into(), root.into(), "/".into()];
                if self.wrapper_args == IMAGE_WRAPPER_ARGS {
                    first.extend(image::unsetenv(self.local.variable_names()));
                }
                (first, Vec::new(), Vec::new())
            }
            None => {
                let place = vec!["--bind".into(), cwd.into(), cwd.into()];
                (Vec::new(), place, covers(cwd, &self.wrapper_args))
            }
        };
        let last = ["--chdir".into(), cwd.into()];
        let variables = ["--args", "3"].map(OsString::from);
        [OsString::from(&self.executable)]
            .into_iter()
            .chain(root)
            .chain(wrapper_args.into_iter().map(OsString::from))
            .chain(place)
            .chain(last)
            .chain(covers)
            .chain(variables)
            .collect()
    }

    /// The copy of the image, once it is there.
    fn image_root(&self) -> Option<PathBuf> {
        let folder = self.image.as_ref().and(self.folder.as_ref());
        folder.map(image::root)
    }

    /// The arguments that set the configured variables, in the form that `--args` reads.
    fn variables(&self) -> Vec<u8> {
        let args = self
            .env
            .iter()
            .flat_map(|(name, value)| setenv(name, value));
        args.flat_map(|arg| [arg.into_bytes(), vec![0]].concat())
            .collect()
    }

    async fn prepare(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let program = programs::find(&self.executable).ok_or_else(|| ExecutorError::from(format!(
                "`{}` (bubblewrap) is not installed; install it (`sudo apt-get install bubblewrap` or `sudo dnf install bubblewrap`), or set `environment.executable` to its path",
                self.executable
            )))?;
        let cwd = match (&self.image, &self.cwd) {
            (Some(image), cwd) => {
                let cwd = Path::new("/").join(cwd.as_deref().unwrap_or(Path::new("")));
                self.local.guard_folders();
                let copy = image.copy(self.local.settings(), context).await?;
                let root = image::root(&copy);
                self.folder = Some(copy);
                image::make_folders(&root, &cwd)?;
                cwd
            }
            (None, Some(cwd)) => folder(cwd)?,
            (None, None) => {
                self.local.guard_folders();
                let folder = TempFolder::new(self.local.run_id(), "bubblewrap")?;
                self.folder.insert(folder).path().to_owned()
            }
        };
        let args = self.args(&cwd);
        let guard = self.local.settings().guard_program.as_deref();
        let scope = landlock::scope(guard, &program, &self.wrapper_args);
        let bare = self.wrap(program, args.clone());
        if cwd == Path::new("/") && self.image.is_none() {
            tracing::warn!("`cwd` is `/`: commands in the sandbox can write everywhere");
        }
        self.cwd = Some(cwd);
        let Some((host, front)) = scope else {
            self.local.wrap(bare);
            self.local.start(context, None).await?;
            return self.try_it(&context.stop).await;
        };
        let scoped = self.wrap(host, front.into_iter().chain(args).collect());
        self.local.wrap(scoped);
        self.local.start(context, None).await?;
        let Err(error) = self.try_it(&context.stop).await else {
            return Ok(());
        };
        // Landlock requires `no_new_privs`, under which a security module may refuse `bwrap`
        // something that it needs.
        self.local.wrap(bare);
        self.try_it(&context.stop).await?;
        tracing::warn!(
            %error,
            "commands can signal your processes and connect to abstract sockets: Landlock can't be combined with `bwrap` on this machine"
        );
        Ok(())
    }

    /// The path on this machine of `path` in the sandbox.
    fn outside(&self, path: &str) -> Result<files::PlacedPath, ExecutorError> {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        match self.image_root() {
            Some(root) => files::PlacedPath::in_image(&root, cwd, path),
            None => files::PlacedPath::inside(cwd, cwd, path),
        }
    }

    /// The wrapper that runs commands in the sandbox: `program` with `before` as its first
    /// arguments.
    fn wrap(&self, program: PathBuf, before: Vec<OsString>) -> Wrap {
        Wrap {
            program,
            before,
            variable: |name, value| setenv(name, value).into(),
            after: Vec::new(),
            // It passes descriptors on.
            inside: Some(PROGRAM),
            third: Some(self.variables()),
        }
    }

    /// Runs `true` in the sandbox.
    ///
    /// # Errors
    /// [`ExecutorError`] if `bwrap` can't be started, can't make the sandbox, or can't start the
    /// interpreter.
    async fn try_it(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        let command = Command {
            timeout: Some(TRIAL),
            ..Command::new("true")
        };
        let alone = Command {
            apart: true,
            ..command
        };
        let mut output = self.local.execute(&alone, stop).await;
        if output.returncode == 0 && self.local.settings().session {
            output = self.local.execute(&command, stop).await;
        }
        let said = output.output.trim();
        if output.returncode == 0 {
            return Ok(());
        }
        if !output.exception_info.is_empty() {
            return Err(ExecutorError::from(format!(
                "`{}` can't be used: {}",
                self.executable, output.exception_info
            )));
        }
        // An interpreter that is not a shell may not know `true`; its own error shows that it runs.
        let interpreter = self.local.settings().interpreter.first();
        let is_shell = interpreter.is_some_and(|name| name.ends_with("sh"));
        if !is_shell && !said.contains("bwrap: ") {
            return Ok(());
        }
        Err(ExecutorError::from(format!(
            "`{}` can't make the sandbox; its message: {said}; {}",
            self.executable,
            advice(said)
        )))
    }
}

/// The remedy for a message of bubblewrap.
fn advice(said: &str) -> String {
    let is = |part: &str| said.contains(part);
    if is("chdir") {
        "set `environment.cwd` to a folder in which commands can begin".to_owned()
    } else if is("source path") {
        "make the path, or remove it from `wrapper_args`".to_owned()
    } else if is("execvp") {
        "the interpreter and its libraries have to be in the sandbox: bind their folders in `wrapper_args`, or set `interpreter` to another one".to_owned()
    } else if is("Unknown option") {
        "correct `wrapper_args`, or install a version of bubblewrap that has the option".to_owned()
    } else if is("namespace") || is("uid map") || is("not permitted") || is("Permission denied") {
        userns::advice()
    } else {
        "mend `wrapper_args`".to_owned()
    }
}

fn folder(cwd: &Path) -> Result<PathBuf, ExecutorError> {
    let found = std::path::absolute(cwd).and_then(|path| Ok((path.metadata()?.is_dir(), path)));
    let why = match found {
        Ok((true, path)) => return Ok(path),
        Ok((false, _)) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ExecutorError::from(format!(
        "working directory `{}` can't be used: {why}; create it, set `cwd` to another, or leave `cwd` out for a fresh one",
        cwd.display()
    )))
}

#[async_trait]
impl Executor for BubblewrapExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if let Err(error) = self.prepare(context).await {
            self.cleanup().await;
            return Err(error);
        }
        // A temporary folder is removed by the process that made it, so the handle does not name
        // it.
        let cwd = self.cwd.as_deref().filter(|_| self.folder.is_none());
        if known.is_some() {
            self.local.announce_shell();
        }
        let mut ready = handle::ready(known, cwd);
        if let (Some(_), Some(image)) = (known, &self.image) {
            let shown = image.folder.display();
            ready.replaced = Some(format!("the image `{shown}` was copied again"));
        }
        Ok(ready)
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        self.local.execute(command, stop).await
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        files::copy(files::PlacedPath::here(from.to_owned()), self.outside(to)?).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        files::copy(self.outside(from)?, files::PlacedPath::here(to.to_owned())).await
    }

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        self.local.programs()
    }

    async fn cleanup(&mut self) {
        self.local.cleanup().await;
        if let Some(folder) = self.folder.take() {
            folder.remove().await;
            if self.image.is_none() {
                self.cwd = None;
            }
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

/// Tries the default sandbox, and returns bubblewrap's version.
///
/// # Errors
/// [`ExecutorError`] if `bwrap` is not installed or can't make the sandbox.
pub(super) async fn probe(context: &Context) -> Result<String, ExecutorError> {
    let mut executor = BubblewrapExecutor::new(BubblewrapSettings::default());
    let result = match executor.start(context, None).await {
        Ok(_) => {
            let program = programs::find(&executor.executable).unwrap_or_default();
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
    fn the_arguments_are_those_of_mini_swe_agent() {
        let mut settings = BubblewrapSettings {
            wrapper_args: Some(["--ro-bind", "/no/path", "/x"].map(str::to_owned).into()),
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
        let wanted = b"--setenv\0B\x002\0--setenv\0A\0a b\0";
        assert_eq!(executor.variables(), wanted);
        // On a machine that has all the folders, no default argument is left out.
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
                "bwrap: Can't chdir to /x: No such file or directory",
                "`environment.cwd`",
            ),
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
