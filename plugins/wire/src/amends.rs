//! Requests in another form, for servers that have refused the first one: what a refusal asks for,
//! and how the body is changed. It is done only once a server has said so, because other servers
//! want the messages as they are.
//!
//! All changes are for `messages`. In the `input` of Responses only roles are changed, because the
//! others concern keys that it does not have. Gemini's `contents` alternate in any case.

use serde_json::{Map, Value, json};

/// A change of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amend {
    /// Messages of the user that follow one another become one: templates of Mistral's and Google's
    /// models want roles that alternate.
    JoinUsers,
    /// Between a tool's message and one of the user stands one of the model: the same templates do
    /// not count messages with calls and results.
    AnswerTools,
    /// Each message of the model has `reasoning_content`, as after a switch to a model that thinks.
    AddReasoning,
    /// As before, but with a blank: Moonshot takes no empty one.
    AddBlankReasoning,
    /// No message has reasoning, as after a switch to a server that has none.
    RemoveReasoning,
    /// A missing content is an empty text, and not null.
    FillContent,
}

/// The model's message between a tool's message and one of the user.
const ANSWER: &str = "OK.";

const REASONING: &str = "reasoning_content";

impl Amend {
    /// The changes that the text of a refusal may ask for, the likeliest first.
    pub fn asked_by(refusal: &str) -> Vec<Self> {
        let text = refusal.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let mut asked = Vec::new();
        let says_alternate = says(&["alternat"]) && says(&["role", "user"]);
        if says_alternate
            || says(&[
                "successive user",
                "consecutive user",
                "multiple user",
                "unexpected role 'user'",
                "unexpected role `user`",
                "unexpected role \"user\"",
                "roles must be different",
            ])
        {
            asked.extend([Self::JoinUsers, Self::AnswerTools]);
        }
        if text.contains(REASONING) {
            let is_unwanted = says(&[
                "support",
                "unknown",
                "unexpected",
                "unrecognized",
                "extra",
                "not permitted",
                "not allowed",
                "invalid key",
                "should not",
                "must not",
            ]);
            match is_unwanted {
                true => asked.push(Self::RemoveReasoning),
                false => asked.extend([Self::AddReasoning, Self::AddBlankReasoning]),
            }
        }
        let is_of_content = text.replace(REASONING, "").contains("content");
        if is_of_content
            && says(&[
                "null",
                "none",
                "must be a string",
                "should be a string",
                "expected a string",
                "valid string",
                "missing",
                "required",
                "empty",
            ])
        {
            asked.push(Self::FillContent);
        }
        asked
    }

    /// What the change does, for a message to the user.
    pub fn note(self) -> &'static str {
        match self {
            Self::JoinUsers => {
                "messages of the user that follow one another are sent as one; \
                 `model.merge_user_messages = true` does so from the first request on"
            }
            Self::AnswerTools => {
                "after a tool's message, one of the model (`OK.`) is sent before one of the user"
            }
            Self::AddReasoning | Self::AddBlankReasoning => {
                "earlier messages of the model are sent with an empty `reasoning_content`"
            }
            Self::RemoveReasoning => "messages are sent without `reasoning_content`",
            Self::FillContent => "a missing `content` is sent as an empty text",
        }
    }

    /// Changes the messages; returns whether anything was to change.
    fn apply(self, list: &mut Messages<'_>) -> bool {
        let messages = &mut *list.messages;
        match self {
            Self::JoinUsers => join_users(messages, list.text_type),
            Self::AnswerTools => {
                let before = messages.len();
                let mut out: Vec<Value> = Vec::with_capacity(before);
                for message in std::mem::take(messages) {
                    if is(&message, "user") && out.last().is_some_and(is_output) {
                        out.push(answer(&message));
                    }
                    out.push(message);
                }
                *messages = out;
                messages.len() > before
            }
            _ if list.text_type != TEXT => false,
            Self::AddReasoning => in_answers(messages, |keys| fill(keys, REASONING, "")),
            Self::AddBlankReasoning => in_answers(messages, |keys| fill(keys, REASONING, " ")),
            Self::RemoveReasoning => in_answers(messages, |keys| {
                let known = [REASONING, "reasoning", "reasoning_text"];
                let removed = known.map(|key| keys.shift_remove(key));
                removed.iter().any(Option::is_some)
            }),
            Self::FillContent => in_answers(messages, |keys| fill(keys, "content", "")),
        }
    }
}

/// The messages of a body.
struct Messages<'a> {
    messages: &'a mut Vec<Value>,
    /// The type of a text among the parts of a content.
    text_type: &'static str,
}

const TEXT: &str = "text";

