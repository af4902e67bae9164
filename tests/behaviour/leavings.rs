//! Leftovers of a run: nothing that belongs to the user or to another run is removed, and what the run
//! could not remove itself is removed soon after.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::{Fault, Scenario, Server, Turn};

use crate::host::{Host, Running, Signal};
use crate::needs::Need;
use crate::run::Run;
use crate::story::{commands, turns};

const IMAGE: &str = "mswea-test/bash";

fn docker(arguments: &[&str]) -> String {
    let run = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8_lossy(&run.stdout).trim().to_owned()
}

/// A name of a container or of an image that no other test uses.
fn own(what: &str) -> String {
    format!("mswea-test-leavings-{what}-{}", std::process::id())
}

fn is_there(container: &str) -> bool {
    !docker(&["ps", "-aq", "--filter", &format!("name=^{container}$")]).is_empty()
}

/// The containers with a run's id.
fn containers(run: &str) -> Vec<String> {
    let filter = format!("label=mswea.run={run}");
    let listed = docker(&["ps", "-aq", "--no-trunc", "--filter", &filter]);
    listed.lines().map(str::to_owned).collect()
}

#[track_caller]
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A docker client that first runs `script` with the arguments.
fn client(host: &Host, script: &str) -> PathBuf {
    let path = host.dir().join("client");
    let text = format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{script}\nexec docker \"$@\"\n");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A run in a container, by a command line client with `script` in front of it.
fn by_client(server: &Server, script: &str) -> Host {
    let host = Host::new().server(server).task("x");
    let client = client(&host, script);
    let executable = format!("environment.executable={}", client.display());
    host.args(["--image", IMAGE, "-c", &executable])
        .args(["-c", "environment.transport=cli"])
}

fn gc(host: &Path, arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_mswea-host"))
        .arg("gc")
        .args(arguments)
        .env_clear()
        .env("HOME", host)
        .env("XDG_STATE_HOME", host.join(".local/state"))
        .env("TMPDIR", host)
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    )
}

#[test]
fn a_container_of_the_user_with_the_same_name_is_left_alone() {
    if !Need::Docker.is_met() {
        return;
    }
    let name = own("dev");
    docker(&["run", "-d", "--name", &name, IMAGE, "sleep", "600"]);
    for args in [
        format!("[\"--name\",\"{name}\",\"--badflag\"]"),
        format!("[\"--name\",\"{name}\"]"),
    ] {
        for transport in ["api", "cli"] {
            let server = commands(&[]);
            let run = Host::new()
                .server(&server)
                .task("x")
                .args(["--image", IMAGE])
                .args(["-c", &format!("environment.transport={transport}")])
                .args(["-c", &format!("environment.run_args={args}")])
                .run()
                .expect(6);
            assert!(is_there(&name), "{args} {transport}\n{run}");
            let state = docker(&["inspect", "-f", "{{.State.Running}}", &name]);
            assert_eq!(state, "true");
            assert!(!run.stderr.contains(&run.run_id()), "{run}");
            // Without a record, neither the guardian nor the next start nor `gc` removes a container.
            let records = run.dir.join("../home/.local/state/mswea-host/containers");
            let records = fs::read_dir(records).map_or(0, Iterator::count);
            assert_eq!(records, 0, "{run}");
        }
    }
    docker(&["rm", "-f", &name]);
}

#[test]
fn a_container_from_a_committed_image_is_left_alone() {
    if !Need::Docker.is_met() {
        return;
    }
    let (image, copy) = (own("image"), own("copy"));
    let server = commands(&["echo work > /work"]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["--image", IMAGE, "-c", "environment.keep_container=true"])
        .run()
        .expect(0);
    let id = run.run_id();
    let kept = containers(&id).pop().unwrap();
    docker(&["commit", &kept, &image]);
    docker(&["run", "-d", "--name", &copy, &image, "sleep", "600"]);
    // The copy has all labels of the kept container.
    assert_eq!(containers(&id).len(), 2);

    // The next run removes leftovers when it starts.
    let next = Host::new()
        .server(&commands(&[]))
        .task("x")
        .args(["--image", IMAGE])
        .run()
        .expect(0);
    assert!(is_there(&copy), "{next}");
    let home = run.dir.join("../home").canonicalize().unwrap();
    for arguments in [&[][..], &["--run", &id]] {
        let said = gc(&home, arguments);
        assert!(is_there(&copy), "{said}");
        assert!(
            said.contains(&copy) && said.contains("docker commit"),
            "{said}"
        );
    }
    // `gc --run` has removed the kept container.
    let left = containers(&id);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(!left.contains(&kept));
    docker(&["rm", "-f", &copy]);
    docker(&["rmi", &image]);
}

