//! Values for the tests of the adapters, and a driver that treats one as the host does. Only
//! tests call it: a release build has none of it.

use std::hint::black_box;
use std::time::Instant;

use mswea_sdk::Adapter;
use mswea_sdk::adapter::{Delta, HttpRequest, ModelError, Next, Request};
use mswea_sdk::types::{Change, ContentPart, Image, Message, Opaque, Reply, Tool, ToolCall, Usage};
use serde_json::{Value, json};

use crate::{Encoded as _, Format};

/// A text part.
pub fn text(text: &str) -> ContentPart {
    ContentPart::text(text)
}

/// An image.
pub fn image(url: &str) -> ContentPart {
    ContentPart::Image(Image {
        url: url.to_owned(),
        extra: None,
    })
}

/// An opaque part.
pub fn opaque(format: &str, data: &str) -> ContentPart {
    ContentPart::Opaque(Opaque {
        format: format.to_owned(),
        data: data.to_owned(),
        extra: None,
    })
}

/// A message.
pub fn message(role: &str, content: Vec<ContentPart>) -> Message {
    Message {
        role: role.to_owned(),
        content,
        ..Message::default()
    }
}

/// A reply in the history.
pub fn assistant(content: Vec<ContentPart>, tool_calls: Vec<ToolCall>) -> Message {
    Message {
        tool_calls,
        ..message("assistant", content)
    }
}

/// The answer to a tool call.
pub fn tool_message(id: &str, output: &str) -> Message {
    Message::tool(id, output)
}

/// A tool call.
pub fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        extra: None,
    }
}

/// The one tool that there is.
pub fn bash_tool() -> Tool {
    Tool::new(
        "bash",
        "Execute a bash command",
        &json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "The bash command to execute" },
            },
            "required": ["command"],
        }),
    )
}

/// Asks with a whole history and the bash tool; the request.
///
/// # Panics
/// If there is none.
pub fn ask(adapter: &mut impl Adapter, history: &[Message]) -> HttpRequest {
    let request = Request {
        tools: vec![bash_tool()],
        extra: None,
    };
    match adapter.query(Change::all(history.to_vec()), request) {
        Ok(Next::Send(request)) => request,
        other => panic!("no request: {other:?}"),
    }
}

/// The body of such a request.
///
/// # Panics
/// If it is no JSON.
pub fn ask_body(adapter: &mut impl Adapter, history: &[Message]) -> Value {
    let body = ask(adapter, history).body;
    match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&body)),
    }
}

/// Answers with these pieces of a body; the reply, and what was shown of it.
///
/// # Panics
/// If the adapter wants another round trip.
pub fn answer(
    adapter: &mut impl Adapter,
    status: u16,
    content_type: &str,
    pieces: &[&[u8]],
) -> (Result<Reply, ModelError>, Vec<Delta>) {
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    adapter.head(status, headers);
    let deltas = pieces.iter().flat_map(|piece| adapter.feed(piece.to_vec()));
    let deltas = deltas.collect();
    let reply = adapter.finish().map(|next| match next {
        Next::Reply(reply) => reply,
        Next::Send(request) => panic!("another request: {request:?}"),
    });
    (reply, deltas)
}

/// What was shown of one kind.
pub fn joined(deltas: &[Delta], kind: &str) -> String {
    let of_kind = deltas.iter().filter(|delta| delta.kind == kind);
    of_kind.map(|delta| delta.text.as_str()).collect()
}

/// Feeds a stream cut at every byte boundary, and byte by byte, and whole; panics unless each
/// gives the same reply and shows the same. Returns the reply.
///
/// # Panics
/// If the replies differ, or there is none.
pub fn cut_everywhere(adapter: &mut impl Adapter, stream: &str) -> Reply {
    let bytes = stream.as_bytes();
    let kinds = ["text", "reasoning", "tool-call"];
    let (whole, deltas) = answer(adapter, 200, "text/event-stream", &[bytes]);
    let whole = match whole {
        Ok(reply) => reply,
        Err(error) => panic!("{}", error.message),
    };
    let shown = kinds.map(|kind| joined(&deltas, kind));
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        let (reply, deltas) = answer(adapter, 200, "text/event-stream", &[left, right]);
        assert_eq!(reply.as_ref().ok(), Some(&whole), "cut at {cut}");
        assert_eq!(
            kinds.map(|kind| joined(&deltas, kind)),
            shown,
            "cut at {cut}"
        );
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    let (reply, _) = answer(adapter, 200, "", &single);
    assert_eq!(reply.as_ref().ok(), Some(&whole), "byte by byte");
    whole
}

