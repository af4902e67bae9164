//! The examples for trainers (`examples/rl`): what each framework gets, of whole episodes and of those that were broken
//! off. The server tells ids of tokens, as vLLM does.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use scripted_server::{Fault, Recorded, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::needs::Need;
use crate::run::Run;
use crate::story::submit;

/// A reply with the ids of the request's and the reply's tokens, which calls the tool with this command.
pub fn told(prompt: &[u32], reply: &[u32], command: &str) -> Turn {
    let tokens = reply
        .iter()
        .map(|id| json!({"token": id.to_string(), "logprob": -0.5, "top_logprobs": []}));
    let arguments = json!({ "command": command }).to_string();
    let call = json!({"id": "c1", "type": "function", "function": {"name": "bash", "arguments": arguments}});
    let body = json!({"id": "r", "object": "chat.completion", "model": "m", "prompt_token_ids": prompt,
        "choices": [{"index": 0, "finish_reason": "tool_calls", "token_ids": reply,
            "logprobs": {"content": tokens.collect::<Vec<_>>()},
            "message": {"role": "assistant", "content": "I look.", "reasoning_content": "I think.", "tool_calls": [call]}}],
        "usage": {"prompt_tokens": prompt.len(), "completion_tokens": reply.len(), "total_tokens": prompt.len() + reply.len()}});
    Turn::status(200).with_body(body)
}

fn first() -> Turn {
    told(&[1, 2], &[3, 4], "echo work > done.txt")
}

fn last() -> Turn {
    told(&[1, 2, 3, 4, 5, 6], &[7], &submit("fixed"))
}

fn server(turns: impl IntoIterator<Item = Turn>) -> Server {
    Server::start(Scenario::new(turns).by_history())
}

/// An example for this server, in an empty folder.
fn example(name: &str, server: &Server, arguments: &[&str]) -> Host {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rl");
    // The id of the episode in the path, as gateways of trainers have it.
    let url = server.url().replace("/v1", "/sessions/{session}/v1");
    Host::new()
        .program(Path::new("python3"))
        .arg(folder.join(name))
        .args(["--base-url", &url, "--model", "hosted_vllm/m"])
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MSWEA_HOST_BINARY", env!("CARGO_BIN_EXE_mswea-host"))
}

