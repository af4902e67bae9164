//! One response, from its head to its end.

use std::borrow::Cow;

use mswea_sdk::adapter::{Delta, ModelError};
use mswea_sdk::http::{Body, Event, Headers, is_html};
use mswea_sdk::types::Reply;
use serde_json::Value;

use crate::errors::Context;
use crate::json::{mended, show};
use crate::thinking::{self, Shown};
use crate::{Assembly, Format};

/// The part of a response that has arrived.
pub struct Exchange<F: Format> {
    status: u16,
    headers: Headers,
    body: Body,
    assembly: F::Assembly,
    shown: Shown,
    /// Whether text or a call has come.
    has_content: bool,
    reached: Said,
    said: Said,
}

/// How far the host knows the response to be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Nothing,
    /// The reply may be complete: its end came together with text or a call, and some servers write
    /// an end into every chunk.
    Likely,
    /// The reply is complete, and token counts may follow.
    Finished,
    /// Nothing that follows counts.
    End,
}

impl<F: Format> Exchange<F> {
    /// Begins a response.
    pub fn new(status: u16, headers: Vec<(String, String)>) -> Self {
        let headers = Headers(headers);
        Self {
            status,
            body: Body::new(status, &headers),
            headers,
            assembly: F::Assembly::default(),
            shown: Shown::default(),
            has_content: false,
            reached: Said::Nothing,
            said: Said::Nothing,
        }
    }

    /// Takes a piece of the body.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let (assembly, reached) = (&mut self.assembly, &mut self.reached);
        let has_content = &mut self.has_content;
        self.body.feed(bytes, &mut |event| {
            let (mut new, calls) = (Vec::new(), assembly.calls());
            assembly.take(&mended_event(event), &mut new);
            let brings_content = !new.is_empty() || assembly.calls() > calls;
            let is_bare = *has_content && !brings_content;
            *has_content |= brings_content;
            *reached = match *reached {
                _ if assembly.has_ended() || assembly.error().is_some() => Said::End,
                // Only an end in an event of its own, the first one after the content, is sure.
                Said::Nothing if assembly.is_complete() && is_bare => Said::Finished,
                Said::Nothing if assembly.is_complete() => Said::Likely,
                known => known,
            };
            for delta in new {
                show(&mut deltas, &delta.kind, &delta.text);
            }
        });
        if self.body.is_complete_json() {
            *reached = Said::Finished.max(*reached);
        }
        let reached = self.reached;
        let mut deltas = self.shown.pass(deltas, reached > Said::Nothing);
        if reached > self.said {
            self.said = reached;
            deltas.push(match reached {
                Said::End => Delta::end(),
                Said::Likely => Delta::likely_finished(),
                _ => Delta::finished(),
            });
        }
        deltas
    }

    /// Whether the response is a stream.
    pub fn is_stream(&self) -> bool {
        self.body.is_stream()
    }

    /// Parses the complete response.
    ///
    /// # Errors
    /// If it holds no answer.
    pub fn finish(self, format: &F, history_len: usize) -> Result<Reply, ModelError> {
        let mut reply = self.parse(format, history_len)?;
        if let Some(thinking) = thinking::split_off(&mut reply.message) {
            F::keep_reasoning(&mut reply.message, thinking);
        }
        reply.extra = format.server().report.extra();
        Ok(reply)
    }

    fn parse(mut self, format: &F, history_len: usize) -> Result<Reply, ModelError> {
        let assembly = &mut self.assembly;
        self.body
            .finish(&mut |event| assembly.take(&mended_event(event), &mut Vec::new()));
        let context = Context {
            format,
            status: self.status,
            headers: &self.headers,
        };
        if let Some(error) = self.assembly.error() {
            return Err(context.refused_in_json(error, self.assembly.usage()));
        }
        if self.body.is_stream() {
            return stream_reply(&context, self.assembly, &self.body, history_len);
        }
        let text = mended(String::from_utf8_lossy(self.body.bytes()));
        if !(200..300).contains(&self.status) {
            return Err(match serde_json::from_str::<Value>(&text) {
                Ok(body) => context.refused_in_json(&body, &Value::Null),
                Err(_) => context.refused_in_text(&text),
            });
        }
        // Without `?alt=sse`, which some proxies drop, Gemini sends its chunks as one list.
        if text.trim_start().starts_with('[')
            && let Ok(chunks) = serde_json::from_str::<Vec<Value>>(&text)
        {
            for chunk in chunks {
                let event = Event {
                    data: chunk.to_string(),
                    ..Event::default()
                };
                self.assembly.take(&event, &mut Vec::new());
            }
            if let Some(error) = self.assembly.error() {
                return Err(context.refused_in_json(error, self.assembly.usage()));
            }
            if self.assembly.has_answer() {
                return stream_reply(&context, self.assembly, &self.body, history_len);
            }
        }
        whole_reply(&context, &text, history_len)
    }
}

