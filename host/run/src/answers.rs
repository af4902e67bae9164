//! The model's replies to the questions of history processors. A question is sent only once in a
//! run: a fresh instance, also after a resume, asks the same questions again and gets the recorded
//! replies.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use mswea_core::{Message, Reply};

/// The hash of a question: of the processor's name and the messages.
type Key = [u8; 32];

/// The answers of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    known: HashMap<Key, Reply>,
    /// The question that has no answer yet.
    open: Option<Key>,
}

impl Answers {
    /// Stores that a question is sent to the model.
    pub(crate) fn ask(&mut self, processor: &str, messages: &[Message]) {
        self.open = Some(key(processor, messages));
    }

    /// Stores the reply to the open question, without the provider's response, which is in the
    /// journal and which plugins do not get.
    pub(crate) fn answer(&mut self, reply: Reply) {
        if let Some(key) = self.open.take() {
            let answer = Reply {
                response: None,
                ..reply
            };
            self.known.insert(key, answer);
        }
    }

    /// Removes the open question, which got no reply. Returns whether there was one.
    pub(crate) fn forget_open(&mut self) -> bool {
        self.open.take().is_some()
    }

    /// The reply to a question that was sent before.
    pub(crate) fn get(&self, processor: &str, messages: &[Message]) -> Option<&Reply> {
        self.known.get(&key(processor, messages))
    }
}

fn key(processor: &str, messages: &[Message]) -> Key {
    let mut hash = Sha256::new();
    hash.update(processor.as_bytes());
    for message in messages {
        // Messages with the same JSON are the same for a model.
        hash.update([0]);
        hash.update(serde_json::to_vec(message).unwrap_or_default());
    }
    hash.finalize().into()
}
