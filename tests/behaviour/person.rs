//! A user at a real terminal: modes, commands, interruptions, and what the model is told.

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::story::{commands, submit};
use crate::terminal::Terminal;

fn host(server: &Server) -> Host {
    Host::new().server(server).task("fix it")
}

/// The texts of the user messages after the task.
fn told(terminal: &Terminal) -> Vec<String> {
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
    terminal.until("your command");
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
        Turn::text("late").with_delay(std::time::Duration::from_secs(60)),
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
    assert!(!all.contains("never\n"), "{all}");
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