#[test]
fn a_container_that_is_made_after_the_host_was_killed_is_removed() {
    if !Need::Docker.is_met() {
        return;
    }
    let script = "[ \"$1\" != run ] || { touch asked; sleep 2; docker \"$@\" >made; exit; }";
    let mut running = by_client(&commands(&[]), script).spawn();
    running.until_file("asked");
    running.signal(Signal::KILL);
    let run = running.wait().expect(-9);
    let made = run.dir.join("made");
    let id = || {
        fs::read_to_string(&made)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    soon("the container is made", || !id().is_empty());
    soon("it is removed", || {
        docker(&["ps", "-aq", "--no-trunc"])
            .lines()
            .all(|there| there != id())
    });
}

/// Runs until the model does not answer, and returns the run's id and its container.
fn waiting(running: &mut Running, server: &Server) -> (String, String) {
    running.until("the second query", |_| server.served() == 2);
    let id = running.journal()[0]["run_id"].as_str().unwrap().to_owned();
    let container = containers(&id).pop().unwrap();
    (id, container)
}

#[test]
fn the_guardian_removes_a_container_after_a_second_interrupt() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = turns([Turn::commands(&["true"]), Turn::fault(Fault::Silence)]);
    let script = "[ \"$1\" != rm ] || { touch removing; while [ -e hold ]; do sleep 0.1; done; }";
    let mut running = by_client(&server, script).file("hold", "").spawn();
    let (id, _) = waiting(&mut running, &server);
    running.signal(Signal::INT);
    running.until_file("removing");
    running.signal(Signal::INT);
    let run = running
        .wait()
        .expect(130)
        .says(&["not everything is cleaned up"]);
    assert_eq!(containers(&id).len(), 1, "{run}");
    fs::remove_file(run.dir.join("hold")).unwrap();
    soon("the container goes", || containers(&id).is_empty());
}

#[test]
fn the_guardian_removes_a_container_once_the_daemon_is_back() {
    if !Need::Docker.is_met() {
        return;
    }
    let script = "if [ -e away ]; then echo 'Cannot connect to the Docker daemon' >&2; exit 1; fi";
    let server = turns([Turn::commands(&["true"]), Turn::fault(Fault::Silence)]);
    let mut running = by_client(&server, script).spawn();
    let (id, _) = waiting(&mut running, &server);
    fs::write(running.dir().join("away"), "").unwrap();
    running.signal(Signal::INT);
    let run = running.wait().expect(130);
    assert_eq!(containers(&id).len(), 1, "{run}");
    fs::remove_file(run.dir.join("away")).unwrap();
    soon("the container goes", || containers(&id).is_empty());
}

#[test]
fn values_of_variables_are_in_no_arguments() {
    if !Need::Docker.is_met() {
        return;
    }
    for fast in ["true", "false"] {
        let server = commands(&["echo \"$SET/$FORWARDED/$https_proxy\""]);
        let run = by_client(
            &server,
            "for word; do printf '%s\\n' \"$word\" >>arguments; done",
        )
        .env("FORWARDED", "value-two")
        .args(["-c", "environment.forward_env=[\"FORWARDED\"]"])
        .args(["-c", "environment.env.SET=value-one"])
        .args(["-c", "environment.env.https_proxy=http://u:value-three@p"])
        .args(["-c", &format!("environment.fast_path={fast}")])
        .run()
        .expect(0);
        let output = &run.events("output")[0]["output"]["output"];
        assert_eq!(
            output, "value-one/value-two/http://u:value-three@p\n",
            "{run}"
        );
        let arguments = fs::read_to_string(run.dir.join("arguments")).unwrap();
        assert!(arguments.contains("exec\n"), "{arguments}");
        assert!(!arguments.contains("value-"), "{arguments}");
    }
}

#[test]
fn commands_start_in_a_folder_that_was_made_anew() {
    let server = commands(&[
        "here=$PWD; rm -rf \"$here\"; mkdir \"$here\"; echo made >file",
        "pwd; ls",
        "here=$PWD; cd ..; rm -rf \"$here\"; mkdir \"$here\"",
        "ls; echo end",
    ]);
    let run = in_a_folder(&server).run().expect(0);
    let outputs = run.events("output");
    let text = |index: usize| outputs[index]["output"]["output"].as_str().unwrap();
    assert!(text(1).ends_with("/work/inner\n"), "{}", text(1));
    assert_eq!(text(3), "end\n", "{run}");
    assert_eq!(run.stdout, "done\n");
}

