//! Many workers on one batch: every instance gets exactly one result, whatever is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use scripted_server::{After, Scenario, Server, Turn};
use serde_json::Value;

use crate::host::{Host, Running, Signal};
use crate::needs::Need;
use crate::run::Run;

/// The id of the instance at this place.
pub fn instance(place: usize) -> String {
    format!("i{place:03}")
}

pub fn instances(count: usize) -> String {
    let line = |i| format!("{{\"id\": \"{}\", \"task\": \"Do {i}\"}}\n", instance(i));
    (0..count).map(line).collect()
}

pub fn server(delay: u64) -> Server {
    let commands = [
        "echo one >> steps",
        "sleep 0.02; echo two >> steps",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat steps",
    ];
    let turns =
        commands.map(|command| Turn::commands(&[command]).with_delay(Duration::from_millis(delay)));
    let scenario = Scenario::new(turns).by_history().then(After::Repeat);
    Server::start(scenario).recording(false)
}

pub fn flags(host: Host, server: &Server) -> Host {
    host.server(server).args(["-l", "0", "-q"])
}

fn prepared(host: Host, server: &Server) -> Run {
    let host = host.args(["batch", "submit", "out", "--engine", "none"]);
    flags(host.args(["--instances", "i.jsonl"]), server)
        .run()
        .expect(0)
}

fn worker(host: Host, server: &Server, arguments: &[&str]) -> Host {
    let host = host.args(["batch", "worker", "out", "--lease", "8"]);
    flags(host.args(arguments), server)
}

/// The result of each instance that has one.
pub fn results(out: &Path) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        if let Ok(text) = fs::read(entry.path().join("result.json")) {
            let result = serde_json::from_slice(&text).unwrap();
            found.insert(entry.file_name().into_string().unwrap(), result);
        }
    }
    found
}

/// The attempts at each instance that have submitted, and those that were begun.
pub fn attempts(out: &Path, id: &str) -> (usize, usize) {
    let (mut submitted, mut begun) = (0, 0);
    for entry in fs::read_dir(out.join(id)).unwrap().flatten() {
        let journal = entry.path().join(format!("{id}.events.jsonl"));
        if let Ok(text) = fs::read_to_string(journal) {
            begun += 1;
            submitted += usize::from(text.contains("\"event\":\"submitted\""));
        }
    }
    (submitted, begun)
}

/// Every instance has one result, which is that of the files beside it.
pub fn whole(out: &Path, count: usize, run: &Run) {
    let results = results(out);
    assert_eq!(results.len(), count, "{run}");
    for (id, result) in &results {
        assert_eq!(result["exit_status"], "Submitted", "{result}\n{run}");
        // Each attempt has a folder of its own, so nothing is there twice.
        assert_eq!(result["submission"], "one\ntwo\n", "{result}\n{run}");
        let trajectory = fs::read(out.join(id).join(format!("{id}.traj.json"))).unwrap();
        let trajectory: Value = serde_json::from_slice(&trajectory).unwrap();
        assert_eq!(
            trajectory["info"]["mswea"]["run_id"], result["run_id"],
            "{id}"
        );
        assert!(attempts(out, id).0 >= 1, "{id}");
    }
}

/// The death of a worker counts as an attempt.
const KILLED: &[&str] = &["-w", "2", "--retries", "9"];

