//! Tests the class and the message of an error, by status and body.

use mswea_sdk::Adapter as _;
use mswea_sdk::adapter::ModelError;
use mswea_sdk::testing::configure;
use mswea_sdk::types::Usage;
use serde_json::{Value, json};

use crate::Anthropic;

fn failure(config: Value, status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut adapter: Anthropic = configure(config).unwrap();
    adapter.head(status, headers.collect());
    adapter.feed(body.as_bytes().to_vec());
    adapter.finish().unwrap_err()
}

fn error(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    let config = json!({"base_url": "http://h:1", "model": "big"});
    failure(config, status, headers, body)
}

fn body(kind: &str, message: &str) -> String {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        .to_string()
}

#[test]
fn every_failure_has_a_class_and_says_what_to_do() {
    // Status, kind, message, class, words that the message must have.
    let vectors: &[(u16, &str, &str, &str, &[&str])] = &[
        (
            400,
            "invalid_request_error",
            "max_tokens: Field required.",
            "bad-request",
            &["`h:1`", "(400)", "Field required;", "`model.model_kwargs`"],
        ),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 205429 tokens > 200000 maximum",
            "context-window-exceeded",
            &["`big`", "205429", "history processor"],
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199386 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            "context-window-exceeded",
            &["`model.model_kwargs.max_tokens`"],
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
            "permission",
            &["no credit"],
        ),
        (
            400,
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
            "permission",
            &["no credit", "2026-12-01"],
        ),
        (
            400,
            "invalid_request_error",
            "Output blocked by content filtering policy",
            "content-filtered",
            &["content filter"],
        ),
        (
            401,
            "authentication_error",
            "invalid x-api-key",
            "authentication",
            &[
                "`ANTHROPIC_API_KEY`",
                "`x-api-key`",
                "another secret with `model.api_key_env`",
            ],
        ),
        (402, "billing_error", "pay", "permission", &["no credit"]),
        (
            403,
            "permission_error",
            "no",
            "permission",
            &["(403)", "`big`"],
        ),
        (
            404,
            "not_found_error",
            "model: big",
            "not-found",
            &["`big`", "`http://h:1/v1/messages`", "`model.model_name`"],
        ),
        (
            405,
            "invalid_request_error",
            "Method Not Allowed",
            "bad-request",
            &["`--base-url`"],
        ),
        (409, "conflict_error", "busy", "overloaded", &[]),
        (
            413,
            "request_too_large",
            "Request exceeds the maximum size",
            "context-window-exceeded",
            &["larger than `h:1` accepts", "images"],
        ),
        (
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit",
            "rate-limited",
            &["limits the rate"],
        ),
        (
            429,
            "rate_limit_error",
            "context window",
            "rate-limited",
            &[],
        ),
        (
            500,
            "api_error",
            "Internal server error",
            "overloaded",
            &["(500)", "try again later"],
        ),
        (503, "rate_limit_error", "x", "overloaded", &[]),
        (504, "timeout_error", "x", "timeout", &["`model.stream`"]),
        (
            529,
            "overloaded_error",
            "Overloaded",
            "overloaded",
            &["(529)", "Overloaded"],
        ),
        // The same error in the middle of a stream.
        (
            200,
            "overloaded_error",
            "Overloaded",
            "overloaded",
            &["200 with an error inside, `overloaded_error`"],
        ),
        (200, "rate_limit_error", "x", "rate-limited", &[]),
        (200, "api_error", "x", "overloaded", &[]),
        (
            200,
            "invalid_request_error",
            "prompt is too long",
            "context-window-exceeded",
            &[],
        ),
        (200, "invalid_request_error", "x", "bad-request", &[]),
        (200, "authentication_error", "x", "authentication", &[]),
        (200, "", "x", "overloaded", &["200 with an error inside"]),
    ];
    for (status, kind, message, class, words) in vectors {
        let stream = format!(": hi\n\nevent: error\ndata: {}\n\n", body(kind, message));
        for text in [body(kind, message), stream] {
            let error = error(*status, &[], &text);
            assert_eq!(error.class, *class, "{status} {message}");
            for word in words.iter().chain([message.trim_end_matches('.')].iter()) {
                assert!(error.message.contains(word), "{word:?}: {}", error.message);
            }
            let extra: Value = serde_json::from_str(error.extra.as_ref().unwrap()).unwrap();
            assert_eq!(extra["request_id"], "req_1");
            assert_eq!(extra["status"], *status);
        }
    }
}

