//! Encodes one message as content blocks of the Messages API.

use std::borrow::Cow;
use std::ops::Range;

use mswea_sdk::types::{ContentPart, Image, Message, ToolCall};
use mswea_wire::json::append;
use mswea_wire::marks;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::FORMAT;

/// A call as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The id, in characters that the API accepts.
    pub id: String,
    /// The tool's name.
    pub name: String,
}

/// Sent after reasoning without an answer: the API does not accept a message that ends with
/// reasoning.
const NO_ANSWER: &str = "(no answer)";

/// The encoded blocks of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not sent: it is never for the model, or it is empty, and the API does not accept empty text.
    Nothing,
    /// Instructions.
    System,
    /// A message of the user.
    User,
    /// A message of the model, with these calls.
    Assistant(Vec<Call>),
    /// The result of a call, and where its content is in the block's bytes.
    Result(String, Range<usize>),
}

/// Writes a message's blocks, separated by commas.
pub fn write(out: &mut Vec<u8>, message: &Message) -> Kind {
    let start = out.len();
    let mark = marks::cache_control(message);
    match message.role.as_str() {
        // The last message of an ended run is for people and not for a model.
        "exit" => Kind::Nothing,
        "tool" => {
            let id = word(message.tool_call_id.as_deref().unwrap_or_default());
            let content = write_result(out, &id, message, mark.as_ref());
            Kind::Result(id, content.start - start..content.end - start)
        }
        "assistant" => {
            let mut blocks = Blocks::new(out);
            for part in in_order(&message.content) {
                blocks.part(part);
            }
            let calls = message.tool_calls.iter();
            let calls: Vec<Call> = calls.map(|call| blocks.call(call)).collect();
            if blocks.ends_in_thinking {
                blocks.part(&ContentPart::text(NO_ANSWER));
            }
            blocks.close(mark.as_ref());
            match out.len() == start {
                true => Kind::Nothing,
                false => Kind::Assistant(calls),
            }
        }
        role => {
            let mut blocks = Blocks::new(out);
            for part in &message.content {
                blocks.part(part);
            }
            blocks.close(mark.as_ref());
            match role {
                _ if out.len() == start => Kind::Nothing,
                "system" | "developer" => Kind::System,
                _ => Kind::User,
            }
        }
    }
}

/// An id or a name in characters that the API accepts; those of other providers may have others.
fn word(text: &str) -> String {
    if text.is_empty() {
        return "_".to_owned();
    }
    let letter = |c: char| match c {
        '-' | '_' => c,
        _ if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    text.chars().map(letter).collect()
}

/// The parts of an assistant's message in the order that the API requires: a turn begins with
/// reasoning. If the message begins with reasoning, the order stays unchanged, also that of parts
/// between blocks of reasoning, because the blocks are signed as a sequence. Otherwise the message
/// was stored in another form and has lost its order; all reasoning is moved to the front.
fn in_order(parts: &[ContentPart]) -> Vec<&ContentPart> {
    let first = parts.iter().find(|part| is_sent(part));
    if first.is_none_or(is_thinking) || !parts.iter().any(is_thinking) {
        return parts.iter().collect();
    }
    let (thinking, others): (Vec<_>, Vec<_>) = parts.iter().partition(|part| is_thinking(part));
    thinking.into_iter().chain(others).collect()
}

fn is_sent(part: &ContentPart) -> bool {
    match part {
        ContentPart::Text(text) => !is_blank(text),
        ContentPart::Image(_) => true,
        ContentPart::Reasoning(_) => false,
        ContentPart::Opaque(opaque) => opaque.format == FORMAT && kind_of(&opaque.data).is_some(),
    }
}

fn is_thinking(part: &ContentPart) -> bool {
    let ContentPart::Opaque(opaque) = part else {
        return false;
    };
    opaque.format == FORMAT
        && kind_of(&opaque.data)
            .is_some_and(|kind| matches!(&*kind, "thinking" | "redacted_thinking"))
}

/// The type of a block; none if it is no block.
fn kind_of(data: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let block: Block<'_> = serde_json::from_str(data).ok()?;
    Some(block.kind)
}

/// Whether a text has no visible character, which the API does not accept.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Blocks that are being written.
struct Blocks<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Where the mark would be: before the last brace of the last block that may have one.
    markable: Option<usize>,
    ends_in_thinking: bool,
}

