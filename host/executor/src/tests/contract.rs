//! The behaviour of every environment on this machine, whatever program is in front of the command.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use indexmap::IndexMap;
use mswea_core::StopSource;

/// Settings for tests of sandboxes; the program has the hidden subcommands.
pub(super) fn local() -> LocalSettings {
    LocalSettings {
        interpreter: vec!["bash".into(), "-c".into()],
        env: IndexMap::from([
            ("MY_TOKEN".into(), "a b='c',\"d\"".into()),
            ("EMPTY".into(), String::new()),
        ]),
        guard_program: Some(std::env::current_exe().unwrap()),
        ..settings()
    }
}

pub(super) async fn run(executor: &mut dyn Executor, command: &str) -> Output {
    let command = Command::new(command);
    executor.execute(&command, &Stop::never()).await
}

pub(super) async fn text(executor: &mut dyn Executor, command: &str) -> String {
    let output = run(executor, command).await;
    assert_eq!(
        (output.returncode, output.exception_info.as_str()),
        (0, ""),
        "{command}: {}",
        output.output
    );
    output.output
}

/// A number of seconds for `sleep` that no other process has: in a PID namespace of their own,
/// processes have other pids, but not other arguments.
pub(super) fn nap() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("100.{:07}{count:05}", std::process::id())
}

/// How many processes have `nap` among their arguments.
pub(super) fn sleeping(nap: &str) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.starts_with(b"sleep")
                && line
                    .split(|byte| *byte == 0)
                    .any(|arg| arg == nap.as_bytes())
        })
        .count()
}

/// Tests the whole contract with a started executor.
pub(super) async fn all(executor: &mut dyn Executor) {
    commands_do_what_they_do_locally(executor).await;
    the_environment_is_what_was_allowed(executor).await;
    timeouts_kill_everything(executor).await;
    background_processes_do_not_hold_the_step(executor).await;
    a_stop_interrupts(executor).await;
    files_go_in_and_out(executor).await;
}

async fn commands_do_what_they_do_locally(executor: &mut dyn Executor) {
    let vectors = [
        ("echo hi", "hi\n", 0),
        ("echo out; echo err >&2; exit 3", "out\nerr\n", 3),
        ("", "", 0),
        ("# nothing", "", 0),
        ("exit 256", "", 0),
        ("printf 'a\\377b\\r\\nc'", "a\u{fffd}b\nc", 0),
        ("[[ a == a ]] && echo \"${0##*/}\"", "bash\n", 0),
        ("cat; echo end", "end\n", 0),
        ("seq 1 30000 | tail -n 1", "30000\n", 0),
        ("yes | head -n 1", "y\n", 0),
        ("no-such-program-at-all 2>/dev/null", "", 127),
        ("cd / && pwd", "/\n", 0),
        ("echo 'a  b' \"c'd\" $((1+1)) \\$x", "a  b c'd 2 $x\n", 0),
        (
            "echo x >/dev/null; echo y >/dev/stderr; echo z >/dev/stdout",
            "y\nz\n",
            0,
        ),
        ("{ (kill -9 $BASHPID); } 2>/dev/null; echo $?", "137\n", 0),
        (
            "ulimit -c 0; { sh -c 'kill -SEGV $$'; } 2>/dev/null; echo $?",
            "139\n",
            0,
        ),
        (
            "tmp=$(mktemp) && echo t >$tmp && cat $tmp && rm $tmp",
            "t\n",
            0,
        ),
        ("echo w >here && cat here && rm here", "w\n", 0),
    ];
    for (command, wanted, returncode) in vectors {
        let output = run(executor, command).await;
        assert_eq!(
            (
                output.output.as_str(),
                output.returncode,
                output.exception_info.as_str()
            ),
            (wanted, returncode, ""),
            "{command}"
        );
    }
    // Longer than an argument may be; the shell that reads it leaves no descriptor behind.
    let long = format!(
        "#!/bin/bash\necho ${{0##*/}}; [ -e /proc/self/fd/4 ] || echo none; printf %s '{}' | wc -c; exit 5",
        "x'\"$y\"'z\n".repeat(40_000)
    );
    let output = run(executor, &long).await;
    let text_of = output.output.split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        text_of,
        ["bash", "none", "120000"],
        "{}",
        output.exception_info
    );
    assert_eq!(output.returncode, 5);
    let output = run(executor, "echo \0").await;
    assert_eq!(extra(&output, "exception"), "embedded null byte");
    // Each is a new process.
    text(executor, "x=1; cd /").await;
    assert_eq!(text(executor, "echo \"$x\"").await, "\n");
}

