//! Makes an input that breaks a law smaller, while it still breaks the law.
//!
//! It works on the input's JSON, so that the same code serves every kind of input. JSON that no
//! longer parses as an input, or breaks the host's side of the contract, is not tried.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How many smaller inputs are tried.
const TRIES: usize = 250;

/// The smallest input found in `time` for which `breaks` still holds.
pub(super) async fn shrink<T, F>(input: T, time: Duration, mut breaks: F) -> T
where
    T: Serialize + DeserializeOwned,
    F: AsyncFnMut(&T) -> bool,
{
    let since = Instant::now();
    let Ok(mut smallest) = serde_json::to_value(&input) else {
        return input;
    };
    let mut best = input;
    let mut tries = 0;
    // From the start again after each success: a part that was needed before may not be needed now.
    'again: loop {
        let mut edits = Vec::new();
        collect(&smallest, &mut Vec::new(), &mut edits);
        // The edits that remove most come first.
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.saves));
        for edit in edits {
            if tries == TRIES || since.elapsed() > time {
                return best;
            }
            let mut candidate = smallest.clone();
            edit.apply(&mut candidate);
            let Ok(input) = T::deserialize(&candidate) else {
                continue;
            };
            // Some keys are added again by serialisation, so the result is compared.
            let written = serde_json::to_value(&input);
            if written.is_ok_and(|written| written == smallest) {
                continue;
            }
            tries += 1;
            if breaks(&input).await {
                (smallest, best) = (candidate, input);
                continue 'again;
            }
        }
        return best;
    }
}

/// A step of a path, by key or index.
#[derive(Clone, Debug)]
enum PathStep {
    Key(String),
    Index(usize),
}

#[derive(Debug)]
enum Op {
    /// Removes a range of a list.
    Drop(std::ops::Range<usize>),
    /// Removes a key.
    Forget(String),
    /// Removes a range of a text, counted in characters.
    Cut(std::ops::Range<usize>),
    /// Replaces a number by zero.
    Zero,
}

#[derive(Debug)]
struct Edit {
    path: Vec<PathStep>,
    op: Op,
    saves: usize,
}

fn collect(value: &Value, path: &mut Vec<PathStep>, edits: &mut Vec<Edit>) {
    const MOST: usize = 2000;
    if edits.len() > MOST {
        return;
    }
    let mut edit = |op, saves| {
        edits.push(Edit {
            path: path.clone(),
            op,
            saves,
        });
    };
    match value {
        Value::Array(list) if !list.is_empty() => {
            for range in stretches(list.len()) {
                let saves = list[range.clone()].iter().map(weight).sum();
                edit(Op::Drop(range), saves);
            }
            for (index, item) in list.iter().enumerate().take(64) {
                path.push(PathStep::Index(index));
                collect(item, path, edits);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                edit(Op::Forget(key.clone()), weight(item));
            }
            for (key, item) in map {
                path.push(PathStep::Key(key.clone()));
                collect(item, path, edits);
                path.pop();
            }
        }
        Value::String(text) if !text.is_empty() => {
            for range in stretches(text.chars().count()) {
                edit(Op::Cut(range.clone()), range.len());
            }
        }
        Value::Number(number) if number.as_f64() != Some(0.0) => edit(Op::Zero, 1),
        _ => {}
    }
}

/// The whole, halves, quarters and eighths of a length, and single items if they are few.
fn stretches(len: usize) -> Vec<std::ops::Range<usize>> {
    let mut stretches = Vec::new();
    let mut size = len;
    while size > 0 && stretches.len() < 16 {
        let mut from = 0;
        while from < len {
            stretches.push(from..len.min(from + size));
            from += size;
        }
        size /= 2;
    }
    stretches
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(weight).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(weight).sum::<usize>(),
        Value::String(text) => 1 + text.len(),
        _ => 1,
    }
}

impl Edit {
    fn apply(&self, value: &mut Value) {
        let mut there = value;
        for step in &self.path {
            let next = match step {
                PathStep::Key(key) => there.get_mut(key),
                PathStep::Index(index) => there.get_mut(index),
            };
            let Some(next) = next else { return };
            there = next;
        }
        match (&self.op, there) {
            (Op::Drop(range), Value::Array(list)) => drop(list.drain(range.clone())),
            (Op::Forget(key), Value::Object(map)) => drop(map.shift_remove(key)),
            (Op::Cut(range), Value::String(text)) => {
                let chars = text.chars().enumerate();
                *text = chars
                    .filter(|(index, _)| !range.contains(index))
                    .map(|(_, c)| c)
                    .collect();
            }
            (Op::Zero, number) => *number = Value::from(0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_core::{Message, Reply, ToolCall};

    #[tokio::test]
    async fn keeps_only_what_breaks() {
        let call = |id: &str| ToolCall {
            id: id.into(),
            name: "bash".into(),
            arguments: "{}".into(),
            extra: Default::default(),
        };
        let mut message = Message::new("assistant", "long ".repeat(1000) + "x" + &"y".repeat(500));
        message.tool_calls = (0..50).map(|n| call(&n.to_string())).collect();
        let reply = Reply {
            message,
            finish_reason: "stop".into(),
            ..Reply::default()
        };
        let breaks = async |reply: &Reply| {
            let calls = &reply.message.tool_calls;
            reply.message.text().contains('x') && calls.iter().any(|call| call.id == "31")
        };
        let small = shrink(reply, Duration::from_secs(20), breaks).await;
        assert_eq!(small.message.text(), "x");
        assert_eq!(small.message.tool_calls.len(), 1);
        assert_eq!(small.finish_reason, "");
        assert_eq!(small.message.tool_calls[0].arguments, "");
    }

    #[tokio::test]
    async fn what_can_not_be_smaller_stays() {
        let input = Message::new("user", "x");
        let same = shrink(input.clone(), Duration::from_secs(1), async |_| false).await;
        assert_eq!(same, input);
    }
}
