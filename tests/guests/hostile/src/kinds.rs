//! All kinds of plugins, and the deeds that differ from kind to kind.

use mswea_sdk::adapter::{self, Delta, Header, HttpRequest, ModelError};
use mswea_sdk::body_pieces::{Piece, Span};
use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::policy::Verdict;
use mswea_sdk::processor::{self, Query};
use mswea_sdk::types::{Action, Change, Message, Output, PluginError, Reply, Tool, ToolCall};
use mswea_sdk::{Adapter, BodyPieces, Formatter, Parser, Policy, Processor};
use serde_json::{Value, json};

use crate::{Hostile, deeds, world};

impl Parser for Hostile {
    fn tools(&self) -> Vec<Tool> {
        if self.config.at == "tools" {
            deeds::act(&self.config.deed, "tools");
            if self.config.deed == "bad-json" {
                let mut tool = Tool::new("bash", "", &json!({}));
                tool.parameters = "{".to_owned();
                return vec![tool];
            }
        }
        let parameters = json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        });
        vec![Tool::new("bash", "Runs a command.", &parameters)]
    }

    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        let mut actions = Vec::new();
        for call in &reply.message.tool_calls {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let command = arguments["command"].as_str().unwrap_or_default();
            actions.push(Action::for_call(&call.id, command));
        }
        match self.deed("parse").as_str() {
            "error" => return Err(PluginError::internal("the parser gives up")),
            "bad-json" => actions.push(Action {
                extra: Some("{\"a\": ".to_owned()),
                ..Action::default()
            }),
            "big" => actions.push(Action::new(deeds::big(self.config.size))),
            "claim" => actions.push(Action::new(deeds::claim())),
            "many" => actions = vec![Action::default(); self.config.size],
            "look" => actions = vec![Action::new(world::look().to_string())],
            _ => {}
        }
        if actions.is_empty() {
            return Ok(Problem::new("no-tool-call", "Call the tool `bash`.").into());
        }
        Ok(Outcome::Actions(actions))
    }
}

impl Formatter for Hostile {
    fn format(
        &mut self,
        actions: Vec<Action>,
        outputs: Vec<Output>,
    ) -> Result<Vec<Message>, PluginError> {
        let deed = self.deed("format");
        let mut messages: Vec<Message> = actions
            .iter()
            .zip(&outputs)
            .map(|(action, output)| {
                let text = format!("formatted: {}", output.output);
                match &action.tool_call_id {
                    Some(id) => Message::tool(id, text),
                    None => Message::new("user", text),
                }
            })
            .collect();
        match deed.as_str() {
            "error" => return Err(PluginError::internal("the formatter gives up")),
            // The error of a template with and without a failed rendering in the host.
            "bad-template" => {
                let error = mswea_sdk::host::render("{{ nosuch }}", &json!({})).unwrap_err();
                return Err(error);
            }
            "template" => return Err(PluginError::new("template", "it is the config's fault")),
            "bad-json" => messages[0].extra = Some("no json".to_owned()),
            "big" => messages[0] = Message::new("user", deeds::big(self.config.size)),
            "drop" => {
                messages.pop();
            }
            "invent" => messages.push(Message::tool("nobody-called", "")),
            // The answer depends on earlier calls, which the contract forbids.
            "state" => messages.push(Message::new("user", format!("call {}", self.calls))),
            _ => {}
        }
        Ok(messages)
    }
}

