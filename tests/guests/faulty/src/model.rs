//! The adapter: the part of the chat protocol that the tests need, without streams.

use mswea_sdk::adapter::{Delta, Header, HttpRequest, ModelError, Next, Request};
use mswea_sdk::body_pieces::{Piece, Span};
use mswea_sdk::processor::check_start;
use mswea_sdk::types::{Change, Message, Reply, ToolCall};
use mswea_sdk::{Adapter, BodyPieces};
use serde_json::{Value, json};

use crate::{Fault, Faulty};

impl Adapter for Faulty {
    fn query(&mut self, change: Change, _request: Request) -> Result<Next, ModelError> {
        check_start(&change, self.history.len())?;
        change.apply(&mut self.history);
        self.make_room(self.history.len());
        self.body.clear();
        let history = self.remembered(self.history.clone());
        let messages: Vec<Value> = history.iter().map(wire).collect();
        let url = match self.has(Fault::Strays) {
            true => "https://elsewhere.example/v1/chat/completions",
            false => "https://api.faulty.example/v1/chat/completions",
        };
        let body = json!({"model": "test", "messages": messages}).to_string();
        self.sent_before = std::mem::replace(&mut self.sent, body.clone().into_bytes());
        let mut request = HttpRequest::new("POST", url)
            .header(Header::plain("content-type", "application/json"))
            .header(Header::secret("authorization", "Bearer ", "FAULTY_API_KEY"));
        if self.held.is_none() {
            request = request.body(body);
        }
        if self.has(Fault::Counts) {
            request = request.header(Header::plain("x-call", self.mark("")));
        }
        Ok(Next::Send(request))
    }

    fn head(&mut self, status: u16, _headers: Vec<(String, String)>) {
        self.status = status;
        if !self.has(Fault::Stale) {
            self.body.clear();
        }
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta> {
        if self.has(Fault::DecodesPieces) {
            self.body.extend(String::from_utf8_lossy(&bytes).bytes());
        } else {
            self.body.extend(bytes);
        }
        Vec::new()
    }

    fn finish(&mut self) -> Result<Next, ModelError> {
        let malformed = |message: &str| ModelError::new("malformed-response", message);
        if self.status != 200 {
            return Err(malformed(&format!("the status is {}", self.status)));
        }
        let body: Value = serde_json::from_slice(&self.body).map_err(|_| malformed("no JSON"))?;
        let message = &body["choices"][0]["message"];
        let text = message["content"].as_str();
        let text = text.ok_or_else(|| malformed("there is no content"))?;
        let mut reply = Reply {
            message: Message::new("assistant", text),
            finish_reason: "stop".to_owned(),
            ..Reply::default()
        };
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            reply.message.tool_calls.push(ToolCall {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]),
                extra: None,
            });
        }
        Ok(Next::Reply(reply))
    }
}

impl BodyPieces for Faulty {
    fn offer(&mut self, held: u64) {
        self.held = Some(held);
    }

    fn pieces(&mut self) -> Vec<Piece> {
        let held = self.held.take().unwrap_or_default();
        let same = if held != self.sent_before.len() as u64 {
            0
        } else if self.has(Fault::KeepsWrong) {
            // All bytes but the two brackets at the end.
            self.sent_before.len().saturating_sub(2)
        } else {
            let pairs = self.sent.iter().zip(&self.sent_before);
            pairs.take_while(|(one, other)| one == other).count()
        };
        let fresh = self.sent.get(same..).unwrap_or_default().to_vec();
        let span = Span {
            start: 0,
            length: same as u64,
        };
        vec![Piece::Kept(span), Piece::Fresh(fresh)]
    }
}

fn wire(message: &Message) -> Value {
    let calls = message.tool_calls.iter().map(
        |call| json!({"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}),
    );
    json!({
        "role": message.role,
        "content": message.text(),
        "tool_calls": calls.collect::<Vec<_>>(),
        "tool_call_id": message.tool_call_id,
    })
}
