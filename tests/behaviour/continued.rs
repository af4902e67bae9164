//! `resume` in containers, after a `resume` that failed, and while a Ctrl-C comes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Running, Signal};
use crate::needs::Need;
use crate::run::Run;
use crate::story::{commands, git, repository};
use crate::views::View;

fn resume(run: &Run) -> Host {
    Host::after(run).args(["resume", "traj.json"])
}

#[test]
fn the_config_of_a_resume_that_failed_is_not_kept() {
    let server = commands(&["echo 1", "echo 2"]);
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    let failed = resume(&first).args(["-c", "environment.cwd=/nowhere/at/all"]);
    let failed = failed.args(["--step-limit", "2"]).run().expect(6);
    failed.says(&["/nowhere/at/all"]);
    // Neither the folder nor the limit is.
    resume(&first).run().expect(3);
    assert_eq!(server.requests().len(), 1);
    let done = resume(&first).args(["--step-limit", "9"]).run().expect(0);
    assert_eq!(done.stdout, "done\n");
}

#[test]
fn events_of_a_later_version_are_not_passed_over() {
    let server = commands(&["echo 1"]);
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    let journal = first.dir.join("traj.events.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let number = text.lines().count() + 1;
    let line = format!("{{\"seq\":{number},\"t\":1.0,\"event\":\"dreamt\"}}\n");
    fs::write(&journal, format!("{text}{line}")).unwrap();
    for args in [
        &["resume", "traj.json"][..],
        &["fork", "traj.json", "--at", "1", "--no-workspace"],
        &["replay", "traj.json", "--verify"],
    ] {
        let refused = Host::after(&first).args(args).run().expect(2);
        refused.says(&["kind `dreamt`", "does not know", "or a later one"]);
    }
    assert_eq!(
        fs::read_to_string(&journal).unwrap(),
        format!("{text}{line}")
    );
}

fn engine(arguments: &[&str]) -> String {
    let run = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8_lossy(&run.stdout).trim().to_owned()
}

/// The containers of a run and of its later processes.
fn containers(id: &str) -> Vec<String> {
    let listed = engine(&["ps", "-aq", "--no-trunc", "--filter", "label=mswea.run"]);
    let label = |container: &&str| {
        let format = "--format={{index .Config.Labels \"mswea.run\"}}";
        let of = engine(&["inspect", format, container]);
        of == id || of.starts_with(&format!("{id}."))
    };
    listed.lines().filter(label).map(str::to_owned).collect()
}

/// A run that is killed in its second action, in a container.
fn killed_in_container(server: &Server, is_kept: bool) -> (Run, String) {
    let host = Host::new().server(server).task("x");
    let host = host.args(["--image", "mswea-test/bash"]);
    let kept = format!("environment.keep_container={is_kept}");
    let mut running = host.args(["-c", &kept]).spawn();
    running.until("the second action", |run| {
        let journal = run.journal();
        let begun = journal.iter().filter(|event| event["event"] == "action");
        begun.count() == 2
    });
    running.signal(Signal::KILL);
    let run = running.wait().expect(-9);
    let id = run.run_id();
    (run, id)
}

#[test]
fn a_container_is_found_again_after_a_kill_or_made_anew() {
    if !Need::Docker.is_met() {
        return;
    }
    for is_removed in [false, true] {
        let submit =
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat /tmp/kept 2>/dev/null || echo lost";
        let turns = ["echo kept >/tmp/kept", "sleep 60", submit];
        let turns = turns.map(|command| Turn::commands(&[command]));
        let server = Server::start(Scenario::new(turns).by_history());
        let (run, id) = killed_in_container(&server, true);
        let before = containers(&id);
        assert_eq!(before.len(), 1, "{run}");
        if is_removed {
            engine(&["rm", "-f", &before[0]]);
        }
        let done = resume(&run).run().expect(0);
        let wanted = if is_removed { "lost\n" } else { "kept\n" };
        assert_eq!(done.stdout, wanted, "{done}");
        let told = "The environment that the commands so far ran in is gone";
        let last = server.requests().pop().unwrap().body;
        let last = String::from_utf8_lossy(&last).into_owned();
        assert_eq!(last.contains(told), is_removed, "{last}");
        assert!(last.contains("was not run again"), "{last}");
        let same = Host::after(&run).args(["replay", "traj.json", "--verify"]);
        same.run().expect(0);
        for container in containers(&id) {
            engine(&["rm", "-f", &container]);
        }
    }
}

/// The guardian of the killed host removes the container at the same time.
#[test]
fn a_run_that_goes_on_at_once_after_a_kill_gets_a_new_container() {
    if !Need::Docker.is_met() {
        return;
    }
    for pause in [0, 30, 100, 200] {
        let turns = [
            "echo kept >/tmp/kept",
            "sleep 60",
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
        ];
        let turns = turns.map(|command| Turn::commands(&[command]));
        let server = Server::start(Scenario::new(turns).by_history());
        let (run, id) = killed_in_container(&server, false);
        std::thread::sleep(Duration::from_millis(pause));
        resume(&run).run().expect(0);
        for container in containers(&id) {
            engine(&["rm", "-f", &container]);
        }
    }
}

/// Long enough for a host that ends by itself, and far less than what it waits for.
const SOON: Duration = Duration::from_secs(10);

#[track_caller]
fn ends_soon(mut running: Running, begun: &str) -> Run {
    running.until_file(begun);
    let since = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait().expect(130);
    assert!(since.elapsed() < SOON, "{:?}\n{run}", since.elapsed());
    run
}

/// A run in a clone that ended at a limit, after which each call of git takes a minute.
fn slow_clone(server: &Server) -> Run {
    let host = Host::new().server(server).task("x");
    let origin = host.dir().join("origin");
    fs::create_dir(&origin).unwrap();
    repository(&origin);
    git(&origin, &["commit", "--quiet", "--message=second"]);
    let url = format!("workspace.repo=file://{}", origin.display());
    let place = "workspace.path=clone";
    let bin = host.dir().join("bin");
    let usual = std::env::var("PATH").unwrap();
    let path = format!("environment.env.PATH={}:{usual}", bin.display());
    let run = host.args(["-c", &url, "-c", place, "-c", &path, "--step-limit", "1"]);
    let run = run.run().expect(3);
    let begun = run.dir.join("begun");
    let slow = format!("#!/bin/sh\ntouch '{}'; exec sleep 60\n", begun.display());
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("git"), slow).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    run
}

