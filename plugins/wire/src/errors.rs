//! Errors: the meaning of a failed response, and the remedy.

use mswea_sdk::adapter::ModelError;
use mswea_sdk::http::{Headers, describe_text, is_html, shorten, wait_in_text, words_of};
use serde_json::{Map, Value, json};

use crate::{Format, Server};

/// What error messages refer to.
pub struct Context<'a, F> {
    pub format: &'a F,
    pub status: u16,
    pub headers: &'a Headers,
}

/// The key and the flag with which users set the server's address. Messages name the keys of the
/// host's config, which users have, and not those of this plugin, which the host fills in.
pub const ADDRESS: &str = "`model.base_url` (or `--base-url`)";

/// How many bytes of a provider's message are quoted.
const MAX_WORDS: usize = 1000;

/// How many bytes of a body of unknown form are quoted.
const MAX_SNIPPET: usize = 200;

/// Phrases of servers for a conversation that is too long.
const TOO_LONG: [&str; 48] = [
    "context window",
    "context length",
    "context limit",
    "context size",
    "context_length",
    "context_window",
    "context overflow",
    "exceed context",
    "n_ctx",
    "max_seq_len",
    "max_model_len",
    "maximum model length",
    "maximum prompt length",
    "maximum input length",
    "max input length",
    "maximum sequence length",
    "maximum allowed length",
    "exceeds max length",
    "prompt exceeds",
    "prompt length",
    "prompt is too long",
    "prompt too long",
    "prompt tokens too long",
    "prompt token count",
    "input is too long",
    "input is too large",
    "input too long",
    "input token count",
    "input length should be",
    "input length exceeds",
    "input tokens exceed",
    "too many input tokens",
    "too many tokens",
    "too many total text bytes",
    "string too long. expected a string",
    "while limit is",
    "request body too large",
    "reduce the length of the messages",
    "maximum number of tokens allowed",
    "exceeds the maximum number of tokens",
    "exceeds the max number of tokens",
    "exceeded model token limit",
    "total tokens limit",
    "max message tokens",
    "tokens + `max_new_tokens` must be",
    "`inputs` must have less than",
    "上下文长度",
    "超长",
];

/// Phrases for an account without credit, whatever the status: waiting does not help.
const NO_CREDIT: [&str; 37] = [
    "credit balance",
    "insufficient balance",
    "insufficient account balance",
    "insufficient credit",
    "insufficient fund",
    "insufficient quota",
    "insufficient user quota",
    "insufficient_quota",
    "balance is insufficient",
    "balance insufficient",
    "balance is not enough",
    "balance not enough",
    "balance is too low",
    "balance too low",
    "not enough balance",
    "not enough credit",
    "no balance",
    "negative balance",
    "out of credit",
    "out of funds",
    "run out of credit",
    "no credits",
    "credits exhausted",
    "used all available credits",
    "credit limit exceeded",
    "monthly included credits",
    "spending limit",
    "spend limit",
    "billing hard limit",
    "quota is not enough",
    "budget has been exceeded",
    "in arrears",
    "overdue payment",
    "please recharge",
    "余额不足",
    "额度不足",
    "欠费",
];

/// Phrases for the same that are sent with a refusal; a rate limit says them of its own period.
const NO_CREDIT_IF_REFUSED: [&str; 1] = ["usage limits"];

/// Codes and types for an account without credit.
const NO_CREDIT_WORDS: [&str; 14] = [
    "insufficient_quota",
    "insufficient_user_quota",
    "insufficient_balance",
    "insufficient_balance_error",
    "insufficient_credits",
    "insufficient_funds",
    "not_enough_balance",
    "exceeded_current_quota_error",
    "budget_exceeded",
    "billing_hard_limit_reached",
    "billing_not_active",
    "arrearage",
    "accountoverdueerror",
    "quota_not_enough",
];

/// Phrases of a server whose chat template has refused the messages: it would refuse them again,
/// whatever the status.
const TEMPLATE: [&str; 6] = [
    "jinja",
    "chat template",
    "chat_template",
    "templateerror",
    "raise_exception",
    "roles must alternate",
];

/// Phrases for an answer that a filter stopped.
const FILTERED: [&str; 2] = ["content filtering policy", "content policy"];

/// Phrases of servers that reject a key, sent with a status for something else.
const BAD_KEY: [&str; 3] = ["incorrect api key", "invalid api key", "api key not valid"];

/// The server's own description of an error.
#[derive(Default)]
struct Account {
    message: String,
    /// `code`, `type` and similar fields, in lower case, the most specific first.
    words: Vec<String>,
    /// A status inside the body of a successful response.
    status: Option<u16>,
    /// Whether a moderation has refused the request.
    is_moderated: bool,
    /// The wait that the body asks for, in milliseconds.
    retry_after_ms: Option<u64>,
    request_id: Option<String>,
}

