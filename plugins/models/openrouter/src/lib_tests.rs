//! The adapter as the host drives it, over exchanges written from OpenRouter's reference.

use super::*;
use mswea_sdk::adapter::Header;
use mswea_sdk::testing;
use mswea_sdk::types::ContentPart;
use mswea_wire::testing::{
    answer, ask, ask_body, bash_tool, check_signs, cut_everywhere, cut_off_everywhere, message,
    text, tool_message,
};
use serde_json::json;

fn adapter(config: Value) -> OpenRouter {
    testing::configure(config).unwrap()
}

/// A stream of a model that reasons in blocks: some readable and signed, some sealed.
const STREAM: &str = concat!(
    ": OPENROUTER PROCESSING\n\n",
    "data: {\"id\":\"gen-1\",\"provider\":\"Anthropic\",\"model\":\"anthropic/claude-sonnet-4.5\",\"object\":\"chat.completion.chunk\",\"created\":1,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"I \",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"I \",\"format\":\"anthropic-claude-v1\",\"index\":0}]},\"finish_reason\":null,\"native_finish_reason\":null,\"logprobs\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"sée\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"sée\",\"format\":\"anthropic-claude-v1\",\"index\":0}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"signature\":\"sig==\",\"format\":\"anthropic-claude-v1\",\"index\":0}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.encrypted\",\"data\":\"seal==\",\"id\":\"rs_1\",\"format\":\"openai-responses-v1\",\"index\":1}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Look 😀\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"toolu_1\",\"type\":\"function\",\"function\":{\"name\":\"bash\",\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"type\":\"function\",\"function\":{\"arguments\":\"{\\\"command\\\":\\\"ls\\\"}\"}}]},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"tool_calls\",\"native_finish_reason\":\"tool_use\"}]}\n\n",
    "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"total_tokens\":120,\"cost\":0.00123,\"is_byok\":false,\"prompt_tokens_details\":{\"cached_tokens\":80},\"cost_details\":{\"upstream_inference_cost\":null},\"completion_tokens_details\":{\"reasoning_tokens\":7}}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn the_end_of_a_reply_is_said() {
    let mut adapter = adapter(json!({"model": "m"}));
    let reason = r#""finish_reason":"tool_calls""#;
    check_signs(&mut adapter, STREAM, reason, true);
}

/// The form in which the stream's message is sent back.
fn sent_back() -> Value {
    json!({
        "role": "assistant", "content": "Look 😀",
        "tool_calls": [{"id": "toolu_1", "type": "function",
                        "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}],
        "reasoning": "I sée",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "I sée", "format": "anthropic-claude-v1", "index": 0,
             "signature": "sig=="},
            {"type": "reasoning.encrypted", "data": "seal==", "id": "rs_1",
             "format": "openai-responses-v1", "index": 1},
        ],
    })
}

/// What mini-swe-agent's `openrouter` sends, with OpenRouter's own parameters.
#[test]
fn chat_requests_ask_for_the_price_and_pass_own_parameters() {
    let kwargs = json!({"drop_params": true, "temperature": 0.0, "models": ["a/b", "c/d"],
        "provider": {"order": ["Anthropic"], "allow_fallbacks": false}, "transforms": ["middle-out"],
        "reasoning": {"max_tokens": 2000}});
    let mut adapter = adapter(
        json!({"model": "anthropic/claude-sonnet-4.5", "stream": false,
        "model_kwargs": kwargs, "headers": {"HTTP-Referer": "https://x", "X-Title": "t"}}),
    );
    let history = [
        message("system", vec![text("S")]),
        message("user", vec![text("U")]),
    ];
    let request = ask(&mut adapter, &history);
    assert_eq!(request.url, "https://openrouter.ai/api/v1/chat/completions");
    for header in [
        Header::secret("authorization", "Bearer ", "OPENROUTER_API_KEY"),
        Header::plain("http-referer", "https://x"),
        Header::plain("x-title", "t"),
    ] {
        assert!(request.headers.contains(&header));
    }
    let mut expected = json!({
        "model": "anthropic/claude-sonnet-4.5",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
        "tools": [{"type": "function", "function": {"name": "bash", "description": "Execute a bash command",
            "parameters": serde_json::from_str::<Value>(&bash_tool().parameters).unwrap()}}],
        "usage": {"include": true},
    });
    for (key, value) in kwargs
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| *key != "drop_params")
    {
        expected[key] = value.clone();
    }
    assert_eq!(
        serde_json::from_slice::<Value>(&request.body).unwrap(),
        expected
    );
    assert!(testing::take_log().is_empty());
    // By default neither of the optional headers is sent.
    let mut plain = self::adapter(json!({"model": "m"}));
    let request = ask(&mut plain, &history);
    assert!(
        request
            .headers
            .iter()
            .all(|header| !header.name.contains("referer"))
    );
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["stream"], true);
    assert_eq!(body["usage"], json!({"include": true}));
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    let mut own =
        self::adapter(json!({"model": "m", "model_kwargs": {"usage": {"include": false}}}));
    assert_eq!(
        ask_body(&mut own, &history)["usage"],
        json!({"include": false})
    );
}