impl<'a> Blocks<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            markable: None,
            ends_in_thinking: false,
        }
    }

    fn begin(&mut self) {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
    }

    fn end(&mut self) {
        self.markable = Some(self.out.len());
        self.ends_in_thinking = false;
        self.out.push(b'}');
    }

    fn part(&mut self, part: &ContentPart) {
        match part {
            ContentPart::Text(text) if !is_blank(text) => {
                self.begin();
                self.out.extend_from_slice(br#"{"type":"text","text":"#);
                append(self.out, text);
                self.end();
            }
            ContentPart::Image(image) => {
                self.begin();
                self.out.extend_from_slice(br#"{"type":"image","source":"#);
                write_source(self.out, image);
                self.end();
            }
            // Unchanged to the letter, because it is signed. Such blocks are not marked.
            ContentPart::Opaque(opaque)
                if opaque.format == FORMAT && kind_of(&opaque.data).is_some() =>
            {
                self.begin();
                self.out.extend_from_slice(opaque.data.trim().as_bytes());
                self.ends_in_thinking = is_thinking(part);
            }
            // Readable reasoning is sent in the blocks from which it was read.
            ContentPart::Text(_) | ContentPart::Reasoning(_) | ContentPart::Opaque(_) => {}
        }
    }

    fn call(&mut self, call: &ToolCall) -> Call {
        let (id, name) = (word(&call.id), word(&call.name));
        self.begin();
        self.out.extend_from_slice(br#"{"type":"tool_use","id":"#);
        append(self.out, &id);
        self.out.extend_from_slice(br#","name":"#);
        append(self.out, &name);
        self.out.extend_from_slice(br#","input":"#);
        write_input(self.out, &call.arguments);
        self.end();
        Call { id, name }
    }

    fn close(self, mark: Option<&Map<String, Value>>) {
        if let (Some(at), Some(mark)) = (self.markable, mark) {
            let mut key = br#","cache_control":"#.to_vec();
            append(&mut key, mark);
            self.out.splice(at..at, key);
        }
    }
}

/// The input of a call: always an object, whatever the model wrote.
fn write_input(out: &mut Vec<u8>, arguments: &str) {
    let arguments = arguments.trim();
    if arguments.is_empty() {
        out.extend_from_slice(b"{}");
    } else if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
        out.extend_from_slice(arguments.as_bytes());
    } else {
        append(out, &json!({ "arguments": arguments }));
    }
}

/// Writes a result; returns where its content is.
fn write_result(
    out: &mut Vec<u8>,
    id: &str,
    message: &Message,
    mark: Option<&Map<String, Value>>,
) -> Range<usize> {
    let parts = &message.content;
    out.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
    append(out, id);
    out.extend_from_slice(br#","content":"#);
    let start = out.len();
    let has_image = parts
        .iter()
        .any(|part| matches!(part, ContentPart::Image(_)));
    let text: String = parts.iter().filter_map(ContentPart::as_text).collect();
    let is_list = has_image || marks::is_list(message);
    // With a mark the content is a list, as in mini-swe-agent's requests.
    if has_image || ((is_list || mark.is_some()) && !is_blank(&text)) {
        out.push(b'[');
        let mut blocks = Blocks::new(out);
        if is_list {
            for part in parts {
                blocks.part(part);
            }
        } else {
            blocks.part(&ContentPart::Text(text));
        }
        blocks.close(None);
        out.push(b']');
    } else {
        append(out, &text);
    }
    let end = out.len();
    if let Some(mark) = mark {
        out.extend_from_slice(br#","cache_control":"#);
        append(out, mark);
    }
    out.push(b'}');
    start..end
}

/// The source of an image: bytes from a `data:` URL, or else the URL itself.
fn write_source(out: &mut Vec<u8>, image: &Image) {
    let source = match data_url(&image.url) {
        Some((media_type, data)) => {
            json!({ "type": "base64", "media_type": media_type, "data": data })
        }
        None => json!({ "type": "url", "url": image.url }),
    };
    append(out, &source);
}

/// Media type and base64 text of a `data:` URL.
fn data_url(url: &str) -> Option<(String, &str)> {
    let scheme = url.get(.."data:".len())?;
    if !scheme.eq_ignore_ascii_case("data:") {
        return None;
    }
    let (head, data) = url["data:".len()..].split_once(',')?;
    let head = head.trim().to_ascii_lowercase();
    let media_type = head.strip_suffix(";base64")?;
    let media_type = media_type.split(';').next().unwrap_or(media_type);
    Some((
        match media_type {
            "image/jpg" => "image/jpeg".to_owned(),
            other => other.to_owned(),
        },
        data.trim(),
    ))
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
