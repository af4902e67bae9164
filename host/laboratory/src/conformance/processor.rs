//! The laws of history processors.

use serde_json::{Value, json};

use super::answer::unequal;
use super::answerer::Manners;
use super::exam::{Crash, Exam};
use super::histories::{self, Course, HistoryStep, is_lawful};
use super::law::Law;
use super::processor_session::{ProcessorSession, StepFailure};
use mswea_core::{Maker, Message, Part, Refused};
use mswea_run::history::check_pairing;

/// A breach of a law in a walk.
struct Breach {
    law: Law,
    step: usize,
    expected: String,
    came: String,
}

/// The result of a course.
#[derive(Default)]
struct Walk {
    breaches: Vec<Breach>,
    crash: Option<(usize, Crash)>,
    asked: usize,
    /// For each step: a view, a reported error, or neither.
    came: Vec<Result<(), Option<String>>>,
}

impl Walk {
    fn find(&mut self, law: Law, step: usize, (expected, came): (String, String)) {
        if self.breaches.iter().all(|known| known.law != law) {
            self.breaches.push(Breach {
                law,
                step,
                expected,
                came,
            });
        }
    }

    fn of(&self, law: Law) -> Option<&Breach> {
        self.breaches.iter().find(|breach| breach.law == law)
    }
}

/// Follows a course with a kept instance, with a second one that gets the same calls, and with one
/// that is discarded after every call (with `spliced`: a new one for every step). Ends at the first
/// step without a view.
async fn walk(
    maker: &dyn Maker,
    config: &Value,
    steps: &[HistoryStep],
    spliced: bool,
) -> Result<Walk, Refused> {
    let start = |fresh| ProcessorSession::start(maker, config, fresh, Manners::Echo);
    let mut walk = Walk::default();
    let mut kept = start(false).await?;
    let mut twin = start(false).await?;
    let mut fresh = start(true).await?;
    for (index, step) in steps.iter().enumerate() {
        let one = kept.step(step).await;
        walk.asked += kept.answerer.asked;
        if let Some(breach) = kept.answerer.breach.take() {
            walk.find(Law::Asking, index, breach);
        }
        let other = twin.step(step).await;
        let measure = if spliced {
            fresh = start(false).await?;
            fresh.answerer.joins(&kept.answerer);
            let whole = HistoryStep {
                start: 0,
                messages: kept.history.clone(),
            };
            fresh.step(&whole).await
        } else {
            fresh.step(step).await
        };
        if let (Some(one), Some(other)) = (outcome(&one), outcome(&other))
            && let Some(differs) = unequal(&one, &other)
        {
            walk.find(Law::Deterministic, index, differs);
        }
        let law = if spliced {
            Law::Coherent
        } else {
            Law::Disposable
        };
        match (&one, &measure) {
            (Ok(_), Ok(_)) => {
                if let Some(differs) = unequal(&json!(fresh.view), &json!(kept.view)) {
                    walk.find(law, index, differs);
                }
            }
            (Err(StepFailure::Failed(_) | StepFailure::Broken(..)), _)
            | (_, Err(StepFailure::Failed(_) | StepFailure::Broken(..))) => {}
            (one, measure) => {
                let said = |result: &Result<Value, StepFailure>| match result {
                    Err(StepFailure::Reported(message)) => format!("the error: {message}"),
                    _ => "a view".to_owned(),
                };
                let (expected, came) = (said(measure), said(one));
                if expected != came {
                    walk.find(law, index, (expected, came));
                }
            }
        }
        walk.came.push(match &one {
            Ok(_) => Ok(()),
            Err(StepFailure::Reported(message)) => Err(Some(message.clone())),
            Err(_) => Err(None),
        });
        let mut has_view = true;
        for result in [one, other, measure] {
            match result {
                Ok(_) => {}
                Err(StepFailure::Reported(_)) => has_view = false,
                Err(StepFailure::Broken(expected, came)) => {
                    has_view = false;
                    walk.find(Law::Coherent, index, (expected, came));
                }
                Err(StepFailure::Failed(crash)) => {
                    has_view = false;
                    walk.crash.get_or_insert((index, crash));
                }
            }
        }
        if walk.crash.is_some() {
            break;
        }
        if has_view {
            if let Err(reason) = check_pairing(&kept.view, 0) {
                let expected =
                    "a view whose tool calls and results are paired, as the history's are";
                walk.find(Law::Paired, index, (expected.to_owned(), reason));
            }
            if let Some(lost) = lost_extra(&kept.history, &kept.view) {
                walk.find(Law::ExtraKept, index, lost);
            }
        }
    }
    Ok(walk)
}

