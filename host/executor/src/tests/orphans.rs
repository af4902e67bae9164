//! Tests with daemons that have lost every sign of their owner, and hosts within hosts.

use super::*;
use crate::adopt_orphans;

/// Double fork, a session of its own, an empty environment.
pub(super) fn daemon(file: &Path) -> String {
    let path = file.display();
    format!("(env -i setsid sh -c 'echo $$ >>\"{path}\"; sleep 100; :' &)")
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn adopting_body() {
    if !plays("adopting_body") {
        return;
    }
    adopt_orphans();
    let folder = tempfile::tempdir().unwrap();
    let exists = |pid: &String| Path::new(&format!("/proc/{pid}")).exists();
    let file = |name: &str| folder.path().join(name);
    let mut one = LocalExecutor::new(settings());
    let mut other = LocalExecutor::new(settings());
    // Children of this program that belong to no run.
    let mut own = std::process::Command::new("sleep")
        .arg("100")
        .spawn()
        .unwrap();

    run(&mut one, &daemon(&file("one"))).await;
    run(&mut other, &daemon(&file("other"))).await;
    // An orphan that dies during the run does not stay a zombie until its end.
    run(
        &mut one,
        "(env -i setsid sh -c 'echo $$' &) >/dev/null; sleep 0.1",
    )
    .await;
    let left = [pids(&file("one"), 1), pids(&file("other"), 1)].concat();
    assert!(left.iter().all(|pid| lives(pid)));
    let me = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap();
    for child in children.split_whitespace() {
        assert!(lives(child), "{child} is a zombie");
    }

    // Their run is not known, so they are removed with the last run.
    one.cleanup().await;
    assert!(left.iter().all(|pid| lives(pid)));
    other.cleanup().await;
    assert!(!left.iter().any(exists), "{left:?}");
    assert!(own.try_wait().unwrap().is_none());

    // The last runs end at the same time.
    run(&mut one, &daemon(&file("both"))).await;
    run(&mut other, &daemon(&file("both"))).await;
    let both = pids(&file("both"), 2);
    tokio::join!(one.cleanup(), other.cleanup());
    assert!(!both.iter().any(exists), "{both:?}");

    // Dropped instead of cleaned up.
    run(&mut one, &daemon(&file("third"))).await;
    let third = pids(&file("third"), 1);
    drop(one);
    assert!(!third.iter().any(exists));
    own.kill().unwrap();
    own.wait().unwrap();
}

#[test]
fn daemons_without_a_sign_end_with_the_last_run() {
    let status = in_its_own_process(module_path!(), "adopting_body").status();
    assert!(status.unwrap().success());
}

/// `docker exec` starts programs in a session from outside of the PID namespace, whose number is 0.
#[test]
fn a_session_from_outside_of_the_pid_namespace() {
    let unshare = ["--pid", "--fork", "--mount-proc"];
    let mut probe = std::process::Command::new("unshare");
    if !probe.args(unshare).arg("true").status().unwrap().success() {
        // Written without the macros, whose output is captured.
        let why = b"SKIPPED: a_session_from_outside_of_the_pid_namespace: unshare is refused\n";
        std::io::Write::write_all(&mut std::io::stderr(), why).unwrap();
        return;
    }
    let inner = in_its_own_process(module_path!(), "adopting_body");
    let status = std::process::Command::new("unshare")
        .args(unshare)
        // So that the host is not process 1.
        .args(["sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("MSWEA_TEST_ROLE", "adopting_body")
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn inner_body() {
    if !plays("inner_body") {
        return;
    }
    let file = std::env::var_os("MSWEA_TEST_FILE").unwrap();
    let mut inner = LocalExecutor::new(LocalSettings {
        run_id: "inner".into(),
        ..settings()
    });
    let command = format!(
        "setsid -f sh -c 'echo $$ $MSWEA_RUN_ID $MSWEA_ACTION >>\"{}\"; exec sleep 100'; sleep 0.2",
        Path::new(&file).display()
    );
    run(&mut inner, &command).await;
    // Without cleaning up.
    std::process::abort();
}

#[tokio::test]
async fn an_outer_host_ends_what_an_inner_one_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut outer = LocalExecutor::new(LocalSettings {
        run_id: "outer".into(),
        ..settings()
    });
    let inner = in_its_own_process(module_path!(), "inner_body");
    let arguments: Vec<_> = inner.get_args().map(|arg| arg.to_str().unwrap()).collect();
    let command = format!(
        "MSWEA_TEST_ROLE=inner_body MSWEA_TEST_FILE='{}' '{}' {}",
        file.display(),
        inner.get_program().display(),
        arguments.join(" ")
    );
    let output = run(&mut outer, &command).await;
    assert_ne!(output.returncode, 0);
    let lines = pids(&file, 1);
    let words: Vec<_> = lines[0].split(' ').collect();
    assert_eq!(words[1..], ["outer:inner", "outer.1:inner.1"]);
    assert!(lives(words[0]));
    outer.cleanup().await;
    assert!(!lives(words[0]));
}

/// A process that starts another one and ends, every 0.3 ms, without a sign: `step` is what each does first.
fn chain(step: &str, file: &Path) -> String {
    format!(
        "env -i PATH=\"$PATH\" setsid -f perl -MPOSIX -e 'while (1) {{ fork and POSIX::_exit(0); {step} \
         open my $f, \">>\", $ARGV[0]; syswrite $f, \"x\"; select undef, undef, undef, 0.0003 }}' {0} \
         >/dev/null 2>&1; while [ $(stat -c %s {0} 2>/dev/null || echo 0) -lt 9 ]; do sleep 0.02; done",
        file.display()
    )
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn chains_body() {
    if !plays("chains_body") {
        return;
    }
    adopt_orphans();
    let folder = tempfile::tempdir().unwrap();
    let steps = [
        "",
        "setsid;",
        "setpgid(0, 0);",
        "fork and POSIX::_exit(0); setsid;",
    ];
    for (number, step) in steps.iter().cycle().take(12).enumerate() {
        let file = folder.path().join(number.to_string());
        let mut executor = LocalExecutor::new(settings());
        run(&mut executor, &chain(step, &file)).await;
        executor.cleanup().await;
        let size = || std::fs::metadata(&file).unwrap().len();
        let before = size();
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(size(), before, "{number}: {step}");
    }
}

#[test]
fn a_process_that_starts_another_and_ends_again_and_again_does_not_outlive_the_run() {
    let status = in_its_own_process(module_path!(), "chains_body").status();
    assert!(status.unwrap().success());
}
