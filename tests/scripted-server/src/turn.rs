//! One turn of a scenario: the answer to one request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::Fault;

/// The answer to one request. For a field that is not set, the server does what is usual. The fields have
/// the same names in a scenario file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// Answers only requests that hold this many assistant messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<usize>,

    /// The reply's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The reply's reasoning (`reasoning_content`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Commands, each as a call of the tool `bash` with the argument `command`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Tool calls, after those of `commands`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why the reply ends; `tool_calls` or `stop` if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The tokens and the cost that the reply reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Leaves the usage out, also if the request asks for it.
    #[serde(skip_serializing_if = "is_false")]
    pub no_usage: bool,

    /// The HTTP status; 200 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Headers to add, or to send in place of the usual ones.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
    /// The whole body: a string is sent as it is, anything else as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The `error` object; a string becomes its `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Sends the client to this URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,

    /// Milliseconds before the first byte.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// Sends the body in pieces of this many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<usize>,
    /// Milliseconds between two pieces (events of a stream if `chunk_bytes` is not set).
    #[serde(skip_serializing_if = "is_zero")]
    pub chunk_delay_ms: u64,

    /// After this answer, its connection is closed and nothing listens for this many milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub away_ms: u64,

    /// The fault of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The place of the fault: bytes of the body, events of the stream or size of the headers; see
    /// [`Fault`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
}

/// A tool call in a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Its id; made from the position in the conversation if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// A string is sent as it is (so it may be broken), anything else as JSON.
    pub arguments: Value,
}

/// Tokens and cost of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens that came from a cache.
    pub cached_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Dollars, as routers report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            prompt_tokens: 100,
            completion_tokens: 10,
            cached_tokens: 0,
            reasoning_tokens: 0,
            cost: None,
        }
    }
}

impl Turn {
    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A reply of text with one command in a fence of the text preset.
    pub fn fenced(command: &str) -> Self {
        Self::text(format!(
            "THOUGHT: the next command.\n\n```mswea_bash_command\n{command}\n```"
        ))
    }

    /// A reply that calls the bash tool once for each command.
    pub fn commands<S: AsRef<str>>(commands: &[S]) -> Self {
        Self {
            commands: owned(commands),
            ..Self::default()
        }
    }

    /// A reply that calls a tool; `arguments` as in [`ToolCall::arguments`].
    pub fn tool_call(name: &str, arguments: impl Into<Value>) -> Self {
        Self {
            tool_calls: vec![ToolCall {
                id: None,
                name: name.to_owned(),
                arguments: arguments.into(),
            }],
            ..Self::default()
        }
    }

    /// A status with the usual error object for it.
    pub fn status(status: u16) -> Self {
        Self {
            status: Some(status),
            ..Self::default()
        }
    }

