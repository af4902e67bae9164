//! Runs actions in an image that singularity or apptainer has unpacked into a folder.
//!
//! The local executor starts `singularity exec` with the command as its arguments, and does the
//! timeouts, the capture and the cleanup. The arguments are mini-swe-agent's: first
//! `singularity build --sandbox FOLDER IMAGE`, then for each command `singularity --quiet exec
//! --contain --cleanenv --fakeroot --env NAME=VALUE ... --writable FOLDER bash -c COMMAND`.
//!
//! Unlike in mini-swe-agent, the variables of `env` and `forward_env` are passed as variables of
//! the program (`APPTAINERENV_NAME`, `SINGULARITYENV_NAME`), into which it translates `--env`
//! itself: other users of the machine can see arguments, but not variables. The program gets no
//! other keys of the host; the image is in a folder that only this user can enter, and is removed
//! with the run; a build that takes too long, or whose caller no longer waits, is ended; its output
//! is in the error; and two more variables hold the ids of the run and the action inside, so that
//! all their processes are found. The helper for one shell of all actions is a file in the unpacked image.
//!
//! Debian 12 has no package of either program. The tests run a shell script of that name, which records its
//! arguments and runs the command without a sandbox; `tests/tooling/apptainer.sh` tests with the apptainer of
//! Debian sid.

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::container::HELPER;
use super::environment;
use super::files::{self, PlacedPath};
use super::folders::TempFolder;
use super::local::{LocalExecutor, LocalSettings};
use super::programs;
use super::shell::is_open;
use super::wrap::Wrap;
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, InteractivePrograms, Object,
    Output, Progress, Stop,
};
use mswea_helper::files::PlaceFiles;

/// The names of the program; the second is used if the first does not exist.
const PROGRAMS: [&str; 2] = ["singularity", "apptainer"];
/// How many bytes of a failed build's output are shown.
const SHOWN: usize = 2000;
/// The time limit of the program's `--version`.
const VERSION: Duration = Duration::from_secs(20);

/// Variables that the program reads: configuration, proxies of registries, ...
const PASSED: &[&str] = &["SINGULARITY*", "APPTAINER*"];
/// The prefixes of variables that are set inside. The program that uses the first also reads the
/// second, without a warning if both have the same value.
const INSIDE: [&str; 2] = ["APPTAINERENV_", "SINGULARITYENV_"];

/// Credentials for registries, which only the build needs; no command runs then.
const CREDENTIALS: &[&str] = &[
    "SINGULARITY_DOCKER_USERNAME",
    "SINGULARITY_DOCKER_PASSWORD",
    "SINGULARITY_TOKENFILE",
    "APPTAINER_DOCKER_USERNAME",
    "APPTAINER_DOCKER_PASSWORD",
    "APPTAINER_TOKENFILE",
    "DOCKER_USERNAME",
    "DOCKER_PASSWORD",
];

/// The settings of a singularity environment.
#[derive(Clone, Debug)]
pub struct SingularitySettings {
    /// The settings that it shares with a local one; `cwd` is not used, and `env` is set inside.
    pub local: LocalSettings,
    /// The source of the image: `docker://python:3.12`, a `.sif` file, a folder.
    pub image: String,
    /// The working directory of commands, inside.
    pub cwd: String,
    /// Variables of the host, by their whole names, that commands get; `env` takes precedence.
    pub forward_env: Vec<String>,
    /// The program; none: `singularity`, or `apptainer` if only that exists.
    pub executable: Option<String>,
    /// How often the build is tried.
    pub sandbox_build_retries: u32,
    /// The time limit of one attempt.
    pub build_timeout: Duration,
    /// Arguments before `exec`.
    pub global_args: Vec<String>,
    /// Arguments after `exec`.
    pub exec_args: Vec<String>,
}

impl Default for SingularitySettings {
    fn default() -> Self {
        let list = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect();
        Self {
            local: LocalSettings {
                interpreter: list(&["bash", "-c"]),
                ..LocalSettings::default()
            },
            image: String::new(),
            cwd: "/".to_owned(),
            forward_env: Vec::new(),
            executable: None,
            sandbox_build_retries: 3,
            build_timeout: Duration::from_secs(3600),
            global_args: list(&["--quiet"]),
            exec_args: list(&["--contain", "--cleanenv", "--fakeroot"]),
        }
    }
}

