//! Runs in containers: the same commands through each transport to an engine, errors of engines, and
//! that no container is left at any end of a run.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::{Fault, Server, Turn};

use crate::host::{Host, Signal};
use crate::needs::Need;
use crate::run::Run;
use crate::story::{commands, submit, turns};

const IMAGE: &str = "mswea-test/bash";

/// The available transports, as arguments.
const WAYS: &[(&str, &[&str])] = &[
    ("fast path", &[]),
    ("exec path", &["-c", "environment.fast_path=false"]),
    ("command line", &["-c", "environment.transport=cli"]),
    (
        "command line, exec path",
        &[
            "-c",
            "environment.transport=cli",
            "-c",
            "environment.fast_path=false",
        ],
    ),
];

fn docker(arguments: &[&str]) -> String {
    let run = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8_lossy(&run.stdout).trim().to_owned()
}

/// A run in a container of the usual image.
fn in_container(server: &Server) -> Host {
    Host::new()
        .server(server)
        .task("x")
        .args(["--image", IMAGE])
}

/// The containers of a run in any state.
fn containers(id: &str) -> Vec<String> {
    let filter = format!("label=mswea.run={id}");
    let listed = docker(&["ps", "-aq", "--filter", &filter]);
    listed.lines().map(str::to_owned).collect()
}

#[track_caller]
fn no_container(run: &Run) {
    let id = run.run_id();
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let left = containers(&id);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "containers left: {left:?}\n{run}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a process of the container whose command line has `what` in it.
fn until_runs(running: &mut crate::host::Running, what: &str) -> String {
    let mut container = String::new();
    running.until(what, |running| {
        let journal = running.journal();
        let id = journal.first().and_then(|event| event["run_id"].as_str());
        let Some(found) = id.and_then(|id| containers(id).pop()) else {
            return false;
        };
        container = found;
        docker(&["top", &container]).contains(what)
    });
    container
}

#[test]
fn a_run_in_a_container_over_every_transport() {
    if !Need::Docker.is_met() {
        return;
    }
    for (way, arguments) in WAYS {
        let server = commands(&[
            "echo kept > /tmp/a; pwd; echo $FORWARDED $SET; echo to stderr >&2",
            "cat /tmp/a; echo \"key:$SOME_API_KEY.\"; exit 3",
            "sleep 100 & echo behind",
            "printf 'a\\377b\\0c\\r\\n'; seq 1 100000",
        ]);
        let run = Host::new()
            .server(&server)
            .task("x")
            .env("FORWARDED", "forwarded")
            .env("SOME_API_KEY", "sk-1234567890")
            .args(["--image", IMAGE, "--cwd", "/testbed"])
            .args(["-c", "environment.forward_env=[\"FORWARDED\", \"NOT_SET\"]"])
            .args(["-c", "environment.env.SET=\"is set\""])
            .args(*arguments)
            .run()
            .expect(0)
            .nothing_left();
        assert_eq!(run.stdout, "done\n", "{way}");
        let outputs = run.events("output");
        let text = |index: usize| outputs[index]["output"]["output"].as_str().unwrap();
        assert_eq!(text(0), "/testbed\nforwarded is set\nto stderr\n", "{way}");
        assert_eq!(text(1), "kept\nkey:.\n", "{way}");
        assert_eq!(outputs[1]["output"]["returncode"], 3, "{way}");
        assert_eq!(text(2), "behind\n", "{way}");
        assert!(text(3).starts_with("a\u{fffd}b\0c\n1\n2\n"), "{way}");
        assert!(text(3).ends_with("99999\n100000\n"), "{way}");
        no_container(&run);
        let config = &run.trajectory()["info"]["config"]["environment"];
        assert_eq!(config["image"], IMAGE);
    }
}

#[test]
fn a_config_of_mini_swe_agent_for_docker_loads_unchanged() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = commands(&["pwd; echo $BASH_VERSION; env | grep PAGER"]);
    let yaml = "\
agent:
  system_template: You are helpful.
  instance_template: '{{task}} in {{cwd}} for {{timeout}}'
  cost_limit: 0
environment:
  environment_class: docker
  image: mswea-test/bash
  cwd: /testbed
  timeout: 60
  interpreter: [bash, -c]
  run_args: [--rm, --network, none]
  container_timeout: 1h
  env: {PAGER: cat}
";
    let run = Host::new()
        .server(&server)
        .file("docker.yaml", yaml)
        .task("x")
        .args(["-c", "docker.yaml"])
        .run()
        .expect(0);
    let output = run.events("output")[0]["output"]["output"].to_string();
    assert!(output.starts_with("\"/testbed\\n5."), "{output}");
    assert!(output.contains("PAGER=cat"), "{output}");
    let task = server.requests()[0].json()["messages"][1].to_string();
    assert!(task.contains("x in /testbed for 60"), "{task}");
    no_container(&run);
}

