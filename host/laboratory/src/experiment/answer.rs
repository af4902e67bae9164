//! The answer of a role, when two answers agree, and how a pair of answers is shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::excerpt;
use mswea_core::{
    AdapterNext, HeaderValue, HttpRequest, Manner, Message, ModelError, Outcome, Part, PluginFault,
    Verdict,
};

/// How much two answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Degree {
    /// They are equal.
    Same,
    /// A run would act the same; only parts that it does not use differ: the message of a malformed
    /// reply, something in an `extra`, the layout of a request's body.
    Wording,
    /// A run would continue differently.
    Different,
    /// One of the two failed.
    OneFailed,
    /// Both failed.
    BothFailed,
}

impl Degree {
    /// All degrees, the best first.
    pub const ALL: [Self; 5] = [
        Self::Same,
        Self::Wording,
        Self::Different,
        Self::OneFailed,
        Self::BothFailed,
    ];

    /// Its word in journals and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Wording => "wording",
            Self::Different => "different",
            Self::OneFailed => "one_failed",
            Self::BothFailed => "both_failed",
        }
    }

    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Wording => "same but wording",
            Self::Different => "different",
            Self::OneFailed => "one failed",
            Self::BothFailed => "both failed",
        }
    }

    /// The degree of a word; an unknown word counts as [`Self::Different`].
    pub fn of_word(word: &str) -> Self {
        let known = Self::ALL.into_iter().find(|degree| degree.as_str() == word);
        known.unwrap_or(Self::Different)
    }

    /// Whether a run would continue alike.
    pub fn agrees(self) -> bool {
        matches!(self, Self::Same | Self::Wording)
    }
}

/// The answer of a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RoleAnswer {
    Outcome(Outcome),
    Messages(Vec<Message>),
    Verdict(Verdict),
    View(Vec<Arc<Message>>),
    Next(Box<AdapterNext>),
    Failed { manner: Manner, message: String },
}

impl RoleAnswer {
    pub(super) fn fault(fault: PluginFault) -> Self {
        Self::Failed {
            manner: fault.manner,
            message: fault.message,
        }
    }

