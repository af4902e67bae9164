//! `inspect`: recorded runs on the whole screen of a terminal.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::json;

use crate::host::Host;
use crate::story::{commands, repository, submit};
use crate::terminal::Terminal;
use crate::views::View;

/// Presses keys one by one, each after what the screen has to show before it.
fn press(terminal: &Terminal, script: &[(&str, &str)]) {
    for (shown, keys) in script {
        terminal.until(shown);
        terminal.keys(&[keys]);
    }
}

#[test]
fn a_run_is_looked_at_step_by_step() {
    let server = commands(&[
        "echo one; sleep 0.2",
        "echo t\u{1b}[31mwo >&2; exit 3",
        "seq 1 100",
    ]);
    let run = Host::new().server(&server).task("fix it").run().expect(0);
    let host = Host::after(&run).args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(host, 120, 24) else {
        return;
    };
    let screen = terminal.until("step 0 of 4");
    assert!(
        screen.starts_with("traj.events.jsonl · Submitted\nSYSTEM\n"),
        "{screen}"
    );
    press(&terminal, &[("step 0 of 4", "l")]);
    let screen = terminal.until("step 1 of 4");
    let body: Vec<&str> = screen.lines().collect();
    assert_eq!(
        body[1..4],
        ["AGENT (test) · tool_calls", "$ echo one; sleep 0.2", "one"],
        "{screen}"
    );
    assert!(screen.contains("commands 0."), "{screen}");
    assert!(screen.contains("the model saw 2 of 2 messages"), "{screen}");
    // The next error, a search, and its next place.
    press(&terminal, &[("step 1 of 4", "e")]);
    let screen = terminal.until("step 2 of 4");
    assert!(screen.contains("(exit code 3"), "{screen}");
    press(
        &terminal,
        &[("step 2 of 4", "e"), ("no further step has an error", "/")],
    );
    terminal.until("search: _");
    terminal.line("^(57|58)$");
    terminal.until("step 3 of 4");
    terminal.until("\n57\n");
    press(&terminal, &[("\n57\n", "n"), ("\n58\n", "n")]);
    terminal.until("is not found after this place");
    // All of it arrives at once.
    terminal.line("g2");
    terminal.until("step 2 of 4");
    // The record, the bars, the config, the pager.
    press(
        &terminal,
        &[
            ("step 2 of 4", "r"),
            ("\"event\": \"query_started\"", "r"),
            ("AGENT", "c"),
        ],
    );
    press(&terminal, &[("\"config\"", "c"), ("AGENT", "t")]);
    let screen = terminal.until("Enter: open");
    let row = screen
        .lines()
        .find(|line| line.contains("seq 1 100"))
        .unwrap();
    assert!(row.starts_with("    3 ") && row.contains("tok"), "{screen}");
    press(&terminal, &[("2!", "k"), ("step 1 of 4", "Enter")]);
    press(
        &terminal,
        &[("AGENT (test)", "?"), ("this", "x"), ("AGENT (test)", "d")],
    );
    press(
        &terminal,
        &[
            ("no changes of files are recorded", "d"),
            ("AGENT (test)", "q"),
        ],
    );
    // The screen is as it was.
    let all = terminal.ends(0);
    assert!(!all.contains("AGENT"), "{all}");
    terminal.line("echo it is $((6 * 7))");
    terminal.until("it is 42");
}

#[test]
fn changes_of_files_are_said_to_be_those_of_the_end() {
    let server = commands(&["echo more >>kept.txt"]);
    let host = Host::new().server(&server).task("fix it");
    repository(&host.dir());
    let run = host.run().expect(0);
    let host = Host::after(&run).args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(host, 120, 24) else {
        return;
    };
    press(
        &terminal,
        &[
            ("step 0 of 2", "l"),
            ("step 1 of 2", "d"),
            ("only where the run ended, and not for each step", "d"),
            ("step 1 of 2", "l"),
            ("step 2 of 2", "d"),
        ],
    );
    let screen = terminal.until("\n+more");
    let said = "changes of files as they were at the end of step 2, where the run had ended:";
    assert!(screen.contains(said), "{screen}");
    terminal.keys(&["C-c"]);
    terminal.ends(0);
}

