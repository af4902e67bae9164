//! The shell of `mswea-helper session`. What commands print and what stays is tested by the executors.

use std::fs;
use std::time::Duration;

use crate::client::*;

#[test]
fn actions_of_both_kinds_take_turns() {
    let mut client = Client::new();
    assert_eq!(
        client.tell("x=1; echo $x"),
        ("1\n".to_owned(), End::by_itself(0))
    );
    assert_eq!(
        client.run(&sh("echo -$x-; exit 3")),
        ("--\n".to_owned(), End::by_itself(3))
    );
    assert_eq!(
        client.tell("echo $x; false"),
        ("1\n".to_owned(), End::by_itself(1))
    );
    assert_eq!(client.notes, "");
    // Only one at a time.
    let first = client.ask("echo begun; sleep 0.2");
    assert_eq!(client.until(first, 6).0, b"begun\n");
    for second in [client.ask("true"), client.start(&sh("true"))] {
        let (_, end) = client.end(second);
        assert!(
            matches!(&end, End::Failed { text, .. } if text.contains("another action runs")),
            "{end:?}"
        );
    }
    assert_eq!(client.end(first).1, End::by_itself(0));
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_command_is_interrupted_first() {
    let mut client = Client::new();
    let nap = nap();
    for (command, notes) in [
        (format!("echo begun; sleep {nap}"), "the shell lives on"),
        (
            format!("trap '' INT; echo begun; sleep {nap}"),
            "the command and its shell were ended",
        ),
    ] {
        let id = client.ask(&command);
        assert_eq!(client.until(id, 6).0, b"begun\n");
        client.kill(id);
        let (_, end) = client.end(id);
        assert!(
            matches!(
                end,
                End::Exited {
                    killed: true,
                    left: 0,
                    ..
                }
            ),
            "{end:?}"
        );
        assert!(client.notes.contains(notes), "{}", client.notes);
        assert_eq!(living(&nap), 0);
    }
    assert_eq!(client.tell("echo on").0, "on\n");
}

#[test]
fn the_end_of_the_stream_ends_the_shell_and_all_it_started() {
    let (job, other, command) = (nap(), nap(), nap());
    for is_idle in [true, false] {
        let mut client = Client::new();
        let folder = tempfile();
        client.tell(&format!(
            "trap 'touch {folder}/trap' EXIT; sleep {job} & (env -i setsid sleep {other} &)"
        ));
        if !is_idle {
            client.ask(&format!("sleep {command}"));
            wait_for("command", || living(&command) == 1);
        }
        assert_eq!(living(&job) + living(&other), 2);
        assert_eq!(client.leave(), Some(0));
        assert_eq!(living(&job) + living(&other) + living(&command), 0);
        // Only a shell that waits for a command can end by itself.
        assert_eq!(fs::exists(format!("{folder}/trap")).unwrap(), is_idle);
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_host_that_does_not_read_delays_the_command_and_nothing_else() {
    let mut client = Client::unread(std::process::Command::new(HELPER).arg("session"));
    let id = client.ask("yes");
    std::thread::sleep(Duration::from_millis(500));
    let memory = client.memory("VmHWM:");
    assert!(memory < 8 * 1024, "{memory} kB");
    client.read_on();
    client.take(mswea_helper::protocol::HELLO);
    client.kill(id);
    let (_, end) = client.end(id);
    assert!(matches!(end, End::Exited { killed: true, .. }), "{end:?}");
}

#[test]
fn the_output_of_background_processes_is_whole_within_the_grace() {
    let mut client = Client::new();
    client.grace = Duration::from_secs(5);
    for round in 0..60 {
        let (output, _) = client.tell("seq 1 30000 &");
        assert_eq!(output.lines().count(), 30000, "{round}");
    }
}

/// A helper that was stopped sees several events at once.
#[test]
fn output_that_was_dropped_is_not_waited_for() {
    let mut client = Client::new();
    let pid = client.child.id();
    let signal = |name: &str| {
        let status = std::process::Command::new("kill")
            .args([name, &pid.to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    let nap = nap();
    client.tell(&format!("(sleep 0.2; echo bg; exec sleep {nap}) &"));
    signal("-STOP");
    wait_for("job", || living(&nap) == 1);
    let id = client.ask("echo on");
    signal("-CONT");
    let (output, end) = client.end(id);
    assert_eq!((output.as_slice(), end), (&b"on\n"[..], End::by_itself(0)));
}

/// A command that is too long for an argument: a shell reads it from a descriptor.
#[test]
fn long_commands_are_read_from_a_file() {
    let long = format!(
        "echo \"$0\"; [ -e /proc/self/fd/4 ] || echo none; cat; printf %s '{}' | wc -c; exit 7",
        "x\n".repeat(1 << 20)
    );
    let wanted = format!("bash\nnone\n{}\n", 2 << 20);
    let mut client = Client::new();
    assert_eq!(client.run(&sh(&long)), (wanted, End::by_itself(7)));
}
