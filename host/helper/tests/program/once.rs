//! `mswea-helper run`.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mswea_helper::protocol::HelperRequest;

use crate::client::*;

fn run(grace: &str, argv: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(HELPER);
    command.args(["run", "--grace-ms", grace, "--"]).args(argv);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    let vectors: &[(&[&str], &str, &str, i32)] = &[
        (&["true"], "", "", 0),
        (
            &["sh", "-c", "echo a; echo b >&2; echo c; exit 7"],
            "a\nb\nc\n",
            "",
            7,
        ),
        (&["sh", "-c", "kill -9 $$"], "", "", 137),
        (&["sh", "-c", "kill -TERM $$"], "", "", 143),
        (
            &["no-such"],
            "",
            "mswea-helper: program `no-such`: No such file or directory\n",
            127,
        ),
        (
            &["/etc/passwd"],
            "",
            "mswea-helper: program `/etc/passwd`: Permission denied\n",
            126,
        ),
        (
            &[],
            "",
            "mswea-helper: the command names no program: Invalid argument\n",
            126,
        ),
        (&["cat"], "", "", 0),
    ];
    for (argv, output, error, code) in vectors {
        let wanted = ((*output).to_owned(), (*error).to_owned(), Some(*code));
        assert_eq!(run("100", argv), wanted, "{argv:?}");
    }
    for arguments in [
        &["run"][..],
        &["run", "--grace-ms", "x", "--", "true"],
        &["kill"],
        &["kill", ""],
        &[],
        &["x"],
    ] {
        let output = Command::new(HELPER).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "));
    }
    let (output, _, code) = run("0", &["head", "-c", "5000000", "/dev/zero"]);
    assert_eq!((output.len(), code), (5_000_000, Some(0)));
}

/// A command that is too long for an argument is passed on stdin, and a shell reads it from a
/// descriptor.
#[test]
fn the_action_is_read_from_stdin() {
    let told = |bytes: &[u8]| {
        let mut child = Command::new(HELPER)
            .args(["run", "--stdin"])
            .env("KEPT", "kept")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.code())
    };
    let request = |command: &str| {
        let action = sh(command);
        let request = HelperRequest::Run {
            id: 1,
            argv: action.argv,
            env: vec![b"GIVEN=a\nb".to_vec()],
            cwd: Vec::new(),
            grace_ms: 100,
            input: mswea_helper::protocol::ActionInput::Empty,
        };
        request.encode().unwrap()
    };
    let long = format!(
        "echo \"$0 $KEPT $GIVEN\"; [ -e /proc/self/fd/4 ] || echo none; cat; printf %s '{}' | wc -c; exit 7",
        "x\n".repeat(1 << 20)
    );
    let wanted = format!("bash kept a\nb\nnone\n{}\n", 2 << 20);
    assert_eq!(told(&request(&long)), (wanted, Some(7)));
    assert_eq!(told(&request("exit 3")), (String::new(), Some(3)));
    let whole = request("echo x");
    for bytes in [&b""[..], b"nonsense", &whole[..whole.len() - 1]] {
        assert_eq!(told(bytes), (String::new(), Some(125)));
    }
    let mut client = Client::new();
    let (text, end) = client.run(&sh(&format!("{long}; # {}", "y".repeat(200_000))));
    let wanted = format!("bash  \nnone\n{}\n", 2 << 20);
    assert_eq!((text, end), (wanted, End::by_itself(7)));
}

#[test]
fn background_processes_do_not_hold_it_and_may_go_on_to_print() {
    let (nap, id) = (nap(), fresh_id());
    let file = std::env::temp_dir().join(&id);
    let command = format!(
        "(sleep 0.4; echo late; echo later > {}; sleep {nap}) & echo now",
        file.display()
    );
    let started = Instant::now();
    let output = Command::new(HELPER)
        .args(["run", "--grace-ms", "100", "--", "bash", "-c", &command])
        .env("MSWEA_ACTION", &id)
        .output()
        .unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.status.code()),
        (&b"now\n"[..], Some(0))
    );
    assert!(started.elapsed() < Duration::from_millis(350));
    wait_for("later print", || file.exists() && living(&nap) == 1);
    // It is found by its mark, and the process that reads its output ends with it.
    let killed = Command::new(HELPER).args(["kill", &id]).status().unwrap();
    assert_eq!(killed.code(), Some(0));
    assert_eq!(living(&nap), 0);
    assert_eq!(living(&command), 0);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_signal_or_a_closed_output_ends_all_processes() {
    for (signal, code) in [
        (Some("TERM"), 143),
        (Some("INT"), 130),
        (Some("HUP"), 129),
        (None, 141),
    ] {
        let (one, two) = (nap(), nap());
        let command = format!("trap '' TERM; (setsid sleep {one} &) ; echo up; sleep {two}");
        let mut child = Command::new(HELPER)
            .args(["run", "--grace-ms", "100", "--", "bash", "-c", &command])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take();
        output.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
        wait_for("naps", || living(&one) + living(&two) == 2);
        match signal {
            Some(signal) => {
                let pid = child.id().to_string();
                Command::new("kill")
                    .args([&format!("-{signal}"), &pid])
                    .status()
                    .unwrap();
            }
            None => output = None,
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(living(&one) + living(&two), 0);
        drop(output);
    }
}
