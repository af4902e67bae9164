//! Runs whose commands share a shell (`environment.session`).

use std::fs;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};

use crate::host::{Host, Signal};
use crate::needs::Need;
use crate::processes;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat log";

fn turns(commands: &[&str]) -> Server {
    let turns = commands.iter().map(|command| Turn::commands(&[*command]));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()).by_history())
}

/// What the model has got.
fn body(server: &Server, request: usize) -> String {
    String::from_utf8_lossy(&server.requests()[request].body).into_owned()
}

fn shared(server: &Server) -> Host {
    let host = Host::new().server(server).task("t");
    host.args(["-c", "environment.session=true"])
}

#[test]
fn the_shell_stays_from_step_to_step() {
    let steps = [
        "mkdir sub; cd sub; x=5; f() { echo \"f $1\"; }; export Y=6",
        "pwd >../log; echo $x >>../log; f 1 >>../log; sh -c 'echo $Y' >>../log",
        "cd ..; echo begun; exit 3",
        "echo \"$x $Y\" >>log; pwd >>log",
        SUBMIT,
    ];
    for sandbox in ["none", "landlock"] {
        if sandbox == "landlock" && !Need::Landlock.is_met() {
            continue;
        }
        let server = turns(&steps);
        let run = shared(&server)
            .args(["-c", &format!("environment.sandbox={sandbox}")])
            .run()
            .expect(0);
        let work = run.dir.canonicalize().unwrap();
        let wanted = format!("{0}/sub\n5\nf 1\n6\n 6\n{0}/sub\n", work.display());
        // The directory of the new shell is that of the last report: of the step before `exit`.
        let log = fs::read_to_string(work.join("log")).unwrap_or_default()
            + &fs::read_to_string(work.join("sub/log")).unwrap_or_default();
        assert_eq!(log, wanted, "{sandbox}");
        let told = body(&server, 3);
        assert!(told.contains("the shell has ended (exit code 3)"), "{told}");
    }
}

#[test]
fn containers_and_sandboxes_have_one_too() {
    let submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; pwd; f; echo \"$x $Y\"";
    let steps = [
        "cd /tmp; x=5; export Y=6; f() { echo f; }",
        "x=7; exit 2",
        submit,
    ];
    for (need, arguments) in [
        (Need::Docker, &["--image", "mswea-test/bash"][..]),
        (Need::Bubblewrap, &["--environment-class", "bubblewrap"]),
    ] {
        if !need.is_met() {
            continue;
        }
        let server = turns(&steps);
        let run = shared(&server).args(arguments).run().expect(0);
        let last = run.stdout.lines().last();
        assert_eq!(last, Some(" 6"), "{arguments:?}: {}", run.stdout);
        assert!(
            run.stdout.starts_with("/tmp\n"),
            "{arguments:?}: {}",
            run.stdout
        );
        let told = body(&server, 2);
        assert!(told.contains("the shell has ended (exit code 2)"), "{told}");
    }
}

#[test]
fn without_the_key_each_command_has_its_own() {
    let server = turns(&["cd /; x=5", "pwd >log; echo \"x$x\" >>log", SUBMIT]);
    let run = Host::new().server(&server).task("t").run().expect(0);
    let work = run.dir.canonicalize().unwrap();
    assert_eq!(run.stdout, format!("{}\nx\n", work.display()));
}

#[test]
fn at_the_time_limit_the_model_is_told() {
    let server = turns(&[
        "x=5; echo one >log",
        "echo begun; sleep 60",
        "echo $x >>log",
        SUBMIT,
    ]);
    let run = shared(&server)
        .args(["-c", "environment.timeout=1"])
        .run()
        .expect(0);
    assert_eq!(run.stdout, "one\n5\n");
    let told = body(&server, 2);
    assert!(told.contains("the shell lives on"), "{told}");
    assert!(told.contains("begun"), "{told}");
}

#[test]
fn a_resumed_run_is_told_that_the_shell_is_another() {
    let server = turns(&["x=5", "echo \"x$x\" >log", SUBMIT]);
    let first = shared(&server).args(["--step-limit", "1"]).run().expect(3);
    let done = Host::after(&first)
        .args(["resume", "traj.json", "--step-limit", "9"])
        .run()
        .expect(0);
    assert_eq!(done.stdout, "x\n");
    let told = body(&server, server.requests().len() - 1);
    assert!(told.contains("a new shell was begun"), "{told}");
}

