//! Runs in sandboxes on this machine: where commands may write, that no processes and folders are left,
//! and the messages when a sandbox is not available.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::Turn;

use crate::host::{Host, Signal};
use crate::needs::{Need, outside_of_landlock};
use crate::run::Run;
use crate::story::{commands, git, turns};

const LANDLOCK: [&str; 2] = ["-c", "environment.sandbox=landlock"];

fn output(run: &Run, index: usize) -> String {
    let outputs = run.events("output");
    outputs[index]["output"]["output"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Fails if the run's folder for temporary files is not empty; a guardian has some seconds for it.
#[track_caller]
fn no_folder(run: &Run) {
    let left = || -> Vec<_> {
        let left = fs::read_dir(run.dir.with_file_name("tmp")).unwrap();
        left.map(|entry| entry.unwrap().file_name()).collect()
    };
    let end = Instant::now() + Duration::from_secs(5);
    while !left().is_empty() && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    let left = left();
    assert!(left.is_empty(), "left: {left:?}\n{run}");
}

#[test]
fn landlock_keeps_writes_in_the_workspace() {
    let Some(outside) = outside_of_landlock() else {
        return;
    };
    let allowed = outside.path().join("allowed");
    fs::create_dir(&allowed).unwrap();
    let place = outside.path().display();
    let server = commands(&[
        &format!(
            "echo x > inside && cat inside; echo x > '{place}/no'; echo x > '{place}/allowed/yes' && echo allowed"
        ),
        "(setsid sleep 601 &); echo y > \"$TMPDIR/t\" && echo temporary; echo z > /dev/null && echo null",
    ]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(LANDLOCK)
        .args([
            "-c",
            &format!("environment.writable=[\"{}\"]", allowed.display()),
        ])
        .run()
        .expect(0)
        .nothing_left();
    let text = output(&run, 0);
    assert!(
        text.starts_with("x\n") && text.ends_with("allowed\n"),
        "{text}"
    );
    assert!(text.contains("Permission denied"), "{text}");
    assert_eq!(output(&run, 1), "temporary\nnull\n");
    assert!(!outside.path().join("no").exists());
    assert!(allowed.join("yes").exists());
}

#[test]
fn landlock_can_deny_the_network() {
    if !Need::Landlock.is_met() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!(
        "if (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; then echo reached; else echo refused; fi"
    );
    for (network, expected) in [("true", "reached\n"), ("false", "refused\n")] {
        let server = commands(&[&connect]);
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(LANDLOCK)
            .args(["-c", &format!("environment.sandbox_network={network}")])
            .args(["-c", "environment.interpreter=[\"bash\", \"-c\"]"])
            .run()
            .expect(0);
        assert_eq!(output(&run, 0), expected, "{run}");
    }
}

#[test]
fn bubblewrap_shows_the_system_read_only() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    let yaml = "\
agent: {system_template: s, instance_template: '{{task}}', cost_limit: 0}
environment: {environment_class: bubblewrap, timeout: 20, env: {A: b}}
";
    let server = commands(&[
        "echo x > f; cat f; echo $A; touch /usr/no; ls /home 2>&1 | head -1; pwd",
        "(setsid sleep 602 &); sleep 603 & echo done",
    ]);
    let run = Host::new()
        .server(&server)
        .file("b.yaml", yaml)
        .task("x")
        .args(["-c", "b.yaml"])
        .run()
        .expect(0)
        .nothing_left();
    let text = output(&run, 0);
    assert!(text.starts_with("x\nb\n"), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
    assert_eq!(output(&run, 1), "done\n");
    assert!(
        !run.dir.join("f").exists(),
        "the command has written to the user's folder"
    );
    no_folder(&run);

    // With `--cwd`, commands write to the named folder.
    let server = commands(&["echo x > f"]);
    let run = Host::new()
        .server(&server)
        .file("place/here", "")
        .task("x")
        .args(["--environment-class", "bubblewrap", "--cwd", "place"])
        .run()
        .expect(0);
    assert!(run.dir.join("place/f").exists(), "{run}");
}

#[test]
fn a_killed_sandbox_leaves_nothing() {
    let mut classes: Vec<&[&str]> = Vec::new();
    if Need::Bubblewrap.is_met() {
        classes.push(&["--environment-class", "bubblewrap"]);
    }
    if Need::Landlock.is_met() {
        classes.push(&LANDLOCK);
    }
    for class in classes {
        for (signal, code) in [(Signal::INT, 130), (Signal::KILL, -9)] {
            let server = turns([Turn::commands(&[
                "(setsid sleep 604 &); touch $PWD/started; echo on; sleep 605",
            ])]);
            let mut running = Host::new().server(&server).task("x").args(class).spawn();
            running.until("the command", |running| {
                running
                    .journal()
                    .iter()
                    .any(|event| event["event"] == "action")
            });
            thread::sleep(Duration::from_millis(150));
            running.signal_group(signal);
            let run = running.wait().expect(code).nothing_left();
            no_folder(&run);
        }
    }
}

#[test]
fn the_copy_of_an_image_ends_with_its_host() {
    if !Need::Bubblewrap.is_met() {
        return;
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::KILL, -9)] {
        let server = commands(&["true"]);
        let host = Host::new()
            .server(&server)
            .task("x")
            .file("image/etc/os-release", "x")
            .file(
                "bin/cp",
                "#!/bin/sh\nmkdir \"$3\"; touch copying; sleep 606\n",
            )
            .args(["--environment-class", "bubblewrap", "--image", "image"]);
        let program = host.dir().join("bin");
        fs::set_permissions(program.join("cp"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let host = host.env("PATH", format!("{}:{path}", program.display()));
        let mut running = host.spawn();
        running.until_file("copying");
        running.signal_group(signal);
        let run = running.wait().expect(code).nothing_left();
        no_folder(&run);
        assert_eq!(server.served(), 0, "{run}");
    }
}

#[test]
fn a_run_needs_temporary_files_only_where_it_makes_a_folder() {
    let script = ["cat <<EOF >f\nhi $((1 + 1))\nEOF\ncat f", "mktemp; echo $?"];
    let run = |arguments: &[&str]| {
        let server = commands(&script);
        // Nobody can make a file there.
        let host = Host::new().server(&server).env("TMPDIR", "/proc/none");
        host.task("x").args(arguments).run()
    };
    for session in ["environment.session=false", "environment.session=true"] {
        let run = run(&["-c", session]).expect(0);
        assert_eq!(output(&run, 0), "hi 2\n", "{session} {run}");
        let said = output(&run, 1);
        assert!(
            said.contains("mktemp: failed") && said.contains("/proc/none"),
            "{run}"
        );
    }
    if Need::Bubblewrap.is_met() {
        let run = run(&["--environment-class", "bubblewrap"]).expect(6);
        run.says(&[
            "no temporary folder can be made in `/proc/none`",
            "`TMPDIR`",
        ]);
    }
}

#[test]
fn a_missing_sandbox_ends_the_run_before_the_first_request() {
    for (arguments, says) in [
        (
            &[
                "--environment-class",
                "bubblewrap",
                "-c",
                "environment.executable=/no/bwrap",
            ][..],
            &["/no/bwrap"][..],
        ),
        (
            &["--environment-class", "singularity", "--image", "x.sif"],
            &["singularity"],
        ),
        (
            &["--environment-class", "swerex_docker", "--image", "x"],
            &["swerex_docker", "write `docker`"],
        ),
    ] {
        let server = commands(&[]);
        let run = Host::new().server(&server).task("x").args(arguments).run();
        let code = if says[0] == "swerex_docker" { 2 } else { 6 };
        run.expect(code).says(says);
        assert_eq!(server.served(), 0);
    }
}

/// A stand-in for `singularity`: it records its arguments, and runs the command after `bash -c`.
const SINGULARITY: &str = r#"#!/bin/sh
{ printf '%s\n' "$@"; printf -- '--\n'; } >> "$RECORD"
case " $* " in
*" build "*)
    for last; do folder=$image; image=$last; done
    mkdir -p "$folder" && echo made > "$folder/made"
    exit
    ;;
esac
while [ "$1" != bash ]; do shift; done
exec "$@"
"#;

#[test]
fn singularity_gets_the_arguments_of_mini_swe_agent_without_values_of_variables() {
    let yaml = "\
agent: {system_template: s, instance_template: '{{task}}', cost_limit: 0}
environment:
  environment_class: singularity
  image: docker://python:3.11
  cwd: /testbed
  env: {A: b}
  forward_env: [FORWARDED, NOT_SET]
";
    let server = commands(&["echo ran $SINGULARITYENV_A $APPTAINERENV_FORWARDED"]);
    let host = Host::new()
        .server(&server)
        .file("s.yaml", yaml)
        .file("bin/singularity", SINGULARITY);
    let program = host.dir().join("bin/singularity");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let record = host.dir().join("record");
    let run = host
        .task("x")
        .args(["-c", "s.yaml"])
        .env("MSWEA_SINGULARITY_EXECUTABLE", &program)
        .env("RECORD", &record)
        .env("FORWARDED", "f")
        .args(["-c", "environment.env_allow=[\"RECORD\"]"])
        .run()
        .expect(0)
        .nothing_left();
    // The stand-in passes its own environment to the command.
    assert_eq!(output(&run, 0), "ran b f\n");
    let recorded = fs::read_to_string(record).unwrap();
    let mut calls = recorded.split("--\n");
    let build: Vec<&str> = calls.next().unwrap().lines().collect();
    let folder = build[2];
    assert_eq!(
        build,
        ["build", "--sandbox", folder, "docker://python:3.11"]
    );
    let exec = recorded
        .split("\n--\n")
        .find(|call| call.contains("echo ran"))
        .unwrap();
    let exec: Vec<&str> = exec.lines().collect();
    let expected = [
        "--quiet",
        "exec",
        "--contain",
        "--cleanenv",
        "--fakeroot",
        "--pwd",
        "/testbed",
        "--env",
    ];
    assert_eq!(exec[..expected.len()], expected);
    assert!(
        exec[expected.len()].starts_with("MSWEA_RUN_ID="),
        "{exec:?}"
    );
    let end = exec.len() - 5;
    assert_eq!(exec[end..end + 4], ["--writable", folder, "bash", "-c"]);
    assert!(
        !recorded.contains("FORWARDED=") && !recorded.contains("\nA="),
        "{recorded}"
    );
    no_folder(&run);
}

#[test]
fn a_repository_is_cloned_and_its_changes_are_salvaged() {
    let host = Host::new();
    let origin = host.dir().join("origin");
    fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q"]);
    fs::write(origin.join("file"), "one\n").unwrap();
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-qm", "one"]);
    let base = git(&origin, &["rev-parse", "HEAD"]).trim().to_owned();
    fs::write(origin.join("file"), "two\n").unwrap();
    git(&origin, &["commit", "-qam", "two"]);
    let server = turns([
        Turn::commands(&["cat file; echo changed > file; echo new > other; git rev-parse HEAD"]),
        Turn::status(401),
    ]);
    let run = host
        .server(&server)
        .task("x")
        .args(["-c", &format!("workspace.repo=file://{}", origin.display())])
        .args(["-c", &format!("workspace.base_commit=\"{base}\"")])
        .args(["-c", "workspace.path=clone"])
        .run()
        .expect(5)
        .nothing_left();
    assert_eq!(output(&run, 0), format!("one\n{base}\n"));
    let patch = run.events("salvaged")[0]["output"]["output"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(patch.contains("-one\n+changed\n"), "{patch}");
    assert!(patch.contains("+++ b/other"), "{patch}");
    assert_eq!(
        fs::read_to_string(run.dir.join("clone/file")).unwrap(),
        "changed\n"
    );
    assert_eq!(
        fs::read_to_string(run.dir.join("origin/file")).unwrap(),
        "two\n"
    );
}
