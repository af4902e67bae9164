//! Request bodies that adapters return in pieces: the server gets the same bytes as of whole bodies, also
//! when a request is repeated. Invalid pieces are a fault of the plugin.

use std::fs;

use mswea_host::plugin::{Loader, Recipe, WasmAdapter};
use mswea_host::roles::{Adapter as _, AdapterNext, Change, Message, RequestBody};
use scripted_server::{Fault, Recorded, Scenario, Server, Turn};
use serde_json::json;

use super::fallbacks::adapter;
use super::guests::{hostile, recipe, replaced, tight};
use crate::host::Host;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the-work";

/// The observation is the whole output of a command.
const WHOLE_OUTPUT: [&str; 2] = ["-c", "model.observation_template='{{ output.output }}'"];

async fn body(adapter: &mut WasmAdapter, change: &Change) -> RequestBody {
    match adapter.query(change, &[]).await.unwrap() {
        AdapterNext::Send(request) => request.body,
        AdapterNext::Reply(_) => panic!("the adapter sends a request first"),
    }
}

fn change(start: usize, bytes: usize) -> Change {
    Change {
        start,
        ..Change::all([Message::new("user", "x".repeat(bytes))])
    }
}

#[tokio::test]
async fn unchanged_chunks_of_a_body_are_shared() {
    let plugin = Loader::new(None).load("models/openai").await.unwrap();
    let config = plugin
        .check_config("openai", &json!({"model": "m"}))
        .unwrap();
    let hostile = recipe(json!({}), tight()).await;
    let openai = Recipe {
        plugin,
        config: config.to_string(),
        ..hostile.clone()
    };
    for recipe in [openai, hostile] {
        let name = recipe.plugin.name.to_string();
        let mut pieced = WasmAdapter::start(recipe.clone()).await.unwrap();
        let mut whole = WasmAdapter::start(recipe).await.unwrap();
        assert!(whole.say_whole());
        let mut last = RequestBody::default();
        // The history grows, changes in the middle, grows, is replaced, grows.
        for (start, bytes) in [
            (0, 200_000),
            (1, 5),
            (2, 150_000),
            (1, 30),
            (2, 100),
            (0, 3),
            (1, 300_000),
        ] {
            let change = change(start, bytes);
            let body = body(&mut pieced, &change).await;
            assert!(body == self::body(&mut whole, &change).await, "{name}");
            let is_old = |chunk: &&bytes::Bytes| {
                last.chunks()
                    .iter()
                    .any(|old| old.as_ptr() == chunk.as_ptr())
            };
            let shared: usize = body
                .chunks()
                .iter()
                .filter(is_old)
                .map(bytes::Bytes::len)
                .sum();
            // Full chunks of 64 KiB are shared; parts of chunks are copied.
            let kept = body.len().saturating_sub(bytes);
            if start > 0 {
                assert!(shared + (128 << 10) >= kept, "{name}: {shared} of {kept}");
            }
            last = body;
        }
        // A new instance has no last body.
        pieced.discard();
        let change = change(0, 10);
        assert!(body(&mut pieced, &change).await == body(&mut whole, &change).await);
    }
}

#[test]
fn a_plugin_with_an_unknown_interface_returns_whole_bodies() {
    let bytes = fs::read(hostile()).unwrap();
    let unknown = replaced(
        &bytes,
        "mswea:plugin/body-pieces@0.1.0",
        "mswea:plugin/body-puzzle@0.1.0",
    );
    let commands = ["echo one", "echo two", SUBMIT];
    let server = Server::start(Scenario::commands(&commands));
    // The plugin would panic in `pieces`, which the host never calls.
    let run = Host::new()
        .server(&server)
        .task("do it")
        .file("unknown.wasm", unknown)
        .args(["-c", "pipeline.adapter=./unknown.wasm"])
        .args([
            "-c",
            r#"plugins.unknown.config={"at":"pieces","do":"panic"}"#,
        ])
        .args(["--allow-host", &server.address().to_string()])
        .run()
        .expect(0);
    assert!(run.events("plugin_fault").is_empty(), "{run}");
    assert_eq!(server.served(), 3);
}

