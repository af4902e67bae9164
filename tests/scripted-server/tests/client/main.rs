//! Tests the server's bytes with a client on a raw socket.

mod connection;

use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use scripted_server::{After, Fault, Scenario, Server, Turn};
use serde_json::{Value, json};

use connection::{Client, Got};

fn request(stream: bool, assistant_messages: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": "s"})];
    for _ in 0..assistant_messages {
        messages.push(json!({"role": "assistant", "content": "a"}));
        messages.push(json!({"role": "user", "content": "u"}));
    }
    json!({"model": "test", "stream": stream, "messages": messages})
}

fn once(turn: Turn, stream: bool) -> Got {
    let server = Server::start(Scenario::new([turn]));
    Client::new(server.address()).ask(&request(stream, 0))
}

#[test]
fn replies_come_over_one_connection() {
    let server = Server::start(Scenario::commands(&["ls", "pwd"]));
    let mut client = Client::new(server.address());
    for command in ["ls", "pwd"] {
        let got = client.ask(&request(false, 0));
        assert!(got.whole && got.status == 200);
        let call = &got.json()["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["arguments"], json!({ "command": command }).to_string());
    }
    let got = client.ask(&request(false, 0));
    assert_eq!(got.status, 500);
    assert_eq!(got.json()["error"]["message"], "scenario exhausted");

    let requests = server.requests();
    assert_eq!((requests.len(), server.served()), (3, 3));
    for recorded in requests {
        assert_eq!(recorded.method, "POST");
        assert_eq!(recorded.path, "/v1/chat/completions");
        assert_eq!(recorded.header("host"), Some("x"));
        assert_eq!(recorded.json(), request(false, 0));
        assert_eq!(recorded.connection, 0);
    }
}

#[test]
fn streams_come_whole_in_any_pieces() {
    let text = "Grüße, 𝄞 and a few more words than fit into one delta";
    let plain = once(Turn::text(text), true);
    assert!(plain.whole && plain.head.contains("content-type: text/event-stream\r\n"));
    assert!(plain.text().ends_with("data: [DONE]\n\n"));
    for bytes in [1, 7, 100_000] {
        let pieces = once(Turn::text(text).in_chunks(bytes, Duration::ZERO), true);
        assert_eq!(pieces.text(), plain.text(), "pieces of {bytes}");
        assert!(pieces.whole);
    }
    let server = Server::start(Scenario::always(Turn::text(text)));
    let mut client = Client::new(server.address());
    let mut body = request(true, 0);
    body["stream_options"] = json!({"include_usage": true});
    assert!(client.ask(&body).text().contains("\"total_tokens\":110"));
    assert!(!client.ask(&request(true, 0)).text().contains("usage"));
}

#[test]
fn delays_and_pauses_take_their_time() {
    let vectors = [
        (Turn::text("x").with_delay(Duration::from_millis(80)), false),
        (
            Turn::text("x").in_chunks(100, Duration::from_millis(40)),
            false,
        ),
        (
            Turn {
                chunk_delay_ms: 30,
                ..Turn::text("x")
            },
            true,
        ),
    ];
    for (turn, stream) in vectors {
        let start = Instant::now();
        let got = once(turn.clone(), stream);
        assert!(got.whole, "{got:?}");
        assert!(start.elapsed() >= Duration::from_millis(80), "{turn:?}");
    }
}

#[test]
fn a_server_that_is_away_refuses_and_comes_back() {
    let away = Turn::text("x").then_away(Duration::from_millis(300));
    let server = Server::start(Scenario::new([away, Turn::text("y")]));
    assert!(Client::new(server.address()).ask(&request(false, 0)).whole);
    let start = Instant::now();
    let mut refused = 0;
    while std::net::TcpStream::connect(server.address()).is_err() {
        refused += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(refused > 0);
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(
        Client::new(server.address())
            .ask(&request(false, 0))
            .text()
            .contains('y')
    );
}

#[test]
fn statuses_have_bodies_and_headers() {
    for status in [400, 401, 403, 404, 408, 429, 500, 502, 503, 529] {
        let got = once(
            Turn::status(status).with_header("Retry-After", "7"),
            status % 2 == 0,
        );
        assert_eq!(got.status, status);
        assert!(got.head.contains("Retry-After: 7\r\n"));
        assert!(got.json()["error"]["message"].is_string());
    }
    let got = once(
        Turn::redirect("http://127.0.0.1:9/").with_status(307),
        false,
    );
    assert_eq!(got.status, 307);
    assert!(got.head.contains("location: http://127.0.0.1:9/\r\n"));
}

#[test]
fn a_turn_may_set_a_wrong_length() {
    let got = once(
        Turn::text("x").with_header("content-length", "100000"),
        false,
    );
    assert!(!got.whole && !got.closed && got.head.matches("length").count() == 1);
}

/// For each fault: whether the response is whole, whether the connection is closed, a part of the body.
#[test]
fn every_fault_shows_in_the_response() {
    let huge = Turn::fault(Fault::HugeHeaders);
    let vectors: Vec<(Turn, bool, bool, bool, &str)> = vec![
        (Turn::fault(Fault::HangUp), false, false, true, ""),
        (Turn::fault(Fault::Silence), false, false, false, ""),
        (Turn::fault(Fault::Cut), false, false, true, "{\"id\""),
        (Turn::fault(Fault::Cut).at(0), false, false, true, ""),
        (Turn::fault(Fault::Cut), true, false, true, "data: {"),
        (Turn::fault(Fault::Stall), false, false, false, "{\"id\""),
        (Turn::fault(Fault::Stall), true, false, false, "data: {"),
        (
            Turn::fault(Fault::Stall).in_chunks(9, Duration::ZERO),
            true,
            false,
            false,
            "data: {",
        ),
        (Turn::fault(Fault::NoDone), false, true, false, "{\"id\""),
        (Turn::fault(Fault::NoDone), true, true, false, "data: {"),
        (
            Turn::fault(Fault::Endless),
            false,
            false,
            false,
            "on and on",
        ),
        (Turn::fault(Fault::Endless), true, false, false, "data: {"),
        (
            Turn::fault(Fault::Html).with_status(502),
            false,
            true,
            false,
            "<html>",
        ),
        (Turn::fault(Fault::InvalidJson), false, true, false, "[}"),
        (Turn::fault(Fault::NoChoices), false, true, false, "usage"),
        (
            Turn::fault(Fault::EmptyChoices),
            false,
            true,
            false,
            "\"choices\":[]",
        ),
        (Turn::fault(Fault::EmptyBody), false, true, false, ""),
        (
            Turn::fault(Fault::ErrorInBody),
            true,
            true,
            false,
            "{\"error\"",
        ),
        (
            Turn::fault(Fault::ErrorInStream),
            true,
            true,
            false,
            "data: {\"error\"",
        ),
        (huge, false, true, false, "{\"id\""),
    ];
    for (turn, stream, whole, closed, part) in vectors {
        let got = once(turn.clone(), stream);
        let shown = String::from_utf8_lossy(&got.body[..got.body.len().min(400)]).into_owned();
        assert_eq!(
            (got.whole, got.closed),
            (whole, closed),
            "{turn:?}: {shown}"
        );
        let body = String::from_utf8_lossy(&got.body);
        assert!(body.contains(part), "{turn:?}: {shown}");
        assert!(whole || !body.contains("[DONE]"), "{turn:?}");
        if turn.fault == Some(Fault::HugeHeaders) {
            assert!(got.head.len() > 1 << 20);
        }
    }
}

#[test]
fn a_server_answers_after_any_fault() {
    let server = Server::start(Scenario::new([
        Turn::fault(Fault::HangUp),
        Turn::fault(Fault::Endless),
        Turn::fault(Fault::Cut),
        Turn::text("fine"),
    ]));
    for _ in 0..3 {
        Client::new(server.address()).ask(&request(true, 0));
    }
    let got = Client::new(server.address()).ask(&request(false, 0));
    assert_eq!(got.json()["choices"][0]["message"]["content"], "fine");
    assert!(server.wait_for(4, Duration::ZERO) && !server.wait_for(5, Duration::ZERO));
}

#[test]
fn parallel_agents_get_the_same_turns() {
    let commands: Vec<String> = (0..20).map(|number| format!("echo {number}")).collect();
    let server = Server::start(Scenario::commands(&commands).by_history());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::new(server.address());
                for (step, command) in commands.iter().enumerate() {
                    let got = client.ask(&request(false, step)).json();
                    let call = &got["choices"][0]["message"]["tool_calls"][0];
                    let want = json!({ "command": command }).to_string();
                    assert_eq!(call["function"]["arguments"], want);
                    assert_eq!(call["id"], format!("call_{step}_0"));
                }
            });
        }
    });
    assert_eq!(server.requests().len(), 160);
}

