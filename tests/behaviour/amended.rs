//! Servers that want requests in another form, or that garble their answers: what is understood is
//! used, and nothing is lost in silence.

use scripted_server::{Recorded, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::run::Run;
use crate::story::{impatient, turns};

const ALTERNATE: &str = "Error: Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.";

fn stream(chunks: &[Value]) -> Turn {
    let events: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    Turn::status(200)
        .with_header("content-type", "text/event-stream")
        .with_body(format!("{events}data: [DONE]\n\n"))
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn ended(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn arguments(command: &str) -> String {
    json!({ "command": command }).to_string()
}

/// A piece of a call with the index 0.
fn piece(id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    delta(
        json!({"tool_calls": [{"index": 0, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments}}]}),
    )
}

fn refused(status: u16, message: &str) -> Turn {
    Turn::status(status)
        .with_header("content-type", "application/json")
        .with_body(json!({"error": {"code": status, "message": message}}).to_string())
}

/// The outputs of all commands.
fn outputs(run: &Run) -> Vec<String> {
    let trajectory = run.trajectory();
    let messages = trajectory["messages"].as_array().unwrap().iter();
    let texts = messages.filter_map(|message| message["extra"]["raw_output"].as_str());
    // The submission has none.
    let texts = texts.filter(|text| !text.is_empty());
    texts.map(|text| text.trim_end().to_owned()).collect()
}

fn roles(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let roles = messages.map(|message| message["role"].as_str().unwrap().to_owned());
    roles.collect()
}

#[test]
fn roles_alternate_for_a_server_that_says_so() {
    let talk = || Turn::text("I will look around first.");
    let server = turns([
        talk(),
        refused(500, ALTERNATE),
        Turn::commands(&["echo a"]),
        talk(),
        // Its template does not count messages with calls and results.
        refused(400, ALTERNATE),
        talk(),
    ]);
    let run = impatient(&server).run().expect(0);
    let bodies: Vec<Value> = server.requests().iter().map(Recorded::json).collect();
    let expected: [&[&str]; 7] = [
        &["system", "user"],
        &["system", "user", "user"],
        &["system", "user"],
        &["system", "user", "assistant", "tool"],
        &["system", "user", "assistant", "tool", "user"],
        &["system", "user", "assistant", "tool", "assistant", "user"],
        &["system", "user", "assistant", "tool", "assistant", "user"],
    ];
    let sent: Vec<Vec<String>> = bodies.iter().map(roles).collect();
    assert_eq!(sent, expected, "{run}");
    assert!(run.stderr.contains("model.merge_user_messages"), "{run}");

    let server = turns([talk()]);
    let merged = ["-c", "model.merge_user_messages=true"];
    impatient(&server).args(merged).run().expect(0);
    assert_eq!(roles(&server.requests()[1].json()), ["system", "user"]);
}

#[test]
fn what_came_with_a_key_goes_back_with_it() {
    let first = stream(&[
        delta(json!({"role": "assistant", "content": null, "reasoning_content": ""})),
        piece(Some("c1"), Some("bash"), &arguments("echo hi")),
        ended("tool_calls"),
    ]);
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": null,
        "reasoning_content": "", "tool_calls": [{"id": "c1", "type": "function",
            "function": {"name": "bash", "arguments": arguments("echo hi")}}]},
        "finish_reason": "tool_calls"}]});
    for turn in [first, Turn::status(200).with_body(whole.to_string())] {
        let server = turns([turn]);
        let run = impatient(&server).run().expect(0);
        let sent = &server.requests()[1].json()["messages"][2];
        assert_eq!(sent["reasoning_content"], "", "{run}");
        assert_eq!(sent.get("content"), Some(&Value::Null), "{run}");
    }

    // After a switch to a model that thinks.
    let server = turns([
        Turn::commands(&["echo hi"]),
        refused(
            400,
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        ),
        Turn::commands(&["echo ho"]),
    ]);
    impatient(&server).run().expect(0);
    for (request, expected) in [(1, None), (2, Some("")), (3, Some(""))] {
        let sent = &server.requests()[request].json()["messages"][2];
        assert_eq!(sent["reasoning_content"].as_str(), expected, "{request}");
    }
}

#[test]
fn garbled_calls_are_repaired() {
    let one = arguments("echo one");
    let two = arguments("echo two");
    for (chunks, expected) in [
        // Two calls with the same id and index.
        (
            vec![
                piece(Some("s"), Some("bash"), &one),
                piece(Some("s"), Some("bash"), &two),
            ],
            vec!["one", "two"],
        ),
        // The arguments in pieces, and once more.
        (
            vec![
                piece(Some("s"), Some("bash"), &one[..9]),
                piece(None, None, &one[9..]),
                piece(None, None, &one),
            ],
            vec!["one"],
        ),
        (
            vec![piece(Some("s"), Some("bash<|channel|>commentary"), &one)],
            vec!["one"],
        ),
    ] {
        let all: Vec<Value> = chunks.into_iter().chain([ended("tool_calls")]).collect();
        let server = turns([stream(&all)]);
        let run = impatient(&server).run().expect(0);
        assert_eq!(outputs(&run), expected, "{run}");
        assert_eq!(server.served(), 2, "{run}");
    }

    // What can't be told apart is asked for once more, without a stream.
    let all = [
        piece(Some("s"), Some("bash"), &one),
        piece(None, None, &two),
        ended("tool_calls"),
    ];
    for (again, expected) in [
        (Turn::commands(&["echo three"]), &["three"][..]),
        (refused(400, "no"), &[]),
    ] {
        let server = turns([stream(&all), again]);
        let run = impatient(&server).run().expect(0);
        assert_eq!(outputs(&run), expected, "{run}");
        let streamed: Vec<Value> = server
            .requests()
            .iter()
            .map(|request| request.json()["stream"].clone())
            .collect();
        assert_eq!(streamed, [json!(true), json!(false), json!(true)], "{run}");
    }
}

#[test]
fn an_account_without_a_balance_ends_the_run_at_once() {
    for (status, body) in [
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#,
        ),
        (
            429,
            r#"{"error":{"http_code":"429","message":"insufficient balance (1008)","type":"insufficient_balance_error"}}"#,
        ),
    ] {
        let server = turns([Turn::status(status).with_body(body)]);
        let run = Host::new().server(&server).task("x").run().expect(5);
        assert_eq!(server.served(), 1, "{run}");
        assert!(run.stderr.contains("insufficient balance (1008)"), "{run}");
    }
}

#[test]
fn an_error_field_of_a_stream_is_read() {
    let field = json!({"code": 400, "type": "invalid_request_error", "message":
        "the request exceeds the available context size. try increasing the context size"});
    let turn = Turn::status(200)
        .with_header("content-type", "text/event-stream")
        .with_body(format!("error: {field}\n\ndata: [DONE]\n\n"));
    let server = turns([turn]);
    let run = impatient(&server).run().expect(5);
    let trajectory = run.trajectory();
    assert_eq!(
        trajectory["info"]["exit_status"],
        "ContextWindowExceededError"
    );
    assert!(run.stderr.contains("the available context size"), "{run}");
}
