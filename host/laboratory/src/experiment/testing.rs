//! Plugins for tests, made of closures, and a comparison full of hostile text.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::answer::RoleAnswer;
use super::comparison::{Comparison, Side};
use super::instance::RoleInput;
use mswea_core::Event;
use mswea_core::{
    Action, Adapter, AdapterNext, Asker, Change, ConfiguredRole, Delta, Formatter, Identity,
    Journal, Maker, Message, ModelError, Outcome, Output, Parser, PluginFault, Policy, Problem,
    Processor, Refused, Reply, RoleKind, Tool, ToolCall, Verdict, ViewChange,
};

type Call<I, O> = Box<dyn FnMut(I) -> O + Send>;

type Build = Box<dyn Fn(&Value) -> Result<ConfiguredRole, Refused> + Send + Sync>;

pub(super) struct FakeMaker {
    identity: Identity,
    build: Build,
}

#[async_trait]
impl Maker for FakeMaker {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn describe(&self, _: Option<&Value>) -> Result<Value, PluginFault> {
        Ok(json!({}))
    }

    async fn make(&self, _: RoleKind, config: &Value, _: bool) -> Result<ConfiguredRole, Refused> {
        (self.build)(config)
    }
}

pub(super) fn maker(
    name: &str,
    build: impl Fn() -> ConfiguredRole + Send + Sync + 'static,
) -> Arc<dyn Maker> {
    fallible(name, move |_| Ok(build()))
}

pub(super) fn fallible(
    name: &str,
    build: impl Fn(&Value) -> Result<ConfiguredRole, Refused> + Send + Sync + 'static,
) -> Arc<dyn Maker> {
    Arc::new(FakeMaker {
        identity: Identity {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            digest: "ab".repeat(32),
            kinds: RoleKind::ALL.to_vec(),
            config_schema: json!({}),
        },
        build: Box::new(build),
    })
}

pub(super) struct FakeParser(Call<Reply, Result<Outcome, PluginFault>>, Vec<Tool>);

#[async_trait]
impl Parser for FakeParser {
    fn name(&self) -> &str {
        "fake"
    }
    fn tools(&self) -> &[Tool] {
        &self.1
    }
    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault> {
        (self.0)(reply.clone())
    }
}

pub(super) fn parser(
    parse: impl FnMut(Reply) -> Result<Outcome, PluginFault> + Send + 'static,
) -> ConfiguredRole {
    ConfiguredRole::Parser(Box::new(FakeParser(Box::new(parse), Vec::new())))
}

/// As [`plain_parser`], with a tool.
pub(super) fn parser_with_tool(name: &str) -> ConfiguredRole {
    parser_with(name, "", json!({}))
}

pub(super) fn parser_with(name: &str, description: &str, parameters: Value) -> ConfiguredRole {
    let tool = Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        extra: serde_json::Map::new(),
    };
    let parse = |reply: Reply| Ok(plain_parse(&reply));
    ConfiguredRole::Parser(Box::new(FakeParser(Box::new(parse), vec![tool])))
}

/// Every tool call is a command, and so is the text of a reply without one; `bad` is malformed.
pub(super) fn plain_parse(reply: &Reply) -> Outcome {
    let text = reply.message.text();
    if text.contains("bad") {
        return Outcome::Malformed(Problem {
            code: "no-action".into(),
            message: "no action in it".into(),
            ..Problem::default()
        });
    }
    let calls = reply.message.tool_calls.iter();
    let mut actions: Vec<Action> = calls
        .map(|call| Action {
            command: call.arguments.clone(),
            tool_call_id: Some(call.id.clone()),
            ..Action::default()
        })
        .collect();
    if actions.is_empty() {
        actions.push(Action {
            command: text,
            ..Action::default()
        });
    }
    Outcome::Actions(actions)
}

pub(super) fn plain_parser() -> ConfiguredRole {
    parser(|reply| Ok(plain_parse(&reply)))
}

type Step = (Vec<Action>, Vec<Output>);

struct FakeFormatter(Call<Step, View>);

#[async_trait]
impl Formatter for FakeFormatter {
    fn name(&self) -> &str {
        "fake"
    }
    async fn format(
        &mut self,
        actions: &[Action],
        outputs: &[Output],
    ) -> Result<Vec<Message>, PluginFault> {
        (self.0)((actions.to_vec(), outputs.to_vec()))
    }
}