/// The singularity executor.
#[derive(Debug)]
pub struct SingularityExecutor {
    settings: SingularitySettings,
    local: LocalExecutor,
    folder: Option<TempFolder>,
}

impl SingularityExecutor {
    /// An executor; nothing is started or checked yet.
    pub fn new(mut settings: SingularitySettings) -> Self {
        settings.local.cwd = None;
        let mut local = settings.local.clone();
        local
            .env_allow
            .extend(PASSED.iter().map(|&name| name.to_owned()));
        let mut local = LocalExecutor::for_wrapped(local, variables(&settings));
        local.withhold_silently();
        Self {
            settings,
            local,
            folder: None,
        }
    }

    /// The mark of this run's processes.
    pub fn run_id(&self) -> &str {
        self.local.run_id()
    }

    /// The program's name, and its path.
    fn program(&self) -> Result<(String, PathBuf), ExecutorError> {
        let names = match &self.settings.executable {
            Some(name) => vec![name.as_str()],
            None => PROGRAMS.to_vec(),
        };
        names
            .iter()
            .find_map(|name| Some(((*name).to_owned(), programs::find(name)?)))
            .ok_or_else(|| ExecutorError::from(format!(
                    "`{}` is not installed; install it (`sudo dnf install apptainer` on Fedora or with EPEL, `sudo apt-get install apptainer` with the PPA `ppa:apptainer/ppa` on Ubuntu), load it on a cluster (`module load apptainer`), or set `environment.executable` to its path",
                    names.join("` or `")
                )))
    }

    /// Unpacks the image; returns the folder, inside a temporary folder.
    async fn build(
        &mut self,
        name: &str,
        program: &Path,
        context: &Context,
    ) -> Result<TempFolder, ExecutorError> {
        let settings = &self.settings;
        let fail = |message: String| Err(ExecutorError::from(message));
        if settings.image.is_empty() {
            return fail(
                "no image is configured: set `environment.image`, for example to `docker://python:3.12`".to_owned(),
            );
        }
        let image = &settings.image;
        let mut local = settings.local.clone();
        local.run_id = format!("{}-build", self.local.run_id());
        let passed = PASSED.iter().chain(CREDENTIALS);
        local.env_allow.extend(passed.map(|&name| name.to_owned()));
        let mut builder = LocalExecutor::for_wrapped(local, IndexMap::new());
        let tries = settings.sandbox_build_retries.max(1);
        let mut number = 0;
        loop {
            number += 1;
            let what = format!("building a sandbox from `{image}` (try {number} of {tries})");
            context.front.show(&Progress::Preparing(&what));
            self.local.guard_folders();
            let folder = TempFolder::new(self.local.run_id(), "singularity")?;
            // Not the temporary folder itself: the program asks before it overwrites one.
            let args: [OsString; 5] = [
                program.into(),
                "build".into(),
                "--sandbox".into(),
                root(&folder).into(),
                image.into(),
            ];
            let limit = settings.build_timeout;
            let output = builder.run_program(&args, limit, &context.stop).await;
            builder.cleanup().await;
            if output.returncode == 0 && output.exception_info.is_empty() {
                return Ok(folder);
            }
            folder.remove().await;
            let said = tail(output.output.trim());
            let kind = output.extra.get("exception_type").and_then(Value::as_str);
            match kind {
                None if number < tries => {
                    tracing::info!(image, number, said, "a sandbox was not built");
                }
                None => {
                    return fail(format!(
                        "`{name} build` of `{image}` failed {tries} times, the last time with exit code {}; its message: {said}; check the name of the image, the network, and the space in the folders of `TMPDIR` and of the cache (`{}_CACHEDIR`)",
                        output.returncode,
                        PROGRAMS[usize::from(name.ends_with(PROGRAMS[1]))].to_uppercase(),
                    ));
                }
                Some("TimeoutExpired") => {
                    return fail(format!(
                        "`{name} build` of `{image}` took longer than {} s; set `build_timeout` to more, or build a `.sif` file once and set `image` to it; its message: {said}",
                        limit.as_secs_f64(),
                    ));
                }
                Some(_) => {
                    return fail(format!(
                        "`{name} build` of `{image}` was not finished: {}",
                        output.exception_info
                    ));
                }
            }
        }
    }