    pub(super) fn failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// An answer of a role that has no errors but faults.
macro_rules! answers {
    ($($of:ty => $case:ident),*) => {
        $(impl From<Result<$of, PluginFault>> for RoleAnswer {
            fn from(result: Result<$of, PluginFault>) -> Self {
                result.map_or_else(Self::fault, Self::$case)
            }
        })*
    };
}

answers!(Outcome => Outcome, Vec<Message> => Messages, Verdict => Verdict, Vec<Arc<Message>> => View);

/// An adapter's error is an answer too, one without a request.
impl From<Result<AdapterNext, ModelError>> for RoleAnswer {
    fn from(result: Result<AdapterNext, ModelError>) -> Self {
        match result {
            Ok(next) => Self::Next(Box::new(next)),
            Err(error) => Self::fault(PluginFault::new(format!(
                "{}: {}",
                error.class, error.message
            ))),
        }
    }
}

/// How much two answers of one role differ.
pub(super) fn degree(old: &RoleAnswer, new: &RoleAnswer) -> Degree {
    let agree = match (old, new) {
        (RoleAnswer::Failed { .. }, RoleAnswer::Failed { .. }) => return Degree::BothFailed,
        (RoleAnswer::Failed { .. }, _) | (_, RoleAnswer::Failed { .. }) => {
            return Degree::OneFailed;
        }
        _ if old == new => return Degree::Same,
        (RoleAnswer::Outcome(old), RoleAnswer::Outcome(new)) => outcomes_agree(old, new),
        (RoleAnswer::Messages(old), RoleAnswer::Messages(new)) => messages_agree(old, new),
        (
            RoleAnswer::Verdict(Verdict::Rewrite(old)),
            RoleAnswer::Verdict(Verdict::Rewrite(new)),
        ) => old.command == new.command && old.tool_call_id == new.tool_call_id,
        (RoleAnswer::Next(old), RoleAnswer::Next(new)) => match (&**old, &**new) {
            (AdapterNext::Send(old), AdapterNext::Send(new)) => request(old) == request(new),
            _ => false,
        },
        // In a view every part counts, because adapters read `extra`.
        _ => false,
    };
    match agree {
        true => Degree::Wording,
        false => Degree::Different,
    }
}

/// Whether both contain the same commands for the same calls, or the same problem.
pub(super) fn outcomes_agree(old: &Outcome, new: &Outcome) -> bool {
    match (old, new) {
        (Outcome::Actions(old), Outcome::Actions(new)) => {
            let same = |(old, new): (&mswea_core::Action, &mswea_core::Action)| {
                old.command == new.command && old.tool_call_id == new.tool_call_id
            };
            old.len() == new.len() && old.iter().zip(new).all(same)
        }
        // A feedback template can test the code and the details; it can only print the message.
        (Outcome::Malformed(old), Outcome::Malformed(new)) => {
            old.code == new.code && old.details == new.details
        }
        _ => false,
    }
}

/// Whether both show the same to the model.
pub(super) fn messages_agree(old: &[Message], new: &[Message]) -> bool {
    let same = |(old, new): (&Message, &Message)| {
        old.role == new.role
            && old.content == new.content
            && old.tool_calls == new.tool_calls
            && old.tool_call_id == new.tool_call_id
    };
    old.len() == new.len() && old.iter().zip(new).all(same)
}

/// Both answers as JSON values; of long answers only the part that differs.
pub(super) fn show(old: &RoleAnswer, new: &RoleAnswer) -> (Value, Value) {
    match (old, new) {
        (RoleAnswer::View(old), RoleAnswer::View(new)) => views(old, new),
        (RoleAnswer::Next(old), RoleAnswer::Next(new)) => match (&**old, &**new) {
            (AdapterNext::Send(old), AdapterNext::Send(new)) => {
                differing(&request(old), &request(new))
            }
            (old, new) => (next(old), next(new)),
        },
        (old, new) => (one(old), one(new)),
    }
}

fn one(answer: &RoleAnswer) -> Value {
    match answer {
        RoleAnswer::Outcome(Outcome::Actions(actions)) => json!({ "actions": actions }),
        RoleAnswer::Outcome(Outcome::Malformed(problem)) => json!({ "malformed": problem }),
        RoleAnswer::Messages(messages) => {
            json!({ "messages": messages.iter().map(message).collect::<Value>() })
        }
        RoleAnswer::Verdict(Verdict::Allow) => json!({ "verdict": "allow" }),
        RoleAnswer::Verdict(Verdict::Deny(text)) => json!({ "verdict": "deny", "feedback": text }),
        RoleAnswer::Verdict(Verdict::Ask(text)) => json!({ "verdict": "ask", "reason": text }),
        RoleAnswer::Verdict(Verdict::Rewrite(action)) => {
            json!({ "verdict": "rewrite", "action": action })
        }
        RoleAnswer::View(view) => json!({ "messages_in_view": view.len() }),
        RoleAnswer::Next(answer) => next(answer),
        RoleAnswer::Failed { manner, message } => {
            let manner = match manner {
                Manner::Reported => "reported",
                Manner::Crashed => "crashed",
                Manner::Broke => "broke",
            };
            json!({ "failed": manner, "message": message })
        }
    }
}

/// A message; its content as one string if it has only text, which is easier to read.
pub(super) fn message(message: &Message) -> Value {
    let mut shown = json!(message);
    if let [Part::Text { text }] = &*message.content {
        shown["content"] = text.as_str().into();
    }
    shown
}

/// The messages between the common beginning and the common end.
fn views(old: &[Arc<Message>], new: &[Arc<Message>]) -> (Value, Value) {
    let same = |(old, new): &(&Arc<Message>, &Arc<Message>)| old == new;
    let before = old.iter().zip(new).take_while(same).count();
    let after = old[before..].iter().rev().zip(new[before..].iter().rev());
    let after = after.take_while(same).count();
    let side = |view: &[Arc<Message>]| {
        let differ: Map<String, Value> = (before..view.len() - after)
            .map(|index| (format!("message {index}"), message(&view[index])))
            .collect();
        json!({
            "messages_in_view": view.len(),
            "same_before": before,
            "same_after": after,
            "between": differ,
        })
    };
    (side(old), side(new))
}

/// A request. Neither the order of headers nor the case of their names has a meaning, and neither has
/// the layout of a body in JSON.
fn request(request: &HttpRequest) -> Value {
    let headers = request.headers.iter().map(|(name, value)| {
        let value = match value {
            HeaderValue::Plain(value) => value.clone(),
            HeaderValue::Secret { name, prefix } => format!("{prefix}<secret {name}>"),
        };
        (name.to_ascii_lowercase(), value)
    });
    let bytes = request.body.joined();
    let body = serde_json::from_slice::<Value>(&bytes);
    json!({
        "method": request.method,
        "url": request.url,
        "headers": headers.collect::<BTreeMap<_, _>>(),
        "body": body.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
    })
}

fn next(next: &AdapterNext) -> Value {
    match next {
        AdapterNext::Send(send) => json!({ "send": request(send) }),
        AdapterNext::Reply(reply) => json!({ "reply": reply }),
    }
}

/// The parts of two values that differ, by path.
fn differing(old: &Value, new: &Value) -> (Value, Value) {
    let (mut left, mut right) = (Map::new(), Map::new());
    for (path, old, new) in excerpt::differences(old, new) {
        old.and_then(|old| left.insert(path.clone(), old.clone()));
        new.and_then(|new| right.insert(path, new.clone()));
    }
    (left.into(), right.into())
}

#[cfg(test)]
mod tests;