#[test]
fn bodies_of_every_sort_are_understood() {
    let vectors: &[(u16, &str, &str, &[&str])] = &[
        (401, "", "authentication", &["no further details"]),
        (
            404,
            "404 page not found",
            "not-found",
            &["404 page not found"],
        ),
        (
            404,
            r#"{"detail":"Not Found"}"#,
            "not-found",
            &["Not Found"],
        ),
        (
            400,
            r#"{"error":"plain words"}"#,
            "bad-request",
            &["plain words"],
        ),
        (400, r#"{"x":1}"#, "bad-request", &["{\"x\":1}"]),
        (
            413,
            "<html><title>Too Large</title>",
            "context-window-exceeded",
            &["`Too Large`"],
        ),
        (
            502,
            "<html><title>Bad Gateway</title>",
            "overloaded",
            &["`Bad Gateway`"],
        ),
        (520, "error code: 520", "overloaded", &["520"]),
        (524, "", "timeout", &[]),
        (200, "", "malformed-response", &["empty body"]),
        (
            200,
            "<html><title>Login</title>",
            "malformed-response",
            &["web page", "`Login`", "`--base-url`"],
        ),
        (200, "hello", "malformed-response", &["no JSON", "`hello`"]),
        (
            200,
            r#"{"content":[{"type":"te"#,
            "malformed-response",
            &["ends after 23 bytes"],
        ),
        (
            200,
            r#"{"choices":[]}"#,
            "malformed-response",
            &["`content`", "choices"],
        ),
        (
            200,
            "data: {}\n\n",
            "malformed-response",
            &["before any text or call"],
        ),
        (
            200,
            "data: {\"type\":\"message_stop\"}\n\n",
            "malformed-response",
            &["`message_start`"],
        ),
    ];
    for (status, text, class, words) in vectors {
        let error = error(*status, &[("request-id", "req_2")], text);
        assert_eq!(error.class, *class, "{status} {text}: {}", error.message);
        for word in *words {
            assert!(error.message.contains(word), "{word:?}: {}", error.message);
        }
        assert!(error.extra.unwrap().contains("req_2"));
    }
}

#[test]
fn redirects_name_where_they_lead() {
    let error = error(308, &[("location", "https://other/v1/messages")], "");
    assert_eq!(error.class, "bad-request");
    assert!(error.message.contains("`https://other/v1/messages`"));
}

#[test]
fn waits_come_from_headers_or_words() {
    let limited = body("rate_limit_error", "slow down");
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let reset = (
        "anthropic-ratelimit-input-tokens-reset",
        "1994-11-06T08:50:07Z",
    );
    let other = ("anthropic-ratelimit-requests-reset", "1994-11-06T09:49:37Z");
    let none_left = ("anthropic-ratelimit-input-tokens-remaining", "0");
    for (status, headers, text, wait) in [
        (
            429,
            &[("retry-after", "7"), date, reset][..],
            &limited,
            Some(7000),
        ),
        (
            429,
            &[date, reset, other, none_left],
            &limited,
            Some(30_000),
        ),
        (429, &[date, reset, other], &limited, Some(3_600_000)),
        (429, &[], &limited, None),
        (
            429,
            &[],
            &body("rate_limit_error", "try again in 2s"),
            Some(2000),
        ),
        (
            529,
            &[("retry-after", "3")],
            &body("overloaded_error", "x"),
            Some(3000),
        ),
        // The windows stand in every response.
        (529, &[date, reset], &body("overloaded_error", "x"), None),
        (
            400,
            &[("retry-after", "3")],
            &body("invalid_request_error", "x"),
            None,
        ),
    ] {
        assert_eq!(
            error(status, headers, text).retry_after_ms,
            wait,
            "{headers:?}"
        );
    }
}

#[test]
fn what_was_billed_is_reported() {
    let stream = format!(
        "event: message_start\ndata: {}\n\nevent: error\ndata: {}\n\n",
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}}}),
        body("overloaded_error", "Overloaded")
    );
    let usage = Usage {
        input_tokens: 7,
        cache_read_tokens: 2,
        output_tokens: 1,
        ..Usage::default()
    };
    let error = error(200, &[], &stream);
    assert_eq!(error.class, "overloaded");
    assert_eq!(error.usage, Some(usage));
}

#[test]
fn a_server_without_a_key_is_not_told_about_one() {
    for (config, word) in [
        (json!({"model": "m", "api_key": null}), "none was sent"),
        (
            json!({"model": "m", "api_key": "T", "auth_header": "authorization"}),
            "in `T`, sent as `authorization`",
        ),
    ] {
        let error = failure(config, 401, &[], "no");
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[test]
fn long_bodies_are_cut() {
    let long = body("api_error", &"word ".repeat(5000));
    assert!(error(500, &[], &long).message.len() < 2000);
    assert!(error(200, &[], &"é".repeat(9000)).message.len() < 1000);
}
