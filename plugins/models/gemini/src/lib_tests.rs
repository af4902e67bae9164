//! The adapter as the host drives it, over exchanges written from the API's reference.

use super::*;
use mswea_sdk::adapter::Header;
use mswea_sdk::testing;
use mswea_sdk::types::ContentPart;
use mswea_wire::testing::{
    answer, ask, ask_body, check_signs, check_thinking, cut_everywhere, cut_off_everywhere, joined,
    kinds, message, text, tool_message,
};
use serde_json::json;

fn adapter(config: Value) -> Gemini {
    testing::configure(config).unwrap()
}

/// A stream: thoughts and text in pieces, a signed call, a call with an id, token counts.
const STREAM: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"I \",\"thought\":true}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10},\"modelVersion\":\"gemini-2.5-pro\",\"responseId\":\"r\"}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"sée\",\"thought\":true}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Look\"}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" 😀\"}],\"role\":\"model\"},\"index\":0},{\"index\":1,\"content\":{\"parts\":[{\"text\":\"other\"}]}}]}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"bash\",\"args\":{\"command\":\"ls é\"}},\"thoughtSignature\":\"sig==\"},{\"functionCall\":{\"id\":\"own\",\"name\":\"bash\",\"args\":{\"command\":\"pwd\"}}}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":5,\"thoughtsTokenCount\":7,\"cachedContentTokenCount\":4,\"totalTokenCount\":22},\"modelVersion\":\"gemini-2.5-pro\",\"responseId\":\"r\"}\r\n\r\n",
);

#[test]
fn the_end_of_a_reply_is_said() {
    let mut adapter = adapter(json!({"model": "m"}));
    check_signs(&mut adapter, STREAM, "finishReason", false);
}

#[test]
fn thinking_in_the_text_is_reasoning() {
    let of = |text: &str, reason: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}{reason}}}]}}"#)
    };
    let end = r#","finishReason":"STOP""#;
    let stream = format!(
        "data: {}\n\ndata: {}\n\n",
        of("<think>r", ""),
        of("m</think>ls", end)
    );
    let mut adapter = adapter(json!({"model": "m"}));
    check_thinking(&mut adapter, &[&of("<think>rm</think>ls", end), &stream]);
}

#[test]
fn requests_go_to_the_models_method_with_the_key_in_its_header() {
    let history = [message("user", vec![text("hi")])];
    let base = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro";
    for (config, url) in [
        (json!({"model": "gemini-2.5-pro"}), format!("{base}:streamGenerateContent?alt=sse")),
        (json!({"model": "models/gemini-2.5-pro", "stream": false}), format!("{base}:generateContent")),
        (json!({"model": "gemini-2.5-pro", "model_kwargs": {"stream": false}}), format!("{base}:generateContent")),
        (
            json!({"model": "m", "base_url": "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google", "stream": false}),
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/m:generateContent".to_owned(),
        ),
    ] {
        let request = ask(&mut adapter(config), &history);
        assert_eq!(request.url, url);
        assert!(request.headers.contains(&Header::secret("x-goog-api-key", "", "GEMINI_API_KEY")));
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert!(body.get("stream").is_none() && body.get("model").is_none());
    }
}

