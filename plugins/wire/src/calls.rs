//! The calls of a message, which are taken out one by one and put back into their places in the
//! reply.

use std::collections::{BTreeMap, VecDeque};

use mswea_sdk::types::ToolCall;

/// The calls of a message that are not put back yet.
pub struct Calls<'m> {
    calls: Vec<Option<&'m ToolCall>>,
    /// The indexes of the calls of each id: a message may have thousands.
    places: BTreeMap<&'m str, VecDeque<usize>>,
}

impl<'m> Calls<'m> {
    /// All calls of a message.
    pub fn new(calls: &'m [ToolCall]) -> Self {
        let mut places: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
        for (place, call) in calls.iter().enumerate() {
            places.entry(&call.id).or_default().push_back(place);
        }
        Self {
            calls: calls.iter().map(Some).collect(),
            places,
        }
    }

    /// Takes the first call of this id that is left.
    pub fn take(&mut self, id: &str) -> Option<&'m ToolCall> {
        let place = self.places.get_mut(id)?.pop_front()?;
        self.calls[place].take()
    }

    /// The remaining calls, in order.
    pub fn left(self) -> impl Iterator<Item = &'m ToolCall> {
        self.calls.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::call;

    #[test]
    fn each_is_taken_once() {
        let all = [
            call("a", "1", ""),
            call("b", "2", ""),
            call("a", "3", ""),
            call("c", "4", ""),
        ];
        let mut calls = Calls::new(&all);
        for (id, expected) in [
            ("a", Some("1")),
            ("c", Some("4")),
            ("c", None),
            ("x", None),
            ("a", Some("3")),
            ("a", None),
        ] {
            let name = calls.take(id).map(|call| call.name.as_str());
            assert_eq!(name, expected, "{id}");
        }
        let left: Vec<&str> = calls.left().map(|call| call.name.as_str()).collect();
        assert_eq!(left, ["2"]);
    }
}