pub(super) async fn the_environment_is_what_was_allowed(executor: &mut dyn Executor) {
    let all = text(executor, "env -0 | tr '\\0' '\\n'").await;
    assert!(all.contains("MY_TOKEN=a b='c',\"d\"\n"), "{all}");
    assert!(
        all.contains("\nEMPTY=\n") || all.starts_with("EMPTY=\n"),
        "{all}"
    );
    let count = |name: &str| all.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(
        (count("MSWEA_RUN_ID="), count("MSWEA_ACTION=")),
        (1, 1),
        "{all}"
    );
    assert_eq!(count("PATH="), 1, "{all}");
    let number = text(executor, "echo $MSWEA_ACTION").await;
    assert_ne!(number, text(executor, "echo $MSWEA_ACTION").await);
}

async fn timeouts_kill_everything(executor: &mut dyn Executor) {
    let earlier = nap();
    run(executor, &format!("sleep {earlier} >/dev/null 2>&1 &")).await;
    for command in [
        "echo x; sleep NAP",
        "echo x; trap '' TERM INT HUP; sleep NAP; sleep NAP",
        "echo x; sleep NAP & sleep NAP & wait",
        "echo x; setsid sleep NAP & wait",
        "echo x; (setsid sh -c 'exec sleep NAP' &) & sleep NAP",
        "echo x; (sh -c 'exec setsid sh -c \"sleep NAP; :\"' &) & sleep NAP",
        "echo x; env -i setsid sleep NAP & wait",
        "echo x; while :; do (sh -c 'exec sleep NAP' &) ; sleep 0.02; done",
    ] {
        let nap = nap();
        let command = command.replace("NAP", &nap);
        let began = Instant::now();
        let output = executor
            .execute(
                &Command {
                    timeout: Some(Duration::from_millis(800)),
                    ..Command::new(&command)
                },
                &Stop::never(),
            )
            .await;
        assert!(began.elapsed() < Duration::from_secs(4), "{command}");
        assert_eq!(
            (output.output.as_str(), output.returncode),
            ("x\n", -1),
            "{command}"
        );
        assert_eq!(
            extra(&output, "exception"),
            format!("Command '{command}' timed out after 0.8 seconds")
        );
        assert_eq!(sleeping(&nap), 0, "{command}");
    }
    // An earlier action's process is not part of that.
    assert_eq!(sleeping(&earlier), 1);
}

async fn background_processes_do_not_hold_the_step(executor: &mut dyn Executor) {
    let nap = nap();
    for command in [
        "sleep NAP & echo started",
        "setsid sleep NAP & echo started",
        "(sleep NAP & (sleep NAP &)); echo started",
        "sleep NAP >/dev/null 2>&1 & echo started",
    ] {
        let began = Instant::now();
        let output = text(executor, &command.replace("NAP", &nap)).await;
        assert_eq!(output, "started\n", "{command}");
        assert!(began.elapsed() < Duration::from_secs(2), "{command}");
    }
    // The processes continue.
    wait_for("sleepers", || sleeping(&nap) == 5);
}

async fn a_stop_interrupts(executor: &mut dyn Executor) {
    let (source, stop) = StopSource::new();
    let nap = nap();
    let command = format!("echo begun; sleep {nap}");
    let command = Command::new(&command);
    let began = Instant::now();
    let (output, stopped) = tokio::join!(executor.execute(&command, &stop), async {
        // Until the command has begun, and its output has come.
        while sleeping(&nap) == 0 && began.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        source.stop();
        Instant::now()
    });
    assert!(stopped.elapsed() < Duration::from_secs(3));
    assert_eq!(extra(&output, "exception_type"), "Interrupted");
    assert_eq!((output.output.as_str(), sleeping(&nap)), ("begun\n", 0));
}

async fn files_go_in_and_out(executor: &mut dyn Executor) {
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| outside.path().join(name);
    std::fs::write(at("in"), "from outside\n").unwrap();
    executor.upload(&at("in"), "sub/in").await.unwrap();
    assert_eq!(
        text(executor, "cat sub/in; echo more >>sub/in").await,
        "from outside\n"
    );
    executor.download("sub", &at("out")).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(at("out/in")).unwrap(),
        "from outside\nmore\n"
    );
    let error = executor.download("none", &at("x")).await.unwrap_err();
    assert!(error.message.contains("none"), "{error}");
}

/// Leaves processes of every kind, cleans up, and checks that they are gone.
pub(super) async fn cleanup_leaves_nothing(executor: &mut dyn Executor) {
    let nap = nap();
    for command in [
        "sleep NAP &",
        "(setsid sh -c 'trap \"\" TERM; sleep NAP; :' &)",
        "(setsid sleep NAP &)",
        "env -i sleep NAP &",
    ] {
        text(executor, &command.replace("NAP", &nap)).await;
    }
    wait_for("sleepers", || sleeping(&nap) == 4);
    executor.cleanup().await;
    assert_eq!(sleeping(&nap), 0);
    executor.cleanup().await;
}