    fn args(&self, name: &str) -> Vec<OsString> {
        let settings = &self.settings;
        let mut args = vec![name.to_owned()];
        args.extend(settings.global_args.iter().cloned());
        args.push("exec".to_owned());
        args.extend(settings.exec_args.iter().cloned());
        if settings.cwd != "/" && !settings.cwd.is_empty() {
            args.extend(["--pwd".to_owned(), settings.cwd.clone()]);
        }
        args.into_iter().map(OsString::from).collect()
    }

    async fn prepare(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let (name, program) = self.program()?;
        let wrap = Wrap {
            program: program.clone(),
            before: self.args(&name),
            variable: |name, value| env(name, value).into(),
            after: Vec::new(),
            inside: Some(HELPER),
            third: None,
        };
        // Errors in the settings are reported before the long build.
        self.local.wrap(wrap.clone());
        self.local.start(context, None).await?;
        let folder = self.build(&name, &program, context).await?;
        let root = root(&folder);
        self.folder = Some(folder);
        put_mount_point(&root);
        let helper = put_helper(&root);
        self.local.wrap(Wrap {
            after: vec!["--writable".into(), root.into()],
            ..wrap
        });
        if !self.settings.local.session {
            return Ok(());
        }
        helper?;
        let opened = self.local.execute(&Command::new(""), &context.stop).await;
        is_open(&opened)
    }

    /// The path on this machine of `path` in the image.
    fn outside(&self, path: &str) -> Result<PlacedPath, ExecutorError> {
        let Some(folder) = &self.folder else {
            return Err(ExecutorError::from(
                "there is no sandbox yet: start the environment first".to_owned(),
            ));
        };
        PlacedPath::in_image(&root(folder), Path::new(&self.settings.cwd), path)
    }
}

/// The unpacked image.
fn root(folder: &TempFolder) -> PathBuf {
    folder.path().join("image")
}

/// Makes an empty file `/etc/localtime`, unless the image has one. The program mounts this
/// machine's file onto it, and without it, each output would begin with a warning.
fn put_mount_point(root: &Path) {
    let etc = PlaceFiles::below(root).and_then(|files| {
        files.make_folder(Path::new("etc"))?;
        files.folder(Path::new("etc"))
    });
    // An image with `/etc` at another place stays unchanged.
    let Ok(etc) = etc else {
        return;
    };
    let place = format!("/proc/self/fd/{}/localtime", etc.as_raw_fd());
    let is_there = match fs::read_link(&place) {
        // The link is resolved as the program does it, with the image as the root.
        Ok(target) => {
            let target = Path::new("/etc").join(target);
            let below = target.strip_prefix("/").unwrap_or(&target);
            root.join(below).exists()
        }
        Err(_) => fs::symlink_metadata(&place).is_ok(),
    };
    if !is_there {
        // The file may be a link that leads nowhere.
        let _ = fs::remove_file(&place);
        if let Err(error) = fs::File::create_new(&place) {
            tracing::debug!(%error, "the image has no `/etc/localtime`");
        }
    }
}

/// Puts the helper into the image, for the shell of all actions and for programs that stay open.
fn put_helper(root: &Path) -> Result<(), ExecutorError> {
    let place = PlacedPath::in_image(root, Path::new("/"), HELPER)?;
    let put = place.put_program(&mswea_helper_bundle::bytes());
    put.map_err(|error| {
        place.failed(
            &error,
            "is the helper, which `environment.session` needs, and can't be written into the unpacked image (free some space, or set `environment.session` to false)",
        )
    })
}

/// The program's own variables, from which it sets those inside.
fn variables(settings: &SingularitySettings) -> IndexMap<String, String> {
    let inside = environment::forwarded(&settings.forward_env, &settings.local.env);
    let named = |(name, value): (String, String)| {
        INSIDE.map(|beginning| (format!("{beginning}{name}"), value.clone()))
    };
    inside.into_iter().flat_map(named).collect()
}

