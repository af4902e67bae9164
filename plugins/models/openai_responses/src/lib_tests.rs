//! The adapter as the host drives it, over exchanges written from the API's reference.

use std::fmt::Write as _;

use super::*;
use mswea_sdk::adapter::{Header, Next, Request};
use mswea_sdk::types::{Change, ContentPart, Message};
use mswea_sdk::{Adapter as _, testing};
use mswea_wire::testing::{
    answer, ask, ask_body, assistant, call, check_signs, check_thinking, cut_everywhere,
    cut_off_everywhere, joined, message, text, tool_message,
};
use serde_json::json;

fn adapter(config: Value) -> OpenAiResponses {
    testing::configure(config).unwrap()
}

/// A response as the API gives it.
fn response() -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "error": null,
        "incomplete_details": null, "instructions": null, "model": "gpt-5-2025-08-07",
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "**Söök**"}],
             "encrypted_content": "gAAA=="},
            {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
             "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "I look 😀"}]},
            {"id": "fc_1", "type": "function_call", "status": "completed",
             "arguments": "{\"command\":\"ls é\"}", "call_id": "call_1", "name": "bash"},
        ],
        "parallel_tool_calls": true, "store": false, "truncation": "disabled",
        "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
                  "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3},
                  "total_tokens": 15},
    })
}

/// The same response as a stream.
fn stream() -> String {
    let whole = response();
    let begun =
        json!({"id": "resp_1", "object": "response", "status": "in_progress", "output": []});
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
        json!({"type": "response.output_item.added", "output_index": 0,
               "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0,
               "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0,
               "summary_index": 0, "delta": "**Sö"}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0,
               "summary_index": 0, "delta": "ök**"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]}),
        json!({"type": "response.output_item.added", "output_index": 1,
               "item": {"id": "msg_1", "type": "message", "role": "assistant", "content": []}}),
        json!({"type": "response.content_part.added", "output_index": 1, "content_index": 0,
               "part": {"type": "output_text", "text": ""}}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "I look "}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "😀"}),
        json!({"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "I look 😀"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": whole["output"][1]}),
        json!({"type": "response.output_item.added", "output_index": 2,
               "item": {"id": "fc_1", "type": "function_call", "arguments": "", "call_id": "call_1", "name": "bash"}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"command\":"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "\"ls é\"}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"command\":\"ls é\"}"}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": whole["output"][2]}),
        json!({"type": "response.completed", "response": whole}),
    ];
    let mut out = ": keep-alive\n\n".to_owned();
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
        write!(
            out,
            "event: {}\r\ndata: {event}\r\n\r\n",
            event["type"].as_str().unwrap()
        )
        .unwrap();
    }
    out
}

#[test]
fn the_end_of_a_reply_is_said() {
    let mut adapter = adapter(json!({"model": "gpt-5"}));
    check_signs(
        &mut adapter,
        &stream(),
        r#""type":"response.completed""#,
        true,
    );
}

#[test]
fn thinking_in_the_text_is_reasoning() {
    let whole = json!({"id": "r", "object": "response", "status": "completed", "output": [
        {"type": "message", "role": "assistant", "id": "m", "status": "completed",
         "content": [{"type": "output_text", "text": "<think>rm</think>ls", "annotations": []}]},
    ]});
    let mut out = String::new();
    for piece in ["<think>r", "m</th", "ink>ls"] {
        let event = json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece});
        write!(out, "data: {event}\n\n").unwrap();
    }
    let event = json!({"type": "response.completed", "response": whole});
    write!(out, "data: {event}\n\n").unwrap();
    let mut adapter = adapter(json!({"model": "gpt-5"}));
    check_thinking(&mut adapter, &[&whole.to_string(), &out]);
}

