//! The adapter as the host drives it.

use super::*;
use mswea_sdk::testing;
use mswea_sdk::types::ContentPart;
use serde_json::json;

fn adapter(config: Value) -> Replay {
    testing::configure(config).unwrap()
}

fn ask(adapter: &mut Replay, change: Change) -> Result<Reply, ModelError> {
    adapter
        .query(change, Request::default())
        .map(|next| match next {
            Next::Reply(reply) => reply,
            Next::Send(request) => panic!("{request:?}"),
        })
}

fn format_error() -> Message {
    Message {
        extra: Some(json!({"interrupt_type": "FormatError", "cost": 0}).to_string()),
        ..Message::new("user", "try again")
    }
}

/// Plays a run to its end; `is_rejected` says which replies the parser rejects. Each reply is also
/// requested from a fresh instance.
fn run(config: &Value, is_rejected: impl Fn(&Reply) -> bool) -> Vec<Reply> {
    let mut warm = adapter(config.clone());
    let mut history = vec![Message::new("system", "s"), Message::new("user", "u")];
    let mut sent = 0;
    let mut replies = Vec::new();
    loop {
        let change = Change::tail(sent, history[sent..].to_vec());
        let reply = ask(&mut warm, change);
        let fresh = ask(&mut adapter(config.clone()), Change::all(history.clone()));
        assert_eq!(reply, fresh);
        sent = history.len();
        let Ok(reply) = reply else { return replies };
        if is_rejected(&reply) {
            history.push(format_error());
        } else {
            history.push(reply.message.clone());
            history.push(Message::new("user", "observation"));
        }
        replies.push(reply);
    }
}

fn texts(replies: &[Reply]) -> Vec<String> {
    replies.iter().map(|reply| reply.message.text()).collect()
}

#[test]
fn scripts_are_replied_in_order_on_any_instance() {
    let config = json!({"replies": ["a", "bad", "bad", "b", {"content": "c"}]});
    let replies = run(&config, |reply| reply.message.text() == "bad");
    assert_eq!(texts(&replies), ["a", "bad", "bad", "b", "c"]);
}

#[test]
fn scripted_replies_are_read_in_every_form() {
    let mut adapter = adapter(json!({"model": "m", "replies": [
        {"content": "t", "reasoning": "r", "cost": 0.25, "usage": {"prompt_tokens": 3, "output_tokens": 2},
         "tool_calls": [{"command": "ls \"x\""}, {"name": "edit", "arguments": {"a": 1}},
                        {"arguments": "not json", "id": "mine"}]},
        {"tool_calls": [{"command": "x"}], "finish_reason": "length"},
    ]}));
    let first = ask(&mut adapter, Change::default()).unwrap();
    let calls: Vec<(&str, &str, &str)> = first
        .message
        .tool_calls
        .iter()
        .map(|call| (&*call.id, &*call.name, &*call.arguments))
        .collect();
    assert_eq!(
        calls,
        [
            ("call_1", "bash", r#"{"command":"ls \"x\""}"#),
            ("call_2", "edit", r#"{"a":1}"#),
            ("mine", "bash", "not json"),
        ]
    );
    assert_eq!(first.finish_reason, "tool_calls");
    assert_eq!(first.model, "m");
    let usage = first.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cost),
        (3, 2, Some(0.25))
    );
    assert!(matches!(&first.message.content[0], ContentPart::Reasoning(r) if r.text == "r"));
    let second = ask(&mut adapter, Change::all(vec![first.message])).unwrap();
    assert_eq!(second.finish_reason, "length");
    assert_eq!(second.message.tool_calls[0].id, "call_4");
    assert_eq!(second.usage, None);
    assert!(second.message.content.is_empty());
}

#[test]
fn running_out_says_how_many_there_were() {
    let mut adapter = adapter(json!({"replies": ["a"]}));
    let history = vec![Message::new("assistant", "a")];
    let error = ask(&mut adapter, Change::all(history)).unwrap_err();
    assert_eq!(error.class, "bad-request");
    assert!(error.message.contains("reply 2") && error.message.contains("only 1"));
    assert!(error.message.contains("`replies`"));
}

