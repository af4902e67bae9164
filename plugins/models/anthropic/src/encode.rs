//! Requests: the body around the encoded history.

use mswea_sdk::types::Tool;
use serde_json::{Map, Value, json};

use crate::blocks::append;
use crate::config::Config;
use crate::history::History;

/// The body of a request.
pub fn body(config: &Config, history: &History, tools: &[Tool]) -> Vec<u8> {
    let params = &config.params;
    let system = history.system();
    let room = history.turns().len() + system.len() + 1024 + 512 * tools.len();
    let mut out = Vec::with_capacity(room);
    out.push(b'{');
    // Where `model_kwargs` has a key too, that one counts: a body names each key once.
    let ours = |key: &str| !params.body.contains_key(key);
    if ours("model") {
        append_key(&mut out, "model");
        append(&mut out, &config.model);
    }
    if ours("max_tokens") {
        append_key(&mut out, "max_tokens");
        append(&mut out, &params.max_tokens);
    }
    if ours("system") && !system.is_empty() {
        append_key(&mut out, "system");
        append_list(&mut out, &system);
    }
    if ours("messages") {
        append_key(&mut out, "messages");
        append_list(&mut out, history.turns());
    }
    let (tools, choice) = if tools.is_empty() {
        placeholders(history)
    } else {
        let tools = tools.iter().map(encode_tool).collect();
        (tools, params.tool_choice.clone())
    };
    if ours("tools") && !tools.is_empty() {
        append_key(&mut out, "tools");
        append(&mut out, &tools);
        if let Some(choice) = choice {
            append_key(&mut out, "tool_choice");
            append(&mut out, &choice);
        }
    }
    if config.stream && ours("stream") {
        append_key(&mut out, "stream");
        append(&mut out, &true);
    }
    for (key, value) in &params.body {
        append_key(&mut out, key);
        append(&mut out, value);
    }
    out.push(b'}');
    out
}

fn append_key(out: &mut Vec<u8>, key: &str) {
    if out.len() > 1 {
        out.push(b',');
    }
    append(out, key);
    out.push(b':');
}

fn append_list(out: &mut Vec<u8>, elements: &[u8]) {
    out.push(b'[');
    out.extend_from_slice(elements);
    out.push(b']');
}

/// A question without tools in a conversation that had some: the API takes calls only together
/// with their tools, so they are named, and may not be called.
fn placeholders(history: &History) -> (Vec<Value>, Option<Value>) {
    let names = history.called().into_iter();
    let tools = names.map(
        |name| json!({ "type": "custom", "name": name, "input_schema": { "type": "object" } }),
    );
    (tools.collect(), Some(json!({ "type": "none" })))
}

fn encode_tool(tool: &Tool) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), json!("custom"));
    out.insert("name".to_owned(), json!(tool.name));
    if !tool.description.is_empty() {
        out.insert("description".to_owned(), json!(tool.description));
    }
    // A text that is no JSON is a fault of whoever made the tool; the server will say so in
    // better words than we could.
    let mut schema = serde_json::from_str(&tool.parameters)
        .unwrap_or_else(|_| Value::String(tool.parameters.clone()));
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| json!("object"));
    }
    out.insert("input_schema".to_owned(), schema);
    Value::Object(out)
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
