//! The events that end a session of `mswea-helper session`, and a lack of resources, which does not
//! end it.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::*;

#[test]
fn only_sigkill_ends_the_helper() {
    let mut client = Client::new();
    let pid = client.child.id();
    for signal in ["TERM", "INT", "HUP", "QUIT", "USR1", "PIPE", "ALRM"] {
        let (output, end) = client.run(&sh(&format!("kill -{signal} {pid}; echo sent")));
        assert_eq!((output.as_str(), end), ("sent\n", End::by_itself(0)));
    }
    let (_, end) = client.run(&sh(&format!("kill -9 {pid}; sleep 1")));
    assert_eq!(end, End::Gone);
}

#[test]
fn an_invalid_request_ends_the_session_and_its_processes() {
    let long = [&[0xff_u8; 4][..], b"xxxxx"].concat();
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\0\0\0\0",
        b"\x05\0\0\0?\0\0\0\0",
        &long,
    ] {
        let mut client = Client::from(Command::new(HELPER).arg("session").stderr(Stdio::piped()));
        let nap = nap();
        client.start(&argv(&["sleep", &nap]));
        wait_for("nap", || living(&nap) == 1);
        client.send(bytes);
        assert_eq!(client.wait(), Some(125));
        assert_eq!(living(&nap), 0);
        let text = std::io::read_to_string(client.child.stderr.take().unwrap()).unwrap();
        assert!(text.contains("is not a request"), "{text}");
    }
}

#[test]
fn closing_a_stream_ends_all_processes() {
    // Either of the two streams may be closed.
    for close_input in [true, false] {
        let mut client = Client::unread(Command::new(HELPER).arg("session"));
        let (one, two) = (nap(), nap());
        client.start(&sh(&format!("setsid sleep {one} & sleep {two}")));
        wait_for("naps", || living(&one) + living(&two) == 2);
        let output = client.child.stdout.take();
        if close_input {
            client.input = None;
        } else {
            drop(output);
        }
        assert_eq!(client.wait(), Some(0));
        assert_eq!(living(&one) + living(&two), 0);
    }
}

#[test]
fn requests_may_come_in_pieces() {
    let mut client = Client::new();
    let request = mswea_helper::protocol::HelperRequest::Run {
        id: 1,
        argv: vec![b"echo".to_vec(), b"whole".to_vec()],
        env: Vec::new(),
        cwd: Vec::new(),
        grace_ms: 100,
        input: mswea_helper::protocol::ActionInput::Empty,
    };
    for byte in request.encode().unwrap() {
        client.send(&[byte]);
        sleep(Duration::from_millis(1));
    }
    assert_eq!(client.end(1), (b"whole\n".to_vec(), End::by_itself(0)));
    // Several requests at once: the first kill applies to the running action, the second to
    // nothing.
    let mut both = request.encode().unwrap();
    for id in [1, 7] {
        both.extend(
            mswea_helper::protocol::HelperRequest::Kill { id }
                .encode()
                .unwrap(),
        );
    }
    client.send(&both);
    let (_, end) = client.end(1);
    assert!(matches!(end, End::Exited { left: 0, .. }), "{end:?}");
}

#[test]
fn it_starts_without_streams_and_lives_with_few_descriptors() {
    for command in [
        "exec 2>&-; exec HELPER session",
        "exec 2>/dev/full; exec HELPER session",
        "trap '' CHLD PIPE TERM; exec HELPER session",
        "exec 3</dev/null 4<&3 5<&3 9<&3; exec HELPER session",
    ] {
        let command = command.replace("HELPER", HELPER);
        let mut client = Client::from(Command::new("bash").args(["-c", &command]));
        for _ in 0..3 {
            assert_eq!(
                client.run(&sh("ls /proc/self/fd | wc -l")),
                ("4\n".into(), End::by_itself(0))
            );
        }
    }
    let none = format!("exec <&- >&- 2>&-; exec {HELPER} session");
    let status = Command::new("bash").args(["-c", &none]).status().unwrap();
    assert_eq!(status.code(), Some(0));

    let few = format!("ulimit -n 6; exec {HELPER} session");
    let mut client = Client::from(Command::new("bash").args(["-c", &few]));
    for _ in 0..3 {
        let (_, end) = client.run(&sh("true"));
        assert!(
            matches!(
                end,
                End::Failed {
                    errno: libc::EMFILE,
                    ..
                }
            ),
            "{end:?}"
        );
    }
    assert_eq!(client.leave(), Some(0));
}

/// A lack of processes is reported, and the session continues.
#[test]
fn too_many_processes() {
    if !is_root("too_many_processes") {
        return;
    }
    // Another user, whose processes can be limited.
    let nobody = 60_000 + std::process::id() % 5000;
    let copy = tempfile();
    let helper = format!("{copy}/helper");
    fs::copy(HELPER, &helper).unwrap();
    executable(&helper);
    executable(&copy);
    let id = nobody.to_string();
    let setpriv = ["--reuid", &id, "--clear-groups", &helper, "session"];
    let mut client = Client::from(Command::new("setpriv").args(setpriv).current_dir("/"));
    let background = "sleep 1 >/dev/null 2>&1 &";
    client.run(&sh(&format!("{background} {background}")));
    let limited = client.run(&sh("prlimit --pid $PPID --nproc=3"));
    assert_eq!(limited, (String::new(), End::by_itself(0)));
    let started = Instant::now();
    let mut refused = 0;
    loop {
        match client.run(&argv(&["true"])).1 {
            End::Failed { errno, text } => {
                assert_eq!(
                    (errno, text.as_str()),
                    (
                        libc::EAGAIN,
                        "a process for `true`: Resource temporarily unavailable"
                    )
                );
                refused += 1;
            }
            end if refused > 0 => {
                assert_eq!(end, End::by_itself(0));
                break;
            }
            _ => {}
        }
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "never refused or never passed"
        );
        sleep(Duration::from_millis(5));
    }
    drop(client);
    fs::remove_dir_all(copy).unwrap();
}
