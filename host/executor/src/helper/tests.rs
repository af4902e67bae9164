//! Tests with the real helper: as a process on this machine, and in containers.

mod cuts;
mod files;
mod latency;
mod misbehaving;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};
use std::sync::{LazyLock, Once};
use std::time::Instant;

use mswea_helper::protocol::HELLO;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::*;
use crate::tests::executables;
use mswea_core::StopSource;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// The helper as an executable file, shared by all runs of these tests.
static HELPER: LazyLock<PathBuf> = LazyLock::new(|| {
    let bytes = mswea_helper_bundle::bytes();
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let folder = std::env::temp_dir();
    let path = folder.join(format!("mswea-helper-test-{:x}", hasher.finish()));
    if !path.exists() {
        // Put in place in one step, because several tests look for it at the same time.
        let file = tempfile::NamedTempFile::new_in(&folder).unwrap();
        executables::program(file.path(), &bytes);
        file.into_temp_path().persist(&path).unwrap();
    }
    path
});

/// The helper's path in a container.
const PLACE: &str = "/.mswea-helper";

/// A container of this test, which is removed with it.
struct Container(String);

impl Container {
    /// None, with a message, if there is no docker here.
    fn new(test: &str, image: &str) -> Option<Self> {
        if !docker_is_there(test) {
            return None;
        }
        let name = format!("mswea-helper-test-{}-{test}", std::process::id());
        let image = format!("mswea-test/{image}");
        docker(&["run", "-d", "--rm", "--name", &name, &image, "sleep", "600"]);
        let container = Self(name);
        let to = format!("{}:{PLACE}", container.0);
        docker(&["cp", HELPER.to_str().unwrap(), &to]);
        Some(container)
    }

    fn exec(&self, options: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["exec", "-i"]).args(options);
        command.args([&self.0, PLACE, "session"]);
        command
    }

    /// The processes of the container other than the first one.
    fn processes(&self) -> Vec<String> {
        let listed = docker(&["top", &self.0, "-eo", "pid,args"]);
        let lines = listed.lines().skip(2);
        lines.map(|line| line.trim().to_owned()).collect()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Program::new("docker").args(["rm", "-f", &self.0]).output();
    }
}

fn docker(arguments: &[&str]) -> String {
    let output = Program::new("docker").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether containers can be tested; makes the images.
fn docker_is_there(test: &str) -> bool {
    static IMAGES: Once = Once::new();
    let version = Program::new("docker")
        .args(["version", "--format", "x"])
        .output();
    if version.is_ok_and(|output| output.status.success()) {
        IMAGES.call_once(|| {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tooling/images.sh");
            let script = std::env::var("MSWEA_TEST_IMAGES").unwrap_or(script.to_owned());
            let status = Program::new(script).status().unwrap();
            assert!(status.success(), "no images to test with");
        });
        return true;
    }
    for variable in ["MSWEA_TEST_REQUIRE", "CI"] {
        let required = std::env::var(variable).unwrap_or_default();
        assert!(
            !required.split_whitespace().any(|name| name == "docker"),
            "{test} needs a docker daemon, which `{variable}` requires: start dockerd"
        );
    }
    let _ = writeln!(std::io::stderr(), "SKIPPED (no docker daemon): {test}");
    false
}

/// The helper and a session with it.
async fn session(mut command: Command) -> (Child, Result<HelperSession, HelperError>) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let input = child.stdin.take().unwrap();
    let session = HelperSession::start(Box::new(output), Box::new(input), LONG).await;
    (child, session)
}

fn here() -> Command {
    let mut command = Command::new(&*HELPER);
    command.arg("session");
    command
}

