//! Actions that share a shell: time limits, stops, and the ends of the shell.

use mswea_core::StopSource;

use super::session::{is_told, sharing};
use super::*;

const LIMIT: Duration = Duration::from_millis(300);

fn kill(pid: &str) {
    let command = format!("kill -9 {}", pid.trim());
    let shell = std::process::Command::new("sh")
        .args(["-c", &command])
        .status();
    assert!(shell.is_ok());
}

async fn pid_of(executor: &mut impl Executor) -> String {
    run(executor, "echo $$").await.output
}

#[tokio::test]
async fn an_exit_ends_the_shell_and_not_the_session() {
    let mut executor = sharing();
    exits(&mut executor).await;
    executor.cleanup().await;
}

/// The descriptors of an interactive bash on a pipe that are needed to undo redirections; its shell ends
/// without them. With a terminal it waits for its input, until the time limit.
const UNDOING: &str = "exec 10>&- 11>&- 12>&- 13>&- 14>&- 15>&-";

pub(crate) async fn exits(executor: &mut impl Executor) {
    let has_terminal = run(executor, "[ -t 0 ]").await.returncode == 0;
    for (command, code, why) in [
        ("echo bye; exit 3", 3, "the shell has ended (exit code 3)"),
        ("set -e\nfalse\necho never", 1, "exit code 1"),
        ("kill -9 $$", 137, "ended by signal 9"),
        ("kill -9 $BASHPID; sleep 5", 137, "ended by signal 9"),
        ("exec echo other", 0, "exit code 0"),
        ("trap 'echo in the trap' EXIT; exit 4", 4, "exit code 4"),
        ("exec nosuchprogram", 127, "exit code 127"),
        (UNDOING, 1, "exit code"),
    ] {
        if has_terminal && command == UNDOING {
            continue;
        }
        let first = run(executor, "cd /usr; export KEEP='a b'; f() { :; }").await;
        assert_eq!(
            (first.output.as_str(), first.returncode),
            ("", 0),
            "{command}"
        );
        let output = run(executor, command).await;
        assert_eq!(output.returncode, code, "{command}: {output:?}");
        assert_eq!(output.exception_info, "");
        assert!(is_told(&output, why), "{command}: {output:?}");
        assert!(
            is_told(&output, "new shell in `/usr`"),
            "{command}: {output:?}"
        );
        if command.contains("trap") {
            assert!(output.output.starts_with("in the trap\n"), "{output:?}");
        }
        let next = run(executor, "pwd; sh -c 'echo $KEEP'; type f").await;
        assert!(
            next.output.starts_with("/usr\na b\n"),
            "{command}: {next:?}"
        );
        assert_eq!(next.returncode, 1);
        assert!(!next.output.contains("new shell"), "{next:?}");
    }
    // `set -e` stays, and ends the shell at the first failure.
    assert_eq!(run(executor, "set -e").await.output, "");
    assert_eq!(run(executor, "echo on; true").await.output, "on\n");
    let output = run(executor, "echo a; false; echo never").await;
    assert!(output.output.starts_with("a\n["), "{output:?}");
    assert_eq!(output.returncode, 1);
}

