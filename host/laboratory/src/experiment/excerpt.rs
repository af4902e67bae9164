//! Shortens values for a report or a journal, and formats them as lines.

use serde_json::Value;

/// The least bytes that are kept of a string when the other strings have used up the room.
const LEAST: usize = 200;

/// Shortens two values together: each string to `most` bytes, and each side to about twice that. Of
/// two long strings the part that differs is kept.
pub(super) fn pair(old: &mut Value, new: &mut Value, most: usize) {
    let mut room = most.saturating_mul(2);
    together(old, new, most, &mut room);
}

/// Shortens one value.
pub(super) fn one(value: &mut Value, most: usize) {
    let mut other = Value::Null;
    pair(value, &mut other, most);
}

fn together(old: &mut Value, new: &mut Value, most: usize, room: &mut usize) {
    match (old, new) {
        (Value::String(old), Value::String(new)) => {
            let same = common_prefix(old, new);
            let limit = most.min(LEAST.max(*room));
            // A little of the common part shows where the difference is.
            let start = if old.len().max(new.len()) > limit {
                same.saturating_sub(limit / 4)
            } else {
                0
            };
            *room = room.saturating_sub(old.len().max(new.len()).min(limit));
            cut(old, start, limit);
            cut(new, start, limit);
        }
        (Value::Array(olds), Value::Array(news)) => {
            let shared = olds.len().min(news.len());
            for (old, new) in olds.iter_mut().zip(news.iter_mut()) {
                together(old, new, most, room);
            }
            for value in olds
                .iter_mut()
                .skip(shared)
                .chain(news.iter_mut().skip(shared))
            {
                together(value, &mut Value::Null, most, room);
            }
        }
        (Value::Object(olds), Value::Object(news)) => {
            for (key, old) in olds.iter_mut() {
                let mut nothing = Value::Null;
                together(old, news.get_mut(key).unwrap_or(&mut nothing), most, room);
            }
            for (_, new) in news.iter_mut().filter(|(key, _)| !olds.contains_key(*key)) {
                together(new, &mut Value::Null, most, room);
            }
        }
        (old, new) => {
            for value in [old, new] {
                alone(value, most, room);
            }
        }
    }
}

fn alone(value: &mut Value, most: usize, room: &mut usize) {
    match value {
        Value::String(text) => {
            let limit = most.min(LEAST.max(*room));
            *room = room.saturating_sub(text.len().min(limit));
            cut(text, 0, limit);
        }
        Value::Array(list) => list.iter_mut().for_each(|value| alone(value, most, room)),
        Value::Object(map) => map.values_mut().for_each(|value| alone(value, most, room)),
        _ => {}
    }
}

fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    (0..=same)
        .rev()
        .find(|at| a.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Keeps `most` bytes from `start` on, with a note of how much is left out.
fn cut(text: &mut String, start: usize, most: usize) {
    let floor = |at: usize| {
        (0..=at.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
    };
    let start = floor(start).unwrap_or(0);
    let end = floor(start.saturating_add(most)).unwrap_or(text.len());
    if start == 0 && end == text.len() {
        return;
    }
    let mut out = String::with_capacity(end - start + 64);
    if start > 0 {
        out.push_str(&format!("[... {start} bytes] "));
    }
    out.push_str(&text[start..end]);
    if end < text.len() {
        out.push_str(&format!(" [... {} bytes more]", text.len() - end));
    }
    *text = out;
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_strings_keep_what_differs() {
        let text = |middle: &str| format!("{}{middle}{}", "ä".repeat(5_000), "z".repeat(5_000));
        let mut old = json!({"a": text("OLD"), "b": "short", "c": [text("")]});
        let mut new = json!({"a": text("NEW"), "b": "short"});
        pair(&mut old, &mut new, 400);
        assert!(old["a"].as_str().unwrap().contains("OLD"), "{old}");
        assert!(new["a"].as_str().unwrap().contains("NEW"), "{new}");
        assert_eq!(old["b"], "short");
        assert!(old.to_string().len() + new.to_string().len() < 2_000);
        assert!(old["a"].as_str().unwrap().contains("bytes more]"));
    }

    #[test]
    fn the_whole_is_bounded_too() {
        let mut many: Value = (0..500).map(|_| "y".repeat(10_000)).collect();
        one(&mut many, 1_000);
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
