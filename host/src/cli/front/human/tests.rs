//! Tests of whole screens.

mod terminal;

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cli::front::Width;
use crate::cli::front::testing::{Broken, Buffer};
use mswea_core::{Action, Delta, End, ErrorClass, Message, Output, Part, Reply, Usage};

struct Shown {
    front: HumanFront,
    err: Buffer,
    out: Buffer,
}

fn with(look: Look) -> Shown {
    let (err, out) = (Buffer::default(), Buffer::default());
    Shown {
        front: HumanFront::new(err.clone(), out.clone(), look),
        err,
        out,
    }
}

const PLAIN: Look = Look {
    live: false,
    redraw: false,
    colour: false,
    stdout_terminal: false,
    verbose: 0,
    width: Width::Any,
};

const LIVE: Look = Look {
    live: true,
    redraw: true,
    ..PLAIN
};

fn verbose(verbose: u8) -> Look {
    Look { verbose, ..PLAIN }
}

fn action(command: &str) -> Action {
    Action {
        command: command.to_owned(),
        ..Action::default()
    }
}

fn output(text: &str, returncode: i32) -> Output {
    Output {
        output: text.to_owned(),
        returncode,
        ..Output::default()
    }
}

fn reply(text: &str) -> Reply {
    Reply {
        message: Message::new("assistant", text),
        ..Reply::default()
    }
}

fn delta(kind: &str, text: &str) -> Delta {
    Delta {
        kind: kind.to_owned(),
        text: text.to_owned(),
    }
}

impl Shown {
    fn step(&self, step: u32, cost: Option<f64>) {
        self.front.show(&Progress::StepStarted {
            step,
            cost,
            tokens: 0,
        });
    }

    fn replied(&self, text: &str) {
        self.front.show(&Progress::Replied {
            reply: &reply(text),
            cost: None,
        });
    }

    fn delta(&self, kind: &str, text: &str) {
        self.front.show(&Progress::Delta(&delta(kind, text)));
    }

    fn runs(&self, command: &str, output: &Output) {
        self.front.show(&Progress::ActionStarted {
            action: &action(command),
            index: 0,
            of: 1,
        });
        self.front.show(&Progress::ActionEnded { output, index: 0 });
    }

    fn retrying(&self, wait: Duration) {
        self.front.show(&Progress::Retrying {
            class: &ErrorClass::RateLimited.into(),
            message: "slow\ndown",
            attempt: 1,
            of: 10,
            wait,
        });
    }
}

#[test]
fn a_run_without_a_terminal() {
    let shown = with(PLAIN);
    shown
        .front
        .show(&Progress::Message(&Message::new("user", "the task")));
    shown.step(1, Some(0.0));
    shown.delta("text", "I'll");
    shown.replied("\nI'll look.\n");
    shown.runs("ls -a\npwd", &output("a\nb\n", 0));
    shown.step(2, Some(0.01234));
    shown.replied("");
    shown.runs("false", &output("", 1));
    shown.runs("true", &output("", 0));
    shown.front.show(&Progress::Warning("the price is unknown"));
    shown.front.show(&Progress::Ended {
        end: &End::Submitted,
        exit_status: "Submitted",
        submission: "patch",
        cost: Some(0.02),
        steps: 2,
        usage: &Usage {
            input_tokens: 1500,
            output_tokens: 20,
            ..Usage::default()
        },
    });
    let expected = "\
── step 1  $0.0000 ─────────────────────────────────────────
I'll look.
$ ls -a
  pwd
  a
  b

── step 2  $0.0123 ─────────────────────────────────────────
$ false
  exit code 1
$ true
  (no output)
warning: the price is unknown

Submitted: 2 steps, $0.0200, 1,500 tokens in, 20 out
";
    assert_eq!(shown.err.text(), expected);
    assert_eq!(shown.out.text(), "patch\n");
}

#[test]
fn variables_that_commands_do_not_see_are_named_once() {
    let names: Vec<String> = (1..=14).map(|number| format!("V{number}")).collect();
    let shown = with(PLAIN);
    shown.front.show(&Progress::Withheld(&names));
    shown.runs("true", &output("", 0));
    shown.runs("killed", &output("", -9));
    assert!(!shown.err.take().contains("V1"));
    shown.runs("false", &output("", 1));
    let text = shown.err.take();
    assert!(
        text.contains("V11, V12 and 2 more (`-v` names all); "),
        "{text}"
    );
    assert!(text.contains("env_allow"), "{text}");
    shown.runs("false", &output("", 1));
    assert!(!shown.err.take().contains("V1"));
    let shown = with(verbose(1));
    shown.front.show(&Progress::Withheld(&names[..2]));
    let text = shown.err.take();
    assert!(text.starts_with("commands do not see V1, V2; "), "{text}");
}