#[test]
fn ctrl_c_ends_a_comparison_of_the_files() {
    let server = commands(&["echo second >kept.txt"]);
    let run = slow_clone(&server);
    // The salvage at the end prints the same patch, and takes its own time.
    let salvage = "agent.salvage_timeout=1";
    let comparing = resume(&run).args(["--step-limit", "9", "-c", salvage]);
    let comparing = comparing.spawn();
    ends_soon(comparing, "begun");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn ctrl_c_ends_the_restoring_of_files() {
    let server = commands(&["echo second >kept.txt"]);
    let run = slow_clone(&server);
    let fork = ["fork", "traj.json", "--at", "1", "-o", "fork.json"];
    let restoring = Host::after(&run).args(fork).args(["--step-limit", "9"]);
    ends_soon(restoring.spawn(), "begun");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn ctrl_c_ends_a_replay_whose_output_nobody_reads() {
    let server = commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; printf '%0200000d' 1"]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let replay = Host::after(&run).args(["replay", "traj.json"]);
    let running = replay.stalled_on(true, false).spawn();
    std::thread::sleep(Duration::from_secs(2));
    let since = Instant::now();
    running.signal(Signal::INT);
    let replay = running.wait();
    assert!(since.elapsed() < SOON, "{replay}");
    assert_ne!(replay.status, 0, "{replay}");
}

#[test]
fn a_session_header_is_sent_with_each_request_also_of_a_run_that_goes_on() {
    let submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";
    let turns = ["echo one", submit, submit];
    let turns = turns.map(|command| Turn::commands(&[command]));
    let server = Server::start(Scenario::new(turns).by_history());
    let run = Host::new().server(&server).task("x");
    let run = run.args(["--session-header", "X-Session-ID=session-7"]);
    let run = run.args(["-c", "model.model_kwargs.extra_headers.x-session-id=s0"]);
    // Other headers are not recorded, because they may hold keys.
    let other = ["-c", "model.model_kwargs.extra_headers.X-Other=mine"];
    let run = run.args(other).args(["--step-limit", "1"]).run().expect(3);
    assert!(!run.trajectory().to_string().contains("mine"));
    resume(&run)
        .run()
        .expect(2)
        .says(&["`model.model_kwargs.extra_headers.X-Other` holds a secret"]);
    let old = ["-c", "model.model_kwargs.extra_headers=null"];
    let again = |args: &[&str]| Host::after(&run).args(args).args(old);
    let fork = ["fork", "traj.json", "--at", "1", "--no-workspace"];
    again(&fork)
        .args(["-o", "fork.json", "--step-limit", "9"])
        .run()
        .expect(0);
    again(&["resume", "traj.json", "--step-limit", "9"])
        .run()
        .expect(0);
    let next = ["continue", "traj.json", "-t", "more", "-o", "next.json"];
    Host::after(&run)
        .args(next)
        .args(["--step-limit", "3", "--session-header", "X-Session-ID=s-8"])
        .args(["--price", "in=1,out=1"])
        .run()
        .expect(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for (request, session) in requests
        .iter()
        .zip(["session-7", "session-7", "session-7", "s-8"])
    {
        assert_eq!(request.header("x-session-id"), Some(session));
    }
    assert_eq!(requests[0].header("x-other"), Some("mine"));
    for (header, why) in [
        ("X", "for example `X-Session-ID=s1`"),
        ("a b=c", "letters, digits"),
    ] {
        let run = Host::new().args(["--session-header", header]).run();
        run.expect(2).says(&[why]);
    }
}

/// The page shows the request of a run nevertheless: headers are not in it.
#[test]
fn a_session_header_that_looks_like_a_secret_is_named_again() {
    let server = commands(&["echo one"]);
    let host = Host::new().server(&server).task("x");
    let host = host.args(["--session-header", "X-Session-Key=hunter2-hunter2"]);
    let run = host.args(["--step-limit", "1"]).run().expect(3);
    assert!(!run.trajectory().to_string().contains("hunter2"));
    let view = View::of(Host::after(&run), &["traj.events.jsonl"]);
    let runs = view.runs();
    let id = runs[0]["id"].as_str().unwrap();
    let shown = view.get(&format!("/api/sent?id={id}&step=2")).json();
    view.end();
    let body: Value = serde_json::from_str(shown["body"].as_str().unwrap()).unwrap();
    assert_eq!(body, server.requests()[0].json());
    let key = "model.session_header.X-Session-Key";
    resume(&run).run().expect(2).says(&[key, "holds a secret"]);
    let given = format!("{key}=hunter2-hunter2");
    let args = ["--step-limit", "9", "-c", &given];
    resume(&run).args(args).run().expect(0);
    let last = server.requests().pop().unwrap();
    assert_eq!(last.header("x-session-key"), Some("hunter2-hunter2"));
}
