//! What a guest can see of its surroundings: nothing that differs between two runs, no files, no network.
//! Also instances that are discarded after every call.

use mswea_host::plugin::{Recipe, WasmAdapter, WasmFormatter, WasmParser};
use mswea_host::roles::{Change, Formatter, Message, Outcome, Output, Parser};
use serde_json::{Value, json};

use super::guests::{recipe, tight};
use super::limits::{action, exchange, history, reply};

async fn look(seed: u64) -> Value {
    let config = json!({"at": "parse", "do": "look"});
    let recipe = Recipe {
        seed,
        ..recipe(config, tight()).await
    };
    let mut parser = WasmParser::start(recipe).await.unwrap();
    match parser.parse(&reply("")).await.unwrap() {
        Outcome::Actions(actions) => serde_json::from_str(&actions[0].command).unwrap(),
        Outcome::Malformed(problem) => panic!("{problem:?}"),
    }
}

#[tokio::test]
async fn everything_is_denied_or_fixed() {
    let mut seen = look(1).await;
    let random = seen["random"].take();
    let expected = json!({
        "seconds": 946_684_800,
        "elapsed_ns": 0,
        "random": null,
        "variables": 0,
        "arguments": 0,
        "stdin": "0",
        "list": "denied",
        "list_here": "denied",
        "read": "denied",
        "write": "denied",
        "temporary": "denied",
        "tcp": "denied",
        "listen": "denied",
        "udp": "denied",
        "names": "denied",
    });
    assert_eq!(seen, expected);
    assert!(!std::path::Path::new("/tmp/hostile").exists());
    // The random numbers follow from the run's seed.
    assert_eq!(random, look(1).await["random"]);
    assert_ne!(random, look(2).await["random"]);
}

#[tokio::test]
async fn fresh_instances_have_no_state_of_earlier_calls() {
    for (fresh, expected) in [(false, ["call 1", "call 2"]), (true, ["call 1", "call 1"])] {
        let config = json!({"at": "format", "do": "state"});
        let recipe = Recipe {
            fresh,
            ..recipe(config, tight()).await
        };
        let mut formatter = WasmFormatter::start(recipe).await.unwrap();
        for expected in expected {
            let messages = formatter.format(&[action()], &[Output::default()]).await;
            assert_eq!(messages.unwrap().last().unwrap().text(), expected);
        }
    }
}

#[tokio::test]
async fn a_fresh_adapter_gets_the_whole_history() {
    let mut bodies = Vec::new();
    for fresh in [false, true] {
        let recipe = Recipe {
            fresh,
            ..recipe(json!({}), tight()).await
        };
        let mut adapter = WasmAdapter::start(recipe).await.unwrap();
        let mut of_this = Vec::new();
        of_this.push(
            exchange(&mut adapter, &Change::all(history()))
                .await
                .unwrap(),
        );
        for start in [2, 3, 1] {
            let change = Change {
                start,
                ..Change::all([Message::new("user", format!("from {start}"))])
            };
            of_this.push(exchange(&mut adapter, &change).await.unwrap());
        }
        bodies.push(of_this);
    }
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[1][2].contains("from 2") && bodies[1][2].contains("from 3"));
    assert!(bodies[1][3].contains("from 1") && !bodies[1][3].contains("from 2"));
}
