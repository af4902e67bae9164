//! Commands of a shell with a terminal, and programs that stay open and read what is written to them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use mswea_helper::protocol::{ActionInput, HelperRequest, TerminalSize};

use crate::client::*;

fn with_terminal() -> Client {
    let mut client = Client::new();
    client.terminal = Some(TerminalSize::default());
    client
}

fn open(client: &mut Client, program: &[&str], input: ActionInput) -> u32 {
    let mut action = argv(program);
    action.env.push(b"TERM=dumb".to_vec());
    action.input = input;
    client.start(&action)
}

const TERMINAL: ActionInput = ActionInput::Terminal(TerminalSize {
    rows: 24,
    columns: 80,
});

/// Sleeps in Python. A signal that comes between Python's check for signals and the start of a sleep is handled
/// after that sleep; so none is long.
const NAPS: &str = "[time.sleep(0.02) for _ in range(3000)]";

#[test]
fn commands_of_a_shell_with_a_terminal() {
    let mut client = with_terminal();
    let vectors = [
        ("echo hi", "hi\n", 0),
        ("echo -n hi", "hi", 0),
        ("printf 'a\\r\\nb\\n'", "a\r\nb\n", 0),
        ("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all", "all\n", 0),
        ("stty size", "24 80\n", 0),
        (
            "stty -a | grep -o -e '-echo ' -e '-onlcr'",
            "-onlcr\n-echo \n",
            0,
        ),
        ("tput -T dumb cols", "80\n", 0),
        ("false", "", 1),
        ("(exit 3)", "", 3),
        ("cat <<E\na\nE", "a\n", 0),
        ("echo a | cat", "a\n", 0),
        ("seq 1 30000 | tail -n 1", "30000\n", 0),
        ("x=5; cd /usr", "", 0),
        ("echo $x $PWD", "5 /usr\n", 0),
        ("sleep 60 & echo", "\n", 0),
        ("jobs -r | wc -l; disown; kill $!", "1\n", 0),
        (
            "echo (",
            "bash: /dev/fd/205: line 1: syntax error near unexpected token `newline'\nbash: /dev/fd/205: line 1: `echo ('\n",
            2,
        ),
        ("sh -c 'kill -9 $$'", "Killed\n", 137),
        // Its own process group is in the foreground, so that it may read.
        (
            "python3 -c 'import os; print(os.getpgrp() == os.tcgetpgrp(0))'",
            "True\n",
            0,
        ),
        // A command's changes to the terminal end with the command.
        ("stty raw echo; exec 0<&- 1>&- 2>&-", "", 0),
        (
            "stty -a | grep -o -e '-echo ' -e ' icanon'; echo back",
            " icanon\n-echo \nback\n",
            0,
        ),
    ];
    for (command, output, status) in vectors {
        let wanted = (output.to_owned(), End::by_itself(status));
        assert_eq!(client.tell(command), wanted, "{command}");
        assert_eq!(client.notes, "", "{command}");
    }
    let (output, end) = client.tell("head -c 3000000 /dev/zero | tr '\\0' x; echo .");
    assert_eq!((output.len(), end), (3_000_002, End::by_itself(0)));
    assert_eq!(client.leave(), Some(0));
}

/// At the end of their time the shell is back, and where it is not, a new one is told of.
#[test]
fn commands_that_wait_for_a_person() {
    let mut client = with_terminal();
    let deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)";
    let deaf = format!("python3 -c \"{deaf}\"");
    for (command, ready, lives) in [
        ("echo ready; sleep 60", "ready", true),
        ("echo ready; sleep 60; echo never", "ready", true),
        ("echo ready; while :; do sleep 0.1; done", "ready", true),
        ("read -p ready x; echo never", "ready", true),
        ("echo ready; cat", "ready", true),
        ("echo ready; cat | cat", "ready", true),
        ("python3 -q", ">>> ", true),
        ("bash --norc", "# ", true),
        ("PS1='# ' sh", "# ", true),
        ("trap '' INT; echo ready; cat", "ready", true),
        ("trap '' INT; echo ready; sleep 60", "ready", false),
        (&deaf, "ready", false),
        ("stty raw -isig; echo ready; sleep 60", "ready", true),
    ] {
        assert_eq!(client.tell("x=here").1, End::by_itself(0));
        let id = client.ask(command);
        client.expect(id, ready);
        sleep(Duration::from_millis(50));
        let asked = Instant::now();
        client.kill(id);
        let (output, end) = client.end(id);
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(2), "{command}: {took:?}");
        assert!(
            !String::from_utf8_lossy(&output).contains("never"),
            "{command}"
        );
        assert!(
            matches!(
                end,
                End::Exited {
                    killed: true,
                    left: 0,
                    ..
                }
            ),
            "{command}: {end:?}"
        );
        let told = if lives { "lives on" } else { "new shell" };
        assert!(client.notes.contains(told), "{command}: {}", client.notes);
        let kept = if lives { "here\n" } else { "\n" };
        let wanted = (kept.to_owned(), End::by_itself(0));
        assert_eq!(client.tell("echo $x; x="), wanted, "{command}");
        assert_eq!(client.tell("stty size").0, "24 80\n", "{command}");
    }
}

