//! Ollama's own API, the only one in which it takes `num_ctx` and its other options.
//!
//! The client works with chat completions. Here the body of a request gets Ollama's form before it is sent, and each
//! line of an answer becomes a chunk of chat completions before it is read.

use mswea_wire::Defaults;
use mswea_wire::chat::OPENAI;
use mswea_wire::json::{mended, text};
use serde_json::{Map, Value, json};

/// The defaults of the config; the host fills in the others from the schema.
pub const DEFAULTS: Defaults = Defaults {
    path: "/api/chat",
    ..OPENAI
};

/// The keys of a request; all other parameters are options of the model.
const KEYS: [&str; 10] = [
    "model",
    "tools",
    "stream",
    "format",
    "keep_alive",
    "think",
    "truncate",
    "shift",
    "logprobs",
    "top_logprobs",
];

/// The body of a request in Ollama's form.
pub fn request(body: &[u8]) -> Vec<u8> {
    let Ok(Value::Object(chat)) = serde_json::from_slice(body) else {
        return body.to_vec();
    };
    // Without the key, Ollama sends a stream.
    let mut out = Map::from_iter([("stream".to_owned(), Value::Bool(false))]);
    let mut options = Map::new();
    let is_graded = text(chat.get("model")).contains("gpt-oss");
    for (key, value) in chat {
        match (key.as_str(), value) {
            ("stream_options" | "tool_choice", _) => {}
            ("messages", Value::Array(list)) => {
                out.insert(key, messages(list));
            }
            ("max_tokens" | "max_completion_tokens", limit) => {
                options.insert("num_predict".to_owned(), limit);
            }
            ("stop", stop @ Value::String(_)) => {
                options.insert(key, json!([stop]));
            }
            ("response_format", form) => {
                let schema = form.pointer("/json_schema/schema").cloned();
                let is_json = form.get("type").is_some_and(|kind| kind == "json_object");
                let format = schema.or_else(|| is_json.then(|| json!("json")));
                out.extend(format.map(|format| ("format".to_owned(), format)));
            }
            ("reasoning_effort", effort) => {
                let effort = effort.get("effort").unwrap_or(&effort);
                if let (Some(word), false) = (effort.as_str(), out.contains_key("think")) {
                    let think = match is_graded {
                        true => effort.clone(),
                        false => json!(!matches!(word, "none" | "minimal")),
                    };
                    out.insert("think".to_owned(), think);
                }
            }
            ("options", Value::Object(given)) => options.extend(given),
            (known, value) if KEYS.contains(&known) => {
                out.insert(key, value);
            }
            (_, value) => {
                options.insert(key, value);
            }
        }
    }
    if !options.is_empty() {
        out.insert("options".to_owned(), Value::Object(options));
    }
    Value::Object(out).to_string().into_bytes()
}

/// Messages with text, images and arguments as Ollama takes them, and the tool's name in its answers.
fn messages(mut list: Vec<Value>) -> Value {
    let mut names = Map::new();
    for message in list.iter_mut().filter_map(Value::as_object_mut) {
        let (mut content, mut images) = (String::new(), Vec::new());
        match message.shift_remove("content") {
            Some(Value::String(whole)) => content = whole,
            Some(Value::Array(parts)) => {
                for part in parts {
                    content += text(part.get("text"));
                    if let Some(Value::String(url)) = part.pointer("/image_url/url") {
                        let data = url.split_once(";base64,").map_or(&**url, |(_, data)| data);
                        images.push(json!(data));
                    }
                }
            }
            _ => {}
        }
        message.insert("content".to_owned(), Value::String(content));
        if !images.is_empty() {
            message.insert("images".to_owned(), Value::Array(images));
        }
        if let Some(thinking) = message.shift_remove("reasoning_content") {
            message.insert("thinking".to_owned(), thinking);
        }
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            let id = text(call.get("id")).to_owned();
            let Some(Value::Object(function)) = call.get_mut("function") else {
                continue;
            };
            names.insert(id, function.get("name").cloned().unwrap_or_default());
            let given = text(function.get("arguments"));
            // Ollama refuses anything else than an object.
            let object = serde_json::from_str::<Map<String, Value>>(given);
            let object =
                object.unwrap_or_else(|_| Map::from_iter([("arguments".to_owned(), json!(given))]));
            function.insert("arguments".to_owned(), Value::Object(object));
        }
        let name = message.get("tool_call_id");
        if let Some(name) = name.and_then(|id| names.get(text(Some(id)))) {
            message.insert("tool_name".to_owned(), name.clone());
        }
    }
    Value::Array(list)
}

/// An answer, read line by line.
#[derive(Default)]
pub struct Answer {
    /// A refusal is passed on as it is.
    is_refusal: bool,
    line: Vec<u8>,
    /// Lines that are no objects: the web page of a proxy, or an answer over several lines.
    rest: Vec<u8>,
    /// How many calls have come. Ollama sends each of them whole.
    calls: u64,
}

impl Answer {
    pub fn new(status: u16) -> Self {
        Self {
            is_refusal: !(200..300).contains(&status),
            ..Self::default()
        }
    }

    /// The next bytes as a stream of chat completions.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_refusal {
            return bytes.to_vec();
        }
        let mut out = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                match self.event(&line) {
                    Some(event) => out.extend(event.into_bytes()),
                    None => self.rest.extend(line),
                }
            }
        }
        out
    }

    /// What is left at the end.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut left = std::mem::take(&mut self.rest);
        left.append(&mut self.line);
        match self.event(&left) {
            Some(event) => event.into_bytes(),
            None => left,
        }
    }

    /// The event of a line; none if it is no object.
    fn event(&mut self, line: &[u8]) -> Option<String> {
        let line = mended(String::from_utf8_lossy(line));
        let mut chunk: Map<String, Value> = serde_json::from_str(&line).ok()?;
        // An error has no such key.
        let Some(done) = chunk.shift_remove("done") else {
            return Some(format!("data: {}\n\n", Value::Object(chunk)));
        };
        let is_done = done == true;
        let mut delta = match chunk.shift_remove("message") {
            Some(Value::Object(message)) => message,
            _ => Map::new(),
        };
        if let Some(thinking) = delta.shift_remove("thinking") {
            delta.insert("reasoning_content".to_owned(), thinking);
        }
        let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            call.insert("index".to_owned(), json!(self.calls));
            self.calls += 1;
        }
        let reason = chunk.shift_remove("done_reason");
        let reason = reason.filter(|reason| !text(Some(reason)).is_empty());
        let reason = is_done.then(|| reason.unwrap_or_else(|| json!("stop")));
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        chunk.insert("choices".to_owned(), json!([choice]));
        let [input, output] = ["prompt_eval_count", "eval_count"].map(|key| chunk.get(key));
        if input.or(output).is_some() {
            let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
            chunk.insert("usage".to_owned(), usage);
        }
        let end = if is_done { "data: [DONE]\n\n" } else { "" };
        Some(format!("data: {}\n\n{end}", Value::Object(chunk)))
    }
}

#[cfg(test)]
#[path = "ollama_tests.rs"]
mod tests;
