//! Removes secrets from configs that are written to files: by the names of their keys, and by their
//! form ([`secret_look`]).
//!
//! This is the second line of defence. The first is that a config names secrets and does not hold
//! them; but headers and variables can hold any text, secrets too.

use serde_json::Value;

use super::secret_look;
use super::secret_name::{MARK, is_secret, is_secret_variable};

/// A copy without what looks like a secret. `value` is a whole configuration, or a part of one that
/// still contains the key names by which secrets are recognised.
pub fn redacted(value: &Value) -> Value {
    under(&mut Vec::new(), value)
}

/// Puts a word in the place of each secret that a recorded config leaves out, for what sends nothing.
pub fn without_marks(config: &mut Value) {
    match config {
        Value::Object(map) => map.values_mut().for_each(without_marks),
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        Value::String(text) if text.contains(MARK) => *text = text.replace(MARK, "left-out"),
        _ => {}
    }
}

fn under<'a>(path: &mut Vec<&'a str>, value: &'a Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    path.push(key);
                    let clean = if is_secret_place(path, !value.is_object()) {
                        blotted(value)
                    } else {
                        under(path, value)
                    };
                    path.pop();
                    (key.clone(), clean)
                })
                .collect(),
        ),
        Value::Array(items) => items.iter().map(|item| under(path, item)).collect(),
        Value::String(text) => Value::String(secret_look::redacted(text)),
        other => other.clone(),
    }
}

/// A `-c` argument without secrets.
pub fn spec(spec: &str) -> String {
    let Some((key, value)) = spec.split_once('=') else {
        return spec.to_owned();
    };
    let parsed = serde_json::from_str::<Value>(value);
    let leaf = !matches!(parsed, Ok(Value::Object(_)));
    let mut path: Vec<&str> = key.split('.').map(str::trim).collect();
    let secret =
        (1..=path.len()).any(|end| is_secret_place(&path[..end], leaf && end == path.len()));
    match parsed {
        // Only texts are secrets, as in a file.
        Ok(Value::Null | Value::Bool(_)) => spec.to_owned(),
        _ if secret => format!("{key}={MARK}"),
        Ok(json) => {
            let clean = under(&mut path, &json);
            // The user's own spacing is kept if there is no secret.
            if clean == json {
                spec.to_owned()
            } else {
                format!("{key}={clean}")
            }
        }
        Err(_) => format!("{key}={}", secret_look::redacted(value)),
    }
}

/// A line of a file with stars in place of each value whose key is the name of a secret, one per
/// character, so that columns keep their positions.
pub(super) fn line(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let (word, after) = from.split_at(from.find(|c| !is_word(c)).unwrap_or(from.len()));
        out.push_str(word);
        rest = after;
        let behind = after.trim_start_matches(['"', '\'']).trim_start();
        if !behind.starts_with([':', '=']) || !is_secret(word) {
            continue;
        }
        let value = behind[1..].trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = quote.map_or(value, |quote| value.trim_start_matches(quote));
        out.push_str(&after[..after.len() - value.len()]);
        let end = match quote {
            Some(quote) => value.find(quote),
            None => [" #", ",", "}", "]"]
                .iter()
                .filter_map(|end| value.find(end))
                .min(),
        };
        let (value, after) = value.split_at(end.unwrap_or(value.len()));
        out.extend(value.chars().map(|_| '*'));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The part of a key's name that tells that its values are headers.
const HEADERS: &[u8] = b"headers";

/// Whether the value at `path` is a secret, by the names of its keys. `leaf`: it is no map.
fn is_secret_place(path: &[&str], leaf: bool) -> bool {
    let Some((key, above)) = path.split_last() else {
        return false;
    };
    let is_headers = |part: &[u8]| part.eq_ignore_ascii_case(HEADERS);
    let carries = |name: &&str| name.as_bytes().windows(HEADERS.len()).any(is_headers);
    let in_headers = above.iter().any(carries);
    is_secret(key)
        || above.last() == Some(&"model_kwargs") && is_account(key)
        || above.last() == Some(&"env") && is_secret_variable(key)
        || above.last() == Some(&"session_header") && is_secret_name(&key.replace('-', "_"))
        // Credentials are sent in headers, under any name.
        || in_headers && !is_plain_header(key)
        // Headers given as a list or as one text: which of them is secret is not known.
        || leaf && carries(key)
}

/// Whether a parameter of the model is a login of litellm's, by its name.
fn is_account(name: &str) -> bool {
    ["aws_", "azure_", "vertex_", "watsonx_", "wx_"]
        .iter()
        .any(|start| name.starts_with(start))
        || matches!(name, "organization" | "tenant_id" | "client_id")
}

/// Headers that never hold a secret and are useful to see.
fn is_plain_header(name: &str) -> bool {
    [
        "content-type",
        "accept",
        "user-agent",
        "x-title",
        "http-referer",
    ]
    .iter()
    .any(|plain| name.eq_ignore_ascii_case(plain))
}

/// Whether a variable of the process holds a secret, by its name or by the form of its value.
pub fn is_secret_entry(name: &str, value: &str) -> bool {
    is_secret_name(name) || secret_look::is_credential(value)
}

fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "APIKEY",
        "AUTH",
        "COOKIE",
        "CREDENTIAL",
        "DSN",
        "PRIVATE",
        "PWD",
        "WEBHOOK",
    ];
    let upper = name.to_ascii_uppercase();
    let is_folder = matches!(name, "PWD" | "OLDPWD");
    is_secret_variable(name)
        || is_secret(name)
        || !is_folder && PARTS.iter().any(|part| upper.contains(part))
}