fn printed(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// Each request is for one session, in its path and in its header.
fn sessions(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let sessions = requests.iter().map(|request| {
        let session = request.header("x-session-id").unwrap();
        assert_eq!(
            request.path,
            format!("/sessions/{session}/v1/chat/completions")
        );
        session.to_owned()
    });
    let mut sessions: Vec<_> = sessions.collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions
}

#[test]
fn skyrl_gets_a_row_for_each_turn() {
    if !Need::Python.is_met() {
        return;
    }
    let server = server([first(), last()]);
    let arguments = ["--check", "grep -q work done.txt", "one", "two"];
    let run = example("skyrl_generator.py", &server, &arguments)
        .run()
        .expect(0);
    let output = printed(&run);
    let twice = |one: Value| {
        let one = one.as_array().unwrap();
        Value::Array([one.as_slice(), one].concat())
    };
    assert_eq!(
        output["prompt_token_ids"],
        twice(json!([[1, 2], [1, 2, 3, 4, 5, 6]]))
    );
    assert_eq!(output["response_ids"], twice(json!([[3, 4], [7]])));
    assert_eq!(
        output["rollout_logprobs"],
        twice(json!([[-0.5, -0.5], [-0.5]]))
    );
    assert_eq!(output["loss_masks"], twice(json!([[1, 1], [1]])));
    assert_eq!(output["rewards"], twice(json!([0.0, 1.0])));
    assert_eq!(output["is_last_step"], twice(json!([false, true])));
    assert_eq!(
        output["stop_reasons"],
        twice(json!(["complete", "complete"]))
    );
    assert_eq!(
        output["trajectory_ids"][2],
        json!({"instance_id": "task1", "repetition_id": 0})
    );
    assert_eq!(
        output["rollout_metrics"],
        json!({"generate/mswea_complete": 2})
    );
    assert_eq!(sessions(&server).len(), 2);
    // The history only grows, and the model's message is sent back as it came.
    let requests: Vec<_> = server.requests().iter().map(Recorded::json).collect();
    let (short, long): (Vec<_>, Vec<_>) = requests
        .iter()
        .partition(|it| it["messages"].as_array().unwrap().len() == 2);
    for (short, long) in short.iter().zip(&long) {
        assert_eq!(long["messages"][0], short["messages"][0]);
        assert_eq!(long["messages"][2]["reasoning_content"], "I think.");
        assert_eq!(long["messages"][2]["content"], "I look.");
        assert_eq!(long["temperature"], 1.0);
        assert_eq!(
            (&long["logprobs"], &long["return_token_ids"]),
            (&json!(true), &json!(true))
        );
    }
}

#[test]
fn skyrl_tells_the_ends_of_episodes_apart() {
    if !Need::Python.is_met() {
        return;
    }
    let full = Turn::error(
        400,
        "context_length_exceeded",
        "maximum context length is 8192 tokens",
    );
    for (turn, arguments, reason, mask, reward) in [
        (
            last(),
            &["--step-limit", "1"][..],
            "length",
            json!([[1, 1]]),
            1.0,
        ),
        // Work that does not fit is no success.
        (full, &[], "context_length", json!([[1, 1]]), 0.0),
        (Turn::status(401), &[], "error", json!([[0]]), 0.0),
        (
            Turn::fault(Fault::Silence),
            &["--seconds", "2"],
            "agent_timeout",
            json!([[0]]),
            0.0,
        ),
    ] {
        let server = server([first(), turn]);
        let host = example("skyrl_generator.py", &server, arguments);
        let run = host
            .args(["--check", "test -e done.txt", "task"])
            .run()
            .expect(0);
        let output = printed(&run);
        assert_eq!(output["stop_reasons"], json!([reason]), "{output:#}");
        assert_eq!(output["loss_masks"], mask, "{reason}");
        assert_eq!(output["rewards"], json!([reward]), "{reason}");
    }
}

#[test]
fn a_check_that_does_not_end_has_failed() {
    if !Need::Python.is_met() {
        return;
    }
    let server = server([first(), last()]);
    let arguments = ["--seconds", "8", "--check", "sleep 3600; true", "task"];
    let run = example("skyrl_generator.py", &server, &arguments)
        .run()
        .expect(0);
    let output = printed(&run);
    assert_eq!(output["stop_reasons"], json!(["complete", "complete"]));
    assert_eq!(output["rewards"], json!([0.0, 0.0]));
}

#[test]
fn verl_gets_one_sequence_of_tokens() {
    if !Need::Python.is_met() {
        return;
    }
    let server_ = server([first(), last()]);
    let arguments = ["--check", "grep -q work done.txt", "task"];
    let run = example("verl_agent_loop.py", &server_, &arguments)
        .run()
        .expect(0);
    let output = printed(&run);
    assert_eq!(output["prompt_ids"], json!([1, 2]));
    assert_eq!(output["response_ids"], json!([3, 4, 5, 6, 7]));
    assert_eq!(output["response_mask"], json!([1, 1, 0, 0, 1]));
    assert_eq!(
        output["response_logprobs"],
        json!([-0.5, -0.5, 0.0, 0.0, -0.5])
    );
    assert_eq!(
        (&output["reward_score"], &output["num_turns"]),
        (&json!(1.0), &json!(4))
    );
    let fields = json!({"exit_status": "Submitted", "kind": "complete", "chains": 1});
    assert_eq!(output["extra_fields"], fields);
    assert_eq!(sessions(&server_).len(), 1);

    // A request that is not a continuation begins a new sequence.
    let rewritten = told(&[1, 2, 9], &[7], &submit("fixed"));
    let run = example(
        "verl_agent_loop.py",
        &server([first(), rewritten]),
        &["task"],
    )
    .run();
    let output = printed(&run.expect(0));
    assert_eq!(
        (&output["response_ids"], &output["extra_fields"]["chains"]),
        (&json!([3, 4]), &json!(2))
    );
}

/// By the agent's own limit, and by a kill.
#[test]
fn verl_gets_what_was_done_before_the_time_was_over() {
    if !Need::Python.is_met() {
        return;
    }
    for (arguments, status) in [
        (["--seconds", "2"], "TimeExceeded"),
        (["--kill-after", "3"], "Killed"),
    ] {
        let server = server([first(), Turn::fault(Fault::Silence)]);
        let host = example("verl_agent_loop.py", &server, &arguments);
        let run = host.args(["--check", "true", "task"]).run().expect(0);
        let output = printed(&run);
        assert_eq!(output["response_ids"], json!([3, 4]), "{status}");
        assert_eq!(output["response_mask"], json!([0, 0]));
        let fields = json!({"exit_status": status, "kind": "timeout", "chains": 1});
        assert_eq!(output["extra_fields"], fields);
    }
    let run = example(
        "verl_agent_loop.py",
        &server([Turn::status(401)]),
        &["task"],
    )
    .run();
    run.expect(1)
        .says(&["RuntimeError: episode", "AuthenticationError"]);
}

/// The status and the body of an answer.
fn post(address: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    write!(
        stream,
        "POST /v1/responses HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn nemo_gym_is_told_of_a_request_without_a_task() {
    if !Need::Python.is_met() {
        return;
    }
    let server = server([first()]);
    let mut service = example("nemo_gym_agent.py", &server, &[]).spawn();
    service.until("its address", |it| it.stdout().contains('\n'));
    let address = service.stdout().trim().replace("http://", "");
    for body in [
        json!({"model": "policy"}),
        json!({"input": []}),
        json!({"input": [{"content": ["task"]}]}),
        json!("task"),
    ] {
        let (status, answer) = post(&address, &body);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(
            status == 400 && error.contains("`input`"),
            "{body}: {answer}"
        );
    }
    service.signal(Signal::TERM);
    service.wait();
    assert!(server.requests().is_empty());
}

#[test]
fn nemo_gym_gets_a_response_with_ids_of_tokens() {
    if !Need::Python.is_met() {
        return;
    }
    let ask = |turns: [Turn; 2], arguments: &[&str]| {
        let server = server(turns);
        let mut service = example("nemo_gym_agent.py", &server, arguments).spawn();
        service.until("its address", |it| it.stdout().contains('\n'));
        let address = service.stdout().trim().replace("http://", "");
        let input = json!([{"role": "user", "content": [{"type": "input_text", "text": "task"}]}]);
        let answer = post(
            &address,
            &json!({"input": input, "temperature": 0.5, "model": "policy"}),
        );
        service.signal(Signal::TERM);
        service.wait();
        assert_eq!(server.requests()[0].json()["temperature"], 0.5);
        answer
    };
    let (status, answer) = ask([first(), last()], &[]);
    assert_eq!(
        (status, &answer["status"]),
        (200, &json!("completed")),
        "{answer:#}"
    );
    let output = answer["output"].as_array().unwrap();
    let kinds: Vec<_> = output
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    let turn = ["message", "function_call", "function_call_output"];
    assert_eq!(kinds, [&turn[..], &turn, &["message"]].concat());
    // Gym takes a call without an output for one of its own tools.
    for at in [1, 4] {
        assert_eq!(output[at]["call_id"], output[at + 1]["call_id"]);
    }
    assert_eq!(output[3]["prompt_token_ids"], json!([1, 2, 3, 4, 5, 6]));
    assert_eq!(output[3]["generation_token_ids"], json!([7]));
    assert_eq!(output[0]["generation_log_probs"], json!([-0.5, -0.5]));
    assert_eq!(output[6]["content"][0]["text"], "fixed");
    assert_eq!(answer["usage"]["total_tokens"], 11);
    // Gym refuses a response without these.
    let details = json!({"cached_tokens": 0, "cache_write_tokens": 0});
    assert_eq!(answer["usage"]["input_tokens_details"], details);

    let (status, answer) = ask([first(), Turn::fault(Fault::Silence)], &["--seconds", "2"]);
    assert_eq!((status, &answer["status"]), (200, &json!("incomplete")));
    assert_eq!(
        answer["metadata"],
        json!({"exit_status": "TimeExceeded", "kind": "timeout"})
    );
    assert_eq!(answer["output"][0]["generation_token_ids"], json!([3, 4]));

    let (status, answer) = ask([first(), Turn::status(401)], &[]);
    assert_eq!(
        (status, answer),
        (502, json!({"error": "AuthenticationError"}))
    );
}
