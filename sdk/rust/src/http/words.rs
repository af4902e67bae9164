//! The text of a body that is no answer, on one line, for a message to the user.

use serde_json::Value;

/// How many bytes of a body of unknown form are quoted.
const MAX_SNIPPET: usize = 200;

/// The readable text of a value that should be a message.
pub fn words_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            // Some servers put a whole error, as text, into the message.
            match serde_json::from_str::<Value>(text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => words_of(&inner),
                _ => text.clone(),
            }
        }
        Value::Array(list) => {
            let all: Vec<String> = list.iter().map(words_of).collect();
            all.join("; ")
        }
        Value::Object(map) => {
            if let Some(inner) = ["message", "msg", "detail", "error"]
                .into_iter()
                .find_map(|key| map.get(key))
            {
                let place = map.get("loc").and_then(Value::as_array).map(|path| {
                    let path: Vec<String> = path.iter().map(words_of).collect();
                    format!("`{}`: ", path.join("."))
                });
                return place.unwrap_or_default() + &words_of(inner);
            }
            value.to_string()
        }
        other => other.to_string(),
    }
}

/// Whether a text is a web page.
pub fn is_html(body: &str) -> bool {
    body.trim_start().starts_with('<')
}

/// A description of a body that is no JSON: a page's title, or its first words.
pub fn describe_text(body: &str) -> String {
    let title = is_html(body).then(|| title(body)).flatten();
    match title {
        Some(title) => format!("titled `{}`", shorten(title, MAX_SNIPPET)),
        None if body.trim().is_empty() => "no further details".to_owned(),
        None => format!("`{}`", shorten(body, MAX_SNIPPET)),
    }
}

fn title(page: &str) -> Option<&str> {
    // Lower-casing ASCII keeps every offset.
    let lower = page.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find('<')?;
    Some(page[start..end].trim()).filter(|title| !title.is_empty())
}

/// The beginning of a text, on one line.
pub fn shorten(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
            count += 1;
        }
        for letter in word.chars() {
            if count >= max {
                out.push('…');
                return out;
            }
            out.push(letter);
            count += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_found_in_every_form() {
        for (value, expected) in [
            (json!(null), ""),
            (json!("plain"), "plain"),
            (json!("{\"error\":{\"message\":\"inner\"}}"), "inner"),
            (json!({"detail": ["a", "b"]}), "a; b"),
            (
                json!([{"loc": ["body", 0], "msg": "not a number"}]),
                "`body.0`: not a number",
            ),
            (json!({"x": 1}), "{\"x\":1}"),
        ] {
            assert_eq!(words_of(&value), expected, "{value}");
        }
    }

    #[test]
    fn texts_become_one_short_line() {
        assert_eq!(shorten(" a \n b\tc ", 9), "a b c");
        assert_eq!(shorten("abc", 2), "ab…");
        for (body, expected) in [
            ("", "no further details"),
            ("a\nb", "`a b`"),
            ("<html><TITLE>Too Large</TITLE>", "titled `Too Large`"),
            ("<html>", "`<html>`"),
        ] {
            assert_eq!(describe_text(body), expected);
        }
    }
}
