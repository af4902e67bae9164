//! A user at a real terminal: modes, commands, interruptions, and what the model is told.

use std::time::Duration;

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::story::{commands, submit};
use crate::terminal::Terminal;

pub fn host(server: &Server) -> Host {
    Host::new().server(server).task("fix it")
}

/// The texts of the user messages after the task.
pub fn told(terminal: &Terminal) -> Vec<String> {
    let messages = terminal.messages();
    let told = messages
        .into_iter()
        .skip(2)
        .filter(|(role, _)| role == "user");
    told.map(|(_, text)| text).collect()
}

#[test]
fn a_step_waits_and_a_text_rejects_it() {
    let server = commands(&["echo one", "echo two"]);
    let Some(terminal) = Terminal::start(host(&server), 80, 40) else {
        return;
    };
    let screen = terminal.until("Enter: run this");
    assert!(screen.contains("$ echo one"), "{screen}");
    terminal.line("/h");
    terminal.until("/expand [N]");
    terminal.line("/nothing");
    terminal.until("no command /nothing");
    terminal.line("not that");
    terminal.until("$ echo two");
    terminal.line("");
    terminal.until("$ echo COMPLETE");
    terminal.line("");
    terminal.until("wants to finish");
    terminal.line("and this");
    terminal.until("The user added a new task: and this");
    // The server has no further reply, and submits again.
    terminal.until("$ echo COMPLETE");
    terminal.keys(&["C-c"]);
    terminal.until("interrupted · Enter");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
    assert_eq!(
        told(&terminal),
        [
            "Commands not executed. The user rejected your commands with the following message: not that",
            "The user added a new task: and this",
        ]
    );
}

#[test]
fn the_mode_is_switched_at_any_time() {
    let server = commands(&["echo one", "sleep 3; echo two", "echo three", "echo four"]);
    let Some(terminal) = Terminal::start(host(&server), 80, 40) else {
        return;
    };
    terminal.until("$ echo one");
    terminal.line("/c");
    terminal.until("already in confirm mode");
    terminal.line("/y");
    terminal.until("$ sleep 3");
    terminal.line("/c");
    terminal.until("confirm mode");
    terminal.line("look at the end");
    terminal.until("the model gets this before its next step");
    terminal.until("told to the model (UserMessage)");
    terminal.until("Enter: run this");
    terminal.line("/u");
    terminal.until("Switching to human mode");
    terminal.until("your command ·");
    terminal.line("echo by hand");
    terminal.until("  by hand");
    terminal.line("/y");
    let all = terminal.until("wants to finish");
    assert!(all.contains("four"), "{all}");
    terminal.line("");
    terminal.ends(0);
    assert_eq!(
        told(&terminal)
            .iter()
            .map(|text| text.lines().next().unwrap_or_default().to_owned())
            .filter(|line| !line.contains("return"))
            .collect::<Vec<_>>()[..3],
        [
            "look at the end",
            "Commands not executed. Switching to human mode",
            "User command: ",
        ]
    );
}

#[test]
fn ctrl_c_interrupts_what_runs_and_asks() {
    let sleeping = Turn::commands(&["echo before; sleep 60", "echo never"]);
    let server = Server::start(Scenario::new([
        sleeping,
        Turn::text("late").with_delay(Duration::from_secs(60)),
        Turn::commands(&[submit("done")]),
    ]));
    let host = host(&server).arg("-y");
    let Some(terminal) = Terminal::start(host, 80, 40) else {
        return;
    };
    // A command runs.
    terminal.until("running");
    terminal.keys(&["C-c"]);
    terminal.until("interrupted · Enter");
    terminal.line("be quick");
    // The model is queried.
    terminal.until("waiting for the model");
    terminal.keys(&["C-c"]);
    terminal.until("interrupted · Enter");
    terminal.line("");
    // A question is open.
    terminal.until("wants to finish");
    terminal.keys(&["C-c"]);
    terminal.until("interrupted · Enter");
    terminal.keys(&["C-c"]);
    let all = terminal.ends(130);
    assert!(all.lines().all(|line| line.trim() != "never"), "{all}");
    let told = told(&terminal);
    assert_eq!(
        told,
        [
            "Interrupted by user: be quick",
            "Interrupted by user: Temporary interruption caught.",
        ]
    );
    // The terminal is as it was: the shell echoes.
    terminal.line("echo it is $((6 * 7))");
    let screen = terminal.until("it is 42");
    assert!(screen.contains("echo it is $((6"), "{screen}");
}

