//! How commands end: in time or not, with and without processes left over; and how the container
//! ends.

use super::*;
use mswea_core::StopSource;

#[tokio::test]
async fn timeouts_keep_what_was_written_and_leave_nothing() {
    if !docker("timeouts_keep_what_was_written_and_leave_nothing") {
        return;
    }
    let vectors = [
        ("echo hi; sleep 100", "hi\n"),
        (r"printf 'a\377b'; sleep 100", "a\u{fffd}b"),
        ("trap '' TERM INT HUP; echo t; sleep 100; sleep 100", "t\n"),
        ("(setsid sleep 100 &); echo x; sleep 100", "x\n"),
        ("setsid sh -c 'echo y; exec sleep 100' & wait", "y\n"),
        ("while :; do (sleep 100 &) ; sleep 0.05; done", ""),
    ];
    for (name, settings) in ways() {
        let mut executor = started(settings).await;
        let kept = run(&mut executor, "sleep 99 >/dev/null 2>&1 & echo on").await;
        assert_eq!(kept.output, "on\n", "{name}");
        for (command, text) in vectors {
            let began = Instant::now();
            let output = run_within(&mut executor, command, 1.0).await;
            let took = began.elapsed();
            let why = format!("Command '{command}' timed out after 1 seconds");
            assert_eq!(
                (output.output.as_str(), output.returncode),
                (text, -1),
                "{name}: {command}"
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
            assert!(took < Duration::from_secs(8), "{name}: {command} {took:?}");
            let left = processes(&executor);
            assert!(!left.contains("sleep 100"), "{name}: {command}: {left}");
        }
        // A background process of another action does not affect it.
        assert!(processes(&executor).contains("sleep 99"), "{name}");
        assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
        assert!(name.ends_with(way(&executor)), "{name}");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn background_children_do_not_hold_the_step() {
    if !docker("background_children_do_not_hold_the_step") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(settings).await;
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
                "{name}: {command}"
            );
            let took = began.elapsed();
            assert!(took < Duration::from_secs(5), "{name}: {command} {took:?}");
        }
        let output = run(&mut executor, "(sleep 0.05; echo late) & echo early").await;
        assert_eq!(output.output, "early\nlate\n", "{name}");
        let output = run(&mut executor, "seq 1 12000; sleep 100 & exit 5").await;
        assert_eq!(
            (output.output.lines().count(), output.returncode),
            (12000, 5),
            "{name}"
        );
        // The processes continue, even if they write.
        let script = "(while echo line; do sleep 0.02; done; echo dead >/tmp/dead) & echo begun";
        let output = run(&mut executor, script).await;
        assert!(output.output.contains("begun\n"), "{name}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let output = run(&mut executor, "cat /tmp/dead 2>/dev/null; echo on").await;
        assert_eq!(output.output, "on\n", "{name}");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_stop_interrupts() {
    if !docker("a_stop_interrupts") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(settings).await;
        let (source, stop) = StopSource::new();
        let began = Instant::now();
        let command = Command::new("echo x; sleep 100");
        let (output, ()) = tokio::join!(executor.execute(&command, &stop), async {
            tokio::time::sleep(Duration::from_millis(1000)).await;
            source.stop();
        });
        assert!(began.elapsed() < Duration::from_secs(8), "{name}");
        assert_eq!(
            (output.output.as_str(), output.returncode),
            ("x\n", -1),
            "{name}"
        );
        assert_eq!(extra(&output, "exception_type"), "Interrupted", "{name}");
        assert!(!processes(&executor).contains("sleep 100"), "{name}");
        let output = executor.execute(&Command::new("touch /tmp/x"), &stop).await;
        assert_eq!(extra(&output, "exception_type"), "Interrupted");
        let output = run(&mut executor, "ls /tmp/x 2>/dev/null; echo on").await;
        assert_eq!(output.output, "on\n");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_dropped_step_is_ended_by_the_next_one() {
    if !docker("a_dropped_step_is_ended_by_the_next_one") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(settings).await;
        let step = run(&mut executor, "echo x; sleep 100");
        let dropped = tokio::time::timeout(Duration::from_millis(800), step).await;
        assert!(dropped.is_err());
        for _ in 0..2 {
            assert_eq!(run(&mut executor, "echo on").await.output, "on\n", "{name}");
        }
        assert!(!processes(&executor).contains("sleep 100"), "{name}");
        assert!(name.ends_with(way(&executor)), "{name}");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_command_that_kills_everything_does_not_end_the_run() {
    if !docker("a_command_that_kills_everything_does_not_end_the_run") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(settings).await;
        let output = run(
            &mut executor,
            "echo before; sleep 0.3; kill -9 -1; sleep 0.3; echo after; sleep 100",
        )
        .await;
        assert!(
            output.output.starts_with("before\n"),
            "{name}: {}",
            output.output
        );
        if name.ends_with("session") {
            assert_eq!(output.returncode, -1);
            assert_eq!(
                extra(&output, "exception_type"),
                "HelperKilled",
                "{}",
                output.exception_info
            );
            assert!(!processes(&executor).contains("sleep 100"), "{name}");
            assert!(executor.session.is_none());
        }
        for _ in 0..2 {
            let output = run(&mut executor, "echo on; exit 4").await;
            assert_eq!(
                (output.output.as_str(), output.returncode),
                ("on\n", 4),
                "{name}"
            );
        }
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_container_that_goes_away_is_reported() {
    if !docker("a_container_that_goes_away_is_reported") {
        return;
    }
    for (name, settings) in ways() {
        for (how, rm) in [(["rm", "-f"], true), (["stop", "-t0"], false)] {
            let mut settings = settings.clone();
            if !rm {
                settings.run_args.retain(|arg| arg != "--rm");
            }
            let mut executor = started(settings).await;
            let container = executor.container_name().unwrap().to_owned();
            let killing = std::thread::spawn({
                let container = container.clone();
                move || {
                    std::thread::sleep(Duration::from_millis(800));
                    client(&[how[0], how[1], &container]);
                }
            });
            let began = Instant::now();
            let output = run(&mut executor, "echo x; sleep 100").await;
            assert!(began.elapsed() < Duration::from_secs(15), "{name}");
            killing.join().unwrap();
            assert_eq!(
                (output.output.as_str(), output.returncode),
                ("x\n", -1),
                "{name}"
            );
            assert_eq!(
                extra(&output, "exception_type"),
                "EnvironmentGone",
                "{name} {output:?}"
            );
            assert!(
                output
                    .exception_info
                    .contains(&format!("container `{container}` is gone: it was stopped")),
                "{}",
                output.exception_info
            );
            assert_eq!(output.extra["environment_gone"], true);
            let began = Instant::now();
            let output = run(&mut executor, "echo y").await;
            assert!(began.elapsed() < Duration::from_millis(100));
            assert_eq!((output.output.as_str(), output.returncode), ("", -1));
            assert_eq!(output.extra["environment_gone"], true);
            executor.cleanup().await;
            assert!(!is_there(&container), "{name}");
        }
    }
}

#[tokio::test]
async fn the_end_of_a_containers_time_is_named() {
    if !docker("the_end_of_a_containers_time_is_named") {
        return;
    }
    let mut executor = started(ContainerSettings {
        container_timeout: "4".into(),
        ..settings()
    })
    .await;
    let output = run(&mut executor, "echo x; sleep 100").await;
    assert!(
        output
            .exception_info
            .ends_with("its time has passed (`environment.container_timeout` is `4`)"),
        "{}",
        output.exception_info
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn memory_that_runs_out_is_reported() {
    if !docker("memory_that_runs_out_is_reported") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(ContainerSettings {
            memory: Some("16m".into()),
            ..settings
        })
        .await;
        for _ in 0..2 {
            let output = run(&mut executor, "echo x; tail /dev/zero").await;
            assert!(output.output.starts_with("x\n"), "{name}");
            assert_eq!(output.returncode, 137, "{name}");
            assert_eq!(extra(&output, "exception_type"), "OutOfMemory", "{name}");
        }
        // A kill by the action itself is not reported as one by the host.
        let output = run(&mut executor, "kill -9 $$").await;
        assert_eq!(
            (output.returncode, output.exception_info.as_str()),
            (137, ""),
            "{name}"
        );
        assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn without_a_shell_there_is_still_a_timeout() {
    if !docker("without_a_shell_there_is_still_a_timeout") {
        return;
    }
    let mut executor = started(ContainerSettings {
        image: NOSH.into(),
        interpreter: vec!["bash".into(), "-c".into()],
        run_args: ["--rm", "--read-only"].map(str::to_owned).to_vec(),
        ..settings()
    })
    .await;
    let way = executor.container.as_ref().map(|container| container.way);
    assert_eq!(way, Some(Way::Plain { shell: false }));
    let output = run_within(&mut executor, "echo out; echo err >&2; sleep 100", 1.0).await;
    assert_eq!(extra(&output, "exception_type"), "TimeoutExpired");
    assert!(output.output.contains("out\n") && output.output.contains("err\n"));
    // Without programs inside, its processes can be killed only from outside: not from another PID
    // namespace than the daemon's.
    let name = executor.container_name().unwrap();
    let pid = client(&["inspect", "--format", "{{.State.Pid}}", name]);
    let seen = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    let seen = seen.starts_with(b"sleep\0");
    if rustix::process::geteuid().is_root() && seen {
        assert!(!processes(&executor).contains("sleep 100"));
        assert!(!output.output.contains("can't be killed"));
    } else {
        assert!(
            output.output.contains("can't be killed"),
            "{}",
            output.output
        );
    }
    executor.cleanup().await;
}

#[tokio::test]
async fn the_script_kills_where_the_helper_can_not() {
    if !docker("the_script_kills_where_the_helper_can_not") {
        return;
    }
    let mut executor = started(settings()).await;
    for (number, seconds) in [(1, 301), (10, 402)] {
        let command = format!("MSWEA_ACTION=x.{number} sleep {seconds} >/dev/null 2>&1 &");
        run(&mut executor, &command).await;
    }
    let output = run(
        &mut executor,
        &format!(
            "sh -c '{}' sh MSWEA_ACTION=x.1",
            crate::container::running::SCRIPT.replace('\'', "'\\''")
        ),
    )
    .await;
    assert_eq!(output.returncode, 0, "{}", output.output);
    let left = processes(&executor);
    assert!(
        !left.contains("sleep 301") && left.contains("sleep 402"),
        "{left}"
    );
    executor.cleanup().await;
}

/// A background process that ends the helper between two actions costs neither of them.
#[tokio::test]
async fn a_helper_that_ends_between_two_actions_is_started_anew() {
    if !docker("a_helper_that_ends_between_two_actions_is_started_anew") {
        return;
    }
    for transport in [Transport::Api, Transport::Cli] {
        let settings = ContainerSettings {
            transport,
            ..settings()
        };
        let mut executor = started(settings).await;
        let kills = "h=$PPID; (sleep 0.3; kill -9 $h) >/dev/null 2>&1 & echo bg";
        assert_eq!(run(&mut executor, kills).await.output, "bg\n");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let output = run(&mut executor, "echo x >>/ran; cat /ran").await;
        assert_eq!((output.output.as_str(), output.returncode), ("x\n", 0));
        executor.cleanup().await;
    }
}
