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
        // An error inside a successful response may have a status of its own.
        match status {
            200 => assert!(extra["status"].as_u64() >= Some(200), "{extra}"),
            _ => assert_eq!(extra["status"], *status),
        }
    }
}

#[test]
fn an_error_inside_a_stream_has_the_status_of_a_whole_one() {
    for body in [
        r#"{"error":{"message":"m","code":500}}"#,
        r#"{"error":{"message":"m","type":"server_error"}}"#,
        r#"{"error":{"message":"m","type":"invalid_request_error","code":500}}"#,
        r#"{"error":{"message":"m","type":"authentication_error","code":500}}"#,
    ] {
        let whole = error(500, &[], body);
        let streamed = error(200, &[], &format!("data: {body}\n\n"));
        assert_eq!(whole.class, streamed.class, "{body}");
        for error in [whole, streamed] {
            let extra: Value = serde_json::from_str(&error.extra.unwrap()).unwrap();
            assert_eq!(extra["status"], 500, "{body}");
        }
    }
    for (word, class) in [
        ("invalid_request_error", "bad-request"),
        ("server_error", "overloaded"),
        ("api_error", "overloaded"),
    ] {
        let body = format!(r#"{{"error":{{"message":"m","type":"{word}"}}}}"#);
        assert_eq!(error(500, &[], &body).class, class, "{word}");
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

    // A gateway that fails without one.
    let mut exchange = crate::exchange::Exchange::<Chat>::new(500, Vec::new());
    exchange.feed(br#"{"error": {"message": "oops"}}"#);
    let error = exchange.finish(&chat, 0).unwrap_err();
    assert!(
        error.message.contains("no key was sent"),
        "{}",
        error.message
    );
    assert_eq!(error.class, "overloaded");
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

#[test]
fn an_account_without_credit_is_no_rate_limit_and_no_overload() {
    for (status, body) in [
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#,
        ),
        (
            429,
            r#"{"error":{"http_code":"429","message":"insufficient balance (1008)","type":"insufficient_balance_error"}}"#,
        ),
        (
            200,
            r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"},"choices":null}"#,
        ),
        (
            200,
            "data: {\"base_resp\":{\"status_code\":1008,\"status_msg\":\"insufficient balance\"}}\n\n",
        ),
        (
            200,
            "data: {\"error\":{\"code\":500,\"message\":\"insufficient balance\"}}\n\n",
        ),
        (
            503,
            r#"{"error":{"message":"Insufficient balance or no resource package. Please recharge.","code":"1113"}}"#,
        ),
        (
            429,
            r#"{"error":{"message":"Your account is suspended, please check your plan","type":"exceeded_current_quota_error"}}"#,
        ),
        (429, r#"{"error":{"message":"m","type":"budget_exceeded"}}"#),
        (
            403,
            r#"{"code":30001,"message":"Sorry, your account balance is insufficient"}"#,
        ),
        (
            429,
            r#"{"error":"Your team has either used all available credits or reached its monthly spending limit."}"#,
        ),
        (
            500,
            r#"{"error":{"message":"You have exceeded your monthly included credits"}}"#,
        ),
        (
            400,
            r#"{"error":{"code":"Arrearage","message":"Access denied"}}"#,
        ),
        (502, "insufficient credits"),
        (
            500,
            r#"{"error":{"message":"用户额度不足","code":"insufficient_user_quota"}}"#,
        ),
    ] {
        let error = error(status, &[], body);
        assert_eq!(error.class, "permission", "{body}: {}", error.message);
        assert!(error.message.contains("no credit"), "{}", error.message);
    }
    // The free tier's limits, which end with the minute.
    let quota = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(error(429, &[], quota).class, "rate-limited");
}

#[test]
fn a_conversation_that_is_too_long_is_known_in_every_wording() {
    for said in [
        "the request exceeds the available context size. try increasing the context size",
        "This model's maximum context length is 4096 tokens",
        "Your input exceeds the context window of this model",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "Your request exceeded model token limit: 131072",
        "Prompt exceeds max length",
        "Range of input length should be [1, 129024]",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
        "`inputs` must have less than 4095 tokens. Given: 5000",
        "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Requested tokens (5000) exceed context window of 4096",
        "prompt token count of 70000 exceeds the limit of 64000",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        "the number of input tokens 5000 cannot exceed the total tokens limit 4096",
        "Request body too large for gpt-4o model. Max size: 8000 tokens.",
        "string too long. Expected a string with maximum length 1048576",
        "Prompt length 5000 is greater than max_seq_len 4096",
        "Input is too long for requested model.",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
        "输入超长",
        "Current length is 9000 while limit is 8192",
    ] {
        let body = json!({"error": {"message": said, "type": "invalid_request_error"}}).to_string();
        let field = format!(
            "error: {}\n\ndata: [DONE]\n\n",
            json!({"code": 400, "message": said})
        );
        for (status, body) in [
            (400, &body),
            (500, &body),
            (200, &field),
            (200, &format!("data: {body}\n\n")),
        ] {
            let error = error(status, &[], body);
            assert_eq!(error.class, "context-window-exceeded", "{status} {said}");
            let start = said.split('.').next().unwrap_or_default();
            assert!(error.message.contains(start), "{}", error.message);
        }
    }
}

#[test]
fn an_exception_of_a_chat_template_is_no_overload() {
    for said in [
        "Error: Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
        "chat template: Conversation roles must alternate user/assistant/user/assistant/...",
        "jinja2.exceptions.TemplateError: Only user and assistant roles are supported!",
    ] {
        let body = json!({"error": {"code": 500, "message": said, "type": "server_error"}});
        for body in [body.to_string(), format!("data: {body}\n\n")] {
            for status in [500, 200] {
                assert_eq!(error(status, &[], &body).class, "bad-request", "{said}");
            }
        }
    }
}
