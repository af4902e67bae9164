//! One response, from its head to its end.

use mswea_sdk::adapter::{Delta, ModelError};
use mswea_sdk::types::Reply;
use serde_json::Value;

use crate::assemble::Assembly;
use crate::config::Config;
use crate::errors::{ADDRESS, Context, is_html};
use crate::headers::Headers;
use crate::response;
use crate::sse::Decoder;

/// How much of a stream is kept for the message in case it turns out to be none.
const KEPT_OF_STREAM: usize = 2048;

/// The longest field name by which a stream is known, with its colon.
const LONGEST_FIELD: usize = "retry:".len();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Too little has arrived to tell.
    Undecided,
    /// One text, to be read at its end.
    Whole,
    /// Server-sent events.
    Stream,
}

/// What has arrived of a response.
pub struct Exchange {
    status: u16,
    headers: Headers,
    mode: Mode,
    /// The whole body, or the beginning of a stream.
    body: Vec<u8>,
    decoder: Decoder,
    assembly: Assembly,
}

impl Exchange {
    /// A response begins.
    pub fn new(status: u16, headers: Vec<(String, String)>) -> Self {
        let is_success = (200..300).contains(&status);
        Self {
            status,
            headers: Headers(headers),
            mode: if is_success {
                Mode::Undecided
            } else {
                Mode::Whole
            },
            body: Vec::new(),
            decoder: Decoder::default(),
            assembly: Assembly::default(),
        }
    }

    /// Takes a piece of the body.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Delta> {
        let mut deltas = Vec::new();
        if self.mode == Mode::Stream {
            let room = KEPT_OF_STREAM.saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.decode(bytes, &mut deltas);
            return deltas;
        }
        self.body.extend_from_slice(bytes);
        if self.mode == Mode::Undecided {
            self.mode = self.decide(false);
            if self.mode == Mode::Stream {
                self.begin_stream(&mut deltas);
            }
        }
        deltas
    }

    fn begin_stream(&mut self, deltas: &mut Vec<Delta>) {
        let mut body = std::mem::take(&mut self.body);
        self.decode(&body, deltas);
        body.truncate(KEPT_OF_STREAM);
        self.body = body;
    }

    fn decode(&mut self, bytes: &[u8], deltas: &mut Vec<Delta>) {
        let assembly = &mut self.assembly;
        self.decoder
            .feed(bytes, &mut |event| assembly.take(&event, deltas));
    }

    /// Whether this is a stream. What was asked for does not count, and the content type only
    /// if the first bytes leave it open: servers get both wrong.
    fn decide(&self, is_end: bool) -> Mode {
        let start = trim(&self.body);
        let content_type = self.headers.get("content-type").unwrap_or_default();
        match start.first() {
            None if !is_end => Mode::Undecided,
            None | Some(b'{' | b'[' | b'<') => Mode::Whole,
            Some(b':') => Mode::Stream,
            _ if content_type.starts_with("text/event-stream") => Mode::Stream,
            _ if begins_stream(start) => Mode::Stream,
            _ if start.len() < LONGEST_FIELD && !is_end => Mode::Undecided,
            _ => Mode::Whole,
        }
    }

    /// Reads the complete response.
    ///
    /// # Errors
    /// When it holds no answer.
    pub fn finish(mut self, config: &Config, history_len: usize) -> Result<Reply, ModelError> {
        let mut deltas = Vec::new();
        if self.mode == Mode::Undecided {
            self.mode = self.decide(true);
            if self.mode == Mode::Stream {
                self.begin_stream(&mut deltas);
            }
        }
        // An error may come as an event too.
        let is_success = (200..300).contains(&self.status);
        if !is_success && begins_stream(trim(&self.body)) {
            self.begin_stream(&mut deltas);
        }
        let assembly = &mut self.assembly;
        self.decoder
            .finish(&mut |event| assembly.take(&event, &mut deltas));
        let context = Context {
            config,
            status: self.status,
            headers: &self.headers,
        };
        let text = String::from_utf8_lossy(trim(&self.body));
        if let Some(error) = self.assembly.error() {
            return Err(context.refused_in_json(error, self.assembly.usage()));
        }
        if !is_success {
            return Err(match serde_json::from_str::<Value>(&text) {
                Ok(body) => context.refused_in_json(&body, &Value::Null),
                Err(_) => context.refused_in_text(&text),
            });
        }
        if self.mode == Mode::Stream {
            return stream_reply(&context, self.assembly, &text, history_len);
        }
        whole_reply(&context, &text, history_len)
    }
}