fn mended_event(mut event: Event) -> Event {
    event.data = mended(Cow::Owned(event.data)).into_owned();
    event
}

fn stream_reply<F: Format>(
    context: &Context<'_, F>,
    assembly: F::Assembly,
    body: &Body,
    history_len: usize,
) -> Result<Reply, ModelError> {
    if !assembly.is_complete() || !assembly.has_answer() {
        let mut error = if assembly.is_complete() {
            context.malformed(&format!(
                "ended its stream without an answer: no event had any `{}`; see the server's \
                 log for the reason",
                F::BEGINNING
            ))
        } else if assembly.has_answer() {
            context.malformed(
                "broke off its answer: the stream ended without a finish reason; something \
                 between here and the model closed the connection",
            )
        } else if body.begins_as_stream() {
            context.malformed(
                "broke off its answer: the stream ended before any text or call; something \
                 between here and the model closed the connection",
            )
        } else {
            context.no_json(&String::from_utf8_lossy(body.bytes()))
        };
        error.usage = F::usage(assembly.usage());
        return Err(error);
    }
    if let Some(reply) = assembly.plain_reply(history_len) {
        return Ok(reply);
    }
    let response = assembly.into_response();
    let verbatim = response.to_string();
    reply_of(context, &response, verbatim, history_len)
}

fn whole_reply<F: Format>(
    context: &Context<'_, F>,
    text: &str,
    history_len: usize,
) -> Result<Reply, ModelError> {
    if text.is_empty() {
        return Err(context.malformed(&format!(
            "answered {} with an empty body; see whether a proxy stands before the server",
            context.status
        )));
    }
    if let Some(reply) = F::plain_reply(text, history_len) {
        return Ok(reply);
    }
    let response: Value = match serde_json::from_str(text) {
        Ok(response) => response,
        Err(error) if error.is_eof() && !is_html(text) => {
            return Err(context.malformed(&format!(
                "broke off its answer: the JSON ends after {} bytes in the middle; something \
                 between here and the model closed the connection",
                text.len()
            )));
        }
        Err(_) => return Err(context.no_json(text)),
    };
    reply_of(context, &response, text.to_owned(), history_len)
}

fn reply_of<F: Format>(
    context: &Context<'_, F>,
    response: &Value,
    verbatim: String,
    history_len: usize,
) -> Result<Reply, ModelError> {
    let usage = response.get(F::USAGE).unwrap_or(&Value::Null);
    if let Some(error) = F::failure(response) {
        return Err(context.refused_in_json(&error, usage));
    }
    if let Some(reply) = context.format.reply(response, verbatim, history_len) {
        return Ok(reply);
    }
    let mut error = match response.get(F::HOLDER) {
        Some(_) => context.malformed(&F::lack(response)),
        None => context.no_answer(&response.to_string()),
    };
    error.usage = F::usage(usage);
    Err(error)
}
