//! `plugin bench`: measures a plugin, compared with the built-in one of its kind.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::args::BenchArgs;
use super::super::exit::ExitCode;
use super::super::output::{self, Failure};
use super::{config, hint, load_with};
use mswea_core::{
    Action, Asker, Change, ConfiguredRole, ErrorClass, Maker as _, Message, ModelError, Output,
    PluginFault, Refused, Reply, ToolCall,
};
use mswea_plugin_host::{ByHand, Cache, Loader, Plugin, RoleKind, WasmMaker, builtin};
use mswea_session::outside;

/// The longest time, and the largest number, of measured warm calls.
const FOR: Duration = Duration::from_millis(1_500);
const CALLS: usize = 5_000;
/// The largest number of measured fresh instances.
const FRESH: usize = 50;

/// The measured figures of one plugin in one role; times in microseconds.
struct Figures {
    name: String,
    size: usize,
    compile: Option<Duration>,
    /// Measures the time from the file, or from the cache, to the first result.
    first: Duration,
    warm: Percentiles,
    fresh: Percentiles,
    memory: Option<usize>,
}

struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
    count: usize,
}

impl Percentiles {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |share: usize| {
            let index = (samples.len() * share / 100).min(samples.len().saturating_sub(1));
            samples.get(index).copied().unwrap_or_default()
        };
        Self {
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: samples.last().copied().unwrap_or_default(),
            count: samples.len(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "p50_us": self.p50, "p90_us": self.p90, "p99_us": self.p99, "max_us": self.max,
            "calls": self.count,
        })
    }
}

/// Measures.
pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let given = config(args.config.as_deref())?;
    let runtime = output::runtime()?;
    runtime.block_on(async {
        let folder = tempfile::tempdir().map_err(anyhow::Error::from)?;
        let plugin = load_with(&Loader::new(Cache::of_user()), &args.plugin).await?;
        let mut tables = Vec::new();
        for kind in plugin.kinds.clone() {
            let mut rows = vec![measure(&args.plugin, kind, &given, folder.path()).await?];
            let (other, config) = match &args.against {
                Some(other) => (other.clone(), given.clone()),
                None => counterpart(kind, &plugin).await,
            };
            let same = builtin::find(&args.plugin).is_some_and(|own| own.name == other);
            if !same {
                rows.push(measure(&other, kind, &config, folder.path()).await?);
            }
            tables.push((kind, rows));
        }
        if args.json {
            let tables: Vec<Value> = tables
                .iter()
                .map(|(kind, rows)| as_json(*kind, rows))
                .collect();
            return output::json(&tables.into());
        }
        let text: Vec<String> = tables
            .iter()
            .map(|(kind, rows)| table(*kind, rows))
            .collect();
        output::text(&text.join("\n"))
    })
}

/// The built-in plugin with which this one is compared.
async fn counterpart(kind: RoleKind, plugin: &Arc<Plugin>) -> (String, Value) {
    let name = match kind {
        RoleKind::ModelAdapter => return ("openai".into(), json!({"model": "m"})),
        RoleKind::ActionParser => {
            // The parser for the same form of replies: with tool calls, or text.
            let made = outside::maker(plugin.clone())
                .make(kind, &json!({}), false)
                .await;
            match made {
                Ok(ConfiguredRole::Parser(parser)) if !parser.tools().is_empty() => "toolcall",
                _ => "text_regex",
            }
        }
        RoleKind::ObservationFormatter => "jinja",
        RoleKind::HistoryProcessor => return ("last_n_observations".into(), json!({"n": 5})),
        RoleKind::ActionPolicy => "blocklist",
    };
    (name.into(), json!({}))
}

