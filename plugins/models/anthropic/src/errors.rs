//! Errors: what a failed response means, and what the user can do about it.

use mswea_sdk::adapter::ModelError;
use mswea_sdk::http::{Headers, describe_text, is_html, shorten, wait_in_text, words_of};
use serde_json::{Map, Value, json};

use crate::config::{Auth, Config};
use crate::response;

/// What the error messages speak about.
pub struct Context<'a> {
    pub config: &'a Config,
    pub status: u16,
    pub headers: &'a Headers,
}

/// Where users set the server's address. Messages name the keys of the host's config, which fills
/// in this plugin's own: those are the ones that users have.
const ADDRESS: &str = "`model.base_url` (or `--base-url`)";

/// How much of a provider's words is repeated.
const MAX_WORDS: usize = 1000;

/// How much of a body that nobody understands is repeated.
const MAX_SNIPPET: usize = 200;

/// Words by which servers say that the conversation is too long.
const TOO_LONG: [&str; 7] = [
    "prompt is too long",
    "input is too long",
    "exceed context limit",
    "context window",
    "context length",
    "context size",
    "too many total text bytes",
];

/// Words by which an account says that it is empty, with a status that says something else.
const NO_CREDIT: [&str; 3] = ["credit balance is too low", "usage limits", "spend limit"];

/// Words by which a filter says that it stopped the answer.
const FILTERED: [&str; 2] = ["content filtering policy", "content policy"];

/// The server's own account of an error.
#[derive(Default)]
struct Account {
    message: String,
    /// The error's type, in lower case.
    kind: String,
    request_id: Option<String>,
}

impl Account {
    fn new(body: &Value) -> Self {
        let error = match body.get("error") {
            Some(error) if !error.is_null() => error,
            _ => body,
        };
        let kind = error.get("type").or_else(|| error.get("code"));
        let kind = kind.and_then(Value::as_str).unwrap_or_default();
        let mut message = String::new();
        for holder in [error, body] {
            for key in ["message", "detail", "error"] {
                if message.is_empty() {
                    message = holder.get(key).map(words_of).unwrap_or_default();
                }
            }
        }
        if let Some(text) = error.as_str() {
            text.clone_into(&mut message);
        }
        let id = body.get("request_id").and_then(Value::as_str);
        Self {
            message,
            kind: kind.to_ascii_lowercase(),
            request_id: id.map(str::to_owned),
        }
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    fn class(&self, status: u16) -> &'static str {
        let refused = matches!(status, 0..=299 | 400 | 422);
        if status != 429 && self.says(&TOO_LONG) {
            return "context-window-exceeded";
        }
        if refused && self.says(&NO_CREDIT) {
            return "permission";
        }
        if refused && self.says(&FILTERED) {
            return "content-filtered";
        }
        match status {
            // A server that breaks off in the middle of an answer is in trouble itself, and
            // asking again is what helps.
            0..=299 => by_kind(&self.kind).unwrap_or("overloaded"),
            400 | 422 => by_kind(&self.kind).unwrap_or("bad-request"),
            // A proxy's status says more than the kind that it invents for it.
            _ => by_status(status),
        }
    }
}

fn by_kind(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "invalid_request_error" => "bad-request",
        "authentication_error" => "authentication",
        "permission_error" | "billing_error" => "permission",
        "not_found_error" => "not-found",
        "request_too_large" => "context-window-exceeded",
        "rate_limit_error" => "rate-limited",
        "timeout_error" => "timeout",
        "overloaded_error" | "api_error" | "conflict_error" => "overloaded",
        _ => return None,
    })
}

fn by_status(status: u16) -> &'static str {
    match status {
        401 => "authentication",
        402 | 403 => "permission",
        404 => "not-found",
        408 | 504 | 522 | 524 => "timeout",
        // Another request was in the way.
        409 => "overloaded",
        413 => "context-window-exceeded",
        429 => "rate-limited",
        501 | 505 => "bad-request",
        500..=599 => "overloaded",
        _ => "bad-request",
    }
}

