//! Tests the class and the message of an error, by status and body.

use super::*;
use crate::chat::Chat;
use crate::chat::OPENAI;
use crate::{Server, Table};

fn chat(config: Value) -> Chat {
    let mut table = Table::new(config).unwrap();
    let server = Server::take(&mut table, &OPENAI).unwrap();
    Chat::take(&mut table, server).unwrap()
}

fn error(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    let headers = headers
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    let mut exchange = crate::exchange::Exchange::<Chat>::new(status, headers.collect());
    exchange.feed(body.as_bytes());
    exchange
        .finish(
            &chat(json!({"base_url": "http://h:1/v1", "model": "big"})),
            0,
        )
        .unwrap_err()
}

#[test]
fn every_failure_has_a_class_and_says_what_to_do() {
    // Status, body, class, words that the message must have.
    let vectors: &[(u16, &str, &str, &[&str])] = &[
        (
            400,
            r#"{"error":{"message":"Bad temperature.","type":"invalid_request_error"}}"#,
            "bad-request",
            &["`h:1`", "(400)", "Bad temperature;", "`model.model_kwargs`"],
        ),
        (
            400,
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
            "context-window-exceeded",
            &["`big`", "history processor"],
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens","code":400}"#,
            "context-window-exceeded",
            &["4096"],
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            "context-window-exceeded",
            &[],
        ),
        (
            500,
            r#"{"error":"prompt is too long"}"#,
            "context-window-exceeded",
            &[],
        ),
        (
            400,
            r#"{"error":{"message":"m","code":"content_filter"}}"#,
            "content-filtered",
            &["content filter"],
        ),
        (
            400,
            r#"{"error":{"message":"m","code":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            "content-filtered",
            &[],
        ),
        (
            400,
            r#"{"error":{"message":"m","code":"content_policy_violation"}}"#,
            "content-filtered",
            &[],
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
            "authentication",
            &["`OPENAI_API_KEY`", "API key not valid"],
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-1***","code":"invalid_api_key"}}"#,
            "authentication",
            &[
                "rejected the key in `OPENAI_API_KEY`",
                "(401)",
                "sk-1***",
                "another secret with `model.api_key_env`",
            ],
        ),
        (401, "", "authentication", &["no further details"]),
        (
            402,
            r#"{"error":{"message":"more credits","code":402}}"#,
            "permission",
            &["no credit"],
        ),
        (
            403,
            r#"{"error":{"message":"no"}}"#,
            "permission",
            &["(403)", "`big`"],
        ),
        (
            403,
            r#"{"error":{"message":"flagged","metadata":{"reasons":["x"]}}}"#,
            "content-filtered",
            &["flagged"],
        ),
        (
            404,
            r#"{"error":{"message":"The model `big` does not exist","code":"model_not_found"}}"#,
            "not-found",
            &[
                "`big`",
                "`http://h:1/v1/chat/completions`",
                "does not exist",
            ],
        ),
        (
            404,
            "404 page not found",
            "not-found",
            &[
                "404 page not found",
                "`model.model_name`",
                "`model.base_url` (or `--base-url`)",
            ],
        ),
        (
            404,
            r#"{"detail":"Not Found"}"#,
            "not-found",
            &["Not Found"],
        ),
        (
            405,
            r#"{"detail":"Method Not Allowed"}"#,
            "bad-request",
            &["`model.base_url` (or `--base-url`)"],
        ),
        (408, "{}", "timeout", &["(408)"]),
        (
            413,
            "<html><head><TITLE>Too Large</TITLE>",
            "context-window-exceeded",
            &["`Too Large`"],
        ),
        (
            422,
            r#"{"detail":[{"loc":["body","temperature"],"msg":"not a number","type":"x"}]}"#,
            "bad-request",
            &["`body.temperature`: not a number"],
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for context window","code":"rate_limit_exceeded"}}"#,
            "rate-limited",
            &["limits the rate"],
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            "permission",
            &["no credit", "quota"],
        ),
        (500, "oops", "overloaded", &["`oops`", "(500)"]),
        (
            501,
            "",
            "bad-request",
            &["`model.base_url` (or `--base-url`)"],
        ),
        (502, "<html>", "overloaded", &["`<html>`"]),
        (
            503,
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"loading\"}}"}}}"#,
            "overloaded",
            &["loading"],
        ),
        (504, "", "timeout", &[]),
        (520, "", "overloaded", &[]),
        (524, "", "timeout", &[]),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "overloaded",
            &["Overloaded"],
        ),
        (
            418,
            r#"{"message":{"detail":"teapot"}}"#,
            "bad-request",
            &["teapot"],
        ),
        (
            400,
            "data: {\"error\":{\"message\":\"in an event\"}}\n\n",
            "bad-request",
            &["in an event"],
        ),
        // Failures with a status of success.
        (200, "", "malformed-response", &["empty body"]),
        (204, " \n", "malformed-response", &["204", "empty body"]),
        (
            200,
            "<!doctype html><html><head><title>My\n Proxy</title>",
            "malformed-response",
            &["`My Proxy`", "`model.base_url` (or `--base-url`)", "`/v1`"],
        ),
        (
            200,
            "Hello there",
            "malformed-response",
            &["`Hello there`", "`model.base_url` (or `--base-url`)"],
        ),
        (
            200,
            r#"{"version":"1"}"#,
            "malformed-response",
            &["`choices`", r#"{"version":"1"}"#],
        ),
        (200, r#"{"choices":[]}"#, "malformed-response", &["empty"]),
        (
            200,
            r#"{"choices":[{"text":"x"}]}"#,
            "malformed-response",
            &["`message`", "`model.base_url` (or `--base-url`)"],
        ),
        (
            200,
            r#"{"choices":[{"mess"#,
            "malformed-response",
            &["broke off", "18 bytes"],
        ),
        (
            200,
            r#"{"error":{"message":"slow down","code":429}}"#,
            "rate-limited",
            &["slow down", "(429)"],
        ),
        (
            200,
            r#"{"error":{"message":"who are you","type":"authentication_error"}}"#,
            "authentication",
            &["200 with an error inside"],
        ),
        (
            200,
            r#"{"error":"something odd"}"#,
            "overloaded",
            &["something odd"],
        ),
        (
            200,
            r#"{"object":"error","message":"no","type":"BadRequestError","code":400}"#,
            "bad-request",
            &["(400)"],
        ),
        (
            200,
            r#"{"choices":[{"message":{"content":""},"error":{"message":"upstream","code":"502"}}]}"#,
            "overloaded",
            &["upstream", "(502)"],
        ),
        (
            200,
            "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}\n\n",
            "overloaded",
            &["x"],
        ),
        (
            200,
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho",
            "malformed-response",
            &["broke off", "finish reason"],
        ),
        (200, ": hello\n\n", "malformed-response", &["broke off"]),
        (
            200,
            "data: [DONE]\n\n",
            "malformed-response",
            &["without an answer"],
        ),
        (
            101,
            "",
            "malformed-response",
            &[
                "status 101",
                "`model.base_url`",
                "http://h:1/v1/chat/completions",
            ],
        ),
        (
            999,
            r#"{"error":{"message":"Denied.","code":"denied"}}"#,
            "malformed-response",
            &["status 999", "Denied;", "proxy"],
        ),
    ];
    for (status, body, class, words) in vectors {
        let error = error(*status, &[], body);
        assert_eq!(error.class, *class, "{status} {body}: {}", error.message);
        for word in *words {
            assert!(error.message.contains(word), "{word} in: {}", error.message);
        }
        // Keys of this plugin's own config, which most users never see.
        for word in ["`model`", "`base_url`", "`model_kwargs`", "`api_key`"] {
            assert!(!error.message.contains(word), "{}", error.message);
        }
        let times = error.message.matches("`OPENAI_API_KEY`").count();
        assert!(times <= 1, "{}", error.message);
        assert!(!error.message.ends_with('.'), "{}", error.message);
        let extra: Value = serde_json::from_str(&error.extra.unwrap()).unwrap();
        assert_eq!(extra["status"], *status);
    }
}

