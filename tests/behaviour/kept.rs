//! Containers of a run that goes on: one that is kept is used again, and at most one is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use scripted_server::{Scenario, Server, Turn};

use crate::host::{Host, Signal};
use crate::needs::Need;
use crate::run::Run;

const IMAGE: &str = "mswea-test/bash";
const KEEP: [&str; 2] = ["-c", "environment.keep_container=true"];

fn server() -> Server {
    let turns = [
        Turn::commands(&["echo 1 >>/log"]),
        Turn::commands(&["echo 2 >>/log"]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat /log"]),
    ];
    Server::start(Scenario::new(turns).by_history())
}

fn docker(arguments: &[&str]) -> String {
    let run = Command::new("docker").args(arguments).output().unwrap();
    assert!(run.status.success(), "{arguments:?}: {run:?}");
    String::from_utf8_lossy(&run.stdout).trim().to_owned()
}

/// The names of the containers of a run.
fn containers(id: &str) -> Vec<String> {
    let filter = format!("label=mswea.run={id}");
    let format = "{{.Names}}";
    let listed = docker(&["ps", "-a", "--filter", &filter, "--format", format]);
    listed.lines().map(str::to_owned).collect()
}

fn in_container(server: &Server) -> Host {
    let host = Host::new().server(server).task("count");
    host.args(["--image", IMAGE])
}

fn resume(run: &Run) -> Host {
    Host::after(run).args(["resume", "traj.json", "--step-limit", "9"])
}

fn gc(run: &Run, arguments: &[&str]) -> String {
    let done = Host::after(run).arg("gc").args(arguments).run();
    format!("{}{}", done.stdout, done.stderr)
}

/// A run whose first process ends after one step and keeps its container.
fn kept(server: &Server, transport: &str) -> Run {
    let transport = format!("environment.transport={transport}");
    let host = in_container(server).args(KEEP).args(["-c", &transport]);
    host.args(["--step-limit", "1"]).run().expect(3)
}

#[test]
fn a_container_that_is_paused_or_stopped_goes_on() {
    if !Need::Docker.is_met() {
        return;
    }
    for (transport, verb, said) in [
        ("api", &["pause"][..], "was paused"),
        ("cli", &["pause"], "was paused"),
        ("api", &["stop", "-t", "0"], "had stopped"),
        ("cli", &["stop", "-t", "0"], "had stopped"),
    ] {
        let server = server();
        let first = kept(&server, transport);
        let id = first.run_id();
        let before = containers(&id);
        docker(&[verb, &[&before[0]]].concat());
        let done = resume(&first).run().expect(0);
        assert_eq!(done.stdout, "1\n2\n", "{done}");
        let hint = format!("gc --run {id}`");
        let done = done.says(&[said, &hint]);
        assert!(!done.stderr.contains("is gone"), "{done}");
        assert_eq!(containers(&id), before);
        docker(&["rm", "-f", &before[0]]);
        // What was removed is made anew.
        let again = kept(&server, transport);
        let id = again.run_id();
        docker(&["rm", "-f", &containers(&id)[0]]);
        let done = resume(&again).run().expect(0).says(&["was removed"]);
        // Nothing was to be restored.
        assert!(!done.stderr.contains("not restored"), "{done}");
        assert_eq!(containers(&id), [format!("mswea-{id}.1")]);
        let said = gc(&again, &[]);
        assert!(said.contains(&format!("gc --run {id}`")), "{said}");
        let said = gc(&again, &["--run", &id]);
        assert!(said.contains("removed 1 container"), "{said}");
        assert!(containers(&id).is_empty());
    }
}

/// A docker client that runs `script` first.
fn client(host: Host, script: &str) -> Host {
    let path = host.dir().join("client");
    let text = format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{script}\nexec docker \"$@\"\n");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let executable = format!("environment.executable={}", path.display());
    host.args(["-c", &executable, "-c", "environment.transport=cli"])
}

#[test]
fn a_run_is_refused_whose_container_does_not_go_on() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = server();
    let script = "case $1 in unpause|start) echo denied >&2; exit 1;; esac";
    let host = client(in_container(&server).args(KEEP), script);
    let first = host.args(["--step-limit", "1"]).run().expect(3);
    let id = first.run_id();
    let name = containers(&id).pop().unwrap();
    let paid = server.served();
    for (verb, remedy) in [("pause", "unpause"), ("kill", "start")] {
        docker(&[verb, &name]);
        let remedy = format!("client {remedy} {name}`");
        let refused = resume(&first).run().expect(6);
        refused.says(&[
            "does not go on",
            "denied",
            &remedy,
            &format!("rm -f {name}`"),
        ]);
        assert_eq!(server.served(), paid);
        assert_eq!(containers(&id), [name.as_str()]);
    }
    docker(&["rm", "-f", &name]);
}

#[test]
fn the_container_of_a_host_that_was_killed_before_it_used_it_is_removed() {
    if !Need::Docker.is_met() {
        return;
    }
    // The container is there, and the host does not learn that.
    let script = "[ \"$1\" != run ] || [ -e gate ] || { docker \"$@\" >id; touch made; \
                  while [ ! -e gate ]; do sleep 0.1; done; exit 1; }";
    let killed = |host: Host| {
        let mut run = host.spawn();
        run.until_file("made");
        run.signal(Signal::KILL);
        let run = run.wait();
        fs::remove_file(run.dir.join("made")).unwrap();
        run
    };
    let server = server();
    let first = killed(client(in_container(&server).args(KEEP), script));
    let id = first.run_id();
    assert_eq!(containers(&id), [format!("mswea-{id}")]);
    let second = killed(resume(&first));
    assert_eq!(containers(&id), [format!("mswea-{id}.1")]);
    fs::write(second.dir.join("gate"), "").unwrap();
    let done = resume(&second).run().expect(0);
    assert_eq!(done.stdout, "1\n2\n");
    assert_eq!(containers(&id), [format!("mswea-{id}.2")]);
    let removed = Host::after(&done).args(["runs", "rm", &id]).run().expect(0);
    let name = format!("container mswea-{id}.2");
    assert!(removed.stdout.contains(&name), "{removed}");
    assert!(containers(&id).is_empty());
}

#[test]
fn a_resumed_run_is_not_warned_again_of_its_first_flags() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    let server = Server::start(Scenario::always(Turn::commands(&["true"])));
    let host = Host::new().server(&server).task("count");
    let host = host.args(["--environment-class", "bubblewrap"]);
    let memory = ["-c", "environment.memory=1g"];
    let first = host.args(["--step-limit", "1"]).args(memory).run();
    let first = first
        .expect(3)
        .says(&["`environment.memory` has no effect"]);
    let resume = ["resume", "traj.json", "--step-limit", "2"];
    let resumed = Host::after(&first).args(resume).run().expect(3);
    assert!(!resumed.stderr.contains("has no effect"), "{resumed}");
    // What its own flags set is warned of.
    let resume = ["resume", "traj.json", "--step-limit", "3"];
    let resumed = Host::after(&first).args(resume);
    let resumed = resumed.args(memory).run().expect(3);
    resumed.says(&["`environment.memory` has no effect"]);
}
