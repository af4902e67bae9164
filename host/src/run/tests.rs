//! The loop over plain Rust fakes: what ends a run, what is charged, what the history holds.

mod asking;
mod images;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::history::Chain;
use crate::journal::{Event, MemoryJournal, rebuild};
use crate::roles::{
    Action, Change, Command, Context, ErrorClass, Executor, ExecutorError, Formatter, Front,
    Journal, Message, Model, ModelError, Object, Outcome, Output, Parser, PluginFault, Policy,
    Problem, Progress, Reply, Stop, StopSource, Tool, ToolCall, Usage, Verdict,
};
use crate::template::Templates;

/// What the scripted model answers: `calls:ls|pwd` tool calls, `text:..` text, `error:class`.
struct Script {
    replies: VecDeque<String>,
    views: Arc<Mutex<Vec<Change>>>,
}

#[async_trait]
impl Model for Script {
    async fn query(
        &mut self,
        change: &Change,
        _: &[Tool],
        _: &Context,
    ) -> Result<Reply, ModelError> {
        self.views.lock().unwrap().push(change.clone());
        let next = self.replies.pop_front().expect("the script is long enough");
        let (kind, rest) = next.split_once(':').unwrap();
        let usage = Some(Usage {
            input_tokens: 10,
            output_tokens: 1,
            ..Usage::default()
        });
        match kind {
            "calls" => {
                let mut message = Message::new("assistant", "");
                message.tool_calls = rest
                    .split('|')
                    .enumerate()
                    .map(|(index, command)| ToolCall {
                        id: format!("c{index}"),
                        name: "bash".into(),
                        arguments: command.into(),
                        extra: Object::new(),
                    })
                    .collect();
                Ok(Reply {
                    message,
                    usage,
                    ..Reply::default()
                })
            }
            "unused" => {
                // A call that the parser makes nothing of, beside a text that is no action.
                let mut message = Message::new("assistant", rest);
                message.tool_calls = vec![ToolCall {
                    id: "u0".into(),
                    name: "other".into(),
                    arguments: String::new(),
                    extra: Object::new(),
                }];
                Ok(Reply {
                    message,
                    usage,
                    ..Reply::default()
                })
            }
            "text" => Ok(Reply {
                message: Message::new("assistant", rest),
                usage,
                ..Reply::default()
            }),
            _ => Err(ModelError {
                usage,
                ..ModelError::new(ErrorClass::from(rest.to_owned()), "no luck")
            }),
        }
    }

    async fn ask(&mut self, _: Vec<Message>, _: &Context) -> Result<Reply, ModelError> {
        unreachable!("nobody asks")
    }
}

/// Tool calls are actions; text `none` is no action, `fault` breaks the parser, all other text
/// is malformed.
struct Calls;

#[async_trait]
impl Parser for Calls {
    fn name(&self) -> &str {
        "calls"
    }
    fn tools(&self) -> &[Tool] {
        &[]
    }
    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault> {
        match reply.message.text().as_str() {
            "none" => return Ok(Outcome::Actions(Vec::new())),
            "fault" => {
                return Err(PluginFault::new("plugin `calls` failed"));
            }
            text if !text.is_empty() => {
                return Ok(Outcome::Malformed(Problem {
                    code: "no".into(),
                    message: format!("what is {text}?"),
                    details: Object::new(),
                }));
            }
            _ => {}
        }
        Ok(Outcome::Actions(
            reply
                .message
                .tool_calls
                .iter()
                .map(|call| Action {
                    command: call.arguments.clone(),
                    tool_call_id: Some(call.id.clone()),
                    extra: Object::new(),
                })
                .collect(),
        ))
    }
}

struct Broken;

#[async_trait]
impl Formatter for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    async fn format(&mut self, _: &[Action], _: &[Output]) -> Result<Vec<Message>, PluginFault> {
        Err(PluginFault::new("plugin `broken` failed"))
    }
}

struct Plain;

#[async_trait]
impl Formatter for Plain {
    fn name(&self) -> &str {
        "plain"
    }
    async fn format(&mut self, a: &[Action], o: &[Output]) -> Result<Vec<Message>, PluginFault> {
        Ok(plain::format(a, o))
    }
}

/// `submit X` submits X, `stop` fires the stop flag, everything else is echoed.
struct Echo {
    ran: Arc<Mutex<Vec<String>>>,
    stop: Option<StopSource>,
}

