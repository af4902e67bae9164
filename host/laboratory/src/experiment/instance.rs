//! A plugin that is compared: an instance answers the inputs of its role, from a record or from a
//! live run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::answer::{self, RoleAnswer};
use super::excerpt;
use super::recorded::RecordedQuestion;
use mswea_core::{
    Action, Adapter, Asker, Change, ConfiguredRole, Formatter, Message, ModelError, ModelFailure,
    Output, Parser, PluginFault, Policy, Processor, Reply, Tool,
};
use mswea_run::history::Chain;

/// The input of a role, without the parts that no plugin gets.
pub(super) enum RoleInput {
    Parse(Box<Reply>),
    Format(Vec<Action>, Vec<Output>),
    Judge(Action),
    /// The whole history: the instance finds out what is new in it.
    View(Vec<Arc<Message>>),
    /// As [`Self::View`], for an adapter.
    Query(Vec<Arc<Message>>),
}

impl RoleInput {
    /// The input for a report; of a long history only the last message, because the others are not
    /// new.
    pub(super) fn shown(&self) -> Value {
        match self {
            Self::Parse(reply) => {
                let mut shown = answer::message(&reply.message);
                shown["finish_reason"] = reply.finish_reason.as_str().into();
                shown
            }
            Self::Format(actions, outputs) => {
                let both = actions.iter().zip(outputs);
                let shown = both.map(|(action, output)| {
                    json!({
                        "command": action.command,
                        "returncode": output.returncode,
                        "output": output.output,
                        "exception_info": output.exception_info,
                    })
                });
                shown.collect()
            }
            Self::Judge(action) => json!({ "command": action.command }),
            Self::View(history) | Self::Query(history) => {
                let last = history.last().map(|last| answer::message(last));
                json!({ "messages_in_history": history.len(), "last": last })
            }
        }
    }
}

/// An instance of a plugin.
pub(super) enum Instance {
    Parser(Box<dyn Parser>),
    Formatter(Box<dyn Formatter>),
    Policy(Box<dyn Policy>),
    Processor(Follower),
    Adapter {
        adapter: Box<dyn Adapter>,
        tools: Vec<Tool>,
        /// The history that the adapter has.
        fed: Vec<Arc<Message>>,
    },
}

impl Instance {
    /// `tools` are those that an adapter offers.
    pub(super) fn of(made: ConfiguredRole, tools: Vec<Tool>) -> Self {
        match made {
            ConfiguredRole::Parser(parser) => Self::Parser(parser),
            ConfiguredRole::Formatter(formatter) => Self::Formatter(formatter),
            ConfiguredRole::Policy(policy) => Self::Policy(policy),
            ConfiguredRole::Processor(processor) => Self::Processor(Follower::of(processor)),
            ConfiguredRole::Adapter(adapter) => Self::Adapter {
                adapter,
                tools,
                fed: Vec::new(),
            },
        }
    }

    /// The tools that it offers, if it is a parser.
    pub(super) fn tools(&self) -> &[Tool] {
        match self {
            Self::Parser(parser) => parser.tools(),
            _ => &[],
        }
    }

    /// Its answer, and how long that took.
    pub(super) async fn answer(
        &mut self,
        input: &RoleInput,
        asker: &mut dyn Asker,
    ) -> (RoleAnswer, Duration) {
        let started = Instant::now();
        let answer = match (self, input) {
            (Self::Parser(parser), RoleInput::Parse(reply)) => parser.parse(reply).await.into(),
            (Self::Formatter(formatter), RoleInput::Format(actions, outputs)) => {
                formatter.format(actions, outputs).await.into()
            }
            (Self::Policy(policy), RoleInput::Judge(action)) => policy.judge(action).await.into(),
            (Self::Processor(follower), RoleInput::View(history)) => {
                let change = follower.follow(news(&follower.input, history), asker).await;
                change.map(|_| follower.view.clone()).into()
            }
            (
                Self::Adapter {
                    adapter,
                    tools,
                    fed,
                },
                RoleInput::Query(history),
            ) => {
                let next = adapter.query(&news(fed, history), tools).await;
                fed.clone_from(history);
                // After a failure an adapter gets the whole history, as in a run.
                if next.is_err() {
                    adapter.discard();
                    fed.clear();
                }
                next.into()
            }
            _ => RoleAnswer::fault(PluginFault::new("it was made as another kind")),
        };
        (answer, started.elapsed())
    }
}