#[test]
fn a_command_is_answered_interrupted_and_resized() {
    let mut client = with_terminal();
    let id = client.ask("read -p 'name? ' name; echo \"it is $name\"; cat; stty size");
    client.expect(id, "name? ");
    client.write(id, b"x y\n");
    client.expect(id, "it is x y\n");
    client.write(id, b"line\n");
    client.expect(id, "line\n");
    let size = TerminalSize {
        rows: 7,
        columns: 30,
    };
    client.request(&HelperRequest::Resize { id, size });
    client.request(&HelperRequest::Close { id });
    assert_eq!(client.end(id), (b"7 30\n".to_vec(), End::by_itself(0)));

    // A signal ends what runs in the foreground, and the command goes on as at a keyboard.
    let nap = nap();
    for (command, number, output, status) in [
        (
            format!("echo ready; sleep {nap}; echo \"then $?\""),
            libc::SIGTERM,
            "Terminated\nthen 143\n",
            0,
        ),
        (format!("echo ready; sleep {nap}"), libc::SIGINT, "", 130),
        (
            format!(
                "python3 -c \"import time\ntry: print('ready', flush=True); {NAPS}\nexcept KeyboardInterrupt: print('caught')\""
            ),
            libc::SIGINT,
            "caught\n",
            0,
        ),
    ] {
        let id = client.ask(&command);
        client.expect(id, "ready\n");
        if !command.contains("python3") {
            wait_for("program in the foreground", || living(&nap) == 1);
        }
        client.request(&HelperRequest::Signal { id, number });
        let (found, end) = client.end(id);
        assert_eq!(
            (String::from_utf8_lossy(&found).as_ref(), end),
            (output, End::by_itself(status)),
            "{command}"
        );
    }
    // Input that nobody has read does not reach the next command.
    let id = client.ask("sleep 0.3");
    client.write(id, b"lost\n");
    assert_eq!(client.end(id).1, End::by_itself(0));
    let id = client.ask("read -t 0.2 x; echo \"<$x>\"");
    assert_eq!(client.end(id).0, b"<>\n");
}

#[test]
fn a_shell_that_ends_is_followed_by_one_with_a_terminal() {
    let mut client = with_terminal();
    for command in [
        "exit 3",
        "kill -9 $$",
        "exec true",
        "exec sh -c 'exit 4'",
        "kill -HUP $$",
    ] {
        assert_eq!(client.tell("export KEPT=1; cd /usr").1, End::by_itself(0));
        let (_, end) = client.tell(command);
        assert!(
            matches!(
                end,
                End::Exited {
                    killed: false,
                    left: 0,
                    ..
                }
            ),
            "{command}: {end:?}"
        );
        assert!(
            client.notes.contains("new shell"),
            "{command}: {}",
            client.notes
        );
        let wanted = ("1 /usr\n24 80\n".to_owned(), End::by_itself(0));
        assert_eq!(
            client.tell("echo $KEPT $PWD; stty size"),
            wanted,
            "{command}"
        );
    }
}

