//! Unusual replies that are accepted: halves of surrogate pairs, very large replies, keys beside the
//! deltas of a stream.

use scripted_server::Turn;
use serde_json::{Value, json};

use crate::host::Host;
use crate::story::turns;

/// A reply with exactly this body.
fn raw(content_type: &str, body: &str) -> Turn {
    Turn::status(200)
        .with_header("content-type", content_type)
        .with_body(body)
}

#[test]
fn half_of_a_surrogate_pair_is_read_as_a_replacement_character() {
    let call = r#"{"index":0,"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\": \"echo 'x\\ud800'\"}"}}"#;
    let whole = format!(
        r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"half \ud800 of it","tool_calls":[{call}]}},"finish_reason":"tool_calls"}}]}}"#
    );
    let stream = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"half \\ud800 of it\",\"tool_calls\":[{call}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
    );
    for turn in [
        raw("application/json", &whole),
        raw("text/event-stream", &stream),
    ] {
        let server = turns([turn]);
        let run = Host::new().server(&server).task("x").run().expect(0);
        assert_eq!(server.served(), 2, "{run}");
        let trajectory = run.trajectory();
        let message = &trajectory["messages"][2];
        assert_eq!(message["content"], "half \u{fffd} of it");
        let response = message["extra"]["response"].to_string();
        assert!(response.contains("half \u{fffd} of it"), "{response}");
        assert_eq!(
            trajectory["messages"][3]["extra"]["raw_output"],
            "x\u{fffd}\n"
        );
        // The text is sent back as it was read, and the call as it was written.
        let second = server.requests()[1].json().to_string();
        assert!(second.contains("half \u{fffd} of it"), "{second}");
        assert!(second.contains(r"x\\ud800"), "{second}");
    }
}

/// Larger than the default limit of a plugin's output, smaller than `model.max_response_bytes`.
#[test]
fn a_very_large_reply_is_accepted() {
    let mut large = Turn::commands(&["echo x"]);
    large.text = Some("word ".repeat(4 << 20));
    let server = turns([large]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["--no-stream"])
        .run()
        .expect(0);
    let trajectory = run.trajectory();
    let text = trajectory["messages"][2]["content"].as_str().unwrap();
    assert_eq!(text.len(), 20 << 20);
}

/// vLLM sends the ids of the tokens beside the deltas; they are used for training.
#[test]
fn tokens_of_a_stream_are_kept() {
    let chunk = |delta: Value, ids: Value, text: &str, reason: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{
            "index": 0, "delta": delta, "finish_reason": reason, "token_ids": ids,
            "logprobs": {"content": [{"token": text, "logprob": -0.25, "top_logprobs": []}]},
        }]});
        format!("data: {chunk}\n\n")
    };
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "bash", "arguments": "{\"command\": \"echo x\"}"}}]});
    let first = json!({"id": "c", "model": "m", "prompt_token_ids": [1, 2, 3], "choices": [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": null}]});
    let stream = [
        format!("data: {first}\n\n"),
        chunk(
            json!({"content": "I look."}),
            json!([11, 12]),
            "I look.",
            Value::Null,
        ),
        chunk(call, json!([13]), "{", json!("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ];
    let server = turns([raw("text/event-stream", &stream.concat())]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let trajectory = run.trajectory();
    let response = &trajectory["messages"][2]["extra"]["response"];
    assert_eq!(response["prompt_token_ids"], json!([1, 2, 3]));
    let choice = &response["choices"][0];
    assert_eq!(choice["token_ids"], json!([11, 12, 13]));
    let tokens = choice["logprobs"]["content"].as_array().unwrap();
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[1]["token"], "{");
}
