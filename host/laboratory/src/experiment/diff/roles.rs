//! The comparison for each kind.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::answer::{self, Degree, RoleAnswer};
use super::super::comparison::{Comparison, InputPlace};
use super::super::recorded::{RecordedOutcome, RecordedVerdict, Run, Step};
use super::DiffOptions;
use super::pieces::Piece;
use super::view::SideView;
use mswea_core::{
    Adapter, Change, ConfiguredRole, Formatter, Message, Outcome, Parser, Part, Policy, Processor,
    Reply, Tool, Verdict,
};

/// Instances of both plugins.
pub(super) enum InstancePair {
    Parsers(Box<dyn Parser>, Box<dyn Parser>),
    Formatters(Box<dyn Formatter>, Box<dyn Formatter>),
    Policies(Box<dyn Policy>, Box<dyn Policy>),
    /// None after they have followed a run: another run needs fresh instances.
    Processors(Option<(Box<dyn Processor>, Box<dyn Processor>)>),
    Adapters(Box<dyn Adapter>, Box<dyn Adapter>),
}

impl InstancePair {
    pub(super) fn of(old: ConfiguredRole, new: ConfiguredRole) -> Option<Self> {
        Some(match (old, new) {
            (ConfiguredRole::Parser(old), ConfiguredRole::Parser(new)) => Self::Parsers(old, new),
            (ConfiguredRole::Formatter(old), ConfiguredRole::Formatter(new)) => {
                Self::Formatters(old, new)
            }
            (ConfiguredRole::Policy(old), ConfiguredRole::Policy(new)) => Self::Policies(old, new),
            (ConfiguredRole::Processor(old), ConfiguredRole::Processor(new)) => {
                Self::Processors(Some((old, new)))
            }
            (ConfiguredRole::Adapter(old), ConfiguredRole::Adapter(new)) => {
                Self::Adapters(old, new)
            }
            _ => return None,
        })
    }

    /// A warning about the two plugins, if there is one.
    pub(super) fn warning(&self) -> Option<String> {
        match self {
            Self::Parsers(old, new) if old.tools() != new.tools() => Some(format!(
                "the new plugin offers {}; the recorded model was offered the tools of its own run",
                other_tools(new.tools(), old.tools())
            )),
            _ => None,
        }
    }

