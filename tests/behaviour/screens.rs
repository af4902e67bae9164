//! The screen of a real terminal: narrow windows, screen readers, pasted texts, replies that arrive while
//! the user types, stopped and lost terminals.

use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::person::{host, play, told};
use crate::story::{commands, submit};
use crate::terminal::Terminal;

#[test]
fn a_task_of_many_lines_is_pasted() {
    let server = commands(&["echo one"]);
    let host = Host::new()
        .server(&server)
        .args(["-o", "traj.json", "-y", "--exit-immediately"]);
    let Some(terminal) = Terminal::start(host, 80, 24) else {
        return;
    };
    terminal.until("What is to be done?");
    let lines: Vec<String> = (0..5000).map(|n| format!("line {n}")).collect();
    terminal.paste(&lines.join("\n"));
    let screen = terminal.until("(5000 lines)");
    assert!(screen.contains("line 4999"), "{screen}");
    terminal.keys(&["C-d"]);
    terminal.ends(0);
    let task = terminal.messages()[1].1.clone();
    assert!(task.contains(&lines.join("\n")), "{}", task.len());
}

#[test]
fn a_screen_reader_gets_lines_that_stay() {
    for is_dumb in [false, true] {
        let server = commands(&["echo one", "echo two"]);
        let host = Host::new().server(&server).args(["-o", "traj.json"]);
        let host = match is_dumb {
            true => host.env("TERM", "dumb"),
            false => host.arg("--plain"),
        };
        let Some(terminal) = Terminal::start(host, 80, 40) else {
            return;
        };
        let script = [
            ("What is to be done?", "fix it"),
            ("fix it", "now"),
            ("now", "^D"),
            ("Enter: run this", "no"),
            ("$ echo two", ""),
            ("$ echo COMPLETE", "/y"),
            ("wants to finish", ""),
        ];
        play(&terminal, &script);
        let all = terminal.ends(0);
        assert!(all.contains("> no\n"), "{all}");
        assert!(terminal.messages()[1].1.contains("fix it\nnow"));
        let rejected = &told(&terminal)[0];
        assert!(rejected.ends_with("message: no"), "{rejected}");
    }
}

#[test]
fn a_narrow_window_that_changes_its_size() {
    let server = commands(&["echo one"]);
    let Some(terminal) = Terminal::start(host(&server), 40, 12) else {
        return;
    };
    terminal.until("Enter: run this");
    terminal.keys(&["-l", "because it is not what I wanted, and more"]);
    let expected = "\
$ echo one
Enter: run this · text: reject ·
> because it is not what I wanted, and
  more";
    let screen = terminal.until("  more");
    assert!(screen.ends_with(expected), "{screen}");
    terminal.resize(100, 12);
    let expected = "\
$ echo one
Enter: run this · text: reject · /h: help · /a: always · /e: edit
> because it is not what I wanted, and more";
    terminal.until_so("the wide screen", |screen| screen.ends_with(expected));
    terminal.resize(30, 12);
    let expected = "\
$ echo one
Enter: run this ·
> because it is not what I wa
  nted, and more";
    terminal.until_so("the narrow screen", |screen| screen.ends_with(expected));
    assert_eq!(terminal.all().matches("Enter: run").count(), 1);
    terminal.keys(&["Enter"]);
    terminal.until("d more\n\n");
    // The terminal has broken the lines, so they are copied whole.
    assert!(
        terminal
            .all()
            .contains("because it is not what I wanted, and more\n")
    );
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
}

#[test]
fn a_pause_of_the_provider_is_still_shown_after_an_interruption() {
    for (flag, shown) in [
        ("--notify", "rate limit: goes on in"),
        (
            "--plain",
            "waiting: the provider has asked for a pause; goes on in",
        ),
    ] {
        let limited = Turn::status(429).with_header("retry-after", "60");
        let server = Server::start(Scenario::new([limited]));
        let Some(terminal) = Terminal::start(host(&server).arg(flag), 80, 24) else {
            return;
        };
        terminal.until("retry 1 of 10 in");
        terminal.keys(&["C-c"]);
        play(&terminal, &[("interrupted · Enter", "")]);
        let screen = terminal.until(shown);
        assert!(!screen.contains("waiting for the model"), "{screen}");
        terminal.keys(&["C-c"]);
        terminal.until_so("again", |screen| {
            screen.matches("interrupted ·").count() > 0
        });
        terminal.keys(&["C-c"]);
        terminal.ends(130);
    }
}

#[test]
fn a_stopped_program_and_a_stopped_or_lost_terminal() {
    let server = commands(&["touch begun; sleep 2; echo one", "touch again; sleep 60"]);
    let Some(terminal) = Terminal::start(host(&server).arg("-y"), 80, 24) else {
        return;
    };
    terminal.until("running");
    terminal.keys(&["C-z"]);
    terminal.until("Stopped");
    terminal.line("fg");
    // Keys are not echoed by the terminal again, and the last lines are there.
    terminal.until("running");
    terminal.keys(&["-l", "hello"]);
    terminal.until("> hello");
    terminal.until("touch again");
    // Ctrl-S stops the output, not the signals.
    terminal.keys(&["C-s"]);
    terminal.keys(&["-l", " you"]);
    terminal.keys(&["C-c"]);
    terminal.until("interrupted · Enter");
    terminal.vanish();
    let ended = || {
        terminal
            .journal()
            .iter()
            .any(|it| it["event"] == "run_ended")
    };
    let end = Instant::now() + Duration::from_secs(10);
    while !ended() {
        assert!(Instant::now() < end, "{:?}", terminal.journal().last());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reply_arrives_above_what_is_typed() {
    let words: Vec<String> = (0..40).map(|n| format!("word{n}")).collect();
    let turn = Turn::commands(&[submit("done")])
        .with_text(format!("{}\nsecond line", words.join(" ")))
        .in_chunks(40, Duration::from_millis(20));
    let server = Server::start(Scenario::new([turn]));
    let Some(terminal) = Terminal::start(host(&server), 60, 10) else {
        return;
    };
    terminal.until("word0");
    terminal.keys(&["-l", "no, 日本"]);
    terminal.until_so("both", |screen| {
        screen.ends_with("> no, 日本") && screen.contains("word")
    });
    terminal.until("one'\nEnter: run this");
    terminal.keys(&["C-l"]);
    terminal.until_so("only the last lines", |screen| {
        screen.starts_with("Enter: run this")
    });
    terminal.keys(&["BSpace", "BSpace", "BSpace", "Enter"]);
    terminal.until("h the following message: no,");
    let all = terminal.all();
    for word in ["word0 ", "word19 ", "word39", "second line", "── step 1"] {
        assert_eq!(all.matches(word).count(), 1, "{word}\n{all}");
    }
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
}
