//! How commands end: by themselves, in time or not, with and without processes left over.

use std::time::Duration;

use super::*;
use mswea_core::StopSource;

#[tokio::test]
async fn timeouts_keep_what_was_written() {
    let vectors = [
        ("echo hi; sleep 5", "hi\n"),
        (r"printf 'a\377b'; sleep 5", "a\u{fffd}b"),
        ("trap '' TERM INT HUP; echo t; sleep 5; sleep 5", "t\n"),
        ("echo COMPLETE; sleep 5", "COMPLETE\n"),
        ("(setsid sleep 5 &); echo x; sleep 5", "x\n"),
    ];
    for (command, text) in vectors {
        let (output, took) = once(command, 0.4).await;
        let why = format!("Command '{command}' timed out after 0.4 seconds");
        assert_eq!(
            (output.output.as_str(), output.returncode),
            (text, -1),
            "{command}"
        );
        assert_eq!(
            output.exception_info,
            format!("An error occurred while executing the command: {why}")
        );
        assert_eq!(
            (
                extra(&output, "exception_type"),
                extra(&output, "exception")
            ),
            ("TimeoutExpired", why.as_str())
        );
        assert!(
            took > Duration::from_millis(390) && took < Duration::from_secs(2),
            "{command} {took:?}"
        );
    }
}

#[tokio::test]
async fn timeouts_are_named_as_they_were_given() {
    let mut executor = LocalExecutor::new(LocalSettings {
        timeout: Duration::ZERO,
        ..settings()
    });
    // 0 in the config means at once; 0 in a call means the config's value.
    for timeout in [None, Some(Duration::ZERO)] {
        let command = Command {
            timeout,
            ..Command::new("sleep 9")
        };
        let output = executor.execute(&command, &Stop::never()).await;
        assert_eq!(
            extra(&output, "exception"),
            "Command 'sleep 9' timed out after 0 seconds"
        );
    }
    let output = run_within(&mut executor, "sleep 9", Duration::from_secs(1)).await;
    assert_eq!(
        extra(&output, "exception"),
        "Command 'sleep 9' timed out after 1 seconds"
    );
}

#[tokio::test]
async fn a_timeout_kills_the_whole_tree() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut executor = LocalExecutor::new(LocalSettings {
        cwd: Some(folder.path().to_owned()),
        ..settings()
    });
    // An earlier background job is not part of this tree.
    let earlier = run(&mut executor, "sleep 100 >/dev/null 2>&1 & echo $!")
        .await
        .output;
    let commands = [
        // A child, a grandchild that ignores signals, a background job.
        "echo $$; sleep 100 & echo $!; sh -c 'trap \"\" TERM HUP; echo $$; sleep 100; :' & wait",
        // A session of its own; a session of its own without a parent (double fork); an emptied
        // environment.
        "setsid sh -c 'echo $$; exec sleep 100' & wait",
        "(setsid sh -c 'echo $$; exec sleep 100' &) & sleep 100",
        "(sh -c 'echo $$; exec setsid sh -c \"sleep 100; :\"' &) & sleep 100",
        "env -i setsid sh -c 'echo $$; sleep 100; :' & wait",
        "(env -i sh -c 'echo $$; sleep 100; :' &); sleep 100",
        // A process that keeps starting others.
        "while :; do (sh -c 'echo $$; exec sleep 100' &) ; sleep 0.01; done",
    ];
    for command in commands {
        let _ = std::fs::remove_file(&file);
        let timeout = Duration::from_millis(500);
        let output = run_within(&mut executor, &format!("exec >pids; {command}"), timeout).await;
        assert_eq!(
            extra(&output, "exception_type"),
            "TimeoutExpired",
            "{command}"
        );
        let pids = pids(&file, 1);
        for pid in pids {
            assert!(!lives(&pid), "{pid} of {command}");
        }
    }
    assert!(lives(&earlier));
    executor.cleanup().await;
    assert!(!lives(&earlier));
}