/// Types the lines, each after the text before it is there and the screen has come to rest: what is typed before a
/// question is shown does not answer it.
pub fn play(terminal: &Terminal, script: &[(&str, &str)]) {
    for (shown, typed) in script {
        let mut screen = terminal.until(shown);
        loop {
            std::thread::sleep(Duration::from_millis(250));
            let before = std::mem::replace(&mut screen, terminal.screen());
            if before == screen {
                break;
            }
        }
        match *typed {
            "^C" => terminal.keys(&["C-c"]),
            "^D" => terminal.keys(&["C-d"]),
            typed => terminal.line(typed),
        }
    }
}

#[test]
fn commands_are_edited_and_approved() {
    let server = commands(&[
        "echo one",
        "echo two && ls",
        "echo three > file",
        "echo four",
    ]);
    let host = host(&server).env("EDITOR", "sed -i s/three/5/");
    let Some(terminal) = Terminal::start(host, 100, 40) else {
        return;
    };
    terminal.until("Enter: run this");
    terminal.line("/e");
    terminal.until("$ echo one\n> /e\nthe command");
    terminal.keys(&["BSpace", "BSpace", "BSpace", "1", "Enter"]);
    terminal.until("> /e\n$ echo 1\nEnter: run this");
    terminal.line("/a");
    terminal.until("> echo 1");
    terminal.keys(&["C-w", "BSpace", "Enter"]);
    // `ls` is not approved.
    terminal.until("$ echo two && ls\nEnter: run this");
    terminal.line("/a");
    terminal.until("> ls");
    terminal.keys(&["Enter"]);
    // A redirection can't be approved.
    terminal.until("$ echo three > file\nEnter: run this");
    terminal.line("/a");
    terminal.until("this can't be allowed always");
    terminal.line("/editor");
    terminal.until("$ echo 5 > file\nEnter: run this");
    terminal.line("");
    // `echo four` runs at once.
    terminal.until("$ echo COMPLETE");
    terminal.line("");
    terminal.until("wants to finish");
    terminal.line("");
    let all = terminal.ends(0);
    assert!(all.contains("> echo\n  1\n"), "{all}");
    assert!(!all.contains("$ echo four\nEnter"), "{all}");
}

#[test]
fn a_run_is_left_resumed_and_replayed() {
    let server = commands(&["echo one", "echo two"]);
    let Some(terminal) = Terminal::start(host(&server), 80, 40) else {
        return;
    };
    let script = [
        ("Enter: run this", "not that"),
        ("$ echo two", "/u"),
        ("your command ·", "echo by hand"),
        ("  by hand", "/quit"),
    ];
    play(&terminal, &script);
    terminal.ends(130);
    let told_before = told(&terminal);
    let trajectory = terminal.root().path().join("work/traj.json");
    let replay = Host::inside(terminal.root())
        .args(["replay", "--verify"])
        .arg(&trajectory);
    replay.run().expect(0);
    // Where nobody can be asked, it goes on by itself.
    let resumed = Host::inside(terminal.root())
        .arg("resume")
        .arg(&trajectory)
        .run()
        .expect(0);
    assert_eq!(resumed.exit_status(), "Submitted");
    let told = told(&terminal);
    assert_eq!(told[..told_before.len()], told_before);
    Host::inside(terminal.root())
        .args(["replay", "--verify"])
        .arg(&trajectory)
        .run()
        .expect(0);
}

#[test]
fn limits_are_raised_and_outputs_expanded() {
    let server = commands(&["seq 1 100", "echo two"]);
    let host = host(&server).args(["--step-limit", "1", "--exit-immediately", "--notify"]);
    let host = host.args([
        "-c",
        "agent.whitelist_actions=[\"seq .*\", \"echo (two|COMP)\"]",
    ]);
    let Some(terminal) = Terminal::start(host, 80, 60) else {
        return;
    };
    let script = [
        ("new step limit", "many"),
        ("`many` is not a number", "3"),
        ("new cost limit", "0"),
    ];
    terminal.until("/expand 1 shows all of it");
    assert!(!terminal.all().contains("\n  50\n"));
    play(&terminal, &script);
    let all = terminal.ends(0);
    assert!(
        all.contains("a limit is reached: steps 1 of 1, cost"),
        "{all}"
    );
    assert!(!all.contains("Enter: run"), "{all}");

    // A limit that stays ends the run; an output is shown in full before that.
    let server = commands(&["seq 1 100"]);
    let host = self::host(&server).args(["--step-limit", "1", "-y"]);
    let Some(terminal) = Terminal::start(host, 80, 200) else {
        return;
    };
    terminal.until("new step limit");
    terminal.keys(&["C-c"]);
    let script = [
        ("interrupted · Enter", "/expand"),
        ("output 1, 100 lines", "/expand 7"),
        ("there is no such output", "/status"),
    ];
    play(&terminal, &script);
    // What is typed before the question is there again does not answer it.
    terminal.until("> /status\nstep 1");
    std::thread::sleep(Duration::from_millis(500));
    let script = [
        ("interrupted · Enter", ""),
        ("Temporary interruption caught", ""),
        ("new cost limit", ""),
    ];
    play(&terminal, &script);
    let all = terminal.ends(3);
    assert!(all.contains("\n  50\n"), "{all}");
}