/// The messages of a body, whatever its format calls them.
fn messages(body: &mut Value) -> Option<Messages<'_>> {
    let (key, text_type) = match body.get("input") {
        Some(Value::Array(_)) => ("input", "input_text"),
        _ => ("messages", TEXT),
    };
    Some(Messages {
        messages: body.get_mut(key)?.as_array_mut()?,
        text_type,
    })
}

/// Whether it is the output of a call.
fn is_output(message: &Value) -> bool {
    is(message, "tool") || message["type"] == "function_call_output"
}

/// The model's message before this one of the user.
fn answer(next: &Value) -> Value {
    match next.get("type") {
        Some(kind) => json!({ "type": kind, "role": "assistant",
            "content": [{ "type": "output_text", "text": ANSWER }] }),
        None => json!({ "role": "assistant", "content": ANSWER }),
    }
}

fn is(message: &Value, role: &str) -> bool {
    message.get("role").is_some_and(|own| own == role)
}

/// Changes each message of the model.
fn in_answers(
    messages: &mut [Value],
    mut change: impl FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    let answers = messages
        .iter_mut()
        .filter(|message| is(message, "assistant"));
    let mut is_changed = false;
    for keys in answers.filter_map(Value::as_object_mut) {
        is_changed |= change(keys);
    }
    is_changed
}

/// Gives a key a text, unless it has another one; returns whether it was changed.
fn fill(keys: &mut Map<String, Value>, key: &str, text: &str) -> bool {
    let is_free = match keys.get(key) {
        None | Some(Value::Null) => true,
        Some(known) => known == "" && known != text,
    };
    if is_free {
        keys.insert(key.to_owned(), json!(text));
    }
    is_free
}

fn join_users(messages: &mut Vec<Value>, text_type: &str) -> bool {
    let before = messages.len();
    let mut out: Vec<Value> = Vec::with_capacity(before);
    for mut message in std::mem::take(messages) {
        match out.last_mut() {
            Some(last) if is(last, "user") && is(&message, "user") => {
                let (first, second) = (last["content"].take(), message["content"].take());
                last["content"] = match (first, second) {
                    (Value::String(first), Value::String(second)) => {
                        json!(format!("{first}\n\n{second}"))
                    }
                    (first, second) => {
                        let second = parts(second, text_type);
                        parts(first, text_type).chain(second).collect()
                    }
                };
            }
            _ => out.push(message),
        }
    }
    *messages = out;
    messages.len() < before
}

/// The parts of a content.
fn parts(content: Value, text_type: &str) -> std::vec::IntoIter<Value> {
    match content {
        Value::Array(parts) => parts,
        Value::Null => Vec::new(),
        text => vec![json!({ "type": text_type, "text": text })],
    }
    .into_iter()
}

/// The changes that a server has asked for.
#[derive(Clone, Debug, Default)]
pub struct Amends(Vec<Amend>);

