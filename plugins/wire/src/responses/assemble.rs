//! Streams: assembles the events to the response without streaming.
//!
//! The last event contains the whole response. Earlier events are used to show the reply while it
//! arrives. They replace the response's output only if a server leaves it empty in the last event.

use std::collections::BTreeMap;

use mswea_sdk::adapter::Delta;
use mswea_sdk::http::Event;
use serde_json::{Map, Value, json};

use super::response;
use crate::json::{show, text};

/// The parts that have arrived so far.
#[derive(Default)]
pub struct Assembly {
    /// The response of the first event, without its output.
    begun: Value,
    /// The response of the last event.
    ended: Option<Value>,
    items: Vec<Item>,
    /// The last item of each index.
    last: BTreeMap<usize, usize>,
    usage: Value,
    done: bool,
    error: Option<Value>,
}

struct Item {
    index: usize,
    value: Value,
    is_done: bool,
}

impl crate::Assembly for Assembly {
    fn take(&mut self, event: &Event, deltas: &mut Vec<Delta>) {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
        }
        if self.done || self.error.is_some() || self.ended.is_some() {
            return;
        }
        let Ok(Value::Object(chunk)) = serde_json::from_str(data) else {
            if event.name == "error" && !data.is_empty() {
                self.error = Some(Value::String(data.to_owned()));
            }
            return;
        };
        let kind = match text(chunk.get("type")) {
            _ if event.name == "error" => "error".to_owned(),
            "" => event.name.clone(),
            kind => kind.to_owned(),
        };
        self.take_chunk(&kind, chunk, deltas);
    }

    fn error(&self) -> Option<&Value> {
        self.error.as_ref()
    }

    fn usage(&self) -> &Value {
        &self.usage
    }

    fn has_answer(&self) -> bool {
        self.ended.is_some() || !self.items.is_empty()
    }

    fn is_complete(&self) -> bool {
        self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some() || self.done
    }

    fn into_response(mut self) -> Value {
        let mut response = self.ended.unwrap_or(self.begun);
        if !response.is_object() {
            response = json!({ "object": "response" });
        }
        let output = response.get("output").and_then(Value::as_array);
        if output.is_none_or(Vec::is_empty)
            && let Some(keys) = response.as_object_mut()
        {
            self.items.sort_by_key(|item| item.index);
            let items = self.items.into_iter().map(|item| item.value);
            keys.insert("output".to_owned(), items.collect());
        }
        response
    }
}

