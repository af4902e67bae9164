//! The time of calls of plugins, and of making an instance.
//!
//! `cargo bench --bench plugins`

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use mswea_host::plugin::{
    Cache, Loader, Plugin, PluginLimits, Recipe, WasmAdapter, WasmFormatter, WasmParser,
    WasmPolicy, WasmProcessor,
};
use mswea_host::roles::{
    Asker, Change, Message, ModelError, Object, Outcome, Parser as _, Part, Processor as _, Reply,
    ToolCall, Usage,
};
use serde_json::{Value, json};
use shared::story::messages;
use shared::{Samples, Table, agent};

const ROUNDS: usize = 200;

fn main() -> ExitCode {
    agent::tokio_runtime().block_on(measure())
}

async fn measure() -> ExitCode {
    let mut table = Table::new("plugins");
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("cache"));
    let loader = Loader::new(Some(cache.clone()));
    let mut cold = Vec::new();
    for name in [
        "parsers/text_regex",
        "parsers/toolcall",
        "formatters/jinja",
        "history/last_n_observations",
        "policies/blocklist",
        "models/openai",
        "models/anthropic",
        "models/openai_responses",
    ] {
        table.note(format!("compiling {name}"));
        let plugin = loader.load(name).await.unwrap_or_else(|e| panic!("{e}"));
        cold.push((name, plugin));
    }
    let plugin = |name: &str| -> Arc<Plugin> {
        let found = cold.iter().find(|(known, _)| *known == name);
        found.map(|(_, plugin)| plugin.clone()).unwrap()
    };

    let text = recipe(plugin("parsers/text_regex"), json!({}));
    let toolcall = recipe(plugin("parsers/toolcall"), json!({}));
    let history = recipe(plugin("history/last_n_observations"), json!({"n": 5}));
    parse(&mut table, "text_regex", text.clone(), text_reply()).await;
    parse(&mut table, "toolcall", toolcall.clone(), tool_reply()).await;
    // Usually only the new messages are returned. If an old observation is shortened, it is
    // returned too: with `polling` 1 (the default) in every step.
    let polled = recipe(
        plugin("history/last_n_observations"),
        json!({"n": 5, "polling": 100}),
    );
    apply(&mut table, "2 messages come back", 2, polled).await;
    apply(&mut table, "3 come back", 3, history.clone()).await;

    let jinja = recipe(plugin("formatters/jinja"), json!({}));
    let blocklist = recipe(plugin("policies/blocklist"), json!({}));
    let openai = recipe(plugin("models/openai"), json!({"model": "m"}));
    // The additional time of a call without an instance: for the store, the instance and its config
    // (and a parser's tools). Dropping an instance delays no call, but it is measured too.
    macro_rules! fresh {
        ($name:expr, $limit:expr, $kind:ident, $recipe:expr) => {{
            let (mut made_in, mut dropped_in) = (Samples::default(), Samples::default());
            for _ in 0..ROUNDS {
                let recipe = $recipe.clone();
                let started = Instant::now();
                let made = $kind::start(recipe).await.unwrap_or_else(|e| panic!("{e}"));
                let done = Instant::now();
                drop(made);
                dropped_in.add_micros(done.elapsed(), 1);
                made_in.add_micros(done - started, 1);
            }
            let name = format!("fresh instance, configured: {}", $name);
            match $limit {
                Some(limit) => table.limited(&name, "µs", &made_in, limit),
                None => table.noted(&name, "µs", &made_in),
            }
            table.noted(&format!("dropping it: {}", $name), "µs", &dropped_in);
        }};
    }
    let limit = Some(50.0);
    fresh!("toolcall", limit, WasmParser, toolcall);
    fresh!("jinja", limit, WasmFormatter, jinja);
    fresh!("openai", limit, WasmAdapter, openai);
    fresh!("last_n_observations", limit, WasmProcessor, history);
    let none: Option<f64> = None;
    fresh!("text_regex (compiles its regex)", none, WasmParser, text);
    fresh!(
        "blocklist (compiles its regexes)",
        none,
        WasmPolicy,
        blocklist
    );

    for (name, plugin) in &cold {
        let compiled = plugin.take_compile_time().unwrap_or_default();
        let cold = Samples::from(compiled.as_secs_f64() * 1e3);
        let mut cached = Samples::default();
        for _ in 0..10 {
            let loader = Loader::new(Some(cache.clone()));
            let started = Instant::now();
            loader.load(name).await.unwrap_or_else(|e| panic!("{e}"));
            cached.add_millis(started.elapsed());
        }
        table.noted(&format!("compile {name}"), "ms", &cold);
        table.noted(&format!("load {name} from the cache"), "ms", &cached);
    }
    table.finish()
}