#[test]
fn errors_are_reported_once_and_no_container_is_left() {
    if !Need::Docker.is_met() {
        return;
    }
    let missing = "127.0.0.1:1/mswea-no-such-image:1";
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (
            &["--image", missing],
            &[],
            &["127.0.0.1:1/mswea-no-such-image:1"],
        ),
        (
            &["--image", "mswea-test/nobash"],
            &[],
            &["bash", "environment.interpreter"],
        ),
        (
            &[
                "--image",
                IMAGE,
                "-c",
                "environment.mounts=[\"/no/such/folder/x:relative\"]",
            ],
            &[],
            &["relative"],
        ),
        (
            &[
                "--image",
                IMAGE,
                "-c",
                "environment.run_args=[\"--no-such-flag\"]",
            ],
            &[],
            &["no-such-flag"],
        ),
        (
            &["--image", IMAGE],
            &[("DOCKER_HOST", "unix:///no/such.sock")],
            &["/no/such.sock"],
        ),
        (
            &[
                "--image",
                IMAGE,
                "-c",
                "environment.executable=/no/such/docker",
            ],
            &[],
            &["/no/such/docker"],
        ),
        (
            &["--image", IMAGE, "-c", "environment.user=nobody-here"],
            &[],
            &["nobody-here"],
        ),
        (
            &["--environment-class", "docker"],
            &[],
            &["needs an image", "--image"],
        ),
    ];
    for (arguments, variables, says) in cases {
        let server = commands(&[]);
        let mut host = Host::new().server(&server).task("x").args(*arguments);
        for (name, value) in *variables {
            host = host.env(name, value);
        }
        let run = host.run();
        let code = if says[0] == "needs an image" { 2 } else { 6 };
        let run = run.expect(code).says(says);
        assert_eq!(server.served(), 0, "a request was sent");
        if code == 6 {
            no_container(&run);
        }
    }
}

#[test]
fn an_end_by_a_signal_leaves_no_container() {
    if !Need::Docker.is_met() {
        return;
    }
    for (_, arguments) in WAYS {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130), (Signal::KILL, -9)] {
            let server = turns([Turn::commands(&[
                "(setsid sleep 501 &); trap '' TERM INT; sleep 500",
            ])]);
            let mut running = in_container(&server).args(*arguments).spawn();
            until_runs(&mut running, "sleep 500");
            running.signal_group(signal);
            let run = running.wait().expect(code).nothing_left();
            no_container(&run);
            if signal != Signal::KILL {
                assert_eq!(run.exit_status(), "Interrupted");
            }
        }
    }
}

#[test]
fn a_host_that_is_killed_during_a_query_leaves_no_container() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = turns([Turn::commands(&["true"]), Turn::fault(Fault::Silence)]);
    let mut running = in_container(&server).spawn();
    running.until("the second query", |_| server.served() == 2);
    running.signal(Signal::KILL);
    let run = running.wait().expect(-9).nothing_left();
    no_container(&run);
}

#[test]
fn a_container_that_is_removed_ends_the_run() {
    if !Need::Docker.is_met() {
        return;
    }
    for (_, arguments) in WAYS {
        let server = turns([Turn::commands(&["echo before; sleep 500"])]);
        let mut running = in_container(&server).args(*arguments).spawn();
        let container = until_runs(&mut running, "sleep 500");
        docker(&["rm", "-f", &container]);
        let run = running.wait().expect(6).says(&["container"]);
        assert_eq!(server.served(), 1, "{run}");
        assert_eq!(run.exit_status(), "EnvironmentError");
        assert_eq!(run.events("output").len(), 1);
        no_container(&run);
    }
}

#[test]
fn timeouts_and_killed_processes_are_reported_to_the_model() {
    if !Need::Docker.is_met() {
        return;
    }
    for (way, arguments) in WAYS {
        let server = commands(&[
            "echo first; sleep 60",
            "echo second; kill -9 -1; echo survived",
            "echo third",
            "ps | grep -c 'slee[p] 60'",
        ]);
        let run = in_container(&server)
            .args(["-c", "environment.timeout=1"])
            .args(*arguments)
            .run()
            .expect(0);
        let outputs = run.events("output");
        let output = |index: usize| &outputs[index]["output"];
        assert_eq!(output(0)["output"], "first\n", "{way}");
        assert_eq!(output(0)["returncode"], -1, "{way}");
        let told = output(0)["exception_info"].as_str().unwrap();
        assert!(told.contains("timed out after 1 seconds"), "{way}: {told}");
        // Output that the helper had not passed on when it was killed is lost; then a note says so.
        let second = output(1)["output"].as_str().unwrap();
        let told = output(1)["exception_info"].as_str().unwrap();
        assert!(
            second.starts_with("second\n")
                || told.contains("helper")
                || output(1)["returncode"] == 137,
            "{way}: {second} {told}"
        );
        assert_eq!(output(2)["output"], "third\n", "{way}");
        // The process of the first command, which timed out, was killed.
        assert_eq!(output(3)["output"], "0\n", "{way}");
        no_container(&run);
    }
}