async fn local() -> (Child, HelperSession) {
    let (child, session) = session(here()).await;
    (child, session.unwrap())
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Runs `argv` with an action's mark.
async fn run_argv(
    session: &mut HelperSession,
    argv: &[&str],
    timeout: f64,
    stop: &Stop,
) -> (String, Result<HelperEnd, HelperError>) {
    let id = format!("{}.{}", std::process::id(), fastrand::u64(..));
    let action = HelperAction {
        argv: &strings(argv),
        env: &[("MSWEA_ACTION".to_owned(), id)],
        cwd: None,
        grace: Duration::from_millis(100),
        input: Default::default(),
    };
    let mut capture = Capture::new(10_000);
    let timeout = Duration::from_secs_f64(timeout);
    let end = session.run(&action, &mut capture, timeout, stop).await;
    (capture.finish(false).text, end)
}

async fn run(
    session: &mut HelperSession,
    command: &str,
    timeout: f64,
) -> (String, Result<HelperEnd, HelperError>) {
    run_argv(session, &["sh", "-c", command], timeout, &Stop::never()).await
}

async fn ok(session: &mut HelperSession, command: &str) -> (String, HelperEnd) {
    let (text, end) = run(session, command, 20.0).await;
    (text, end.unwrap())
}

/// The endings that every helper with a shell has to handle.
async fn endings(session: &mut HelperSession) {
    let exited = HelperEnd::Exited;
    for (command, text, end) in [
        ("true", "", exited(0)),
        ("exit 7", "", exited(7)),
        ("kill -9 $$", "", exited(137)),
        ("kill -PIPE $$", "", exited(141)),
        ("echo a; echo b >&2; echo c", "a\nb\nc\n", exited(0)),
        ("cat; printf 'x\\377'", "x\u{fffd}", exited(0)),
        (
            "grep -E '^Sig(Blk|Ign)' /proc/self/status | grep -v '0000000$'; ls /proc/self/fd | wc -l",
            "4\n",
            exited(0),
        ),
        ("sleep 77 & (setsid sleep 77 &); echo up", "up\n", exited(0)),
        ("exec >&- 2>&-; sleep 0.2; exit 4", "", exited(4)),
    ] {
        let started = Instant::now();
        assert_eq!(ok(session, command).await, (text.into(), end), "{command}");
        assert!(started.elapsed() < Duration::from_secs(5), "{command}");
    }
    let (text, end) = ok(
        session,
        "head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end",
    )
    .await;
    assert_eq!(end, HelperEnd::Exited(0));
    assert!(
        text.contains("19990005 bytes of output elided"),
        "{:?}",
        text.get(4990..5100)
    );
    assert!(text.ends_with("x\nend\n"));
    for command in [
        "echo part; sleep 60",
        "echo part; trap '' TERM INT; (setsid sleep 61 &) ; sleep 60; sleep 60",
        "echo part; (env -i PATH=$PATH setsid sleep 61 &) ; sleep 60",
        "echo part; sleep 61 & kill -STOP $$",
    ] {
        let (text, end) = run(session, command, 0.5).await;
        assert_eq!(
            (text.as_str(), end.unwrap()),
            ("part\n", HelperEnd::TimedOut)
        );
    }
    let (text, end) = run(session, "yes", 1.0).await;
    assert_eq!(end.unwrap(), HelperEnd::TimedOut);
    assert!(text.contains(" bytes of output elided"));
    assert!(
        session.wire.capacity() < 500_000,
        "{}",
        session.wire.capacity()
    );
    assert_eq!(
        ok(session, "echo ok").await,
        ("ok\n".into(), HelperEnd::Exited(0))
    );
}

#[tokio::test]
async fn actions_here() {
    let (mut child, mut session) = local().await;
    endings(&mut session).await;
    drop(session);
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn actions_in_a_container() {
    let Some(container) = Container::new("actions", "bash") else {
        return;
    };
    for options in [&[][..], &["-u", "agent"]] {
        let (mut child, result) = session(container.exec(options)).await;
        let mut session = result.unwrap();
        endings(&mut session).await;
        // Processes of the actions that timed out are gone; background processes of the others
        // remain until the session ends.
        let running = container.processes();
        assert!(
            !running.iter().any(|line| line.contains("sleep 6")),
            "{running:?}"
        );
        assert!(
            running.iter().any(|line| line.contains("sleep 77")),
            "{running:?}"
        );
        drop(session);
        assert!(child.wait().await.unwrap().success());
        let running = container.processes();
        assert!(
            !running.iter().any(|line| line.contains("sleep 77")),
            "{running:?}"
        );
    }
}

#[tokio::test]
async fn a_container_needs_nothing_but_the_helper() {
    let Some(container) = Container::new("noshell", "noshell") else {
        return;
    };
    let (_child, result) = session(container.exec(&[])).await;
    let mut session = result.unwrap();
    let stop = Stop::never();
    let vectors = [
        (&["sleep", "0.1"][..], HelperEnd::Exited(0)),
        (
            &["sh", "-c", "true"],
            HelperEnd::Failed {
                errno: libc::ENOENT,
                text: "program `sh`: No such file or directory".into(),
            },
        ),
        (&["sleep", "60"], HelperEnd::TimedOut),
        (&[PLACE, "kill", "nobody"], HelperEnd::Exited(0)),
    ];
    for (argv, wanted) in vectors {
        let (_, end) = run_argv(&mut session, argv, 1.0, &stop).await;
        assert_eq!(end.unwrap(), wanted, "{argv:?}");
    }
}

/// An action that kills all processes it can reach ends the session and not the container.
#[tokio::test]
async fn an_action_that_kills_all_processes_ends_only_the_session() {
    let Some(container) = Container::new("massacre", "bash") else {
        return;
    };
    for _ in 0..3 {
        let (mut child, result) = session(container.exec(&[])).await;
        let mut session = result.unwrap();
        let (text, end) = run(
            &mut session,
            "echo last words; sleep 0.5; kill -9 -1; sleep 5",
            10.0,
        )
        .await;
        // A shell's own `kill` spares the shell itself.
        assert_eq!(text, "last words\n");
        assert!(matches!(end, Err(HelperError::Gone)), "{end:?}");
        let again = run(&mut session, "true", 1.0).await.1;
        assert!(matches!(again, Err(HelperError::Unusable)), "{again:?}");
        assert_eq!(child.wait().await.unwrap().code(), Some(137));
    }
    // SIGTERM has no effect on the helper.
    let (_child, result) = session(container.exec(&[])).await;
    let mut session = result.unwrap();
    let wanted = ("on\n".to_owned(), HelperEnd::Exited(0));
    assert_eq!(ok(&mut session, "kill -TERM -1; echo on").await, wanted);
    assert_eq!(ok(&mut session, "echo on").await, wanted);
}

#[tokio::test]
async fn the_message_about_a_helper_that_can_not_start_is_shown() {
    let Some(container) = Container::new("nohelper", "bash") else {
        return;
    };
    let mut command = Command::new("docker");
    command.args(["exec", "-i", &container.0, "/nowhere-mswea", "session"]);
    let (_child, result) = session(command).await;
    let error = result.err().unwrap().to_string();
    assert!(
        error.starts_with("the program that answered is not the helper: `OCI runtime exec failed"),
        "{error}"
    );
    assert!(error.contains("no such file or directory"), "{error}");
}

#[tokio::test]
async fn a_stop_ends_the_action() {
    let (_child, mut session) = local().await;
    let (source, stop) = StopSource::new();
    tokio::spawn(async move {
        sleep(Duration::from_millis(300)).await;
        source.stop();
        source
    });
    let argv = ["sh", "-c", "echo part; sleep 60"];
    let (text, end) = run_argv(&mut session, &argv, 20.0, &stop).await;
    assert_eq!(
        (text.as_str(), end.unwrap()),
        ("part\n", HelperEnd::Stopped)
    );
    let (text, end) = run_argv(&mut session, &argv, 20.0, &stop).await;
    assert_eq!((text.as_str(), end.unwrap()), ("", HelperEnd::Stopped));
    assert_eq!(ok(&mut session, "echo ok").await.0, "ok\n");
}

#[tokio::test]
async fn actions_get_their_directory_and_variables() {
    let (_child, mut session) = local().await;
    let cwd = std::env::temp_dir().canonicalize().unwrap();
    let argv = strings(&["sh", "-c", "echo \"$PWD $A\"; test -n \"$PATH\""]);
    let env = [("A", "1"), ("A", "b=c d")].map(|(name, value)| (name.into(), value.into()));
    let mut action = HelperAction {
        argv: &argv,
        env: &env,
        cwd: cwd.to_str(),
        grace: Duration::ZERO,
        input: Default::default(),
    };
    let mut capture = Capture::new(1000);
    let stop = Stop::never();
    let end = session
        .run(&action, &mut capture, LONG, &stop)
        .await
        .unwrap();
    let wanted = format!("{} b=c d\n", cwd.display());
    assert_eq!(
        (capture.finish(true).text, end),
        (wanted, HelperEnd::Exited(0))
    );

    action.cwd = Some("/nowhere-mswea");
    let end = session
        .run(&action, &mut Capture::new(0), LONG, &stop)
        .await;
    let text = "working directory `/nowhere-mswea`: No such file or directory".to_owned();
    assert_eq!(
        end.unwrap(),
        HelperEnd::Failed {
            errno: libc::ENOENT,
            text
        }
    );

    let long = strings(&["echo", &"x".repeat(20 << 20)]);
    let action = HelperAction {
        argv: &long,
        cwd: None,
        ..action
    };
    let end = session
        .run(&action, &mut Capture::new(0), LONG, &stop)
        .await;
    assert!(
        matches!(
            end,
            Ok(HelperEnd::Failed {
                errno: libc::E2BIG,
                ..
            })
        ),
        "{end:?}"
    );
    assert_eq!(ok(&mut session, "echo ok").await.0, "ok\n");
}

#[tokio::test]
async fn output_that_was_read_is_kept_when_the_helper_goes() {
    let (_child, mut session) = local().await;
    let (text, end) = run(
        &mut session,
        "echo before; sleep 0.3; kill -9 $PPID; sleep 1",
        20.0,
    )
    .await;
    assert_eq!(text, "before\n");
    assert!(matches!(end, Err(HelperError::Gone)), "{end:?}");
}

#[tokio::test]
async fn a_copy_that_can_not_begin_leaves_the_helper_usable() {
    let (_child, mut session) = local().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let copied = session.upload(file.path(), "x", Some("/nonexistent")).await;
    let message = copied.unwrap_err().message;
    assert!(message.contains("`/nonexistent`"), "{message}");
    assert!(!session.is_busy());
    let wanted = ("on\n".to_owned(), HelperEnd::Exited(0));
    assert_eq!(ok(&mut session, "echo on").await, wanted);
}

#[tokio::test]
async fn an_action_that_was_given_up_ends_with_the_session() {
    let (mut child, mut session) = local().await;
    let nap = format!("{}.5", 2000 + std::process::id());
    let command = format!("setsid sleep {nap} & sleep {nap}");
    let given_up = timeout(
        Duration::from_millis(500),
        run(&mut session, &command, 60.0),
    )
    .await;
    assert!(given_up.is_err());
    let count = || {
        let processes = mswea_helper::processes::all();
        let line = |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let wanted = format!("sleep\0{nap}\0");
        processes
            .iter()
            .filter(|process| line(process.pid) == wanted.as_bytes())
            .count()
    };
    assert_eq!(count(), 2);
    let again = run(&mut session, "true", 1.0).await.1;
    assert!(matches!(again, Err(HelperError::Unusable)), "{again:?}");
    drop(session);
    assert!(child.wait().await.unwrap().success());
    assert_eq!(count(), 0);
}