impl Processor for Hostile {
    fn apply(&mut self, change: Change) -> Result<processor::Next, PluginError> {
        let deed = self.deed("apply");
        processor::check_start(&change, self.history.len())?;
        change.clone().apply(&mut self.history);
        let mut all = self.history.clone();
        let whole = match deed.as_str() {
            "error" => return Err(PluginError::internal("the processor gives up")),
            "ask" | "ask-again" => {
                self.asked = 0;
                return Ok(self.ask());
            }
            "range" => Change::tail(all.len() + 100, all),
            "range-max" => Change::tail(u32::MAX as usize, all),
            "places" => Change::spread(vec![(0, all[0].clone()), (all.len() + 7, all[0].clone())]),
            "places-json" => Change {
                extra: Some(r#"{"places":"all"}"#.to_owned()),
                ..Change::all(all)
            },
            "unpair" => {
                let results = |message: &Message| message.role == "tool";
                if all.iter().filter(|message| results(message)).count() > 1
                    && let Some(first) = all.iter().position(results)
                {
                    all.remove(first);
                }
                Change::all(all)
            }
            "unpair-last" => {
                all.pop_if(|last| last.role == "tool");
                Change::all(all)
            }
            "bad-json" => {
                all[0].extra = Some("{".to_owned());
                Change::all(all)
            }
            "big" => Change::all(vec![Message::new("user", deeds::big(self.config.size))]),
            "claim" => Change::all(vec![Message::new("user", deeds::claim())]),
            "mark" => {
                for message in &mut all {
                    if message.role == "user" {
                        *message = Message::new("user", "marked");
                    }
                }
                Change::all(all)
            }
            // `resume` is only called after a question.
            _ if self.config.at == "resume" => {
                self.asked = 0;
                return Ok(self.ask());
            }
            _ => change,
        };
        Ok(processor::Next::Done(whole))
    }

    fn resume(&mut self, reply: Reply) -> Result<processor::Next, PluginError> {
        self.deed("resume");
        self.asked += 1;
        if self.config.deed.starts_with("ask") && self.asked < self.config.size {
            return Ok(self.ask());
        }
        let mut all = self.history.clone();
        all.push(Message::new(
            "user",
            format!("answered: {}", reply.message.text()),
        ));
        Ok(processor::Next::Done(Change::all(all)))
    }
}

impl Hostile {
    fn ask(&self) -> processor::Next {
        // The host does not send a question again that has the same words.
        let words = match self.config.deed.as_str() {
            "ask-again" => "what was that?".to_owned(),
            _ => format!("what was that? ({})", self.asked),
        };
        processor::Next::Ask(Query {
            messages: vec![Message::new("user", words)],
            purpose: "summary".to_owned(),
            extra: None,
        })
    }
}

impl Policy for Hostile {
    fn judge(&mut self, action: Action) -> Result<Verdict, PluginError> {
        Ok(match self.deed("judge").as_str() {
            "error" => return Err(PluginError::internal("the policy gives up")),
            "bad-json" => Verdict::Rewrite(Action {
                extra: Some("[]".to_owned()),
                ..action
            }),
            "big" => Verdict::deny("", deeds::big(self.config.size)),
            "claim" => Verdict::deny("", deeds::claim()),
            "rewrite" => Verdict::Rewrite(Action {
                command: self.config.word.clone(),
                ..action
            }),
            "deny" => Verdict::deny("", "not on my watch"),
            "ask" => Verdict::ask("", "is that so?"),
            _ => Verdict::Allow,
        })
    }
}

/// The part of the chat protocol that the tests need, without streams.
impl Adapter for Hostile {
    fn query(
        &mut self,
        change: Change,
        _request: adapter::Request,
    ) -> Result<adapter::Next, ModelError> {
        match self.deed("query").as_str() {
            "error" => return Err(ModelError::new("bad-request", "the adapter gives up")),
            // For example a class that only the host may report.
            "class" => {
                let class = self.config.word.clone();
                return Err(ModelError::new(&class, "the server is on fire"));
            }
            "file-url" => self.config.base_url = "file:///etc".to_owned(),
            _ => {}
        }
        processor::check_start(&change, self.history.len())?;
        change.apply(&mut self.history);
        let messages: Vec<Value> = self.history.iter().map(wire).collect();
        let body = json!({"model": "test", "messages": messages}).to_string();
        self.sent_before = std::mem::replace(&mut self.sent, body.clone().into_bytes());
        let mut request =
            HttpRequest::new("POST", format!("{}/chat/completions", self.config.base_url))
                .header(Header::plain("content-type", "application/json"));
        if self.held.is_none() {
            request = request.body(body);
        }
        if !self.config.secret.is_empty() {
            request = request.header(Header::secret(
                "authorization",
                "Bearer ",
                &self.config.secret,
            ));
        }
        Ok(adapter::Next::Send(request))
    }

    fn head(&mut self, _status: u16, _headers: Vec<(String, String)>) {
        self.deed("head");
        self.body.clear();
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<Delta> {
        self.body.extend(bytes);
        match self.deed("feed").as_str() {
            "big" => vec![Delta::new("text", deeds::big(self.config.size))],
            "many" => vec![Delta::new("", ""); self.config.size],
            _ => Vec::new(),
        }
    }

    fn finish(&mut self) -> Result<adapter::Next, ModelError> {
        let deed = self.deed("finish");
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let message = &body["choices"][0]["message"];
        let text = message["content"].as_str().unwrap_or_default();
        let mut reply = Reply {
            message: Message::new("assistant", text),
            ..Reply::default()
        };
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            reply.message.tool_calls.push(ToolCall {
                id: call["id"].as_str().unwrap_or_default().to_owned(),
                name: "bash".to_owned(),
                arguments: call["function"]["arguments"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                extra: None,
            });
        }
        match deed.as_str() {
            "bad-json" => reply.response = Some("<html>".to_owned()),
            "big" => reply.response = Some(deeds::big(self.config.size)),
            "claim" => reply.response = Some(deeds::claim()),
            "poison" => {
                reply.usage = Some(mswea_sdk::types::Usage {
                    cost: Some(f64::NAN),
                    ..Default::default()
                });
            }
            _ => {}
        }
        Ok(adapter::Next::Reply(reply))
    }
}

impl BodyPieces for Hostile {
    fn offer(&mut self, held: u64) {
        self.deed("offer");
        self.held = Some(held);
    }

    fn pieces(&mut self) -> Vec<Piece> {
        let held = self.held.take().unwrap_or_default();
        let kept = |start, length| Piece::Kept(Span { start, length });
        match self.deed("pieces").as_str() {
            "beyond" => return vec![kept(1, held)],
            "beyond-max" => return vec![kept(u64::MAX, u64::MAX)],
            "many" => return vec![kept(0, 0); self.config.size],
            "big" => return vec![Piece::Fresh(vec![b'x'; self.config.size])],
            "big-kept" => return vec![kept(0, held); 1024],
            _ => {}
        }
        let pairs = self.sent.iter().zip(&self.sent_before);
        let mut same = pairs.take_while(|(one, other)| one == other).count();
        if held != self.sent_before.len() as u64 {
            same = 0;
        }
        vec![
            kept(0, same as u64),
            Piece::Fresh(self.sent[same..].to_vec()),
        ]
    }
}

fn wire(message: &Message) -> Value {
    json!({
        "role": message.role,
        "content": message.text(),
        "tool_call_id": message.tool_call_id,
    })
}