/// The part of a result that must be equal for the same calls; none for a failure.
fn outcome(result: &Result<Value, StepFailure>) -> Option<Value> {
    match result {
        Ok(raw) => Some(raw.clone()),
        Err(StepFailure::Reported(message)) => Some(json!({ "error": message })),
        Err(_) => None,
    }
}

/// The first message of the history that is in the view and has lost a key of its `extra` that the
/// plugin does not know.
fn lost_extra(history: &[Message], view: &[Message]) -> Option<(String, String)> {
    for (index, message) in view.iter().enumerate() {
        let Some(source) = source(history, message) else {
            continue;
        };
        let unknown = |key: &&String| key.starts_with("kit_");
        for key in source.extra.keys().filter(unknown) {
            let (expected, came) = (&source.extra[key], message.extra.get(key));
            if came != Some(expected) {
                let came = came.map_or("no such key".to_owned(), Value::to_string);
                return Some((
                    format!(
                        "`extra.{key}` = {expected} in message {index} of the view, as in the history"
                    ),
                    came,
                ));
            }
        }
        if let Some(lost) = lost_part(index, source, message) {
            return Some(lost);
        }
        for (call, was) in message.tool_calls.iter().zip(&source.tool_calls) {
            if call.id == was.id && call.extra != was.extra {
                return Some((
                    format!(
                        "the tool call `{}` with the `extra` {}",
                        was.id,
                        json!(was.extra)
                    ),
                    json!(call.extra).to_string(),
                ));
            }
        }
    }
    None
}

/// A part that the view's message still has, without the keys that the plugin does not know.
fn lost_part(index: usize, source: &Message, message: &Message) -> Option<(String, String)> {
    // A part is identified by what it shows; its other keys must be unchanged in one of the parts.
    let key = |part: &Part| match part {
        Part::Text { .. } => None,
        Part::Image { url, .. } => Some(("image", url.clone())),
        Part::Reasoning { text, .. } => Some(("reasoning", text.clone())),
        Part::Opaque { format, .. } => Some(("opaque", format.clone())),
    };
    let keeps = |was: &Part, part: &Part| match (was, part) {
        (Part::Image { extra: was, .. }, Part::Image { extra, .. })
        | (Part::Reasoning { extra: was, .. }, Part::Reasoning { extra, .. }) => was
            .iter()
            .filter(|(key, _)| key.starts_with("kit"))
            .all(|(key, value)| extra.get(key) == Some(value)),
        (was, part) => was == part,
    };
    message.content.iter().find_map(|part| {
        let known = key(part)?;
        let mut was = source.content.iter().filter(|was| {
            let key = key(was);
            key.as_ref() == Some(&known)
        });
        let first = was.clone().next()?;
        (!was.any(|was| keeps(was, part))).then(|| {
            let (kind, _) = known;
            (
                format!(
                    "the {kind} part {} in message {index} of the view, as in the history",
                    json!(first)
                ),
                json!(part).to_string(),
            )
        })
    })
}

/// The history's message that a message of the view comes from: identified by its tool calls, or by
/// a content that no other message has.
fn source<'h>(history: &'h [Message], message: &Message) -> Option<&'h Message> {
    let ids = |message: &Message| -> Vec<String> {
        message
            .tool_calls
            .iter()
            .map(|call| call.id.clone())
            .collect()
    };
    let same: Box<dyn Fn(&&Message) -> bool> = match (&message.tool_call_id, ids(message)) {
        (Some(id), _) if message.role == "tool" => {
            let id = id.clone();
            Box::new(move |known| known.tool_call_id.as_ref() == Some(&id))
        }
        (_, calls) if !calls.is_empty() => Box::new(move |known| ids(known) == calls),
        _ => {
            // A shortened or marked message still begins or reads as before.
            let line = |message: &Message| message.text().lines().next().map(str::to_owned);
            let (role, first) = (message.role.clone(), line(message)?);
            Box::new(move |known| known.role == role && line(known).as_ref() == Some(&first))
        }
    };
    let mut found = history.iter().filter(|known| same(known));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

const WALKED: [Law; 5] = [
    Law::Deterministic,
    Law::Disposable,
    Law::Coherent,
    Law::Paired,
    Law::ExtraKept,
];

/// Examines a processor with one config.
pub(super) async fn examine(exam: &mut Exam<'_>, config: &Value, is_first: bool) {
    let mut asked = 0;
    for spliced in [false, true] {
        exam.begin();
        let purpose = if spliced { "splices" } else { "growth" };
        let samples = exam.options.samples.histories.clone();
        let mut courses = histories::courses(exam.random(purpose), &exam.scale, spliced, &samples);
        if !spliced {
            courses.push(histories::long(exam.random("long")));
        }
        for course in courses {
            if exam.enough(&WALKED) {
                break;
            }
            asked += one_course(exam, config, &course, spliced).await;
        }
        // Most of these laws are examined by the splices as well, so they are finished only after
        // those.
        exam.finish(if spliced { &WALKED } else { &[Law::Disposable] });
    }
    if asked > 0 {
        super::asking::examine(exam, config).await;
    }
    total(exam, config, is_first).await;
}

