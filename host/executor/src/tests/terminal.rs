//! Actions that share a shell with a terminal.

use super::interactive::{expect, open, send};
use super::session::{self, is_told, sharing_as};
use super::*;
use mswea_core::ProgramError;

const LIMIT: Duration = Duration::from_millis(400);

/// The differences from a shell without a terminal.
pub(crate) async fn commands(executor: &mut impl Executor) {
    for (command, printed, code) in [
        ("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all", "all\n", 0),
        ("echo $TERM; sh -c 'echo $TERM'", "dumb\ndumb\n", 0),
        ("stty size; stty size </dev/tty", "24 80\n24 80\n", 0),
        ("printf 'a\\nb\\r\\n'", "a\nb\n", 0),
        ("echo err >&2; echo out", "err\nout\n", 0),
        ("printf 'a\\xffb'", "a\u{fffd}b", 0),
        ("read -t 0.1 x; echo \"$?\"", "142\n", 0),
        ("echo a | cat; cat </dev/null", "a\n", 0),
        ("(exit 3)", "", 3),
        // The terminal echoes nothing, and settings by a command end with the command.
        ("stty echo onlcr raw", "", 0),
        ("stty -a | grep -c -e ' -echo ' -e '-onlcr'", "2\n", 0),
        ("exec 0<&- 1>&- 2>&-", "", 0),
        ("echo back", "back\n", 0),
        // Job control is on, as in a person's terminal, and tells of jobs. A job that has ended before `wait` begins is
        // reported only after the next command.
        (
            "sleep 0.3 & wait; echo w",
            "[1]+  Done                    sleep 0.3\nw\n",
            0,
        ),
        (
            "echo (",
            "bash: /dev/fd/205: line 1: syntax error near unexpected token `newline'\nbash: /dev/fd/205: line 1: `echo ('\n",
            2,
        ),
    ] {
        let output = run(executor, command).await;
        let found = (output.output.as_str(), output.returncode);
        assert_eq!(found, (printed, code), "{command}");
    }
    let output = run(executor, "head -c 2000000 /dev/zero | tr '\\0' x; echo").await;
    assert_eq!(
        output.extra["elided_bytes"],
        2_000_001 - crate::CAPTURE_BYTES
    );
    // A program that waits for a person ends at the time limit, and the shell goes on.
    for command in [
        "cat",
        "read x",
        "sh",
        "cat | cat",
        "bash --norc",
        "sleep 60; echo never",
    ] {
        run(executor, "x=5; cd /tmp").await;
        let began = Instant::now();
        let output = run_within(executor, &format!("echo begun; {command}"), LIMIT).await;
        assert_eq!(
            extra(&output, "exception_type"),
            "TimeoutExpired",
            "{command}"
        );
        assert!(
            output.output.starts_with("begun\n"),
            "{command}: {output:?}"
        );
        assert!(!output.output.contains("never"), "{command}: {output:?}");
        assert!(
            is_told(&output, "the shell lives on"),
            "{command}: {output:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(4), "{command}");
        assert_eq!(
            run(executor, "echo $x; x=; pwd").await.output,
            "5\n/tmp\n",
            "{command}"
        );
    }
    let deaf = "trap '' INT; echo begun; while :; do sleep 1; done";
    let output = run_within(executor, deaf, LIMIT).await;
    assert!(is_told(&output, "new shell in `/tmp`"), "{output:?}");
    assert_eq!(
        run(executor, "[ -t 0 ] && stty size").await.output,
        "24 80\n"
    );
}

#[tokio::test]
async fn a_shell_with_a_terminal_is_like_one_without() {
    let mut executor = sharing_as(true);
    session::stays(&mut executor).await;
    session_ends::exits(&mut executor).await;
    commands(&mut executor).await;
    executor.cleanup().await;
    let mut executor = sharing_as(true);
    session_ends::lives_on(&mut executor).await;
    executor.cleanup().await;
}

#[tokio::test]
async fn the_kind_of_terminal_can_be_configured() {
    let mut executor = LocalExecutor::new(LocalSettings {
        session: true,
        pty: true,
        env: [("TERM".to_owned(), "vt100".to_owned())].into(),
        ..settings()
    });
    assert_eq!(run(&mut executor, "echo $TERM").await.output, "vt100\n");
    executor.cleanup().await;
}

/// A command that stops the output of the terminal (Ctrl-S) stops it for itself only.
#[tokio::test]
async fn stopped_output_goes_on_with_the_next_command() {
    let found = std::process::Command::new("python3").arg("-V").output();
    let found = found.map(drop).map_err(|error| error.to_string());
    if !needs::has("python3", "stopped_output", found) {
        return;
    }
    let mut executor = sharing_as(true);
    let stops = "python3 -c 'import termios; termios.tcflow(1, termios.TCOOFF)'";
    run_within(&mut executor, stops, Duration::from_secs(3)).await;
    assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn a_line_that_a_terminal_would_cut_off_is_refused() {
    let mut executor = LocalExecutor::new(settings());
    let terminal = Some((24, 80));
    open(&mut executor, "lines", "cat", terminal).await.unwrap();
    for length in [4096, 100_000] {
        let long = format!("before\n{}\n", "x".repeat(length));
        let error = send(&mut executor, "lines", &long).await.unwrap_err();
        assert!(matches!(error, ProgramError::LineTooLong), "{error}");
    }
    let longest = "y".repeat(4095);
    send(&mut executor, "lines", &format!("{longest}\nend\n"))
        .await
        .unwrap();
    let text = expect(&mut executor, "lines", "end\n").await;
    assert!(text == format!("{longest}\nend\n"), "{} bytes", text.len());
    // A program that reads keys gets any line.
    let keys = "stty -icanon; echo ready; head -c 5000 | wc -c";
    open(&mut executor, "keys", keys, terminal).await.unwrap();
    expect(&mut executor, "keys", "ready\n").await;
    send(&mut executor, "keys", &"z".repeat(5000))
        .await
        .unwrap();
    assert!(
        expect(&mut executor, "keys", "5000\n")
            .await
            .contains("5000")
    );
    executor.cleanup().await;
}