#[test]
fn a_list_is_sorted_and_filtered_and_a_narrow_screen_is_resized() {
    let server = commands(&["echo one"]);
    let run = Host::new()
        .server(&server)
        .task("the first task")
        .run()
        .expect(0);
    fs::create_dir(run.dir.join("more")).unwrap();
    let mini = json!({
        "info": {"exit_status": "LimitsExceeded", "submission": "", "model_stats": {"instance_cost": 1.5, "api_calls": 2}},
        "trajectory_format": "mini-swe-agent-1.1",
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "the second task"},
            {"role": "assistant", "content": "look: \u{1b}]0;title\u{7}", "extra": {"actions": [{"command": "ls"}]}},
            {"role": "user", "content": "<returncode>0</returncode>", "extra": {"returncode": 0, "raw_output": "x"}},
        ],
    });
    fs::write(run.dir.join("more/mini.traj.json"), mini.to_string()).unwrap();
    fs::write(run.dir.join("more/broken.traj.json"), "{\"messages\": [").unwrap();
    let host = Host::after(&run).args(["inspect", "."]);
    let Some(terminal) = Terminal::start(host, 100, 20) else {
        return;
    };
    let screen = terminal.until("3 of 3 runs, by newest");
    assert!(
        screen.contains("Submitted") && screen.contains("unreadable"),
        "{screen}"
    );
    press(
        &terminal,
        &[
            ("by newest", "f"),
            ("2 of 3 runs", "f"),
            ("3 of 3", "s"),
            ("by status", "s"),
        ],
    );
    let screen = terminal.until("by cost");
    assert!(
        screen
            .lines()
            .nth(2)
            .unwrap()
            .contains("more/mini.traj.json"),
        "{screen}"
    );
    terminal.keys(&["/"]);
    terminal.until("filter: _");
    terminal.line("second");
    terminal.until("1 of 3 runs");
    press(&terminal, &[("1 of 3 runs", "Enter"), ("step 0 of 1", "l")]);
    let screen = terminal.until("look:");
    assert!(!screen.contains("title"), "{screen}");
    terminal.resize(40, 10);
    terminal.until_so("a small screen", |screen| {
        screen.lines().count() <= 10 && screen.contains("step 1 of 1")
    });
    terminal.keys(&["q"]);
    terminal.keys(&["/"]);
    terminal.until("filter: _");
    terminal.line("broken");
    press(
        &terminal,
        &[("1 of 3 runs", "Enter"), ("is no JSON", "C-c")],
    );
    terminal.ends(0);
}

#[test]
fn what_a_journal_says_of_its_end_moves_nothing() {
    let server = commands(&["echo one"]);
    let run = Host::new().server(&server).task("fix it").run().expect(0);
    let journal = run.dir.join("traj.events.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let hostile = r#""exit_status":"X\u001b[2J\u001b[5;1HEVIL""#;
    let changed = text.replace(r#""exit_status":"Submitted""#, hostile);
    assert_ne!(changed, text);
    fs::write(&journal, changed).unwrap();
    let host = Host::after(&run).args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(host, 80, 24) else {
        return;
    };
    // A frame may be seen before all of it is drawn.
    let title = "traj.events.jsonl · XEVIL\n";
    terminal.until_so("the title", |screen| screen.starts_with(title));
    terminal.keys(&["q"]);
    terminal.ends(0);
}

#[test]
fn a_long_search_says_so_and_is_ended() {
    let host = Host::new().args(["inspect", "large.traj.json"]);
    let text = "a line of a long output\n".repeat(10_000);
    let message = |role: &str| json!({"role": role, "content": text}).to_string();
    let messages: Vec<String> = (0..100)
        .flat_map(|_| [message("assistant"), message("user")])
        .collect();
    let messages = messages.join(",");
    let large = format!(
        r#"{{"info":{{"exit_status":"Submitted"}},"messages":[{messages}],"trajectory_format":"mini-swe-agent-1.1"}}"#
    );
    fs::write(host.dir().join("large.traj.json"), large).unwrap();
    let Some(terminal) = Terminal::start(host, 40, 24) else {
        return;
    };
    // On a narrow screen the help is whole.
    press(&terminal, &[("step 0 of", "?")]);
    terminal.until("y copy (OSC 52)");
    let screen = terminal.until("? this");
    assert!(screen.contains("0 $ first, last step"), "{screen}");
    terminal.keys(&["x"]);
    for (key, shown) in [("/", "is nowhere"), ("n", "")] {
        for end in ["Escape", "C-c"] {
            press(&terminal, &[("step 0 of", key)]);
            if !shown.is_empty() {
                terminal.until("search: ");
                terminal.line(shown);
            }
            terminal.until("searching: step");
            press(&terminal, &[("Esc ends it", end)]);
            terminal.until("the search was ended");
            terminal.keys(&["v"]);
            terminal.until_so("no note", |screen| !screen.contains("was ended"));
        }
    }
    terminal.keys(&["q"]);
    terminal.ends(0);
}

#[test]
fn ctrl_c_in_the_pager_is_the_pagers() {
    let server = commands(&["echo one"]);
    let run = Host::new().server(&server).task("fix it").run().expect(0);
    let host = Host::after(&run)
        .env(
            "PAGER",
            "trap '' INT; cat >/dev/null; echo it is shown; sleep 2",
        )
        .args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(host, 80, 24) else {
        return;
    };
    press(
        &terminal,
        &[
            ("step 0 of", "p"),
            ("it is shown", "C-c"),
            ("step 0 of", "q"),
        ],
    );
    terminal.ends(0);
}

#[test]
fn a_run_that_goes_on_grows() {
    let server = Server::start(Scenario::new([
        Turn::commands(&["echo one"]),
        Turn::commands(&["echo two"]).with_delay(Duration::from_secs(4)),
        Turn::commands(&[submit("done")]).with_delay(Duration::from_secs(2)),
    ]));
    let running = Host::new().server(&server).task("fix it").spawn();
    let journal = running.dir().join("traj.events.jsonl");
    let end = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains("observed")) {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(20));
    }
    let host = Host::beside(&running).args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(host, 80, 24) else {
        return;
    };
    terminal.until("running: ");
    terminal.keys(&["$"]);
    terminal.until("step 3 of 3");
    terminal.until("Submitted");
    running.wait().expect(0);
    terminal.keys(&["q"]);
    terminal.ends(0);
}