#[tokio::test]
async fn background_children_do_not_hold_the_step() {
    let mut executor = LocalExecutor::new(settings());
    for command in [
        "sleep 100 & echo started",
        "setsid sleep 100 & echo started",
        "(sleep 100 & (sleep 100 &)); echo started",
        "sleep 100 >/dev/null 2>&1 & echo started",
    ] {
        let began = Instant::now();
        let output = run(&mut executor, command).await;
        assert_eq!(
            (output.output.as_str(), output.returncode),
            ("started\n", 0),
            "{command}"
        );
        assert!(began.elapsed() < Duration::from_secs(1), "{command}");
    }
    // Written within the grace period, so it is included.
    let output = run(&mut executor, "(sleep 0.05; echo late) & echo early").await;
    assert_eq!(output.output, "early\nlate\n");
    // The rest of a pipe that holds more than one read.
    let output = run(&mut executor, "seq 1 12000; sleep 100 & exit 5").await;
    assert_eq!(
        (output.output.lines().count(), output.returncode),
        (12000, 5)
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn background_children_live_until_cleanup_also_if_they_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    let mut executor = LocalExecutor::new(LocalSettings {
        cwd: Some(folder.path().to_owned()),
        ..settings()
    });
    let script = "(n=0; while echo line; do n=$((n+1)); echo $n >count; sleep 0.02; done; echo dead >count) & echo $!";
    let output = run(&mut executor, script).await.output;
    let pid = output
        .lines()
        .find(|line| *line != "line")
        .unwrap()
        .to_owned();
    // The output of the background process is slowed down.
    let flood = run(&mut executor, "yes & echo pid $!").await.output;
    let (_, flood) = flood.split_once("pid ").unwrap();
    let flood: String = flood.chars().take_while(char::is_ascii_digit).collect();
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(run(&mut executor, "echo next").await.output, "next\n");
    }
    // The shell empties the file before it writes to it, so a read in between sees nothing.
    let mut count = String::new();
    wait_for("count", || {
        count = std::fs::read_to_string(&file).unwrap();
        !count.is_empty()
    });
    assert!(count.trim().parse::<u32>().unwrap() > 20, "{count}");
    assert!(lives(&pid) && lives(&flood));
    executor.cleanup().await;
    assert!(!lives(&pid) && !lives(&flood));
}

#[tokio::test]
async fn a_stop_interrupts() {
    let mut executor = LocalExecutor::new(settings());
    let (source, stop) = StopSource::new();
    let began = Instant::now();
    let command = Command::new("echo $$; sleep 100");
    let (output, ()) = tokio::join!(executor.execute(&command, &stop), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        source.stop();
    });
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(output.returncode, -1);
    assert!(!lives(&output.output) && !output.output.is_empty());
    assert_eq!(extra(&output, "exception_type"), "Interrupted");
    assert!(
        output
            .exception_info
            .ends_with("Command 'echo $$; sleep 100' was interrupted")
    );

    // After the stop no command is started.
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("x");
    let output = executor
        .execute(
            &Command::new(&format!("touch '{}'", witness.display())),
            &stop,
        )
        .await;
    assert_eq!(extra(&output, "exception_type"), "Interrupted");
    assert!(!witness.exists());
    // But a command that ignores the stop (salvage) runs.
    assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
}

/// Leaves processes of every kind; returns their pids.
async fn leave_some(executor: &mut LocalExecutor, file: &Path) -> Vec<String> {
    let path = file.display();
    for command in [
        "sleep 100 & echo $!",
        "(setsid sh -c 'trap \"\" TERM; echo $$; sleep 100; :' &)",
        "setsid -f sh -c 'echo $$; exec sleep 100'",
        // Without the mark, but in a known session.
        "env -i sh -c 'echo $$; exec sleep 100' &",
    ] {
        run(executor, &format!("exec >>'{path}'; {command}")).await;
    }
    let pids = pids(file, 4);
    assert!(pids.iter().all(|pid| lives(pid)), "{pids:?}");
    pids
}

#[tokio::test]
async fn cleanup_ends_everything_of_this_run_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (
        LocalExecutor::new(settings()),
        LocalExecutor::new(settings()),
    );
    assert_ne!(one.run_id(), other.run_id());
    let mine = leave_some(&mut one, &folder.path().join("one")).await;
    let theirs = leave_some(&mut other, &folder.path().join("other")).await;
    one.cleanup().await;
    assert!(mine.iter().all(|pid| !lives(pid)), "{mine:?}");
    assert!(theirs.iter().all(|pid| lives(pid)), "{theirs:?}");
    one.cleanup().await;
    // The executor can be used again.
    assert_eq!(run(&mut one, "echo again").await.output, "again\n");
    one.cleanup().await;
    drop(other);
    assert!(theirs.iter().all(|pid| !lives(pid)), "{theirs:?}");
}

#[tokio::test]
async fn cleanup_asks_before_it_kills() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note");
    let mut executor = LocalExecutor::new(settings());
    let path = note.display();
    let command = format!(
        "note='{path}' sh -c 'trap \"echo bye >>\\\"$note\\\"; exit\" TERM; echo on >\"$note\"; while :; do sleep 0.01; done' & :"
    );
    run(&mut executor, &command).await;
    pids(&note, 1);
    executor.cleanup().await;
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "on\nbye\n");
}

