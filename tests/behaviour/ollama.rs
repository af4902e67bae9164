//! Ollama's own API: the real binary against a server that speaks only that.

use std::time::Duration;

use scripted_server::{Recorded, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::run::Run;
use crate::story::submit;

/// A piece of an answer, with its newline.
fn line(message: &Value, done: bool) -> String {
    let mut line = json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message,
        "done": done});
    if done {
        let end = json!({"done_reason": "stop", "prompt_eval_count": 26, "eval_count": 8});
        line.as_object_mut()
            .unwrap()
            .extend(end.as_object().unwrap().clone());
    }
    format!("{line}\n")
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn calls(command: &str) -> Value {
    json!({"role": "assistant", "content": "", "thinking": "hm",
        "tool_calls": [{"function": {"name": "bash", "arguments": {"command": command}}}]})
}

fn answer(status: u16, body: String) -> Turn {
    Turn::status(status)
        .with_header("content-type", "application/x-ndjson")
        .with_body(body)
}

fn server(turns: impl IntoIterator<Item = Turn>) -> Server {
    Server::start(Scenario::new(turns).on_any_route())
}

/// A run with a config file as users of mini-swe-agent have it.
fn run(server: &Server, base: &str, arguments: &[&str]) -> Run {
    let config = format!(
        "agent:\n  system_template: s\n  instance_template: '{{{{ task }}}}'\n  cost_limit: 0\n\
         model:\n  model_name: ollama_chat/qwen3\n  model_kwargs:\n    num_ctx: 32768\n    temperature: 0.5\n    \
         api_base: http://{}{base}\n",
        server.address()
    );
    Host::new()
        .file("m.yaml", config)
        .args(["-c", "m.yaml"])
        .args(arguments)
        .task("x")
        .run()
}

#[test]
fn options_reach_it_and_its_answers_are_read() {
    let end = submit("done");
    let streamed = |message: Value| {
        let body = line(&says("I look"), false) + &line(&message, false) + &line(&says(""), true);
        answer(200, body).in_chunks(7, Duration::ZERO)
    };
    let whole = |message: Value| answer(200, line(&message, true).trim_end().to_owned());
    for (arguments, turns) in [
        (
            &["-c", "model.stream=true"][..],
            [streamed(calls("echo hi")), streamed(calls(&end))],
        ),
        (
            &["--no-stream"],
            [whole(calls("echo hi")), whole(calls(&end))],
        ),
    ] {
        let server = server(turns);
        let run = run(&server, "", arguments).expect(0);
        let requests = server.requests();
        assert!(requests.iter().all(|it| it.path == "/api/chat"), "{run}");
        let bodies: Vec<Value> = requests.iter().map(Recorded::json).collect();
        let options = json!({"num_ctx": 32768, "temperature": 0.5});
        assert_eq!(bodies[0]["options"], options);
        assert_eq!(bodies[0]["stream"], arguments.len() == 2);
        assert_eq!(bodies[0]["tools"][0]["function"]["name"], "bash");
        let sent = &bodies[1]["messages"];
        assert_eq!(sent[2]["thinking"], "hm");
        let function = &sent[2]["tool_calls"][0]["function"];
        assert_eq!(function["arguments"], json!({"command": "echo hi"}));
        assert_eq!(sent[3]["tool_name"], "bash");
        let output = sent[3]["content"].as_str().unwrap();
        assert!(output.contains("hi\n"), "{output}");
        let trajectory = run.trajectory();
        assert_eq!(trajectory["info"]["submission"], "done");
        let reply = &trajectory["messages"][2]["extra"]["response"];
        assert_eq!(reply["usage"]["prompt_tokens"], 26, "{reply}");
        assert!(!run.stderr.contains("no effect"), "{run}");
    }
}

#[test]
fn its_errors_are_said() {
    let refusal = json!({"error": "model 'qwen3' not found"}).to_string();
    let broken = json!({"error": "the runner has stopped: out of memory"}).to_string();
    let in_stream = line(&says("I look"), false) + &broken + "\n";
    for (turn, part) in [
        (answer(404, refusal), "model 'qwen3' not found"),
        (answer(200, in_stream), "out of memory"),
    ] {
        let server = server([turn]);
        let limits = [
            "-c",
            "model.network_retries=0",
            "-c",
            "model.rate_limit_retries=0",
        ];
        let run = run(&server, "", &limits).expect(5);
        assert!(run.stderr.contains(part), "{run}");
    }
}

#[test]
fn an_address_with_v1_is_that_of_the_compatible_api() {
    let server = Server::start(Scenario::commands(&[submit("done")]));
    let run = run(&server, "/v1", &[]).expect(0);
    let request = &server.requests()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.json()["num_ctx"], 32768);
    assert!(run.stderr.contains("leave `/v1` off the address"), "{run}");
}