#[test]
fn reasoning_blocks_come_through_a_stream_and_go_back_unchanged() {
    let mut adapter = adapter(json!({"model": "m"}));
    let user = message("user", vec![text("U")]);
    ask(&mut adapter, std::slice::from_ref(&user));
    let reply = cut_everywhere(&mut adapter, STREAM);
    assert_eq!(reply.finish_reason, "tool_calls");
    assert_eq!(reply.model, "anthropic/claude-sonnet-4.5");
    assert!(matches!(&reply.message.content[0], ContentPart::Reasoning(r) if r.text == "I sée"));
    let usage = reply.usage.clone().unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.output_tokens,
            usage.reasoning_tokens
        ),
        (100, 80, 20, 7)
    );
    assert_eq!(usage.cost, Some(0.00123));
    let response: Value = serde_json::from_str(reply.response.as_ref().unwrap()).unwrap();
    assert_eq!(response["provider"], "Anthropic");
    let history = [user, reply.message, tool_message("toolu_1", "o")];
    assert_eq!(ask_body(&mut adapter, &history)["messages"][1], sent_back());

    // The same response without a stream.
    let whole = json!({"id": "gen-1", "choices": [{"message": sent_back(), "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5}});
    let reply = answer(
        &mut adapter,
        200,
        "application/json",
        &[whole.to_string().as_bytes()],
    )
    .0
    .unwrap();
    assert_eq!(reply.usage.unwrap().cost, Some(0.5));
    let history = [history[0].clone(), reply.message, history[2].clone()];
    assert_eq!(ask_body(&mut adapter, &history)["messages"][1], sent_back());
}

#[test]
fn a_stream_that_ends_too_soon_is_no_reply() {
    let mut adapter = adapter(json!({"model": "m"}));
    ask(&mut adapter, &[]);
    cut_off_everywhere(
        &mut adapter,
        STREAM,
        "\"native_finish_reason\":\"tool_use\"}]}",
    );
}

/// What mini-swe-agent's `openrouter_response` sends after one step, as recorded.
#[test]
fn responses_requests_are_those_of_the_recording() {
    let mut adapter = adapter(
        json!({"model": "openai/gpt-5", "api": "responses", "stream": false,
        "model_kwargs": {"drop_params": true, "temperature": 0.0}}),
    );
    let typed = |role: &str, text: &str| {
        json!({"type": "message", "role": role,
        "content": [{"type": "input_text", "text": text}]})
    };
    let output = json!([
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA==", "status": null},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "hi", "annotations": []}]},
        {"id": "fc_1", "type": "function_call", "status": "completed", "arguments": "{}",
         "call_id": "call_1", "name": "bash", "zzz": 1}]);
    let mut history = vec![
        message("system", vec![text("S")]),
        message("user", vec![text("U")]),
    ];
    assert_eq!(
        ask(&mut adapter, &history).url,
        "https://openrouter.ai/api/v1/responses"
    );
    let response = json!({"id": "r", "object": "response", "status": "completed", "model": "openai/gpt-5",
        "output": output, "usage": {"input_tokens": 3, "output_tokens": 2, "cost": 0.25}});
    let reply = answer(&mut adapter, 200, "", &[response.to_string().as_bytes()])
        .0
        .unwrap();
    assert_eq!(reply.usage.as_ref().unwrap().cost, Some(0.25));
    history.extend([reply.message, tool_message("call_1", "o")]);
    let mut input = vec![typed("system", "S"), typed("user", "U")];
    input.extend(output.as_array().unwrap().clone());
    input.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "o"}));
    let tool = bash_tool();
    assert_eq!(
        ask_body(&mut adapter, &history),
        json!({"model": "openai/gpt-5", "input": input, "temperature": 0.0,
            "tools": [{"type": "function", "name": "bash", "description": "Execute a bash command",
                "parameters": serde_json::from_str::<Value>(&tool.parameters).unwrap()}]})
    );
    let stream = format!(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"response\":{{}}}}\n\n\
         event: response.completed\ndata: {}\n\ndata: [DONE]\n\n",
        json!({"type": "response.completed", "response": response})
    );
    let streamed = cut_everywhere(&mut adapter, &stream);
    assert_eq!(streamed.message, history[2]);
}

