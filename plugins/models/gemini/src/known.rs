//! The parts of earlier messages that requests need: the system instruction and the open calls.
//!
//! One record serves the states after all messages: each state contains how much of the record
//! existed, and a history that loses its end continues from there. So cloning a state is cheap.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

/// A call.
pub struct Call {
    /// The function's name.
    pub name: String,
    /// Whether the id is Gemini's own.
    pub is_given: bool,
    id: String,
    /// The call before it with the same id.
    previous: Option<usize>,
    /// The first open call with the same id.
    first: usize,
}

#[derive(Default)]
struct Record {
    system: Vec<Value>,
    calls: Vec<Call>,
    /// The last call of each id.
    places: BTreeMap<String, usize>,
}

/// The state after a message.
#[derive(Clone, Default)]
pub struct Known {
    record: Rc<RefCell<Record>>,
    system: usize,
    /// The index of the first open call.
    from: usize,
    /// The index after the last open call.
    calls: usize,
}

impl Known {
    /// Adds parts to the system instruction.
    pub fn add_system(&mut self, parts: Vec<Value>) {
        let system = &mut self.record.borrow_mut().system;
        system.truncate(self.system);
        system.extend(parts);
        self.system = system.len();
    }

    /// The parts of the system instruction.
    pub fn system(&self) -> Vec<Value> {
        self.record.borrow().system[..self.system].to_vec()
    }

    /// Closes all open calls.
    pub fn settle(&mut self) {
        self.from = self.calls;
    }

    /// Adds a call that waits for its output.
    pub fn add_call(&mut self, id: &str, name: &str, is_given: bool) {
        let record = &mut *self.record.borrow_mut();
        for dropped in record.calls.drain(self.calls..).rev() {
            match dropped.previous {
                Some(previous) => record.places.insert(dropped.id, previous),
                None => record.places.remove(&dropped.id),
            };
        }
        let previous = record.places.insert(id.to_owned(), self.calls);
        let waiting = previous.filter(|previous| *previous >= self.from);
        record.calls.push(Call {
            name: name.to_owned(),
            is_given,
            id: id.to_owned(),
            previous,
            first: waiting.map_or(self.calls, |previous| record.calls[previous].first),
        });
        self.calls += 1;
    }

    /// Passes the call that this output answers to `look`: the first of several.
    pub fn with_call<T>(&self, id: &str, look: impl FnOnce(Option<&Call>) -> T) -> T {
        let record = self.record.borrow();
        let mut place = record.places.get(id).copied();
        // Calls after this state are not known to it.
        while let Some(later) = place.filter(|place| *place >= self.calls) {
            place = record.calls[later].previous;
        }
        let place = place.filter(|place| *place >= self.from);
        look(place.map(|place| &record.calls[record.calls[place].first]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn name(known: &Known, id: &str) -> Option<String> {
        known.with_call(id, |call| call.map(|call| call.name.clone()))
    }

    #[test]
    fn earlier_states_stay_what_they_are() {
        let mut known = Known::default();
        known.add_system(vec![json!("a")]);
        known.add_call("1", "one", true);
        known.add_call("1", "again", false);
        let early = known.clone();
        known.add_system(vec![json!("b")]);
        known.settle();
        assert_eq!(name(&known, "1"), None);
        known.add_call("1", "other", true);
        known.add_call("2", "two", true);
        assert_eq!(name(&known, "1").as_deref(), Some("other"));
        assert_eq!(known.system(), [json!("a"), json!("b")]);

        // The history loses its end, and continues differently.
        let mut known = early;
        assert_eq!(name(&known, "1").as_deref(), Some("one"));
        assert_eq!(name(&known, "2"), None);
        assert_eq!(known.system(), [json!("a")]);
        known.add_call("3", "three", true);
        known.add_system(vec![json!("c")]);
        assert_eq!(name(&known, "1").as_deref(), Some("one"));
        assert_eq!(name(&known, "2"), None);
        assert_eq!(name(&known, "3").as_deref(), Some("three"));
        assert_eq!(known.system(), [json!("a"), json!("c")]);
    }
}