/// A processor that follows a history, in a chain of its own, which enforces the rules of a run.
pub(super) struct Follower {
    chain: Chain,
    /// The history that it has.
    pub(super) input: Vec<Arc<Message>>,
    pub(super) view: Vec<Arc<Message>>,
}

impl Follower {
    pub(super) fn of(processor: Box<dyn Processor>) -> Self {
        Self {
            chain: Chain::new(vec![processor]),
            input: Vec::new(),
            view: Vec::new(),
        }
    }

    /// Passes on a change of the history, and returns that of the view.
    pub(super) async fn follow(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<Change, PluginFault> {
        let start = change.start;
        change.apply(&mut self.input);
        let (change, mut faults) = self.chain.apply(&self.input, start, asker).await;
        change.clone().apply(&mut self.view);
        match faults.pop() {
            None => Ok(change),
            Some(fault) => Err(PluginFault::new(fault.message).in_manner(fault.manner)),
        }
    }

    /// Drops all that it knows: the next history is new from its beginning.
    pub(super) fn forget(&mut self) {
        self.chain.forget();
        self.input.clear();
        self.view.clear();
    }
}

/// What is new in a history for someone who has `known`.
fn news(known: &[Arc<Message>], history: &[Arc<Message>]) -> Change {
    let both = known.iter().zip(history);
    let same = both.take_while(|(known, new)| Arc::ptr_eq(known, new) || known == new);
    let start = same.count();
    Change {
        start,
        messages: history[start..].to_vec(),
    }
}

/// The answer to a processor's question that the record does not contain.
const PLACEHOLDER: &str = "(No answer to this question was recorded; this text stands in for it.)";

/// Answers a processor's questions from the record, or refuses them, because they would cost money.
#[derive(Default)]
pub(super) struct Recall<'a> {
    /// None: the questions are refused.
    pub(super) questions: Option<&'a [RecordedQuestion]>,
    pub(super) asked: u64,
    pub(super) unanswered: u64,
}

#[async_trait]
impl Asker for Recall<'_> {
    async fn ask(
        &mut self,
        _: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError> {
        self.asked += 1;
        let messages: Vec<Message> = messages.iter().map(Message::light).collect();
        let same = |question: &&RecordedQuestion| {
            question.purpose == purpose && answer::messages_agree(&question.messages, &messages)
        };
        if let Some(question) = self.questions.unwrap_or_default().iter().find(same) {
            return Ok(question.reply.clone());
        }
        self.unanswered += 1;
        match self.questions {
            None => Err(ModelError::new(
                ModelFailure::Refused,
                "this is a shadow, whose questions are not sent to the model",
            )),
            Some(_) => Ok(Reply {
                message: Message::new("assistant", PLACEHOLDER),
                finish_reason: "stop".to_owned(),
                model: "none".to_owned(),
                ..Reply::default()
            }),
        }
    }
}

/// The difference between `new` and `old` tools, in words.
pub(super) fn other_tools(new: &[Tool], old: &[Tool]) -> String {
    let names = |tools: &[Tool]| {
        let names: Vec<String> = tools.iter().map(|it| format!("`{}`", it.name)).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    };
    let (own, others) = (names(new), names(old));
    if own != others {
        return format!("other tools ({own} instead of {others})");
    }
    let (new, old) = (json!(new), json!(old));
    let parts = excerpt::differences(&new, &old).into_iter();
    let mut parts: Vec<String> = parts
        .filter_map(|(path, ..)| Some(path.split('/').nth(2)?.to_owned()))
        .collect();
    parts.sort_unstable();
    parts.dedup();
    format!(
        "other tools ({own} as well, but with other {})",
        parts.join(" and ")
    )
}