#[test]
fn workers_share_a_batch_and_may_be_killed() {
    let server = server(20);
    let count = 24;
    let run = prepared(Host::new().file("i.jsonl", instances(count)), &server);
    let out = run.dir.join("out");
    let index = |index: usize| ["--index".to_owned(), index.to_string()];
    let first = worker(Host::after(&run), &server, KILLED)
        .args(index(0))
        .spawn();
    let mut running: Vec<Running> = (1..3)
        .map(|i| {
            worker(Host::beside(&first), &server, KILLED)
                .args(index(i))
                .spawn()
        })
        .collect();
    // Nobody works on it alone meanwhile.
    let mut first = first;
    first.until("a claim", |_| out.join("i000/claim.1").exists());
    let alone = Host::beside(&first).args(["batch", "run", "out", "-w", "2"]);
    flags(alone, &server)
        .run()
        .expect(2)
        .says(&["another process works on"]);
    let mut killed = 0;
    while results(&out).len() < count && killed < 6 {
        thread::sleep(Duration::from_millis(120));
        let last = running.pop().unwrap();
        last.signal(Signal::KILL);
        running.insert(0, worker(Host::beside(&last), &server, KILLED).spawn());
        last.wait();
        killed += 1;
    }
    for one in running {
        one.wait().expect(0);
    }
    let run = first.wait().expect(0);
    whole(&out, count, &run);
    assert!(killed > 0, "{run}");
    // A worker was killed between a result and the files beside it.
    for name in ["i000.events.jsonl", "i000.traj.json"] {
        fs::remove_file(out.join("i000").join(name)).unwrap();
    }
    // Of another one only the trajectory is missing, also that of the attempt.
    for folder in [
        out.join("i001"),
        out.join("i001/attempt.1"),
        out.join("i001/attempt.2"),
    ] {
        let _ = fs::remove_file(folder.join("i001.traj.json"));
    }
    let run = worker(Host::after(&run), &server, KILLED).run().expect(0);
    let run = run.says(&["24 of 24 instances have a result already · 24 Submitted"]);
    whole(&out, count, &run);
    let text = fs::read_to_string(out.join("i001/i001.traj.json")).unwrap();
    assert!(text.contains("\"instance_id\": \"i001\""), "{run}");
    let run = Host::after(&run)
        .args(["batch", "preds", "out"])
        .run()
        .expect(0);
    let preds: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(preds.as_object().unwrap().len(), count);
}

#[test]
fn a_worker_that_is_told_to_stop_gives_back_what_it_has_and_says_why() {
    let at_its_limit = "the time limit of this worker's job is near";
    given_back(Signal::USR1, at_its_limit);
    given_back(Signal::TERM, "this worker was told to stop");
}

fn given_back(signal: Signal, said: &str) {
    let server = server(600);
    let count = 4;
    let run = prepared(Host::new().file("i.jsonl", instances(count)), &server);
    let out = run.dir.join("out");
    let mut running = worker(Host::after(&run), &server, &["-w", "2"]).spawn();
    running.until("a reply in each of two attempts", |_| {
        ["i000", "i001"].iter().all(|id| {
            let journal = out.join(format!("{id}/attempt.1/{id}.events.jsonl"));
            fs::read_to_string(journal).is_ok_and(|text| text.contains("\"event\":\"reply\""))
        })
    });
    running.signal(signal);
    let run = running.wait().expect(75).says(&[said]);
    for id in ["i000", "i001"] {
        let why = fs::read_to_string(out.join(id).join("claim.1.free"));
        assert_eq!(why.unwrap(), "released", "{run}");
    }
    assert!(results(&out).is_empty(), "{run}");
    let run = Host::after(&run)
        .args(["batch", "status", "out"])
        .run()
        .expect(0);
    assert!(run.stdout.contains("0 of 4 instances"), "{run}");
    let run = worker(Host::after(&run), &server, &["-w", "4"])
        .run()
        .expect(0);
    whole(&out, count, &run);
    let result = &results(&out)["i000"];
    assert_eq!(result["attempts"], 2);
    let report = |arguments: &[&str]| {
        let host = Host::after(&run).args(["batch", "report", "out"]);
        host.args(arguments).run().expect(0).stdout.clone()
    };
    let figures: Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let lost = &figures["lost"];
    assert_eq!(lost["attempts"], 2, "{figures}");
    assert!(lost["queries"].as_u64().unwrap() >= 2, "{figures}");
    let text = report(&[]);
    assert!(text.contains("lost, and not in the sums: "), "{text}");
}

