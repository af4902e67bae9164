//! Every limit in every call, through the library: the call ends, the message names the plugin, the
//! call, the cause and the remedy, and a fresh instance answers the next call.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use mswea_host::plugin::{
    PluginLimits, Recipe, WasmAdapter, WasmFormatter, WasmParser, WasmPolicy, WasmProcessor,
};
use mswea_host::roles::{
    Action, Adapter, AdapterNext, Asker, Change, Formatter, Message, ModelError, Output, Parser,
    Policy, Processor, Reply, ToolCall,
};
use serde_json::{Value, json};

use super::guests::{recipe, tight};

/// Answers every question of a processor, and counts the questions.
#[derive(Default)]
pub struct Counting(pub usize);

#[async_trait]
impl Asker for Counting {
    async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
        self.0 += 1;
        Ok(reply("an answer"))
    }
}

/// A reply that calls the tool, with this text.
pub fn reply(text: &str) -> Reply {
    let mut message = Message::new("assistant", text);
    message.tool_calls.push(ToolCall {
        id: "1".into(),
        name: "bash".into(),
        arguments: r#"{"command": "ls"}"#.into(),
        extra: Default::default(),
    });
    Reply {
        message,
        ..Reply::default()
    }
}

pub fn action() -> Action {
    Action {
        command: "ls".into(),
        tool_call_id: Some("1".into()),
        ..Action::default()
    }
}

pub fn history() -> Vec<Message> {
    vec![Message::new("system", "s"), Message::new("user", "u")]
}

/// One instance of the plugin in one role.
pub enum Role {
    Parser(WasmParser),
    Formatter(WasmFormatter),
    Processor(WasmProcessor),
    Policy(WasmPolicy),
    Adapter(WasmAdapter),
}

/// The calls that a config can name, apart from `configure`.
const CALLS: [&str; 8] = [
    "parse", "format", "apply", "judge", "query", "head", "feed", "finish",
];

impl Role {
    /// The role that has this call.
    pub async fn of(call: &str, recipe: Recipe) -> Result<Self, String> {
        let made = match call {
            "parse" | "tools" | "configure" => WasmParser::start(recipe).await.map(Self::Parser),
            "format" => WasmFormatter::start(recipe).await.map(Self::Formatter),
            "apply" | "resume" => WasmProcessor::start(recipe).await.map(Self::Processor),
            "judge" => WasmPolicy::start(recipe).await.map(Self::Policy),
            _ => WasmAdapter::start(recipe).await.map(Self::Adapter),
        };
        made.map_err(|error| error.to_string())
    }

    /// Makes the calls that the host makes in one step.
    pub async fn step(&mut self) -> Result<String, String> {
        match self {
            Self::Parser(parser) => parser
                .parse(&reply("text"))
                .await
                .map(|outcome| format!("{outcome:?}"))
                .map_err(|fault| fault.message),
            Self::Formatter(formatter) => formatter
                .format(&[action()], &[Output::default()])
                .await
                .map(|messages| format!("{messages:?}"))
                .map_err(|fault| fault.message),
            Self::Processor(processor) => processor
                .apply(Change::all(history()), &mut Counting::default())
                .await
                .map(|change| format!("{change:?}"))
                .map_err(|fault| fault.message),
            Self::Policy(policy) => policy
                .judge(&action())
                .await
                .map(|verdict| format!("{verdict:?}"))
                .map_err(|fault| fault.message),
            Self::Adapter(adapter) => {
                exchange(adapter, &Change::all(history()))
                    .await
                    .map_err(|error| {
                        // The provider layer does the same.
                        adapter.discard();
                        error.message
                    })
            }
        }
    }
}

