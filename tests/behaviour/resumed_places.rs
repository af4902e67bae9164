//! Where a run goes on: in a clone whose set-up was cut short, in a folder that others have used since.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use scripted_server::{Scenario, Server, Turn};

use crate::host::{Host, Signal};
use crate::run::Run;

fn server() -> Server {
    let turns = [
        Turn::commands(&["echo 1 >>log"]),
        Turn::commands(&["echo 2 >>log"]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log"]),
    ];
    Server::start(Scenario::new(turns).by_history())
}

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e", "-C"])
        .arg(folder)
        .args(args)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// A run that clones a repository into `clone`, with a git whose fetches make `begun` and wait until
/// `gate` is there.
fn cloning(server: &Server) -> Host {
    let host = Host::new().server(server).task("count");
    let dir = host.dir();
    let shown = dir.display();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" fetch \"*) [ -e '{shown}/gate' ] || {{ touch '{shown}/begun'; sleep 60; }};; esac\n\
         PATH=${{PATH#*:}}; exec git \"$@\"\n"
    );
    let host = host.file("bin/git", script).file("origin/a", "a\n");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.join("bin/git"), executable).unwrap();
    let origin = dir.join("origin");
    git(&origin, &["init", "-q", "."]);
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-qm", "1"]);
    let repo = format!("workspace.repo=file://{}", origin.display());
    slow(host.args(["-c", &repo, "-c", "workspace.path=clone"]))
}

/// With that git.
fn slow(host: Host) -> Host {
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = host.dir().join("bin");
    host.env("PATH", format!("{}:{path}", bin.display()))
}

fn resume(run: &Run) -> Host {
    slow(Host::after(run)).args(["resume", "traj.json"])
}

/// Kills a host during its clone.
fn killed_in_its_clone(host: Host) -> Run {
    let mut run = host.spawn();
    run.until_file("begun");
    run.signal(Signal::KILL);
    let run = run.wait();
    fs::remove_file(run.dir.join("begun")).unwrap();
    assert!(run.dir.join("clone/.git").exists());
    run
}

fn open_the_gate(run: &Run) {
    fs::write(run.dir.join("gate"), "").unwrap();
}

#[test]
fn a_clone_that_was_cut_short_is_made_again() {
    let server = server();
    let first = killed_in_its_clone(cloning(&server));
    // Once more, by the host that goes on.
    let second = killed_in_its_clone(resume(&first));
    open_the_gate(&second);
    let done = resume(&second).run().expect(0);
    assert_eq!(done.stdout, "1\n2\n");
    let done = done.says(&["emptying", "was cut short"]);
    assert_eq!(fs::read(done.dir.join("clone/a")).unwrap(), b"a\n");
    git(&done.dir.join("clone"), &["status"]);
    done.nothing_left();
}

/// The files of somebody else are never removed.
#[test]
fn a_folder_with_other_files_is_not_emptied() {
    let server = server();
    let first = killed_in_its_clone(cloning(&server));
    open_the_gate(&first);
    let clone = first.dir.join("clone");
    // A new run does not take the part of another one's set-up, a fork neither.
    let fork = ["fork", "traj.json", "--at", "0", "-o", "fork.json"];
    let fork = slow(Host::after(&first)).args(fork).run().expect(6);
    fork.says(&["is not empty"]);
    assert!(clone.join(".git").exists());
    // Another folder under the same name.
    let before = first.dir.join("before");
    fs::rename(&clone, &before).unwrap();
    fs::create_dir(&clone).unwrap();
    fs::write(clone.join("mine"), "mine\n").unwrap();
    resume(&first).run().expect(6).says(&["is not empty"]);
    assert_eq!(fs::read(clone.join("mine")).unwrap(), b"mine\n");
    fs::remove_dir_all(&clone).unwrap();
    // The same folder, which another run has taken since.
    fs::rename(&before, &clone).unwrap();
    for entry in fs::read_dir(&clone).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    let repo = format!("workspace.repo=file://{}/origin", first.dir.display());
    let other = slow(Host::after(&first)).server(&server);
    let other = other.args(["-t", "count", "-o", "other.json", "-c", &repo]);
    let other = other.args(["-c", "workspace.path=clone"]).run().expect(0);
    assert_eq!(other.stdout, "1\n2\n");
    resume(&first).run().expect(6).says(&["is not empty"]);
    assert_eq!(fs::read(clone.join("log")).unwrap(), b"1\n2\n");
}

/// A clone that takes the place of one that was removed is cut short: it is no clone to go on in.
#[test]
fn a_new_clone_that_was_cut_short_is_made_again_with_its_files() {
    let server = server();
    let host = cloning(&server).args(["--step-limit", "1"]);
    let gate = host.dir().join("gate");
    fs::write(&gate, "").unwrap();
    let first = host.run().expect(3);
    fs::remove_dir_all(first.dir.join("clone")).unwrap();
    fs::remove_file(&gate).unwrap();
    let second = killed_in_its_clone(resume(&first).args(["--step-limit", "9"]));
    open_the_gate(&second);
    let done = resume(&second).args(["--step-limit", "9"]).run().expect(0);
    assert_eq!(done.stdout, "1\n2\n");
    let done = done.says(&["was removed", "have been restored"]);
    let told = done.trajectory()["messages"].to_string();
    assert_eq!(told.matches("have been restored").count(), 1, "{told}");
}