impl Assembly {
    fn take_chunk(&mut self, kind: &str, mut chunk: Map<String, Value>, deltas: &mut Vec<Delta>) {
        let whole = chunk.shift_remove("response");
        if let Some(usage) = whole.as_ref().and_then(|whole| whole.get("usage"))
            && usage.is_object()
        {
            self.usage = usage.clone();
        }
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.begun = whole.unwrap_or_default();
            }
            "response.completed" | "response.done" | "response.incomplete" | "response.failed" => {
                let whole = whole.unwrap_or_default();
                let status = kind.trim_start_matches("response.");
                let failed = match response::failure(&whole) {
                    None if status == "failed" => Some(json!({ "error": whole })),
                    failed => failed,
                };
                match failed {
                    Some(error) => self.error = Some(error),
                    None => self.ended = Some(whole),
                }
            }
            "response.output_item.added" | "response.output_item.done" => {
                let item = chunk.shift_remove("item").unwrap_or_default();
                self.take_item(index(&chunk, "output_index"), item, kind.ends_with("done"));
            }
            // The item that is done has it.
            "response.content_part.done" | "response.reasoning_summary_part.done"
                if self.is_done(&chunk) => {}
            "response.content_part.added" | "response.content_part.done" => {
                let part = chunk.shift_remove("part").unwrap_or_default();
                let at = index(&chunk, "content_index");
                *place(self.item(&chunk), "content", at) = part;
            }
            "response.reasoning_summary_part.added" | "response.reasoning_summary_part.done" => {
                let part = chunk.shift_remove("part").unwrap_or_default();
                let at = index(&chunk, "summary_index");
                // Two parts are shown with a blank line between them.
                if kind.ends_with("added") && at > 0 {
                    show(deltas, "reasoning", "\n\n");
                }
                *place(self.item(&chunk), "summary", at) = part;
            }
            "error" | "response.error" => self.error = Some(Value::Object(chunk)),
            _ => match kind.strip_suffix(".delta") {
                Some(what) => self.take_delta(what, &chunk, deltas),
                // Routers report their upstream's failure as in chat completions.
                None if chunk.get("error").is_some_and(|error| !error.is_null()) => {
                    self.error = Some(Value::Object(chunk));
                }
                None => {}
            },
        }
    }

    fn take_delta(&mut self, what: &str, chunk: &Map<String, Value>, deltas: &mut Vec<Delta>) {
        let piece = text(chunk.get("delta"));
        let (shown, list, part, key) = match what {
            "response.output_text" => ("text", "content", "output_text", "text"),
            "response.refusal" => ("text", "content", "refusal", "refusal"),
            "response.reasoning_text" => ("reasoning", "content", "reasoning_text", "text"),
            "response.reasoning_summary_text" => ("reasoning", "summary", "summary_text", "text"),
            "response.function_call_arguments" => {
                show(deltas, "tool-call", piece);
                let item = self.item(chunk);
                if let Some(item) = item.as_object_mut() {
                    grow(item, "arguments", piece);
                }
                return;
            }
            _ => return,
        };
        show(deltas, shown, piece);
        let at = match list {
            "summary" => index(chunk, "summary_index"),
            _ => index(chunk, "content_index"),
        };
        let place = place(self.item(chunk), list, at);
        if place.is_null() {
            *place = json!({ "type": part });
        }
        if let Some(place) = place.as_object_mut() {
            grow(place, key, piece);
        }
    }

    /// Takes the beginning or the end of an item. Some servers give all items one index, or none: an
    /// item that is done is replaced only by one with its id, and no item by the beginning of one with another id.
    fn take_item(&mut self, index: usize, item: Value, is_done: bool) {
        let last = self.last.get(&index).map(|at| &mut self.items[*at]);
        if let Some(last) = last {
            let ids = [&last.value, &item].map(|item| text(item.get("id")));
            let (have_ids, are_same) = (!ids.contains(&""), ids[0] == ids[1]);
            if last.is_done && (last.value == item || have_ids && are_same) {
                if is_done {
                    last.value = item;
                }
                return;
            }
            if !is_done && have_ids && !are_same {
                self.last.remove(&index);
            }
        }
        let open = self.open(index);
        open.value = item;
        open.is_done = is_done;
    }

    /// Whether the last item of an event's index is done.
    fn is_done(&self, chunk: &Map<String, Value>) -> bool {
        let last = self.last.get(&index(chunk, "output_index"));
        last.is_some_and(|at| self.items[*at].is_done)
    }

    /// The item that an event belongs to.
    fn item(&mut self, chunk: &Map<String, Value>) -> &mut Value {
        &mut self.open(index(chunk, "output_index")).value
    }

    /// The item of an index that is not done; a new one if there is none.
    fn open(&mut self, index: usize) -> &mut Item {
        let last = self.last.get(&index).copied();
        let at = last.filter(|at| !self.items[*at].is_done);
        let at = at.unwrap_or_else(|| {
            self.items.push(Item {
                index,
                value: json!({}),
                is_done: false,
            });
            self.last.insert(index, self.items.len() - 1);
            self.items.len() - 1
        });
        &mut self.items[at]
    }
}

/// The most items or parts that are accepted, because the server chooses the index.
const MAX_INDEX: usize = 10_000;

fn index(chunk: &Map<String, Value>, key: &str) -> usize {
    let index = chunk.get(key).and_then(Value::as_u64).unwrap_or(0);
    usize::try_from(index).map_or(MAX_INDEX, |index| index.min(MAX_INDEX))
}

fn nth(list: &mut Vec<Value>, at: usize) -> &mut Value {
    if list.len() <= at {
        list.resize(at + 1, Value::Null);
    }
    &mut list[at]
}

/// The slot of a part in one of an item's lists.
fn place<'a>(item: &'a mut Value, list: &str, at: usize) -> &'a mut Value {
    if !item.is_object() {
        *item = json!({});
    }
    let list = &mut item[list];
    if !list.is_array() {
        *list = json!([]);
    }
    match list {
        Value::Array(list) => nth(list, at),
        other => other,
    }
}

fn grow(object: &mut Map<String, Value>, key: &str, piece: &str) {
    match object.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => {
            object.insert(key.to_owned(), json!(piece));
        }
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