#[async_trait]
impl Executor for Echo {
    async fn start(&mut self, _: &Context) -> Result<(), ExecutorError> {
        Ok(())
    }
    async fn execute(&mut self, command: &Command<'_>, _: &Stop) -> Output {
        // Only what salvage saves is data for sure.
        assert_eq!(command.whole, command.text == "salvage");
        let command = command.text;
        self.ran.lock().unwrap().push(command.to_owned());
        if command == "stop" {
            self.stop.take().map(|stop| stop.stop());
        }
        let output = match command.strip_prefix("submit ") {
            Some(text) => format!("{MARK}\n{text}"),
            None => command.to_owned(),
        };
        let mut extra = Object::new();
        if command == "submit too much" {
            extra.insert("elided_bytes".into(), 1234.into());
        }
        Output {
            output,
            extra,
            ..Output::default()
        }
    }
    async fn upload(&mut self, _: &Path, _: &str) -> Result<(), ExecutorError> {
        unreachable!()
    }
    async fn download(&mut self, _: &str, _: &Path) -> Result<(), ExecutorError> {
        unreachable!()
    }
    async fn cleanup(&mut self) {
        self.ran.lock().unwrap().push("cleanup".into());
    }
    fn template_vars(&self) -> Object {
        Object::new()
    }
}

/// Denies `rm`, asks about `ask`, rewrites `old` to `new`, fails on `policy-fault`.
struct Guard;

#[async_trait]
impl Policy for Guard {
    fn name(&self) -> &str {
        "guard"
    }
    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault> {
        Ok(match action.command.as_str() {
            "rm" => Verdict::Deny("not that".into()),
            "ask" => Verdict::Ask("sure?".into()),
            "old" => Verdict::Rewrite(Action {
                command: "new".into(),
                ..action.clone()
            }),
            "policy-fault" => {
                return Err(PluginFault::new("plugin `guard` failed"));
            }
            _ => Verdict::Allow,
        })
    }
}

struct Silent;