impl Account {
    fn new(body: &Value) -> Self {
        // Google's compatible endpoint wraps the object in a list.
        let body = body.get(0).unwrap_or(body);
        let error = match body.get("error") {
            Some(error) if !error.is_null() => error,
            _ => body,
        };
        let mut account = Self::default();
        if let Some(text) = error.as_str() {
            account.message = text.to_owned();
        }
        let inner = error.get("innererror");
        for (holder, key) in [
            (Some(error), "code"),
            (Some(error), "type"),
            (Some(error), "status"),
            (Some(body), "code"),
            (Some(body), "type"),
            (inner, "code"),
            (Some(error), "http_code"),
            (Some(error), "status_code"),
        ] {
            match holder.and_then(|holder| holder.get(key)) {
                Some(Value::String(word)) if !matches!(&**word, "" | "error") => {
                    account.words.push(word.to_ascii_lowercase());
                }
                Some(Value::Number(number)) if account.status.is_none() => {
                    account.status = number
                        .as_u64()
                        .and_then(|number| u16::try_from(number).ok())
                        .filter(|status| (400..600).contains(status));
                }
                _ => {}
            }
        }
        if account.status.is_none() {
            let mut numbers = account.words.iter().filter_map(|word| word.parse().ok());
            account.status = numbers.find(|status| (400..600).contains(status));
        }
        // MiniMax's own form.
        let own = error.get("base_resp").unwrap_or(&Value::Null);
        for holder in [error, body, own] {
            let keys = [
                "message",
                "detail",
                "error_description",
                "errors",
                "error",
                "status_msg",
            ];
            for key in keys {
                if account.message.is_empty() {
                    account.message = holder.get(key).map(words_of).unwrap_or_default();
                }
            }
        }
        account.read_details(error);
        let id = body.get("request_id").and_then(Value::as_str);
        account.request_id = id.map(str::to_owned);
        let metadata = error.get("metadata");
        account.is_moderated = metadata
            .and_then(|metadata| metadata.get("reasons"))
            .is_some_and(Value::is_array);
        // A router's own message ("provider returned error") is less specific than the one that it
        // passes on.
        let raw = metadata
            .and_then(|metadata| metadata.get("raw"))
            .map(words_of);
        if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
            account.message = format!("{}: {}", account.message, shorten(&raw, MAX_SNIPPET));
        }
        account
    }

    /// Google's details: a reason, the wait, and the quota.
    fn read_details(&mut self, error: &Value) {
        for detail in error
            .get("details")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(reason) = detail.get("reason").and_then(Value::as_str) {
                self.words.push(reason.to_ascii_lowercase());
            }
            if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
                self.retry_after_ms = wait_in_text(&format!("retry in {delay}"));
            }
            let violations = detail.get("violations").and_then(Value::as_array);
            let is_daily = violations.into_iter().flatten().any(|violation| {
                let quota = violation.get("quotaId").and_then(Value::as_str);
                quota.is_some_and(|quota| quota.contains("PerDay"))
            });
            // Waiting for the next day is no remedy within a run.
            if is_daily {
                self.words.push("insufficient_quota".to_owned());
            }
        }
    }

    fn has_word(&self, wanted: &[&str]) -> bool {
        self.words
            .iter()
            .any(|word| wanted.contains(&word.as_str()))
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    /// Whether the account has no credit.
    fn lacks_credit(&self, status: u16) -> bool {
        let is_refused = matches!(status, 0..=299 | 400 | 422);
        self.has_word(&NO_CREDIT_WORDS)
            || self.says(&NO_CREDIT)
            || is_refused && self.says(&NO_CREDIT_IF_REFUSED)
    }

    fn class(&self, status: u16) -> &'static str {
        let limits_rate = status == 429;
        // A parameter that is too long, and not the conversation.
        let names_user = self.says(&["invalid 'user'"]);
        if self.has_word(&[
            "context_length_exceeded",
            "context_window_exceeded",
            "exceed_context_size_error",
            "model_max_prompt_tokens_exceeded",
            "tokens_limit_reached",
            "prompt_too_long",
        ]) || (!limits_rate && !names_user && self.says(&TOO_LONG))
        {
            return "context-window-exceeded";
        }
        let is_flagged =
            self.has_word(&["invalid_prompt"]) && self.says(&["usage polic", "flagged"]);
        if self.is_moderated
            || is_flagged
            || self.has_word(&[
                "content_filter",
                "content_policy_violation",
                "responsibleaipolicyviolation",
            ])
        {
            return "content-filtered";
        }
        if self.lacks_credit(status) {
            return "permission";
        }
        if self.says(&TEMPLATE) {
            return "bad-request";
        }
        let is_refused = matches!(status, 0..=299 | 400 | 422);
        if is_refused && self.says(&FILTERED) {
            return "content-filtered";
        }
        match status {
            400 | 422
                if self.says(&BAD_KEY)
                    || self.has_word(&["invalid_api_key", "api_key_invalid"]) =>
            {
                "authentication"
            }
            400 | 422 => match self.class_by_words() {
                // A refused request would be refused again.
                None | Some("overloaded") => "bad-request",
                Some(class) => class,
            },
            401 => "authentication",
            402 | 403 => "permission",
            404 => "not-found",
            408 | 504 | 522 | 524 => "timeout",
            // 409: the request conflicts with another one.
            409 => "overloaded",
            413 => "context-window-exceeded",
            429 => "rate-limited",
            501 | 505 => "bad-request",
            300..=499 => "bad-request",
            // Some servers give every failure this status, also those that a retry would repeat.
            500 => {
                let lasting = ["authentication", "permission", "not-found", "bad-request"];
                let class = self.class_by_words();
                let class = class.filter(|class| lasting.contains(class));
                class.unwrap_or("overloaded")
            }
            501..=599 => "overloaded",
            // No model's API uses these: the answer comes from another kind of server.
            100..=199 | 600.. => "malformed-response",
            // There is no status: an error inside a successful response. A server that breaks off
            // an answer has a problem of its own, and a retry helps.
            _ => self.class_by_words().unwrap_or("overloaded"),
        }
    }

    fn class_by_words(&self) -> Option<&'static str> {
        self.words.iter().find_map(|word| {
            Some(match word.as_str() {
                "invalid_api_key" | "authentication_error" | "unauthorized" | "unauthenticated" => {
                    "authentication"
                }
                "permission_error" | "permission_denied" | "billing_error" | "forbidden" => {
                    "permission"
                }
                "request_too_large" => "context-window-exceeded",
                "overloaded_error" | "api_error" | "conflict_error" => "overloaded",
                "model_not_found" | "not_found_error" | "not_found" | "notfounderror" => {
                    "not-found"
                }
                "rate_limit_exceeded"
                | "rate_limit_error"
                | "rate_limit"
                | "too_many_requests"
                | "resource_exhausted" => "rate-limited",
                "timeout" | "timeout_error" | "deadline_exceeded" => "timeout",
                "invalid_request_error"
                | "bad_request"
                | "badrequesterror"
                | "invalid_prompt"
                | "invalid_argument" => "bad-request",
                _ => return None,
            })
        })
    }
}

