//! Places that a program reaches, with a real `ssh` among the programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command as Program, Stdio};

use super::contract::{self, run, text};
use super::*;
use crate::StreamSettings;
use crate::command::{PassedVariables, command_executor};

/// A server of ssh for this user alone, on this machine.
struct SshServer {
    folder: tempfile::TempDir,
    server: Child,
    port: u16,
}

impl SshServer {
    fn start(name: &str) -> Option<Self> {
        let found = Program::new("ssh").arg("-V").output().map(drop);
        let path = "/usr/sbin/sshd";
        let found = found.and_then(|()| fs::metadata(path).map(drop));
        if !needs::has("sshd", name, found.map_err(|error| error.to_string())) {
            return None;
        }
        // The client's arguments are separated by spaces.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let made = Program::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)])
                .status();
            assert!(made.unwrap().success());
        }
        fs::copy(at("user.pub"), at("authorized")).unwrap();
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        // `sshd` needs this folder if it runs as root.
        let _ = fs::create_dir_all("/run/sshd");
        let server = Program::new(path)
            .args(["-D", "-q", "-f", "/dev/null", "-h", &at("host")])
            .args(["-o", &format!("ListenAddress=127.0.0.1:{port}")])
            .args(["-o", &format!("AuthorizedKeysFile={}", at("authorized"))])
            .args(["-o", "StrictModes=no", "-o", "UsePAM=no"])
            .args(["-o", &format!("PidFile={}", at("pid"))])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let this = Self {
            folder,
            server,
            port,
        };
        wait_for("sshd", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(this)
    }