async fn one_course(exam: &mut Exam<'_>, config: &Value, course: &Course, spliced: bool) -> usize {
    let maker = exam.maker;
    // A law has no case in a course that can't show a breach.
    let other = if spliced {
        Law::Disposable
    } else {
        Law::Coherent
    };
    for law in WALKED {
        if law != other {
            exam.case(law);
        }
    }
    let walked = match walk(maker, config, &course.steps, spliced).await {
        Ok(walked) => walked,
        Err(refused) => {
            exam.unmade(config, &refused);
            return 0;
        }
    };
    for (index, came) in walked.came.iter().enumerate() {
        let input = match came {
            Err(Some(_)) if index == 0 => json!({ "changes": &course.steps[..1] }),
            _ => Value::Null,
        };
        let came = came.as_ref().copied().map_err(Option::as_deref);
        exam.ordinary(&course.label, config, &input, came);
    }
    if let Some((index, crash)) = &walked.crash {
        let steps = &course.steps[..=*index];
        found_crash(exam, config, &course.label, steps, crash, true).await;
    }
    for Breach { law, step, .. } in &walked.breaches {
        if exam.is_full(*law) {
            continue;
        }
        if *law == Law::Asking {
            exam.case(*law);
        }
        let steps = course.steps[..=*step].to_vec();
        let smallest = exam
            .shrink(steps, async |steps: &Vec<HistoryStep>| {
                let lawful = is_lawful(steps);
                lawful
                    && walk(maker, config, steps, spliced)
                        .await
                        .is_ok_and(|walk| walk.of(*law).is_some())
            })
            .await;
        if let Ok(walk) = walk(maker, config, &smallest, spliced).await
            && let Some(breach) = walk.of(*law)
        {
            let (expected, came) = (breach.expected.clone(), breach.came.clone());
            let input = json!({ "changes": smallest });
            exam.find(*law, &course.label, config, &input, expected, came);
        } else if let Some(breach) = walked.of(*law) {
            // The breach does not show again, so the first result is all that can be reported.
            let input = json!({ "changes": &course.steps[..=*step] });
            let (expected, came) = (breach.expected.clone(), breach.came.clone());
            exam.find(*law, &course.label, config, &input, expected, came);
        }
    }
    walked.asked
}

/// Records a crash, with as few changes as possible.
async fn found_crash(
    exam: &mut Exam<'_>,
    config: &Value,
    label: &str,
    steps: &[HistoryStep],
    crash: &Crash,
    lawful: bool,
) {
    if !exam.count_crash(crash) {
        return;
    }
    let maker = exam.maker;
    let mut smallest = steps.to_vec();
    if !crash.is_slow() {
        smallest = exam
            .shrink(smallest, async |steps: &Vec<HistoryStep>| {
                (is_lawful(steps) || !lawful) && crashes(maker, config, steps).await.is_some()
            })
            .await;
    }
    exam.find_crash(label, config, &json!({ "changes": smallest }), crash);
}

/// The index of the first step in which a kept instance crashes.
async fn crashes(
    maker: &dyn Maker,
    config: &Value,
    steps: &[HistoryStep],
) -> Option<(usize, Crash)> {
    let mut session = ProcessorSession::start(maker, config, false, Manners::Echo)
        .await
        .ok()?;
    for (index, step) in steps.iter().enumerate() {
        if step.start > session.history.len() {
            return None;
        }
        if let Err(StepFailure::Failed(crash)) = session.step(step).await {
            return Some((index, crash));
        }
    }
    None
}

/// Law `total`: views or errors for every history.
async fn total(exam: &mut Exam<'_>, config: &Value, is_first: bool) {
    exam.begin();
    let scale = exam.scale;
    for course in histories::hostile(exam.random("hostile"), &scale) {
        if exam.enough(&[Law::Total]) {
            return;
        }
        let size: usize = course
            .steps
            .iter()
            .flat_map(|s| &s.messages)
            .map(|m| m.text().len())
            .sum();
        if !is_first && size > 50_000 {
            continue;
        }
        exam.case(Law::Total);
        if let Some((index, crash)) = crashes(exam.maker, config, &course.steps).await {
            let steps = &course.steps[..=index];
            found_crash(exam, config, &course.label, steps, &crash, false).await;
        }
    }
}