#[test]
fn a_stream_gives_the_reply_of_the_whole_response_wherever_it_is_cut() {
    let mut adapter = adapter(json!({"model": "gpt-5"}));
    ask(&mut adapter, &[message("user", vec![text("hi")])]);
    let streamed = cut_everywhere(&mut adapter, &stream());
    let body = response().to_string();
    let whole = answer(&mut adapter, 200, "application/json", &[body.as_bytes()])
        .0
        .unwrap();
    assert_eq!(streamed, whole);
    assert_eq!(whole.message.text(), "I look 😀");
    assert_eq!(whole.finish_reason, "completed");
    assert_eq!(whole.model, "gpt-5-2025-08-07");
    assert_eq!(
        whole.message.tool_calls,
        [call("call_1", "bash", "{\"command\":\"ls é\"}")]
    );
    assert!(matches!(&whole.message.content[0], ContentPart::Reasoning(r) if r.text == "**Söök**"));
    let usage = whole.usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.output_tokens,
            usage.reasoning_tokens
        ),
        (10, 4, 5, 3)
    );
    let verbatim: Value = serde_json::from_str(&whole.response.unwrap()).unwrap();
    assert_eq!(verbatim, response());
    let (_, deltas) = answer(&mut adapter, 200, "", &[stream().as_bytes()]);
    assert_eq!(joined(&deltas, "text"), "I look 😀");
    assert_eq!(joined(&deltas, "reasoning"), "**Söök**");
    assert_eq!(joined(&deltas, "tool-call"), "{\"command\":\"ls é\"}");
}

#[test]
fn a_stream_that_ends_too_soon_is_no_reply() {
    let mut adapter = adapter(json!({"model": "gpt-5"}));
    ask(&mut adapter, &[]);
    let stream = stream();
    let last = stream.trim_end().lines().last().unwrap().to_owned();
    cut_off_everywhere(&mut adapter, &stream, &last);
}

/// What mini-swe-agent's `litellm_response` sends after one step, as recorded: the reply's items
/// stand between the prompts and the output of the command.
#[test]
fn requests_are_those_of_the_recording() {
    let config = json!({"model": "gpt-5-mini", "stream": false, "model_kwargs": {
        "drop_params": true, "temperature": 0.0, "reasoning": {"effort": "high"}, "store": false,
        "include": ["reasoning.encrypted_content"], "max_output_tokens": 5, "seed": 1,
        "text": {"verbosity": "low"}, "extra_body": {"foo": 1}, "extra_headers": {"X-A": "1"}}});
    let mut adapter = adapter(config);
    let mut history = vec![
        message("system", vec![text("S")]),
        message("user", vec![text("U")]),
    ];
    let request = ask(&mut adapter, &history);
    assert_eq!(request.url, "https://api.openai.com/v1/responses");
    assert!(request.headers.contains(&Header::plain("x-a", "1")));
    assert!(request.headers.contains(&Header::secret(
        "authorization",
        "Bearer ",
        "OPENAI_API_KEY"
    )));
    let body = response().to_string();
    history.push(
        answer(&mut adapter, 200, "", &[body.as_bytes()])
            .0
            .unwrap()
            .message,
    );
    history.push(tool_message("call_1", "o"));
    let mut input = vec![
        json!({"role": "system", "content": "S"}),
        json!({"role": "user", "content": "U"}),
    ];
    input.extend(response()["output"].as_array().unwrap().clone());
    input.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "o"}));
    assert_eq!(
        ask_body(&mut adapter, &history),
        json!({
            "model": "gpt-5-mini", "input": input, "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 16, "reasoning": {"effort": "high"}, "store": false,
            "text": {"verbosity": "low"}, "foo": 1,
            "tools": [{"type": "function", "name": "bash", "description": "Execute a bash command",
                "parameters": {"type": "object", "properties": {"command": {"type": "string",
                    "description": "The bash command to execute"}}, "required": ["command"]}}],
        })
    );
    // The log names the parameters that were left out.
    let said = testing::take_log();
    let said: Vec<&str> = said.iter().map(|(_, text)| &**text).collect();
    for key in ["seed", "max_output_tokens", "temperature"] {
        assert!(
            said.iter()
                .any(|note| note.contains(&format!("`model.model_kwargs.{key}`"))),
            "{said:?}"
        );
    }
}

#[test]
fn a_warm_and_a_fresh_instance_send_the_same() {
    let mut warm = adapter(json!({"model": "m"}));
    let user = message("user", vec![text("hi")]);
    ask(&mut warm, std::slice::from_ref(&user));
    let reply = answer(&mut warm, 200, "", &[response().to_string().as_bytes()])
        .0
        .unwrap();
    let next = vec![reply.message, tool_message("call_1", "out")];
    let Ok(Next::Send(from_warm)) = warm.query(Change::tail(1, next.clone()), Request::default())
    else {
        panic!()
    };
    let all: Vec<Message> = std::iter::once(user).chain(next).collect();
    let mut fresh = adapter(json!({"model": "m"}));
    let Ok(Next::Send(from_fresh)) = fresh.query(Change::all(all), Request::default()) else {
        panic!()
    };
    assert_eq!(from_warm.body, from_fresh.body);
}