#[async_trait]
impl Front for Silent {
    fn show(&self, _: &Progress<'_>) {}
    async fn confirm(&self, _: &Action, _: &str) -> Option<bool> {
        None
    }
}

struct OneDollar;

impl Pricing for OneDollar {
    fn cost(&self, _: &Usage) -> Option<f64> {
        Some(1.0)
    }
}

struct Ran {
    ended: Ended,
    journal: Arc<MemoryJournal>,
    commands: Vec<String>,
    views: Vec<Change>,
}

impl Ran {
    /// `role` or `role:text` of every message, `tool(id)` for results.
    fn shape(&self) -> Vec<String> {
        self.ended
            .messages
            .iter()
            .map(|message| match &message.tool_call_id {
                Some(id) => format!("tool({id})"),
                None => message.role.clone(),
            })
            .collect()
    }
}

async fn run_with(replies: &[&str], limits: Limits, formatter: Box<dyn Formatter>) -> Ran {
    run_beside(replies, limits, formatter, Arc::default()).await
}

async fn run_beside(
    replies: &[&str],
    limits: Limits,
    formatter: Box<dyn Formatter>,
    global: Arc<GlobalAccount>,
) -> Ran {
    run_changed(replies, limits, |parts| {
        parts.formatter = formatter;
        parts.global = global;
    })
    .await
}

async fn run_changed(replies: &[&str], limits: Limits, change: impl FnOnce(&mut Parts)) -> Ran {
    let journal = Arc::new(MemoryJournal::default());
    let mut ran = run_in(replies, limits, change, Arc::new(Silent), journal.clone()).await;
    ran.journal = journal;
    ran
}

async fn run_in(
    replies: &[&str],
    limits: Limits,
    change: impl FnOnce(&mut Parts),
    front: Arc<dyn Front>,
    journal: Arc<dyn Journal>,
) -> Ran {
    let (source, stop) = StopSource::new();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let views = Arc::new(Mutex::new(Vec::new()));
    let variables = Arc::new(Variables::new(
        Arc::new(Templates::new()),
        Object::new(),
        serde_json::Value::clone,
    ));
    let mut parts = Parts {
        model: Box::new(Script {
            replies: replies.iter().map(|&reply| reply.to_owned()).collect(),
            views: views.clone(),
        }),
        parser: Box::new(Calls),
        formatter: Box::new(Plain),
        history: Chain::default(),
        policies: vec![Box::new(Guard)],
        executor: Box::new(Echo {
            ran: ran.clone(),
            stop: Some(source),
        }),
        pricing: Arc::new(OneDollar),
        global: Arc::default(),
        prompts: Prompts {
            system: "system".into(),
            instance: "task".into(),
            format_error: "{{error}}".into(),
            variables,
        },
        multimodal: None,
        onlookers: Vec::new(),
    };
    change(&mut parts);
    let settings = Settings {
        limits,
        action_timeout: Duration::from_secs(5),
        salvage_command: Some("salvage".into()),
        salvage_is_explicit: true,
        salvage_prologue: String::new(),
        salvage_timeout: Duration::from_secs(5),
        warn_unknown_cost: false,
        bare_submission: false,
    };
    let context = Context {
        front,
        journal,
        stop,
    };
    let ended = Agent::new(parts, settings, context).run().await;
    let commands = ran.lock().unwrap().clone();
    let views = views.lock().unwrap().clone();
    Ran {
        ended,
        journal: Arc::default(),
        commands,
        views,
    }
}

async fn run(replies: &[&str]) -> Ran {
    let limits = Limits {
        consecutive_format_errors: 3,
        ..Limits::default()
    };
    run_with(replies, limits, Box::new(Plain)).await
}

#[tokio::test]
async fn agents_of_a_process_share_its_limits() {
    let global = Arc::new(GlobalAccount::new(GlobalLimits {
        cost: 0.0,
        calls: 3,
    }));
    for (status, queries, cost, commands) in [
        ("Submitted", 2, 2.0, 2),
        // The third reply is paid, and nothing comes of it, as in mini-swe-agent.
        ("RuntimeError", 1, 1.0, 0),
        ("RuntimeError", 0, 0.0, 0),
    ] {
        let replies = ["calls:ls", "calls:submit x"];
        let formatter = Box::new(Plain);
        let ran = run_beside(&replies, Limits::default(), formatter, global.clone()).await;
        assert_eq!(ran.ended.interrupt.exit_status(), status);
        assert_eq!(ran.ended.account.queries, queries);
        assert_eq!(ran.ended.account.cost, cost);
        let done = ran.commands.iter();
        let done = done.filter(|command| !["salvage", "cleanup"].contains(&command.as_str()));
        assert_eq!(done.count(), commands, "{:?}", ran.commands);
    }
    assert_eq!(global.used(), (3.0, 3));
}

#[tokio::test]
async fn endings_and_what_the_history_holds() {
    let table: [(&[&str], &str, &[&str]); 13] = [
        (
            &["unused:none", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "tool(u0)",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["calls:ls", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "tool(c0)",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["calls:a|submit x|c"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "tool(c0)",
                "tool(c1)",
                "tool(c2)",
                "exit",
            ],
        ),
        (
            &["text:what", "calls:submit x"],
            "Submitted",
            &["system", "user", "user", "assistant", "tool(c0)", "exit"],
        ),
        (
            &["text:a", "text:b", "text:c"],
            "RepeatedFormatError",
            &["system", "user", "user", "user", "user", "exit"],
        ),
        (
            &[
                "text:a",
                "text:b",
                "calls:ls",
                "text:c",
                "text:d",
                "calls:submit x",
            ],
            "Submitted",
            &[
                "system",
                "user",
                "user",
                "user",
                "assistant",
                "tool(c0)",
                "user",
                "user",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["text:none", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "assistant",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
        (
            &["calls:a|stop|c"],
            "Interrupted",
            &[
                "system",
                "user",
                "assistant",
                "tool(c0)",
                "tool(c1)",
                "tool(c2)",
                "exit",
            ],
        ),
        (
            &["error:authentication"],
            "AuthenticationError",
            &["system", "user", "exit"],
        ),
        (
            &["text:fault", "calls:submit x"],
            "Submitted",
            &["system", "user", "user", "assistant", "tool(c0)", "exit"],
        ),
        (
            &["error:plugin"],
            "PluginError",
            &["system", "user", "exit"],
        ),
        // Whatever a third reply said, it would be paid for nothing.
        (
            &["text:fault", "text:fault"],
            "PluginError",
            &["system", "user", "user", "exit"],
        ),
        (
            &["text:fault", "calls:ls", "text:fault", "calls:submit x"],
            "Submitted",
            &[
                "system",
                "user",
                "user",
                "assistant",
                "tool(c0)",
                "user",
                "assistant",
                "tool(c0)",
                "exit",
            ],
        ),
    ];
    for (replies, status, shape) in table {
        let ran = run(replies).await;
        assert_eq!(ran.ended.interrupt.exit_status(), status, "{replies:?}");
        assert_eq!(ran.shape(), shape, "{replies:?}");
        // Failed, malformed and rejected replies were paid for like the others.
        assert_eq!(ran.ended.account.queries as usize, replies.len());
        #[allow(clippy::cast_precision_loss)]
        let paid = replies.len() as f64;
        assert_eq!(ran.ended.account.cost, paid, "{replies:?}");
        let [.., before_last, last] = &ran.commands[..] else {
            panic!("too few commands: {:?}", ran.commands)
        };
        assert_eq!(
            (&**before_last, &**last),
            ("salvage", "cleanup"),
            "{replies:?}"
        );
        // The journal alone gives the same history.
        assert_eq!(
            rebuild::messages(&ran.journal.records()),
            ran.ended.messages
        );
    }
}

#[tokio::test]
async fn limits_end_the_run_before_the_next_query() {
    for (limits, status, queries) in [
        (
            Limits {
                steps: 2,
                ..Limits::default()
            },
            "LimitsExceeded",
            2,
        ),
        (
            Limits {
                cost: 2.5,
                ..Limits::default()
            },
            "LimitsExceeded",
            3,
        ),
        (
            Limits {
                cost: 2.0,
                ..Limits::default()
            },
            "LimitsExceeded",
            2,
        ),
    ] {
        let ran = run_with(
            &["calls:a", "text:b", "calls:c"],
            limits.clone(),
            Box::new(Plain),
        )
        .await;
        assert_eq!(ran.ended.interrupt.exit_status(), status, "{limits:?}");
        assert_eq!(ran.ended.account.queries, queries, "{limits:?}");
    }
}

#[tokio::test]
async fn the_model_gets_changes_only() {
    let ran = run(&["calls:ls", "text:what", "calls:submit x"]).await;
    let starts: Vec<(usize, usize)> = ran
        .views
        .iter()
        .map(|change| (change.start, change.messages.len()))
        .collect();
    assert_eq!(starts, [(0, 2), (2, 2), (4, 1)]);
}

#[tokio::test]
async fn policies_deny_ask_rewrite_and_fail_closed() {
    let ran = run(&["calls:rm|ask|old|policy-fault", "calls:submit x"]).await;
    assert_eq!(ran.commands, ["new", "submit x", "salvage", "cleanup"]);
    let texts: Vec<String> = ran
        .ended
        .messages
        .iter()
        .filter(|message| message.role == "tool")
        .map(Message::text)
        .collect();
    assert!(
        texts[0].contains("action was not executed: not that"),
        "{texts:?}"
    );
    assert!(texts[1].contains("nobody is there"), "{texts:?}");
    assert!(texts[3].contains("the policy `guard` failed"), "{texts:?}");
    let denied = ran
        .journal
        .records()
        .iter()
        .filter(|record| matches!(record.event, Event::Denied { .. }))
        .count();
    assert_eq!(denied, 3);
    let rewritten = ran
        .journal
        .records()
        .into_iter()
        .find_map(|record| match record.event {
            Event::Rewritten {
                policy,
                original,
                action,
                ..
            } => Some((policy, original.command, action.command)),
            _ => None,
        });
    assert_eq!(
        rewritten,
        Some(("guard".into(), "old".into(), "new".into()))
    );
}

#[tokio::test]
async fn a_broken_formatter_costs_nothing_but_its_format() {
    let ran = run_with(
        &["calls:ls", "calls:submit x"],
        Limits::default(),
        Box::new(Broken),
    )
    .await;
    assert_eq!(ran.ended.interrupt.submission(), "x");
    assert!(
        ran.ended.messages[3]
            .text()
            .contains("<output>\nls</output>")
    );
}

#[tokio::test]
async fn observations_carry_what_mini_keeps() {
    let ran = run(&["calls:ls", "calls:submit x"]).await;
    let keys: Vec<&str> = ran.ended.messages[3]
        .extra
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        ["raw_output", "returncode", "timestamp", "exception_info"]
    );
}

#[tokio::test]
async fn an_action_is_recorded_before_it_runs_and_a_reply_before_it_is_parsed() {
    let ran = run(&["calls:ls", "calls:submit x"]).await;
    let kinds: Vec<&str> = ran
        .journal
        .records()
        .iter()
        .map(|record| match record.event {
            Event::Message { .. } => "message",
            Event::QueryStarted { .. } => "query",
            Event::Reply { .. } => "reply",
            Event::Accepted { .. } => "accepted",
            Event::Action { .. } => "action",
            Event::Output { .. } => "output",
            Event::Salvaged { .. } => "salvaged",
            Event::RunEnded { .. } => "ended",
            _ => "other",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "message", "message", "query", "reply", "accepted", "action", "output", "message",
            "query", "reply", "accepted", "action", "output", "message", "salvaged", "message",
            "ended"
        ]
    );
}

#[tokio::test]
async fn half_a_submission_is_none() {
    let ran = run(&["calls:submit too much", "calls:submit less"]).await;
    assert_eq!(ran.ended.interrupt.exit_status(), "Submitted");
    assert_eq!(ran.ended.interrupt.submission(), "less");
    let told = ran.ended.messages[3].text();
    assert!(
        told.contains("submission was too large: 1234 bytes"),
        "{told}"
    );
    assert!(!told.contains(MARK), "{told}");
}

/// What no template of the config makes of it.
struct BadTemplate;

#[async_trait]
impl Formatter for BadTemplate {
    fn name(&self) -> &str {
        "bad-template"
    }
    async fn format(&mut self, _: &[Action], _: &[Output]) -> Result<Vec<Message>, PluginFault> {
        Err(PluginFault {
            template: Some("`nosuch` is undefined".into()),
            ..PluginFault::new("plugin `bad-template` failed")
        })
    }
}

#[tokio::test]
async fn a_submission_survives_an_observation_that_can_not_be_rendered() {
    for (replies, status, submission) in [
        (["calls:ls|submit x", "calls:never"], "Submitted", "x"),
        (["calls:ls", "calls:submit x"], "TemplateError", ""),
    ] {
        let ran = run_with(&replies, Limits::default(), Box::new(BadTemplate)).await;
        assert_eq!(ran.ended.interrupt.exit_status(), status, "{replies:?}");
        assert_eq!(ran.ended.interrupt.submission(), submission);
    }
}

/// Can't be written once the command has run.
#[derive(Default)]
struct FullDisk(Arc<MemoryJournal>);

impl Journal for FullDisk {
    fn record(&self, event: &Event) -> std::io::Result<()> {
        match event {
            Event::Output { .. } => Err(std::io::ErrorKind::StorageFull.into()),
            event => self.0.record(event),
        }
    }
}

/// Keeps what was shown of the end.
#[derive(Default)]
struct LastWords(Mutex<(String, String)>);

#[async_trait]
impl Front for LastWords {
    fn show(&self, progress: &Progress<'_>) {
        if let Progress::Ended {
            exit_status,
            submission,
            ..
        } = progress
        {
            *self.0.lock().unwrap() = ((*exit_status).to_owned(), (*submission).to_owned());
        }
    }
    async fn confirm(&self, _: &Action, _: &str) -> Option<bool> {
        None
    }
}

#[tokio::test]
async fn a_submission_is_shown_although_it_could_not_be_recorded() {
    let full = FullDisk::default();
    let journal = full.0.clone();
    let front = Arc::new(LastWords::default());
    let ran = run_in(
        &["calls:submit x"],
        Limits::default(),
        |_| {},
        front.clone(),
        Arc::new(full),
    )
    .await;
    let Interrupt::Failed {
        exit_status,
        message,
    } = &ran.ended.interrupt
    else {
        panic!("{:?}", ran.ended.interrupt)
    };
    assert_eq!(exit_status, "JournalError");
    // It had run: "nothing more was done" would be untrue.
    assert!(message.contains("the last command has run"), "{message}");
    let shown = front.0.lock().unwrap().clone();
    assert_eq!(shown, ("JournalError".to_owned(), "x".to_owned()));
    let state = rebuild::state(&journal.records());
    assert_eq!(state.ended.map(|end| end.submission), Some("x".to_owned()));
}