async fn measure(
    spec: &str,
    kind: RoleKind,
    config: &Value,
    cache: &std::path::Path,
) -> Result<Figures, Failure> {
    // The plugin is compiled into a new cache and then loaded from it, as in the first run and in
    // every later run.
    let cache = Cache::at(cache.join("wasm"));
    let plugin = load_with(&Loader::new(Some(cache.clone())), spec).await?;
    let compile = plugin.take_compile_time();
    let started = Instant::now();
    let plugin = load_with(&Loader::new(Some(cache)), spec).await?;
    let maker = outside::maker(plugin.clone());
    let refused = |refused: Refused| {
        Failure::new(
            ExitCode::Plugin,
            format!(
                "`{spec}` can't be used as {kind}: {refused}{}",
                hint(&refused)
            ),
        )
    };
    let fault = |fault: PluginFault| Failure::new(ExitCode::Plugin, fault.message);
    let made = maker.make(kind, config, false).await.map_err(refused)?;
    let mut subject = Subject::new(made);
    subject.call().await.map_err(fault)?;
    let first = started.elapsed();

    let (mut warm, begun) = (Vec::new(), Instant::now());
    while warm.len() < CALLS && (begun.elapsed() < FOR || warm.len() < 20) {
        let started = Instant::now();
        subject.call().await.map_err(fault)?;
        warm.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let (mut fresh, begun) = (Vec::new(), Instant::now());
    while fresh.len() < FRESH && (begun.elapsed() < FOR || fresh.len() < 5) {
        let started = Instant::now();
        let made = maker.make(kind, config, false).await.map_err(refused)?;
        Subject::new(made).call().await.map_err(fault)?;
        fresh.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Figures {
        name: plugin.name.to_string(),
        size: plugin.size,
        compile,
        first,
        warm: Percentiles::of(warm),
        fresh: Percentiles::of(fresh),
        memory: memory(&maker, kind, config).await,
    })
}

/// Linear memory after a call.
async fn memory(maker: &WasmMaker, kind: RoleKind, config: &Value) -> Option<usize> {
    let recipe = maker.recipe(config, false).ok()?;
    let mut by_hand = ByHand::start(recipe, false).await.ok()?;
    let reply = reply();
    let message = json!({
        "role": "assistant",
        "content": reply.message.text(),
        "tool_calls": reply.message.tool_calls.iter().map(|call| json!({
            "id": call.id, "name": call.name, "arguments": call.arguments,
        })).collect::<Vec<_>>(),
    });
    let messages = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "t"}]);
    let (function, arguments) = match kind {
        RoleKind::ModelAdapter => (
            "query",
            json!({"change": {"messages": messages}, "request": {}}),
        ),
        RoleKind::ActionParser => ("parse", json!({"message": message})),
        RoleKind::ObservationFormatter => (
            "format",
            json!({"actions": [{"command": "ls"}], "outputs": [{"output": text(2_000)}]}),
        ),
        RoleKind::HistoryProcessor => ("apply", json!({"start": 0, "messages": messages})),
        RoleKind::ActionPolicy => ("judge", json!({"command": "ls"})),
    };
    by_hand.call(function, &arguments).await.ok()?;
    Some(by_hand.memory())
}

/// A role and the arguments of its calls.
struct Subject {
    made: ConfiguredRole,
    history: usize,
}

/// A benchmark has no model for queries of processors.
struct Silent;

#[async_trait::async_trait]
impl Asker for Silent {
    async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
        Err(ModelError::new(
            ErrorClass::Other("bench".into()),
            "queries of processors get no reply in a benchmark",
        ))
    }
}

impl Subject {
    fn new(made: ConfiguredRole) -> Self {
        Self { made, history: 0 }
    }

    async fn call(&mut self) -> Result<(), PluginFault> {
        match &mut self.made {
            ConfiguredRole::Parser(parser) => parser.parse(&reply()).await.map(drop),
            ConfiguredRole::Formatter(formatter) => {
                let actions = [Action {
                    command: "cat file".into(),
                    tool_call_id: Some("call_1".into()),
                    ..Action::default()
                }];
                let outputs = [Output {
                    output: text(2_000),
                    ..Output::default()
                }];
                formatter.format(&actions, &outputs).await.map(drop)
            }
            ConfiguredRole::Policy(policy) => {
                let action = Action {
                    command: "grep -rn 'needle' src | head -20".into(),
                    ..Action::default()
                };
                policy.judge(&action).await.map(drop)
            }
            // As in a run: a history that grows to fifty steps, and then begins again.
            ConfiguredRole::Processor(processor) => {
                let change = grown(&mut self.history);
                processor.apply(change, &mut Silent).await.map(drop)
            }
            ConfiguredRole::Adapter(adapter) => {
                let change = grown(&mut self.history);
                let query = adapter.query(&change, &[]).await;
                query
                    .map(drop)
                    .map_err(|error| PluginFault::new(error.to_string()))
            }
        }
    }
}