/// Hides every text in the value of a secret key, also in lists and maps.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_of_the_process_that_hold_secrets() {
        for (name, value, expected) in [
            ("HOME", "/root", false),
            ("PWD", "/work", false),
            ("SESSION_COOKIE", "a", true),
            ("MY_PWD", "a", true),
            ("SLACK_WEBHOOK", "https://hooks.slack.com/x", true),
            ("OPENAI_APIKEY", "", true),
            ("DB_CREDENTIALS", "", true),
            ("NOTE", "ghp_0123456789abcdefghijklmnopqrstuvwxyz", true),
        ] {
            assert_eq!(is_secret_entry(name, value), expected, "{name}");
        }
    }

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
            "input_cost_per_token",
            "output-cost-per-token",
            "cache_read_input_token_cost",
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
                json!({"model_kwargs": {"organization": "org-1", "aws_region_name": "eu", "vertex_project": "p", "input_cost_per_token": 1e-6}, "organization": "o"}),
                json!({"model_kwargs": {"organization": "[redacted]", "aws_region_name": "[redacted]", "vertex_project": "[redacted]", "input_cost_per_token": 1e-6}, "organization": "o"}),
            ),
            (
                json!({"extra_headers": {"Authorization": "Bearer a", "X": "y"}}),
                json!({"extra_headers": {"Authorization": "[redacted]", "X": "[redacted]"}}),
            ),
            (
                json!({"session_header": {"X-Session-ID": "s-1", "X-Key": "k", "Authorization": "a", "X-S": "Bearer abc"}}),
                json!({"session_header": {"X-Session-ID": "s-1", "X-Key": "[redacted]", "Authorization": "[redacted]", "X-S": "Bearer [redacted]"}}),
            ),
            (
                json!({"extra_headers": {"Content-Type": "a/b", "X-Title": "t"}, "x": {"headers": ["Key: a"]}}),
                json!({"extra_headers": {"Content-Type": "a/b", "X-Title": "t"}, "x": {"headers": ["[redacted]"]}}),
            ),
            (
                json!({"x": {"default_headers": {"more": {"deep": "a", "accept": "b"}}, "send_headers": true}}),
                json!({"x": {"default_headers": {"more": {"deep": "[redacted]", "accept": "[redacted]"}}, "send_headers": true}}),
            ),
            (
                json!({"environment": {"env": {
                    "DEPLOY_KEY": "a", "PGPASS": "b", "MYTOKENS": "c", "SECRET_SAUCE": "d",
                    "KEY_FILE": "e", "TOKENIZERS_PARALLELISM": "false", "PAGER": "cat", "NO_KEY": null,
                }}}),
                json!({"environment": {"env": {
                    "DEPLOY_KEY": "[redacted]", "PGPASS": "[redacted]", "MYTOKENS": "[redacted]",
                    "SECRET_SAUCE": "[redacted]", "KEY_FILE": "e",
                    "TOKENIZERS_PARALLELISM": "false", "PAGER": "cat", "NO_KEY": null,
                }}}),
            ),
            (
                json!({"base_url": "https://h/v1?api_key=k", "note": "use sk-proj-abcdefgh12345678"}),
                json!({"base_url": "https://h/v1?api_key=[redacted]", "note": "use [redacted]"}),
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
                "model.model_kwargs.tenant_id=abc",
                "model.model_kwargs.tenant_id=[redacted]",
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
            (
                "environment.env.DEPLOY_KEY=k",
                "environment.env.DEPLOY_KEY=[redacted]",
            ),
            (
                "environment.env={\"DEPLOY_KEY\": \"k\"}",
                "environment.env={\"DEPLOY_KEY\":\"[redacted]\"}",
            ),
            (
                "model.model_kwargs.extra_headers.X-Mine=k",
                "model.model_kwargs.extra_headers.X-Mine=[redacted]",
            ),
            (
                "model.model_kwargs.extra_headers={\"X-Mine\":\"k\",\"Accept\":\"a\"}",
                "model.model_kwargs.extra_headers={\"X-Mine\":\"[redacted]\",\"Accept\":\"a\"}",
            ),
            (
                "environment.env.DEPLOY_KEY=null",
                "environment.env.DEPLOY_KEY=null",
            ),
            ("default", "default"),
        ] {
            assert_eq!(spec(given), expected);
        }
    }
}
