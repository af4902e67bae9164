//! A simple adapter for servers of chat completions: complete answers, text and tool calls. Replace
//! `body` and `reply` by your server's format.

use mswea_sdk::adapter::{Delta, Header, HttpRequest, ModelError, Next, Request};
use mswea_sdk::http::{Headers, shorten};
use mswea_sdk::types::{Change, ContentPart, Message, PluginError, Reply, ToolCall, Usage};
use mswea_sdk::{Adapter, Descriptor, Plugin, from_config};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct Config {
    model: String,
    base_url: String,
    api_key: Option<String>,
    model_kwargs: Map<String, Value>,
}

struct {{pascal_name}} {
    config: Config,
    history: Vec<Message>,
    status: u16,
    headers: Headers,
    answer: Vec<u8>,
}

impl Plugin for {{pascal_name}} {
    fn describe() -> Descriptor {
        Descriptor::new(
            "{{snake_name}}",
            env!("CARGO_PKG_VERSION"),
            "Chat completions, without streams",
        )
        .config_schema(&json!({
            "type": "object",
            "required": ["model"],
            "properties": {
                "model": { "type": "string", "description": "The model's name." },
                "base_url": {
                    "type": "string",
                    "default": "https://api.openai.com/v1",
                    "description": "The base URL of the server's API."
                },
                "api_key": {
                    "type": ["string", "null"],
                    "default": "OPENAI_API_KEY",
                    "description": "The NAME of the secret; empty for servers that need none."
                },
                "model_kwargs": {
                    "type": "object",
                    "default": {},
                    "description": "Further parameters of the model."
                }
            }
        }))
        .secret("OPENAI_API_KEY")
        .host("api.openai.com")
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        Ok(Self {
            config: from_config(config)?,
            history: Vec::new(),
            status: 0,
            headers: Headers(Vec::new()),
            answer: Vec::new(),
        })
    }
}

impl {{pascal_name}} {
    /// The body of a request.
    fn body(&self, request: &Request) -> Value {
        let mut body = json!({
            "model": self.config.model,
            "messages": self.history.iter().map(encode).collect::<Vec<_>>(),
        });
        let tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                let parameters: Value =
                    serde_json::from_str(&tool.parameters).unwrap_or_else(|_| json!({}));
                json!({ "type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": parameters,
                }})
            })
            .collect();
        if !tools.is_empty() {
            body["tools"] = tools.into();
        }
        for (name, value) in &self.config.model_kwargs {
            body[name] = value.clone();
        }
        body
    }

    /// The reply in a response.
    fn reply(&self, answer: &Value) -> Result<Reply, ModelError> {
        let choice = &answer["choices"][0];
        if !choice["message"].is_object() {
            return Err(ModelError::new(
                "malformed-response",
                format!(
                    "the answer has no `choices[0].message`: {}",
                    shorten(&answer.to_string(), 200)
                ),
            ));
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let calls = choice["message"]["tool_calls"].as_array();
        let tool_calls = calls.into_iter().flatten().map(|call| ToolCall {
            id: word(&call["id"]),
            name: word(&call["function"]["name"]),
            arguments: word(&call["function"]["arguments"]),
            extra: None,
        });
        let text = choice["message"]["content"].as_str();
        let count = |name: &str| answer["usage"][name].as_u64().unwrap_or_default();
        Ok(Reply {
            message: Message {
                role: "assistant".to_owned(),
                content: text.into_iter().map(ContentPart::text).collect(),
                tool_calls: tool_calls.collect(),
                ..Message::default()
            },
            finish_reason: word(&choice["finish_reason"]),
            usage: answer["usage"].is_object().then(|| Usage {
                input_tokens: count("prompt_tokens"),
                output_tokens: count("completion_tokens"),
                ..Usage::default()
            }),
            model: word(&answer["model"]),
            response: Some(answer.to_string()),
            extra: None,
        })
    }

    /// The error of a response without a reply; the class tells the host whether to retry.
    fn error(&self, text: &str) -> ModelError {
        let class = match self.status {
            401 => "authentication",
            403 => "permission",
            404 => "not-found",
            429 => "rate-limited",
            500.. => "overloaded",
            _ => "bad-request",
        };
        let message = format!(
            "the server answered with status {}: {}",
            self.status,
            shorten(text, 500)
        );
        ModelError {
            retry_after_ms: self.headers.retry_after_ms(self.status == 429),
            ..ModelError::new(class, message)
        }
    }
}