/// One query with a response in one piece; returns the request's body.
pub async fn exchange(adapter: &mut WasmAdapter, change: &Change) -> Result<String, ModelError> {
    let AdapterNext::Send(request) = adapter.query(change, &[]).await? else {
        panic!("the adapter sends a request first");
    };
    adapter.head(200, &[]).await?;
    adapter
        .feed(br#"{"choices": [{"message": {"content": "hello"}}]}"#)
        .await?;
    match adapter.finish().await? {
        AdapterNext::Reply(reply) => assert_eq!(reply.message.text(), "hello"),
        AdapterNext::Send(_) => panic!("the adapter replies after one response"),
    }
    Ok(String::from_utf8_lossy(&request.body.joined()).into_owned())
}

/// Deeds, and parts of the error that each of them leads to in every call.
const DEEDS: [(&str, &[&str]); 9] = [
    (
        "loop",
        &[
            "still running after 400 ms",
            "`plugins.hostile.deadline_ms` raises",
        ],
    ),
    ("sleep", &["still running after 400 ms"]),
    (
        "bomb",
        &[
            "more than 32 MiB of memory",
            "`plugins.hostile.memory_mb` raises",
        ],
    ),
    ("recurse", &["its stack overflowed"]),
    ("recurse-wide", &["its stack overflowed"]),
    ("panic", &["panicked at", "the guest's last words"]),
    ("panic-escapes", &["red: , title: \n"]),
    ("flood-panic", &["last words after a flood"]),
    ("exit", &["it called `exit("]),
];

/// A short deadline for deeds that end by it, a long one for the others, which need more time on a loaded
/// machine.
fn tight_for(deed: &str) -> PluginLimits {
    let deadline = match deed {
        "loop" | "sleep" => tight().deadline,
        _ => Duration::from_secs(60),
    };
    PluginLimits {
        deadline,
        ..tight()
    }
}

#[tokio::test]
async fn a_deed_in_any_call_ends_only_that_call() {
    for call in CALLS {
        for (deed, parts) in DEEDS {
            let case = format!("`{deed}` in `{call}`");
            let config = json!({"at": call, "do": deed, "from": 2});
            let mut role = Role::of(call, recipe(config, tight_for(deed)).await)
                .await
                .unwrap();
            role.step()
                .await
                .unwrap_or_else(|error| panic!("{case}, first: {error}"));
            let started = Instant::now();
            let error = role.step().await.expect_err(&case);
            assert!(
                deed.contains("flood") || started.elapsed().as_secs() < 10,
                "{case}"
            );
            let head = format!("plugin `hostile` failed in `{call}`: ");
            assert!(error.starts_with(&head), "{case}: {error}");
            for part in parts {
                assert!(error.contains(part), "{case}: `{part}` is not in: {error}");
            }
            assert!(
                !error.contains(['\u{1b}', '\u{7}']) && error.len() < 8 << 10,
                "{case}"
            );
            role.step()
                .await
                .unwrap_or_else(|error| panic!("{case}, afterwards: {error}"));
        }
    }
}

#[tokio::test]
async fn every_deed_in_configure_is_an_error_at_the_start() {
    for (deed, parts) in DEEDS {
        let config = json!({"at": "configure", "do": deed});
        let made = Role::of("configure", recipe(config, tight_for(deed)).await).await;
        let error = made.err().unwrap();
        for part in ["failed in `configure`"].iter().chain(parts) {
            assert!(error.contains(part), "`{deed}`: {error}");
        }
    }
    for (deed, parts) in DEEDS {
        let config = json!({"at": "tools", "do": deed});
        let made = Role::of("tools", recipe(config, tight_for(deed)).await).await;
        let error = made.err().unwrap();
        for part in ["failed in `tools`"].iter().chain(parts) {
            assert!(error.contains(part), "`{deed}`: {error}");
        }
    }
}

async fn fails(call: &str, deed: &str, size: usize) -> String {
    let config = json!({"at": call, "do": deed, "size": size});
    let mut role = Role::of(call, recipe(config, tight()).await).await.unwrap();
    role.step()
        .await
        .expect_err(&format!("`{deed}` in `{call}`"))
}

#[tokio::test]
async fn answers_that_are_too_large_are_refused() {
    for call in ["parse", "format", "apply", "judge", "feed", "finish"] {
        let error = fails(call, "big", 2 << 20).await;
        let part = "returned more than 1 MiB (`plugins.hostile.max_output_mb` raises the limit)";
        assert!(error.contains(part), "`{call}`: {error}");
    }
    for call in ["parse", "feed"] {
        let error = fails(call, "many", 100_000).await;
        assert!(
            error.contains("returned more than 1 MiB"),
            "`{call}`: {error}"
        );
    }
    for call in ["parse", "apply", "judge", "finish"] {
        let error = fails(call, "claim", 0).await;
        let known = ["returned more than 1 MiB", "out of bounds"];
        assert!(
            known.iter().any(|part| error.contains(part)),
            "`{call}`: {error}"
        );
    }
    // An answer below the limit is taken.
    let config = json!({"at": "apply", "do": "big", "size": 1000 << 10});
    let mut role = Role::of("apply", recipe(config, tight()).await)
        .await
        .unwrap();
    assert!(role.step().await.unwrap().len() > 1000 << 10);
}

#[tokio::test]
async fn an_answer_of_a_gibibyte_is_refused() {
    let limits = PluginLimits {
        deadline: Duration::from_secs(60),
        memory: 3 << 30,
        output: 16 << 20,
        log: 0,
    };
    let config = json!({"at": "judge", "do": "big", "size": 1 << 30});
    let mut role = Role::of("judge", recipe(config, limits).await)
        .await
        .unwrap();
    let error = role.step().await.unwrap_err();
    assert!(error.contains("returned more than 16 MiB"), "{error}");
}

#[tokio::test]
async fn broken_values_and_reported_faults_are_named() {
    let table = [
        (
            "parse",
            "bad-json",
            "broke the contract: `action.extra` is not JSON",
        ),
        (
            "format",
            "bad-json",
            "broke the contract: `message.extra` is not JSON",
        ),
        (
            "apply",
            "bad-json",
            "broke the contract: `message.extra` is not JSON",
        ),
        (
            "judge",
            "bad-json",
            "broke the contract: `action.extra` must be a JSON object",
        ),
        (
            "finish",
            "bad-json",
            "broke the contract: `reply.response` is not JSON",
        ),
        ("parse", "error", "the parser gives up (internal)"),
        ("format", "error", "the formatter gives up (internal)"),
        ("apply", "error", "the processor gives up (internal)"),
        ("judge", "error", "the policy gives up (internal)"),
    ];
    for (call, deed, part) in table {
        let error = fails(call, deed, 0).await;
        let head = format!("plugin `hostile` failed in `{call}`: ");
        assert!(error.starts_with(&head) && error.contains(part), "{error}");
    }
    for (at, deed, part) in [
        (
            "tools",
            "bad-json",
            "broke the contract: `tool.parameters` is not JSON",
        ),
        (
            "configure",
            "refuse",
            "config of plugin `hostile` is invalid: this deed is forbidden",
        ),
        ("configure", "refuse-long", "bytes more)"),
        ("configure", "refuse-long", "failed in `configure`"),
    ] {
        let config = json!({"at": at, "do": deed});
        let error = Role::of(at, recipe(config, tight()).await)
            .await
            .err()
            .unwrap();
        assert!(error.contains(part) && error.len() < 8 << 10, "{error}");
    }
}

#[tokio::test]
async fn a_refused_allocation_that_the_guest_handles_is_no_fault() {
    let config = json!({"at": "judge", "do": "greedy", "from": 1, "then": "panic"});
    let mut role = Role::of("judge", recipe(config, tight()).await)
        .await
        .unwrap();
    role.step().await.unwrap();
    // The refusal is not the reason of a later fault.
    let error = role.step().await.unwrap_err();
    assert!(error.contains("the guest's last words"), "{error}");
}

#[tokio::test]
async fn a_long_log_is_cut_and_the_call_is_answered() {
    for call in CALLS {
        let limits = PluginLimits {
            deadline: Duration::from_secs(60),
            ..tight()
        };
        let config = json!({"at": call, "do": "flood"});
        let mut role = Role::of(call, recipe(config, limits).await).await.unwrap();
        role.step()
            .await
            .unwrap_or_else(|error| panic!("`{call}`: {error}"));
    }
}

#[tokio::test]
async fn no_more_than_eight_questions_are_asked_in_a_step() {
    for (wanted, asked, answered) in [(1, 1, true), (8, 8, true), (9, 8, false), (1000, 8, false)] {
        let config: Value = json!({"at": "apply", "do": "ask", "size": wanted});
        let mut processor = WasmProcessor::start(recipe(config, tight()).await)
            .await
            .unwrap();
        let mut asker = Counting::default();
        let outcome = processor.apply(Change::all(history()), &mut asker).await;
        assert_eq!(asker.0, asked, "{wanted}");
        assert_eq!(processor.needs_all(), !answered);
        match outcome {
            Ok(change) => {
                assert!(answered);
                assert_eq!(
                    change.messages.last().unwrap().text(),
                    "answered: an answer"
                );
            }
            Err(fault) => {
                assert!(!answered);
                assert!(
                    fault.message.contains("more than 8 queries"),
                    "{}",
                    fault.message
                );
            }
        }
    }
    // An instance that fails in `resume` is discarded.
    let config = json!({"at": "resume", "do": "panic"});
    let mut processor = WasmProcessor::start(recipe(config, tight()).await)
        .await
        .unwrap();
    let fault = processor
        .apply(Change::all(history()), &mut Counting::default())
        .await
        .unwrap_err();
    assert!(
        fault.message.contains("failed in `resume`"),
        "{}",
        fault.message
    );
    assert!(processor.needs_all());
}