#[test]
fn other_requests_take_no_turn() {
    let server = Server::start(Scenario::new([Turn::text("x")]));
    let mut client = Client::new(server.address());
    client.send_to("GET /v1/models", "");
    assert_eq!(client.answer().json()["data"][0]["object"], "model");
    client.send_to("GET /", "");
    assert_eq!(client.answer().status, 404);
    client.send_to("POST /v1/chat/completions?x=1", "not JSON");
    assert_eq!(client.answer().status, 400);
    assert_eq!(client.ask(&request(false, 0)).status, 200);
    assert_eq!(server.served(), 4);
}

#[test]
fn a_connection_is_closed_on_request() {
    let server = Server::start(Scenario::always(Turn::text("x")));
    let mut client = Client::new(server.address());
    let body = request(false, 0).to_string();
    client.send_to(
        "POST /chat/completions HTTP/1.1\r\nconnection: close\r\nx: y",
        &body,
    );
    let got = client.answer();
    assert!(got.head.contains("connection: close\r\n"), "{got:?}");
    let mut rest = Vec::new();
    assert_eq!(client.0.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn dropping_a_server_ends_its_threads_and_connections() {
    let threads = |port: u16| {
        let name = format!("scripted-{port}\n");
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read(task.ok()?.path().join("comm")).ok())
            .filter(|comm| comm == name.as_bytes())
            .count()
    };
    for turn in [
        Turn::text("idle"),
        Turn::fault(Fault::Silence),
        Turn::fault(Fault::Stall),
        Turn::fault(Fault::Endless),
        Turn::text("late").with_delay(Duration::from_secs(600)),
        Turn::text("slow").in_chunks(1, Duration::from_secs(600)),
    ] {
        let server = Server::start(Scenario::always(turn.clone()));
        let address = server.address();
        let mut client = Client::new(address);
        client.send(&request(false, 0));
        assert!(server.wait_for(1, Duration::from_secs(5)));
        // One thread accepts, one serves the connection.
        assert_eq!(threads(address.port()), 2, "{turn:?}");
        let start = Instant::now();
        drop(server);
        assert!(start.elapsed() < Duration::from_secs(5), "{turn:?}");
        assert!(TcpStream::connect(address).is_err(), "{turn:?}");
        // The kernel lists a thread for a moment after it was joined.
        while threads(address.port()) > 0 {
            assert!(start.elapsed() < Duration::from_secs(5), "{turn:?}");
        }
    }
}

#[test]
fn without_recording_requests_are_not_kept_and_answers_are_fast() {
    let scenario = Scenario::commands(&["true"]).then(After::Repeat);
    let server = Server::start(scenario).recording(false);
    let mut client = Client::new(server.address());
    let body = request(false, 100);
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(client.ask(&body).whole);
    }
    let each = start.elapsed() / 1000;
    assert!(server.requests().is_empty() && server.served() == 1000);
    // Nagle's algorithm and delayed acknowledgements together would cost 40 ms.
    assert!(
        each < Duration::from_millis(10),
        "{each:?} for each request"
    );
    eprintln!("{each:?} for each request");
}