#[test]
fn a_history_that_is_cut_back_is_counted_anew() {
    let mut adapter = adapter(json!({"replies": ["a", "b", "c"]}));
    let assistant = || Message::new("assistant", "x");
    let full = vec![assistant(), Message::new("user", "o"), assistant()];
    let reply = ask(&mut adapter, Change::all(full)).unwrap();
    assert_eq!(reply.message.text(), "c");
    let reply = ask(&mut adapter, Change::tail(1, vec![])).unwrap();
    assert_eq!(reply.message.text(), "b");
    let reply = ask(&mut adapter, Change::tail(0, vec![])).unwrap();
    assert_eq!(reply.message.text(), "a");
    let error = ask(&mut adapter, Change::tail(5, vec![])).unwrap_err();
    assert!(error.message.contains("fault of the host"));
}

#[test]
fn a_recorded_chat_run_is_replied_with_its_rejected_replies() {
    let response = |message: Value, reason: &str| {
        json!({"model": "gpt", "usage": {"prompt_tokens": 9, "completion_tokens": 2,
               "prompt_tokens_details": {"cached_tokens": 4}},
               "choices": [{"message": message, "finish_reason": reason}]})
    };
    let call = json!([{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}]);
    let good = json!({"role": "assistant", "content": null, "tool_calls": call, "reasoning_content": "r", "function_call": null});
    let mut recorded = good.clone();
    recorded["extra"] = json!({"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.5, "timestamp": 1.0,
                               "response": response(good, "tool_calls")});
    let rejected = response(json!({"role": "assistant", "content": "no call"}), "length");
    let trajectory = json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        recorded,
        {"role": "tool", "content": "o", "tool_call_id": "c1", "extra": {"returncode": 0}},
        {"role": "user", "content": "e", "extra": {"interrupt_type": "FormatError", "cost": 0.25, "response": rejected}},
        {"role": "user", "content": "e", "extra": {"interrupt_type": "FormatError", "model_response": "text"}},
        {"role": "user", "content": "e", "extra": {"interrupt_type": "FormatError", "response": "ModelResponse(...)"}},
        {"role": "user", "content": "stop", "extra": {"interrupt_type": "UserInterruption"}},
        {"role": "assistant", "content": [{"type": "text", "text": "bye"}]},
        {"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}},
    ]});
    let replies = run(&json!({"trajectory": trajectory}), |reply| {
        reply.message.tool_calls.is_empty() && reply.message.text() != "bye"
    });
    assert_eq!(texts(&replies), ["", "no call", "text", "", "bye"]);
    let first = &replies[0];
    assert_eq!(first.message.tool_calls[0].id, "c1");
    assert_eq!(
        first.message.tool_calls[0].arguments,
        "{\"command\": \"ls\"}"
    );
    assert_eq!(
        (&*first.finish_reason, &*first.model),
        ("tool_calls", "gpt")
    );
    assert!(first.response.as_ref().unwrap().starts_with("{\"model\""));
    let usage = first.usage.as_ref().unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cache_read_tokens, usage.cost),
        (9, 4, Some(0.5))
    );
    assert!(matches!(&first.message.content[1], ContentPart::Opaque(o)
        if o.format == "openai-chat" && o.data == r#"{"reasoning_content":"r"}"#));
    assert_eq!(replies[1].finish_reason, "length");
    assert_eq!(replies[1].usage.as_ref().unwrap().cost, Some(0.25));
    assert_eq!(replies[3].response, None);
    assert_eq!(
        (&*replies[4].finish_reason, &*replies[4].model),
        ("stop", "replay")
    );
    assert_eq!(replies[4].usage, None);
}

#[test]
fn a_recorded_responses_run_is_replied() {
    let trajectory = json!({"messages": [
        {"object": "response", "model": "gpt", "status": "completed", "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
            {"type": "function_call", "call_id": "c", "id": "i", "name": "bash", "arguments": "{}"}],
         "usage": {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}},
         "extra": {"cost": 0.1}},
        {"type": "function_call_output", "call_id": "c", "output": "o", "extra": {}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "e"}], "extra": {
            "interrupt_type": "FormatError",
            "response": {"object": "response", "status": "incomplete",
                         "incomplete_details": {"reason": "max_output_tokens"}, "output": []}}},
    ]});
    let replies = run(&json!({"trajectory": trajectory}), |reply| {
        reply.message.tool_calls.is_empty()
    });
    assert_eq!(texts(&replies), ["t", ""]);
    assert_eq!(replies[0].message.tool_calls[0].id, "c");
    assert_eq!(replies[0].finish_reason, "completed");
    assert_eq!(replies[0].usage.as_ref().unwrap().cache_read_tokens, 2);
    assert!(!replies[0].response.as_ref().unwrap().contains("extra"));
    assert_eq!(replies[1].finish_reason, "length");
}

