//! Shortens values for a report or a journal, and formats them as lines.

use serde_json::Value;

/// The least bytes that are kept of a string when the other strings have used up the room.
const LEAST: usize = 200;

/// A value with each of its texts shortened to `most` bytes, and all of them to about twice that. Of
/// a long text the part is kept where it begins to differ from that in `other`.
pub(super) fn shortened(value: &Value, other: &Value, most: usize) -> Value {
    shorten(value, other, most, &mut most.saturating_mul(2))
}

fn shorten(value: &Value, other: &Value, most: usize, room: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let other = other.as_str().unwrap_or_default();
            let limit = most.min(LEAST.max(*room));
            *room = room.saturating_sub(text.len().min(limit));
            // A little of the common part shows where the difference is.
            let start = match text.len().max(other.len()) > limit {
                true => common_prefix(text, other).saturating_sub(limit / 4),
                false => 0,
            };
            cut(text, start, limit).into()
        }
        Value::Array(list) => {
            let list = list.iter().enumerate();
            let list = list.map(|(at, it)| shorten(it, &other[at], most, room));
            list.collect()
        }
        Value::Object(map) => {
            let map = map.iter();
            let map = map.map(|(key, it)| (key.clone(), shorten(it, &other[key], most, room)));
            Value::Object(map.collect())
        }
        other => other.clone(),
    }
}

/// A part of two values that differs: its path, and what is there.
pub(super) type DifferingPart<'v> = (String, Option<&'v Value>, Option<&'v Value>);

/// The smallest parts of two values that differ.
pub(super) fn differences<'v>(old: &'v Value, new: &'v Value) -> Vec<DifferingPart<'v>> {
    let mut found = Vec::new();
    differ(String::new(), Some(old), Some(new), &mut found);
    found
}

fn differ<'v>(
    path: String,
    old: Option<&'v Value>,
    new: Option<&'v Value>,
    found: &mut Vec<DifferingPart<'v>>,
) {
    match (old, new) {
        _ if old == new => {}
        (Some(Value::Object(olds)), Some(Value::Object(news))) => {
            let added = news.keys().filter(|key| !olds.contains_key(*key));
            for key in olds.keys().chain(added) {
                differ(format!("{path}/{key}"), olds.get(key), news.get(key), found);
            }
        }
        (Some(Value::Array(olds)), Some(Value::Array(news))) => {
            for index in 0..olds.len().max(news.len()) {
                differ(
                    format!("{path}/{index}"),
                    olds.get(index),
                    news.get(index),
                    found,
                );
            }
        }
        _ => found.push((path, old, new)),
    }
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

/// `most` bytes from `start` on, with a note of how much is left out.
fn cut(text: &str, start: usize, most: usize) -> String {
    let start = text.floor_char_boundary(start);
    let end = text.floor_char_boundary(start.saturating_add(most));
    let before = match start {
        0 => String::new(),
        start => format!("[... {start} bytes] "),
    };
    let after = match text.len() - end {
        0 => String::new(),
        rest => format!(" [... {rest} bytes more]"),
    };
    format!("{before}{}{after}", &text[start..end])
}

/// A value as readable lines: strings without quotes, each of their lines on a line of its own.
pub(super) fn lines(value: &Value) -> Vec<String> {
    let mut out = Vec::new();
    write(value, 0, String::new(), &mut out);
    out
}

/// Values nested more deeply are not formatted, since recorded data may be hostile.
const DEPTH: usize = 24;

fn write(value: &Value, indent: usize, head: String, out: &mut Vec<String>) {
    let pad = "  ".repeat(indent);
    let mut open = |head: &str| {
        if !head.is_empty() {
            out.push(format!("{pad}{head}"));
        }
        indent + usize::from(!head.is_empty())
    };
    match value {
        Value::Object(map) if !map.is_empty() && indent < DEPTH => {
            let inner = open(&head);
            for (key, value) in map {
                write(value, inner, format!("{key}:"), out);
            }
        }
        Value::Array(list) if !list.is_empty() && indent < DEPTH => {
            let inner = open(&head);
            for (index, value) in list.iter().enumerate() {
                write(value, inner, format!("[{index}]"), out);
            }
        }
        Value::String(text) if text.contains('\n') => {
            let inner = open(&head);
            let pad = "  ".repeat(inner);
            out.extend(text.split('\n').map(|line| format!("{pad}{line}")));
        }
        Value::String(text) => out.push(joined(&pad, &head, text)),
        other => out.push(joined(&pad, &head, &other.to_string())),
    }
}

fn joined(pad: &str, head: &str, text: &str) -> String {
    match head.is_empty() {
        true => format!("{pad}{text}"),
        false => format!("{pad}{head} {text}"),
    }
}

/// A text without control characters but newlines: they are shown by symbols, and tabs as spaces,
/// whose width is known.
pub(super) fn printable(text: &str) -> String {
    mswea_text::visible(text).replace('\t', "    ")
}

/// A text in one line, as [`printable`].
pub(super) fn one_line(text: &str) -> String {
    printable(&text.replace('\n', " "))
}

/// A count with its noun.
pub(super) fn number(count: u64, of: &str) -> String {
    match count {
        1 => format!("1 {of}"),
        count => format!("{count} {of}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_strings_keep_what_differs() {
        let text = |middle: &str| format!("{}{middle}{}", "ä".repeat(5_000), "z".repeat(5_000));
        let mut old = json!({"a": text("OLD"), "b": "short", "c": [text("")]});
        let mut new = json!({"a": text("NEW"), "b": "short"});
        (old, new) = (shortened(&old, &new, 400), shortened(&new, &old, 400));
        assert!(old["a"].as_str().unwrap().contains("OLD"), "{old}");
        assert!(new["a"].as_str().unwrap().contains("NEW"), "{new}");
        assert_eq!(old["b"], "short");
        assert!(old.to_string().len() + new.to_string().len() < 2_000);
        assert!(old["a"].as_str().unwrap().contains("bytes more]"));
    }

    #[test]
    fn the_whole_is_bounded_too() {
        let many: Value = (0..500).map(|_| "y".repeat(10_000)).collect();
        let many = shortened(&many, &Value::Null, 1_000);
        assert!(many.to_string().len() < 2 * 1_000 + 500 * (LEAST + 50));
    }

    #[test]
    fn values_become_lines() {
        let value = json!({"actions": [{"command": "a\n b", "id": 1}], "empty": {}, "t": "x"});
        assert_eq!(
            lines(&value),
            [
                "actions:",
                "  [0]",
                "    command:",
                "      a",
                "       b",
                "    id: 1",
                "empty: {}",
                "t: x"
            ]
        );
        let mut deep = json!("x");
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(lines(&deep).len() < 30);
    }

    #[test]
    fn nothing_acts() {
        assert_eq!(
            printable("a\x1b[31m\u{202e}b\u{9b}\tc\nd\u{200b}"),
            "a␛[31m<U+202E>b<U+009B>    c\nd<U+200B>"
        );
    }
}