#[test]
fn every_example_in_the_readme_can_be_played() {
    let readme = include_str!("../../README.md");
    let examples: Vec<&str> = readme
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(examples.len() >= 6);
    let mut faults = Vec::new();
    for example in &examples {
        let scenario =
            Scenario::from_json(example).unwrap_or_else(|error| panic!("{error}: {example}"));
        faults.extend(scenario.turns.iter().filter_map(|turn| turn.fault));
    }
    let faults: BTreeSet<String> = faults.iter().map(|fault| format!("{fault:?}")).collect();
    assert_eq!(faults.len(), 14, "a fault has no example: {faults:?}");
}

#[test]
fn with_any_route_every_post_takes_a_turn() {
    let turns = [
        Turn::status(200).with_body(json!({"type": "message"})),
        Turn::status(529).with_body(json!({"type": "error"})),
    ];
    let scenario = Scenario::new(turns).then(After::Repeat).on_any_route();
    assert_eq!(Scenario::from_json(&scenario.to_json()).unwrap(), scenario);
    let server = Server::start(scenario);
    let mut client = Client::new(server.address());
    for (line, body, status, want) in [
        ("POST /v1/messages", "{\"stream\": true}", 200, "message"),
        ("POST /v1/responses", "no json", 529, "error"),
        (
            "POST /v1/chat/completions",
            "{\"messages\": []}",
            529,
            "error",
        ),
    ] {
        client.send_to(line, body);
        let got = client.answer();
        assert_eq!((got.status, &got.json()["type"]), (status, &json!(want)));
    }
    client.send_to("GET /v1/messages", "");
    assert_eq!(client.answer().status, 404);
    assert_eq!(server.requests().len(), 4);
}
