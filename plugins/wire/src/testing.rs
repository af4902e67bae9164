//! Values for tests of adapters, and a driver that calls an adapter as the host does. Release
//! builds contain none of it.

use std::hint::black_box;
use std::time::Instant;

use mswea_sdk::adapter::{Delta, HttpRequest, ModelError, Next, Request};
use mswea_sdk::body_pieces::Piece;
use mswea_sdk::types::{Change, ContentPart, Image, Message, Opaque, Reply, Tool, ToolCall, Usage};
use mswea_sdk::{Adapter, BodyPieces};
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

/// The only tool.
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

/// The request for a whole history with the bash tool.
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

/// Answers with these pieces of a body; returns the reply, and the deltas.
///
/// # Panics
/// If the adapter sends another request.
pub fn answer(
    adapter: &mut impl Adapter,
    status: u16,
    content_type: &str,
    pieces: &[&[u8]],
) -> (Result<Reply, ModelError>, Vec<Delta>) {
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    adapter.head(status, headers);
    let mut deltas = Vec::new();
    for piece in pieces {
        deltas.extend(adapter.feed(piece.to_vec()));
        if deltas.last() == Some(&Delta::end()) {
            break;
        }
    }
    deltas.retain(|delta| !delta.is_sign());
    let reply = adapter.finish().map(|next| match next {
        Next::Reply(reply) => reply,
        Next::Send(request) => panic!("another request: {request:?}"),
    });
    (reply, deltas)
}

/// The signs that an adapter gives while it gets a body in lines, and the rest of the body after each, without the
/// blank lines before it.
pub fn signs(adapter: &mut impl Adapter, status: u16, body: &str) -> Vec<(String, String)> {
    adapter.head(status, Vec::new());
    let mut signs = Vec::new();
    let mut fed = 0;
    for line in body.split_inclusive('\n') {
        fed += line.len();
        let deltas = adapter.feed(line.as_bytes().to_vec());
        let said = deltas.into_iter().filter(Delta::is_sign);
        let rest = body[fed..].trim_start();
        signs.extend(said.map(|delta| (delta.kind, rest.to_owned())));
    }
    signs
}

/// Checks the signs of a stream, a whole response and an error: the first is finished at the end of
/// the event with `reason`, and has ended at its own end if `has_end`.
///
/// # Panics
/// If they are others.
pub fn check_signs(adapter: &mut impl Adapter, stream: &str, reason: &str, has_end: bool) {
    let event = stream.find(reason).map(|at| &stream[at..]);
    let rest = event.and_then(|event| event.split_once('\n'));
    let rest = rest.unwrap_or_default().1.trim_start();
    let mut expected = vec![("finished".to_owned(), rest.to_owned())];
    if has_end {
        let end = ("end".to_owned(), String::new());
        match rest.is_empty() {
            true => expected = vec![end],
            false => expected.push(end),
        }
    }
    assert_eq!(signs(adapter, 200, stream), expected);
    for (status, body) in [(200, "{\n\"x\": [{}]\n}\n"), (500, "\n{\"error\": {}}\n")] {
        let finished = ("finished".to_owned(), String::new());
        assert_eq!(signs(adapter, status, body), [finished], "{body}");
    }
    let error = "event: error\ndata: {\"type\": \"error\", \"error\": {\"message\": \"m\"}}\n\n";
    let ended = ("end".to_owned(), ": more\n\n".to_owned());
    assert_eq!(signs(adapter, 200, &format!("{error}: more\n\n")), [ended]);
    assert_eq!(signs(adapter, 200, "data: {}\n\n"), []);
}

/// Checks that the thinking in the text of these bodies, `<think>rm</think>ls`, becomes reasoning, and
/// is not sent back in the text.
///
/// # Panics
/// If it is not so.
pub fn check_thinking(adapter: &mut impl Adapter, bodies: &[&str]) {
    for body in bodies {
        let user = message("user", vec![text("hi")]);
        ask(adapter, std::slice::from_ref(&user));
        let (reply, deltas) = answer(adapter, 200, "", &[body.as_bytes()]);
        let reply = match reply {
            Ok(reply) => reply.message,
            Err(error) => panic!("{body}: {}", error.message),
        };
        assert_eq!(reply.text(), "ls", "{body}");
        assert!(
            deltas
                .iter()
                .all(|delta| (&*delta.kind, &*delta.text) != ("text", "rm"))
        );
        let reasoning = reply.content.iter().find_map(|part| match part {
            ContentPart::Reasoning(reasoning) => Some(&*reasoning.text),
            _ => None,
        });
        assert_eq!(reasoning, Some("rm"), "{body}");
        let sent = ask_body(adapter, &[user, reply]).to_string();
        assert!(
            sent.contains("\"ls\"") && !sent.contains("<think"),
            "{sent}"
        );
    }
}

/// The deltas of one kind, joined.
pub fn joined(deltas: &[Delta], kind: &str) -> String {
    let of_kind = deltas.iter().filter(|delta| delta.kind == kind);
    of_kind.map(|delta| delta.text.as_str()).collect()
}

/// Feeds a stream cut at every byte boundary, byte by byte, and whole, and compares replies and
/// deltas. Returns the reply.
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

