//! Keeps secrets out of what is written down: by the name of their key, and by their look.
//!
//! This is the second line of defence. The first is that a config names secrets and does
//! not hold them; but a header or a variable can hold anything, so people will write it.

use serde_json::Value;

const MARK: &str = "[redacted]";

/// A copy without what looks like a secret.
pub fn redacted(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let value = if is_secret(key) {
                        blotted(value)
                    } else {
                        redacted(value)
                    };
                    (key.clone(), value)
                })
                .collect(),
        ),
        Value::Array(items) => items.iter().map(redacted).collect(),
        Value::String(text) => Value::String(text_redacted(text)),
        other => other.clone(),
    }
}

/// A `-c` argument without a secret in it.
pub(super) fn spec(spec: &str) -> String {
    let Some((key, value)) = spec.split_once('=') else {
        return spec.to_owned();
    };
    if key.split('.').any(|segment| is_secret(segment.trim())) {
        return format!("{key}={MARK}");
    }
    match serde_json::from_str::<Value>(value) {
        Ok(json) => {
            let clean = redacted(&json);
            // The user's own spacing is kept where there is nothing to hide.
            if clean == json {
                spec.to_owned()
            } else {
                format!("{key}={clean}")
            }
        }
        Err(_) => format!("{key}={}", text_redacted(value)),
    }
}

/// Whether values under this key are secrets.
pub(super) fn is_secret(key: &str) -> bool {
    let key: String = key
        .chars()
        .map(|c| {
            if c == '-' || c == ' ' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect();
    // Names of secrets are no secrets, and a token limit is no token.
    if ["_env", "_file", "_path"]
        .iter()
        .any(|end| key.ends_with(end))
        || key == "secrets"
    {
        return false;
    }
    const WHOLE: &[&str] = &[
        "authorization",
        "cookie",
        "token",
        "secret",
        "auth",
        "apikey",
        "bearer",
    ];
    const PARTS: &[&str] = &[
        "api_key",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "private_key",
        "access_key",
        "secret_key",
        "virtual_key",
        "client_secret",
        "set_cookie",
    ];
    const ENDS: &[&str] = &["_token", "_secret", "_apikey", "_authorization", "_auth"];
    WHOLE.contains(&key.as_str())
        || PARTS.iter().any(|part| key.contains(part))
        || ENDS.iter().any(|end| key.ends_with(end))
}

/// Everything under a secret key: also in a list or a map.
fn blotted(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Array(items) => items.iter().map(blotted).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), blotted(value)))
            .collect(),
        _ => MARK.into(),
    }
}

fn text_redacted(text: &str) -> String {
    if let Some(prefix) = ["Bearer ", "bearer ", "Basic "]
        .iter()
        .find(|prefix| text.starts_with(**prefix))
    {
        return format!("{prefix}{MARK}");
    }
    // `https://user:password@host`; only what is one URL, not prose that mentions some.
    if let Some((scheme, rest)) = text.split_once("://")
        && !text.contains(char::is_whitespace)
    {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            return format!("{scheme}://{MARK}{}", &rest[at..]);
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_known_by_their_key() {
        for key in [
            "api_key",
            "API-Key",
            "apikey",
            "OPENAI_API_KEY",
            "x-api-key",
            "Authorization",
            "Proxy-Authorization",
            "password",
            "DB_PASSWORD",
            "token",
            "GITHUB_TOKEN",
            "hf-token",
            "client_secret",
            "aws_secret_access_key",
            "Cookie",
            "private_key",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in [
            "api_key_env",
            "secrets",
            "secrets_file",
            "max_tokens",
            "max_completion_tokens",
            "author",
            "step_limit",
            "keys",
            "tokens",
            "tokenizer",
            "PATH",
            "logit_bias",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }

    #[test]
    fn values_go_and_shapes_stay() {
        for (value, expected) in [
            (
                json!({"api_key": "sk-1", "x": 1}),
                json!({"api_key": "[redacted]", "x": 1}),
            ),
            (json!({"api_key": null}), json!({"api_key": null})),
            (
                json!({"extra_headers": {"Authorization": "Bearer a", "X": "y"}}),
                json!({"extra_headers": {"Authorization": "[redacted]", "X": "y"}}),
            ),
            (
                json!({"password": [1, {"a": "b"}]}),
                json!({"password": ["[redacted]", {"a": "[redacted]"}]}),
            ),
            (
                json!(["Bearer abc", "plain"]),
                json!(["Bearer [redacted]", "plain"]),
            ),
            (
                json!({"base_url": "https://me:pw@host:1/v1"}),
                json!({"base_url": "https://[redacted]@host:1/v1"}),
            ),
            (
                json!({"base_url": "https://host/a@b"}),
                json!({"base_url": "https://host/a@b"}),
            ),
            (
                json!("see https://a@b for more"),
                json!("see https://a@b for more"),
            ),
        ] {
            assert_eq!(redacted(&value), expected);
        }
    }

    #[test]
    fn specs_are_redacted_too() {
        for (given, expected) in [
            (
                "model.model_kwargs.api_key=sk",
                "model.model_kwargs.api_key=[redacted]",
            ),
            (
                "model.model_kwargs={\"api_key\": \"sk\"}",
                "model.model_kwargs={\"api_key\":\"[redacted]\"}",
            ),
            (
                "model.model_kwargs={\"a\": 1}",
                "model.model_kwargs={\"a\": 1}",
            ),
            (
                "model.base_url=http://u:p@h/v1",
                "model.base_url=http://[redacted]@h/v1",
            ),
            ("agent.step_limit=3", "agent.step_limit=3"),
            ("default", "default"),
        ] {
            assert_eq!(spec(given), expected);
        }
    }
}