fn recipe(plugin: Arc<Plugin>, config: Value) -> Recipe {
    let config = plugin
        .check_config(&plugin.name, &config)
        .unwrap_or_else(|error| panic!("{error}"));
    Recipe {
        name: plugin.name.clone(),
        plugin,
        config: config.to_string(),
        limits: PluginLimits::STANDARD,
        seed: 1,
        renderer: None,
        fresh: false,
    }
}

async fn parse(table: &mut Table, name: &str, recipe: Recipe, reply: Reply) {
    const CALLS: usize = 50;
    let mut parser = WasmParser::start(recipe)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let outcome = parser.parse(&reply).await.unwrap();
    let Outcome::Actions(actions) = outcome else {
        panic!("{name}: {outcome:?}");
    };
    assert_eq!(actions.len(), 1, "{name}");
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(parser.parse(&reply).await.unwrap());
        }
        samples.add_micros(started.elapsed(), CALLS);
    }
    table.limited(
        &format!("parse of a 2 KB reply: {name}"),
        "µs",
        &samples,
        25.0,
    );
}

/// An asker that is never called.
struct Nobody;

#[async_trait]
impl Asker for Nobody {
    async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
        unreachable!("this processor asks nothing")
    }
}

/// Adds two messages to a history of 400, as in a run; each time other ones.
async fn apply(table: &mut Table, name: &str, back: usize, recipe: Recipe) {
    const CALLS: usize = 10;
    let story = messages(400 + 2 * CALLS);
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let mut processor = WasmProcessor::start(recipe.clone())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let all = Change::all(story[..400].to_vec());
        processor.apply(all, &mut Nobody).await.unwrap();
        let changes: Vec<Change> = (400..story.len())
            .step_by(2)
            .map(|start| Change {
                start,
                ..Change::all(story[start..start + 2].to_vec())
            })
            .collect();
        let mut answers = Vec::with_capacity(CALLS);
        let started = Instant::now();
        for change in changes {
            answers.push(processor.apply(change, &mut Nobody).await.unwrap());
        }
        samples.add_micros(started.elapsed(), CALLS);
        for answer in answers {
            assert_eq!(answer.messages.len(), back, "{name}");
        }
    }
    table.limited(
        &format!("apply of a 2-message change, history of 400: {name}"),
        "µs",
        &samples,
        10.0,
    );
}

fn prose(bytes: usize) -> String {
    let sentence = "The test fails because the slug keeps its trailing dash, so the last step of \
                    the pipeline has to trim it; let me check `src/slug.rs` first.\n";
    let mut text = sentence.repeat(bytes / sentence.len() + 1);
    text.truncate(bytes);
    text
}

fn usage() -> Option<Usage> {
    Some(Usage {
        input_tokens: 1000,
        output_tokens: 500,
        ..Usage::default()
    })
}

fn text_reply() -> Reply {
    let script = "sed -n '1,40p' src/slug.rs && cargo test slug\n".repeat(8);
    let fence = format!("\n```mswea_bash_command\n{script}```\n");
    let text = prose(2048 - fence.len()) + &fence;
    assert_eq!(text.len(), 2048);
    Reply {
        message: Message::new("assistant", text),
        finish_reason: "stop".into(),
        usage: usage(),
        model: "m".into(),
        ..Reply::default()
    }
}

fn tool_reply() -> Reply {
    let script = "sed -n '1,40p' src/slug.rs && cargo test slug\n".repeat(20);
    let arguments = json!({ "command": script }).to_string();
    let mut message = Message {
        role: "assistant".into(),
        content: vec![Part::text(prose(2048 - arguments.len()))],
        ..Message::default()
    };
    message.tool_calls.push(ToolCall {
        id: "call_1".into(),
        name: "bash".into(),
        arguments,
        extra: Object::new(),
    });
    Reply {
        message,
        finish_reason: "tool_calls".into(),
        usage: usage(),
        model: "m".into(),
        ..Reply::default()
    }
}
