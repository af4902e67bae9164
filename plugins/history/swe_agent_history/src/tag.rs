//! `tag_tool_call_observations`: adds tags to the observations of some functions.

use std::collections::HashSet;

use mswea_sdk::types::Message;

use crate::engine::Rule;
use crate::item;

/// The functions and the tags.
pub struct Tagger {
    /// The tags to add.
    tags: Vec<String>,
    /// The functions.
    names: HashSet<String>,
    /// Whether the message with the call is tagged, and not the observation.
    compat: bool,
    /// Whether each message is tagged.
    tagged: Vec<bool>,
    /// Indexes of the assistant's messages.
    replies: Vec<usize>,
}

/// The observations to tag after one message of the assistant.
#[derive(Default)]
struct TagTargets {
    /// Those that answer these calls.
    ids: HashSet<String>,
    /// For each action without a call, in order, whether it is to be tagged.
    plain: Vec<bool>,
    /// How many observations without a call have come since.
    seen: usize,
}

impl Tagger {
    /// A rule with an empty history.
    pub fn new(tags: Vec<String>, names: Vec<String>, compat: bool) -> Self {
        Self {
            tags,
            names: names.into_iter().collect(),
            compat,
            tagged: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Whether a message calls one of the functions.
    fn calls(&self, message: &Message) -> bool {
        let mut calls = message.tool_calls.iter();
        calls.any(|call| self.names.contains(&call.name))
    }

    fn wanted(&self, message: &Message) -> TagTargets {
        let mut wanted = TagTargets::default();
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

impl TagTargets {
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
        // New messages may answer a message before them.
        let from = self.replies.last().copied().unwrap_or(start);
        let mut wanted = TagTargets::default();
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
