//! `tag_tool_call_observations`: observations of some functions get tags.

use std::collections::HashSet;

use mswea_sdk::types::Message;

use crate::engine::Rule;
use crate::item;

/// Which functions, and which tags.
pub struct Tagger {
    /// What is added.
    tags: Vec<String>,
    /// The functions.
    names: HashSet<String>,
    /// Whether the action is tagged, and not what came of it.
    compat: bool,
    /// What is tagged.
    tagged: Vec<bool>,
    /// Indexes of the assistant's messages.
    replies: Vec<usize>,
}

/// What is to be tagged after one message of the assistant.
#[derive(Default)]
struct Wanted {
    /// Answers to these calls.
    ids: HashSet<String>,
    /// Of the actions without a call, in order, these.
    plain: Vec<bool>,
    /// How many observations without a call came since.
    seen: usize,
}

impl Tagger {
    /// A rule that knows no history yet.
    pub fn new(tags: Vec<String>, names: Vec<String>, compat: bool) -> Self {
        Self {
            tags,
            names: names.into_iter().collect(),
            compat,
            tagged: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Whether a call of one of the functions is in a message.
    fn calls(&self, message: &Message) -> bool {
        let mut calls = message.tool_calls.iter();
        calls.any(|call| self.names.contains(&call.name))
    }

    fn wanted(&self, message: &Message) -> Wanted {
        let mut wanted = Wanted::default();
        if self.names.is_empty() {
            return wanted;
        }
        for call in &message.tool_calls {
            if self.names.contains(&call.name) {
                wanted.ids.insert(call.id.clone());
            }
        }
        for action in item::actions(message) {
            let program = action.command.split_whitespace().next().unwrap_or_default();
            let is_named = self.names.contains(program);
            match action.tool_call_id {
                None => wanted.plain.push(is_named),
                Some(id) if is_named => {
                    wanted.ids.insert(id);
                }
                Some(_) => {}
            }
        }
        wanted
    }
}

impl Wanted {
    fn take(&mut self, message: &Message) -> bool {
        match &message.tool_call_id {
            Some(id) => self.ids.contains(id),
            None => {
                self.seen += 1;
                self.plain.get(self.seen - 1) == Some(&true)
            }
        }
    }
}

impl Rule for Tagger {
    fn update(&mut self, history: &[Message], start: usize) -> Vec<usize> {
        self.tagged.truncate(start);
        let before = self.replies.partition_point(|index| *index < start);
        self.replies.truncate(before);
        // What the new messages answer to may be in front of them.
        let from = self.replies.last().copied().unwrap_or(start);
        let mut wanted = Wanted::default();
        for (index, message) in history.iter().enumerate().skip(from) {
            let is_reply = message.role == "assistant";
            if is_reply {
                wanted = self.wanted(message);
            }
            let answers = item::is_observation(message) && wanted.take(message);
            if index >= start {
                if is_reply {
                    self.replies.push(index);
                }
                self.tagged.push(match self.compat {
                    true => is_reply && self.calls(message),
                    false => answers,
                });
            }
        }
        Vec::new()
    }

    fn view(&self, history: &[Message], index: usize) -> Message {
        let mut message = history[index].clone();
        if self.tagged[index] {
            item::add_tags(&mut message, &self.tags);
        }
        message
    }
}
