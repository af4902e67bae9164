//! `mswea-helper session`.

use std::fs;
use std::process::Command;
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
        // The helper itself ignores this signal and blocks all others.
        ("kill -PIPE $$", "", 141),
        ("kill -TERM $$", "", 143),
        ("set -o pipefail; yes | head -n 1", "y\n", 141),
        (
            // Except for the signals that a C library uses itself.
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
        // The last one is the descriptor that `ls` opens itself.
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
    // An action leaves nothing to the next one.
    assert_eq!(
        client.run(&sh("cd /; export OVER=x; umask 0")).1,
        End::by_itself(0)
    );
    assert_eq!(client.run(&sh("echo $PWD $OVER")).0, "/usr old\n");

    // Programs are looked up relative to the action's directory and in its `PATH`.
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
fn actions_that_cannot_be_started_say_why() {
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
    // The session still works.
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
    // Waiting for them uses no processor time.
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
    // The end of another action does not affect them.
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
        // Processes that are started while it is being searched for. A chain without a pause can be faster than the
        // search on a slow machine.
        "f() { sleep NAP & sleep 0.01; (f &) ; sleep 0.02; }; f & while :; do (setsid sleep NAP &) ; sleep 0.01; done",
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
    // Also without a variable to recognise them by.
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
fn an_action_that_has_ended_is_not_reported_as_killed() {
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
    // A flood does not slow the helper down, nor the other way round.
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
fn all_output_of_the_command_is_kept_without_any_grace() {
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
fn dead_children_are_reaped() {
    let mut client = Client::new();
    client.run(&sh("for n in $(seq 50); do (setsid sleep 0.1 &) ; done"));
    let children = format!("/proc/{0}/task/{0}/children", client.child.id());
    wait_for("graves", || {
        fs::read_to_string(&children).unwrap().is_empty()
    });
}