#[test]
fn an_answer_is_shown_while_it_arrives() {
    let shown = with(LIVE);
    shown.step(1, None);
    shown.err.take();
    for (kind, text, expected) in [
        ("text", "\n\n", ""),
        ("text", "\nHel", "Hel"),
        ("reasoning", "hm", ""),
        ("text", "lo\x1b[31m", "lo␛[31m"),
        ("text", "\n", "\n"),
        ("text", "end", "end"),
        ("text", " 👩\u{200d}", " "),
        ("text", "💻", ""),
        // Below it the seconds are counted.
        ("tool-call", "{\"command\"", "👩\u{200d}💻\n"),
        ("tool-call", ": \"ls\"}", ""),
    ] {
        shown.delta(kind, text);
        assert_eq!(shown.err.take(), expected);
    }
    shown.replied("Hello\nend");
    shown.runs("ls", &output("x", 0));
    assert_eq!(shown.err.take(), "$ ls\n  x\n");
    // The next reply comes whole.
    shown.replied("whole");
    assert_eq!(shown.err.take(), "whole\n");
}

#[test]
fn a_broken_answer_is_marked_and_shown_again() {
    let shown = with(LIVE);
    shown.delta("text", "half");
    shown.front.show(&Progress::DeltaReset);
    shown.front.show(&Progress::DeltaReset);
    shown.replied("whole");
    assert_eq!(
        shown.err.text(),
        "half\n(the reply was cut off: the query is sent again)\nwhole\n"
    );
}

#[test]
fn reasoning_is_for_the_verbose() {
    let live = with(Look { verbose: 1, ..LIVE });
    live.delta("reasoning", "hm");
    live.delta("reasoning", "...");
    live.delta("text", "Hi");
    live.replied("Hi");
    assert_eq!(live.err.text(), "thinking:\nhm...\nHi\n");

    let mut answer = reply("Hi");
    answer.message.content.insert(
        0,
        Part::Reasoning {
            text: "hm\n".into(),
            extra: Default::default(),
        },
    );
    for (level, expected) in [(0, "Hi\n"), (1, "thinking:\nhm\nHi\n")] {
        let shown = with(verbose(level));
        shown.front.show(&Progress::Replied {
            reply: &answer,
            cost: None,
        });
        assert_eq!(shown.err.text(), expected);
    }
}

#[test]
fn outputs() {
    let long: String = (1..=100).map(|n| format!("{n}\n")).collect();
    let mut elided = output("a\n", 0);
    elided.extra.insert("elided_bytes".into(), json!(12345));
    let mut late = output("partial\n", -1);
    late.exception_info = "timed out\nafter 30 s".into();
    let vectors = [
        (output("a", 2), "  a\n  exit code 2\n"),
        (output("a\n\nb\n", 0), "  a\n\n  b\n"),
        (output("", -9), "  ended by signal 9\n"),
        (output("", -1), "  exit code -1\n"),
        (
            elided,
            "  a\n  (12,345 bytes of its middle were not kept)\n",
        ),
        (late, "  partial\n  timed out after 30 s\n"),
        (output("\x1b]0;t\x07\x1b[2Jx\x07", 0), "  x␇\n"),
        (
            output(&long, 0),
            "  1\n  2\n  3\n  4\n  5\n  6\n  7\n  8\n  9\n  10\n  ... 80 lines left out ...\n  \
             91\n  92\n  93\n  94\n  95\n  96\n  97\n  98\n  99\n  100\n",
        ),
    ];
    for (output, expected) in vectors {
        let shown = with(PLAIN);
        shown.front.show(&Progress::ActionEnded {
            output: &output,
            index: 0,
        });
        assert_eq!(shown.err.text(), expected);
    }
    let shown = with(verbose(2));
    shown.runs("x", &output(&long, 0));
    assert_eq!(shown.err.text().lines().count(), 101);
}

