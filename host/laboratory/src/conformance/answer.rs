//! The result of a call, in a form that can be compared and shown.

use std::time::Instant;

use serde_json::{Value, json};

use super::exam::Crash;
use super::report::{cut, difference};
use mswea_core::{HeaderValue, HttpRequest, Manner, Outcome, PluginFault, Reply, Verdict};

/// The result of a call.
#[derive(Clone, Debug)]
pub(super) enum CallResult {
    /// A value, as JSON.
    Value(Value),
    /// An error that the plugin reported.
    Reported(String),
    /// It crashed, or broke the contract.
    Failed(Crash),
}

impl CallResult {
    /// The result of a call that began at `since`.
    pub fn of<T>(
        result: Result<T, PluginFault>,
        since: Instant,
        value: impl FnOnce(T) -> Value,
    ) -> Self {
        match result {
            Ok(answer) => Self::Value(value(answer)),
            Err(fault) if fault.manner == Manner::Reported => Self::Reported(fault.message),
            Err(fault) => Self::Failed(Crash {
                manner: fault.manner,
                message: fault.message,
                took: since.elapsed(),
            }),
        }
    }

    /// The difference from the expected answer, as (expected, came). Crashes are left to the law
    /// `total`.
    pub fn differs(&self, expected: &Self) -> Option<(String, String)> {
        match (expected, self) {
            (Self::Failed(_), _) | (_, Self::Failed(_)) => None,
            (Self::Value(a), Self::Value(b)) => unequal(a, b),
            (Self::Reported(a), Self::Reported(b)) if a == b => None,
            (expected, came) => Some((expected.show(), came.show())),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Value(value) => cut(&value.to_string(), 300),
            Self::Reported(message) => format!("the error: {}", cut(message, 300)),
            Self::Failed(crash) => format!("a failure: {}", cut(&crash.message, 300)),
        }
    }
}

/// The difference of two values, in words: what the first has, and what the second has instead.
pub(super) fn unequal(expected: &Value, came: &Value) -> Option<(String, String)> {
    if expected == came {
        return None;
    }
    let (pointer, expected, came) = difference(expected, came);
    let place = match pointer.as_str() {
        "" => String::new(),
        pointer => format!("`{pointer}` = "),
    };
    Some((format!("{place}{expected}"), format!("{place}{came}")))
}

pub(super) fn outcome(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Actions(actions) => json!({ "actions": actions }),
        Outcome::Malformed(problem) => json!({ "malformed": problem }),
    }
}

pub(super) fn verdict(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Allow => json!("allow"),
        Verdict::Deny(message) => json!({ "deny": message }),
        Verdict::Ask(message) => json!({ "ask": message }),
        Verdict::Rewrite(action) => json!({ "rewrite": action }),
    }
}

pub(super) fn request(request: &HttpRequest) -> Value {
    let headers = request.headers.iter().map(|(name, value)| match value {
        HeaderValue::Plain(value) => json!([name, value]),
        HeaderValue::Secret {
            name: secret,
            prefix,
        } => {
            json!([name, { "secret": secret, "prefix": prefix }])
        }
    });
    let headers: Vec<Value> = headers.collect();
    let bytes = request.body.joined();
    let text = String::from_utf8_lossy(&bytes);
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(&*text));
    json!({
        "method": request.method,
        "url": request.url,
        "headers": headers,
        // The text is compared as well: a provider's cache depends on the order of keys.
        "body": body,
        "bytes": text,
    })
}

pub(super) fn reply(reply: &Reply) -> Value {
    serde_json::to_value(reply).unwrap_or_default()
}
