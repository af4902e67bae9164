//! The stream to a helper, cut after each of its bytes in either direction.

use tokio::io::duplex;

use super::*;

/// A helper behind a stream that passes this many bytes of its output, or of its input.
async fn cut(output: usize, input: usize) -> (Child, Result<HelperSession, HelperError>) {
    let mut child = here()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (ours, theirs) = duplex(1 << 16);
    tokio::spawn(pass(child.stdout.take().unwrap(), theirs, output));
    let (inside, outside) = duplex(1 << 16);
    tokio::spawn(pass(inside, child.stdin.take().unwrap(), input));
    let session = HelperSession::start(Box::new(ours), Box::new(outside), LONG).await;
    (child, session)
}

async fn pass(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, bytes: usize) {
    let _ = tokio::io::copy(&mut from.take(bytes as u64), &mut to).await;
}

/// The action, as a fresh process or in the shell.
async fn act(
    session: &mut HelperSession,
    command: &str,
    in_shell: bool,
    limit: f64,
) -> (String, Result<HelperEnd, HelperError>) {
    if !in_shell {
        return run(session, command, limit).await;
    }
    let action = ShellAction {
        bash: "bash",
        login: false,
        env: &[],
        cwd: None,
        grace: Duration::from_millis(50),
        mark: "cut.1",
        command,
        terminal: None,
    };
    let mut capture = Capture::new(1_000);
    let limit = Duration::from_secs_f64(limit);
    let end = session
        .ask(&action, &mut capture, limit, &Stop::never())
        .await;
    (capture.finish(false).text, end.map(|(end, _)| end))
}

#[tokio::test]
async fn replies_that_are_cut_anywhere_end_the_session() {
    for in_shell in [false, true] {
        let mut cuts = 0;
        for after in 0.. {
            let (mut child, session) = cut(after, usize::MAX).await;
            let mut is_whole = false;
            match session {
                Err(HelperError::Gone | HelperError::Foreign(_)) => {
                    assert!(after < HELLO);
                }
                Err(other) => panic!("{after}: {other}"),
                Ok(mut session) => {
                    let (text, end) = act(&mut session, "echo said; exit 3", in_shell, 20.0).await;
                    match end {
                        Ok(end) => {
                            assert_eq!((text.as_str(), end), ("said\n", HelperEnd::Exited(3)));
                            is_whole = true;
                        }
                        Err(HelperError::Gone) => assert!("said\n".starts_with(&text), "{text}"),
                        Err(other) => panic!("{after}: {other}"),
                    }
                }
            }
            let ended = timeout(LONG, child.wait()).await;
            assert!(ended.is_ok(), "{after}: the helper lives on");
            if is_whole {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > HELLO + 20, "only {cuts} cuts");
    }
}

#[tokio::test]
async fn requests_that_are_cut_anywhere_leave_nothing() {
    for in_shell in [false, true] {
        let nap = format!("300.{}", fastrand::u32(1..));
        let command = format!("echo said; sleep {nap}");
        let mut cuts = 0;
        for after in 0.. {
            let (mut child, session) = cut(usize::MAX, after).await;
            let mut session = session.unwrap();
            let (text, end) = act(&mut session, &command, in_shell, 0.2).await;
            drop(session);
            assert!(timeout(LONG, child.wait()).await.is_ok(), "{after}");
            if matches!(end, Ok(HelperEnd::TimedOut)) {
                // The whole request has come, and the cut was in the next one, which ends the command.
                assert_eq!(text, "said\n", "{after}");
                break;
            }
            assert!(matches!(end, Err(HelperError::Gone)), "{after}: {end:?}");
            cuts += 1;
        }
        assert!(cuts > 100, "only {cuts} cuts");
        let left = Program::new("pgrep").args(["-f", &nap]).output().unwrap();
        assert!(left.stdout.is_empty(), "{left:?}");
    }
}
