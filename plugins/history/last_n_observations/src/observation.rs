//! Which messages are observations, what their tags say, and how an old one is shortened.

use mswea_sdk::types::{ContentPart, Message};
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde_json::Value;

/// The effect of an observation's tags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// No effect: the age decides.
    ByAge,
    /// The observation is kept at any age.
    Keep,
    /// The observation is removed at any age.
    Remove,
}

/// The tags that decide about messages.
pub struct Tags {
    /// Messages with one of these stay.
    pub keep: Vec<String>,
    /// Messages with one of these are removed; this takes precedence.
    pub remove: Vec<String>,
}

/// The keys of a message's `extra` that are used here.
#[derive(Default, serde::Deserialize)]
struct Extra {
    #[serde(default, deserialize_with = "present")]
    returncode: bool,
    #[serde(default)]
    tags: Vec<String>,
}

/// True if the key is present, whatever its value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// Whether a message is part of a demonstration, which contains neither the task nor observations.
pub fn is_demo(message: &Message) -> bool {
    let mentions = |extra: &str| extra.contains("is_demo");
    message.extra.as_deref().is_some_and(mentions)
        && message.extra_value().get("is_demo") == Some(&Value::Bool(true))
}

/// The decision about a message if it is an observation: of role `tool`, or of role `user` with a
/// return code, as formatters for plain text make them, and not part of a demonstration.
pub fn fate(message: &Message, tags: &Tags) -> Option<Fate> {
    let is_tool = message.role == "tool";
    if !is_tool && message.role != "user" {
        return None;
    }
    // An `extra` of another form than documented has no usable tags.
    let extra: Extra = message
        .extra
        .as_deref()
        .and_then(|extra| serde_json::from_str(extra).ok())
        .unwrap_or_default();
    if !is_tool && !extra.returncode || is_demo(message) {
        return None;
    }
    let tagged = |wanted: &[String]| extra.tags.iter().any(|tag| wanted.contains(tag));
    Some(if tagged(&tags.remove) {
        Fate::Remove
    } else if tagged(&tags.keep) {
        Fate::Keep
    } else {
        Fate::ByAge
    })
}

/// The message with its content replaced by a note. Everything else stays, above all the tool call
/// that it answers.
pub fn elided(message: &Message) -> Message {
    let mut lines = 0;
    let mut images = 0;
    for part in &message.content {
        match part {
            ContentPart::Text(text) => lines += count_lines(text),
            ContentPart::Image(_) => images += 1,
            ContentPart::Reasoning(_) | ContentPart::Opaque(_) => {}
        }
    }
    let mut note = format!("Old environment output: ({lines} lines omitted)");
    if images > 0 {
        note.push_str(&format!(" ({images} images omitted)"));
    }
    Message {
        role: message.role.clone(),
        content: vec![ContentPart::Text(note)],
        tool_calls: message.tool_calls.clone(),
        tool_call_id: message.tool_call_id.clone(),
        extra: message.extra.clone(),
    }
}

/// The number of lines as Python's `str.splitlines` counts them, so that the notes are the same as
/// SWE-agent's.
fn count_lines(text: &str) -> usize {
    // Most texts have no line end but ` `, and then bytes can be counted instead of characters:
    // 0xC2 and 0xE2 begin the line ends that are not ASCII.
    let mut common = 0;
    let mut is_plain = true;
    for byte in text.bytes() {
        common += usize::from(byte == b'\n');
        is_plain &= !matches!(byte, b'\r' | 0xb | 0xc | 0x1c..=0x1e | 0xc2 | 0xe2);
    }
    if is_plain {
        return common + usize::from(!text.is_empty() && !text.ends_with('\n'));
    }
    let mut lines = 0;
    let mut open = false;
    let mut after_return = false;
    for c in text.chars() {
        let ends = matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        );
        if ends && !(c == '\n' && after_return) {
            lines += 1;
        }
        open = !ends;
        after_return = c == '\r';
    }
    lines + usize::from(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::types::Image;

    fn message(role: &str, extra: &str) -> Message {
        Message {
            extra: Some(extra.to_owned()),
            ..Message::new(role, "x")
        }
    }

    #[test]
    fn fates() {
        let tags = Tags {
            keep: vec!["k".to_owned()],
            remove: vec!["r".to_owned()],
        };
        for (role, extra, expected) in [
            ("tool", "{}", Some(Fate::ByAge)),
            ("tool", "no JSON", Some(Fate::ByAge)),
            ("tool", r#"{"tags":["x","k"]}"#, Some(Fate::Keep)),
            ("tool", r#"{"tags":["k","r"]}"#, Some(Fate::Remove)),
            ("tool", r#"{"tags":"k"}"#, Some(Fate::ByAge)),
            ("user", "{}", None),
            ("user", r#"{"tags":["r"]}"#, None),
            ("user", r#"{"returncode":0}"#, Some(Fate::ByAge)),
            (
                "user",
                r#"{"returncode":null,"tags":["r"],"b":[{}]}"#,
                Some(Fate::Remove),
            ),
            ("assistant", r#"{"returncode":0}"#, None),
            ("tool", r#"{"is_demo":true,"tags":["r"]}"#, None),
            ("user", r#"{"returncode":0,"is_demo":true}"#, None),
            ("tool", r#"{"is_demo":false}"#, Some(Fate::ByAge)),
            (
                "tool",
                r#"{"is_demo":"true","tags":["k"]}"#,
                Some(Fate::Keep),
            ),
        ] {
            assert_eq!(
                fate(&message(role, extra), &tags),
                expected,
                "{role} {extra}"
            );
        }
    }

    #[test]
    fn lines_as_python_counts_them() {
        for (text, lines) in [
            ("", 0),
            ("a", 1),
            ("a\n", 1),
            ("a\nb", 2),
            ("\n\n", 2),
            ("a\r\nb\rc\n\r", 4),
            ("a\u{2028}b\u{c}", 2),
            ("ä\nb“c”\n", 2),
            ("ä\nb\u{85}", 2),
            ("ä\nb", 2),
        ] {
            assert_eq!(count_lines(text), lines, "{text:?}");
        }
    }

    #[test]
    fn a_note_replaces_the_content() {
        let mut message = Message::tool("c1", "a\nb\n");
        message.extra = Some("{}".to_owned());
        let mut expected = Message::tool("c1", "Old environment output: (2 lines omitted)");
        expected.extra = Some("{}".to_owned());
        assert_eq!(elided(&message), expected);

        message.content.push(ContentPart::Image(Image {
            url: "data:,".to_owned(),
            extra: None,
        }));
        assert_eq!(
            elided(&message).text(),
            "Old environment output: (2 lines omitted) (1 images omitted)"
        );
    }
}
