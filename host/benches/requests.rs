//! The time to make a request from a long history, and to render the prompts.
//!
//! `cargo bench --bench requests`
//!
//! An adapter keeps the encoded messages, and the host keeps the last body. So a step encodes its
//! own two messages, calls the guest, and copies at most two chunks of the body. For comparison,
//! the benchmark also measures whole bodies, as with `--fresh-instances` and from adapters without
//! `body-pieces`.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't measure ends")]

mod shared;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mswea_host::plugin::{Cache, Loader, PluginLimits, Recipe, WasmAdapter, templates};
use mswea_host::roles::{Adapter as _, AdapterNext, Change, Object, Tool};
use serde_json::{Value, json};
use shared::story::messages;
use shared::{Samples, Table, agent};

const ROUNDS: usize = 100;
const STEPS: usize = 10;
const HISTORY: usize = 400;

fn main() -> ExitCode {
    agent::tokio_runtime().block_on(measure())
}

async fn measure() -> ExitCode {
    let mut table = Table::new("requests: a history of 400 messages");
    let folder = tempfile::tempdir().unwrap();
    let loader = Loader::new(Some(Cache::at(folder.path().join("cache"))));
    for (name, limited) in [
        ("models/openai", true),
        ("models/anthropic", true),
        ("models/openai_responses", true),
        ("models/openrouter", false),
        ("models/gemini", false),
    ] {
        table.note(name);
        let plugin = loader.load(name).await.unwrap_or_else(|e| panic!("{e}"));
        let config = json!({"model": "m"});
        let config = plugin
            .check_config(&plugin.name, &config)
            .unwrap_or_else(|e| panic!("{e}"));
        let recipe = Recipe {
            name: plugin.name.clone(),
            plugin,
            config: config.to_string(),
            limits: PluginLimits::STANDARD,
            seed: 1,
            renderer: None,
            fresh: false,
        };
        encode(&mut table, name, limited, &recipe).await;
    }
    render(&mut table);
    table.finish()
}

async fn encode(table: &mut Table, name: &str, limited: bool, recipe: &Recipe) {
    let story: Vec<_> = messages(HISTORY + 2 * STEPS)
        .iter()
        .map(mswea_host::roles::Message::light)
        .collect();
    let tools = [Tool {
        name: "bash".into(),
        description: "Runs a command".into(),
        parameters: json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        }),
        extra: Object::new(),
    }];
    let mut times = [Samples::default(), Samples::default()];
    let mut bytes = 0;
    for round in 0..2 * ROUNDS {
        let mut adapter = WasmAdapter::start(recipe.clone())
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let is_whole = round % 2 == 1;
        if is_whole {
            adapter.say_whole();
        }
        adapter
            .query(&Change::all(story[..HISTORY].to_vec()), &tools)
            .await
            .unwrap();
        for step in 0..STEPS {
            let start = HISTORY + 2 * step;
            let change = Change {
                start,
                ..Change::all(story[start..start + 2].to_vec())
            };
            let begun = Instant::now();
            let next = adapter.query(&change, &tools).await.unwrap();
            let queried = begun.elapsed();
            let AdapterNext::Send(request) = next else {
                panic!("{name} sends nothing");
            };
            bytes = request.body.len();
            times[usize::from(is_whole)].add_micros(queried, 1);
        }
    }
    let [pieced, whole] = times;
    let figure = format!("{name}: a step's request of {} KB", bytes / 1000);
    if limited {
        table.limited(&figure, "µs", &pieced, 50.0);
    } else {
        table.noted(&figure, "µs", &pieced);
    }
    table.noted(&format!("{figure}, said whole"), "µs", &whole);
}

fn render(table: &mut Table) {
    let config = agent::config("http://127.0.0.1:1/v1", std::path::Path::new("."), 1, false);
    let templates = templates(None);
    let vars = json!({
        "task": "Fix the failing test.", "cwd": "/work", "shell": "bash", "timeout": 30,
        "system": "Linux", "release": "6.1", "version": "1", "machine": "x86_64",
    });
    let output = json!({"output": {
        "output": "a line of an observation with \"quotes\" and ümläuts\n".repeat(20_000 / 52),
        "returncode": 0, "exception_info": "", "extra": {},
    }});
    let (vars, output) = (object(vars), object(output));
    let own = include_str!("../../plugins/formatters/jinja/templates/json.jinja");
    let observation = config.model.observation_template.as_deref().unwrap_or(own);
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for template in [
            &config.agent.system_template,
            &config.agent.instance_template,
        ] {
            black_box(templates.render(template, &vars).unwrap());
        }
        black_box(templates.render(observation, &output).unwrap());
        samples.add_micros(begun.elapsed(), 1);
    }
    table.limited(
        "rendering the default prompts and an observation of 20 KB",
        "µs",
        &samples,
        300.0,
    );
}

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}