impl Context<'_> {
    /// The error that a JSON body tells of; `usage` is what was counted before it.
    pub fn refused_in_json(&self, body: &Value, usage: &Value) -> ModelError {
        let account = Account::new(body);
        let said = if account.message.is_empty() {
            shorten(&body.to_string(), MAX_SNIPPET)
        } else {
            shorten(&account.message, MAX_WORDS)
        };
        let mut error = self.error(&account, &said);
        error.usage = response::usage(usage);
        if error.retry_after_ms.is_none() && is_waiting(&error.class) {
            error.retry_after_ms = wait_in_text(&account.message);
        }
        error
    }

    /// The error of a body that is no JSON, with a status that is none of success.
    pub fn refused_in_text(&self, body: &str) -> ModelError {
        let account = Account {
            message: body.chars().take(4 * MAX_WORDS).collect(),
            ..Account::default()
        };
        self.error(&account, &describe_text(body))
    }

    fn error(&self, account: &Account, said: &str) -> ModelError {
        let class = account.class(self.status);
        let mut error = ModelError::new(class, self.message(class, account, said));
        if is_waiting(class) {
            error.retry_after_ms = self.headers.retry_after_ms(class == "rate-limited");
        }
        error.extra = Some(self.extra(account).to_string());
        error
    }

    /// The error of a response that should have been an answer and is none.
    pub fn malformed(&self, what: &str) -> ModelError {
        let host = self.config.host();
        let mut error = ModelError::new("malformed-response", format!("`{host}` {what}"));
        error.extra = Some(self.extra(&Account::default()).to_string());
        error
    }

    /// As [`Context::malformed`], for a text where JSON should be.
    pub fn no_json(&self, body: &str) -> ModelError {
        let Config { url, .. } = self.config;
        let what = describe_text(body);
        if is_html(body) {
            return self.malformed(&format!(
                "answered with a web page ({what}) instead of JSON; most likely {ADDRESS} is \
                 wrong: the request went to `{url}`"
            ));
        }
        self.malformed(&format!(
            "answered with something that is no JSON: {what}; check that {ADDRESS} leads to a \
             Messages API (the request went to `{url}`)"
        ))
    }

    /// As [`Context::malformed`], for JSON of another kind.
    pub fn no_message(&self, body: &str) -> ModelError {
        let said = shorten(body, MAX_SNIPPET);
        self.malformed(&format!(
            "answered with JSON that is no message (it has no list `content`): `{said}`; check \
             that {ADDRESS} leads to a Messages API (the request went to `{}`)",
            self.config.url
        ))
    }

    fn extra(&self, account: &Account) -> Value {
        let mut extra = Map::new();
        extra.insert("status".to_owned(), json!(self.status));
        if !account.kind.is_empty() {
            extra.insert("code".to_owned(), json!(account.kind));
        }
        let id = self.headers.get("request-id").map(str::to_owned);
        if let Some(id) = id.or_else(|| account.request_id.clone()) {
            extra.insert("request_id".to_owned(), json!(id));
        }
        Value::Object(extra)
    }

    fn message(&self, class: &str, account: &Account, said: &str) -> String {
        let Config {
            model,
            url,
            api_key,
            ..
        } = self.config;
        let host = self.config.host();
        let said = said.trim_end_matches('.');
        let status = match (self.status, account.kind.as_str()) {
            (0..=299, "") => format!("{} with an error inside", self.status),
            (0..=299, kind) => format!("{kind}, in the answer"),
            (status, _) => status.to_string(),
        };
        match (class, self.status) {
            (_, 300..=399) => {
                let target = self.headers.get("location").unwrap_or("an unnamed place");
                format!(
                    "`{url}` redirects ({status}) to `{target}`, which can't be followed; check \
                     {ADDRESS}"
                )
            }
            ("authentication", _) => match api_key {
                Some(name) => {
                    let way = match self.config.auth {
                        Auth::Key => "`x-api-key`",
                        Auth::Bearer => "a bearer token",
                    };
                    format!(
                        "`{host}` rejected the key in `{name}`, sent as {way} ({status}): {said}; \
                         check that it is current and meant for this server, or name another \
                         secret with `model.api_key_env`"
                    )
                }
                None => format!(
                    "`{host}` wants a key and none was sent ({status}): {said}; name the secret \
                     that holds it with `model.api_key_env`"
                ),
            },
            ("permission", _)
                if self.status == 402
                    || account.kind == "billing_error"
                    || account.says(&NO_CREDIT) =>
            {
                format!(
                    "the account at `{host}` has no credit left ({status}): {said}; top it up or \
                     use another key"
                )
            }
            ("permission", _) => format!(
                "`{host}` does not let this key do that ({status}): {said}; ask for access to \
                 `{model}` or use another key"
            ),
            ("not-found", _) => format!(
                "`{host}` knows no model `{model}`, or nothing at `{url}` ({status}): {said}; \
                 check `model.model_name` and {ADDRESS}"
            ),
            ("context-window-exceeded", 413) => format!(
                "the request is larger than `{host}` takes ({status}): {said}; shorten the \
                 conversation with a history processor, or send fewer images"
            ),
            ("context-window-exceeded", _) => format!(
                "the conversation does not fit into the context window of `{model}` ({status}): \
                 {said}; shorten it with a history processor, set a smaller \
                 `model.model_kwargs.max_tokens`, or take a model with a larger window"
            ),
            ("content-filtered", _) => format!(
                "the content filter of `{host}` stopped the answer ({status}): {said}; change \
                 the task or the model"
            ),
            ("rate-limited", _) => format!(
                "`{host}` limits the rate of requests ({status}): {said}; wait, or ask for a \
                 higher limit"
            ),
            ("timeout", _) => format!(
                "`{host}` gave up on the request ({status}): {said}; try again, or ask for a \
                 stream (`model.stream`)"
            ),
            ("overloaded", _) => {
                format!("`{host}` can't answer at the moment ({status}): {said}; try again later")
            }
            (_, 405 | 501) => {
                format!("`{url}` does not take the request ({status}): {said}; check {ADDRESS}")
            }
            _ => format!(
                "`{host}` did not accept the request ({status}): {said}; if it names a parameter, \
                 change it in `model.model_kwargs`"
            ),
        }
    }
}

/// Whether a wait makes sense after an error of this class.
fn is_waiting(class: &str) -> bool {
    matches!(class, "rate-limited" | "overloaded" | "timeout")
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