impl<F: Format> Context<'_, F> {
    fn server(&self) -> &Server {
        self.format.server()
    }

    /// The error in a JSON body; `usage` has the tokens that were counted before the error.
    pub fn refused_in_json(&self, body: &Value, usage: &Value) -> ModelError {
        let account = Account::new(body);
        let status = match account.status {
            Some(status) if self.status < 300 => status,
            _ => self.status,
        };
        let said = if account.message.is_empty() {
            shorten(&body.to_string(), MAX_SNIPPET)
        } else {
            shorten(&account.message, MAX_WORDS)
        };
        let class = account.class(status);
        let mut error = self.error(class, status, &said, &account);
        error.usage = F::usage(usage).or_else(|| F::usage(body.get(F::USAGE)?));
        if error.retry_after_ms.is_none() && is_waiting(class) {
            let said = || wait_in_text(&account.message);
            error.retry_after_ms = account.retry_after_ms.or_else(said);
        }
        error
    }

    /// The error of a body that is no JSON, with the status of a failure.
    pub fn refused_in_text(&self, body: &str) -> ModelError {
        let said = describe_text(body);
        let account = Account {
            message: body.chars().take(4 * MAX_WORDS).collect(),
            ..Account::default()
        };
        self.error(account.class(self.status), self.status, &said, &account)
    }

    fn error(&self, class: &str, status: u16, said: &str, account: &Account) -> ModelError {
        let mut error = ModelError::new(class, self.message(class, status, said, account));
        if is_waiting(class) {
            error.retry_after_ms = self.headers.retry_after_ms(class == "rate-limited");
        }
        error.extra = Some(self.extra(account, status).to_string());
        error
    }

    /// The error of a successful response without an answer.
    pub fn malformed(&self, what: &str) -> ModelError {
        let host = self.server().host();
        let mut error = ModelError::new("malformed-response", format!("`{host}` {what}"));
        error.extra = Some(self.extra(&Account::default(), self.status).to_string());
        error
    }

    /// As [`Context::malformed`], for a text in place of JSON.
    pub fn no_json(&self, body: &str) -> ModelError {
        let Server { url, .. } = self.server();
        let what = describe_text(body);
        if is_html(body) {
            return self.malformed(&format!(
                "answered with a web page ({what}) instead of JSON; most likely {ADDRESS} is \
                 wrong: the request went to `{url}`, and most servers have their API under `/v1`"
            ));
        }
        self.malformed(&format!(
            "answered with something that is no JSON: {what}; check that {ADDRESS} leads to an \
             API for {} (the request went to `{url}`)",
            F::API
        ))
    }

    /// As [`Context::malformed`], for JSON of another kind.
    pub fn no_answer(&self, body: &str) -> ModelError {
        let said = shorten(body, MAX_SNIPPET);
        self.malformed(&format!(
            "answered with JSON that is none of {api} (it has no `{}`): `{said}`; check that \
             {ADDRESS} leads to an API for {api} (the request went to `{}`)",
            F::HOLDER,
            self.server().url,
            api = F::API
        ))
    }

    /// `status` is that of the error, which may stand inside a successful response.
    fn extra(&self, account: &Account, status: u16) -> Value {
        let is_internal =
            || account.has_word(&["server_error", "internal_server_error", "internal_error"]);
        let status = match status {
            200..=299 if is_internal() => 500,
            status => status,
        };
        let mut extra = Map::new();
        extra.insert("status".to_owned(), json!(status));
        if let Some(code) = account.words.first() {
            extra.insert("code".to_owned(), json!(code));
        }
        let header = |name| self.headers.get(name);
        let id = header("x-request-id").or_else(|| header("request-id"));
        if let Some(id) = id.or(account.request_id.as_deref()) {
            extra.insert("request_id".to_owned(), json!(id));
        }
        Value::Object(extra)
    }

    fn message(&self, class: &str, code: u16, said: &str, account: &Account) -> String {
        let Server {
            model,
            url,
            api_key,
            auth_header,
            secret_headers,
            ..
        } = self.server();
        let host = self.server().host();
        let said = said.trim_end_matches('.');
        let status = match account.words.first() {
            _ if !(200..300).contains(&code) => code.to_string(),
            Some(word) => format!("{code} with an error inside, `{word}`"),
            None => format!("{code} with an error inside"),
        };
        match (class, code) {
            (_, 300..=399) => {
                let target = self.headers.get("location").unwrap_or("an unnamed place");
                format!(
                    "`{url}` redirects ({status}) to `{target}`, which can't be followed; check \
                     {ADDRESS}"
                )
            }
            ("authentication", _) => match api_key {
                Some(name) => format!(
                    "`{host}` rejected the key in `{name}`, sent as `{auth_header}` ({status}): \
                     {said}; check that it is current and meant for this server, or name another \
                     secret with `model.api_key_env`"
                ),
                None => format!(
                    "`{host}` requires a key and none was sent ({status}): {said}; name the secret \
                     that holds it with `model.api_key_env`"
                ),
            },
            ("permission", _)
                if code == 402
                    || account.lacks_credit(code)
                    || account.words.iter().any(|word| word.starts_with("billing")) =>
            {
                format!(
                    "the account at `{host}` has no credit left ({status}): {said}; top it up or \
                     use another key"
                )
            }
            ("permission", _) => format!(
                "`{host}` does not allow this request with this key ({status}): {said}; ask for access to \
                 `{model}` or use another key"
            ),
            ("not-found", _) => format!(
                "`{host}` has no model `{model}`, or no API at `{url}` ({status}): {said}; \
                 check `model.model_name` and {ADDRESS}"
            ),
            ("context-window-exceeded", 413) => format!(
                "the request is larger than `{host}` accepts ({status}): {said}; shorten the \
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
                "`{host}` did not answer in time ({status}): {said}; try again, see that \
                 `model.stream` is on, or take a faster model"
            ),
            // Gateways give a missing key this status.
            ("overloaded", 500) if api_key.is_none() && secret_headers.is_empty() => format!(
                "`{host}` failed ({status}): {said}; no key was sent: if the server requires one, name \
                 the secret that holds it with `model.api_key_env`, else see its log, or try again later"
            ),
            ("overloaded", 500) => {
                format!("`{host}` failed ({status}): {said}; see its log, or try again later")
            }
            ("overloaded", _) => {
                format!("`{host}` can't answer at the moment ({status}): {said}; try again later")
            }
            ("malformed-response", _) => format!(
                "`{host}` answered with the status {status}, which no model's API has: {said}; \
                 check {ADDRESS} (the request went to `{url}`), and whether a proxy stands before \
                 the server"
            ),
            (_, 405 | 501) => {
                format!("`{url}` does not accept the request ({status}): {said}; check {ADDRESS}")
            }
            _ => format!(
                "`{host}` did not accept the request ({status}): {said}; if it names a parameter, \
                 change it in `model.model_kwargs`"
            ),
        }
    }
}

/// Whether waiting makes sense after an error of this class.
fn is_waiting(class: &str) -> bool {
    matches!(class, "rate-limited" | "overloaded" | "timeout")
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
