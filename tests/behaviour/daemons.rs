//! Runs whose container engine is restarted, or whose disk is full. A daemon of the test's own is used, in
//! namespaces of its own: no mount is left, and the network of the machine's daemon is not touched (with
//! `--bridge=none` a daemon removes `docker0`).

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::host::{Host, Running};
use crate::needs::Need;
use crate::run::Run;
use crate::story::commands;
use scripted_server::Server;

const IMAGE: &str = "mswea-test/bash";
/// How long the daemon may take for anything.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts the daemon, and again whenever it ends, as a service manager does.
const SCRIPT: &str = r#"
cd "$1" && mkdir data && { [ -z "$2" ] || mount -t tmpfs -o size="$2" none data; } || exit 1
while [ ! -e stopped ]; do
    while [ -e away ]; do sleep 0.1; done
    dockerd --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" -H "unix://$1/sock" \
        --bridge=none --iptables=false $3 >>log 2>&1
    sleep 0.1
done
"#;

/// A daemon with the usual image.
struct OwnDaemon {
    folder: TempDir,
    script: Child,
}

impl OwnDaemon {
    /// Starts one; `disk` is the size of its disk (empty: that of the machine).
    fn start(disk: &str, flags: &str) -> Self {
        // The path of a socket has to be short, and this one is part of a URL.
        let folder = tempfile::Builder::new()
            .prefix("mswea-dockerd-")
            .tempdir_in("/tmp");
        let folder = folder.unwrap();
        let script = Command::new("unshare")
            .args(["-m", "-n", "sh", "-c", SCRIPT, "sh"])
            .arg(folder.path())
            .args([disk, flags])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let this = Self { folder, script };
        this.until_it_answers();
        let load = format!("docker save {IMAGE} | docker -H {} load", this.address());
        let loaded = Command::new("sh").args(["-c", &load]).output().unwrap();
        assert!(loaded.status.success(), "{loaded:?}");
        this
    }

    fn address(&self) -> String {
        format!("unix://{}", self.path("sock").display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs docker's client, and returns what it prints.
    fn docker(&self, arguments: &[&str]) -> String {
        let run = Command::new("docker")
            .args(["-H", &self.address()])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    }

    #[track_caller]
    fn until_it_answers(&self) {
        let end = Instant::now() + LIMIT;
        while self
            .docker(&["version", "-f", "{{.Server.Version}}"])
            .is_empty()
        {
            let log = || fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(Instant::now() < end, "{}", log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks the daemon to end, and waits for that.
    fn end(&self) {
        let pid = fs::read_to_string(self.path("pid")).unwrap_or_default();
        let Some(pid) = pid
            .trim()
            .parse()
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return;
        };
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let end = Instant::now() + LIMIT;
        while rustix::process::test_kill_process(pid).is_ok() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the daemon; it comes back when the result is dropped.
    fn away(&self) -> AwayDaemon<'_> {
        fs::write(self.path("away"), "").unwrap();
        self.end();
        AwayDaemon(self)
    }

    fn restart(&self) {
        self.end();
        self.until_it_answers();
    }

    /// A host that uses it.
    fn host(&self, server: &Server) -> Host {
        Host::new()
            .server(server)
            .task("x")
            .env("DOCKER_HOST", self.address())
            .args(["--image", IMAGE])
    }

    /// Waits until a process of the run's container has `what` in its command line.
    #[track_caller]
    fn until_runs(&self, running: &mut Running, what: &str) {
        running.until(what, |running| {
            let journal = running.journal();
            let id = journal.first().and_then(|event| event["run_id"].as_str());
            let found = id.map(|id| self.containers(id)).unwrap_or_default();
            !found.is_empty() && self.docker(&["top", &found]).contains(what)
        });
    }

    /// The containers of a run.
    fn containers(&self, id: &str) -> String {
        let filter = format!("label=mswea.run={id}");
        self.docker(&["ps", "-aq", "--filter", &filter])
    }

    #[track_caller]
    fn no_container(&self, run: &Run) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.containers(&run.run_id());
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "containers left: {left:?}\n{run}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A daemon that is away.
struct AwayDaemon<'a>(&'a OwnDaemon);

impl Drop for AwayDaemon<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.path("away"));
        self.0.until_it_answers();
    }
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        let left = self.docker(&["ps", "-aq"]);
        let left: Vec<&str> = left.lines().collect();
        if !left.is_empty() {
            self.docker(&[&["rm", "-f"], left.as_slice()].concat());
        }
        let _ = fs::write(self.path("stopped"), "");
        self.end();
        let _ = self.script.wait();
    }
}

