//! Tests of the guardian, with this test program in its role and in that of the host.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;
use crate::{adopt_orphans, guard};

/// A program that takes `__guard RUN` and runs the guardian's body in a copy of this one.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("guard");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = __guard ] || exit 9\necho $$ >>'{}'\nMSWEA_TEST_GUARD=$2 exec '{}' --exact --ignored --quiet {}::guard_body\n",
        folder.join("guards").display(),
        std::env::current_exe().unwrap().display(),
        module_path!().split_once("::").unwrap().1,
    );
    // Written by another process: a descriptor of this one could be inherited by a child of another
    // test while it is open for writing, and the script could not be run.
    let written = Command::new("sh")
        .args([
            "-c",
            "printf %s \"$1\" >\"$2\"; chmod +x \"$2\"",
            "sh",
            &script,
        ])
        .arg(&path)
        .status();
    assert!(written.unwrap().success());
    path
}

fn guarded(program: &Path) -> LocalExecutor {
    LocalExecutor::new(LocalSettings {
        guard_program: Some(program.to_owned()),
        ..settings()
    })
}

#[test]
#[ignore = "a role in other tests"]
fn guard_body() {
    if let Ok(run_id) = std::env::var("MSWEA_TEST_GUARD") {
        guard::run(&run_id, |_| {});
    }
}

#[tokio::test]
#[ignore = "a role in other tests"]
async fn host_body() {
    let Some(folder) = std::env::var_os("MSWEA_TEST_HOST").map(PathBuf::from) else {
        return;
    };
    let mut other = guarded(&folder.join("guard"));
    let mut executor = guarded(&folder.join("guard"));
    let pids = folder.join("pids");
    let pids = pids.display();
    run(
        &mut other,
        &format!("setsid -f sh -c 'echo $$ >>\"{pids}\"; exec sleep 100'"),
    )
    .await;
    run(&mut executor, &format!("sleep 100 & echo $! >>'{pids}'")).await;
    run(
        &mut executor,
        &format!("(setsid sh -c 'trap \"\" TERM; echo $$ >>\"{pids}\"; sleep 100; :' &)"),
    )
    .await;
    run(&mut executor, &format!("echo $$ >>'{pids}'; sleep 100; :")).await;
}

#[tokio::test]
#[ignore = "a role in other tests"]
async fn subreaper_body() {
    if std::env::var_os("MSWEA_TEST_SUBREAPER").is_none() {
        return;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let mut executor = LocalExecutor::new(settings());
    // The first process ends by itself, the second has to be killed.
    let command =
        "(setsid sh -c 'echo $$' &); (setsid sh -c 'echo $$; exec sleep 100' &); sleep 0.2";
    let orphans = run(&mut executor, command).await.output;
    let orphans: Vec<_> = orphans.lines().map(|pid| format!("/proc/{pid}")).collect();
    assert_eq!(orphans.len(), 2);
    assert!(orphans.iter().all(|path| Path::new(path).exists()));
    executor.cleanup().await;
    assert!(
        orphans.iter().all(|path| !Path::new(path).exists()),
        "{orphans:?}"
    );
    // Children for which other code waits are left to it.
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_host_that_inherits_orphans_reaps_them() {
    let role = format!(
        "{}::subreaper_body",
        module_path!().split_once("::").unwrap().1
    );
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--quiet", &role])
        .env("MSWEA_TEST_SUBREAPER", "1")
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn nothing_outlives_a_killed_host() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path());
    let role = format!("{}::host_body", module_path!().split_once("::").unwrap().1);
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--quiet", &role])
        .env("MSWEA_TEST_HOST", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let left = pids(&folder.path().join("pids"), 4);
    let guards = pids(&folder.path().join("guards"), 1);
    assert_eq!(guards.len(), 1, "one for all runs of a host");
    assert!(left.iter().chain(&guards).all(|pid| lives(pid)), "{left:?}");
    // Signals that a terminal or a person sends do not end the guardian.
    for signal in ["-INT", "-TERM", "-HUP"] {
        assert!(
            Command::new("kill")
                .args([signal, &guards[0]])
                .status()
                .unwrap()
                .success()
        );
    }
    let environ = std::fs::read(format!("/proc/{}/environ", guards[0])).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains("MSWEA_RUN_ID"));

    host.kill().unwrap();
    assert_eq!(host.wait().unwrap().signal(), Some(9));
    wait_for("end", || left.iter().chain(&guards).all(|pid| !lives(pid)));
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn bare_host_body() {
    let Some(folder) = std::env::var_os("MSWEA_TEST_BARE").map(PathBuf::from) else {
        return;
    };
    adopt_orphans();
    let mut executor = guarded(&folder.join("guard"));
    let pids = folder.join("pids");
    let pids = pids.display();
    let daemon = format!("(env -i setsid sh -c 'echo $$ >>\"{pids}\"; exec sleep 100' &)");
    run(&mut executor, &daemon).await;
    let command = format!("{daemon}; sleep 1; echo $$ >>'{pids}'; exec env -i sleep 100");
    run(&mut executor, &command).await;
}

#[test]
fn nothing_outlives_a_killed_host_whatever_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path());
    let mut host = in_its_own_process(module_path!(), "bare_host_body")
        .env("MSWEA_TEST_BARE", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let left = pids(&folder.path().join("pids"), 3);
    assert!(left.iter().all(|pid| lives(pid)), "{left:?}");
    // The last process must have replaced its shell, and so its environment.
    let last = format!("/proc/{}/environ", left[2]);
    wait_for("bare process", || std::fs::read(&last).unwrap().is_empty());
    host.kill().unwrap();
    host.wait().unwrap();
    wait_for("end", || !left.iter().any(|pid| lives(pid)));
}

#[tokio::test]
async fn the_guardian_goes_with_the_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let (mut one, mut other) = (guarded(&program), guarded(&program));
    one.start(&context(), None).await.unwrap();
    assert!(
        !folder.path().join("guards").exists(),
        "not before there is something to guard"
    );
    assert_eq!(run(&mut one, "echo 1").await.output, "1\n");
    assert_eq!(run(&mut other, "echo 2").await.output, "2\n");
    let guards = pids(&folder.path().join("guards"), 1);
    assert_eq!(guards.len(), 1);
    one.cleanup().await;
    assert!(lives(&guards[0]));
    other.cleanup().await;
    assert!(!lives(&guards[0]));
    assert!(
        !Path::new(&format!("/proc/{}", guards[0])).exists(),
        "no zombie"
    );

    // A later action has a guardian again, and one that was killed is replaced.
    run(&mut one, "true").await;
    let second = pids(&folder.path().join("guards"), 2)[1].clone();
    assert!(
        Command::new("kill")
            .args(["-9", &second])
            .status()
            .unwrap()
            .success()
    );
    // The guardian's threads end one after the other, and it counts as running until the last has
    // ended.
    wait_for("end of the guardian", || {
        let threads = std::fs::read_dir(format!("/proc/{second}/task"));
        !lives(&second) && threads.map_or(0, Iterator::count) <= 1
    });
    run(&mut one, "true").await;
    let third = pids(&folder.path().join("guards"), 3)[2].clone();
    assert!(lives(&third));
    drop(one);
    assert!(!lives(&third));
}

#[tokio::test]
async fn a_missing_guard_program_is_told_and_does_not_stop_actions() {
    let mut executor = guarded(Path::new("/no/guard"));
    let error = executor
        .start(&context(), None)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`/no/guard`"), "{error}");
    assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
    executor.cleanup().await;
}
