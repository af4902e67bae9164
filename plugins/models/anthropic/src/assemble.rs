//! Streams: assembles events to the message that the server would have sent at once.

use mswea_sdk::adapter::Delta;
use mswea_sdk::http::Event;
use mswea_wire::json::{show, text};
use serde_json::{Map, Value, json};

/// The parts that have arrived so far.
#[derive(Default)]
pub struct Assembly {
    /// The message's keys other than content and usage.
    message: Map<String, Value>,
    has_begun: bool,
    blocks: Vec<Block>,
    usage: Value,
    done: bool,
    error: Option<Value>,
}

struct Block {
    index: u64,
    value: Map<String, Value>,
    /// The pieces of an input.
    input: String,
}

impl mswea_wire::Assembly for Assembly {
    fn take(&mut self, event: &Event, deltas: &mut Vec<Delta>) {
        if self.done || self.error.is_some() {
            return;
        }
        let data = event.data.trim();
        // Data that is not an object is a server's keep-alive, or the end of a stream that was cut
        // off. The second case is found later, because parts of the message are missing.
        let Ok(Value::Object(mut data)) = serde_json::from_str(data) else {
            if event.name == "error" && !data.is_empty() {
                self.error = Some(Value::String(data.to_owned()));
            }
            return;
        };
        let kind = match data.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            _ => event.name.clone(),
        };
        match kind.as_str() {
            "error" => self.error = Some(Value::Object(data)),
            _ if event.name == "error" => self.error = Some(Value::Object(data)),
            _ if data.get("error").is_some_and(|error| !error.is_null()) => {
                self.error = Some(Value::Object(data));
            }
            "message_start" => {
                if let Some(Value::Object(message)) = data.shift_remove("message") {
                    self.begin(message, deltas);
                }
            }
            "content_block_start" => {
                let index = self.index(&data, true);
                if let Some(Value::Object(block)) = data.shift_remove("content_block") {
                    self.begin_block(index, block, deltas);
                }
            }
            "content_block_delta" => {
                let index = self.index(&data, false);
                if let Some(Value::Object(delta)) = data.shift_remove("delta") {
                    self.take_delta(index, delta, deltas);
                }
            }
            "message_delta" => {
                if let Some(Value::Object(delta)) = data.shift_remove("delta") {
                    merge(&mut self.message, delta);
                }
                self.take_usage(&mut data);
            }
            "message_stop" => {
                self.take_usage(&mut data);
                self.done = true;
            }
            // `ping`, the end of a block, and events of later versions of the API.
            _ => {}
        }
    }

    fn error(&self) -> Option<&Value> {
        self.error.as_ref()
    }

    fn usage(&self) -> &Value {
        &self.usage
    }

    fn has_answer(&self) -> bool {
        self.has_begun
    }

    fn is_complete(&self) -> bool {
        let reason = self.message.get("stop_reason");
        self.done || !text(reason).is_empty()
    }

    fn has_ended(&self) -> bool {
        self.done
    }

    fn into_response(mut self) -> Value {
        self.blocks.sort_by_key(|block| block.index);
        let mut blocks: Vec<Value> = Vec::new();
        for block in self.blocks.into_iter().map(Block::into_value) {
            let is_repeated = block["type"] == "tool_use" && blocks.last() == Some(&block);
            if !is_repeated {
                blocks.push(block);
            }
        }
        let mut out = Map::new();
        for key in ["id", "type", "role", "model"] {
            if let Some(value) = self.message.shift_remove(key) {
                out.insert(key.to_owned(), value);
            }
        }
        out.insert("content".to_owned(), blocks.into());
        out.append(&mut self.message);
        if !self.usage.is_null() {
            out.insert("usage".to_owned(), self.usage);
        }
        Value::Object(out)
    }
}

impl Assembly {
    fn begin(&mut self, mut message: Map<String, Value>, deltas: &mut Vec<Delta>) {
        self.has_begun = true;
        self.take_usage(&mut message);
        if let Some(Value::Array(blocks)) = message.shift_remove("content") {
            // Before any content, a reason is a placeholder.
            if let (true, Some(reason)) = (blocks.is_empty(), message.get_mut("stop_reason")) {
                *reason = Value::Null;
            }
            for (index, block) in (0..).zip(blocks) {
                if let Value::Object(block) = block {
                    self.begin_block(index, block, deltas);
                }
            }
        }
        merge(&mut self.message, message);
    }

