//! What is compared, kind by kind.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::super::answer::{self, Answer, Degree};
use super::super::comparison::{Comparison, Place};
use super::super::latency::Latency;
use super::super::recorded::{Question, RecordedOutcome, RecordedVerdict, Run, Step};
use super::super::watched::{Sight, Watched};
use super::Options;
use super::pieces::Piece;
use crate::history::{Chain, ChainFault};
use crate::roles::{
    Adapter, Asker, Change, Formatter, Made, Manner, Message, ModelError, Outcome, Parser, Part,
    Policy, Processor, Reply, Tool, Verdict,
};

/// What a processor is told that asks what no record answers.
pub(in crate::experiment) const PLACEHOLDER: &str =
    "(No answer to this question was recorded; this text stands in for it.)";

/// Instances of both plugins.
pub(super) enum Pair {
    Parsers(Box<dyn Parser>, Box<dyn Parser>),
    Formatters(Box<dyn Formatter>, Box<dyn Formatter>),
    Policies(Box<dyn Policy>, Box<dyn Policy>),
    /// Used up by the run that they follow.
    Processors(Option<(Box<dyn Processor>, Box<dyn Processor>)>),
    Adapters(Box<dyn Adapter>, Box<dyn Adapter>),
}

impl Pair {
    pub(super) fn of(old: Made, new: Made) -> Option<Self> {
        Some(match (old, new) {
            (Made::Parser(old), Made::Parser(new)) => Self::Parsers(old, new),
            (Made::Formatter(old), Made::Formatter(new)) => Self::Formatters(old, new),
            (Made::Policy(old), Made::Policy(new)) => Self::Policies(old, new),
            (Made::Processor(old), Made::Processor(new)) => Self::Processors(Some((old, new))),
            (Made::Adapter(old), Made::Adapter(new)) => Self::Adapters(old, new),
            _ => return None,
        })
    }

    /// What a person should know of the two before reading on.
    pub(super) fn warning(&self) -> Option<String> {
        match self {
            Self::Parsers(old, new) if old.tools() != new.tools() => Some(format!(
                "the new plugin offers {}; the recorded replies are those of a model that was told of the tools of its own run",
                other_tools(new.tools(), old.tools())
            )),
            _ => None,
        }
    }

    /// Compares over a piece; `most` bytes are kept of each text of a disagreement.
    pub(super) async fn compare(
        &mut self,
        piece: &Piece<'_>,
        options: &Options,
        most: usize,
        found: &mut Comparison,
    ) {
        let run = piece.run;
        let steps = &run.steps[piece.steps.clone()];
        match self {
            Self::Parsers(old, new) => {
                for step in steps {
                    parse(&mut **old, &mut **new, run, step, most, found).await;
                }
            }
            Self::Formatters(old, new) => {
                for step in steps {
                    format(&mut **old, &mut **new, run, step, most, found).await;
                }
            }
            Self::Policies(old, new) => {
                for step in steps {
                    judge(&mut **old, &mut **new, run, step, most, found).await;
                }
            }
            Self::Processors(both) => {
                if let Some((old, new)) = both.take() {
                    process(old, new, run, most, found).await;
                }
            }
            Self::Adapters(old, new) => {
                adapt(&mut **old, &mut **new, run, options, most, found).await;
            }
        }
    }
}

/// How `new` tools differ from `old` ones, for people.
pub(in crate::experiment) fn other_tools(new: &[Tool], old: &[Tool]) -> String {
    let (own, others) = (names(new), names(old));
    if own != others {
        return format!("other tools ({own} instead of {others})");
    }
    let differs = |one: fn(&Tool, &Tool) -> bool| old.iter().zip(new).any(|(a, b)| one(a, b));
    let parts = [
        (
            "description",
            differs(|a, b| a.description != b.description),
        ),
        ("parameters", differs(|a, b| a.parameters != b.parameters)),
        ("`extra`", differs(|a, b| a.extra != b.extra)),
    ];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter_map(|(part, differs)| differs.then_some(part))
        .collect();
    format!(
        "other tools ({own} as well, but with other {})",
        parts.join(" and ")
    )
}