#[tokio::test]
async fn a_submission_is_not_touched() {
    let mut executor = LocalExecutor::new(LocalSettings {
        session: true,
        whole_after: Some("DONE".to_owned()),
        ..settings()
    });
    let output = run(&mut executor, "echo DONE; echo patch; exit 0").await;
    assert_eq!(output.output, "DONE\npatch\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn a_shell_that_can_no_longer_read_is_replaced() {
    let mut executor = sharing();
    run(&mut executor, "cd /usr; . () { echo dot; }").await;
    let output = run(&mut executor, "touch /tmp/mswea-never").await;
    assert!(is_told(&output, "this command was not run"), "{output:?}");
    assert_eq!(output.returncode, -1);
    assert!(!Path::new("/tmp/mswea-never").exists());
    assert_eq!(run(&mut executor, "pwd").await.output, "/usr\n");
    // A shell that is killed between two actions.
    let shell = pid_of(&mut executor).await;
    kill(&shell);
    wait_for("end", || !lives(&shell));
    let output = run(&mut executor, "echo here").await;
    assert!(output.output.starts_with("here\n"), "{output:?}");
    assert!(
        is_told(
            &output,
            "had ended since the last command: this command ran in a new shell"
        ),
        "{output:?}"
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn at_the_time_limit_the_shell_lives_on() {
    let mut executor = sharing();
    lives_on(&mut executor).await;
    executor.cleanup().await;
}

pub(crate) async fn lives_on(executor: &mut impl Executor) {
    run(
        executor,
        "cd /usr; x=5; sleep 61 & (while :; do sleep 62; done) & f() { while :; do :; done; }",
    )
    .await;
    let shell = pid_of(executor).await;
    for command in [
        "echo begun; sleep 60; echo after",
        "echo begun; while :; do :; done",
        "echo begun; f; echo after",
        "echo begun; while :; do sleep 0.1; done",
        "echo begun; (while :; do :; done); echo after",
        "echo begun; sleep 60 | cat; echo after",
        "echo begun; (setsid sleep 60; :); echo after",
        "echo begun; read y < <(sleep 60); wait; echo after",
        "echo begun; kill -STOP $$; sleep 60",
    ] {
        let begin = Instant::now();
        let output = run_within(executor, command, LIMIT).await;
        assert_eq!(
            extra(&output, "exception_type"),
            "TimeoutExpired",
            "{command}"
        );
        assert!(
            output.output.starts_with("begun\n"),
            "{command}: {output:?}"
        );
        assert!(!output.output.contains("after"), "{command}: {output:?}");
        assert!(
            is_told(&output, "the shell lives on"),
            "{command}: {output:?}"
        );
        assert_eq!(output.output.lines().count(), 2, "{command}: {output:?}");
        assert!(begin.elapsed() < Duration::from_secs(8), "{command}");
        let next = run(executor, "pwd; echo $x; jobs -rp | wc -l").await;
        assert_eq!(next.output, "/usr\n5\n2\n", "{command}");
        assert_eq!(pid_of(executor).await, shell, "{command}");
    }
}

#[tokio::test]
async fn a_shell_that_can_not_be_interrupted_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = folder.path().join("jobs");
    for command in [
        "trap '' INT; while :; do :; done",
        "trap 'echo no' INT; while :; do :; done",
        "shopt -s extdebug; trap 'false' DEBUG; :",
        "exec sleep 60",
        "sh -c 'trap \"\" INT TERM; while :; do sleep 1; done'; echo after",
        "exec sh -c 'trap \"\" INT; sleep 60; sleep 60'",
    ] {
        let _ = std::fs::remove_file(&jobs);
        let mut executor = sharing();
        let job = format!(
            "cd /usr; export X=1; sleep 61 & echo $! >>'{}'",
            jobs.display()
        );
        run(&mut executor, &job).await;
        let started = format!("sleep 60 & echo $! >>'{}'; {command}", jobs.display());
        let output = run_within(&mut executor, &started, LIMIT).await;
        assert_eq!(
            extra(&output, "exception_type"),
            "TimeoutExpired",
            "{command}"
        );
        assert!(
            is_told(&output, "new shell in `/usr`"),
            "{command}: {output:?}"
        );
        let jobs = pids(&jobs, 2);
        assert!(lives(&jobs[0]), "{command}: a job of an earlier action");
        wait_for("end of the action's job", || !lives(&jobs[1]));
        assert_eq!(
            run(&mut executor, "pwd; sh -c 'echo $X'").await.output,
            "/usr\n1\n",
            "{command}"
        );
        executor.cleanup().await;
        assert!(!lives(&jobs[0]));
    }
}

#[tokio::test]
async fn what_an_action_started_ends_with_it_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let note = format!("echo $! >>'{}'", file.display());
    let mut executor = sharing();
    run(
        &mut executor,
        &format!("sleep 61 & {note}; setsid sleep 61 & {note}"),
    )
    .await;
    let command = format!(
        "setsid sleep 60 & {note}; (setsid sleep 60 & {note}); env -i sleep 60 & {note}; \
         (sh -c 'sleep 60; :' & {note}); (setsid env -i sleep 60 & {note}); sleep 60"
    );
    let output = run_within(&mut executor, &command, LIMIT).await;
    assert!(is_told(&output, "the shell lives on"), "{output:?}");
    let started = pids(&file, 7);
    assert!(
        started[..2].iter().all(|pid| lives(pid)),
        "jobs of earlier actions"
    );
    for pid in &started[2..] {
        assert!(!lives(pid), "{started:?}");
    }
    executor.cleanup().await;
    assert!(started.iter().all(|pid| !lives(pid)));
}

#[tokio::test]
async fn a_stop_ends_the_command_like_the_time() {
    let mut executor = sharing();
    run(&mut executor, "x=7").await;
    let (source, stop) = StopSource::new();
    let command = Command::new("echo begun; sleep 60");
    let (output, ()) = tokio::join!(executor.execute(&command, &stop), async {
        tokio::time::sleep(LIMIT).await;
        source.stop_step();
    });
    assert_eq!(extra(&output, "exception_type"), "Interrupted");
    assert!(output.output.starts_with("begun\n["), "{output:?}");
    assert_eq!(run(&mut executor, "echo $x").await.output, "7\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn a_command_that_is_given_up_takes_the_shell_with_it() {
    let mut executor = sharing();
    run(&mut executor, "cd /usr; export X=1").await;
    let shell = pid_of(&mut executor).await;
    let waited = tokio::time::timeout(LIMIT, run(&mut executor, "sleep 60")).await;
    assert!(waited.is_err());
    assert!(!lives(&shell));
    let output = run(&mut executor, "pwd; echo $X").await;
    assert!(output.output.starts_with("/tmp\n\n["), "{output:?}");
    assert!(
        is_told(&output, "a command that was given up"),
        "{output:?}"
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn a_resumed_run_is_told_of_its_new_shell() {
    let mut executor = sharing();
    let known = serde_json::json!({"folder": "/tmp"});
    let ready = executor.start(&context(), Some(&known)).await.unwrap();
    assert_eq!(ready.replaced, None);
    let output = run(&mut executor, "echo x").await;
    assert!(output.output.starts_with("x\n["), "{output:?}");
    assert!(is_told(&output, "a new shell was begun"), "{output:?}");
    assert_eq!(run(&mut executor, "echo x").await.output, "x\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn the_end_of_the_run_ends_the_shell_and_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let trap = folder.path().join("trap");
    let note = format!("echo $! >>'{}'", file.display());
    for is_dropped in [false, true] {
        let _ = std::fs::remove_file(&file);
        let mut executor = sharing();
        let shell = pid_of(&mut executor).await;
        let command = format!(
            "trap 'touch \"{}\"' EXIT; sleep 60 & {note}; (setsid env -i sleep 60 & {note}); nohup sleep 60 & {note}",
            trap.display()
        );
        run(&mut executor, &command).await;
        let started = pids(&file, 3);
        assert!(started.iter().all(|pid| lives(pid)));
        if is_dropped {
            drop(executor);
            assert!(!lives(&shell) && !lives(&started[0]) && !lives(&started[2]));
            kill(&started[1]);
        } else {
            executor.cleanup().await;
            assert!(!lives(&shell));
            assert!(trap.exists());
            assert!(!lives(&started[0]) && !lives(&started[2]));
            kill(&started[1]);
        }
    }
}

#[tokio::test]
async fn no_secret_is_in_the_shell() {
    let mut executor = sharing();
    let output = run(
        &mut executor,
        "export -p; cat /proc/$$/environ | tr '\\0' '\\n'",
    )
    .await;
    for entry in output.output.lines() {
        assert!(!entry.contains("API_KEY"), "{entry}");
    }
    assert!(output.output.contains("MSWEA_RUN_ID"));
    executor.cleanup().await;
}

/// The helper holds the shell; a command that kills it ends itself, and what else ran there.
#[tokio::test]
async fn without_its_helper_nothing_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let note = format!("echo $! >>'{}'", file.display());
    let mut executor = sharing();
    run(&mut executor, &format!("cd /usr; sleep 61 & {note}")).await;
    let command = format!(
        "sleep 62 & {note}; kill -9 $PPID; sleep 63; touch '{}/after'",
        folder.path().display()
    );
    let output = run(&mut executor, &command).await;
    assert_eq!(
        extra(&output, "exception_type"),
        "ChildProcessError",
        "{output:?}"
    );
    let started = pids(&file, 2);
    assert!(started.iter().all(|pid| !lives(pid)), "{started:?}");
    let output = run(&mut executor, "pwd").await;
    assert!(
        output.output.starts_with("/tmp\n[a new shell was begun"),
        "{output:?}"
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn a_shell_whose_folder_is_gone_begins_in_the_first_one() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut executor = LocalExecutor::new(LocalSettings {
        session: true,
        cwd: Some(work.clone()),
        ..settings()
    });
    run(
        &mut executor,
        "cd ..; rm -r work; mkdir -p work/q; cd work/q",
    )
    .await;
    let output = run(&mut executor, "rmdir ../q; exit 3").await;
    assert_eq!(output.returncode, 3);
    let output = run(&mut executor, "pwd; touch here").await;
    assert_eq!(output.output, format!("{}\n", work.display()));
    assert!(work.join("here").exists());
    executor.cleanup().await;
}
