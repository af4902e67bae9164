//! The encoded history: messages as turns of user and model.
//!
//! It is kept between queries, so that a step encodes only its new messages; if the host does not
//! have the last body, all bytes are copied once as well. The blocks of each message are kept too:
//! a turn depends on several messages, and is composed of their blocks again when one of them
//! changes.

use mswea_sdk::types::Change;
use mswea_wire::Encoded;
use mswea_wire::json::append;

use crate::Messages;
use crate::blocks::{self, Call, Kind};

/// Sent in place of a missing result: the API does not accept a call without one.
const NO_RESULT: &str = "no result: the call was not executed";

/// Sent in place of an empty result without a call.
const NO_OUTPUT: &str = "no output";

/// The encoded history.
#[derive(Default)]
pub struct History {
    /// The blocks of all messages, one after the other.
    blocks: Vec<u8>,
    messages: Vec<Piece>,
    /// How many messages at the beginning are instructions (or not sent); they are in no turn.
    lead: usize,
    /// The turns, separated by commas.
    wire: Vec<u8>,
    turns: Vec<Turn>,
    /// How many bytes at the beginning of `wire` have not changed since the last call of
    /// `take_unchanged`.
    unchanged: usize,
}

struct Piece {
    /// The end of a message's blocks.
    end: usize,
    kind: Kind,
}

struct Turn {
    /// The first message of the turn that has blocks.
    first: usize,
    /// Where it begins in `wire`.
    at: usize,
    is_user: bool,
}

impl Encoded<Messages> for History {
    fn apply(&mut self, _: &Messages, change: &Change) -> Result<(), usize> {
        let start = change.start as usize;
        if start > self.messages.len() {
            return Err(self.messages.len());
        }
        self.messages.truncate(start);
        self.blocks.truncate(self.begin_of(start));
        self.messages.reserve(change.messages.len());
        for message in &change.messages {
            let kind = blocks::write(&mut self.blocks, message);
            let end = self.blocks.len();
            self.messages.push(Piece { end, kind });
        }
        self.compose(start);
        Ok(())
    }

    fn count(&self) -> usize {
        self.messages.len()
    }

    fn take_unchanged(&mut self) -> usize {
        std::mem::replace(&mut self.unchanged, self.wire.len())
    }
}

impl History {
    /// The turns, without the brackets of the array.
    pub fn turns(&self) -> &[u8] {
        &self.wire
    }

    /// The blocks of the instructions, without the brackets of the array.
    pub fn system(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for index in 0..self.lead {
            add(&mut out, self.blocks_of(index));
        }
        out
    }

    /// The names of the tools that were called.
    pub fn called(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for message in &self.messages {
            if let Kind::Assistant(calls) = &message.kind {
                for call in calls {
                    if !names.contains(&&*call.name) {
                        names.push(&*call.name);
                    }
                }
            }
        }
        names
    }

    fn begin_of(&self, index: usize) -> usize {
        match index.checked_sub(1) {
            Some(before) => self.messages[before].end,
            None => 0,
        }
    }

    fn blocks_of(&self, index: usize) -> &[u8] {
        &self.blocks[self.begin_of(index)..self.messages[index].end]
    }

    /// Composes the turns again, from the first one that a change at `start` can affect.
    fn compose(&mut self, start: usize) {
        let is_lead = |message: &&Piece| matches!(message.kind, Kind::System | Kind::Nothing);
        let lead = self.messages.iter().take_while(is_lead).count();
        if start <= self.lead.max(lead) {
            self.turns.clear();
        }
        self.lead = lead;
        // A turn that begins before the change may continue in it, and the results in a user's turn
        // depend on the calls of the turn before.
        self.turns
            .truncate(self.turns.partition_point(|turn| turn.first < start));
        let mut from = lead;
        let mut at = 0;
        while let Some(turn) = self.turns.pop() {
            (from, at) = (turn.first, turn.at);
            if !turn.is_user {
                break;
            }
        }
        self.wire.truncate(at);
        self.unchanged = self.unchanged.min(at);
        let mut pending: Vec<Call> = Vec::new();
        while let Some((is_user, members)) = self.next_turn(from) {
            let first = members.first().copied().unwrap_or(from);
            from = members.last().map_or(self.messages.len(), |last| last + 1);
            if is_user {
                self.write_user(first, &members, std::mem::take(&mut pending));
            } else {
                self.begin_turn(first, is_user);
                for &index in &members {
                    if let Kind::Assistant(calls) = &self.messages[index].kind {
                        pending.extend_from_slice(calls);
                    }
                    let range = self.begin_of(index)..self.messages[index].end;
                    add_in_turn(&mut self.wire, &self.blocks[range]);
                }
                self.wire.extend_from_slice(b"]}");
            }
        }
        if !pending.is_empty() {
            self.write_user(self.messages.len(), &[], pending);
        }
    }

