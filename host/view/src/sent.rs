//! Compares a request with the history: finds the messages that the history processors have hidden
//! or changed.

use std::collections::HashMap;

use mswea_core::{Message, Part, Tool};
use mswea_export::SecretValues;
use serde_json::{Value, json};

use crate::compare::longest_common;
use crate::steps::{cleaned, images, indented, shown};

/// The approximate number of bytes of texts in an answer; later messages have only their marks.
const ANSWER: usize = 6 << 20;

/// The longest body that is not cut.
const WHOLE: usize = 1 << 20;

/// The data of a request to the model.
#[derive(Clone, Debug, Default)]
pub struct SentRequest {
    /// The whole history.
    pub history: Vec<Message>,
    /// The messages after the history processors.
    pub view: Vec<Message>,
    /// The tools that were offered.
    pub tools: Vec<Tool>,
    /// The model and its parameters, as recorded.
    pub parameters: Value,
    /// The body that the adapter makes, or the reason why it makes none.
    pub body: Option<Result<Value, String>>,
    /// The reason why the sent messages are not known.
    pub stopped: Option<String>,
    /// A caution for the reader about the reconstruction.
    pub caution: Option<String>,
}

/// The relation of a message in the history to one in the view, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentMark {
    Same(usize),
    Changed(usize, usize),
    Hidden(usize),
    Added(usize),
}

/// The JSON for the page; `recorded` is the number of messages according to the journal.
pub(crate) fn request(it: &SentRequest, recorded: Option<u64>, secrets: &SecretValues) -> Value {
    // Comparing many long messages that are nearly the same would take long.
    let mut known = HashMap::new();
    let mut number = |message: &Message| {
        let next = known.len();
        *known.entry(comparable(message).to_string()).or_insert(next)
    };
    let history: Vec<usize> = it.history.iter().map(&mut number).collect();
    let view: Vec<usize> = it.view.iter().map(&mut number).collect();
    let mut bytes = 0;
    let messages = marks(&history, &view).into_iter().map(|mark| {
        let (word, message, before) = match mark {
            SentMark::Same(new) => ("same", &it.view[new], None),
            SentMark::Changed(old, new) => ("changed", &it.view[new], Some(&it.history[old])),
            SentMark::Hidden(old) => ("hidden", &it.history[old], None),
            SentMark::Added(new) => ("added", &it.view[new], None),
        };
        let (mut text, mut was) = (readable(message), before.map(readable));
        if was.as_ref() == Some(&text) {
            // The messages differ in other parts than their text.
            text = indented(&comparable(message));
            was = before.map(|it| indented(&comparable(it)));
        }
        let mut value = json!({ "mark": word, "role": message.role, "bytes": text.len() });
        if bytes <= ANSWER {
            value["text"] = shown(&text, secrets);
            value["before"] = was.map_or(Value::Null, |it| shown(&it, secrets));
            value["images"] = images(&addresses(message), secrets);
            bytes += value.to_string().len();
        }
        value
    });
    let messages: Vec<Value> = messages.collect();
    json!({
        "messages": messages,
        "sent": it.view.len(),
        "recorded": recorded,
        "tools": shown(&indented(&json!(it.tools)), secrets),
        "parameters": shown(&indented(&it.parameters), secrets),
        "body": it.body.as_ref().map(|it| match it {
            Ok(body) => {
                // Before it becomes text, in which characters are escaped.
                let mut body = body.clone();
                secrets.remove_from_value(&mut body);
                whole(&indented(&body), secrets)
            }
            Err(why) => shown(why, secrets),
        }),
        "stopped": it.stopped.as_ref().map(|why| shown(why, secrets)),
        "caution": it.caution,
    })
}

/// A text without cuts, unless it is very long.
fn whole(text: &str, secrets: &SecretValues) -> Value {
    match text.len() <= WHOLE {
        true => cleaned(text.to_owned(), secrets).into(),
        false => shown(text, secrets),
    }
}

/// The parts of a message that are sent.
fn comparable(message: &Message) -> Value {
    let mut value = json!(message);
    if let Some(keys) = value.as_object_mut() {
        keys.shift_remove("extra");
    }
    value
}