#[test]
fn an_adapter_with_wrong_pieces_is_replaced_and_gets_the_whole_history() {
    let commands = ["echo one", "echo two", SUBMIT];
    let plain = Server::start(Scenario::commands(&commands));
    adapter(&plain, &json!({})).run().expect(0);
    for (at, deed, part) in [
        ("offer", "panic", "the guest's last words, in `offer`"),
        ("pieces", "panic", "the guest's last words, in `pieces`"),
        ("pieces", "recurse", "its stack overflowed"),
        (
            "pieces",
            "beyond",
            "bytes of the last body from byte 1 on, which has",
        ),
        (
            "pieces",
            "many",
            "a body in 1025 pieces, where 1024 are allowed",
        ),
    ] {
        let server = Server::start(Scenario::commands(&commands));
        // The second instance would fail in its third call, which the run does not reach.
        let config = json!({"at": at, "do": deed, "from": 3, "size": 1025});
        let run = adapter(&server, &config).run().expect(0);
        let faults = run.events("plugin_fault");
        let said = faults[0]["message"].as_str().unwrap();
        let failed = format!("plugin `hostile` failed in `{at}`");
        assert!(said.contains(&failed) && said.contains(part), "{said}");
        assert_eq!(faults.len(), 1, "{run}");
        // The first two messages name folders, which differ.
        let tail = |server: &Server| {
            server.requests()[2].json()["messages"].as_array().unwrap()[2..].to_vec()
        };
        assert_eq!(tail(&server), tail(&plain));
    }
}

#[test]
fn pieces_that_are_wrong_twice_end_the_run() {
    for (deed, part) in [
        (
            "beyond-max",
            "keeps 18446744073709551615 bytes of the last body, but there is no last body",
        ),
        (
            "big",
            "returned more than 1 MiB (`plugins.hostile.max_output_mb`",
        ),
    ] {
        let server = Server::start(Scenario::commands(&["true"]));
        let config = json!({"at": "pieces", "do": deed, "size": 2 << 20});
        let run = adapter(&server, &config)
            .args(["-c", "plugins.hostile.max_output_mb=1"])
            .run()
            .expect(7)
            .says(&[
                "failed in `pieces`",
                part,
                "a fresh instance of the plugin failed as well",
            ]);
        assert_eq!(run.exit_status(), "PluginError");
        assert_eq!(server.served(), 0, "{run}");
    }
}

#[test]
fn the_size_limit_counts_the_body_that_pieces_make() {
    let server = Server::start(Scenario::commands(&["seq 1 2000", "true"]));
    // Each piece is small; the body that they make is larger than the limit.
    let config = json!({"at": "pieces", "do": "big-kept", "from": 2});
    let run = adapter(&server, &config)
        .args(["-c", "plugins.hostile.max_output_mb=1"])
        .run();
    let fault = &run.events("plugin_fault")[0]["message"];
    let fault = fault.as_str().unwrap();
    assert!(fault.contains("failed in `pieces`"), "{fault}");
    assert!(fault.contains("returned more than 1 MiB"), "{fault}");
}

/// The parts of a request that are the same when it is sent again: body, length, transfer encoding.
fn wire(request: &Recorded) -> (&[u8], Option<&str>, Option<&str>) {
    let header = |name| request.header(name);
    (
        &request.body,
        header("content-length"),
        header("transfer-encoding"),
    )
}

#[test]
fn a_long_body_is_sent_with_its_length_and_repeated_unchanged() {
    let long = "seq 1 20000";
    for name in [
        "openai",
        "anthropic",
        "openai_responses",
        "openrouter",
        "gemini",
    ] {
        let mut turns = vec![];
        for _ in 0..3 {
            // Two faults before each reply.
            turns.push(Turn::status(500));
            turns.push(Turn::fault(Fault::HangUp));
            turns.push(Turn::commands(&[long]));
        }
        turns.push(Turn::commands(&[SUBMIT]));
        let scenario = Scenario::new(turns);
        let sent = |flags: &[&str]| {
            let server = Server::start(scenario.clone());
            let run = Host::new()
                .server(&server)
                .task("do it")
                .args(["-c", &format!("pipeline.adapter={name}")])
                .args(WHOLE_OUTPUT)
                .args(["-c", "model.retry_wait=0.01"])
                .args(flags)
                .run()
                .expect(0);
            assert!(run.events("plugin_fault").is_empty(), "{run}");
            // The task names the folder.
            let folder = run.dir.to_str().unwrap().to_owned();
            (server.requests(), folder)
        };
        let (requests, folder) = sent(&[]);
        assert_eq!(requests.len(), 10, "{name}");
        for (index, request) in requests.iter().enumerate() {
            let length = request.body.len().to_string();
            assert_eq!(wire(request).1, Some(&*length), "{name}");
            assert_eq!(wire(request).2, None, "{name}");
            assert!(wire(request) == wire(&requests[index / 3 * 3]), "{name}");
        }
        // The bodies have several chunks.
        let length = requests[9].body.len();
        assert!(length > 300_000, "{name}: {length}");
        let (whole, other) = sent(&["--fresh-instances"]);
        let text = |request: &Recorded| String::from_utf8(request.body.clone()).unwrap();
        for (pieced, whole) in requests.iter().zip(&whole) {
            assert!(
                text(pieced).replace(&folder, &other) == text(whole),
                "{name}"
            );
        }
    }
}
