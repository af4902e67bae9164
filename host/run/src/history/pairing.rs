//! Tool calls and tool results must pair up: every provider refuses a conversation in which they do
//! not.

use std::borrow::Borrow;

use mswea_core::Message;

/// Checks `view[from..]`; what lies before has been checked already. The check starts at the last
/// message before `from` that is no tool result, so that calls and results are seen together.
///
/// No call may be without a result at the end either, since the view is about to be sent.
///
/// # Errors
/// A message that names the call or the result without a counterpart.
pub fn check<M: Borrow<Message>>(view: &[M], from: usize) -> Result<(), String> {
    let mut start = from.min(view.len()).saturating_sub(1);
    while start > 0 && view[start].borrow().role == "tool" {
        start -= 1;
    }
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in view.iter().map(Borrow::borrow).enumerate().skip(start) {
        if message.role == "tool" {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            match open.iter().position(|call| *call == id) {
                Some(position) => {
                    open.remove(position);
                }
                None => {
                    return Err(format!(
                        "message {index} is the result of tool call `{id}`, which no message before it makes"
                    ));
                }
            }
            continue;
        }
        if let Some(id) = open.first() {
            return Err(format!(
                "tool call `{id}` has no result before message {index}"
            ));
        }
        open = message
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
    }
    match open.first() {
        Some(id) => Err(format!("tool call `{id}` has no result")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_core::ToolCall;

    fn list(shape: &str) -> Vec<Message> {
        // `u` user, `a12` assistant that calls 1 and 2, `t1` result of 1.
        shape
            .split_whitespace()
            .map(|word| {
                let (role, ids) = word.split_at(1);
                let role = match role {
                    "u" => "user",
                    "a" => "assistant",
                    _ => "tool",
                };
                let mut message = Message::new(role, "");
                if role == "tool" {
                    message.tool_call_id = Some(ids.to_owned());
                } else {
                    message.tool_calls = ids
                        .chars()
                        .map(|id| ToolCall {
                            id: id.to_string(),
                            name: "bash".into(),
                            arguments: String::new(),
                            extra: Default::default(),
                        })
                        .collect();
                }
                message
            })
            .collect()
    }

    #[test]
    fn vectors() {
        let table = [
            ("u a1 t1", 0, true),
            ("u a1", 0, false),
            ("u a1", 1, false),
            ("u a1 u", 2, false),
            ("u a12 t2 t1 u", 0, true),
            ("u a1 u", 0, false),
            ("u t1", 0, false),
            ("u a12 t1", 0, false),
            ("u a1 t1 a2 t2", 4, true),
            ("u a1 t1 a2 t1", 4, false),
            ("u a1 t1 t1", 3, false),
            ("u a1 t1 u", 3, true),
            ("u a1 t1", 3, true),
            ("", 0, true),
        ];
        for (shape, from, good) in table {
            assert_eq!(
                check(&list(shape), from).is_ok(),
                good,
                "{shape} from {from}"
            );
        }
    }
}
