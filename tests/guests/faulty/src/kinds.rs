//! All kinds of plugins except the adapter.

use mswea_sdk::parser::{Outcome, Problem};
use mswea_sdk::policy::Verdict;
use mswea_sdk::processor::{self, Next, Query};
use mswea_sdk::types::{Action, Change, ContentPart, Message, Output, PluginError, Reply, Tool};
use mswea_sdk::{Formatter, Parser, Policy, Processor};
use serde_json::{Value, json};

use crate::{Fault, Faulty, OUTPUT};

/// How many observations stay whole.
const WHOLE: usize = 2;
/// With this many messages and more, the processor asks the model for a summary.
const LONG: usize = 6;

/// Reads commands from calls of `bash`.
impl Parser for Faulty {
    fn tools(&self) -> Vec<Tool> {
        let parameters = json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        });
        vec![Tool::new("bash", "Runs a command.", &parameters)]
    }

    fn parse(&mut self, reply: Reply) -> Result<Outcome, PluginError> {
        self.make_room(reply.message.tool_calls.len());
        let mark = self.mark(&reply.message.text());
        let mut actions = Vec::new();
        for call in &reply.message.tool_calls {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let Some(command) = arguments["command"].as_str() else {
                continue;
            };
            let id = match self.has(Fault::Unpairs) {
                true => format!("{}-of-nobody", call.id),
                false => call.id.clone(),
            };
            actions.push(Action::for_call(id, format!("{command}{mark}")));
        }
        if actions.is_empty() {
            let message = format!("Call the tool `bash`.{mark}");
            return Ok(Problem::new("no-tool-call", message).into());
        }
        Ok(Outcome::Actions(actions))
    }
}

/// Puts each output into the template.
impl Formatter for Faulty {
    fn format(
        &mut self,
        actions: Vec<Action>,
        outputs: Vec<Output>,
    ) -> Result<Vec<Message>, PluginError> {
        self.make_room(actions.len());
        let mark = self.mark(outputs.first().map_or("", |output| &output.output));
        let pairs = actions.iter().zip(&outputs);
        let messages = pairs.map(|(action, output)| {
            let text = self.config.observation.replace(OUTPUT, &output.output) + &mark;
            match &action.tool_call_id {
                Some(id) if !self.has(Fault::Unpairs) => Message::tool(id, text),
                _ => Message::new("user", text),
            }
        });
        Ok(messages.collect())
    }
}

/// Denies or rewrites some programs.
impl Policy for Faulty {
    fn judge(&mut self, action: Action) -> Result<Verdict, PluginError> {
        self.make_room(action.command.lines().count());
        let mark = self.mark(&action.command);
        Ok(match action.command.split_whitespace().next() {
            Some("vim") => Verdict::deny("editor", format!("Editors hang here.{mark}")),
            Some("rm") => Verdict::ask("deletes", format!("It deletes.{mark}")),
            Some("less") => Verdict::Rewrite(Action {
                command: action.command.replacen("less", "cat", 1),
                tool_call_id: action.tool_call_id.filter(|_| !self.has(Fault::Unpairs)),
                ..action
            }),
            _ => Verdict::Allow,
        })
    }
}

/// Shortens old observations; with `asks`, a summary of the beginning by the model is put in front.
impl Processor for Faulty {
    fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
        processor::check_start(&change, self.history.len())?;
        // The host has dropped the earlier view.
        if change.start == 0 {
            self.view.clear();
        }
        change.apply(&mut self.history);
        self.make_room(self.history.len());
        if self.config.asks && self.history.len() > LONG {
            return Ok(self.question());
        }
        Ok(self.answer(None))
    }

    fn resume(&mut self, reply: Reply) -> Result<Next, PluginError> {
        if self.has(Fault::Nags) {
            return Ok(self.question());
        }
        let said = format!("Before: {}", reply.message.text());
        Ok(self.answer(Some(Message::new("user", said))))
    }
}

impl Faulty {
    fn question(&self) -> Next {
        let beginning: String = self.history[..2].iter().map(Message::text).collect();
        Next::Ask(Query {
            messages: vec![Message::new("user", format!("Sum up: {beginning}"))],
            purpose: "summary".to_owned(),
            extra: None,
        })
    }

    fn answer(&mut self, said: Option<Message>) -> Next {
        let mut view: Vec<Message> = said.into_iter().collect();
        let history = self.remembered(self.history.clone());
        view.extend(self.shortened(history));
        if self.has(Fault::Counts) {
            view.push(Message::new("user", self.mark("")));
        }
        if self.has(Fault::Unpairs) {
            view.pop_if(|last| last.role == "tool");
        }
        let same = view
            .iter()
            .zip(&self.view)
            .take_while(|(a, b)| a == b)
            .count();
        let change = match self.has(Fault::Overreaches) {
            true => Change::tail(self.view.len() + 1, view.clone()),
            false => Change::tail(same, view[same..].to_vec()),
        };
        self.view = view;
        Next::Done(change)
    }

    /// The history with only the first line of all observations but the last few.
    fn shortened(&self, mut history: Vec<Message>) -> Vec<Message> {
        let observed = |message: &&mut Message| message.role == "tool";
        for message in history.iter_mut().rev().filter(observed).skip(WHOLE) {
            let text = message.text();
            let first = text.lines().next().unwrap_or_default();
            message.content = vec![ContentPart::text(first)];
            if self.has(Fault::ForgetsExtra) {
                message.extra = None;
            }
        }
        history
    }
}