fn encode(message: &Message) -> Value {
    let mut encoded = json!({ "role": message.role, "content": message.text() });
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            json!({ "id": call.id, "type": "function", "function": {
                "name": call.name, "arguments": call.arguments,
            }})
        });
        encoded["tool_calls"] = calls.collect();
    }
    if let Some(id) = &message.tool_call_id {
        encoded["tool_call_id"] = json!(id);
    }
    encoded
}

impl Adapter for {{pascal_name}} {
    fn query(&mut self, change: Change, request: Request) -> Result<Next, ModelError> {
        if change.start as usize > self.history.len() {
            return Err(ModelError::new(
                "bad-request",
                "the host's change begins after the end of the known history",
            ));
        }
        change.apply(&mut self.history);
        let url = format!(
            "{}/chat/completions",
            self.config.base_url.trim_end_matches('/')
        );
        let mut http = HttpRequest::new("POST", url)
            .header(Header::plain("content-type", "application/json"))
            .body(self.body(&request).to_string());
        // The plugin never gets a key: the host fills it in, for granted hosts.
        let name = self.config.api_key.as_ref();
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            http = http.header(Header::secret("authorization", "Bearer ", name));
        }
        Ok(Next::Send(http))
    }

    fn head(&mut self, status: u16, headers: Vec<(String, String)>) {
        self.status = status;
        self.headers = Headers(headers);
        // A request may be repeated: the response to the earlier attempt is discarded.
        self.answer.clear();
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta> {
        self.answer.extend(bytes);
        Vec::new()
    }

    fn finish(&mut self) -> Result<Next, ModelError> {
        let answer = std::mem::take(&mut self.answer);
        let text = String::from_utf8_lossy(&answer);
        if !(200..300).contains(&self.status) {
            return Err(self.error(&text));
        }
        let answer: Value = serde_json::from_str(&text).map_err(|error| {
            let message = format!("the answer is no JSON ({error}): {}", shorten(&text, 200));
            ModelError::new("malformed-response", message)
        })?;
        self.reply(&answer).map(Next::Reply)
    }
}

mswea_sdk::export!(adapter: {{pascal_name}});

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::testing::configure;
    use mswea_sdk::types::Tool;

    fn adapter() -> {{pascal_name}} {
        configure(json!({ "model": "m", "base_url": "http://h/v1/" })).expect("the config fits")
    }

    fn answer(adapter: &mut {{pascal_name}}, status: u16, body: &str) -> Result<Reply, ModelError> {
        adapter.head(status, vec![("retry-after".to_owned(), "2".to_owned())]);
        for byte in body.bytes() {
            adapter.feed(vec![byte]);
        }
        match adapter.finish()? {
            Next::Reply(reply) => Ok(reply),
            Next::Send(_) => panic!("one request is enough"),
        }
    }

    #[test]
    fn the_request_has_the_history_and_the_tools() {
        let request = Request {
            tools: vec![Tool::new("bash", "runs", &json!({ "type": "object" }))],
            extra: None,
        };
        let change = Change::all(vec![Message::new("user", "hi")]);
        let Ok(Next::Send(http)) = adapter().query(change, request) else {
            panic!("there is a request");
        };
        assert_eq!(http.url, "http://h/v1/chat/completions");
        let body: Value = serde_json::from_slice(&http.body).expect("the body is JSON");
        assert_eq!(
            body["messages"],
            json!([{ "role": "user", "content": "hi" }])
        );
        assert_eq!(body["tools"][0]["function"]["name"], "bash");
    }

    #[test]
    fn an_answer_becomes_a_reply() {
        let body = json!({
            "model": "m-1",
            "choices": [{ "finish_reason": "tool_calls", "message": {
                "content": "ähm",
                "tool_calls": [{ "id": "1", "function": { "name": "bash", "arguments": "{}" } }],
            }}],
            "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
        });
        let reply = answer(&mut adapter(), 200, &body.to_string()).expect("it is an answer");
        assert_eq!(reply.message.text(), "ähm");
        assert_eq!(reply.message.tool_calls[0].name, "bash");
        assert_eq!(reply.usage.map(|usage| usage.input_tokens), Some(7));
    }

    #[test]
    fn errors_have_classes() {
        for (status, body, class) in [
            (401, "no", "authentication"),
            (429, "slow", "rate-limited"),
            (503, "", "overloaded"),
            (400, "{}", "bad-request"),
            (200, "{}", "malformed-response"),
            (200, "<html>", "malformed-response"),
        ] {
            let error = answer(&mut adapter(), status, body).expect_err("it is no answer");
            assert_eq!(error.class, class, "{status}");
        }
        let error = answer(&mut adapter(), 429, "slow").expect_err("it is no answer");
        assert_eq!(error.retry_after_ms, Some(2000));
    }
}