/// Feeds every proper prefix of a stream; each must be `malformed-response` up to the byte where
/// `last` ends, and a reply from there on.
///
/// # Panics
/// If one is not.
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

/// The tokens of a usage: the input, the part of it read from a cache, the part written to one, the
/// output, and the reasoning in it.
pub fn counts(usage: &Usage) -> [u64; 5] {
    [
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    ]
}

/// A small random generator with the same sequence on every machine.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % sides
    }
}

/// Some messages of a history, any of them. `data` is an opaque part of the format `opaque_format`.
fn some_messages(dice: &mut Dice, opaque_format: &str, data: &str) -> Vec<Message> {
    let count = dice.roll(4);
    let messages = (0..count).map(|_| {
        let words = format!("{} \"ü\n", dice.roll(1000));
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
    messages.collect()
}

/// Where a history of this length changes.
fn some_start(dice: &mut Dice, len: usize) -> usize {
    match dice.roll(3) {
        0 => dice.roll(len + 1),
        _ => len,
    }
}

/// Random changes of a history: the encoding that is kept between queries has to equal one from
/// scratch. `data` is an opaque part of the format `opaque_format`.
///
/// # Panics
/// If they differ.
pub fn check_prefix<F: Format>(format: &F, opaque_format: &str, data: &str) {
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let mut history: Vec<Message> = Vec::new();
        let mut kept = F::History::default();
        for _ in 0..30 {
            let start = some_start(&mut dice, history.len());
            let messages = some_messages(&mut dice, opaque_format, data);
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

/// Random changes of a history, with and without offers to take a body in pieces: every body has to
/// equal the whole body of a fresh instance. `make` makes an instance, `data` is an opaque part of
/// the format `opaque_format`.
///
/// # Panics
/// If a body differs.
pub fn check_pieces<A: BodyPieces>(make: impl Fn() -> A, opaque_format: &str, data: &str) {
    let mut kept_bytes = 0;
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let mut history: Vec<Message> = Vec::new();
        let mut last = Vec::new();
        let mut adapter = make();
        for step in 0..30 {
            let start = some_start(&mut dice, history.len());
            let messages = some_messages(&mut dice, opaque_format, data);
            history.truncate(start);
            history.extend(messages.iter().cloned());
            let tools = if dice.roll(5) == 0 {
                vec![]
            } else {
                vec![bash_tool()]
            };
            let request = Request { tools, extra: None };
            let whole = match make().query(Change::all(history.clone()), request.clone()) {
                Ok(Next::Send(request)) => request.body,
                other => panic!("no request: {other:?}"),
            };
            let held = last.len() as u64;
            let offer = match dice.roll(8) {
                0 => None,
                1 => Some(0),
                2 => Some(held + 1),
                _ => Some(held),
            };
            if let Some(held) = offer {
                adapter.offer(held);
            }
            let sent = match adapter.query(Change::tail(start, messages), request) {
                Ok(Next::Send(request)) => request.body,
                other => panic!("no request: {other:?}"),
            };
            assert_eq!(sent.is_empty(), offer.is_some());
            let body = match offer {
                None => sent,
                Some(offer) => {
                    let pieces = adapter.pieces();
                    let kept = pieces.iter().map(|piece| match piece {
                        Piece::Kept(span) => span.length,
                        Piece::Fresh(_) => 0,
                    });
                    let kept = kept.sum::<u64>();
                    assert!(kept == 0 || offer == held);
                    kept_bytes += kept;
                    joined_pieces(&last, &pieces)
                }
            };
            let show = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            assert_eq!(show(&body), show(&whole), "seed {seed}, step {step}");
            last = body;
        }
    }
    assert!(kept_bytes > 0, "no body kept any bytes of the last one");
}

/// The body that a host joins from the pieces and the last body.
///
/// # Panics
/// If a piece exceeds the last body.
fn joined_pieces(last: &[u8], pieces: &[Piece]) -> Vec<u8> {
    let pieces = pieces.iter().map(|piece| match piece {
        Piece::Kept(span) => {
            let start = usize::try_from(span.start).unwrap_or(usize::MAX);
            let length = usize::try_from(span.length).unwrap_or(usize::MAX);
            &last[start..start + length]
        }
        Piece::Fresh(bytes) => bytes,
    });
    pieces.collect::<Vec<_>>().concat()
}

/// Measures a step of a long run in microseconds: the median for encoding two new messages and
/// writing the body, and that for copying the body's bytes once. For tests that are `#[ignore]`d:
/// run them with `cargo test --release -- --ignored --nocapture`.
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

/// The kinds of the signs that an adapter gives while it gets these events, one by one. It has a
/// reply if there are any.
///
/// # Panics
/// If it is not so.
pub fn kinds(adapter: &mut impl Adapter, events: &[serde_json::Value]) -> Vec<String> {
    let body: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let signs = signs(adapter, 200, &body).into_iter();
    let kinds: Vec<String> = signs.map(|(kind, _)| kind).collect();
    assert_eq!(adapter.finish().is_ok(), !kinds.is_empty(), "{body}");
    kinds
}