    /// Later counts are those of the whole answer, and replace earlier ones.
    fn take_usage(&mut self, holder: &mut Map<String, Value>) {
        if let Some(Value::Object(usage)) = holder.shift_remove("usage") {
            match &mut self.usage {
                Value::Object(known) => merge(known, usage),
                nothing => *nothing = Value::Object(usage),
            }
        }
    }

    /// The block's index in an event. Without one, a start is a new block, and a piece belongs to
    /// the last block.
    fn index(&self, data: &Map<String, Value>, is_start: bool) -> u64 {
        let last = self.blocks.iter().map(|block| block.index).max();
        let given = data.get("index").and_then(Value::as_u64);
        given.unwrap_or_else(|| match last {
            Some(last) => last + u64::from(is_start),
            None => 0,
        })
    }

    fn begin_block(&mut self, index: u64, value: Map<String, Value>, deltas: &mut Vec<Delta>) {
        self.has_begun = true;
        for (key, kind) in [("text", "text"), ("thinking", "reasoning")] {
            if let Some(Value::String(text)) = value.get(key) {
                show(deltas, kind, text);
            }
        }
        // A start that is repeated replaces the block, unless the block has content: then the server
        // gives several blocks one index. A call with the id of another one is repeated if it has
        // its input, which is known at the end.
        self.blocks
            .retain(|block| block.index != index || block.has_content());
        self.blocks.push(Block {
            index,
            value,
            input: String::new(),
        });
    }

    fn take_delta(&mut self, index: u64, mut delta: Map<String, Value>, deltas: &mut Vec<Delta>) {
        let kind = delta.shift_remove("type");
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
        let mut text = |key: &str| match delta.shift_remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        match kind {
            "text_delta" => {
                let text = text("text");
                show(deltas, "text", &text);
                self.block(index, "text").append("text", &text);
            }
            "thinking_delta" => {
                let text = text("thinking");
                show(deltas, "reasoning", &text);
                self.block(index, "thinking").append("thinking", &text);
            }
            "signature_delta" => {
                let signature = text("signature");
                let block = self.block(index, "thinking");
                block.value.insert("signature".to_owned(), signature.into());
            }
            "input_json_delta" => {
                let piece = text("partial_json");
                show(deltas, "tool-call", &piece);
                self.block(index, "tool_use").input.push_str(&piece);
            }
            "citations_delta" => {
                if let Some(citation) = delta.shift_remove("citation") {
                    let block = self.block(index, "text");
                    match block.value.get_mut("citations") {
                        Some(Value::Array(citations)) => citations.push(citation),
                        _ => {
                            let first = json!([citation]);
                            block.value.insert("citations".to_owned(), first);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The block of an index; a new one if its start is missing.
    fn block(&mut self, index: u64, kind: &str) -> &mut Block {
        self.has_begun = true;
        let found = self.blocks.iter().rposition(|block| block.index == index);
        let position = found.unwrap_or_else(|| {
            self.blocks.push(Block {
                index,
                value: Map::from_iter([("type".to_owned(), kind.into())]),
                input: String::new(),
            });
            self.blocks.len() - 1
        });
        &mut self.blocks[position]
    }
}

impl Block {
    fn has_content(&self) -> bool {
        let is_filled = |key: &str| match self.value.get(key) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(keys)) => !keys.is_empty(),
            _ => false,
        };
        !self.input.is_empty() || ["text", "thinking", "input"].into_iter().any(is_filled)
    }

    fn append(&mut self, key: &str, piece: &str) {
        match self.value.get_mut(key) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => {
                self.value.insert(key.to_owned(), piece.into());
            }
        }
    }

    fn into_value(mut self) -> Value {
        if !self.input.is_empty() {
            // An incomplete input is kept as text.
            let input = serde_json::from_str(&self.input)
                .ok()
                .filter(Value::is_object)
                .unwrap_or(Value::String(self.input));
            self.value.insert("input".to_owned(), input);
        }
        Value::Object(self.value)
    }
}

/// Adds keys to others; null and an empty text do not replace a value.
fn merge(known: &mut Map<String, Value>, keys: Map<String, Value>) {
    for (key, value) in keys {
        if !(value.is_null() || value == "") || !known.contains_key(&key) {
            known.insert(key, value);
        }
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