#[test]
fn a_stream_gives_the_reply_of_the_whole_response_wherever_it_is_cut() {
    let mut adapter = adapter(json!({"model": "gemini-2.5-pro", "model_kwargs": {"zzz": 1}}));
    let user = message("user", vec![text("hi")]);
    ask(&mut adapter, std::slice::from_ref(&user));
    let reply = cut_everywhere(&mut adapter, STREAM);
    assert_eq!(reply.message.text(), "Look 😀");
    assert!(matches!(&reply.message.content[0], ContentPart::Reasoning(r) if r.text == "I sée"));
    assert_eq!(reply.finish_reason, "tool_calls");
    assert_eq!(reply.model, "gemini-2.5-pro");
    assert_eq!(
        reply.extra.as_deref(),
        Some(r#"{"dropped_params":["zzz"]}"#)
    );
    let ids: Vec<&str> = reply
        .message
        .tool_calls
        .iter()
        .map(|call| &*call.id)
        .collect();
    assert_eq!(ids, ["call_1_0", "own"]);
    let usage = reply.usage.clone().unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.output_tokens,
            usage.reasoning_tokens
        ),
        (10, 4, 12, 7)
    );
    let (_, deltas) = answer(&mut adapter, 200, "", &[STREAM.as_bytes()]);
    assert_eq!(joined(&deltas, "text"), "Look 😀");
    assert_eq!(joined(&deltas, "reasoning"), "I sée");
    assert_eq!(
        joined(&deltas, "tool-call"),
        r#"{"command":"ls é"}{"command":"pwd"}"#
    );
    // The assembled response is one that the server could have sent without streaming.
    let verbatim = reply.response.clone().unwrap();
    let whole = answer(
        &mut adapter,
        200,
        "application/json",
        &[verbatim.as_bytes()],
    )
    .0
    .unwrap();
    assert_eq!(whole, reply);
    // A proxy that drops `?alt=sse` gets the chunks as a list.
    let chunks: Vec<&str> = STREAM
        .lines()
        .filter_map(|it| it.strip_prefix("data: "))
        .collect();
    let list = |chunks: &[&str]| format!("[{}]", chunks.join("\n,\r\n"));
    let kind = "application/json";
    let listed = answer(
        &mut adapter,
        200,
        kind,
        &[b"\r\n ", list(&chunks).as_bytes()],
    )
    .0;
    assert_eq!(listed.unwrap(), reply);
    let failed = [chunks[0], r#"{"error":{"code":503,"message":"late"}}"#];
    for (chunks, class) in [
        (&chunks[..5], "malformed-response"),
        (&failed, "overloaded"),
        (&[], "malformed-response"),
    ] {
        let told = answer(&mut adapter, 200, kind, &[list(chunks).as_bytes()]).0;
        assert_eq!(told.unwrap_err().class, class, "{chunks:?}");
    }
    // The next request contains it.
    let outputs = [tool_message("call_1_0", "1"), tool_message("own", "2")];
    let history: Vec<_> = [user, reply.message].into_iter().chain(outputs).collect();
    let body = ask_body(&mut adapter, &history);
    assert_eq!(
        body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "I sée", "thought": true}, {"text": "Look 😀"},
                {"functionCall": {"name": "bash", "args": {"command": "ls é"}}, "thoughtSignature": "sig=="},
                {"functionCall": {"id": "own", "name": "bash", "args": {"command": "pwd"}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "bash", "response": {"content": "1"}}},
                {"functionResponse": {"id": "own", "name": "bash", "response": {"content": "2"}}}]},
        ])
    );
}

#[test]
fn a_stream_that_ends_too_soon_is_no_reply() {
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter, &[]);
    let last = STREAM.trim_end().lines().last().unwrap();
    cut_off_everywhere(&mut adapter, STREAM, last);
}