/// The ways of running commands in a container.
const WAYS: [&[&str]; 4] = [
    &[],
    &["-c", "environment.session=true"],
    &["-c", "environment.fast_path=false"],
    &["-c", "environment.transport=cli"],
];

/// Runs that are in the middle of their first command while `disturb` is done to the daemon.
fn runs_through<T>(
    daemon: &OwnDaemon,
    arguments: &[&str],
    disturb: impl FnOnce() -> T,
) -> Vec<Run> {
    let servers = WAYS.map(|_| commands(&["echo before; sleep 500", "echo after; ps"]));
    let start =
        |(way, server): (&&[&str], _)| daemon.host(server).args(arguments).args(*way).spawn();
    let mut running: Vec<Running> = WAYS.iter().zip(&servers).map(start).collect();
    for running in &mut running {
        daemon.until_runs(running, "sleep 500");
    }
    let disturbed = disturb();
    let runs: Vec<Run> = running.into_iter().map(Running::wait).collect();
    drop(disturbed);
    for run in &runs {
        daemon.no_container(run);
    }
    runs
}

fn output(run: &Run, index: usize) -> (String, String, String) {
    let output = &run.events("output")[index]["output"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&output["output"]),
        text(&output["extra"]["exception_type"]),
        text(&output["exception_info"]),
    )
}

#[test]
fn a_daemon_that_is_restarted_under_its_containers_costs_a_run_one_command() {
    if !Need::OwnDaemon.is_met() {
        return;
    }
    let daemon = OwnDaemon::start("", "--live-restore");
    // At a restart this daemon removes what has `--rm`, although it lives.
    for run in runs_through(&daemon, &["-c", "environment.run_args=[]"], || {
        daemon.restart();
    }) {
        let run = run.expect(0).nothing_left();
        let (text, kind, why) = output(&run, 0);
        assert_eq!(text, "before\n", "{run}");
        assert_eq!(kind, "ConnectionLost", "{run}");
        assert!(
            why.contains("the connection to the container was lost"),
            "{run}"
        );
        assert!(why.ends_with("; the command was ended"), "{run}");
        let (text, kind, _) = output(&run, 1);
        assert!(kind.is_empty() && text.starts_with("after\n"), "{run}");
        // The command, its shell and its helper are ended; only the new helper is there.
        assert!(!text.contains("sleep 500"), "{run}");
        assert!(text.matches("helper session").count() < 2, "{run}");
    }
}

#[test]
fn a_daemon_that_ends_its_containers_with_itself_ends_the_run() {
    if !Need::OwnDaemon.is_met() {
        return;
    }
    let daemon = OwnDaemon::start("", "");
    let quick = "environment.run_args=[\"--rm\", \"--stop-timeout\", \"1\"]";
    for run in runs_through(&daemon, &["-c", quick], || {
        daemon.restart();
    }) {
        let run = run.expect(6).nothing_left();
        assert_eq!(run.exit_status(), "EnvironmentError");
        let (text, kind, why) = output(&run, 0);
        assert_eq!(
            (text.as_str(), kind.as_str()),
            ("before\n", "EnvironmentGone")
        );
        assert!(
            why.contains("is gone: it was stopped or removed from outside"),
            "{why}"
        );
        run.says(&["error: ", "is gone: it was stopped or removed from outside"]);
    }
}