#[test]
fn commands() {
    let shown = with(PLAIN);
    for (index, command) in ["a\nb\n", "c\x1b[8md\r\n", " "].into_iter().enumerate() {
        shown.front.show(&Progress::ActionStarted {
            action: &action(command),
            index,
            of: 3,
        });
    }
    assert_eq!(
        shown.err.take(),
        "[1/3] $ a\n        b\n[2/3] $ c␛[8md␍\n[3/3] $ (an empty command)\n"
    );
    shown.front.show(&Progress::Denied {
        policy: "blocklist",
        action: &action("vim x"),
        reason: "needs a person",
    });
    assert_eq!(
        shown.err.take(),
        "not run: $ vim x\n  denied by `blocklist`: needs a person\n"
    );
}

#[test]
fn messages() {
    let mut feedback = Message::new("user", "no command found");
    feedback
        .extra
        .insert("interrupt_type".into(), json!("FormatError"));
    let told = "told to the model (FormatError):\n  no command found\n";
    let vectors = [
        (0, feedback.clone(), told),
        (0, Message::new("user", "task"), ""),
        (1, Message::new("user", "task"), "message (user):\n  task\n"),
        (1, Message::new("tool", "out"), ""),
        (2, Message::new("tool", "out"), "message (tool):\n  out\n"),
        (2, Message::new("assistant", "hi"), ""),
        (2, Message::new("exit", "bye"), ""),
    ];
    for (level, message, expected) in vectors {
        let shown = with(verbose(level));
        shown.front.show(&Progress::Message(&message));
        assert_eq!(shown.err.text(), expected);
    }
}

#[test]
fn a_wait_is_one_line_without_a_terminal() {
    let shown = with(PLAIN);
    shown.retrying(Duration::from_millis(11_200));
    assert_eq!(
        shown.err.text(),
        "retrying: rate-limited: slow down (retry 1 of 10 in 12 s)\n"
    );
}

#[test]
fn colours_only_where_they_are_wanted() {
    let shown = with(Look {
        colour: true,
        ..PLAIN
    });
    shown.step(1, None);
    shown.front.show(&Progress::Warning("w\x1b[0m"));
    shown.runs("ls", &output("x", 1));
    let text = shown.err.text();
    for part in [
        "\x1b[1mstep 1\x1b[0m",
        "\x1b[33mwarning:\x1b[0m w\n",
        "$ \x1b[1mls\x1b[0m\n  x\n  \x1b[31mexit code 1\x1b[0m\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

#[test]
fn streams_that_fail() {
    let usage = Usage::default();
    let ended = Progress::Ended {
        end: &End::Submitted,
        exit_status: "Submitted",
        submission: "patch\n",
        cost: None,
        steps: 1,
        usage: &usage,
    };
    for (kind, told) in [
        (io::ErrorKind::BrokenPipe, false),
        (io::ErrorKind::StorageFull, true),
    ] {
        // stderr is not read: the submission must be printed nevertheless.
        let out = Buffer::default();
        let front = HumanFront::new(Broken(kind), out.clone(), PLAIN);
        front.show(&ended);
        assert_eq!(out.text(), "patch\n");
        assert!(front.take_output_error().is_none());

        let front = HumanFront::new(Buffer::default(), Broken(kind), PLAIN);
        front.show(&ended);
        assert_eq!(front.take_output_error().is_some(), told, "{kind}");
    }
}

#[test]
fn images_are_named_and_their_data_is_not_shown() {
    let url = format!("data:image/png;base64,{}", "iVBO".repeat(10_000));
    let shown = with(verbose(2));
    let mut message = Message::new("tool", "see ");
    message.content.push(Part::Image {
        url: url.clone(),
        extra: serde_json::Map::new(),
    });
    message.content.push(Part::text(" there"));
    shown.front.show(&Progress::Message(&message));
    shown.front.show(&Progress::ActionStarted {
        action: &action(&format!("echo {url}")),
        index: 0,
        of: 1,
    });
    shown.front.show(&Progress::ActionEnded {
        output: &output(&format!("<{url}>\n"), 0),
        index: 0,
    });
    shown.replied(&url);
    let brief = "data:image/png;base64,... (40000 characters)";
    let expected = format!(
        "message (tool):\n  see [image: {brief}] there\n$ echo {brief}\n  <{brief}>\n{brief}\n"
    );
    assert_eq!(shown.err.text(), expected);
}
