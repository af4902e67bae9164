//! The protocol of changes, for all types: a rule determines which older messages look different
//! now, and only these and the new ones are returned.

use mswea_sdk::processor::check_start;
use mswea_sdk::types::{Change, Message, PluginError};

/// The rule of one type of processor.
pub trait Rule {
    /// Updates the rule for `history`, which is new from `start` on. Returns the indexes before
    /// `start` at which the view has changed, in any order.
    fn update(&mut self, history: &[Message], start: usize) -> Vec<usize> {
        let _ = (history, start);
        Vec::new()
    }

    /// Whether a message is in the view at all. It depends on the message alone.
    fn is_shown(&self, message: &Message) -> bool {
        let _ = message;
        true
    }

    /// A message of the view, after [`update`](Self::update).
    fn view(&self, history: &[Message], index: usize) -> Message;
}

/// SWE-agent's `default`: no changes.
pub struct Identity;

impl Rule for Identity {
    fn view(&self, history: &[Message], index: usize) -> Message {
        history[index].clone()
    }
}

/// A rule, and the history as the host sent it.
pub struct Engine {
    rule: Box<dyn Rule>,
    history: Vec<Message>,
    /// The index of each message in the view; for a message that is left out, the index of the next
    /// one.
    places: Vec<usize>,
    /// How long the view is.
    len: usize,
}

impl Engine {
    /// An engine with an empty history.
    pub fn new(rule: Box<dyn Rule>) -> Self {
        Self {
            rule,
            history: Vec::new(),
            places: Vec::new(),
            len: 0,
        }
    }

    /// The change of the view that follows from a change of the history.
    ///
    /// # Errors
    ///
    /// `invalid-input` if the change begins beyond the end.
    pub fn apply(&mut self, change: Change) -> Result<Change, PluginError> {
        check_start(&change, self.history.len())?;
        let start = change.start as usize;
        self.len = self.places.get(start).copied().unwrap_or(self.len);
        self.places.truncate(start);
        change.apply(&mut self.history);
        let turned = self.rule.update(&self.history, start);
        let mut differing: Vec<usize> = turned.into_iter().filter(|index| *index < start).collect();
        differing.sort_unstable();
        differing.dedup();
        let first_new = self.len;
        for message in &self.history[start..] {
            self.places.push(self.len);
            self.len += usize::from(self.rule.is_shown(message));
        }
        differing.retain(|index| self.is_shown(*index));
        differing.extend((start..self.history.len()).filter(|index| self.is_shown(*index)));
        // The last message that is sent ends the view.
        let last = |differing: &[usize]| differing.last().map(|index| self.places[*index] + 1);
        if !differing.is_empty() && last(&differing) != Some(self.len) {
            differing.extend(
                (0..self.history.len())
                    .rev()
                    .find(|index| self.is_shown(*index)),
            );
        }
        if differing.is_empty() {
            return Ok(Change::tail(first_new, Vec::new()));
        }
        let view = |index: usize| (self.places[index], self.rule.view(&self.history, index));
        Ok(Change::spread(differing.into_iter().map(view).collect()))
    }

    /// Whether the message of this index is in the view.
    fn is_shown(&self, index: usize) -> bool {
        self.places.get(index + 1).copied().unwrap_or(self.len) > self.places[index]
    }
}