#[test]
fn a_daemon_that_stays_away_ends_the_run() {
    if !Need::OwnDaemon.is_met() {
        return;
    }
    let daemon = OwnDaemon::start("", "--live-restore");
    let keep = ["-c", "environment.run_args=[]"];
    for run in runs_through(&daemon, &keep, || daemon.away()) {
        let run = run.expect(6);
        assert_eq!(run.exit_status(), "EnvironmentError");
        let silent = "the container engine does not answer: ";
        let (text, kind, why) = output(&run, 0);
        let wanted = ("before\n", "EnvironmentError");
        assert_eq!((text.as_str(), kind.as_str()), wanted, "{run}");
        assert!(why.contains(silent), "{why}");
        // The next command is tried once more, and then nothing is.
        let (text, kind, why) = output(&run, 1);
        // The command line client says by itself why it can't.
        let is_empty = text.is_empty() || text.starts_with("Cannot connect to the Docker daemon");
        assert!(is_empty && kind == "EnvironmentGone", "{run}");
        let wanted = format!("no further command can be run: {silent}");
        assert!(why.contains(&wanted) && why.contains("start "), "{why}");
        assert_eq!(run.events("output").len(), 2, "{run}");
    }
}

#[test]
fn a_full_disk_of_the_daemon_is_told() {
    if !Need::OwnDaemon.is_met() {
        return;
    }
    let daemon = OwnDaemon::start("40m", "");
    let full = [
        "cat /dev/zero > /big; echo wrote $?",
        "echo after; echo x > /tmp/x",
        "rm /big; echo room > /tmp/y && cat /tmp/y",
    ];
    for way in WAYS {
        let server = commands(&full);
        let run = daemon
            .host(&server)
            .args(way)
            .run()
            .expect(0)
            .nothing_left();
        let (first, second) = (output(&run, 0).0, output(&run, 1).0);
        assert_eq!(
            first,
            "cat: write error: No space left on device\nwrote 1\n"
        );
        assert!(second.starts_with("after\n"), "{second}");
        assert!(second.contains("No space left on device"), "{second}");
        assert_eq!(output(&run, 2).0, "room\n", "{run}");
        daemon.no_container(&run);
    }

    // Less room than the helper needs.
    let filler =
        "head -c 300000 /dev/zero > /room; cat /dev/zero > /big; rm /room; echo full; sleep 500";
    daemon.docker(&["run", "-d", "--name", "filler", IMAGE, "sh", "-c", filler]);
    until(|| daemon.docker(&["logs", "filler"]).contains("full"));
    let told = "no space left on device; the engine's disk is full: see `docker system df`";
    let server = commands(&["echo after"]);
    let run = daemon.host(&server).run().expect(0);
    assert_eq!(output(&run, 0).0, "after\n", "{run}");
    daemon.no_container(&run);
    let needs = "`environment.session` needs the helper, which can't be started";
    let large = vec![b'x'; 1_000_000];
    for (arguments, says) in [
        (["-c", "environment.session=true"], needs),
        (
            ["-c", "workspace.repo=project"],
            "can't be copied to `/project`",
        ),
    ] {
        let server = commands(&["echo after"]);
        let host = daemon.host(&server).file("project/large", &large);
        let run = host.args(arguments).run().expect(6).says(&[says, told]);
        assert_eq!(server.served(), 0, "{run}");
        daemon.no_container(&run);
    }
    daemon.docker(&["exec", "filler", "sh", "-c", "cat /dev/zero >> /big"]);
    for way in [WAYS[0], WAYS[3]] {
        let server = commands(&["echo after"]);
        let run = daemon.host(&server).args(way).run().expect(6);
        assert_eq!(server.served(), 0, "{run}");
        let run = run.says(&["no container can be started from image", told]);
        daemon.no_container(&run);
    }
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(20));
    }
}
