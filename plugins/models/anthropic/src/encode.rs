//! Requests: the parameters around the encoded history.

use mswea_sdk::types::Tool;
use mswea_wire::json::{Body, parse_or_string};
use mswea_wire::pieces::{Unchanged, Written};
use serde_json::{Map, Value, json};

use crate::Messages;
use crate::history::History;

/// The body of a request.
pub fn body(
    messages: &Messages,
    history: &History,
    tools: &[Tool],
    unchanged: Option<Unchanged>,
) -> Written {
    let server = &messages.server;
    let system = history.system();
    let mut body = Body::new(server, history.turns().len() + system.len(), unchanged);
    body.put("model", &server.model);
    body.put("max_tokens", &messages.max_tokens);
    if !system.is_empty() {
        body.put_list("system", &system);
    }
    body.put_messages("messages", history.turns(), &[]);
    let (tools, choice) = if tools.is_empty() {
        placeholders(history)
    } else {
        let tools = tools.iter().map(encode_tool).collect();
        (tools, messages.tool_choice.clone())
    };
    if !tools.is_empty()
        && body.put("tools", &tools)
        && let Some(choice) = choice
    {
        body.put("tool_choice", &choice);
    }
    if server.stream {
        body.put("stream", &true);
    }
    body.finish()
}

/// A question without tools in a conversation that had some: the API accepts calls only together
/// with their tools, so the tools are named, and may not be called.
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
    let mut schema = parse_or_string(&tool.parameters);
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| json!("object"));
    }
    out.insert("input_schema".to_owned(), schema);
    Value::Object(out)
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