/// The tools' names, for people.
fn names(tools: &[Tool]) -> String {
    let names: Vec<String> = tools
        .iter()
        .map(|tool| format!("`{}`", tool.name))
        .collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// Both answers, with their times. Whoever goes second finds the input in the cache, so they
/// take turns.
async fn both<T>(
    found: &mut Comparison,
    old: impl Future<Output = T>,
    new: impl Future<Output = T>,
) -> (T, T) {
    let new_first = found.old.latency.calls() % 2 == 1;
    let (old, new) = if new_first {
        let new = timed(new).await;
        (timed(old).await, new)
    } else {
        (timed(old).await, timed(new).await)
    };
    found.old.latency.add(old.1);
    found.new.latency.add(new.1);
    (old.0, new.0)
}

async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let result = call.await;
    (result, started.elapsed())
}

/// Counts how far the two are from what the run did.
fn recorded(found: &mut Comparison, old: Option<bool>, new: Option<bool>) {
    if let (Some(old), Some(new)) = (old, new) {
        found.recorded += 1;
        found.old.as_recorded += u64::from(old);
        found.new.as_recorded += u64::from(new);
    }
}

fn place<'a>(run: &'a Run, step: &Step) -> Place<'a> {
    Place {
        run: &run.name,
        step: step.number,
        index: None,
    }
}

async fn parse(
    old: &mut dyn Parser,
    new: &mut dyn Parser,
    run: &Run,
    step: &Step,
    most: usize,
    found: &mut Comparison,
) {
    let Some(reply) = &step.reply else {
        found.skip("a query without a reply");
        return;
    };
    let (old, new) = both(found, old.parse(reply), new.parse(reply)).await;
    let (old, new) = (Answer::from(old), Answer::from(new));
    let as_recorded = |answer: &Answer<'_>| parsed_as_recorded(step.outcome.as_ref()?, answer);
    recorded(found, as_recorded(&old), as_recorded(&new));
    found.judge(place(run, step), &old, &new, most, || shown_reply(reply));
}

fn parsed_as_recorded(recorded: &RecordedOutcome, answer: &Answer<'_>) -> Option<bool> {
    let Answer::Outcome(outcome) = answer else {
        // To the loop that is a malformed reply with a code of its own.
        let failed = |code: &str| code == "parser-failed";
        return Some(
            matches!(recorded, RecordedOutcome::Malformed(code) if code.as_deref().is_none_or(failed)),
        );
    };
    Some(match (recorded, outcome) {
        (RecordedOutcome::Actions(actions), outcome @ Outcome::Actions(_)) => {
            answer::outcomes_agree(&Outcome::Actions(actions.clone()), outcome)
        }
        (RecordedOutcome::Malformed(Some(code)), Outcome::Malformed(problem)) => {
            *code == problem.code
        }
        (RecordedOutcome::Malformed(None), Outcome::Malformed(_)) => true,
        _ => false,
    })
}

/// A reply as a reader of a report wants it.
pub(in crate::experiment) fn shown_reply(reply: &Reply) -> Value {
    let mut shown = json!({ "text": reply.message.text() });
    if !reply.message.tool_calls.is_empty() {
        let calls = reply.message.tool_calls.iter();
        let calls = calls
            .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}));
        shown["tool_calls"] = calls.collect();
    }
    if !reply.finish_reason.is_empty() {
        shown["finish_reason"] = reply.finish_reason.as_str().into();
    }
    shown
}

async fn format(
    old: &mut dyn Formatter,
    new: &mut dyn Formatter,
    run: &Run,
    step: &Step,
    most: usize,
    found: &mut Comparison,
) {
    if step.outputs.is_empty() {
        found.skip(if step.actions().is_empty() {
            "a step without an action"
        } else {
            "a step whose outputs are not recorded"
        });
        return;
    }
    let (actions, outputs): (Vec<_>, Vec<_>) = step.outputs.iter().cloned().unzip();
    let (old, new) = both(
        found,
        old.format(&actions, &outputs),
        new.format(&actions, &outputs),
    )
    .await;
    let (old, new) = (Answer::from(old), Answer::from(new));
    let observed = run.history.get(step.observed.clone()).unwrap_or_default();
    let has_image = |message: &Message| {
        let mut parts = message.content.iter();
        parts.any(|part| matches!(part, Part::Image { .. }))
    };
    // The loop finds images in what a formatter made.
    if !observed.is_empty() && !observed.iter().any(has_image) {
        let as_recorded = |answer: &Answer<'_>| match answer {
            Answer::Messages(messages) => Some(said(messages) == said(observed)),
            _ => Some(false),
        };
        recorded(found, as_recorded(&old), as_recorded(&new));
    }
    found.judge(place(run, step), &old, &new, most, || {
        shown_outputs(&actions, &outputs)
    });
}