#[tokio::test]
async fn a_panic_or_a_dropped_step_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut executor = LocalExecutor::new(settings());
    let command = format!(
        "echo $$ >'{0}'; setsid sleep 100 & echo $! >>'{0}'; wait",
        file.display()
    );
    let step = tokio::time::timeout(Duration::from_millis(300), run(&mut executor, &command)).await;
    assert!(step.is_err());
    assert!(pids(&file, 2).iter().all(|pid| !lives(pid)));

    std::fs::remove_file(&file).unwrap();
    let left = leave_some(&mut executor, &file).await;
    let panicked = tokio::spawn(async move {
        let _executor = executor;
        panic!("as tests do");
    });
    assert!(panicked.await.is_err());
    assert!(left.iter().all(|pid| !lives(pid)), "{left:?}");
}

#[test]
fn five_hundred_agents_share_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let (fds, before) = (open(), threads());
    runtime.block_on(async {
        let agents = (0..512).map(|number| {
            tokio::spawn(async move {
                let mut executor = LocalExecutor::new(settings());
                for step in 0..3 {
                    let command = format!("sleep 0.1; echo {number} {step}");
                    let output = run(&mut executor, &command).await;
                    assert_eq!(output.output, format!("{number} {step}\n"));
                    assert_eq!(output.returncode, 0);
                }
                executor
            })
        });
        let agents: Vec<_> = agents.collect();
        let mut most = 0;
        for agent in agents {
            most = most.max(open());
            agent.await.unwrap().cleanup().await;
        }
        // Two descriptors for each running command; other tests open some as well.
        assert!(most < fds + 2 * 512 + 200, "{most}");
        assert!(threads() < before + 100);
    });
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn shortage_body() {
    if std::env::var_os("MSWEA_TEST_SHORTAGE").is_none() {
        return;
    }
    let agents: Vec<_> = (0..100)
        .map(|_| {
            tokio::spawn(async {
                let mut executor = LocalExecutor::new(settings());
                for _ in 0..3 {
                    let output = run(&mut executor, "sleep 0.02; echo x").await;
                    assert_eq!(
                        (output.output.as_str(), output.exception_info.as_str()),
                        ("x\n", "")
                    );
                }
                executor.cleanup().await;
            })
        })
        .collect();
    for agent in agents {
        agent.await.unwrap();
    }
}

#[test]
fn too_few_descriptors_make_actions_wait() {
    let role = format!(
        "{}::shortage_body",
        module_path!().split_once("::").unwrap().1
    );
    let status = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 60; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--quiet", &role])
        .env("MSWEA_TEST_SHORTAGE", "1")
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn nobody_body() {
    if !plays("nobody_body") {
        return;
    }
    let mut executor = LocalExecutor::new(settings());
    let root = std::env::var("MSWEA_TEST_ROOT").unwrap();
    let command =
        format!("'{root}' --reuid 0 --clear-groups sleep 3 & sleep 100 & echo $!; sleep 0.5");
    let mine = run(&mut executor, &command).await.output;
    let left = executor.end_processes().await;
    assert!(left.len() == 1 && left[0].ends_with(" (sleep)"), "{left:?}");
    assert!(!left[0].starts_with(mine.trim()) && !lives(&mine));
}

#[test]
fn processes_that_cannot_be_killed_are_named() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("setpriv");
    // Only root can make a process that others can't kill.
    let setpriv = Path::new("/usr/bin/setpriv");
    if !rustix::process::geteuid().is_root() || !setpriv.exists() {
        return;
    }
    executables::install(setpriv, &program, "4755");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let test = folder.path().join("test");
    executables::install(&std::env::current_exe().unwrap(), &test, "755");
    let role = in_its_own_process(module_path!(), "nobody_body");
    let status = std::process::Command::new(test)
        .args(role.get_args())
        .env("MSWEA_TEST_ROLE", "nobody_body")
        .env("MSWEA_TEST_ROOT", &program)
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn large_files_body() {
    if !plays("large_files_body") {
        return;
    }
    // As the program does. SAFETY: has a signal ignored; no memory is involved.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let folder = tempfile::tempdir().unwrap();
    let mut executor = LocalExecutor::new(LocalSettings {
        cwd: Some(folder.path().to_owned()),
        ..settings()
    });
    let output = run(
        &mut executor,
        "ulimit -f 1; { sh -c 'exec head -c 9999 /dev/zero >file'; } 2>/dev/null; echo $?",
    )
    .await;
    assert_eq!(output.output, format!("{}\n", 128 + libc::SIGXFSZ));
    executor.cleanup().await;
}

#[test]
fn commands_do_not_inherit_that_large_files_are_minded() {
    let output = in_its_own_process(module_path!(), "large_files_body").output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