/// One message per output, with this text.
pub(super) fn formatter(text: impl Fn(&Output) -> String + Send + 'static) -> ConfiguredRole {
    ConfiguredRole::Formatter(Box::new(FakeFormatter(Box::new(
        move |(actions, outputs): Step| {
            let both = actions.iter().zip(&outputs);
            Ok(both
                .map(|(action, output)| {
                    let role = action.tool_call_id.as_ref().map_or("user", |_| "tool");
                    let mut message = Message::new(role, text(output));
                    message.tool_call_id.clone_from(&action.tool_call_id);
                    message
                })
                .collect())
        },
    ))))
}

struct FakePolicy(Call<Action, Result<Verdict, PluginFault>>);

#[async_trait]
impl Policy for FakePolicy {
    fn name(&self) -> &str {
        "guard"
    }
    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault> {
        (self.0)(action.clone())
    }
}

pub(super) fn policy(
    judge: impl FnMut(Action) -> Result<Verdict, PluginFault> + Send + 'static,
) -> ConfiguredRole {
    ConfiguredRole::Policy(Box::new(FakePolicy(Box::new(judge))))
}

type View = Result<Vec<Message>, PluginFault>;

/// A processor that keeps its input and returns a whole view. If there is a question, it is asked
/// first, and the answer becomes a part of the view.
struct FakeProcessor {
    input: Vec<Message>,
    is_fresh: bool,
    view: Call<Vec<Message>, View>,
}

#[async_trait]
impl Processor for FakeProcessor {
    fn name(&self) -> &str {
        "fake"
    }
    fn needs_all(&self) -> bool {
        self.is_fresh
    }
    fn discard(&mut self) {
        self.is_fresh = true;
        self.input.clear();
    }
    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        change.apply(&mut self.input);
        self.is_fresh = false;
        let mut view = (self.view)(self.input.clone())?;
        for message in &mut view {
            if message.role == "ask" {
                let question = vec![Message::new("user", message.text())];
                let reply = asker.ask("fake", "summary", question).await;
                let reply = reply.map_err(|error| PluginFault::new(error.message))?;
                *message = Message::new("user", reply.message.text());
            }
        }
        Ok(Change::all(view).into())
    }
}

pub(super) fn processor(view: impl FnMut(Vec<Message>) -> View + Send + 'static) -> ConfiguredRole {
    ConfiguredRole::Processor(Box::new(FakeProcessor {
        input: Vec::new(),
        is_fresh: true,
        view: Box::new(view),
    }))
}

struct FakeAdapter {
    view: Vec<Message>,
    send: Call<Vec<Message>, Result<AdapterNext, ModelError>>,
}

#[async_trait]
impl Adapter for FakeAdapter {
    async fn query(&mut self, change: &Change, _: &[Tool]) -> Result<AdapterNext, ModelError> {
        assert!(
            change.start <= self.view.len(),
            "a change of what is not there"
        );
        change.clone().apply(&mut self.view);
        let next = (self.send)(self.view.clone());
        if next.is_err() {
            // After a failure, the adapter fails until it is discarded.
            self.view.clear();
        }
        next
    }
    async fn head(&mut self, _: u16, _: &[(String, String)]) -> Result<(), ModelError> {
        unreachable!("nothing is sent")
    }
    async fn feed(&mut self, _: &[u8]) -> Result<Vec<Delta>, ModelError> {
        unreachable!("nothing is sent")
    }
    async fn finish(&mut self) -> Result<AdapterNext, ModelError> {
        unreachable!("nothing is sent")
    }
    fn discard(&mut self) {
        self.view.clear();
    }
}

pub(super) fn adapter(
    send: impl FnMut(Vec<Message>) -> Result<AdapterNext, ModelError> + Send + 'static,
) -> ConfiguredRole {
    ConfiguredRole::Adapter(Box::new(FakeAdapter {
        view: Vec::new(),
        send: Box::new(send),
    }))
}

/// A reply with one tool call.
pub(super) fn reply(id: &str, command: &str) -> Reply {
    let mut message = Message::new("assistant", format!("Let me run {command}."));
    message.tool_calls = vec![ToolCall {
        id: id.to_owned(),
        name: "bash".to_owned(),
        arguments: command.to_owned(),
        extra: serde_json::Map::new(),
    }];
    Reply {
        message,
        finish_reason: "tool_calls".into(),
        model: "m".into(),
        ..Reply::default()
    }
}