#[test]
fn programs_that_stay_open_read_and_answer() {
    for input in [ActionInput::Pipe, TERMINAL] {
        let mut client = Client::new();
        // The input that ends the program; none: the end of its input.
        for (program, ready, said, heard, bye) in [
            (&["cat"][..], "", "a\n", "a\n", None),
            (&["sh", "-i"], "# ", "echo $((6*7))\n", "42\n", None),
            (&["python3", "-q", "-i"], ">>> ", "6*7\n", "42\n", None),
            (&["bc", "-q"], "", "6*7\n", "42\n", Some("quit\n")),
        ] {
            let id = open(&mut client, program, input);
            client.expect(id, ready);
            client.write(id, said.as_bytes());
            client.expect(id, &format!("{heard}{ready}"));
            assert_eq!(client.taken, (said.len(), true), "{program:?}");
            match bye {
                Some(bye) => client.write(id, bye.as_bytes()),
                None => client.request(&HelperRequest::Close { id }),
            }
            let (_, end) = client.end(id);
            assert_eq!(end, End::by_itself(0), "{program:?} {input:?}");
        }
        assert_eq!(client.leave(), Some(0));
    }
}

#[test]
fn input_waits_until_it_is_read() {
    let mut client = Client::new();
    let long = vec![b'x'; 3_000_000];
    let id = open(
        &mut client,
        &["bash", "-c", "sleep 0.5; wc -c"],
        ActionInput::Pipe,
    );
    client.write(id, &long);
    client.request(&HelperRequest::Close { id });
    assert_eq!(client.end(id), (b"3000000\n".to_vec(), End::by_itself(0)));
    assert_eq!(client.taken, (3_000_000, true));
    // Lines for a terminal, which holds 4 KiB.
    let lines = "0123456789\n".repeat(10_000);
    let id = open(
        &mut client,
        &["bash", "-c", "sleep 0.3; head -n 10000 | wc -c"],
        TERMINAL,
    );
    client.write(id, lines.as_bytes());
    assert_eq!(client.end(id), (b"110000\n".to_vec(), End::by_itself(0)));
    // A program that does not read can be killed, and one that has closed its input reports it.
    let id = open(&mut client, &["sleep", "60"], ActionInput::Pipe);
    client.write(id, &long);
    client.kill(id);
    assert_eq!(client.end(id).1, End::killed());
    let id = open(
        &mut client,
        &["bash", "-c", "exec 0<&-; echo closed; sleep 0.5"],
        ActionInput::Pipe,
    );
    client.expect(id, "closed\n");
    client.write(id, &long);
    assert_eq!(client.end(id).1, End::by_itself(0));
    assert!(!client.taken.1, "{:?}", client.taken);
    // Nobody has it.
    let id = open(
        &mut client,
        &["bash", "-c", "echo ready; sleep 0.3"],
        ActionInput::Empty,
    );
    client.expect(id, "ready\n");
    client.write(id, b"x");
    assert_eq!(client.end(id).1, End::by_itself(0));
    assert_eq!(client.taken, (0, false));
    client.write(id, b"late");
    client.write(999, b"nobody");
    assert_eq!(client.run(&sh("cat; echo ok")).0, "ok\n");
}

#[test]
fn programs_are_interrupted_and_end_with_their_helper() {
    for input in [ActionInput::Pipe, TERMINAL] {
        let mut client = Client::new();
        let id = open(&mut client, &["python3", "-q", "-i"], input);
        client.expect(id, ">>> ");
        client.write(
            id,
            format!("import time; print('now'); {NAPS}\n").as_bytes(),
        );
        client.expect(id, "now\n");
        client.request(&HelperRequest::Signal {
            id,
            number: libc::SIGINT,
        });
        client.expect(id, "KeyboardInterrupt");
        client.write(id, b"6*7\n");
        client.expect(id, "42\n");
        // The program closes its terminal, leaves a daemon, and ends.
        let nap = nap();
        let daemon = format!(
            "import subprocess, os; subprocess.Popen(['sleep', '{nap}'], start_new_session=True, stdout=-3, stderr=-3, stdin=-3); print('made')\n"
        );
        client.write(id, daemon.as_bytes());
        client.expect(id, "made\n");
        client.write(id, b"for fd in (0, 1, 2): os.close(fd)\n\n");
        sleep(Duration::from_millis(200));
        client.kill(id);
        let (_, end) = client.end(id);
        assert!(matches!(end, End::Exited { left: 0, .. }), "{end:?}");
        let flood = open(
            &mut client,
            &["sh", "-c", "trap '' INT HUP TERM; yes"],
            input,
        );
        client.expect(flood, "y\ny\n");
        assert_eq!(client.leave(), Some(0));
        wait_for("end of the daemon", || living(&nap) == 0);
    }
}
