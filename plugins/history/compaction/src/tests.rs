//! When the plugin sends a query, the query's text, the resulting view, and that a fresh instance
//! has the same view.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

mod changed_histories;
mod config_and_cost;
mod many_questions;
mod random;

use super::*;
use mswea_sdk::testing::{Driver, check_fresh_instances, configure, reply_text, take_log};
use mswea_sdk::types::ToolCall;

/// The plugin with very small budgets, so that histories in tests are short.
struct Small(Compactor);

impl Plugin for Small {
    fn describe() -> Descriptor {
        Compactor::describe()
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        Compactor::new(config, 1_000).map(Self)
    }
}

impl Processor for Small {
    fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
        self.0.apply(change)
    }

    fn resume(&mut self, reply: Reply) -> Result<Next, PluginError> {
        self.0.resume(reply)
    }
}

/// A budget of 1,000 tokens, of which 800 are enough.
fn config() -> Value {
    json!({ "budget_tokens": 1_000, "keep_last": 4, "instructions": "Sum up." })
}

/// The assistant calls `bash`, and the provider has counted so many tokens.
fn call(id: usize, tokens: u64) -> Message {
    Message {
        tool_calls: vec![ToolCall {
            id: format!("c{id}"),
            name: "bash".to_owned(),
            arguments: format!(r#"{{"command":"step {id}"}}"#),
            extra: None,
        }],
        extra: usage(tokens),
        ..Message::new("assistant", format!("now step {id}"))
    }
}

fn usage(tokens: u64) -> Option<String> {
    let usage = json!({ "input_tokens": tokens, "output_tokens": 0 });
    (tokens > 0).then(|| json!({ "mswea": { "usage": usage } }).to_string())
}

fn output(id: usize, bytes: usize) -> Message {
    Message::tool(format!("c{id}"), "x".repeat(bytes))
}

fn start() -> Vec<Message> {
    vec![
        Message::new("system", "s"),
        Message::new("user", "the task"),
    ]
}

/// Steps of a call and its output; each reports the tokens that its query had.
fn run(steps: &[(u64, usize)]) -> Vec<Message> {
    let mut history = start();
    for (id, (tokens, bytes)) in steps.iter().enumerate() {
        history.extend([call(id, *tokens), output(id, *bytes)]);
    }
    history
}

/// A driver whose model gives this reply, and the queries that it got.
fn driver(config: Value, answer: &'static str) -> (Driver<Small>, Rc<RefCell<Vec<String>>>) {
    let asked: Rc<RefCell<Vec<String>>> = Rc::default();
    let questions = Rc::clone(&asked);
    let driver = Driver::new(config).answering(move |query| {
        assert_eq!(
            (query.purpose.as_str(), query.messages.len()),
            ("summary", 1)
        );
        assert_eq!(query.messages[0].role, "user");
        assert!(query.messages[0].tool_calls.is_empty());
        questions.borrow_mut().push(query.messages[0].text());
        reply_text(answer)
    });
    (driver, asked)
}

fn texts(view: &[Message]) -> Vec<String> {
    view.iter().map(Message::text).collect()
}

/// The host's check: every call has its result before any other message, and no result is alone.
fn assert_paired(view: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in view {
        match &message.tool_call_id {
            Some(id) => {
                let place = open.iter().position(|call| call == id);
                open.remove(
                    place.unwrap_or_else(|| panic!("`{id}` is not the id of an open call")),
                );
            }
            None => {
                assert!(open.is_empty(), "{open:?} have no result");
                open = message
                    .tool_calls
                    .iter()
                    .map(|call| call.id.as_str())
                    .collect();
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no result");
}

#[test]
fn it_asks_when_the_context_is_too_large() {
    let vectors = [
        ("nothing yet", vec![], false),
        ("far below", vec![(100, 400), (200, 400), (300, 400)], false),
        // The reported tokens, and a token for each 4 bytes of the output since then.
        (
            "just enough",
            vec![(100, 800), (300, 800), (700, 400)],
            false,
        ),
        (
            "one too many",
            vec![(100, 800), (300, 800), (700, 404)],
            true,
        ),
        (
            "reported alone",
            vec![(100, 800), (300, 800), (801, 0)],
            true,
        ),
        (
            "far beyond",
            vec![(100, 800), (300, 800), (1 << 60, 0)],
            true,
        ),
        // Without reports, all tokens are estimated.
        (
            "estimated, small",
            vec![(0, 800), (0, 800), (0, 400)],
            false,
        ),
        (
            "estimated, large",
            vec![(0, 1_600), (0, 1_600), (0, 400)],
            true,
        ),
        // Only the last reported size counts.
        ("it fell again", vec![(100, 800), (799, 0), (300, 0)], false),
    ];
    for (name, steps, expected) in vectors {
        let (mut driver, asked) = driver(config(), "notes");
        let history = run(&steps);
        let view = driver.apply(Change::all(history.clone())).to_vec();
        assert_eq!(asked.borrow().len(), usize::from(expected), "{name}");
        assert_eq!(view == history, !expected, "{name}");
        assert_paired(&view);
    }
}

#[test]
fn other_messages_that_report() {
    // A rejected reply is not in the history, and the feedback on it was not in the query.
    let feedback = |tokens| Message {
        extra: usage(tokens),
        ..Message::new("user", "f".repeat(404))
    };
    let demo = Message {
        extra: Some(r#"{"is_demo":true,"mswea":{"usage":{"input_tokens":9000}}}"#.to_owned()),
        ..Message::new("assistant", "shown")
    };
    for (message, expected) in [
        (feedback(700), 1),
        (feedback(600), 0),
        (demo, 0),
        (Message::new("exit", "x".repeat(9_000)), 0),
    ] {
        let mut history = run(&[(100, 800), (300, 800)]);
        history.push(message.clone());
        let (mut driver, asked) = driver(config(), "notes");
        driver.apply(Change::all(history));
        assert_eq!(asked.borrow().len(), expected, "{message:?}");
    }
}

#[test]
fn the_view_is_task_summary_and_the_end() {
    let (mut driver, asked) = driver(config(), "  notes \n");
    let history = run(&[(100, 800), (300, 800), (500, 800), (700, 800)]);
    let mut expected = start();
    let template = Template::parse(template::DEFAULT).expect("it is good");
    expected.push(Message::new("user", template.fill("notes")));
    expected.extend_from_slice(&history[6..]);
    assert_eq!(driver.apply(Change::all(history.clone())), expected);
    assert_eq!(driver.questions(), 1);
    let question = asked.borrow()[0].clone();
    assert!(
        question.starts_with("Sum up.\n\n# The task\n\nthe task\n\n"),
        "{question}"
    );
    for part in [
        "now step 1",
        "calls `bash`]\n{\"command\":\"step 1\"}",
        "[result]\nxxx",
    ] {
        assert!(question.contains(part), "{part} in {question}");
    }
    assert!(!question.contains("step 2"), "{question}");

    // From then on only new messages are sent, directly after the last ones.
    let mut len = expected.len();
    for (id, tokens) in [(4, 500), (5, 600)] {
        let new = [call(id, tokens), output(id, 40)];
        let view = driver
            .apply(Change::tail(2 + 2 * id, new.to_vec()))
            .to_vec();
        assert_eq!((driver.last_start(), driver.last_len()), (len, 2));
        assert_eq!(view[..len], expected[..]);
        assert_eq!(view[len..], new);
        expected = view;
        len += 2;
    }
    assert_eq!(asked.borrow().len(), 1);
    // Without new messages nothing is sent.
    driver.apply(Change::tail(14, vec![]));
    assert_eq!((driver.last_start(), driver.last_len()), (len, 0));
}

#[test]
fn the_next_summary_is_of_the_last_one_and_what_came_since() {
    let (mut driver, asked) = driver(config(), "notes");
    let mut steps = vec![(100, 800), (300, 800), (500, 800), (700, 800)];
    driver.apply(Change::all(run(&steps)));
    for tokens in [300, 500, 700] {
        steps.push((tokens, 800));
        let new = run(&steps)[2 * steps.len()..].to_vec();
        let view = driver.apply(Change::tail(2 * steps.len(), new)).to_vec();
        assert_paired(&view);
    }
    let asked = asked.borrow();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[1].contains("[notes on what came before]\nnotes\n"),
        "{}",
        asked[1]
    );
    for (step, is_in) in [(1, false), (2, true), (4, true), (5, false)] {
        let text = format!("now step {step}\n");
        assert_eq!(asked[1].contains(&text), is_in, "step {step}");
    }
    let view = driver.view();
    assert_eq!(view.len(), 2 + 1 + 4);
    assert_eq!(view[3].text(), "now step 5");
}

#[test]
fn what_was_counted_before_a_summary_does_not_count_after_it() {
    let (mut driver, asked) = driver(config(), "notes");
    let mut steps = vec![(100, 800), (300, 800), (500, 800), (700, 800)];
    driver.apply(Change::all(run(&steps)));
    // The provider reports no more counts. Each step of the remaining view has about 200 tokens.
    for expected in [1, 2] {
        steps.push((0, 800));
        let new = run(&steps)[2 * steps.len()..].to_vec();
        driver.apply(Change::tail(2 * steps.len(), new));
        assert_eq!(asked.borrow().len(), expected);
    }
}

#[test]
fn where_the_end_is_cut_off() {
    // `keep_last`; the history after the task; the part of it that is kept. `a2` is a reply with
    // two calls, `t` the result of the next call, `p` a plain-text observation, `u` a message of
    // the user; messages in capitals are long.
    for (keep_last, shape, kept) in [
        (1, "aA1tA1ta1t", "a1t"),
        (2, "aA1tA1ta1t", "a1t"),
        (3, "aA1tA1ta1t", "A1ta1t"),
        (1, "AAa2tt", "a2tt"),
        (2, "AAa2tt", "a2tt"),
        (1, "AAa3tttu", "u"),
        (2, "AAa3tttu", "a3tttu"),
        (1, "AAap", "ap"),
        (1, "AAu", "u"),
        (4, "AApapap", "apap"),
        // The last messages are too large to be kept, so fewer are kept.
        (4, "AAAALa1t", "a1t"),
        (9, "AAAALLL", "L"),
    ] {
        let mut history = start();
        let mut calls: Vec<String> = Vec::new();
        let mut marks = Vec::new();
        let mut letters = shape.chars().peekable();
        while let Some(letter) = letters.next() {
            let text = match letter {
                'A' => "A".repeat(1_200),
                'L' => "L".repeat(6_000),
                // More than a token, so that the end of the history is the first point above the
                // limit.
                other => other.to_string().repeat(8),
            };
            let message = match letter {
                't' => Message::tool(calls.remove(0), text),
                'u' => Message::new("user", text),
                'p' => Message {
                    extra: Some(r#"{"returncode":0}"#.to_owned()),
                    ..Message::new("user", text)
                },
                _ => {
                    let mut message = Message::new("assistant", text);
                    let count = letters.next_if(char::is_ascii_digit);
                    for _ in 0..count.and_then(|c| c.to_digit(10)).unwrap_or(0) {
                        let mut tool_call = call(history.len() * 10 + calls.len(), 0).tool_calls;
                        calls.push(tool_call[0].id.clone());
                        message.tool_calls.append(&mut tool_call);
                    }
                    marks.push(count);
                    message
                }
            };
            history.push(message);
        }
        // All sizes are estimated, and the limit is just below their sum. So the plugin decides at
        // the end of the history, and not before.
        let total = history.iter().map(measure::weight).sum::<u64>() / 4;
        let config = json!({
            "budget_tokens": total.max(1_000), "trigger": (total as f64 - 0.5) / total.max(1_000) as f64,
            "keep_last": keep_last,
        });
        let (mut driver, asked) = driver(config, "notes");
        let view = driver.apply(Change::all(history.clone())).to_vec();
        assert_paired(&view);
        assert_eq!(asked.borrow().len(), 1, "{shape}");
        let expected = kept.chars().filter(|c| !c.is_ascii_digit()).count();
        assert_eq!(
            view.len(),
            3 + expected,
            "{keep_last} {shape}: {:?}",
            texts(&view)
        );
        assert_eq!(view[3..], history[history.len() - expected..], "{shape}");
    }
}

#[test]
fn what_stays_in_front() {
    let demo = Message {
        extra: Some(r#"{"is_demo":true}"#.to_owned()),
        ..Message::new("user", "a demonstration")
    };
    let task = Message::new("user", "the task");
    for (front, head) in [
        (vec![task.clone()], 1),
        (vec![Message::new("system", "s"), task.clone()], 2),
        (vec![Message::new("system", "s"), demo, task], 3),
        (
            vec![Message::new("system", "s"), Message::new("system", "t")],
            2,
        ),
        (vec![], 0),
    ] {
        let mut history = front;
        history.extend_from_slice(&run(&[(100, 800), (300, 800), (500, 800), (700, 800)])[2..]);
        let (mut driver, _) = driver(config(), "notes");
        let view = driver.apply(Change::all(history.clone())).to_vec();
        assert_eq!(view[..head], history[..head]);
        assert!(
            view[head].text().contains("notes"),
            "{head}: {:?}",
            texts(&view)
        );
        assert_eq!(view[head + 1..], history[history.len() - 4..]);
    }
}

#[test]
fn without_progress_it_does_not_ask_again_and_again() {
    let long: &'static str = Box::leak("long ".repeat(1_000).into_boxed_str());
    let numbers = |answer: &'static str, reported: &dyn Fn(u64) -> u64| -> Vec<usize> {
        let (mut driver, asked) = driver(config(), answer);
        let mut history = run(&[(100, 800), (300, 800), (500, 800)]);
        driver.apply(Change::all(history.clone()));
        let mut numbers = Vec::new();
        for id in 3..23 {
            let new = vec![call(id, reported(id as u64)), output(id, 80)];
            driver.apply(Change::tail(history.len(), new.clone()));
            history.extend(new);
            assert_paired(driver.view());
            numbers.push(asked.borrow().len());
        }
        numbers
    };
    // The context grows by 25 tokens per step. After a query that did not help, the next one comes
    // when the context has grown by a tenth of the budget.
    for answer in ["", "  \n", long] {
        let asked = numbers(answer, &|id| 785 + 25 * (id - 3));
        assert_eq!(asked[..6], [1, 1, 1, 1, 2, 2], "{:?}", &answer.get(..5));
        assert_eq!(asked[19], 5, "{asked:?}");
    }
    let warned = take_log();
    assert!(warned[0].1.contains("saves nothing"), "{warned:?}");
    // The summary is short, but the reported size stays the same, because most of it is not in
    // these messages. A further summary needs at least 100 tokens to summarise.
    let asked = numbers("notes", &|_| 900);
    assert_eq!(asked[19], 1, "{asked:?}");
    // If the messages are too few to be summarised, no query is sent.
    let (mut driver, asked) = driver(config(), "notes");
    driver.apply(Change::all(run(&[
        (100, 10),
        (200, 10),
        (300, 10),
        (801, 10),
    ])));
    assert_eq!(asked.borrow().len(), 0);
}

#[test]
fn the_floor_falls_with_the_context() {
    // The summary at 800 saves nothing; the context becomes smaller, and then larger again: the
    // plugin asks at once.
    let answers = Rc::new(Cell::new(0));
    let count = Rc::clone(&answers);
    let mut driver = Driver::<Small>::new(config()).answering(move |_| {
        count.set(count.get() + 1);
        reply_text("")
    });
    let mut history = run(&[(100, 800), (300, 800), (500, 800), (801, 0)]);
    driver.apply(Change::all(history.clone()));
    for (id, tokens, expected) in [(4, 802, 1), (5, 700, 1), (6, 803, 2), (7, 804, 2)] {
        let new = vec![call(id, tokens), output(id, 0)];
        driver.apply(Change::tail(history.len(), new.clone()));
        history.extend(new);
        assert_eq!(answers.get(), expected, "step {id}");
    }
}
