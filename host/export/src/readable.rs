//! What a person reads of a result.

use std::borrow::Cow;

use serde_json::Value;

/// An observation in JSON with its strings unescaped; the return code is shown elsewhere.
pub fn readable(text: &str) -> Cow<'_, str> {
    let is_object = text.starts_with('{') && text.trim_end().ends_with('}');
    let keys = match serde_json::from_str(text) {
        Ok(Value::Object(keys)) if is_object && keys.contains_key("returncode") => keys,
        _ => return text.into(),
    };
    let mut out = String::new();
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("returncode", _) => {}
            ("output", Value::String(text)) => out.push_str(&text),
            (_, Value::String(text)) if text.is_empty() => {}
            (_, Value::String(text)) => out.push_str(&format!("<{key}>\n{text}\n")),
            (_, value) => out.push_str(&format!("<{key}>\n{value}\n")),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_in_json_is_shown_as_its_output() {
        for (text, expected) in [
            (r#"{"returncode": 0, "output": "a\nb"}"#, "a\nb"),
            (
                r#"{"returncode": 1, "output": "a\n", "exception_info": "late", "n": 3}"#,
                "a\n<exception_info>\nlate\n<n>\n3\n",
            ),
            (r#"{"output": "a"}"#, r#"{"output": "a"}"#),
            ("{", "{"),
            ("text", "text"),
        ] {
            assert_eq!(readable(text), expected);
        }
    }
}