/// The next step of a history: a reply of the model and the outputs of its actions.
fn grown(steps: &mut usize) -> Change {
    if *steps == 50 {
        *steps = 0;
    }
    let mut messages = match *steps {
        0 => vec![
            Message::new("system", text(1_000)),
            Message::new("user", text(1_000)),
        ],
        _ => Vec::new(),
    };
    let start = match *steps {
        0 => 0,
        steps => 2 * steps + 2,
    };
    messages.push(Message::new("assistant", text(500)));
    messages.push(Message::new("user", text(2_000)));
    *steps += 1;
    Change {
        start,
        ..Change::all(messages)
    }
}

/// Plain text of about `bytes` bytes.
fn text(bytes: usize) -> String {
    "The quick brown fox jumps over the lazy dog.\n".repeat(bytes / 45)
}

/// A reply of 2 KB that is well-formed for text parsers and for those of tool calls.
fn reply() -> Reply {
    let command = "grep -rn 'needle' src";
    let mut message = Message::new(
        "assistant",
        format!("{}\n```mswea_bash_command\n{command}\n```\n", text(1_900)),
    );
    message.tool_calls.push(ToolCall {
        id: "call_1".into(),
        name: "bash".into(),
        arguments: json!({ "command": command }).to_string(),
        extra: serde_json::Map::new(),
    });
    Reply {
        message,
        ..Reply::default()
    }
}

fn as_json(kind: RoleKind, rows: &[Figures]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "plugin": row.name,
                "size": row.size,
                "compile_ms": row.compile.map(|took| took.as_secs_f64() * 1e3),
                "load_and_first_call_ms": row.first.as_secs_f64() * 1e3,
                "warm": row.warm.json(),
                "fresh": row.fresh.json(),
                "memory": row.memory,
            })
        })
        .collect();
    json!({ "kind": kind.interface(), "plugins": rows })
}

fn table(kind: RoleKind, rows: &[Figures]) -> String {
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    let mut line = |name: &'static str, show: &dyn Fn(&Figures) -> String| {
        lines.push((name, rows.iter().map(show).collect()));
    };
    line("size", &|row| format!("{} KB", row.size.div_ceil(1000)));
    line("compile, once", &|row| match row.compile {
        Some(took) => format!("{:.0} ms", took.as_secs_f64() * 1e3),
        None => "ahead of time".into(),
    });
    line("load and first call", &|row| {
        format!("{:.1} ms", row.first.as_secs_f64() * 1e3)
    });
    line("call p50", &|row| micros(row.warm.p50));
    line("call p90", &|row| micros(row.warm.p90));
    line("call p99", &|row| micros(row.warm.p99));
    line("call max", &|row| micros(row.warm.max));
    line("calls", &|row| row.warm.count.to_string());
    line("fresh instance and call p50", &|row| micros(row.fresh.p50));
    line("memory of an instance", &|row| match row.memory {
        Some(bytes) => format!("{} KiB", bytes >> 10),
        None => "unknown".into(),
    });
    let width = rows
        .iter()
        .map(|row| row.name.len())
        .chain(
            lines
                .iter()
                .flat_map(|(_, cells)| cells.iter().map(String::len)),
        )
        .max()
        .unwrap_or_default();
    let mut text = format!("{:28}", kind.interface());
    for row in rows {
        let _ = write!(text, "  {:>width$}", row.name);
    }
    text.push('\n');
    for (name, cells) in lines {
        let _ = write!(text, "{name:28}");
        for cell in cells {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

fn micros(micros: f64) -> String {
    match micros {
        ..1_000.0 => format!("{micros:.1} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}
