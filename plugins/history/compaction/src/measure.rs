//! The size of the context: the provider's own count, and an estimate for later messages.

use mswea_sdk::types::{ContentPart, Message};
use serde_json::Value;

/// How many bytes count as a token in the estimate. English and code have three to five.
const BYTES_PER_TOKEN: u64 = 4;

/// The size of an image in the estimate, whatever the length of its URL: a thousand tokens.
const IMAGE: u64 = 1_000 * BYTES_PER_TOKEN;

/// The bytes of a message that a model is sent.
pub fn weight(message: &Message) -> u64 {
    if message.role == "exit" {
        return 0;
    }
    let bytes = |text: &str| text.len() as u64;
    let content = message.content.iter().map(|part| match part {
        ContentPart::Text(text) => bytes(text),
        ContentPart::Image(_) => IMAGE,
        ContentPart::Reasoning(reasoning) => bytes(&reasoning.text),
        ContentPart::Opaque(opaque) => bytes(&opaque.data),
    });
    let calls = message.tool_calls.iter();
    let calls = calls.map(|call| bytes(&call.name) + bytes(&call.arguments));
    content.chain(calls).sum()
}

/// The estimated tokens of that many bytes.
pub fn tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

/// The size of the context that the provider reported for one query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// How many tokens.
    pub tokens: u64,
    /// Messages from this index on came after that query.
    pub from: usize,
}

/// The report of a message, if it has one.
pub fn report(message: &Message, index: usize) -> Option<Report> {
    let extra = message.extra.as_deref()?;
    // Most messages have none, so their `extra` need not be parsed.
    if !extra.contains("\"usage\"") {
        return None;
    }
    let extra = message.extra_value();
    if extra.get("is_demo") == Some(&Value::Bool(true)) {
        return None;
    }
    let usage = extra.get("mswea")?.get("usage")?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    // 0 stands for an unknown count.
    let input = Some(count("input_tokens")).filter(|input| *input > 0)?;
    Some(match message.role.as_str() {
        "assistant" => Report {
            tokens: input.saturating_add(count("output_tokens")),
            from: index + 1,
        },
        // A rejected reply: it is not in the history, and this message with the feedback was not in
        // the query.
        _ => Report {
            tokens: input,
            from: index,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_sdk::types::{Image, Opaque, Reasoning, ToolCall};

    #[test]
    fn weights() {
        let part = |part: ContentPart| Message {
            content: vec![part],
            ..Message::new("user", "")
        };
        let mut call = Message::new("assistant", "ab");
        call.tool_calls.push(ToolCall {
            id: "long id".to_owned(),
            name: "bash".to_owned(),
            arguments: "{}".to_owned(),
            extra: None,
        });
        for (message, expected) in [
            (Message::default(), 0),
            (Message::new("user", "é"), 2),
            (Message::new("exit", "done"), 0),
            (call, 8),
            (
                part(ContentPart::Image(Image {
                    url: "data:,".to_owned(),
                    extra: None,
                })),
                4_000,
            ),
            (
                part(ContentPart::Reasoning(Reasoning {
                    text: "hm".to_owned(),
                    extra: None,
                })),
                2,
            ),
            (
                part(ContentPart::Opaque(Opaque {
                    format: "f".to_owned(),
                    data: "{}".to_owned(),
                    extra: None,
                })),
                2,
            ),
        ] {
            assert_eq!(weight(&message), expected, "{message:?}");
        }
        assert_eq!((tokens(0), tokens(3), tokens(4)), (0, 0, 1));
    }

    #[test]
    fn reports() {
        for (role, extra, expected) in [
            (
                "assistant",
                r#"{"mswea":{"usage":{"input_tokens":10,"cache_read_tokens":9,"output_tokens":5}}}"#,
                Some((15, 8)),
            ),
            (
                "user",
                r#"{"interrupt_type":"FormatError","mswea":{"usage":{"input_tokens":10,"output_tokens":5}}}"#,
                Some((10, 7)),
            ),
            (
                "assistant",
                r#"{"mswea":{"usage":{"input_tokens":18446744073709551615,"output_tokens":5}}}"#,
                Some((u64::MAX, 8)),
            ),
            (
                "assistant",
                r#"{"mswea":{"usage":{"input_tokens":0,"output_tokens":5}}}"#,
                None,
            ),
            (
                "assistant",
                r#"{"is_demo":true,"mswea":{"usage":{"input_tokens":10}}}"#,
                None,
            ),
            (
                "assistant",
                r#"{"mswea":{"usage":{"input_tokens":-1.5}}}"#,
                None,
            ),
            ("assistant", r#"{"mswea":{"usage":[]}}"#, None),
            ("assistant", r#"{"usage":{"input_tokens":10}}"#, None),
            ("assistant", r#"{"mswea":{"usage":"#, None),
            ("assistant", "", None),
        ] {
            let message = Message {
                extra: Some(extra.to_owned()),
                ..Message::new(role, "x")
            };
            let found = report(&message, 7).map(|report| (report.tokens, report.from));
            assert_eq!(found, expected, "{role} {extra}");
        }
    }
}