/// What messages say: a trajectory does not keep how a text was cut into parts.
fn said(messages: &[Message]) -> Vec<(&str, Option<&str>, String)> {
    let said = messages.iter().map(|message| {
        (
            message.role.as_str(),
            message.tool_call_id.as_deref(),
            message.text(),
        )
    });
    said.collect()
}

/// What a formatter is given, for a reader of a report.
pub(in crate::experiment) fn shown_outputs(
    actions: &[crate::roles::Action],
    outputs: &[crate::roles::Output],
) -> Value {
    let both = actions.iter().zip(outputs);
    both.map(|(action, output)| {
        let mut shown = json!({
            "command": action.command,
            "returncode": output.returncode,
            "output": output.output,
        });
        if !output.exception_info.is_empty() {
            shown["exception_info"] = output.exception_info.as_str().into();
        }
        shown
    })
    .collect()
}

async fn judge(
    old: &mut dyn Policy,
    new: &mut dyn Policy,
    run: &Run,
    step: &Step,
    most: usize,
    found: &mut Comparison,
) {
    let names = [old.name().to_owned(), new.name().to_owned()];
    if step.actions().is_empty() {
        found.skip("a step without an action");
    }
    for (index, action) in step.actions().iter().enumerate() {
        let (old, new) = both(found, old.judge(action), new.judge(action)).await;
        let (old, new) = (Answer::from(old), Answer::from(new));
        let verdict = step.verdicts.iter().find(|(of, _)| *of == index);
        if let Some((_, verdict)) = verdict {
            let as_recorded =
                |answer: &Answer<'_>| judged_as_recorded(verdict, &names, &action.command, answer);
            recorded(found, as_recorded(&old), as_recorded(&new));
        }
        let place = Place {
            index: u32::try_from(index).ok(),
            ..place(run, step)
        };
        found.judge(
            place,
            &old,
            &new,
            most,
            || json!({ "command": action.command }),
        );
    }
}

/// None where the record does not tell: another policy spoke, or a person was asked.
fn judged_as_recorded(
    recorded: &RecordedVerdict,
    names: &[String; 2],
    command: &str,
    answer: &Answer<'_>,
) -> Option<bool> {
    match (recorded, answer) {
        (RecordedVerdict::Denied { policy, .. }, _) if !names.contains(policy) => None,
        (_, Answer::Verdict(Verdict::Ask(_))) => None,
        (RecordedVerdict::Denied { reason, .. }, Answer::Verdict(Verdict::Deny(feedback))) => {
            Some(reason == feedback)
        }
        // The loop denies.
        (RecordedVerdict::Denied { .. }, answer) => Some(answer.failed()),
        (RecordedVerdict::Ran(ran), Answer::Verdict(Verdict::Allow)) => {
            Some(ran.command == command)
        }
        (RecordedVerdict::Ran(ran), Answer::Verdict(Verdict::Rewrite(action))) => {
            Some(ran.command == action.command)
        }
        (RecordedVerdict::Ran(_), _) => Some(false),
    }
}

/// Answers a processor's questions out of the record.
struct Recall<'a> {
    questions: &'a [Question],
    asked: u64,
    unanswered: u64,
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
        let same = |question: &&Question| {
            question.purpose == purpose && answer::messages_agree(&question.messages, &messages)
        };
        if let Some(question) = self.questions.iter().find(same) {
            return Ok(question.reply.clone());
        }
        self.unanswered += 1;
        Ok(Reply {
            message: Message::new("assistant", PLACEHOLDER),
            finish_reason: "stop".to_owned(),
            model: "none".to_owned(),
            ..Reply::default()
        })
    }
}

/// One side's view, kept up by what the chain says has changed.
struct View<'a> {
    chain: Chain,
    sight: Sight,
    view: Vec<Message>,
    asker: Recall<'a>,
}