#[test]
fn an_instance_that_kills_its_worker_gets_a_result() {
    let server = server(200);
    let run = prepared(Host::new().file("i.jsonl", instances(1)), &server);
    let out = run.dir.join("out");
    let mut host = Host::after(&run);
    for attempt in 1..=2 {
        let mut running = worker(host, &server, &["--retries", "1"]).spawn();
        let claim = out.join(format!("i000/claim.{attempt}"));
        running.until("the claim", |_| claim.exists());
        running.signal(Signal::KILL);
        host = Host::after(&running.wait());
    }
    let run = worker(host, &server, &["--retries", "1"]).run().expect(1);
    let result = &results(&out)["i000"];
    assert_eq!(result["exit_status"], "AttemptsExhausted", "{run}");
    let error = result["error"].as_str().unwrap();
    assert!(
        error.contains("2 attempts have ended without a result"),
        "{error}"
    );
}

#[test]
fn lost_files_of_an_instance_with_a_result_come_back() {
    let server = server(0);
    let run = prepared(Host::new().file("i.jsonl", instances(1)), &server);
    let run = worker(Host::after(&run), &server, &[]).run().expect(0);
    let own = run.dir.join("out").join(instance(0));
    let [journal, trajectory] =
        ["events.jsonl", "traj.json"].map(|it| format!("{}.{it}", instance(0)));
    let read = |name: &str| fs::read(own.join(name)).unwrap();
    let before = (read(&journal), read(&trajectory));
    let of_attempt = own.join("attempt.1").join(&trajectory);
    for lost in [
        vec![own.join(&trajectory)],
        vec![own.join(&journal), own.join(&trajectory), of_attempt],
    ] {
        for file in &lost {
            fs::remove_file(file).unwrap();
        }
        worker(Host::after(&run), &server, &[]).run().expect(0);
        assert_eq!((read(&journal), read(&trajectory)), before, "{lost:?}");
    }
    assert_eq!(attempts(&run.dir.join("out"), &instance(0)), (1, 1));
}

#[test]
fn a_worker_that_was_frozen_asks_nothing_more_when_another_one_has_its_instance() {
    let server = server(300);
    let run = prepared(Host::new().file("i.jsonl", instances(1)), &server);
    let out = run.dir.join("out");
    let lease = ["--lease", "3"];
    let mut frozen = worker(Host::after(&run), &server, &lease).spawn();
    let journal = out.join("i000/attempt.1/i000.events.jsonl");
    frozen.until("a query", |_| {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"query_started\""))
    });
    frozen.signal(Signal::STOP);
    let queries = || {
        fs::read_to_string(&journal)
            .unwrap()
            .matches("\"query_started\"")
            .count()
    };
    let before = queries();
    let run = worker(Host::beside(&frozen), &server, &lease)
        .run()
        .expect(0);
    assert_eq!(results(&out)["i000"]["attempts"], 2, "{run}");
    frozen.signal(Signal::CONT);
    let run = frozen.wait().expect(0);
    whole(&out, 1, &run);
    assert_eq!(attempts(&out, "i000"), (1, 2), "{run}");
    assert_eq!(queries(), before, "{run}");
}

#[test]
fn the_engine_is_asked_as_long_as_a_worker_is_silent() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = server(0);
    // It knows the job at first.
    let squeue = "#!/bin/sh\necho >>\"$HOME/asked\"\n[ \"$(wc -l <\"$HOME/asked\")\" -gt 4 ] || echo '7|T1'\n";
    let host = Host::new()
        .file("i.jsonl", instances(1))
        .file("bin/squeue", squeue);
    let run = prepared(host, &server);
    let out = run.dir.join("out");
    let program = run.dir.join("bin/squeue");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(out.join("i000")).unwrap();
    let claim = "{\"engine\": \"slurm\", \"job\": \"7\", \"start\": \"T1\", \"host\": \"elsewhere/b/p\", \"pid\": 1, \"since\": 1, \"token\": \"t\"}";
    fs::write(out.join("i000/claim.1"), claim).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", run.dir.join("bin").display());
    let host = Host::after(&run).args(["batch", "worker", "out", "--lease", "1"]);
    let host = flags(host.args(["--engine", "slurm"]), &server).env("PATH", path);
    let run = host.run().expect(0);
    let asked = fs::read_to_string(Host::after(&run).home().join("asked")).unwrap();
    assert!(asked.lines().count() > 4, "{asked:?}");
    assert_eq!(results(&out)["i000"]["attempts"], 2, "{run}");
}

