//! Tests of the container executor with a real engine, over both transports and all ways of running
//! an action.

mod again;
mod endings;
mod files;
mod left;
mod outputs;
mod pulling;
mod shells;
mod starts;

use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::container::running::Way;
use crate::container::{ContainerExecutor, ContainerSettings, Transport};
use mswea_core::Event;
use mswea_core::{Command, Context, Executor, Front, Journal, Output, Progress, Stop};

const BASH: &str = "mswea-test/bash";
const NOBASH: &str = "mswea-test/nobash";
const NOSHELL: &str = "mswea-test/noshell";
const ALIEN: &str = "mswea-test/alien";
/// An image of these tests with bash and `sleep`, but without `sh`.
const NOSH: &str = "mswea-test-container/nosh";

fn root() -> PathBuf {
    let this = Path::new(file!());
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this = package.join("../..").join(this);
    this.ancestors().nth(6).unwrap().to_owned()
}

/// Whether there is a docker daemon with the images of these tests. If not, the test prints that it
/// is skipped, or fails if the daemon is required.
fn docker(test: &str) -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let ready = READY.get_or_init(|| images("docker").and_then(|()| import_nosh()));
    has("docker", "no docker daemon", ready, test)
}

/// The same for podman.
fn podman(test: &str) -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    has(
        "podman",
        "no podman",
        READY.get_or_init(|| images("podman")),
        test,
    )
}

fn images(engine: &str) -> Result<(), String> {
    let script = root().join("tests/tooling/images.sh");
    let made = Program::new(script).arg(engine).output();
    let made = made.map_err(|error| error.to_string())?;
    match made.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
    }
}

fn has(name: &str, missing: &str, ready: &Result<(), String>, test: &str) -> bool {
    let Err(why) = ready else {
        return true;
    };
    let required = std::env::var("MSWEA_TEST_REQUIRE").unwrap_or_default();
    let required = required.split_whitespace().any(|required| required == name);
    // In CI docker is required; podman only if the variable names it.
    let ci = name == "docker" && std::env::var_os("CI").is_some();
    assert!(!required && !ci, "{test} needs {name}: {why}");
    // Written past the test harness, which would capture it.
    use std::io::Write;
    let stderr = std::fs::OpenOptions::new().append(true).open("/dev/stderr");
    writeln!(stderr.unwrap(), "SKIPPED ({missing}): {test}").unwrap();
    false
}

fn import_nosh() -> Result<(), String> {
    if !client(&["images", "-q", NOSH]).is_empty() {
        return Ok(());
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let script = format!(
        "set -e; cd '{}'; mkdir bin tmp; cp \"$(command -v bash-static)\" bin/bash; cp \"$(command -v busybox)\" bin/sleep; \
         tar -c . | docker import -c 'ENV PATH=/bin' - {NOSH}",
        folder.path().display()
    );
    let made = Program::new("sh").args(["-c", &script]).output();
    match made {
        Ok(made) if made.status.success() => Ok(()),
        Ok(made) => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs the client and returns what it prints.
fn client(args: &[&str]) -> String {
    let output = Program::new("docker").args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Whether the container exists, running or not.
fn is_there(name: &str) -> bool {
    let filter = format!("name=^{name}$");
    !client(&["ps", "-aq", "--filter", &filter]).is_empty()
}

/// Records what was shown.
#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl Shown {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Front for Shown {
    fn show(&self, progress: &Progress<'_>) {
        let (Progress::Preparing(text) | Progress::Warning(text)) = progress else {
            return;
        };
        self.0.lock().unwrap().push((*text).to_owned());
    }
}

impl Journal for Shown {
    fn record(&self, _: &Event) -> std::io::Result<f64> {
        Ok(0.0)
    }
}

fn context_with(stop: Stop) -> (Context, Arc<Shown>) {
    let shown = Arc::new(Shown::default());
    let context = Context::new(shown.clone(), shown.clone(), stop);
    (context, shown)
}

fn settings() -> ContainerSettings {
    ContainerSettings {
        image: BASH.to_owned(),
        timeout: Duration::from_secs(60),
        ..ContainerSettings::default()
    }
}

async fn started(settings: ContainerSettings) -> ContainerExecutor {
    let mut executor = ContainerExecutor::new(settings);
    let (context, _) = context_with(Stop::never());
    executor.start(&context, None).await.unwrap();
    executor
}

/// The error of a start that must fail; also checks that nothing is left.
async fn refused(settings: ContainerSettings) -> String {
    let mut executor = ContainerExecutor::new(settings);
    let (context, _) = context_with(Stop::never());
    let error = executor
        .start(&context, None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        !is_there(&format!("mswea-{}", executor.run_id())),
        "{error}"
    );
    executor.cleanup().await;
    error
}

/// Both transports, each with all ways of running an action.
fn ways() -> Vec<(String, ContainerSettings)> {
    let mut ways = Vec::new();
    for transport in [Transport::Api, Transport::Cli] {
        for way in ["session", "plain"] {
            let mut settings = ContainerSettings {
                transport,
                ..settings()
            };
            if way == "plain" {
                // The helper can't be put into this container.
                let args = [
                    "--rm",
                    "--read-only",
                    "--tmpfs",
                    "/testbed",
                    "--tmpfs",
                    "/tmp",
                ];
                settings.run_args = args.map(str::to_owned).to_vec();
            }
            ways.push((format!("{transport:?} {way}"), settings));
        }
    }
    ways
}

/// Which way an executor took.
fn way(executor: &ContainerExecutor) -> &'static str {
    let way = executor.container.as_ref().map(|container| container.way);
    match (way, &executor.session) {
        (Some(Way::Helper), Some(_)) => "session",
        (Some(Way::Plain { .. }), None) => "plain",
        _ => "none",
    }
}

async fn run(executor: &mut ContainerExecutor, command: &str) -> Output {
    executor
        .execute(&Command::new(command), &Stop::never())
        .await
}

async fn run_within(executor: &mut ContainerExecutor, command: &str, seconds: f64) -> Output {
    let command = Command {
        timeout: Some(Duration::from_secs_f64(seconds)),
        ..Command::new(command)
    };
    executor.execute(&command, &Stop::never()).await
}

fn extra<'a>(output: &'a Output, key: &str) -> &'a str {
    let value = output.extra.get(key).and_then(|value| value.as_str());
    value.unwrap_or_default()
}

/// The processes in the container according to the engine: the arguments of each.
fn processes(executor: &ContainerExecutor) -> String {
    client(&["top", executor.container_name().unwrap(), "-eo", "pid,args"])
}
