//! The encoded history of a format that writes messages one after the other.

use mswea_sdk::types::Change;

use crate::{Encoded, Sequential};

/// The encoded history.
pub struct History<S> {
    bytes: Vec<u8>,
    /// For each message, where it ends in `bytes` (one that is not sent is empty), and the state
    /// after it.
    marks: Vec<(usize, S)>,
    /// How many bytes at the beginning have not changed since the last call of `take_unchanged`.
    unchanged: usize,
}

impl<S> Default for History<S> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            marks: Vec::new(),
            unchanged: 0,
        }
    }
}

impl<F: Sequential> Encoded<F> for History<F::State> {
    fn apply(&mut self, format: &F, change: &Change) -> Result<(), usize> {
        let start = change.start as usize;
        if start > self.marks.len() {
            return Err(self.marks.len());
        }
        self.marks.truncate(start);
        self.bytes
            .truncate(self.marks.last().map_or(0, |(end, _)| *end));
        self.unchanged = self.unchanged.min(self.bytes.len());
        self.marks.reserve(change.messages.len());
        let mut state = self.state();
        for message in &change.messages {
            // The last message of an ended run is for people and not for a model.
            if message.role != "exit" {
                format.encode(&mut self.bytes, &mut state, message);
            }
            self.marks.push((self.bytes.len(), state.clone()));
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.marks.len()
    }

    fn take_unchanged(&mut self) -> usize {
        std::mem::replace(&mut self.unchanged, self.bytes.len())
    }
}

impl<S: Clone + Default> History<S> {
    /// The state after the last message.
    pub fn state(&self) -> S {
        self.marks
            .last()
            .map_or_else(S::default, |(_, state)| state.clone())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