#[test]
fn mistakes_are_refused() {
    let server = server(0);
    let none = Host::new();
    let run = worker(none, &server, &[]).run().expect(2);
    run.says(&["is not the directory of a batch"]);
    let run = prepared(Host::new().file("i.jsonl", instances(2)), &server);
    let cases: &[(&[&str], &str)] = &[
        (
            &["-c", "agent.step_limit=7"],
            "has begun with another config",
        ),
        (
            &["--total-cost-limit", "1"],
            "one worker of many does not see",
        ),
        (
            &["--index-env", "NO_SUCH_INDEX"],
            "there is no variable of this name",
        ),
    ];
    let mut last = run;
    for (arguments, words) in cases {
        last = worker(Host::after(&last), &server, arguments)
            .run()
            .expect(2)
            .says(&[words]);
    }
    let run = Host::after(&last)
        .args(["batch", "cancel", "out"])
        .run()
        .expect(2);
    let run = run.says(&["no job was submitted"]);
    // Jobs were submitted, and this machine has no Slurm.
    let host = Host::after(&run).file("out/jobs", "7\n");
    let host = host.env("PATH", "/nonexistent");
    let run = host.args(["batch", "cancel", "out"]).run().expect(2);
    let run = run.says(&["there is no `scancel` here", "Slurm's commands"]);
    let host = Host::after(&run).env("PATH", "/nonexistent");
    let run = host.args(["batch", "status", "out"]).run().expect(0);
    assert!(
        run.stdout
            .contains("jobs in the queue: not known, there is no `squeue` here"),
        "{run}"
    );
    let host = Host::after(&run).env("PATH", "/nonexistent");
    let run = host.args(["batch", "status", "out", "--json"]).run();
    let shown: Value = serde_json::from_str(&run.expect(0).stdout).unwrap();
    assert_eq!(
        (&shown["queue"], &shown["instances"]),
        (&Value::Null, &2.into())
    );
    assert!(shown["queue_error"].as_str().unwrap().contains("squeue"));
}

/// What a worker needs of apptainer: it unpacks an image into a folder, and runs a command in it; here without a
/// sandbox.
const APPTAINER: &str = r#"#!/bin/bash
env=()
while [ $# -gt 0 ]; do
  case $1 in
    --version) echo 'apptainer version 1.3.4'; exit 0;;
    build) [ "$2" = --sandbox ] && [ ! -e "$3" ] && [ -d "$4" ] && exec cp -a "$4" "$3"; exit 9;;
    --env) env+=("$2"); shift;;
    --writable) root=$2; shift;;
    --pwd) pwd=$2; shift;;
    bash) break;;
  esac
  shift
done
cd "$root/$pwd" && exec env -i PATH="$PATH" "${env[@]}" "$@"
"#;

#[test]
fn a_node_without_docker_uses_unpacked_images() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = server(0);
    let mut host = Host::new()
        .file("i.jsonl", instances(2))
        .file("bin/apptainer", APPTAINER);
    for id in [0, 1].map(instance) {
        host = host.file(&format!("images/{id}/work/steps"), format!("of {id}\n"));
    }
    let dir = host.dir();
    let program = dir.join("bin/apptainer");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", dir.join("bin").display());
    let image = format!("--image-template={}/images/{{{{ id }}}}", dir.display());
    let class = [
        "--environment-class",
        "apptainer",
        "-c",
        "environment.cwd=/work",
    ];
    let host = host.args(["batch", "submit", "out", "--engine", "none"]);
    let host = host.args(["--instances", "i.jsonl", &image]).args(class);
    let run = flags(host, &server).env("PATH", &path).run().expect(0);
    let host = worker(Host::after(&run), &server, &class).env("PATH", &path);
    let run = host.run().expect(0);
    for (id, result) in results(&dir.join("out")) {
        let expected = format!("of {id}\none\ntwo\n");
        assert_eq!(result["submission"], expected, "{result}\n{run}");
        // Each run has had a copy.
        let kept = fs::read_to_string(dir.join("images").join(&id).join("work/steps"));
        assert_eq!(kept.unwrap(), format!("of {id}\n"));
    }
    assert_eq!(results(&dir.join("out")).len(), 2, "{run}");
}

