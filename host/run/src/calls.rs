//! Tool calls and their results: the checks with which the loop keeps them paired.

use mswea_core::{Action, Message, Object, Output, Problem, Reply};

/// The most actions that one reply may have: each is a process.
pub(super) const MOST_ACTIONS: usize = 256;

/// The message to the model about a reply with more actions.
pub(super) fn too_many(count: usize) -> Problem {
    let mut details = Object::new();
    details.insert("n_actions".into(), count.into());
    Problem {
        code: "too-many-actions".into(),
        message: format!(
            "the reply has {count} actions, and none of them was executed: at most {MOST_ACTIONS} \
             are allowed in one reply"
        ),
        details,
    }
}

/// The id of the first action with a tool call that is not in the reply.
pub(super) fn invented_call<'a>(reply: &Reply, actions: &'a [Action]) -> Option<&'a str> {
    let mut calls: Vec<&str> = reply
        .message
        .tool_calls
        .iter()
        .map(|call| call.id.as_str())
        .collect();
    actions
        .iter()
        .filter_map(|action| action.tool_call_id.as_deref())
        .find(|id| match calls.iter().position(|call| call == id) {
            Some(position) => {
                calls.swap_remove(position);
                false
            }
            None => true,
        })
}

/// Empty actions for those tool calls of a reply of which the parser made no action.
pub(super) fn unused_calls(reply: &Reply, actions: &[Action]) -> Vec<Action> {
    let mut used: Vec<&str> = actions
        .iter()
        .filter_map(|action| action.tool_call_id.as_deref())
        .collect();
    let mut unused = Vec::new();
    for call in &reply.message.tool_calls {
        match used.iter().position(|id| *id == call.id) {
            Some(position) => {
                used.swap_remove(position);
            }
            None => unused.push(Action {
                tool_call_id: Some(call.id.clone()),
                ..Action::default()
            }),
        }
    }
    unused
}

/// Checks that the messages have exactly one result for every tool call of the actions, and no
/// message of another kind.
pub(super) fn answers(actions: &[Action], messages: &[Message]) -> Result<(), String> {
    let mut results: Vec<&str> = Vec::new();
    for message in messages {
        match (message.role.as_str(), message.tool_call_id.as_deref()) {
            ("tool", Some(id)) => results.push(id),
            ("user", None) => {}
            (role, _) => {
                return Err(format!(
                    "an observation is a message of role `tool` with a `tool-call-id`, or of role `user` without one; here is one of role `{role}`"
                ));
            }
        }
    }
    for call in actions
        .iter()
        .filter_map(|action| action.tool_call_id.as_deref())
    {
        match results.iter().position(|result| *result == call) {
            Some(position) => results.swap_remove(position),
            None => return Err(format!("tool call `{call}` has no message of role `tool`")),
        };
    }
    match results.first() {
        Some(result) => Err(format!(
            "a message answers tool call `{result}`, which none of the actions has"
        )),
        None => Ok(()),
    }
}

/// Adds the keys that mini-swe-agent stores with every observation.
pub(super) fn add_raw(extra: &mut Object, output: &Output, timestamp: f64) {
    if extra.is_empty() {
        *extra = Object::with_capacity(4 + output.extra.len());
    }
    extra.insert("raw_output".into(), output.output.as_str().into());
    extra.insert("returncode".into(), output.returncode.into());
    extra.insert("timestamp".into(), timestamp.into());
    extra.insert(
        "exception_info".into(),
        output.exception_info.as_str().into(),
    );
    extra.extend(output.extra.clone());
}