#[test]
fn a_trajectory_that_is_written_anew_grows() {
    let run = Host::new().arg("--version").run().expect(0);
    let file = run.dir.join("mini.traj.json");
    let write = |replies: &[&str]| {
        let replies = replies.iter();
        let replies = replies.map(|text| json!({"role": "assistant", "content": text}));
        let task = json!({"role": "user", "content": "the task"});
        let messages: Vec<_> = std::iter::once(task).chain(replies).collect();
        let text = json!({"info": {}, "messages": messages}).to_string();
        fs::write(&file, text).unwrap();
    };
    write(&["one"]);
    let host = Host::after(&run).args(["inspect", "mini.traj.json"]);
    let Some(terminal) = Terminal::start(host, 80, 24) else {
        return;
    };
    press(&terminal, &[("step 0 of 1", "$"), ("step 1 of 1", "k")]);
    write(&["one", "two"]);
    terminal.until("step 2 of 2");
    terminal.keys(&["q"]);
    terminal.ends(0);
}

#[test]
fn without_a_terminal_it_says_what_else_shows_runs() {
    let run = Host::new().arg("inspect").run().expect(2);
    run.says(&["needs a terminal", "mswea-host view"]);
}

#[test]
fn what_only_a_resumed_run_names_is_blanked() {
    let server = commands(&["echo the key is hunter2-hunter2", "true"]);
    let host = Host::new().server(&server).task("x");
    let root = Arc::clone(&host.root);
    host.args(["--step-limit", "1"]).run().expect(3);
    let host = Host::inside(root).file("keys", "OTHER_API_KEY=hunter1-hunter1\n");
    let file = host.dir().join("keys");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let setting = format!("model.secrets_file={}", file.display());
    let more = ["resume", "traj.json", "--step-limit", "2", "-c", &setting];
    let run = host.args(more).run().expect(3);
    let view = View::of(Host::after(&run), &["."]);
    let path = format!("/api/run?id={}", view.id("x"));
    assert!(view.get(&path).body.contains("hunter2"));
    // The file is read again when it has changed.
    fs::write(&file, "OTHER_API_KEY=hunter2-hunter2\n").unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while view.get(&path).body.contains("hunter2") && Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
    }
    let whole = view.get(&path).body;
    assert!(whole.contains("the key is [secret removed]"), "{whole}");
    assert!(!whole.contains("hunter2"), "{whole}");
    // One that may not be used is a warning, which is not printed into the screen.
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let inspect = Host::after(&run).args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(inspect, 200, 30) else {
        return;
    };
    let screen = terminal.until("are not blanked");
    let lines: Vec<&str> = screen.trim_end().lines().collect();
    assert!(lines[lines.len() - 2].starts_with("step 0 of"), "{screen}");
    assert_eq!(screen.matches("are not blanked").count(), 1, "{screen}");
    terminal.keys(&["q"]);
    terminal.ends(0);
}

#[test]
fn what_a_secrets_file_holds_is_blanked() {
    let server = commands(&["echo the key is hunter2-hunter2"]);
    let secrets = "OTHER_API_KEY=hunter2-hunter2\n";
    let host = Host::new().server(&server).task("x").file("keys", secrets);
    let file = host.dir().join("keys");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let setting = format!("model.secrets_file={}", file.display());
    // The page is there before the run is.
    let view = View::of(Host::inside(Arc::clone(&host.root)), &["."]);
    assert!(view.runs().is_empty());
    let run = host.args(["-c", &setting]).run().expect(0);
    let end = Instant::now() + Duration::from_secs(30);
    while view.runs().is_empty() && Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
    }
    let path = format!("/api/run?id={}", view.id("x"));
    let whole = view.get(&path).body;
    assert!(whole.contains("the key is [OTHER_API_KEY]"), "{whole}");
    assert!(!whole.contains("hunter2"), "{whole}");
    let inspect = Host::after(&run).args(["inspect", "traj.json"]);
    let Some(terminal) = Terminal::start(inspect, 100, 30) else {
        return;
    };
    terminal.until("step 0 of");
    terminal.keys(&["l"]);
    let screen = terminal.until("the key is [OTHER_API_KEY]");
    assert!(!screen.contains("hunter2"), "{screen}");
    terminal.keys(&["q"]);
    terminal.ends(0);
}
