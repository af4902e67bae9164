//! `mswea-helper session`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::*;

#[test]
fn actions_and_what_comes_of_them() {
    let mut client = Client::new();
    let vectors = [
        ("true", "", 0),
        ("exit 7", "", 7),
        ("kill -9 $$", "", 137),
        // The helper itself ignores this one and holds all others back.
        ("kill -PIPE $$", "", 141),
        ("kill -TERM $$", "", 143),
        ("set -o pipefail; yes | head -n 1", "y\n", 141),
        (
            // But for signals that a C library keeps to itself.
            "grep -E '^Sig(Blk|Ign)' /proc/self/status | grep -v '0000000$'",
            "",
            1,
        ),
        (
            "for n in 1 2 3; do echo $n; echo e$n >&2; done",
            "1\ne1\n2\ne2\n3\ne3\n",
            0,
        ),
        ("cat; echo $?", "0\n", 0),
        (
            "set -- $(cat /proc/$$/stat); test $1 = $5 -a $1 = $6; echo $?",
            "0\n",
            0,
        ),
        // The last one is what `ls` itself has open.
        ("ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ", 0),
        ("printf 'a\\0b\\377'", "a\0b\u{fffd}", 0),
        ("exec >&- 2>&-; sleep 0.3; exit 4", "", 4),
        ("echo $0 $#", "bash 0\n", 0),
    ];
    for (command, output, status) in vectors {
        let wanted = (output.to_owned(), End::by_itself(status));
        assert_eq!(client.run(&sh(command)), wanted, "{command}");
    }
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn directory_and_variables() {
    let folder = tempfile();
    let mut client = Client::from(
        Command::new(HELPER)
            .arg("session")
            .env("OWN", "kept")
            .env("OVER", "old")
            .current_dir("/usr"),
    );
    let mut action = sh("echo $PWD $OWN $OVER $NEW $EQUAL");
    action
        .env
        .extend(["OVER=one", "OVER=two", "NEW=", "EQUAL=a=b"].map(Into::into));
    assert_eq!(client.run(&action).0, "/usr kept two a=b\n");
    action.cwd = folder.clone().into_bytes();
    assert_eq!(client.run(&action).0, format!("{folder} kept two a=b\n"));
    // Nothing of an action reaches the next one.
    assert_eq!(
        client.run(&sh("cd /; export OVER=x; umask 0")).1,
        End::by_itself(0)
    );
    assert_eq!(client.run(&sh("echo $PWD $OVER")).0, "/usr old\n");

    // Programs are found as from the action's directory, in the action's `PATH`.
    fs::write(format!("{folder}/tool"), "#!/bin/sh\necho found $1\n").unwrap();
    executable(&format!("{folder}/tool"));
    for (path, cwd) in [
        (folder.as_str(), "/"),
        ("/nowhere-mswea:.", &folder),
        ("", &folder),
    ] {
        let mut action = argv(&["tool", "me"]);
        action.env.push(format!("PATH={path}").into_bytes());
        action.cwd = cwd.as_bytes().to_vec();
        assert_eq!(client.run(&action).0, "found me\n", "{path}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_started_says_why() {
    let folder = tempfile();
    let plain = format!("{folder}/plain");
    fs::write(&plain, "x").unwrap();
    let text = format!("{folder}/text");
    fs::write(&text, "no program").unwrap();
    executable(&text);
    let mut client = Client::new();
    let long = "x".repeat(200_000);
    let programs: &[(&[&str], i32, String)] = &[
        (
            &["no-such"],
            libc::ENOENT,
            "program `no-such`: No such file or directory".into(),
        ),
        (
            &["/nowhere-mswea/x"],
            libc::ENOENT,
            "program `/nowhere-mswea/x`: No such file or directory".into(),
        ),
        (
            &[&plain],
            libc::EACCES,
            format!("program `{plain}`: Permission denied"),
        ),
        (
            &[&text],
            libc::ENOEXEC,
            format!("program `{text}`: Exec format error"),
        ),
        (
            &["/"],
            libc::EACCES,
            "program `/`: Permission denied".into(),
        ),
        (
            &["echo", "a\0b"],
            libc::EINVAL,
            "an argument contains a NUL: Invalid argument".into(),
        ),
        (
            &["echo", &long],
            libc::E2BIG,
            "program `echo`: Argument list too long".into(),
        ),
        (
            &[],
            libc::EINVAL,
            "the command names no program: Invalid argument".into(),
        ),
        (
            &[""],
            libc::EINVAL,
            "the command names no program: Invalid argument".into(),
        ),
    ];
    for (argv_, errno, text) in programs {
        let wanted = End::Failed {
            errno: *errno,
            text: text.clone(),
        };
        assert_eq!(client.run(&argv(argv_)), (String::new(), wanted));
    }
    for (cwd, errno, why) in [
        (
            "/nowhere-mswea/x",
            libc::ENOENT,
            "No such file or directory",
        ),
        (plain.as_str(), libc::ENOTDIR, "Not a directory"),
    ] {
        let mut action = argv(&["true"]);
        action.cwd = cwd.as_bytes().to_vec();
        let text = format!("working directory `{cwd}`: {why}");
        assert_eq!(client.run(&action).1, End::Failed { errno, text });
    }
    for (entry, text) in [
        (
            "NAME",
            "variable `NAME` is not `NAME=value`: Invalid argument",
        ),
        ("=x", "variable `=x` is not `NAME=value`: Invalid argument"),
        ("A=\0", "a variable contains a NUL: Invalid argument"),
    ] {
        let mut action = argv(&["true"]);
        action.env.push(entry.as_bytes().to_vec());
        let (errno, text) = (libc::EINVAL, text.to_owned());
        assert_eq!(client.run(&action).1, End::Failed { errno, text });
    }
    // None of it has harmed the session.
    assert_eq!(client.run(&sh("echo ok")).0, "ok\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn one_at_a_time() {
    let mut client = Client::new();
    let nap = nap();
    let first = client.start(&argv(&["sleep", &nap]));
    let second = client.start(&argv(&["true"]));
    let (errno, text) = (
        libc::EBUSY,
        "another action runs: Device or resource busy".to_owned(),
    );
    assert_eq!(client.end(second).1, End::Failed { errno, text });
    client.kill(second);
    sleep(Duration::from_millis(50));
    assert_eq!(living(&nap), 1);
    client.kill(first);
    assert_eq!(client.end(first).1, End::killed());
    client.kill(first);
    assert_eq!(client.run(&sh("echo ok")).0, "ok\n");
}

#[test]
fn much_output_needs_no_memory() {
    let mut client = Client::new();
    client.run(&sh("true"));
    let id = client.start(&sh("head -c 20000000 /dev/zero; echo end"));
    let (output, end) = client.end(id);
    assert_eq!((output.len(), end), (20_000_004, End::by_itself(0)));
    assert!(output.ends_with(b"\0end\n"));
    let before = client.memory("VmHWM:");
    assert!(before < 8000, "{before} kB");

    let id = client.start(&sh("yes"));
    assert_eq!(client.until(id, 50_000_000).1, None);
    let asked = Instant::now();
    client.kill(id);
    assert_eq!(client.end(id).1, End::killed());
    assert!(asked.elapsed() < Duration::from_secs(2));
    let after = client.memory("VmHWM:");
    assert!(after - before < 256, "{before} kB, {after} kB");
}

#[test]
fn a_host_that_does_not_read_blocks_the_command_only() {
    let mut client = Client::unread(Command::new(HELPER).arg("session"));
    let count = tempfile();
    let marker = nap();
    let command = format!("exec -a {marker} bash -c 'while :; do echo $RANDOM$RANDOM; done'");
    let id = client.start(&sh(&command));
    wait_for("command", || living(&marker) == 1);
    sleep(Duration::from_millis(300));
    let pid = child_of(client.child.id());
    let state = || fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap();
    let used = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    wait_for("blocked command", || {
        let before = used();
        sleep(Duration::from_millis(100));
        before == used()
    });
    assert!(client.memory("VmHWM:") < 8000, "{}", state());
    client.kill(id);
    wait_for("end of the command", || living(&marker) == 0);
    client.read_on();
    client.take(mswea_helper::protocol::HELLO);
    let (output, end) = client.end(id);
    assert_eq!(end, End::killed());
    assert!(output.len() > 100_000, "{}", output.len());
    fs::remove_dir_all(count).unwrap();
}

#[test]
fn background_processes_outlive_their_action_and_not_the_session() {
    let vectors = [
        "sleep NAP &",
        "setsid sleep NAP &",
        "(setsid sh -c 'sleep NAP & sleep NAP &' &)",
        "env -i PATH=$PATH setsid sh -c 'sleep NAP &'",
        "trap '' TERM HUP INT; sleep NAP &",
        "sleep NAP >/dev/null 2>&1 &",
    ];
    let mut client = Client::new();
    let mut naps = Vec::new();
    for command in vectors {
        let nap = nap();
        let started = Instant::now();
        let command = format!("{}\necho started", command.replace("NAP", &nap));
        assert_eq!(
            client.run(&sh(&command)),
            ("started\n".into(), End::by_itself(0))
        );
        assert!(started.elapsed() < Duration::from_secs(2), "{command}");
        wait_for(&command, || living(&nap) > 0);
        naps.push(nap);
    }
    // Waiting for them costs nothing.
    let stat = format!("/proc/{}/stat", client.child.id());
    let used = || {
        let stat = fs::read_to_string(&stat).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace();
        fields
            .skip(11)
            .take(2)
            .map(|time| time.parse::<u32>().unwrap())
            .sum::<u32>()
    };
    let before = used();
    sleep(Duration::from_millis(500));
    assert!(used() - before <= 1, "{before} {}", used());
    // Another action's end is none of theirs, however it comes.
    let id = client.start(&sh("echo up; sleep 60"));
    client.until(id, 3);
    client.kill(id);
    assert_eq!(client.end(id).1, End::killed());
    for nap in &naps {
        assert!(living(nap) > 0);
    }
    assert_eq!(client.leave(), Some(0));
    for nap in &naps {
        assert_eq!(living(nap), 0);
    }
}

#[test]
fn a_kill_reaches_the_whole_tree() {
    let vectors = [
        "sleep NAP",
        "sleep NAP & sleep NAP",
        "trap '' TERM INT HUP; sleep NAP; sleep NAP",
        "setsid sleep NAP & sleep 60",
        "(setsid sh -c 'sleep NAP & sleep NAP &' &) ; sleep 60",
        "env -i PATH=$PATH setsid sh -c 'sleep NAP &'; sleep 60",
        "env -i PATH=$PATH setsid sh -c 'setsid sleep NAP & sleep NAP' & sleep 60",
        "sleep NAP & kill -STOP $$",
        // What is born while it is being looked for.
        "f() { sleep NAP & (f &) ; sleep 0.02; }; f & while :; do (setsid sleep NAP &) ; sleep 0.01; done",
    ];
    let mut client = Client::new();
    for command in vectors {
        let nap = nap();
        let id = client.start(&sh(&format!("echo up; {}", command.replace("NAP", &nap))));
        client.until(id, 3);
        wait_for(command, || living(&nap) > 0);
        sleep(Duration::from_millis(50));
        client.kill(id);
        assert_eq!(client.end(id).1, End::killed(), "{command}");
        assert_eq!(living(&nap), 0, "{command}");
        assert_eq!(client.run(&sh("echo ok")).0, "ok\n");
    }
    // Also without a variable to know them by.
    let nap = nap();
    let mut action = sh(&format!("(setsid sleep {nap} &) ; echo up; sleep 60"));
    action.env.clear();
    let id = client.start(&action);
    wait_for("nap", || living(&nap) > 0);
    client.kill(id);
    client.end(id);
    assert_eq!(living(&nap), 0);
}

#[test]
fn who_ended_by_himself_in_time_is_not_killed() {
    let mut client = Client::new();
    let nap = nap();
    let mut action = sh(&format!("sleep {nap} & echo done; exit 3"));
    action.grace = Duration::from_secs(600);
    let id = client.start(&action);
    client.until(id, 5);
    sleep(Duration::from_millis(200));
    client.kill(id);
    assert_eq!(client.end(id), (Vec::new(), End::by_itself(3)));
    assert_eq!(living(&nap), 1);
}

#[test]
fn background_processes_may_go_on_to_print() {
    let folder = tempfile();
    let mut client = Client::new();
    let command = format!(
        "cd {folder}; (sleep 0.3; for n in $(seq 20000); do echo line $n; done; touch printed) & \
         (trap 'touch broken' PIPE; sleep 0.3; while :; do echo x || touch failed; sleep 0.01; done) &"
    );
    assert_eq!(client.run(&sh(&command)).1, End::by_itself(0));
    // A flood slows the helper down as little as the other way round.
    client.run(&sh("yes &"));
    wait_for("prints", || {
        fs::exists(format!("{folder}/printed")).unwrap()
    });
    let started = Instant::now();
    for _ in 0..50 {
        assert_eq!(client.run(&sh("echo ok")).0, "ok\n");
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert!(client.memory("VmHWM:") < 8000);
    client.leave();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_the_command_printed_is_there_however_short_the_grace() {
    let mut client = Client::new();
    for _ in 0..20 {
        let mut action = sh("sleep 2 & head -c 60000 /dev/zero");
        action.grace = Duration::ZERO;
        let id = client.start(&action);
        let (output, end) = client.end(id);
        assert_eq!((output.len(), end), (60_000, End::by_itself(0)));
    }
}

#[test]
fn the_dead_are_buried() {
    let mut client = Client::new();
    client.run(&sh("for n in $(seq 50); do (setsid sleep 0.1 &) ; done"));
    let children = format!("/proc/{0}/task/{0}/children", client.child.id());
    wait_for("graves", || {
        fs::read_to_string(&children).unwrap().is_empty()
    });
}

#[test]
fn nothing_but_a_kill_ends_it() {
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
fn what_is_no_request_ends_it_and_all_that_runs() {
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
        assert!(text.contains("no request"), "{text}");
    }
}

#[test]
fn a_host_that_hangs_up_ends_all() {
    // Neither of the two streams is needed for that.
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
    let request = mswea_helper::protocol::Request::Run {
        id: 1,
        argv: vec![b"echo".to_vec(), b"whole".to_vec()],
        env: Vec::new(),
        cwd: Vec::new(),
        grace_ms: 100,
    };
    for byte in request.encode().unwrap() {
        client.send(&[byte]);
        sleep(Duration::from_millis(1));
    }
    assert_eq!(client.end(1), (b"whole\n".to_vec(), End::by_itself(0)));
    // And several at once: the first kill is for what runs, the second for nothing.
    let mut both = request.encode().unwrap();
    for id in [1, 7] {
        both.extend(
            mswea_helper::protocol::Request::Kill { id }
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

/// A shortage of processes is reported, and passes.
#[test]
fn too_many_processes() {
    if !is_root("too_many_processes") {
        return;
    }
    // Another user, whose processes can be counted.
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
                        "program `true`: Resource temporarily unavailable"
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

fn child_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap()
        .trim()
        .to_owned()
}

fn executable(path: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A new folder.
fn tempfile() -> String {
    let path = format!("{}/{}", std::env::temp_dir().display(), fresh_id());
    fs::create_dir(&path).unwrap();
    path
}