    /// A status with an error object of this code and message.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self {
            error: Some(serde_json::json!({"message": message, "code": code})),
            ..Self::status(status)
        }
    }

    /// A redirect (302, or another by [`Turn::with_status`]) to `url`.
    pub fn redirect(url: impl Into<String>) -> Self {
        Self {
            redirect: Some(url.into()),
            ..Self::default()
        }
    }

    /// An answer with a fault.
    pub fn fault(fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }

    /// Answers only requests that hold this many assistant messages.
    #[must_use]
    pub fn matching(mut self, assistant_messages: usize) -> Self {
        self.matching = Some(assistant_messages);
        self
    }

    /// Sets the reply's text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the reply's reasoning.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// Sets the usage that the reply reports.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the cost in dollars that the reply reports.
    #[must_use]
    pub fn with_cost(mut self, dollars: f64) -> Self {
        self.usage.get_or_insert_default().cost = Some(dollars);
        self
    }

    /// Sets why the reply ends.
    #[must_use]
    pub fn with_finish_reason(mut self, reason: &str) -> Self {
        self.finish_reason = Some(reason.to_owned());
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds a header, in place of the usual one of that name.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers
            .insert(name.to_owned(), Value::String(value.into()));
        self
    }

    /// Sets the whole body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Value>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Waits before the first byte.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay_ms = millis(delay);
        self
    }

    /// After this answer, connections are refused for a while.
    #[must_use]
    pub fn then_away(mut self, time: Duration) -> Self {
        self.away_ms = millis(time);
        self
    }

    /// Sends the body in pieces of `bytes`, with a pause between them.
    #[must_use]
    pub fn in_chunks(mut self, bytes: usize, pause: Duration) -> Self {
        self.chunk_bytes = Some(bytes);
        self.chunk_delay_ms = millis(pause);
        self
    }

    /// Sets the fault of the answer.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Sets the place of the fault.
    #[must_use]
    pub fn at(mut self, place: usize) -> Self {
        self.at = Some(place);
        self
    }

    /// A contradiction in the turn, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let contents: Vec<&str> = [
            ("text", self.text.is_some()),
            ("reasoning", self.reasoning.is_some()),
            ("commands", !self.commands.is_empty()),
            ("tool_calls", !self.tool_calls.is_empty()),
            ("body", self.body.is_some()),
            ("error", self.error.is_some()),
            ("redirect", self.redirect.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, set)| set.then_some(name))
        .collect();
        let reply = |name: &&str| !matches!(*name, "body" | "error" | "redirect");
        let replies = contents.iter().filter(|name| reply(name)).count();
        let others = contents.len() - replies;

        let error_fault = matches!(self.fault, Some(Fault::ErrorInBody | Fault::ErrorInStream));
        if error_fault {
            if let Some(name) = contents
                .iter()
                .find(|name| matches!(**name, "body" | "redirect"))
            {
                return Some(format!("`{name}` has no place beside an error fault"));
            }
        } else if others > 1 || (others == 1 && replies > 0) {
            return Some(format!(
                "`{}` exclude each other: keep one of them",
                contents.join("`, `")
            ));
        }
        if let Some(status) = self.status {
            if !(100..=999).contains(&status) {
                return Some(format!("`status` {status} is not an HTTP status"));
            }
            if replies > 0 && !(200..300).contains(&status) {
                return Some(format!(
                    "a reply can't have `status` {status}: say the answer in `body` or `error`"
                ));
            }
        }
        if let Some(fault) = self.fault {
            if !fault.keeps_content() && !error_fault && !contents.is_empty() {
                return Some(format!(
                    "fault `{}` sends none of `{}`: take one of them away",
                    fault.name(),
                    contents.join("`, `")
                ));
            }
        } else if contents.is_empty() && self.status.is_none() {
            return Some(
                "nothing to answer: it needs `text`, `commands`, `tool_calls`, `status`, `body`, \
                 `error`, `redirect` or `fault`"
                    .to_owned(),
            );
        }
        if self.at.is_some() && !self.fault.is_some_and(Fault::has_place) {
            return Some(
                "`at` goes with the faults `cut`, `stall`, `no-done`, `error-in-stream` and \
                 `huge-headers` only"
                    .to_owned(),
            );
        }
        if self.chunk_bytes == Some(0) {
            return Some("`chunk_bytes` is at least 1".to_owned());
        }
        if let Some((name, _)) = self
            .headers
            .iter()
            .find(|(_, value)| matches!(value, Value::Array(_) | Value::Object(_)))
        {
            return Some(format!("header `{name}` is a string or a number"));
        }
        None
    }
}

pub(crate) fn owned<S: AsRef<str>>(list: &[S]) -> Vec<String> {
    list.iter().map(|item| item.as_ref().to_owned()).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_named() {
        let vectors = [
            (Turn::default(), "nothing to answer"),
            (
                Turn::text("x").with_body("y"),
                "`text`, `body` exclude each other",
            ),
            (
                Turn::text("x").with_status(500),
                "a reply can't have `status` 500",
            ),
            (Turn::status(42), "not an HTTP status"),
            (
                Turn::fault(Fault::Html).with_text("x"),
                "fault `html` sends none of `text`",
            ),
            (
                Turn::fault(Fault::ErrorInBody).with_body("x"),
                "`body` has no place",
            ),
            (Turn::text("x").at(3), "`at` goes with"),
            (Turn::fault(Fault::Silence).at(3), "`at` goes with"),
            (Turn::text("x").in_chunks(0, Duration::ZERO), "at least 1"),
        ];
        for (turn, want) in vectors {
            let got = turn.problem().unwrap_or_default();
            assert!(got.contains(want), "{turn:?}: {got:?} lacks {want:?}");
        }
    }

    #[test]
    fn turns_without_contradictions_are_accepted() {
        let vectors = [
            Turn::text("x").with_reasoning("y"),
            Turn::commands(&["a", "b"]).with_text("x").with_cost(0.5),
            Turn::status(429).with_header("retry-after", "1"),
            Turn::error(400, "context_length_exceeded", "too long"),
            Turn::redirect("http://127.0.0.1:1/").with_status(307),
            Turn::fault(Fault::Html).with_status(502),
            Turn::fault(Fault::Cut).at(10),
            Turn::text("x").with_fault(Fault::Stall),
            Turn::status(500).with_body("oops").with_fault(Fault::Cut),
            Turn::text("x").with_fault(Fault::ErrorInStream).at(1),
        ];
        for turn in vectors {
            assert_eq!(turn.problem(), None, "{turn:?}");
        }
    }
}