/// A message as text: its texts and its calls.
fn readable(message: &Message) -> String {
    let mut out = Vec::new();
    for part in &message.content {
        match part {
            Part::Text { text } | Part::Reasoning { text, .. } => out.push(text.clone()),
            Part::Image { .. } => {}
            Part::Opaque { .. } => out.push(indented(&json!(part))),
        }
    }
    for call in &message.tool_calls {
        out.push(format!("{} {}", call.name, call.arguments));
    }
    out.join("\n")
}

fn addresses(message: &Message) -> Vec<String> {
    let address = |part: &Part| match part {
        Part::Image { url, .. } => Some(url.clone()),
        _ => None,
    };
    message.content.iter().filter_map(address).collect()
}

/// Aligns the view with the history by the messages that are the same.
fn marks(history: &[usize], view: &[usize]) -> Vec<SentMark> {
    let pairs = || history.iter().zip(view);
    let head = pairs().take_while(|(old, new)| old == new).count();
    let (old, new) = (&history[head..], &view[head..]);
    let ends = old.iter().rev().zip(new.iter().rev());
    let tail = ends.take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);

    let mut marks: Vec<SentMark> = (0..head).map(SentMark::Same).collect();
    // The first messages without a mark.
    let mut from = (0, 0);
    for at in longest_common(old, new)
        .into_iter()
        .chain([(old.len(), new.len())])
    {
        let (hidden, added) = (from.0..at.0, from.1..at.1);
        if hidden.len() == added.len() {
            let pairs = hidden.zip(added);
            marks.extend(pairs.map(|(old, new)| SentMark::Changed(head + old, head + new)));
        } else {
            marks.extend(hidden.map(|old| SentMark::Hidden(head + old)));
            marks.extend(added.map(|new| SentMark::Added(head + new)));
        }
        if at.0 < old.len() {
            marks.push(SentMark::Same(head + at.1));
        }
        from = (at.0 + 1, at.1 + 1);
    }
    marks.extend((view.len() - tail..view.len()).map(SentMark::Same));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_marked() {
        // History, view, marks: `=` the same, `~` changed, `-` hidden, `+` added.
        let vectors = [
            ("", "", ""),
            ("abc", "abc", "==="),
            ("abcd", "abXd", "==~="),
            ("abcdef", "aXcYef", "=~=~=="),
            ("abcdef", "abef", "==--=="),
            ("abcdef", "abSef", "==--+=="),
            ("abcde", "abcdeX", "=====+"),
            ("abc", "", "---"),
            ("", "ab", "++"),
            ("abab", "ab", "==--"),
        ];
        let values = |text: &str| text.chars().map(|it| it as usize).collect::<Vec<_>>();
        for (history, view, expected) in vectors {
            let marks = marks(&values(history), &values(view));
            let words = marks.iter().map(|mark| match mark {
                SentMark::Same(_) => '=',
                SentMark::Changed(..) => '~',
                SentMark::Hidden(_) => '-',
                SentMark::Added(_) => '+',
            });
            assert_eq!(words.collect::<String>(), expected, "{history} {view}");
        }
    }

    #[test]
    fn what_is_not_text_is_shown_where_it_differs_and_secrets_are_not() {
        let old = Message::new("user", "see hunter2-hunter2");
        let mut new = old.clone();
        new.content.push(Part::Image {
            url: "data:image/png;base64,AAAA".to_owned(),
            extra: mswea_core::Object::new(),
        });
        let sent = SentRequest {
            history: vec![old],
            view: vec![new],
            ..SentRequest::default()
        };
        let secrets = SecretValues::new(["hunter2-hunter2".to_owned()]);
        let value = request(&sent, Some(1), &secrets);
        assert!(!value.to_string().contains("hunter2"), "{value}");
        let message = &value["messages"][0];
        assert_eq!(message["mark"], "changed");
        assert_ne!(message["text"], message["before"]);
        assert_eq!(message["images"][0]["data"], "data:image/png;base64,AAAA");
    }
}