impl<'a> View<'a> {
    fn new(inner: Box<dyn Processor>, questions: &'a [Question]) -> Self {
        let (processor, sight) = Watched::over(inner);
        Self {
            chain: Chain::new(vec![processor]),
            sight,
            view: Vec::new(),
            asker: Recall {
                questions,
                asked: 0,
                unanswered: 0,
            },
        }
    }

    async fn follow(
        &mut self,
        history: &[Message],
        start: usize,
        latency: &mut Latency,
    ) -> (Change, Vec<ChainFault>) {
        let result = self.chain.apply(history, start, &mut self.asker).await;
        latency.add(self.sight.last().took);
        result
    }

    /// Lays the change over the view; answers where it began.
    fn lay(&mut self, change: Change) -> usize {
        let start = change.start;
        change.apply(&mut self.view);
        start
    }

    fn answer(&self, mut faults: Vec<ChainFault>) -> Answer<'_> {
        match faults.pop() {
            None => Answer::View(&self.view),
            Some(fault) => Answer::Failed {
                // Or else the chain found something wrong with what it answered.
                manner: answer::manner(self.sight.last().failed.unwrap_or(Manner::Broke)),
                message: fault.message,
            },
        }
    }
}

async fn process(
    old: Box<dyn Processor>,
    new: Box<dyn Processor>,
    run: &Run,
    most: usize,
    found: &mut Comparison,
) {
    let mut old = View::new(old, &run.questions);
    let mut new = View::new(new, &run.questions);
    let mut fed = 0;
    // Messages that both views are known to begin with.
    let mut equal = 0;
    for step in &run.steps {
        let history = &run.history[..step.seen];
        let new_first = found.old.latency.calls() % 2 == 1;
        let of_old = old.follow(history, fed, &mut found.old.latency);
        let of_new = new.follow(history, fed, &mut found.new.latency);
        let ((old_change, old_faults), (new_change, new_faults)) = if new_first {
            let new = of_new.await;
            (of_old.await, new)
        } else {
            (of_old.await, of_new.await)
        };
        fed = step.seen;
        equal = equal.min(old.lay(old_change)).min(new.lay(new_change));
        let rest = old.view[equal..].iter().zip(&new.view[equal..]);
        equal += rest.take_while(|(old, new)| old == new).count();
        let is_same = equal == old.view.len() && equal == new.view.len();
        let place = place(run, step);
        if is_same && old_faults.is_empty() && new_faults.is_empty() {
            found.count(place, Degree::Same);
            continue;
        }
        let (old, new) = (old.answer(old_faults), new.answer(new_faults));
        found.judge(place, &old, &new, most, || shown_history(history));
    }
    for (own, view) in [(&mut found.old, &old), (&mut found.new, &new)] {
        own.asked += view.asker.asked;
        own.unanswered += view.asker.unanswered;
    }
}

/// What a processor or an adapter is given, for a reader of a report: the history is long, and
/// most of it was there before.
pub(in crate::experiment) fn shown_history(history: &[Message]) -> Value {
    let last = history.last();
    json!({
        "messages_in_history": history.len(),
        "last": last.map(|message| json!({"role": message.role, "text": message.text()})),
    })
}

async fn adapt(
    old: &mut dyn Adapter,
    new: &mut dyn Adapter,
    run: &Run,
    options: &Options,
    most: usize,
    found: &mut Comparison,
) {
    let mut fed = [0, 0];
    for step in &run.steps {
        let history = &run.history[..step.seen];
        let change = |start: usize| Change {
            start,
            messages: history[start..].to_vec(),
        };
        let (old_change, new_change) = (change(fed[0]), change(fed[1]));
        let tools = &options.tools;
        let (old_next, new_next) = both(
            found,
            old.query(&old_change, tools),
            new.query(&new_change, tools),
        )
        .await;
        fed = [history.len(); 2];
        // Whoever failed starts over with everything, as in a run.
        if old_next.is_err() {
            old.discard();
            fed[0] = 0;
        }
        if new_next.is_err() {
            new.discard();
            fed[1] = 0;
        }
        let (old, new) = (Answer::from(old_next), Answer::from(new_next));
        found.judge(place(run, step), &old, &new, most, || {
            shown_history(history)
        });
    }
}