#[test]
fn errors_come_with_any_status_and_in_streams() {
    let chunk =
        |chunk: Value| format!(": OPENROUTER PROCESSING\n\ndata: {chunk}\n\ndata: [DONE]\n\n");
    // Status, body, class, words.
    let vectors = [
        (
            402,
            json!({"error": {"code": 402, "message": "Insufficient credits"}}).to_string(),
            "permission",
            "credit",
        ),
        (
            403,
            json!({"error": {"code": 403, "message": "Input was flagged", "metadata": {
            "reasons": ["violence"], "flagged_input": "x", "provider_name": "OpenAI"}}})
            .to_string(),
            "content-filtered",
            "flagged",
        ),
        (
            404,
            json!({"error": {"code": 404, "message": "No endpoints found for m."}}).to_string(),
            "not-found",
            "endpoints",
        ),
        (
            408,
            json!({"error": {"code": 408, "message": "late"}}).to_string(),
            "timeout",
            "late",
        ),
        (
            429,
            json!({"error": {"code": 429, "message": "Provider returned error", "metadata": {
            "raw": "m is temporarily rate-limited upstream", "provider_name": "X"}}})
            .to_string(),
            "rate-limited",
            "upstream",
        ),
        (
            502,
            json!({"error": {"code": 502, "message": "down"}}).to_string(),
            "overloaded",
            "down",
        ),
        (
            200,
            json!({"error": {"code": 502, "message": "down"}}).to_string(),
            "overloaded",
            "down",
        ),
        (
            200,
            json!({"error": {"code": 401, "message": "No auth credentials found"}}).to_string(),
            "authentication",
            "`OPENROUTER_API_KEY`",
        ),
        (
            200,
            json!({"choices": [{"finish_reason": "error", "message": {"content": ""},
            "error": {"code": 429, "message": "slow"}}]})
            .to_string(),
            "rate-limited",
            "slow",
        ),
        // The error comes in the middle of a stream.
        (
            200,
            chunk(
                json!({"id": "g", "error": {"code": "server_error", "message": "Provider disconnected"},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}),
            ),
            "overloaded",
            "disconnected",
        ),
        (
            200,
            chunk(
                json!({"id": "g", "error": {"code": 400, "message": "maximum context length is 10"},
            "choices": []}),
            ),
            "context-window-exceeded",
            "10",
        ),
    ];
    for config in [
        json!({"model": "m"}),
        json!({"model": "m", "api": "responses"}),
    ] {
        let mut adapter = adapter(config);
        ask(&mut adapter, &[]);
        for (status, body, class, word) in &vectors {
            if matches!(adapter, OpenRouter::Responses(_)) && body.contains("finish_reason") {
                continue;
            }
            let error = answer(&mut adapter, *status, "", &[body.as_bytes()])
                .0
                .unwrap_err();
            assert_eq!(error.class, *class, "{body}: {}", error.message);
            assert!(error.message.contains(word), "{}", error.message);
        }
    }
}

#[test]
fn a_wrong_api_is_named() {
    let error = OpenRouter::configure(json!({"model": "m", "api": "messages"}))
        .err()
        .unwrap();
    assert!(error.message.contains("`messages`") && error.message.contains("`responses`"));
}

#[test]
fn the_descriptor_asks_for_what_the_defaults_need() {
    let descriptor = OpenRouter::describe();
    assert_eq!(descriptor.name, "openrouter");
    assert_eq!(descriptor.secrets, ["OPENROUTER_API_KEY"]);
    assert_eq!(descriptor.hosts, ["openrouter.ai"]);
}

#[test]
fn bodies_in_pieces_equal_whole_ones() {
    for (api, format) in [
        ("chat", mswea_wire::chat::FORMAT),
        ("responses", mswea_wire::responses::FORMAT),
    ] {
        let make = || adapter(json!({"model": "m", "api": api}));
        mswea_wire::testing::check_pieces(make, format, r#"{"type":"reasoning","id":"r"}"#);
    }
}