#[test]
fn a_user_alone_needs_no_model() {
    let server = commands(&[]);
    let host = host(&server).args(["--mode", "human"]);
    let Some(terminal) = Terminal::start(host, 80, 40) else {
        return;
    };
    let submits = submit("mine");
    let script = [
        (
            "your command ·",
            "echo by hand > file; git init -q .; git add file",
        ),
        ("(no output)", "/u"),
        ("already in human mode", "/diff"),
        ("+by hand", ""),
        ("your command ·", &submits),
        ("wants to finish", "/c"),
        ("confirm mode", ""),
    ];
    play(&terminal, &script);
    let all = terminal.ends(0);
    assert!(all.contains("Submitted: 0 steps"), "{all}");
    assert_eq!(server.served(), 0);
    let messages = terminal.messages();
    let shape: Vec<&str> = messages.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(
        shape,
        ["system", "user", "user", "user", "user", "user", "exit"]
    );
    assert!(
        messages[4]
            .1
            .starts_with("User command: \n```bash\necho COMPLETE")
    );
    assert!(messages[5].1.contains("action was not executed"));
}

#[test]
fn what_is_missing_for_a_first_run_is_told() {
    let cases: [(&[&str], &str, &[&str], i32); 3] = [
        (
            &[],
            "",
            &["no model is set", "found: no key", "export OPENAI_API_KEY"],
            2,
        ),
        (
            &[],
            "ANTHROPIC_API_KEY",
            &["found: ANTHROPIC_API_KEY", "-m anthropic/claude"],
            2,
        ),
        (
            &["-m", "openai/gpt-5"],
            "",
            &["no key for `openai/gpt-5`"],
            5,
        ),
    ];
    for (args, key, expected, code) in cases {
        let mut host = Host::new().args(args);
        if !key.is_empty() {
            host = host.env(key, "sk-0123456789abcdef");
        }
        let Some(terminal) = Terminal::start(host, 120, 20) else {
            return;
        };
        let all = terminal.ends(code);
        for part in expected {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}

#[test]
fn a_policy_asks_in_every_mode_and_a_resumed_run_too() {
    let server = commands(&["git push --force", "echo two"]);
    let host = host(&server).args(["-y", "--plugin", "confirm"]);
    let Some(terminal) = Terminal::start(host, 80, 40) else {
        return;
    };
    let script = [
        ("`confirm` asks", "/e"),
        (
            "the command (Enter: done",
            " --help | wc -c >/dev/null; echo edited; sleep 1",
        ),
        ("Enter: run this", ""),
        ("running", "/c"),
        ("$ echo two", "/quit"),
    ];
    play(&terminal, &script);
    terminal.ends(130);
    let resumed = Host::inside(terminal.root()).args(["resume", "traj.json", "--mode", "confirm"]);
    let Some(terminal) = Terminal::start(resumed, 80, 40) else {
        return;
    };
    play(
        &terminal,
        &[("Enter: run this", ""), ("wants to finish", "")],
    );
    let all = terminal.ends(0);
    assert!(all.contains("resuming run"), "{all}");
}

#[test]
fn another_model_goes_on() {
    let server = commands(&["echo one", "echo two"]);
    let Some(terminal) = Terminal::start(host(&server), 80, 50) else {
        return;
    };
    let script = [
        ("$ echo one", "/model"),
        ("the model is local/test", "/model openai/gpt-5"),
        ("OPENAI_API_KEY", "/model local/other"),
        ("$ echo two", "/y"),
        ("wants to finish", ""),
    ];
    play(&terminal, &script);
    let all = terminal.ends(0);
    let models: Vec<String> = server
        .requests()
        .iter()
        .map(|it| it.json()["model"].to_string())
        .collect();
    assert_eq!(models, ["\"test\"", "\"other\"", "\"other\""], "{all}");
    let ends = terminal
        .journal()
        .iter()
        .filter(|it| it["event"] == "run_ended")
        .count();
    assert_eq!(ends, 2);
    // The terminal is as it was.
    terminal.line("echo it is $((6 * 7))");
    terminal.until("it is 42");
}