#[test]
fn a_killed_host_leaves_nothing() {
    let command = "sleep 411 & (setsid sleep 412 &); echo $$ >pid; sleep 413";
    let server = turns(&["x=1; sleep 410 &", command]);
    let mut run = shared(&server).spawn();
    run.until_file("pid");
    let dir = run.dir().to_owned();
    assert!(processes::inside(&dir).len() >= 4);
    run.signal(Signal::KILL);
    let end = Instant::now() + Duration::from_secs(10);
    while !processes::inside(&dir).is_empty() {
        assert!(Instant::now() < end, "{:?}", processes::inside(&dir));
        std::thread::sleep(Duration::from_millis(10));
    }
    run.wait();
}

/// As [`shared`], with a terminal.
fn with_terminal(server: &Server) -> Host {
    shared(server).args(["-c", "environment.pty=true"])
}

#[test]
fn commands_may_have_a_terminal() {
    let submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; printf '%s' \"$log\"";
    let steps = [
        "x=5; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && log=\"$TERM\"",
        // The time limit ends what waits for a person, and not the shell.
        "echo waiting; cat",
        "log+=\" $x $?\"; exit 3",
        "[ -t 0 ] && log=\"again $TERM\"",
        submit,
    ];
    for (need, arguments) in [
        (None, &["-c", "environment.sandbox=none"][..]),
        (
            Some(Need::Landlock),
            &["-c", "environment.sandbox=landlock"],
        ),
        (Some(Need::Docker), &["--image", "mswea-test/bash"]),
        (
            Some(Need::Bubblewrap),
            &["--environment-class", "bubblewrap"],
        ),
    ] {
        if need.is_some_and(|need| !need.is_met()) {
            continue;
        }
        let server = turns(&steps);
        let run = with_terminal(&server)
            .args(arguments)
            .args(["-c", "environment.timeout=2"])
            .env("TERM", "xterm-256color")
            .run()
            .expect(0);
        assert_eq!(run.stdout, "again dumb\n", "{arguments:?}");
        let told = body(&server, 2);
        assert!(
            told.contains("waiting") && told.contains("the shell lives on"),
            "{told}"
        );
        let told = body(&server, 3);
        assert!(told.contains("the shell has ended (exit code 3)"), "{told}");
    }
    let server = turns(&["[ $TERM = vt100 ] && echo yes >log", SUBMIT]);
    let host = with_terminal(&server).args(["-c", "environment.env.TERM=vt100"]);
    assert_eq!(host.run().expect(0).stdout, "yes\n");
}

#[test]
fn a_terminal_needs_the_shell_of_a_session() {
    let server = turns(&[SUBMIT]);
    let host = Host::new().server(&server).task("t");
    let run = host.args(["-c", "environment.pty=true"]).run().expect(2);
    assert!(
        run.stderr
            .contains("`environment.pty` = true has no effect without"),
        "{}",
        run.stderr
    );
    assert!(server.requests().is_empty());
}

/// Programs for a person that a model starts by mistake.
#[test]
fn an_editor_does_not_outlive_the_time_limit() {
    let programs = ["vi x", "less x", "top", "python3", "sh", "more x"];
    let mut steps = vec!["seq 1 1000 >x; y=1".to_owned()];
    for program in programs {
        let name = program.split(' ').next().unwrap_or_default();
        steps.push(format!("command -v {name} >/dev/null || exit 9; {program}"));
        steps.push(format!("echo '{program}' >>log"));
    }
    steps.push(SUBMIT.to_owned());
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let server = turns(&steps);
    let run = with_terminal(&server)
        .args(["-c", "environment.timeout=1"])
        .run()
        .expect(0);
    assert_eq!(run.stdout, format!("{}\n", programs.join("\n")));
    for (number, program) in programs.iter().enumerate() {
        let told = body(&server, 2 * number + 2);
        let is_told = ["the shell lives on", "new shell", "exit code 9"];
        assert!(
            is_told.iter().any(|words| told.contains(words)),
            "{program}: {told}"
        );
    }
}

#[test]
fn a_killed_host_leaves_nothing_of_a_terminal() {
    let command = "trap '' HUP INT TERM; sleep 421 & (setsid sleep 422 &); echo $$ >pid; cat";
    let server = turns(&["x=1; sleep 420 &", command]);
    let mut run = with_terminal(&server).spawn();
    run.until_file("pid");
    let dir = run.dir().to_owned();
    run.signal(Signal::KILL);
    let end = Instant::now() + Duration::from_secs(10);
    while !processes::inside(&dir).is_empty() {
        assert!(Instant::now() < end, "{:?}", processes::inside(&dir));
        std::thread::sleep(Duration::from_millis(10));
    }
    run.wait();
}