    fn connect(&self) -> Vec<String> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        words(&format!(
            "ssh -T -F none -p {} -i {} -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile={} {user}@127.0.0.1",
            self.port,
            at("user"),
            at("known")
        ))
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn passed() -> PassedVariables {
    PassedVariables {
        allow: Vec::new(),
        secret_names: Vec::new(),
        is_credential: |_| false,
    }
}

fn at_place(folder: &tempfile::TempDir) -> StreamSettings {
    let local = contract::local();
    StreamSettings {
        cwd: folder.path().display().to_string(),
        env: local.env,
        timeout: local.timeout,
        interpreter: local.interpreter,
        ..StreamSettings::default()
    }
}

async fn started(connect: Vec<String>, settings: StreamSettings) -> impl Executor {
    let mut executor = command_executor(connect, Duration::from_secs(30), passed(), settings);
    executor.start(&context(), None).await.unwrap();
    executor
}

/// The whole contract, and what a shell for all actions adds to it.
async fn everything(connect: Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut executor = started(connect.clone(), at_place(&folder)).await;
    contract::all(&mut executor).await;
    interactive::shells(&mut executor).await;
    contract::cleanup_leaves_nothing(&mut executor).await;
    let settings = StreamSettings {
        session: true,
        ..at_place(&folder)
    };
    let mut executor = started(connect, settings).await;
    session::stays(&mut executor).await;
    session_ends::exits(&mut executor).await;
    session_ends::lives_on(&mut executor).await;
    contract::cleanup_leaves_nothing(&mut executor).await;
}

#[tokio::test]
async fn a_program_reaches_this_machine() {
    everything(words("env")).await;
    let folder = tempfile::tempdir().unwrap();
    let mut executor = started(words("env"), at_place(&folder)).await;
    interactive::loses_a_helper(&mut executor, false).await;
    executor.cleanup().await;
}

#[tokio::test]
async fn ssh_reaches_another_machine() {
    if let Some(server) = SshServer::start("ssh_reaches_another_machine") {
        everything(server.connect()).await;
    }
}

#[tokio::test]
async fn a_shell_behind_ssh_has_a_terminal() {
    let Some(server) = SshServer::start("a_shell_behind_ssh_has_a_terminal") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let settings = StreamSettings {
        session: true,
        pty: true,
        ..at_place(&folder)
    };
    let mut executor = started(server.connect(), settings).await;
    terminal::commands(&mut executor).await;
    executor.cleanup().await;
}

/// Namespaces that the program makes are those of the commands.
#[tokio::test]
async fn unshare_reaches_namespaces() {
    let connect = words("unshare --user --map-root-user --pid --fork --mount-proc");
    let folder = tempfile::tempdir().unwrap();
    let mut executor = started(connect, at_place(&folder)).await;
    assert_eq!(
        text(&mut executor, "id -u; ls /proc | grep -c '^1$'").await,
        "0\n1\n"
    );
    let nap = contract::nap();
    text(&mut executor, &format!("setsid -f env -i sleep {nap}")).await;
    wait_for("sleeper", || contract::sleeping(&nap) == 1);
    drop(executor);
    wait_for("end", || contract::sleeping(&nap) == 0);
}

/// Programs that reach nothing, each with what is said of it.
#[tokio::test]
async fn what_can_not_be_reached_is_told() {
    let closed = "bwrap --ro-bind / / --proc /proc --setenv TMPDIR /var/tmp";
    for (connect, told) in [
        (
            "no-such-program-here x",
            "`no-such-program-here` of `environment.connect` is not installed",
        ),
        ("false", "ended with exit code 1"),
        (
            "sh -c echo${IFS}no${IFS}route${IFS}>&2;exit${IFS}255",
            "ended with exit code 255: no route",
        ),
        (
            "sh -c echo${IFS}greetings",
            "ended with exit code 0: greetings",
        ),
        ("sh -c kill${IFS}-9${IFS}$$", "was ended by signal 9"),
        (
            "sh -c exec${IFS}>&-;sleep${IFS}100",
            "has closed its output",
        ),
        ("yes", "more than 262144 bytes came before the answer"),
        (
            "sh -c sleep${IFS}100",
            "no shell has answered within 1 s (`environment.connect_timeout`)",
        ),
        ("sh -c cat", "no shell has answered within 1 s"),
        (
            closed,
            "there is no folder in which a file can be made and run: set XDG_RUNTIME_DIR or TMPDIR",
        ),
    ] {
        let limit = Duration::from_secs(if connect == closed { 30 } else { 1 });
        let folder = tempfile::tempdir().unwrap();
        let mut executor = command_executor(words(connect), limit, passed(), at_place(&folder));
        let began = Instant::now();
        let error = executor.start(&context(), None).await.unwrap_err();
        assert!(error.message.contains(told), "{connect}: {error}");
        assert!(began.elapsed() < Duration::from_secs(15), "{connect}");
    }
}

/// A program that prints before the shell answers, and a file that must be removed.
#[tokio::test]
async fn a_greeting_is_skipped_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tempfile::tempdir().unwrap();
    fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let set = format!("XDG_RUNTIME_DIR={}", runtime.path().display());
    let greeting = "seq 1 20000; echo mswea ready; exec \"$@\"";
    let connect = ["env", &set, "sh", "-c", greeting, "x"].map(str::to_owned);
    let mut executor = started(connect.to_vec(), at_place(&folder)).await;
    assert_eq!(text(&mut executor, "echo hi").await, "hi\n");
    assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0);
    executor.cleanup().await;
}

/// Passes on its input in pieces, as relays and serial lines do.
const RELAY: &str = r"
import os, subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
sent = 0
while True:
    piece = os.read(0, 50 if sent < 3000 else 65536)
    if not piece:
        break
    sent += len(piece)
    child.stdin.write(piece)
    child.stdin.flush()
    if sent < 3000:
        time.sleep(0.005)
child.stdin.close()
sys.exit(child.wait())
";

#[tokio::test]
async fn the_script_may_arrive_in_pieces() {
    let found = Program::new("python3").arg("-V").output();
    let found = found.map(drop).map_err(|error| error.to_string());
    if !needs::has("python3", "the_script_may_arrive_in_pieces", found) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let connect = ["python3", "-c", RELAY].map(str::to_owned).to_vec();
    let mut executor = started(connect, at_place(&folder)).await;
    assert_eq!(text(&mut executor, "echo hi").await, "hi\n");
    executor.cleanup().await;
}