#[test]
fn every_failure_has_a_class_and_says_what_to_do() {
    let failed = |code: u16, status: &str, message: &str, details: Value| {
        json!({"error": {"code": code, "status": status, "message": message, "details": details}})
            .to_string()
    };
    let quota = |id: &str| {
        json!([
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}])
    };
    let reason = |reason: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]);
    // Status, body, class, words, wait.
    let vectors = [
        (400, failed(400, "INVALID_ARGUMENT", "Invalid JSON payload received. Unknown name \"x\"", json!([])),
            "bad-request", "`model.model_kwargs`", None),
        (400, failed(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", json!([])),
            "context-window-exceeded", "1200000", None),
        (400, failed(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", reason("API_KEY_INVALID")),
            "authentication", "`GEMINI_API_KEY`", None),
        (400, failed(400, "INVALID_ARGUMENT", "Schlüssel ungültig", reason("API_KEY_INVALID")), "authentication", "`GEMINI_API_KEY`", None),
        (401, failed(401, "UNAUTHENTICATED", "no", json!([])), "authentication", "no", None),
        (403, failed(403, "PERMISSION_DENIED", "no", json!([])), "permission", "no", None),
        (404, failed(404, "NOT_FOUND", "models/m is not found", json!([])), "not-found", "`m`", None),
        (429, failed(429, "RESOURCE_EXHAUSTED", "quota", quota("GenerateRequestsPerMinutePerProjectPerModel")),
            "rate-limited", "quota", Some(37_000)),
        (429, failed(429, "RESOURCE_EXHAUSTED", "quota", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")),
            "permission", "quota", None),
        (500, failed(500, "INTERNAL", "oops", json!([])), "overloaded", "oops", None),
        (503, failed(503, "UNAVAILABLE", "The model is overloaded.", json!([])), "overloaded", "overloaded", None),
        (504, failed(504, "DEADLINE_EXCEEDED", "late", json!([])), "timeout", "late", None),
        (429, format!("[{}]", failed(429, "RESOURCE_EXHAUSTED", "quota", json!([]))), "rate-limited", "quota", None),
        // Failures with a status of success.
        (200, json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}).to_string(),
            "content-filtered", "PROHIBITED_CONTENT", None),
        (200, format!("data: {}\n\n", json!({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "unsafe"}})),
            "content-filtered", "unsafe", None),
        (200, format!("data: {}\n\n", failed(503, "UNAVAILABLE", "overloaded", json!([]))), "overloaded", "overloaded", None),
        (200, format!("data: {}\n\n", json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]})),
            "malformed-response", "broke off", None),
        (200, json!({"candidates": []}).to_string(), "malformed-response", "without a candidate", None),
        (200, json!({"choices": []}).to_string(), "malformed-response", "`candidates`", None),
    ];
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter, &[]);
    for (status, body, class, word, wait) in vectors {
        let error = answer(&mut adapter, status, "", &[body.as_bytes()])
            .0
            .unwrap_err();
        assert_eq!(error.class, class, "{body}: {}", error.message);
        assert!(error.message.contains(word), "{}", error.message);
        assert_eq!(error.retry_after_ms, wait, "{body}");
        if body.contains("promptTokenCount") {
            assert_eq!(error.usage.unwrap().input_tokens, 3);
        }
    }
}

#[test]
fn the_descriptor_asks_for_what_the_defaults_need() {
    let descriptor = Gemini::describe();
    assert_eq!(descriptor.name, "gemini");
    assert_eq!(descriptor.secrets, ["GEMINI_API_KEY"]);
    assert_eq!(descriptor.hosts, ["generativelanguage.googleapis.com"]);
}

#[test]
fn bodies_in_pieces_equal_whole_ones() {
    let make = || adapter(json!({"model": "m"}));
    mswea_wire::testing::check_pieces(make, FORMAT, r#"{"text":null,"thoughtSignature":"s"}"#);
}

#[test]
fn a_reason_beside_content_may_not_be_the_last_one() {
    let chunk = |part: Value, reason: Value| json!({"candidates": [{"content": {"parts": [part]}, "finishReason": reason}], "usageMetadata": {"candidatesTokenCount": 1}});
    let words = |reason| chunk(json!({"text": "a"}), reason);
    let call = |reason| chunk(json!({"functionCall": {"name": "bash"}}), reason);
    let stop = || json!("STOP");
    let (empty, end) = (
        chunk(json!({"text": ""}), stop()),
        json!({"candidates": [{"finishReason": "STOP"}]}),
    );
    for (events, expected) in [
        (vec![words(stop()), call(stop())], &["likely-finished"][..]),
        (vec![call(stop())], &["likely-finished"]),
        (vec![empty.clone(), words(stop())], &["likely-finished"]),
        (
            vec![words(stop()), empty.clone(), call(stop())],
            &["likely-finished"],
        ),
        (vec![words(json!("")), call(Value::Null)], &[]),
        (vec![words(Value::Null), empty], &["finished"]),
        (vec![call(json!("")), end.clone()], &["finished"]),
        (vec![call(json!("")), end, words(json!(""))], &["finished"]),
    ] {
        assert_eq!(
            kinds(&mut adapter(json!({"model": "m"})), &events),
            expected,
            "{events:?}"
        );
    }
}