#[test]
fn a_removed_helper_is_copied_in_again() {
    if !Need::Docker.is_met() {
        return;
    }
    for transport in ["api", "cli"] {
        let server = commands(&["rm -rf /.mswea; echo removed", "kill -9 -1", "echo back"]);
        let run = Host::new()
            .server(&server)
            .task("x")
            .args([
                "--image",
                IMAGE,
                "-c",
                &format!("environment.transport={transport}"),
            ])
            .run()
            .expect(0);
        let outputs = run.events("output");
        assert_eq!(outputs[0]["output"]["output"], "removed\n", "{run}");
        assert_eq!(outputs[1]["output"]["returncode"], -1, "{run}");
        assert_eq!(outputs[2]["output"]["output"], "back\n", "{run}");
        no_container(&run);
    }
}

#[test]
fn a_run_continues_after_its_container_was_paused() {
    if !Need::Docker.is_met() {
        return;
    }
    for (way, arguments) in WAYS {
        let server = commands(&["echo a; sleep 1.7; echo b", "echo c"]);
        let mut running = in_container(&server).args(*arguments).spawn();
        let container = until_runs(&mut running, "sleep 1.7");
        docker(&["pause", &container]);
        thread::sleep(Duration::from_secs(2));
        docker(&["unpause", &container]);
        let run = running.wait().expect(0);
        let outputs = run.events("output");
        assert_eq!(outputs[0]["output"]["output"], "a\nb\n", "{way}\n{run}");
        assert_eq!(outputs[1]["output"]["output"], "c\n", "{way}\n{run}");
        no_container(&run);
    }
}

#[test]
fn a_command_that_exceeds_the_memory_limit_is_reported_to_the_model() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = commands(&["tail /dev/zero", "echo after"]);
    let run = in_container(&server)
        .args(["-c", "environment.memory=\"24m\""])
        .run()
        .expect(0);
    let outputs = run.events("output");
    assert_eq!(outputs[0]["output"]["returncode"], 137, "{outputs:?}");
    assert_eq!(outputs[1]["output"]["output"], "after\n", "{outputs:?}");
    no_container(&run);
}

#[test]
fn a_kept_container_stays_and_is_named() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = commands(&["echo kept > /kept"]);
    let run = in_container(&server)
        .args(["-c", "environment.keep_container=true"])
        .run()
        .expect(0);
    let id = run.run_id();
    let left = containers(&id);
    assert_eq!(left.len(), 1, "{run}");
    assert_eq!(docker(&["exec", &left[0], "cat", "/kept"]), "kept");
    assert!(run.stderr.contains(&id), "its name is not printed\n{run}");
    docker(&["rm", "-f", &left[0]]);
}

#[test]
fn the_salvage_command_runs_in_the_container() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = turns([Turn::commands(&["echo x > /w"]), Turn::status(401)]);
    let run = in_container(&server)
        .args(["-c", "agent.salvage_command=cat /w"])
        .run()
        .expect(5);
    let salvaged = run.events("salvaged");
    assert_eq!(salvaged[0]["output"]["output"], "x\n", "{run}");
    no_container(&run);
}

#[test]
fn a_local_folder_is_copied_in_and_startup_commands_run() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = commands(&["cat sub/file; cat /marks", &submit("x")]);
    let run = Host::new()
        .server(&server)
        .file("project/sub/file", "content\n")
        .task("the task")
        .args(["--image", IMAGE, "-c", "workspace.repo=project"])
        .args([
            "-c",
            "workspace.startup_commands=[\"echo {{ task }} > /marks\", \"echo two >> /marks\"]",
        ])
        .run()
        .expect(0);
    let outputs = run.events("output");
    assert_eq!(
        outputs[0]["output"]["output"], "content\nthe task\ntwo\n",
        "{run}"
    );
    no_container(&run);

    let server = commands(&[]);
    let run = in_container(&server)
        .args(["-c", "workspace.startup_commands=[\"echo out; exit 7\"]"])
        .run()
        .expect(6)
        .says(&["exit 7", "7", "out"]);
    assert_eq!(server.served(), 0);
    no_container(&run);
}

#[test]
fn podman_runs_commands_and_leaves_no_container() {
    if !Need::Podman.is_met() {
        return;
    }
    let server = commands(&["echo $0; exit 3", "echo a; sleep 60"]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["--environment-class", "podman", "--image", "localhost/mswea-test/bash"])
        .args(["-c", "environment.timeout=1"])
        // On machines where limits can't be raised, podman's default limits fail.
        .args(["-c", "environment.run_args=[\"--rm\", \"--ulimit\", \"nofile=1024:1024\", \"--ulimit\", \"nproc=1024:1024\"]"])
        .run()
        .expect(0)
        .nothing_left();
    let outputs = run.events("output");
    assert_eq!(outputs[0]["output"]["returncode"], 3, "{run}");
    assert_eq!(outputs[1]["output"]["output"], "a\n", "{run}");
    let filter = format!("label=mswea.run={}", run.run_id());
    let left = Command::new("podman")
        .args(["ps", "-aq", "--filter", &filter])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "");
}