/// A connection that ends is made again; a command that ran in it is ended, and that is told.
#[tokio::test]
async fn a_lost_connection_is_made_again() {
    // Its name must have no space.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let file = folder.path().join("client");
    // The commands' processes are not below the program, as behind `ssh`.
    let connect = format!(
        "sh -c echo${{IFS}}$$>{};cat|setsid${{IFS}}sh;exit${{IFS}}5",
        file.display()
    );
    let nap = contract::nap();
    let mut executor = started(words(&connect), at_place(&folder)).await;
    let client = || fs::read_to_string(&file).unwrap().trim().to_owned();
    let kill = |signal: &str, pid: &str| {
        let killed = Program::new("kill")
            .args([signal, "--", &format!("-{pid}")])
            .status();
        assert!(killed.unwrap().success());
    };
    // Between two actions: the next one does not notice.
    text(&mut executor, &format!("setsid -f sleep {nap}")).await;
    let first = client();
    kill("-9", &first);
    wait_for("end", || contract::sleeping(&nap) == 0);
    // The helper ends behind them.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(text(&mut executor, "echo on").await, "on\n");
    assert_ne!(client(), first);
    // In the middle of one.
    let command = format!("echo begun; echo x >>count; sleep {nap}");
    let command = Command::new(&command);
    let stop = Stop::never();
    let (output, ()) = tokio::join!(executor.execute(&command, &stop), async {
        while contract::sleeping(&nap) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        kill("-15", &client());
    });
    assert_eq!(output.output, "begun\n");
    assert_eq!(extra(&output, "exception_type"), "ConnectionLost");
    wait_for("end", || contract::sleeping(&nap) == 0);
    assert_eq!(text(&mut executor, "cat count").await, "x\n");
    // By the command itself: its helper.
    let output = run(
        &mut executor,
        "echo said; sleep 0.1; kill -9 $PPID; sleep 100",
    )
    .await;
    assert_eq!(output.output, "said\n", "{output:?}");
    assert_eq!(text(&mut executor, "echo on").await, "on\n");
    executor.cleanup().await;
}

/// A program that stays open has a connection of its own: what ends one ends the other not.
#[tokio::test]
async fn a_lost_connection_ends_what_is_behind_it_alone() {
    let name = "a_lost_connection_ends_what_is_behind_it_alone";
    let Some(server) = SshServer::start(name) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut executor = started(server.connect(), at_place(&folder)).await;
    let clients = || {
        let file = server.folder.path().join("known").display().to_string();
        let found = Program::new("pgrep").args(["-f", &file]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        found.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let kill = |pid: &str| {
        let killed = Program::new("kill").args([pid]).status();
        assert!(killed.unwrap().success());
    };
    let first = clients();
    assert_eq!(first.len(), 1, "{first:?}");
    let nap = contract::nap();
    // This process does not end with its terminal or its input.
    let stubborn =
        format!("trap '' HUP TERM; echo on; setsid -f sleep {nap}; while :; do sleep 1; done");
    interactive::open(&mut executor, "p", &stubborn, Some((24, 80)))
        .await
        .unwrap();
    interactive::expect(&mut executor, "p", "on\n").await;
    let second = clients()
        .into_iter()
        .find(|pid| !first.contains(pid))
        .unwrap();
    interactive::open(&mut executor, "other", "cat", None)
        .await
        .unwrap();
    // The client of the actions' helper.
    kill(&first[0]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(text(&mut executor, "echo next").await, "next\n");
    interactive::send(&mut executor, "other", "still\n")
        .await
        .unwrap();
    interactive::expect(&mut executor, "other", "still\n").await;
    assert_eq!(contract::sleeping(&nap), 1);
    // The client of a program's helper.
    kill(&second);
    let (_, ended) = interactive::end(&mut executor, "p").await;
    let told = format!("{ended:?}");
    assert!(
        told.contains("the connection was lost, and what ran there was ended"),
        "{told}"
    );
    wait_for("end", || contract::sleeping(&nap) == 0);
    interactive::open(&mut executor, "p", "echo new", None)
        .await
        .unwrap();
    interactive::expect(&mut executor, "p", "new\n").await;
    assert_eq!(text(&mut executor, "echo next").await, "next\n");
    executor.cleanup().await;
    wait_for("end", || clients().is_empty());
}