#[test]
fn a_removed_folder_ends_the_run() {
    let command = Turn::commands(&["rm -rf \"$PWD\""]);
    let server = Server::start(Scenario::always(command));
    let run = in_a_folder(&server).run().expect(6);
    assert_eq!(run.exit_status(), "EnvironmentError");
    let run = run.says(&["/work/inner`, in which every command starts, is gone"]);
    assert!(server.served() <= 2, "{run}");
    if !Need::Docker.is_met() {
        return;
    }
    for arguments in [&[][..], &["-c", "environment.fast_path=false"]] {
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(["--image", IMAGE, "--cwd", "/testbed"])
            .args(arguments)
            .run()
            .expect(6);
        assert_eq!(run.exit_status(), "EnvironmentError");
        run.says(&["`/testbed`, in which every command starts, is gone"]);
    }
}

/// A run in another folder than that of its files.
fn in_a_folder(server: &Server) -> Host {
    let host = Host::new().server(server);
    let inner = host.dir().join("inner");
    fs::create_dir(&inner).unwrap();
    let trajectory = host.dir().join("traj.json");
    // The program itself is started in the folder, as from a user's shell.
    let script = format!(
        "#!/bin/sh\ncd '{}' && exec '{}' \"$@\"\n",
        inner.display(),
        env!("CARGO_BIN_EXE_mswea-host")
    );
    let start = host.dir().join("start");
    fs::write(&start, script).unwrap();
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).unwrap();
    host.program(&start)
        .args(["-t", "x", "--step-limit", "20", "-l", "0"])
        .arg("-o")
        .arg(trajectory)
}

#[test]
fn a_command_that_ended_while_the_host_was_stopped_has_not_timed_out() {
    let server = commands(&["touch begun; sleep 0.5; echo ended; exit 3"]);
    let mut running = Host::new()
        .server(&server)
        .task("x")
        .args(["-c", "environment.timeout=2"])
        .spawn();
    running.until_file("begun");
    running.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(4));
    running.signal(Signal::CONT);
    let run = running.wait().expect(0);
    let output = &run.events("output")[0]["output"];
    assert_eq!(output["output"], "ended\n", "{run}");
    assert_eq!(output["returncode"], 3, "{run}");
}

fn repository(folder: &Path) {
    let script = "git init -q . && for n in $(seq 400); do echo $n >file$n; done && git add . && \
                  git -c user.name=n -c user.email=e commit -qm one";
    fs::create_dir_all(folder).unwrap();
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .status();
    assert!(made.unwrap().success());
}

#[test]
fn two_runs_do_not_share_a_workspace() {
    let place = tempfile::tempdir().unwrap();
    let (origin, work) = (place.path().join("origin"), place.path().join("new/work"));
    repository(&origin);
    let state = place.path().join("state");
    for round in 0..6 {
        let server = commands(&["ls | wc -l", "sleep 1; git status --porcelain; ls | wc -l"]);
        let start = || {
            Host::new()
                .server(&server)
                .task("x")
                .env("XDG_STATE_HOME", &state)
                .args(["-c", &format!("workspace.repo=file://{}", origin.display())])
                .args(["-c", &format!("workspace.path={}", work.display())])
                .spawn()
        };
        let (one, other) = (start(), start());
        let (one, other) = (one.wait(), other.wait());
        let (won, lost) = match one.status {
            0 => (one, other),
            _ => (other, one),
        };
        let won: Run = won.expect(0);
        let outputs = won.events("output");
        for output in &outputs[..2] {
            assert_eq!(
                output["output"]["output"], "400\n",
                "{round}\n{won}\n{lost}"
            );
        }
        let lost = lost.expect(6);
        let named = format!("the run `{}` (process ", won.run_id());
        assert!(
            lost.stderr.contains(&named) || lost.stderr.contains("is not empty"),
            "{won}\n{lost}"
        );
        fs::remove_dir_all(place.path().join("new")).unwrap();
    }
}

#[test]
fn credentials_of_a_killed_clone_are_removed() {
    // A server of repositories that never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = commands(&[]);
    let mut running = Host::new()
        .server(&server)
        .task("x")
        .args([
            "-c",
            &format!("workspace.repo=http://u:sesame@{address}/r.git"),
        ])
        .args(["-c", "workspace.path=clone"])
        .spawn();
    let secret = running.dir().join("clone/.git/mswea-setup/credentials");
    running.until("the credentials", |_| {
        fs::read_to_string(&secret).is_ok_and(|text| text.contains("sesame"))
    });
    running.signal(Signal::KILL);
    let run = running.wait().expect(-9);
    soon("the credentials go", || !secret.exists());
    let left = || fs::read_dir(run.dir.join("../tmp")).unwrap().count();
    soon("the temporary folders go", || left() == 0);
}