/// Unpacks an image as the page on clusters says.
fn unpacked(image: &str, folder: &Path) {
    let script = "mkdir -p \"$2\" && id=$(docker create \"$1\" sh) && docker export \"$id\" | tar -x -C \"$2\" && docker rm \"$id\"";
    let mut command = std::process::Command::new("sh");
    let command = command.args(["-c", script, "sh", image]).arg(folder);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[test]
fn a_node_with_bubblewrap_alone_uses_unpacked_images() {
    use std::os::unix::fs::PermissionsExt as _;
    if !Need::Docker.is_met() || !Need::Bubblewrap.is_met() {
        return;
    }
    let commands = [
        "id -u >>steps; echo $HOME >>steps; pwd >>steps; ls -d /usr/share >>steps 2>&1; echo x >/tmp/kept",
        "cat /tmp/kept >>steps; echo $HIDDEN$SHOWN >>steps; cat /etc/hosts >/dev/null && echo hosts >>steps",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat steps",
    ];
    let scenario = Scenario::new(commands.map(|it| Turn::commands(&[it])));
    let server = Server::start(scenario.by_history().then(After::Repeat));
    let host = Host::new().file("i.jsonl", instances(3));
    let dir = host.dir();
    for id in [0, 1].map(instance) {
        unpacked("mswea-test/bash", &dir.join("images").join(&id));
        let steps = dir.join("images").join(&id).join("testbed/steps");
        fs::write(steps, format!("of {id}\n")).unwrap();
    }
    let image = format!("--image-template={}/images/{{{{ id }}}}", dir.display());
    let class = ["--environment-class", "bubblewrap"];
    // Version 0.4 lacks an option.
    let old = "#!/bin/sh\ncase \" $* \" in *' --clearenv '*) echo 'bwrap: Unknown option --clearenv' >&2; exit 1;; esac\nexec bwrap \"$@\"\n";
    let program = dir.join("old-bwrap");
    fs::write(&program, old).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let executable = format!("environment.executable={}", program.display());
    let config = [
        "-c",
        executable.as_str(),
        "-c",
        "environment.cwd=/testbed",
        "-c",
        "environment.env.SHOWN=shown",
    ];
    let host = host.args(["batch", "submit", "out", "--engine", "none"]);
    let host = host.args(["--instances", "i.jsonl", &image]);
    let run = flags(host.args(class).args(config), &server)
        .run()
        .expect(0);
    let host = worker(Host::after(&run), &server, &class).args(config);
    let host = host
        .args(["-w", "3", "--retries", "0"])
        .env("HIDDEN", "hidden");
    let run = host.run().expect(1);
    let results = results(&dir.join("out"));
    for id in [0, 1].map(instance) {
        let result = &results[&id];
        let seen =
            "0\n/root\n/testbed\nls: /usr/share: No such file or directory\nx\nshown\nhosts\n";
        assert_eq!(
            result["submission"],
            format!("of {id}\n{seen}"),
            "{result}\n{run}"
        );
        // Each run has had a copy.
        let kept = fs::read_to_string(dir.join("images").join(&id).join("testbed/steps"));
        assert_eq!(kept.unwrap(), format!("of {id}\n"));
    }
    let left = fs::read_dir(dir.with_file_name("tmp")).unwrap();
    assert_eq!(left.count(), 0, "{run}");
    // There is no folder for the last one.
    let failed = &results[&instance(2)];
    assert_eq!(failed["exit_status"], "EnvironmentError", "{failed}");
    let error = failed["error"].as_str().unwrap();
    for part in ["images/i002", "No such file", "docker export"] {
        assert!(error.contains(part), "{error}");
    }
}