fn stream_reply(
    context: &Context<'_>,
    assembly: Assembly,
    beginning: &str,
    history_len: usize,
) -> Result<Reply, ModelError> {
    let usage = response::usage(assembly.usage());
    let failed = |mut error: ModelError| {
        error.usage.clone_from(&usage);
        Err(error)
    };
    if !assembly.is_complete() {
        return failed(if assembly.has_choice() {
            context.malformed(
                "broke off its answer: the stream ended without a finish reason; something \
                 between here and the model closed the connection",
            )
        } else if begins_stream(beginning.as_bytes()) {
            context.malformed(
                "broke off its answer: the stream ended before anything was said; something \
                 between here and the model closed the connection",
            )
        } else {
            context.no_json(beginning)
        });
    }
    if !assembly.has_choice() {
        return failed(context.malformed(
            "ended its stream without an answer: no event had any `choices`; see whether the \
             server's log says why",
        ));
    }
    let completion = assembly.into_completion();
    match response::reply(&completion, completion.to_string(), history_len) {
        Some(reply) => Ok(reply),
        None => failed(context.malformed("sent a stream that holds no message")),
    }
}

fn whole_reply(context: &Context<'_>, text: &str, history_len: usize) -> Result<Reply, ModelError> {
    if text.is_empty() {
        return Err(context.malformed(&format!(
            "answered {} with an empty body; see whether a proxy stands before the server",
            context.status
        )));
    }
    let body: Value = match serde_json::from_str(text) {
        Ok(body) => body,
        Err(error) if error.is_eof() && !is_html(text) => {
            return Err(context.malformed(&format!(
                "broke off its answer: the JSON ends after {} bytes in the middle; something \
                 between here and the model closed the connection",
                text.len()
            )));
        }
        Err(_) => return Err(context.no_json(text)),
    };
    if let Some(reply) = response::reply(&body, text.to_owned(), history_len) {
        // A router may report its upstream's failure in the choice itself.
        let error = body.pointer("/choices/0/error").filter(|e| !e.is_null());
        return match error {
            Some(error) => Err(context.refused_in_json(
                &serde_json::json!({ "error": error }),
                body.get("usage").unwrap_or(&Value::Null),
            )),
            None => Ok(reply),
        };
    }
    let first = body.get(0).unwrap_or(&body);
    let has_error = first.get("error").is_some_and(|error| !error.is_null())
        || first.get("object").is_some_and(|object| object == "error");
    if has_error {
        return Err(context.refused_in_json(&body, &Value::Null));
    }
    let mut error = match body.get("choices").and_then(Value::as_array) {
        Some(choices) if choices.is_empty() => context.malformed(
            "sent a response whose `choices` are empty; see whether the server's log says why",
        ),
        Some(_) => context.malformed(&format!(
            "sent a response whose first choice has no `message`; check that {ADDRESS} leads to \
             chat completions, not to plain ones"
        )),
        None => context.no_completion(text),
    };
    error.usage = body.get("usage").and_then(response::usage);
    Err(error)
}

/// A body without the blanks (and the byte-order mark) around it. Some servers send blanks
/// while they work, to keep the connection alive.
fn trim(body: &[u8]) -> &[u8] {
    let body = body.trim_ascii();
    body.strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(body)
        .trim_ascii()
}

fn begins_stream(start: &[u8]) -> bool {
    [&b":"[..], b"data:", b"event:", b"id:", b"retry:"]
        .iter()
        .any(|field| start.starts_with(field))
}