#[test]
fn redirects_name_where_they_lead() {
    for status in [301, 302, 307, 308] {
        let error = error(status, &[("location", "https://h/v1")], "<html>moved");
        assert_eq!(error.class, "bad-request");
        assert!(
            error.message.contains("`https://h/v1`"),
            "{}",
            error.message
        );
    }
    assert!(error(304, &[], "").message.contains("unnamed"));
}

#[test]
fn waits_come_from_headers_or_words() {
    let limit = r#"{"error":{"message":"Please try again in 1.5s."}}"#;
    let google = r#"{"error":{"code":429,"message":"retry in 9s","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"37.5s"}]}}"#;
    type Vector<'a> = (u16, &'a [(&'a str, &'a str)], &'a str, Option<u64>);
    let vectors: &[Vector<'_>] = &[
        (429, &[("retry-after", "7")], limit, Some(7000)),
        (
            429,
            &[("x-ratelimit-reset-requests", "6m0s")],
            "{}",
            Some(360_000),
        ),
        (429, &[], limit, Some(1500)),
        (429, &[], google, Some(37_500)),
        (429, &[("retry-after", "7")], google, Some(7000)),
        (429, &[], "{}", None),
        (503, &[("retry-after", "3")], "", Some(3000)),
        (503, &[("x-ratelimit-reset-requests", "6m0s")], "", None),
        (400, &[("retry-after", "3")], "{}", None),
    ];
    for (status, headers, body, expected) in vectors {
        let got = error(*status, headers, body).retry_after_ms;
        assert_eq!(got, *expected, "{status} {headers:?} {body}");
    }
}

