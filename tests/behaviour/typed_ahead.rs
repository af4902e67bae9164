//! A user at a terminal who decides about commands: nothing of them is hidden, and no key that was pressed
//! before a question was there answers it.

use std::time::Duration;

use crate::person::{host, told};
use crate::story::commands;
use crate::terminal::Terminal;

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    for is_live in [true, false] {
        let server = commands(&["echo one"]);
        let host = host(&server).env("EDITOR", "sh -c 'sleep 2; sed -i s/one/two/ \"$0\"'");
        let host = match is_live {
            true => host,
            false => host.env("TERM", "dumb"),
        };
        let Some(terminal) = Terminal::start(host, 100, 40) else {
            return;
        };
        terminal.until("Enter: run this");
        terminal.line("/editor");
        // The editor runs, and leaves what is typed. It answers no question about the edited command.
        std::thread::sleep(Duration::from_millis(800));
        terminal.keys(&["Enter", "Enter"]);
        terminal.line("be quick");
        terminal.until("$ echo two");
        terminal.until("the model gets this before its next step");
        std::thread::sleep(Duration::from_millis(800));
        let all = terminal.all();
        assert!(!all.contains("\n  two"), "{all}");
        terminal.line("");
        terminal.until("\n  two");
        terminal.until("$ echo COMPLETE");
        terminal.keys(&["C-c"]);
        terminal.until("interrupted");
        terminal.keys(&["C-c"]);
        terminal.ends(130);
        assert_eq!(told(&terminal), ["be quick"]);
    }
}

#[test]
fn nothing_of_a_proposed_command_is_hidden() {
    let image = format!("data:;base64,{}", "QUJD".repeat(20));
    let hidden =
        "echo a\u{1b}]; echo b; #\u{7}\u{1b}X; echo c; #\u{1b}\\ \u{9b}2Jd \u{202e}e\u{200b}f\rg";
    let server = commands(&[hidden, &format!("echo {image}")]);
    let Some(terminal) = Terminal::start(host(&server), 120, 40) else {
        return;
    };
    terminal.until("Enter: run this");
    let all = terminal.all();
    let shown = "$ echo a\u{241b}]; echo b; #\u{2407}\u{241b}X; echo c; #\u{241b}\\ <U+009B>2Jd <U+202E>e<U+200B>f\u{240d}g";
    assert!(all.contains(shown), "{all}");
    terminal.line("/e");
    terminal.until("the command (Enter");
    let screen = terminal.screen();
    assert!(
        screen.contains("echo b") && screen.contains("echo c"),
        "{screen}"
    );
    terminal.keys(&["C-u", "Enter"]);
    terminal.line("no");
    terminal.until(&image);
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
}

#[test]
fn an_enter_while_a_long_command_is_printed_does_not_run_it() {
    let long = format!("echo {}", "word ".repeat(200_000));
    let server = commands(&[&long]);
    let Some(terminal) = Terminal::start(host(&server), 80, 24) else {
        return;
    };
    terminal.until("word word");
    for _ in 0..5 {
        terminal.keys(&["Enter"]);
    }
    terminal.until("Enter: run this");
    std::thread::sleep(Duration::from_millis(500));
    assert!(terminal.screen().contains("Enter: run this"));
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
}
