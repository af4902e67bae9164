//! One response, from its head to its end.

use mswea_sdk::adapter::{Delta, ModelError};
use mswea_sdk::http::{Body, Headers, is_html};
use mswea_sdk::types::Reply;
use serde_json::Value;

use crate::assemble::Assembly;
use crate::config::Config;
use crate::errors::Context;
use crate::response;

/// What has arrived of a response.
pub struct Exchange {
    status: u16,
    headers: Headers,
    body: Body,
    assembly: Assembly,
}

impl Exchange {
    /// A response begins.
    pub fn new(status: u16, headers: Vec<(String, String)>) -> Self {
        let headers = Headers(headers);
        Self {
            status,
            body: Body::new(status, &headers),
            headers,
            assembly: Assembly::default(),
        }
    }

    /// Takes a piece of the body.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let assembly = &mut self.assembly;
        self.body
            .feed(bytes, &mut |event| assembly.take(&event, &mut deltas));
        deltas
    }

    /// Reads the complete response.
    ///
    /// # Errors
    /// When it holds no answer.
    pub fn finish(mut self, config: &Config, history_len: usize) -> Result<Reply, ModelError> {
        let assembly = &mut self.assembly;
        self.body
            .finish(&mut |event| assembly.take(&event, &mut Vec::new()));
        let context = Context {
            config,
            status: self.status,
            headers: &self.headers,
        };
        let text = String::from_utf8_lossy(self.body.bytes());
        if let Some(error) = self.assembly.error() {
            return Err(context.refused_in_json(error, &self.assembly.usage()));
        }
        if !(200..300).contains(&self.status) {
            return Err(match serde_json::from_str::<Value>(&text) {
                Ok(body) => context.refused_in_json(&body, &Value::Null),
                Err(_) => context.refused_in_text(&text),
            });
        }
        if self.body.is_stream() {
            return stream_reply(&context, self.assembly, &self.body, history_len);
        }
        whole_reply(&context, &text, history_len)
    }
}

fn stream_reply(
    context: &Context<'_>,
    assembly: Assembly,
    body: &Body,
    history_len: usize,
) -> Result<Reply, ModelError> {
    let usage = response::usage(&assembly.usage());
    let failed = |mut error: ModelError| {
        error.usage.clone_from(&usage);
        Err(error)
    };
    if !assembly.is_complete() {
        return failed(if assembly.has_begun() {
            context.malformed(
                "broke off its answer: the stream ended without a stop reason; something \
                 between here and the model closed the connection",
            )
        } else if body.begins_as_stream() {
            context.malformed(
                "broke off its answer: the stream ended before anything was said; something \
                 between here and the model closed the connection",
            )
        } else {
            context.no_json(&String::from_utf8_lossy(body.bytes()))
        });
    }
    if !assembly.has_begun() {
        return failed(context.malformed(
            "ended its stream without an answer: there was no `message_start`; see whether the \
             server's log says why",
        ));
    }
    let message = assembly.into_message();
    match response::reply(&message, message.to_string(), history_len) {
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
    let has_error = body.get("error").is_some_and(|error| !error.is_null())
        || body.get("type").is_some_and(|kind| kind == "error");
    if has_error {
        return Err(context.refused_in_json(&body, body.get("usage").unwrap_or(&Value::Null)));
    }
    match response::reply(&body, text.to_owned(), history_len) {
        Some(reply) => Ok(reply),
        None => {
            let mut error = context.no_message(text);
            error.usage = body.get("usage").and_then(response::usage);
            Err(error)
        }
    }
}
