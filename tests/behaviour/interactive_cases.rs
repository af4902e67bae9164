//! What mini-swe-agent's own tests say about its interactive agent, as a table of cases at a real terminal.
//!
//! A case has the intent of one or several tests of `tests/agents/test_interactive.py` (version 2.4.6), in our
//! words, and runs with each of the three ways in which a model names commands. Where the answers differ from
//! mini-swe-agent's, DIFFERENCES.md has the reason.

mod table;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use scripted_server::{Scenario, Server, Turn};

use self::table::{CASES, InteractiveCase, OF_THE_USER, ONE, SLOW};
use crate::host::Host;
use crate::needs::Need;
use crate::person::told;
use crate::terminal::Terminal;

/// How many tests the file of mini-swe-agent has.
const TESTS_OF_MINI: usize = 36;
/// How many terminals there are at a time.
const AT_ONCE: usize = 4;

/// The test of mini-swe-agent that needs no terminal, but the lack of one.
const WITHOUT_A_TERMINAL: &str = "limits_exceeded_non_interactive_stops_cleanly";

/// How a model names its commands.
#[derive(Clone, Copy, Debug)]
enum CommandWire {
    ToolCall,
    Text,
    Responses,
}

impl CommandWire {
    fn args(self) -> &'static [&'static str] {
        match self {
            Self::ToolCall => &[],
            Self::Text => &["-c", "text"],
            Self::Responses => &["-c", "model.model_class=litellm_response"],
        }
    }

    fn server(self, commands: &[&str]) -> Server {
        let turns = commands.iter().map(|command| {
            let turn = match (*command, self) {
                (SLOW, _) => return Turn::text("late").with_delay(Duration::from_secs(60)),
                (command, Self::Text) => Turn::fenced(command),
                (command, _) => Turn::commands(&[command]),
            };
            turn.with_cost(0.6)
        });
        Server::start(Scenario::new(turns))
    }
}

#[test]
fn every_test_of_mini_swe_agent_has_a_case() {
    let named = CASES.iter().flat_map(|case| case.tests);
    let named: Vec<&str> = named.copied().chain([WITHOUT_A_TERMINAL]).collect();
    let distinct: BTreeSet<&str> = named.iter().copied().collect();
    assert_eq!(
        (named.len(), distinct.len()),
        (TESTS_OF_MINI, TESTS_OF_MINI)
    );
}

#[test]
fn the_cases_of_mini_swe_agents_interactive_agent() {
    if !Need::Tmux.is_met() {
        return;
    }
    let wires = [
        CommandWire::ToolCall,
        CommandWire::Text,
        CommandWire::Responses,
    ];
    let cases = CASES.iter();
    let waiting: Vec<_> = cases
        .flat_map(|case| wires.map(|wire| (case, wire)))
        .collect();
    let waiting = Mutex::new(waiting);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((case, wire)) = next() {
                    play_case(case, wire);
                }
            });
        }
    });
}

fn play_case(case: &InteractiveCase, wire: CommandWire) {
    let name = format!("{} with {wire:?}", case.tests[0]);
    let server = wire.server(case.commands);
    let host = Host::new().server(&server).task("fix it");
    let host = host.args(wire.args()).args(case.args);
    let terminal = Terminal::start(host, 100, 50).unwrap();
    for (shown, typed) in case.script {
        match *typed {
            "^C" => {
                terminal.until(shown);
                let slow = case.commands.iter().position(|command| *command == SLOW);
                let asked = u64::try_from(slow.unwrap() + 1).unwrap();
                assert!(server.wait_for(asked, Duration::from_secs(60)), "{name}");
                terminal.keys(&["C-c"]);
            }
            typed => terminal.answer(shown, typed),
        }
    }
    let all = terminal.ends(if case.submission.is_some() { 0 } else { 3 });
    for part in case.shown {
        assert!(all.contains(part), "{name}: `{part}` is not shown\n{all}");
    }
    assert_eq!(server.served(), case.queries, "{name}\n{all}");
    let messages = terminal.messages();
    let (role, text) = messages.last().unwrap();
    assert_eq!(role, "exit", "{name}");
    if let Some(submission) = case.submission {
        assert_eq!(text, submission, "{name}");
    }
    // In text, outputs and unusable replies are messages of the user, too.
    let told = told(&terminal);
    let told = told.iter().filter_map(|text| text.lines().next());
    let told: Vec<&str> = told
        .filter(|line| OF_THE_USER.iter().any(|start| line.starts_with(start)))
        .collect();
    assert_eq!(told, case.told, "{name}\n{all}");
}

#[test]
fn without_a_terminal_a_limit_ends_the_run() {
    for wire in [
        CommandWire::ToolCall,
        CommandWire::Text,
        CommandWire::Responses,
    ] {
        let server = wire.server(&["echo 'first'", ONE]);
        let host = Host::new().server(&server).task("fix it").args(wire.args());
        let run = host.args(["-y", "-l", "0.5"]).run().expect(3);
        assert_eq!(run.exit_status(), "LimitsExceeded", "{wire:?}");
        assert_eq!(server.served(), 1, "{wire:?}");
    }
}