/// A process with the id of a run in its environment. Dropping it kills it.
struct Marked(std::process::Child);

impl Marked {
    fn with(run_id: &str) -> Self {
        let mut sleep = Command::new("sleep");
        Self(
            sleep
                .arg("100")
                .env("MSWEA_RUN_ID", run_id)
                .spawn()
                .unwrap(),
        )
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host and its guardian may have been killed at any time before, not only the last one.
#[test]
fn processes_of_every_earlier_host_are_ended() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    let id = first.run_id();
    for _ in 0..2 {
        Host::after(&first)
            .args(["resume", "traj.json"])
            .run()
            .expect(3);
    }
    let ids = [id.clone(), format!("{id}.1"), format!("{id}.2")];
    let mut left: Vec<Marked> = ids.iter().map(|id| Marked::with(id)).collect();
    let others = [format!("{id}.9"), format!("{id}0"), "other".to_owned()];
    let mut others: Vec<Marked> = others.iter().map(|id| Marked::with(id)).collect();
    let done = Host::after(&first).args(["resume", "traj.json", "--step-limit", "9"]);
    done.run().expect(0);
    for (left, id) in left.iter_mut().zip(&ids) {
        assert!(left.has_ended(), "{id}");
    }
    assert!(others.iter_mut().all(|other| !other.has_ended()));
}

/// Two runs at a time would change each other's files.
#[test]
fn a_folder_in_which_another_run_works_is_left_to_it() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    let waiting = Server::start(Scenario::always(Turn::commands(&["touch begun; sleep 60"])));
    let other = Host::after(&first).server(&waiting);
    let mut other = other.args(["-t", "other", "-o", "other.json"]).spawn();
    other.until_file("begun");
    let journal = fs::read(first.dir.join("traj.events.jsonl")).unwrap();
    let resume = || Host::after(&first).args(["resume", "traj.json", "--step-limit", "2"]);
    let refused = resume().run().expect(2);
    refused.says(&["is working in", "wait for its end", "-c environment.cwd"]);
    assert_eq!(
        fs::read(first.dir.join("traj.events.jsonl")).unwrap(),
        journal
    );
    // A fork shares the folder on purpose.
    let fork = [
        "fork",
        "traj.json",
        "--at",
        "1",
        "--no-workspace",
        "-o",
        "fork.json",
    ];
    let fork = Host::after(&first).args(fork).args(["--step-limit", "1"]);
    fork.run()
        .expect(3)
        .says(&["is working in", "at this moment"]);
    // It does not work elsewhere.
    fs::create_dir(first.dir.join("elsewhere")).unwrap();
    let elsewhere = resume().args(["-c", "environment.cwd=elsewhere"]).run();
    elsewhere.expect(3).says(&["commands start in"]);
    other.signal(Signal::INT);
    other.wait().expect(130);
}

#[test]
fn from_another_folder_in_the_folder_of_the_run() {
    let server = server();
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "1"]).run().expect(3);
    let id = first.run_id();
    fs::create_dir(first.dir.join("below")).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_mswea-host"))
        .args(["resume", &id[..id.len() - 2], "--step-limit", "5"])
        .current_dir(first.dir.join("below"))
        .env("HOME", first.dir.parent().unwrap().join("home"))
        .env(
            "XDG_STATE_HOME",
            first.dir.parent().unwrap().join("home/.local/state"),
        )
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}");
    let log = fs::read_to_string(first.dir.join("log")).unwrap();
    assert_eq!(log, "1\n2\n", "{text}");
    let place = format!("in: {} ", first.dir.display());
    assert!(text.contains(&place), "{text}");
}

/// Both would work in the same folder, and do its actions twice.
#[test]
fn of_two_copies_of_a_run_only_the_one_that_is_ahead_goes_on() {
    let turns = [
        Turn::commands(&["echo 1 >>log"]),
        Turn::commands(&["echo 2 >>log"]),
        Turn::commands(&["echo 3 >>log; touch begun; sleep 60"]),
        Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log"]),
    ];
    let server = Server::start(Scenario::new(turns).by_history());
    let host = Host::new().server(&server).task("count");
    let run = host.args(["--step-limit", "1"]).run().expect(3);
    let copy = run.dir.join("copy");
    fs::create_dir(&copy).unwrap();
    for file in ["traj.json", "traj.events.jsonl"] {
        fs::copy(run.dir.join(file), copy.join(file)).unwrap();
    }
    let resume =
        |file: &str, limit: &str| Host::after(&run).args(["resume", file, "--step-limit", limit]);
    let has_refused = |file: &str, why: &str| {
        let refused = resume(file, "9").run().expect(2);
        refused.says(&["is a copy of", why, "mswea-host fork"]);
    };
    // As long as they are the same, either may go on. The other one is behind from then on.
    resume("copy/traj.json", "2").run().expect(3);
    has_refused("traj.json", "has gone on since");
    let mut going = resume("copy/traj.json", "9").spawn();
    going.until_file("begun");
    has_refused("traj.json", "goes on at this moment");
    going.signal(Signal::KILL);
    going.wait();
    fs::remove_dir_all(&copy).unwrap();
    let log = fs::read_to_string(run.dir.join("log")).unwrap();
    assert_eq!(log, "1\n2\n3\n");
    // What is gone does not count.
    resume("traj.json", "2").run().expect(3);
}