#[test]
fn a_recorded_run_over_anthropics_api_is_replied() {
    let response = |reason: &str, content: Value| {
        json!({"type": "message", "role": "assistant", "model": "claude", "stop_reason": reason,
               "content": content, "usage": {"input_tokens": 5, "output_tokens": 3,
               "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100}})
    };
    let trajectory = json!({"messages": [
        {"role": "assistant", "content": "t", "reasoning_content": "hm",
         "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
         "extra": {"response": response("tool_use", json!([]))}},
        {"role": "tool", "tool_call_id": "c", "content": "o", "extra": {}},
        {"role": "user", "content": "e", "extra": {"interrupt_type": "FormatError", "response":
            response("max_tokens", json!([{"type": "thinking", "thinking": "hm"},
                                          {"type": "text", "text": "cut"}, {"type": "text", "text": " off"}]))}},
        {"role": "user", "content": "e", "extra": {"interrupt_type": "FormatError", "response":
            response("end_turn", json!([{"type": "tool_use", "id": "d", "name": "x", "input": {"a": 1}}]))}},
    ]});
    let replies = run(&json!({"trajectory": trajectory}), |reply| {
        reply.message.tool_calls.iter().all(|call| call.id != "c")
    });
    assert_eq!(texts(&replies), ["t", "cut off", ""]);
    let reasons: Vec<&str> = replies.iter().map(|reply| &*reply.finish_reason).collect();
    assert_eq!(reasons, ["tool_calls", "length", "stop"]);
    assert!(matches!(&replies[1].message.content[0], ContentPart::Reasoning(r) if r.text == "hm"));
    let call = &replies[2].message.tool_calls[0];
    assert_eq!((&*call.name, &*call.arguments), ("x", r#"{"a":1}"#));
    let usage = replies[0].usage.as_ref().unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens
        ),
        (125, 20, 100)
    );
}

#[test]
fn bad_configs_say_where_and_what_to_write() {
    let vectors = [
        (json!({}), None, "set `replies`"),
        (
            json!({"replies": [], "trajectory": {}}),
            Some("/replies"),
            "leave one",
        ),
        (json!({"replies": ["a", 5]}), Some("/replies/1"), "reply 2"),
        (
            json!({"replies": [{"contnt": "x"}]}),
            Some("/replies/0"),
            "contnt",
        ),
        (
            json!({"replies": [{"tool_calls": [{"name": "x"}]}]}),
            Some("/replies/0/tool_calls/0"),
            "`command`",
        ),
        (
            json!({"replies": [{"tool_calls": [{"command": "x", "arguments": ""}]}]}),
            Some("/replies/0/tool_calls/0"),
            "either",
        ),
        (
            json!({"trajectory": {"history": []}}),
            Some("/trajectory"),
            "`messages`",
        ),
        (
            json!({"trajectory": {"messages": [{"role": "user", "content": ""}]}}),
            Some("/trajectory/messages"),
            "1 messages",
        ),
        (json!({"nope": 1}), None, "nope"),
    ];
    for (config, pointer, word) in vectors {
        let error = Replay::configure(config.clone()).err().unwrap();
        assert_eq!(error.code, "invalid-config");
        assert!(error.message.contains(word), "{config}: {}", error.message);
        let extra = error
            .extra
            .map(|extra| serde_json::from_str::<Value>(&extra).unwrap());
        let got = extra.as_ref().and_then(|extra| extra["pointer"].as_str());
        assert_eq!(got, pointer, "{config}");
    }
}

#[test]
fn the_descriptor_asks_for_nothing() {
    let descriptor = Replay::describe();
    assert_eq!(descriptor.name, "replay");
    assert!(descriptor.hosts.is_empty() && descriptor.secrets.is_empty());
    let schema: Value = serde_json::from_str(&descriptor.config_schema).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    // The schema allows one of the two, and so does `configure`.
    assert_eq!(schema["if"]["required"], json!(["trajectory"]));
    assert_eq!(schema["else"]["required"], json!(["replies"]));
    let examples = schema["examples"].as_array().unwrap();
    let counts = examples.iter().map(|example| {
        let replay = Replay::configure(example.clone()).ok().unwrap();
        let replies = replay.replies.iter();
        let calls: Vec<usize> = replies
            .map(|reply| reply.message.tool_calls.len())
            .collect();
        calls
    });
    assert_eq!(counts.collect::<Vec<_>>(), [vec![1, 2, 0, 0], vec![1, 0]]);
    assert!(adapter(json!({"replies": []})).finish().is_err());
}