#[test]
fn what_was_billed_is_reported() {
    let billed = r#""usage":{"prompt_tokens":3}"#;
    for body in [
        format!(r#"{{"choices":[],{billed}}}"#),
        format!(r#"{{"error":"x",{billed}}}"#),
        format!("data: {{\"choices\":[],{billed}}}\n\ndata: {{\"error\":\"x\"}}\n\n"),
        format!("data: {{\"choices\":[{{\"delta\":{{}}}}],{billed}}}\n\n"),
    ] {
        let usage = error(200, &[], &body).usage;
        assert_eq!(usage.map(|usage| usage.input_tokens), Some(3), "{body}");
    }
}

#[test]
fn a_server_without_a_key_is_not_told_about_one() {
    let chat = chat(json!({"model": "m", "api_key": null}));
    let mut exchange = crate::exchange::Exchange::<Chat>::new(401, Vec::new());
    exchange.feed(b"{}");
    let error = exchange.finish(&chat, 0).unwrap_err();
    assert!(error.message.contains("none was sent"), "{}", error.message);
    assert!(error.message.contains("`model.api_key_env`"));
    assert!(!error.message.contains("OPENAI_API_KEY"));
}

#[test]
fn long_bodies_are_cut() {
    let body = format!(r#"{{"error":{{"message":"{}"}}}}"#, "word ".repeat(5000));
    assert!(error(400, &[], &body).message.len() < 2 * MAX_WORDS);
    assert!(error(200, &[], &"é".repeat(9000)).message.len() < 1000);
}

/// Servers written in Python send half a surrogate pair unchanged; that is no reason to repeat the
/// request.
#[test]
fn half_a_character_is_read() {
    let whole = r#"{"choices":[{"message":{"content":"a\ud800b","tool_calls":[{"id":"c","function":
        {"name":"bash","arguments":"{\"command\": \"\\ud800\"}"}}]},"finish_reason":"stop"}]}"#;
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud800b\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for body in [whole, stream] {
        let mut exchange = crate::exchange::Exchange::<Chat>::new(200, Vec::new());
        exchange.feed(body.as_bytes());
        let format = chat(json!({"base_url": "http://h:1/v1", "model": "big"}));
        let reply = exchange.finish(&format, 0).unwrap();
        assert_eq!(
            reply.message.content[0],
            mswea_sdk::types::ContentPart::Text("a\u{fffd}b".to_owned())
        );
        for call in &reply.message.tool_calls {
            assert_eq!(call.arguments, r#"{"command": "\ud800"}"#);
        }
        let response: Value = serde_json::from_str(&reply.response.unwrap()).unwrap();
        assert!(response.to_string().contains("a\u{fffd}b"));
    }
}