    /// Compares the pair on a piece; keeps `most` bytes of each text of a disagreement.
    pub(super) async fn compare(
        &mut self,
        piece: &Piece<'_>,
        options: &DiffOptions,
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

/// The difference between `new` and `old` tools, in words.
pub(crate) fn other_tools(new: &[Tool], old: &[Tool]) -> String {
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

/// The tools' names, in words.
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

/// Both answers; their times are added to `found`. The second call finds the input in the CPU's
/// cache, so the order of the two plugins alternates from call to call.
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

/// Counts the answers of both plugins that equal the recorded ones.
fn recorded(found: &mut Comparison, old: Option<bool>, new: Option<bool>) {
    if let (Some(old), Some(new)) = (old, new) {
        found.recorded += 1;
        found.old.as_recorded += u64::from(old);
        found.new.as_recorded += u64::from(new);
    }
}

fn place<'a>(run: &'a Run, step: &Step) -> InputPlace<'a> {
    InputPlace {
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
    let (old, new) = (RoleAnswer::from(old), RoleAnswer::from(new));
    let as_recorded = |answer: &RoleAnswer<'_>| parsed_as_recorded(step.outcome.as_ref()?, answer);
    recorded(found, as_recorded(&old), as_recorded(&new));
    found.judge(place(run, step), &old, &new, most, || shown_reply(reply));
}

fn parsed_as_recorded(recorded: &RecordedOutcome, answer: &RoleAnswer<'_>) -> Option<bool> {
    let RoleAnswer::Outcome(outcome) = answer else {
        // The loop treats a failure of the parser as a malformed reply with a code of its own.
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

/// A reply for a report.
pub(crate) fn shown_reply(reply: &Reply) -> Value {
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
    let (old, new) = (RoleAnswer::from(old), RoleAnswer::from(new));
    let observed = run.history.get(step.observed.clone()).unwrap_or_default();
    let has_image = |message: &Message| {
        let mut parts = message.content.iter();
        parts.any(|part| matches!(part, Part::Image { .. }))
    };
    // The loop looks for images in the formatter's messages.
    if !observed.is_empty() && !observed.iter().any(has_image) {
        let as_recorded = |answer: &RoleAnswer<'_>| match answer {
            RoleAnswer::Messages(messages) => Some(said(messages) == said(observed)),
            _ => Some(false),
        };
        recorded(found, as_recorded(&old), as_recorded(&new));
    }
    found.judge(place(run, step), &old, &new, most, || {
        shown_outputs(&actions, &outputs)
    });
}

/// The texts of messages: a trajectory does not keep how a text was divided into parts.
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

/// The input of a formatter for a report.
pub(crate) fn shown_outputs(
    actions: &[mswea_core::Action],
    outputs: &[mswea_core::Output],
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
        let (old, new) = (RoleAnswer::from(old), RoleAnswer::from(new));
        let verdict = step.verdicts.iter().find(|(of, _)| *of == index);
        if let Some((_, verdict)) = verdict {
            let as_recorded = |answer: &RoleAnswer<'_>| {
                judged_as_recorded(verdict, &names, &action.command, answer)
            };
            recorded(found, as_recorded(&old), as_recorded(&new));
        }
        let place = InputPlace {
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

/// Whether a judgement repeats the record; none if the record does not tell, because another policy
/// decided or a person was asked.
fn judged_as_recorded(
    recorded: &RecordedVerdict,
    names: &[String; 2],
    command: &str,
    answer: &RoleAnswer<'_>,
) -> Option<bool> {
    match (recorded, answer) {
        (RecordedVerdict::Denied { policy, .. }, _) if !names.contains(policy) => None,
        (_, RoleAnswer::Verdict(Verdict::Ask(_))) => None,
        (RecordedVerdict::Denied { reason, .. }, RoleAnswer::Verdict(Verdict::Deny(feedback))) => {
            Some(reason == feedback)
        }
        // The loop denies the action.
        (RecordedVerdict::Denied { .. }, answer) => Some(answer.failed()),
        (RecordedVerdict::Ran(ran), RoleAnswer::Verdict(Verdict::Allow)) => {
            Some(ran.command == command)
        }
        (RecordedVerdict::Ran(ran), RoleAnswer::Verdict(Verdict::Rewrite(action))) => {
            Some(ran.command == action.command)
        }
        (RecordedVerdict::Ran(_), _) => Some(false),
    }
}

async fn process(
    old: Box<dyn Processor>,
    new: Box<dyn Processor>,
    run: &Run,
    most: usize,
    found: &mut Comparison,
) {
    let mut old = SideView::new(old, &run.questions);
    let mut new = SideView::new(new, &run.questions);
    let mut fed = 0;
    // How many messages at the beginning are known to be equal in both views.
    let mut equal = 0;
    let history: Vec<_> = run.history.iter().cloned().map(Arc::new).collect();
    for step in &run.steps {
        let history = &history[..step.seen];
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
/// The input of a processor or an adapter for a report: only the last messages, because the history
/// is long and most of it is not new.
pub(crate) fn shown_history<M: Borrow<Message>>(history: &[M]) -> Value {
    let last = history.last().map(Borrow::borrow);
    json!({
        "messages_in_history": history.len(),
        "last": last.map(|message| json!({"role": message.role, "text": message.text()})),
    })
}

async fn adapt(
    old: &mut dyn Adapter,
    new: &mut dyn Adapter,
    run: &Run,
    options: &DiffOptions,
    most: usize,
    found: &mut Comparison,
) {
    let mut fed = [0, 0];
    for step in &run.steps {
        let history = &run.history[..step.seen];
        let change = |start: usize| Change {
            start,
            ..Change::all(history[start..].to_vec())
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
        // After a failure an adapter gets the whole history, as in a run.
        if old_next.is_err() {
            old.discard();
            fed[0] = 0;
        }
        if new_next.is_err() {
            new.discard();
            fed[1] = 0;
        }
        let (old, new) = (RoleAnswer::from(old_next), RoleAnswer::from(new_next));
        found.judge(place(run, step), &old, &new, most, || {
            shown_history(history)
        });
    }
}