/// Records the events of a run with this many steps, as the loop does, up to the last output.
pub(super) fn record_run(journal: &dyn Journal, run_id: &str, steps: u32, size: usize) {
    let record = |event: Event| journal.record(&event).unwrap();
    record(Event::RunStarted {
        format: mswea_record::journal::FORMAT.to_owned(),
        run_id: run_id.to_owned(),
        host_version: "0".into(),
        task: "t".into(),
        config: json!({}),
        plugins: json!([]),
        parent: None,
    });
    record(Event::Opening {
        messages: vec![
            Message::new("system", "Be good."),
            Message::new("user", "Do it."),
        ],
    });
    record_steps(journal, 1..=steps, size);
}

/// Records these steps of a run.
pub(super) fn record_steps(journal: &dyn Journal, steps: RangeInclusive<u32>, size: usize) {
    let record = |event: Event| journal.record(&event).unwrap();
    for step in steps {
        let id = format!("call_{step}");
        let command = format!("step {step}");
        record(Event::QueryStarted {
            query: step,
            view: None,
        });
        let mut reply = reply(&id, &command);
        reply.response = Some(json!({
            "id": id,
            "padding": "r".repeat(size),
            "choices": [{"finish_reason": "tool_calls"}],
            "model": "m",
        }));
        record(Event::Reply {
            reply,
            cost: None,
            timestamp: 1.0,
        });
        let action = Action {
            command,
            tool_call_id: Some(id.clone()),
            ..Action::default()
        };
        record(Event::Accepted {
            actions: vec![action.clone()],
        });
        record(Event::Action { index: 0, action });
        let output = Output {
            output: format!("out {step} {}", "o".repeat(size)),
            ..Output::default()
        };
        record(Event::Output {
            index: 0,
            output: output.clone(),
            timestamp: 2.0,
        });
        let mut message = Message::new("tool", output.output.clone());
        message.tool_call_id = Some(id);
        message
            .extra
            .insert("raw_output".into(), output.output.into());
        message.extra.insert("returncode".into(), 0.into());
        message.extra.insert("exception_info".into(), "".into());
        record(Event::Observed {
            messages: vec![message],
            shown: Vec::new(),
        });
    }
}

/// A comparison in which every text tries to escape its context.
pub(super) fn hostile() -> Comparison {
    let tag = "</pre></td><script>alert(1)</script><img src=x onerror=\"alert(1)\">";
    let nasty = format!("{tag}\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}\0'\"&amp;<!-- 日本語 -->");
    let side = |label: &str, version: &str| Side {
        label: label.to_owned(),
        name: format!("evil{nasty}"),
        version: version.to_owned(),
        digest: "0123456789abcdef".into(),
        config: json!({ "key": nasty }),
        asked: 1,
        ..Side::default()
    };
    let mut found = Comparison {
        kind: "action-parser".into(),
        old: side("old", "1.0"),
        new: side("new", "2.0"),
        runs: 2,
        steps: 40,
        recorded: 30,
        warnings: vec![nasty.clone()],
        seconds: 0.012,
        threads: 2,
        ..Comparison::default()
    };
    found.skip(&nasty);
    let outcome = |command: &str| {
        RoleAnswer::Outcome(Outcome::Actions(vec![Action {
            command: command.to_owned(),
            tool_call_id: Some("call_1".into()),
            ..Action::default()
        }]))
    };
    let malformed = |message: &str| {
        RoleAnswer::Outcome(Outcome::Malformed(Problem {
            code: "x".into(),
            message: message.to_owned(),
            ..Problem::default()
        }))
    };
    let failed = || RoleAnswer::fault(PluginFault::new(nasty.clone()));
    for step in 1..=40 {
        let place = (&*nasty, step, (step % 3 == 0).then_some(1));
        let (old, new) = match step % 9 {
            1 => (
                outcome(&format!(
                    "rm -rf build\ncd src\nmake {nasty} all\necho done"
                )),
                outcome(&format!(
                    "rm -rf build\ncd src\nmake {nasty} -j2 all\necho done"
                )),
            ),
            4 => (malformed(&nasty), malformed(&format!("{nasty}!"))),
            6 => (outcome("a"), failed()),
            8 => (failed(), failed()),
            _ => (outcome("same"), outcome("same")),
        };
        let input = RoleInput::Judge(Action {
            command: nasty.clone(),
            ..Action::default()
        });
        let n = u64::from(step);
        let old = (old, Duration::from_nanos(9_000 + n * n * 401 % 7_919));
        let new = (new, Duration::from_nanos(12_000 + n * n * 1_201 % 41_519));
        found.judge(place, &input, old, new, 4_096);
    }
    found.sum_up();
    found
}