impl Amends {
    /// These changes.
    pub fn new(amends: Vec<Amend>) -> Self {
        Self(amends)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the first change that a refusal of `body` asks for and that changes it.
    pub fn learn(&mut self, refusal: &str, body: &[u8]) -> Option<Amend> {
        let asked = Amend::asked_by(refusal);
        if asked.is_empty() {
            return None;
        }
        let mut body = self.amended(body);
        let mut messages = messages(&mut body)?;
        let learned = asked
            .into_iter()
            .find(|amend| !self.0.contains(amend) && amend.apply(&mut messages))?;
        self.0.push(learned);
        self.0.sort_unstable();
        Some(learned)
    }

    /// The changed body; with `whole`, one that asks for no stream. None if nothing is to change.
    pub fn apply(&self, body: &[u8], whole: bool) -> Option<Vec<u8>> {
        if self.is_empty() && !whole {
            return None;
        }
        let mut amended = self.amended(body);
        let mut is_changed = !self.is_empty();
        if whole
            && let Some(keys) = amended.as_object_mut()
            && keys.get("stream") == Some(&Value::Bool(true))
        {
            keys.insert("stream".to_owned(), json!(false));
            keys.shift_remove("stream_options");
            is_changed = true;
        }
        is_changed.then(|| amended.to_string().into_bytes())
    }

    fn amended(&self, body: &[u8]) -> Value {
        let mut body: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(mut messages) = messages(&mut body) {
            for amend in &self.0 {
                amend.apply(&mut messages);
            }
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_ask_for_what_they_say() {
        use Amend::{
            AddBlankReasoning, AddReasoning, AnswerTools, FillContent, JoinUsers, RemoveReasoning,
        };
        let roles = &[JoinUsers, AnswerTools][..];
        let reasoning = &[AddReasoning, AddBlankReasoning][..];
        for (refusal, expected) in [
            (
                "Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
                roles,
            ),
            (
                "Conversation roles must alternate user/assistant/user/assistant/...",
                roles,
            ),
            (
                "messages: roles must alternate between \"user\" and \"assistant\"",
                roles,
            ),
            (
                "After the (optional) system message(s), user and assistant roles should be alternating.",
                roles,
            ),
            (
                "does not support successive user or assistant messages",
                roles,
            ),
            ("Unexpected role 'user' after role 'tool'", roles),
            (
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                reasoning,
            ),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
                reasoning,
            ),
            (
                "property 'reasoning_content' is unsupported",
                &[RemoveReasoning],
            ),
            (
                "messages[2].reasoning_content: Extra inputs are not permitted",
                &[RemoveReasoning],
            ),
            ("messages[2]: missing field `content`", &[FillContent]),
            (
                "Invalid type for 'messages[2].content': expected a string, but got null",
                &[FillContent],
            ),
            ("Bad temperature", &[]),
            ("the alternative model", &[]),
        ] {
            assert_eq!(Amend::asked_by(refusal), expected, "{refusal}");
        }
    }

    fn message(role: &str, content: &str) -> Value {
        json!({ "role": role, "content": content })
    }

    #[test]
    fn bodies_get_the_form_that_was_asked_for() {
        let calls = json!({"role": "assistant", "content": null, "tool_calls": []});
        let body = json!({"stream": true, "messages": [
            message("system", "s"), message("user", "a"), message("user", "b"),
            calls, message("tool", "t"), message("user", "c"),
            {"role": "user", "content": [{"type": "text", "text": "d"}]},
        ]});
        let bytes = body.to_string().into_bytes();
        let mut amends = Amends::default();
        assert_eq!(amends.apply(&bytes, false), None);
        let refusal = "roles must alternate, and the content is required, with reasoning_content";
        let learned: Vec<Amend> = std::iter::from_fn(|| amends.learn(refusal, &bytes)).collect();
        assert_eq!(
            learned,
            [
                Amend::JoinUsers,
                Amend::AnswerTools,
                Amend::AddReasoning,
                Amend::AddBlankReasoning,
                Amend::FillContent
            ]
        );
        let amended: Value = serde_json::from_slice(&amends.apply(&bytes, true).unwrap()).unwrap();
        assert_eq!(
            amended,
            json!({"stream": false, "messages": [
                message("system", "s"), message("user", "a\n\nb"),
                {"role": "assistant", "content": "", "tool_calls": [], "reasoning_content": " "},
                message("tool", "t"),
                {"role": "assistant", "content": "OK.", "reasoning_content": " "},
                {"role": "user", "content": [
                    {"type": "text", "text": "c"}, {"type": "text", "text": "d"},
                ]},
            ]})
        );
    }

    #[test]
    fn the_items_of_responses_get_alternating_roles() {
        let typed = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
        let call = json!({"type": "function_call", "call_id": "c", "name": "bash"});
        let output = json!({"type": "function_call_output", "call_id": "c", "output": "o"});
        let body = json!({"input": [
            message("system", "s"), message("user", "a"), message("user", "b"), call, output,
            message("user", "c"), typed("user", "input_text", "d"), call, output,
            typed("user", "input_text", "e"),
        ]});
        let bytes = body.to_string().into_bytes();
        let mut amends = Amends::default();
        let refusal = "roles must alternate, and the content is required, with reasoning_content";
        let learned: Vec<Amend> = std::iter::from_fn(|| amends.learn(refusal, &bytes)).collect();
        assert_eq!(learned, [Amend::JoinUsers, Amend::AnswerTools]);
        let amended: Value = serde_json::from_slice(&amends.apply(&bytes, false).unwrap()).unwrap();
        let joined =
            json!([{"type": "input_text", "text": "c"}, {"type": "input_text", "text": "d"}]);
        assert_eq!(
            amended,
            json!({"input": [
                message("system", "s"), message("user", "a\n\nb"), call, output,
                message("assistant", "OK."), {"role": "user", "content": joined}, call, output,
                typed("assistant", "output_text", "OK."), typed("user", "input_text", "e"),
            ]})
        );
    }

    #[test]
    fn a_form_that_changes_nothing_is_not_learned() {
        let body = json!({"messages": [message("user", "a"), message("assistant", "b")]});
        let bytes = body.to_string().into_bytes();
        let mut amends = Amends::default();
        assert_eq!(amends.learn("roles must alternate", &bytes), None);
        assert_eq!(amends.learn("content is null", &bytes), None);
        assert_eq!(amends.apply(&bytes, true), None);
        for other in ["{}", "x", r#"{"messages": 1}"#] {
            assert_eq!(amends.learn("roles must alternate", other.as_bytes()), None);
        }
    }
}