/// Feeds every proper beginning of a stream; each must be `malformed-response` up to the byte
/// where `last` ends, and a reply from there on.
///
/// # Panics
/// If not.
pub fn cut_off_everywhere(adapter: &mut impl Adapter, stream: &str, last: &str) {
    let complete = stream.find(last).map_or(usize::MAX, |at| at + last.len());
    assert!(complete <= stream.len(), "`{last}` is not in the stream");
    for end in 0..=stream.len() {
        let piece = &stream.as_bytes()[..end];
        match answer(adapter, 200, "text/event-stream", &[piece]).0 {
            Ok(_) => assert!(end >= complete, "a reply at {end}"),
            Err(error) => {
                assert!(end < complete, "none at {end}: {}", error.message);
                assert_eq!(error.class, "malformed-response", "{}", error.message);
            }
        }
    }
}

/// The tokens of a usage: all of the input, what of it was read from a cache and what was written
/// to one, all of the output, and the reasoning in it.
pub fn counts(usage: &Usage) -> [u64; 5] {
    [
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    ]
}

/// A small generator of our own: the same sequence on every machine.
pub struct Dice(pub u64);

impl Dice {
    /// A number below that of the sides.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }
}

/// Random changes of a history: what is kept between queries has to equal what encoding from
/// scratch gives. `data` is an opaque part of the format `opaque_format`.
///
/// # Panics
/// If not.
pub fn check_prefix<F: Format>(format: &F, opaque_format: &str, data: &str) {
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let mut history: Vec<Message> = Vec::new();
        let mut kept = F::History::default();
        for step in 0..30 {
            let start = match dice.roll(3) {
                0 => dice.roll(history.len() + 1),
                _ => history.len(),
            };
            let messages = (0..dice.roll(4)).map(|i| {
                let words = format!("{seed} {step} {i} \"ü\n");
                match dice.roll(8) {
                    7 => Message {
                        content: vec![text(&words), image(&words), image("https://x/y")],
                        ..tool_message(&words, "")
                    },
                    6 => Message {
                        extra: Some(r#"{"content_list":true}"#.to_owned()),
                        ..message("user", vec![text(&words), text("x")])
                    },
                    5 => Message {
                        extra: Some(r#"{"cache_control":{"type":"ephemeral"}}"#.to_owned()),
                        ..tool_message(&words, &words)
                    },
                    0 => message("user", vec![text(&words)]),
                    1 => assistant(vec![text(&words)], vec![call(&words, "bash", "{}")]),
                    2 => tool_message(&words, &words),
                    3 => message("exit", vec![text(&words)]),
                    _ => assistant(vec![opaque(opaque_format, data)], vec![]),
                }
            });
            let messages: Vec<Message> = messages.collect();
            history.truncate(start);
            history.extend(messages.iter().cloned());
            assert_eq!(kept.apply(format, &Change::tail(start, messages)), Ok(()));
            let mut fresh = F::History::default();
            assert_eq!(fresh.apply(format, &Change::all(history.clone())), Ok(()));
            assert_eq!(kept.count(), fresh.count());
            assert_eq!(format.body(&kept, &[]), format.body(&fresh, &[]));
        }
    }
}

/// How long a step of a long run takes, in microseconds: the median of many, of taking the two
/// new messages up and writing the body, and of copying that body's bytes once. For tests that
/// are `#[ignore]`d: run them with `cargo test --release -- --ignored --nocapture`.
///
/// # Panics
/// If the format refuses the changes.
pub fn measure_step<F: Format>(format: &F, reply: &Message) -> (f64, f64) {
    let output = "x".repeat(2000);
    let step = |number: usize| {
        let id = format!("call_{number}");
        let mut reply = reply.clone();
        reply.tool_calls = vec![call(&id, "bash", r#"{"command":"ls -la"}"#)];
        [reply, tool_message(&id, &output)]
    };
    let mut all = vec![
        message("system", vec![text("S")]),
        message("user", vec![text("U")]),
    ];
    all.extend((0..199).flat_map(step));
    let tools = [bash_tool()];
    let mut history = F::History::default();
    assert_eq!(history.apply(format, &Change::all(all)), Ok(()));
    let (mut steps, mut copies) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let change = Change::tail(400, step(number).to_vec());
        let start = Instant::now();
        assert_eq!(history.apply(format, &change), Ok(()));
        let body = format.body(&history, &tools);
        steps.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        let copy = black_box(body.as_slice()).to_vec();
        copies.push(start.elapsed().as_secs_f64() * 1e6);
        black_box(copy);
    }
    steps.sort_by(f64::total_cmp);
    copies.sort_by(f64::total_cmp);
    (steps[steps.len() / 2], copies[copies.len() / 2])
}