    /// The role of the next turn, and its messages: all up to the first message of the other role.
    fn next_turn(&self, from: usize) -> Option<(bool, Vec<usize>)> {
        let mut members = Vec::new();
        let mut side = None;
        for (index, message) in self.messages.iter().enumerate().skip(from) {
            let is_user = match message.kind {
                Kind::Nothing => continue,
                Kind::Assistant(_) => false,
                Kind::System | Kind::User | Kind::Result(..) => true,
            };
            if *side.get_or_insert(is_user) != is_user {
                break;
            }
            members.push(index);
        }
        side.map(|is_user| (is_user, members))
    }

    fn begin_turn(&mut self, first: usize, is_user: bool) {
        let at = self.wire.len();
        self.turns.push(Turn { first, at, is_user });
        if at > 0 {
            self.wire.push(b',');
        }
        let role: &[u8] = if is_user { b"user" } else { b"assistant" };
        self.wire.extend_from_slice(br#"{"role":""#);
        self.wire.extend_from_slice(role);
        self.wire.extend_from_slice(br#"","content":["#);
    }

    /// Writes a user's turn: first the results, one for each call, then everything else.
    fn write_user(&mut self, first: usize, members: &[usize], mut pending: Vec<Call>) {
        self.begin_turn(first, true);
        let mut others: Vec<u8> = Vec::new();
        for &index in members {
            let range = self.begin_of(index)..self.messages[index].end;
            let bytes = &self.blocks[range];
            match &self.messages[index].kind {
                Kind::Result(id, content) => {
                    if let Some(asked) = pending.iter().position(|call| call.id == *id) {
                        pending.remove(asked);
                        add_in_turn(&mut self.wire, bytes);
                    } else {
                        add(&mut others, &without_call(&bytes[content.clone()]));
                    }
                }
                _ => add(&mut others, bytes),
            }
        }
        for call in pending {
            let mut result = br#"{"type":"tool_result","tool_use_id":"#.to_vec();
            append(&mut result, &call.id);
            result.extend_from_slice(br#","content":"#);
            append(&mut result, NO_RESULT);
            result.extend_from_slice(br#","is_error":true}"#);
            add_in_turn(&mut self.wire, &result);
        }
        if !others.is_empty() {
            add_in_turn(&mut self.wire, &others);
        }
        self.wire.extend_from_slice(b"]}");
    }
}

/// The content of a result without a call, as blocks of their own: the API does not accept a result
/// without a call, and the content must not be lost.
fn without_call(content: &[u8]) -> Vec<u8> {
    let list = content
        .strip_prefix(b"[")
        .and_then(|list| list.strip_suffix(b"]"));
    match list {
        Some(list) if !list.is_empty() => list.to_vec(),
        _ => {
            let text: String = serde_json::from_slice(content).unwrap_or_default();
            let text = match text.trim() {
                "" => NO_OUTPUT,
                _ => &text,
            };
            let mut out = br#"{"type":"text","text":"#.to_vec();
            append(&mut out, text);
            out.push(b'}');
            out
        }
    }
}

fn add(out: &mut Vec<u8>, blocks: &[u8]) {
    if !out.is_empty() && !blocks.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(blocks);
}

/// As [`add`], after the opening bracket of a turn.
fn add_in_turn(wire: &mut Vec<u8>, blocks: &[u8]) {
    if wire.last() != Some(&b'[') {
        wire.push(b',');
    }
    wire.extend_from_slice(blocks);
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