/// The arguments that set a mark inside, which is no secret.
fn env(name: &str, value: &str) -> [String; 2] {
    ["--env".to_owned(), format!("{name}={value}")]
}

fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(SHOWN))..]
}

#[async_trait]
impl Executor for SingularityExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if let Err(error) = self.prepare(context).await {
            self.cleanup().await;
            return Err(error);
        }
        if known.is_some() {
            self.local.announce_shell();
        }
        Ok(EnvironmentReady {
            handle: json!({ "image": self.settings.image }),
            // The process that unpacked the image removes its folder.
            replaced: known
                .map(|_| format!("the image `{}` was unpacked again", self.settings.image)),
            is_restored: false,
        })
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        self.local.execute(command, stop).await
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        files::copy(PlacedPath::here(from.to_owned()), self.outside(to)?).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        files::copy(self.outside(from)?, PlacedPath::here(to.to_owned())).await
    }

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        self.local.programs()
    }

    async fn cleanup(&mut self) {
        self.local.cleanup().await;
        if let Some(folder) = self.folder.take() {
            folder.remove().await;
        }
    }

    fn template_vars(&self) -> Object {
        let settings = &self.settings;
        let mut variables = self.local.template_vars();
        let executable = settings.executable.as_deref().unwrap_or(PROGRAMS[0]);
        variables.extend(
            [
                ("cwd", Value::from(settings.cwd.as_str())),
                ("image", Value::from(settings.image.as_str())),
                ("forward_env", Value::from(settings.forward_env.clone())),
                ("executable", Value::from(executable)),
                (
                    "sandbox_build_retries",
                    settings.sandbox_build_retries.into(),
                ),
                ("global_args", Value::from(settings.global_args.clone())),
                ("exec_args", Value::from(settings.exec_args.clone())),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        variables
    }
}

/// The program and its version. Building and running are not tried, because that needs an image.
///
/// # Errors
/// [`ExecutorError`] if the program is not installed, or can't tell its version.
pub(super) async fn probe(context: &Context) -> Result<String, ExecutorError> {
    let mut executor = SingularityExecutor::new(SingularitySettings::default());
    let (name, program) = executor.program()?;
    let args = [program.clone().into(), "--version".into()];
    let output = executor
        .local
        .run_program(&args, VERSION, &context.stop)
        .await;
    executor.cleanup().await;
    let said = output.output.trim();
    if output.returncode != 0 {
        return Err(ExecutorError::from(format!(
            "`{name} --version` failed; its message: {said}{}; reinstall it",
            output.exception_info
        )));
    }
    Ok(format!(
        "{said} at `{}` (only its version was asked)",
        program.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The real program warns if there is none.
    #[test]
    fn every_image_has_a_file_for_the_local_time() {
        use std::os::unix::fs::symlink;
        for (link, is_kept) in [
            (None, false),
            (Some("../usr/zone"), true),
            (Some("/usr/zone"), true),
            (Some("/usr/none"), false),
            (Some("../../outside"), false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let at = |path: &str| folder.path().join(path);
            fs::create_dir_all(at("image/usr")).unwrap();
            fs::write(at("image/usr/zone"), "zone").unwrap();
            if let Some(link) = link {
                fs::create_dir(at("image/etc")).unwrap();
                symlink(link, at("image/etc/localtime")).unwrap();
            }
            put_mount_point(&at("image"));
            let found = fs::symlink_metadata(at("image/etc/localtime")).unwrap();
            assert_eq!(found.is_symlink(), is_kept, "{link:?}");
            assert!(!at("outside").exists());
        }
        // The folder is elsewhere.
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("image")).unwrap();
        fs::create_dir_all(at("outside")).unwrap();
        fs::write(at("outside/localtime"), "mine").unwrap();
        symlink(at("outside"), at("image/etc")).unwrap();
        put_mount_point(&at("image"));
        assert_eq!(fs::read(at("outside/localtime")).unwrap(), b"mine");
    }

    #[test]
    fn the_tail_of_any_text() {
        assert_eq!(tail("short"), "short");
        let long = format!("x{}", "ä".repeat(SHOWN));
        assert_eq!(tail(&long).len(), SHOWN);
        assert!(tail(&long[..long.len() - 2]).len() <= SHOWN);
    }
}