#[test]
fn every_failure_has_a_class_and_says_what_to_do() {
    let failed = |code: &str, message: &str| {
        json!({"status": "failed", "error": {"code": code, "message": message}, "output": [],
               "usage": {"input_tokens": 3}})
        .to_string()
    };
    let event = |event: Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    // Status, body, class, words that the message must have.
    let vectors = [
        (400, json!({"error": {"message": "Unsupported parameter: 'temperature'", "type": "invalid_request_error",
            "param": "temperature", "code": null}}).to_string(), "bad-request", "`model.model_kwargs`"),
        (400, json!({"error": {"message": "Your input exceeds the context window of this model.",
            "code": "context_length_exceeded"}}).to_string(), "context-window-exceeded", "history processor"),
        (400, json!({"error": {"message": "Your prompt was flagged as potentially violating our usage policy",
            "code": "invalid_prompt"}}).to_string(), "content-filtered", "flagged"),
        (401, json!({"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}).to_string(),
            "authentication", "`OPENAI_API_KEY`"),
        (404, json!({"error": {"message": "no", "code": "model_not_found"}}).to_string(), "not-found", "`m`"),
        (429, json!({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}).to_string(), "rate-limited", "slow"),
        (429, json!({"error": {"message": "quota", "code": "insufficient_quota"}}).to_string(), "permission", "credit"),
        (500, json!({"error": {"message": "oops", "type": "server_error"}}).to_string(), "overloaded", "oops"),
        // Failures with a status of success.
        (200, failed("server_error", "oops"), "overloaded", "oops"),
        (200, failed("rate_limit_exceeded", "Please try again in 2s."), "rate-limited", "2s"),
        (200, failed("invalid_prompt", "no"), "bad-request", "no"),
        (200, failed("context_length_exceeded", "too long"), "context-window-exceeded", "too long"),
        (200, event(json!({"type": "response.failed", "response": {"status": "failed", "output": [],
            "error": {"code": "server_error", "message": "oops"}, "usage": {"input_tokens": 3}}})), "overloaded", "oops"),
        (200, event(json!({"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": null})),
            "rate-limited", "m"),
        (200, event(json!({"type": "response.created", "response": {}})), "malformed-response", "broke off"),
        (200, "data: [DONE]\n\n".to_owned(), "malformed-response", "`output`"),
        (200, json!({"choices": []}).to_string(), "malformed-response", "API for responses"),
        (200, json!({"output": null}).to_string(), "malformed-response", "no list"),
        (200, "<html><title>Proxy</title>".to_owned(), "malformed-response", "`Proxy`"),
        (200, "{\"output\":[".to_owned(), "malformed-response", "broke off"),
    ];
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter, &[]);
    for (status, body, class, word) in vectors {
        let error = answer(&mut adapter, status, "", &[body.as_bytes()])
            .0
            .unwrap_err();
        assert_eq!(error.class, class, "{body}: {}", error.message);
        assert!(error.message.contains(word), "{}", error.message);
        if body.contains("\"failed\"") {
            assert_eq!(error.usage.unwrap().input_tokens, 3, "{body}");
        }
    }
}

#[test]
fn a_reply_of_another_wire_is_understood() {
    let mut adapter = adapter(json!({"model": "m"}));
    let body = ask_body(
        &mut adapter,
        &[assistant(vec![text("a")], vec![call("c", "bash", "{}")])],
    );
    assert_eq!(
        body["input"],
        json!([{"role": "assistant", "content": "a"},
               {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}])
    );
}

#[test]
fn the_descriptor_asks_for_what_the_defaults_need() {
    let descriptor = OpenAiResponses::describe();
    assert_eq!(descriptor.name, "openai_responses");
    assert_eq!(descriptor.secrets, ["OPENAI_API_KEY"]);
    assert_eq!(descriptor.hosts, ["api.openai.com"]);
}

#[test]
fn bodies_in_pieces_equal_whole_ones() {
    let make = || adapter(json!({"model": "m"}));
    let data = r#"{"type":"reasoning","id":"r"}"#;
    mswea_wire::testing::check_pieces(make, mswea_wire::responses::FORMAT, data);
}
