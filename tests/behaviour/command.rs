//! Runs whose commands run at a place that a program reaches: the environment class `command`. The
//! programs of these tests reach another folder of this machine; the executor's own tests use `ssh`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::processes;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";

fn turns(commands: &[&str]) -> Server {
    let turns = commands.iter().map(|command| Turn::commands(&[*command]));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()).by_history())
}

/// A run whose program ends up in `there`.
fn at(there: &Path, model: &Server) -> Host {
    let connect = ["env", "-C", &there.display().to_string(), "PLACE=there"].map(str::to_owned);
    Host::new().server(model).task("t").args([
        "-c",
        "environment.environment_class=command",
        "-c",
        &format!("environment.connect={connect:?}"),
    ])
}

#[test]
fn a_run_works_where_the_program_leads() {
    for session in ["false", "true"] {
        let there = tempfile::tempdir().unwrap();
        let model = turns(&[
            "x=5; pwd >>log; echo $PLACE ${x-none} >>log",
            "echo ${x-none} >>log",
            SUBMIT,
        ]);
        let host = at(there.path(), &model);
        let host = host.args(["-c", &format!("environment.session={session}")]);
        let run = host.run().expect(0);
        let later = if session == "true" { "5" } else { "none" };
        let place = there.path().canonicalize().unwrap();
        assert_eq!(
            run.stdout,
            format!("{}\nthere 5\n{later}\n", place.display())
        );
        let kept: Vec<_> = fs::read_dir(&place).unwrap().collect();
        assert_eq!(kept.len(), 1, "nothing but the log is left: {kept:?}");
    }
}

/// `env`, `nsenter` and `srun` pass their own environment on to the commands.
#[test]
fn commands_see_an_allow_list_of_the_variables_of_the_host() {
    let set = [
        ("LC_MINE", "listed"),
        ("MINE_TOO", "allowed"),
        ("ZED", "other"),
        ("DOCKER_AUTH_CONFIG", "secret"),
        ("PIP_INDEX_URL", "https://me:hunter2@host"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("KUBECONFIG", "/etc/kube"),
    ];
    let model = turns(&["env >log; tr '\\0' '\\n' </proc/self/environ >>log", SUBMIT]);
    let allow = r#"environment.env_allow=["MINE_*", "KUBECONFIG"]"#;
    let there = tempfile::tempdir().unwrap();
    let host = at(there.path(), &model).args(["-c", allow]);
    let host = set
        .iter()
        .fold(host, |host, (name, value)| host.env(name, value));
    let run = host.run().expect(0);
    for (name, value) in set {
        let seen = run.stdout.contains(&format!("{name}={value}\n"));
        let wanted = ["LC_MINE", "MINE_TOO", "KUBECONFIG"].contains(&name);
        assert_eq!(seen, wanted, "{name}: {run}");
    }
}

#[test]
fn a_local_folder_is_copied_there_and_its_changes_come_back() {
    let there = tempfile::tempdir().unwrap();
    let clone = there.path().join("clone");
    let model = turns(&[
        "cat tracked changed >log; echo new >created; git log --format=%s >>log",
        SUBMIT,
    ]);
    let host = at(there.path(), &model).args([
        "-c",
        "workspace.repo=.",
        "-c",
        &format!("workspace.path={}", clone.display()),
    ]);
    let git = "git init -q . && echo 1 >tracked && git add . && git -c user.name=t -c user.email=t@t commit -qm first && echo 2 >changed";
    let made = std::process::Command::new("sh")
        .args(["-c", git])
        .current_dir(host.dir())
        .status();
    assert!(made.unwrap().success());
    let run = host.run().expect(0);
    assert_eq!(run.stdout, "1\n2\nfirst\n");
    assert!(!run.dir.join("created").exists());
    let saved = run.trajectory()["info"]["mswea"]["salvage"]["output"].to_string();
    assert!(saved.contains("+new"), "{saved}");
}

#[test]
fn without_a_folder_for_temporary_files_a_copy_says_what_to_do() {
    let there = tempfile::tempdir().unwrap();
    let model = turns(&[SUBMIT]);
    let path = format!("workspace.path={}", there.path().join("copy").display());
    let host = at(there.path(), &model).file("project/file", b"x");
    let host = host.args(["-c", "workspace.repo=project", "-c", &path]);
    let run = host.env("TMPDIR", "/nonexistent").run().expect(6);
    run.says(&[
        "its archive can't be made in `/nonexistent`",
        "set `TMPDIR` to a folder that can be written to",
    ]);
    assert_eq!(model.served(), 0);
}

#[test]
fn a_run_is_resumed_there() {
    let there = tempfile::tempdir().unwrap();
    let model = turns(&["echo 1 >>log", "echo 2 >>log", SUBMIT]);
    let first = at(there.path(), &model)
        .args(["--step-limit", "1"])
        .run()
        .expect(3);
    let resumed = Host::after(&first).args(["resume", "traj.json", "--step-limit", "9"]);
    assert_eq!(resumed.run().expect(0).stdout, "1\n2\n");
}

#[test]
fn a_host_that_is_killed_leaves_nothing_there() {
    let there = tempfile::tempdir().unwrap();
    let model = turns(&["setsid sleep 331 & echo begun >>log; sleep 331"]);
    let running = at(there.path(), &model).spawn();
    let asked = Instant::now();
    while !there.path().join("log").exists() {
        assert!(asked.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::KILL);
    let killed = Instant::now();
    while !processes::inside(there.path()).is_empty() {
        assert!(
            killed.elapsed() < Duration::from_secs(8),
            "{:?}",
            processes::inside(there.path())
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_can_not_be_reached_ends_the_run() {
    let there = tempfile::tempdir().unwrap();
    let model = turns(&[SUBMIT]);
    for (settings, status, told) in [
        (
            &["environment.connect=[]"][..],
            2,
            "set `environment.connect` to a program",
        ),
        (
            &["environment.connect=[\"no-such-program\"]"],
            6,
            "is not installed",
        ),
        (
            &["environment.connect=[\"sh\", \"-c\", \"echo no route >&2; exit 255\"]"],
            6,
            "ended with exit code 255: no route",
        ),
        (
            &[
                "environment.connect=[\"sleep\", \"9\"]",
                "environment.connect_timeout=1",
            ],
            6,
            "can be reached through `sleep 9`",
        ),
    ] {
        let wished = settings.iter().flat_map(|setting| ["-c", setting]);
        let run = at(there.path(), &model).args(wished).run().expect(status);
        assert!(run.stderr.contains(told), "{told}\n{run}");
    }
    assert!(model.requests().is_empty());
}

#[test]
fn the_program_checks_itself() {
    let run = Host::new()
        .args(["self", "check", "--json"])
        .run()
        .expect(0);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let program = report["program"].as_array().unwrap();
    let found: Vec<(&str, &str)> = program
        .iter()
        .map(|probe| {
            (
                probe["name"].as_str().unwrap(),
                probe["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("file", "works"), ("plugins", "works"), ("state", "works")],
        "{run}"
    );
    assert_eq!(report["executors"][0]["name"], "local");
    // A file where the folder for runs has to be.
    let host = Host::new().file("state", "").args(["self", "check"]);
    let state = host.dir().join("state");
    let run = host.env("XDG_STATE_HOME", state).run().expect(1);
    assert!(run.stdout.contains("missing  state"), "{run}");
    assert!(
        run.stdout
            .contains("-> make it writable, or set `XDG_STATE_HOME`"),
        "{run}"
    );
}
