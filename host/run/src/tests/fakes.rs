//! Fake roles of a run.

use super::*;
use mswea_core::{Asker, Processor, ViewChange};

/// What the scripted model answers: `calls:ls|pwd` tool calls, `retried:ls` the same after a second
/// request, `text:..` text, `error:class`.
pub(super) struct Script {
    pub(super) replies: VecDeque<String>,
    pub(super) views: Arc<Mutex<Vec<Change>>>,
}

#[async_trait]
impl Model for Script {
    async fn query(
        &mut self,
        change: Change,
        _: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError> {
        self.views.lock().unwrap().push(change);
        let next = self.replies.pop_front().expect("the script is long enough");
        let (kind, rest) = next.split_once(':').unwrap();
        let usage = Some(Usage {
            input_tokens: 10,
            output_tokens: 1,
            ..Usage::default()
        });
        if kind == "retried" {
            let retry = Event::Retry {
                class: ErrorClass::Overloaded.into(),
                message: "again".into(),
                attempt: 1,
                wait_seconds: 0.5,
            };
            context.journal.record(&retry).unwrap();
        }
        match kind {
            "calls" | "retried" => {
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
                // A call of which the parser makes no action, and a text that is no action.
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
                ..ModelError::new(ModelFailure::from(rest.to_owned()), "no luck")
            }),
        }
    }

    /// Has no answer to what ends in `!`.
    async fn ask(
        &mut self,
        messages: Vec<Message>,
        _: &[Tool],
        _: &Context,
    ) -> Result<Reply, ModelError> {
        let usage = Some(Usage {
            input_tokens: 3,
            ..Usage::default()
        });
        let question = messages[0].text();
        match question.ends_with('!') {
            true => Err(ModelError {
                usage,
                ..ModelError::new(ErrorClass::Network, "no answer")
            }),
            false => Ok(Reply {
                message: Message::new("assistant", format!("about {question}")),
                usage,
                ..Reply::default()
            }),
        }
    }
}

/// Asks something about every other length of the history; with `fails`, some of it in vain.
#[derive(Default)]
pub(super) struct Asking {
    pub(super) seen: Vec<Arc<Message>>,
    pub(super) fails: bool,
}

#[async_trait]
impl Processor for Asking {
    fn name(&self) -> &str {
        "asking"
    }
    fn needs_all(&self) -> bool {
        self.seen.is_empty()
    }
    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        change.clone().apply(&mut self.seen);
        let length = self.seen.len();
        if length.is_multiple_of(2) {
            let end = if self.fails && length.is_multiple_of(3) {
                "!"
            } else {
                "?"
            };
            let messages = vec![Message::new("user", format!("{length}{end}"))];
            let asked = asker.ask("asking", "test", messages).await;
            asked.map_err(|error| PluginFault::new(error.to_string()))?;
        }
        Ok(change.into())
    }
    fn discard(&mut self) {
        self.seen.clear();
    }
}

/// Tool calls are actions; text `none` is no action, `fault` breaks the parser, all other text
/// is malformed.
pub(super) struct Calls;

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

pub(super) struct Broken;

#[async_trait]
impl Formatter for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    async fn format(&mut self, _: &[Action], _: &[Output]) -> Result<Vec<Message>, PluginFault> {
        Err(PluginFault::new("plugin `broken` failed"))
    }
}

pub(super) struct Plain;

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
pub(super) struct Echo {
    pub(super) ran: Arc<Mutex<Vec<String>>>,
    pub(super) stop: Option<StopSource>,
    /// Whether an earlier environment is not found again.
    pub(super) is_replaced: bool,
}

#[async_trait]
impl Executor for Echo {
    async fn start(
        &mut self,
        _: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        // The environment of this executor ends with its process.
        Ok(EnvironmentReady {
            handle: "echo".into(),
            replaced: known
                .filter(|_| self.is_replaced)
                .map(|_| "removed".to_owned()),
            is_restored: false,
        })
    }
    async fn execute(&mut self, command: &Command<'_>, _: &Stop) -> Output {
        // Only the outputs of the salvage command and of errands must be kept whole.
        assert_eq!(command.whole, ["salvage", "errand"].contains(&command.text));
        let command = command.text;
        let panics = {
            let mut ran = self.ran.lock().unwrap();
            ran.push(command.to_owned());
            command.starts_with("panic")
                || command == "salvage" && ran.contains(&"panic twice".to_owned())
        };
        assert!(!panics, "this executor has a bug");
        if let Some(stop) = &self.stop {
            match command {
                "stop" => drop(stop.stop()),
                "stop-step" => stop.stop_step(),
                _ => {}
            }
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
pub(super) struct Guard;

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

pub(super) struct Silent;

impl Front for Silent {
    fn show(&self, _: &Progress<'_>) {}
}

pub(super) struct OneDollar;

impl Pricing for OneDollar {
    fn cost(&self, _: &Usage) -> Option<f64> {
        Some(1.0)
    }
}
