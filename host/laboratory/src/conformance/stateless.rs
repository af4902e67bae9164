//! The laws of parsers, formatters and policies, the kinds without state.

use std::time::Instant;

use serde_json::{Value, json};

use super::answer::{self, CallResult};
use super::calls::{Call, CallCase, Calls, calls};
use super::exam::{Crash, Exam};
use super::law::Law;
use super::report::cut;
use mswea_core::{
    Action, ConfiguredRole, Formatter, Maker, Message, Outcome, Output, Parser, Policy, Refused,
    RoleKind, Verdict,
};

/// An instance of one of the kinds.
enum Role {
    Parser(Box<dyn Parser>),
    Formatter(Box<dyn Formatter>),
    Policy(Box<dyn Policy>),
}

/// The result of a call.
struct Called {
    answer: CallResult,
    /// A breach of the pairing, or a policy's rewritten action with another tool call: what was
    /// expected, and what came.
    breach: Option<(String, String)>,
}

impl Role {
    async fn make(
        maker: &dyn Maker,
        kind: RoleKind,
        config: &Value,
        fresh: bool,
    ) -> Result<Self, Refused> {
        match maker.make(kind, config, fresh).await? {
            ConfiguredRole::Parser(parser) => Ok(Self::Parser(parser)),
            ConfiguredRole::Formatter(formatter) => Ok(Self::Formatter(formatter)),
            ConfiguredRole::Policy(policy) => Ok(Self::Policy(policy)),
            ConfiguredRole::Adapter(_) | ConfiguredRole::Processor(_) => Err(Refused::Failed(
                "another role was made than asked for".into(),
            )),
        }
    }

    async fn call(&mut self, call: &Call) -> Called {
        let since = Instant::now();
        let mut breach = None;
        let answer = match (self, call) {
            (Self::Parser(parser), Call::Parse { reply }) => {
                let result = parser.parse(reply).await;
                if let Ok(Outcome::Actions(actions)) = &result {
                    breach = unpaired_actions(&reply.message, actions);
                }
                CallResult::of(result, since, answer::outcome)
            }
            (Self::Formatter(formatter), Call::Format { actions, outputs }) => {
                let result = formatter.format(actions, outputs).await;
                if let Ok(messages) = &result {
                    breach = unpaired_messages(actions, outputs, messages);
                }
                CallResult::of(result, since, |messages| json!(messages))
            }
            (Self::Policy(policy), Call::Judge { action }) => {
                let result = policy.judge(action).await;
                if let Ok(Verdict::Rewrite(rewritten)) = &result
                    && rewritten.tool_call_id != action.tool_call_id
                {
                    let show = |action: &Action| {
                        let id = action.tool_call_id.as_ref();
                        id.map_or("no `tool-call-id`".to_owned(), |id| {
                            format!("the `tool-call-id` {}", shown(id))
                        })
                    };
                    breach = Some((
                        format!("the rewritten action has {}, as the action", show(action)),
                        format!("it has {}", show(rewritten)),
                    ));
                }
                CallResult::of(result, since, answer::verdict)
            }
            _ => CallResult::Reported("this call is not of this kind".to_owned()),
        };
        Called { answer, breach }
    }

    /// A parser's tools.
    fn tools(&self) -> Value {
        match self {
            Self::Parser(parser) => json!(parser.tools()),
            _ => Value::Null,
        }
    }
}

/// An id as messages show it.
fn shown(id: &str) -> String {
    let id = id.escape_debug().to_string().replace('`', "'");
    format!("`{}`", cut(&id, 60))
}

/// Checks that actions name only tool calls that exist, each once.
fn unpaired_actions(message: &Message, actions: &[Action]) -> Option<(String, String)> {
    let ids = actions
        .iter()
        .filter_map(|action| action.tool_call_id.as_deref());
    for id in ids.clone() {
        let made = message
            .tool_calls
            .iter()
            .filter(|call| call.id == id)
            .count();
        let claimed = ids.clone().filter(|claimed| *claimed == id).count();
        if claimed > made {
            let times = |count: usize| {
                if count == 1 {
                    "once".to_owned()
                } else {
                    format!("{count} times")
                }
            };
            return Some((
                match made {
                    0 => "only ids of tool calls that the reply makes".to_owned(),
                    made => format!("the `tool-call-id` {} at most {}", shown(id), times(made)),
                },
                format!(
                    "actions with the `tool-call-id` {}, {}",
                    shown(id),
                    times(claimed)
                ),
            ));
        }
    }
    None
}

/// Checks that every tool call with an output is answered, and no other one.
fn unpaired_messages(
    actions: &[Action],
    outputs: &[Output],
    messages: &[Message],
) -> Option<(String, String)> {
    let ids = |actions: &[Action]| -> Vec<String> {
        actions
            .iter()
            .filter_map(|action| action.tool_call_id.clone())
            .collect()
    };
    // The host never makes such a call; its result is left to the law `total`.
    if outputs.len() > actions.len() {
        return None;
    }
    let owed = ids(&actions[..outputs.len()]);
    let all = ids(actions);
    let answers = messages.iter().filter(|message| message.role == "tool");
    let answers: Vec<&str> = answers
        .map(|m| m.tool_call_id.as_deref().unwrap_or_default())
        .collect();
    for id in &all {
        let count = |list: &[String]| list.iter().filter(|known| *known == id).count();
        let (least, most) = (count(&owed), count(&all));
        let got = answers.iter().filter(|answer| *answer == id).count();
        if got < least || got > most {
            return Some((
                format!("{least} message of role `tool` with the id {}", shown(id)),
                format!("{got} such messages"),
            ));
        }
    }
    let stray = answers
        .iter()
        .find(|answer| all.iter().all(|id| id != *answer))?;
    Some((
        "messages of role `tool` only for the tool calls of the actions".to_owned(),
        format!("such a message with the id {}", shown(stray)),
    ))
}

/// Examines one kind with one config.
pub(super) async fn examine(exam: &mut Exam<'_>, kind: RoleKind, config: &Value, is_first: bool) {
    let Calls {
        ordinary,
        odd,
        huge,
    } = calls(kind, &exam.options.samples, &exam.scale);
    let mut small = ordinary.clone();
    small.extend(odd);
    let crashed = total(exam, kind, config, &small, ordinary.len()).await;
    // The crashes of these cases are reported already, and would end every sequence that contains
    // them.
    small.retain(|case| !crashed.contains(&case.label));
    if kind == RoleKind::ActionParser {
        tools(exam, config).await;
    }
    for (law, again) in [
        (Law::Deterministic, CallRepetition::Apart),
        (Law::Deterministic, CallRepetition::Twice),
        (Law::Disposable, CallRepetition::Fresh),
    ] {
        sequences(exam, law, kind, config, &small, again).await;
        if !matches!(again, CallRepetition::Apart) {
            exam.finish(&[law]);
        }
    }
    if kind == RoleKind::ActionPolicy {
        sequences(
            exam,
            Law::Judgement,
            kind,
            config,
            &small,
            CallRepetition::Alone,
        )
        .await;
        exam.finish(&[Law::Judgement]);
    }
    // Huge inputs take long, and give the same results with most configs.
    if is_first {
        total(exam, kind, config, &huge, 0).await;
    }
}

/// A call during an examination: a crash is recorded, with its input made small.
async fn call(
    exam: &mut Exam<'_>,
    kind: RoleKind,
    config: &Value,
    role: &mut Role,
    case: &CallCase,
) -> Called {
    let called = role.call(&case.call).await;
    if let CallResult::Failed(crash) = &called.answer
        && exam.count_crash(crash)
    {
        let mut smallest = case.call.clone();
        if !crash.is_slow() {
            let maker = exam.maker;
            smallest = exam
                .shrink(smallest, async |call: &Call| {
                    match Role::make(maker, kind, config, false).await {
                        Ok(mut role) => {
                            matches!(role.call(call).await.answer, CallResult::Failed(_))
                        }
                        Err(_) => false,
                    }
                })
                .await;
        }
        exam.find_crash(&case.label, config, &smallest, crash);
    }
    called
}

/// Law `total`: values or errors, and the pairing in each answer. Returns the cases that crashed.
/// The first cases are ordinary.
async fn total(
    exam: &mut Exam<'_>,
    kind: RoleKind,
    config: &Value,
    cases: &[CallCase],
    ordinary: usize,
) -> Vec<String> {
    exam.begin();
    let mut crashed = Vec::new();
    let mut role = match Role::make(exam.maker, kind, config, false).await {
        Ok(role) => role,
        Err(refused) => {
            exam.unmade(config, &refused);
            return crashed;
        }
    };
    let law = match kind {
        RoleKind::ActionPolicy => Law::Judgement,
        _ => Law::Paired,
    };
    for (index, case) in cases.iter().enumerate() {
        if exam.enough(&[Law::Total]) {
            return crashed;
        }
        exam.case(Law::Total);
        exam.case(law);
        let called = call(exam, kind, config, &mut role, case).await;
        if index < ordinary {
            let came = match &called.answer {
                CallResult::Value(_) => Ok(()),
                CallResult::Reported(message) => Err(Some(message.as_str())),
                CallResult::Failed(_) => Err(None),
            };
            exam.ordinary(&case.label, config, &case.call, came);
        }
        if let CallResult::Failed(_) = called.answer {
            crashed.push(case.label.clone());
        }
        let is_news = |(expected, came): &(String, String)| exam.is_news(law, expected, came);
        let Some(breach) = called.breach.filter(is_news) else {
            continue;
        };
        let maker = exam.maker;
        let smallest = exam
            .shrink(case.call.clone(), async |call: &Call| {
                match Role::make(maker, kind, config, false).await {
                    Ok(mut role) => role.call(call).await.breach.as_ref() == Some(&breach),
                    Err(_) => false,
                }
            })
            .await;
        let (expected, came) = breach;
        exam.find(law, &case.label, config, &smallest, expected, came);
    }
    crashed
}

/// How the same calls are made the second time.
#[derive(Clone, Copy, Debug)]
enum CallRepetition {
    /// On a second instance.
    Apart,
    /// On the same instance, right after the first time.
    Twice,
    /// On an instance that is discarded after every call.
    Fresh,
    /// Each on an instance of its own.
    Alone,
}

impl CallRepetition {
    fn words(self) -> &'static str {
        match self {
            Self::Apart => "the same calls on two instances",
            Self::Twice => "each call made twice in a row",
            Self::Fresh => "the same calls on an instance that is kept and on fresh ones",
            Self::Alone => "a call after others, and alone on a fresh instance",
        }
    }
}

/// The result of a sequence of calls.
#[derive(Default)]
struct ComparedCalls {
    /// The first call whose answers differ: what was expected, and what came.
    differs: Option<(usize, String, String)>,
    /// The first call that failed.
    crash: Option<(usize, Crash)>,
}

/// Makes calls in two ways until their answers differ or one crashes.
async fn compare(
    maker: &dyn Maker,
    kind: RoleKind,
    config: &Value,
    calls: &[Call],
    again: CallRepetition,
) -> Result<ComparedCalls, Refused> {
    let make = |fresh| Role::make(maker, kind, config, fresh);
    let mut compared = ComparedCalls::default();
    let mut one = make(false).await?;
    let mut other = match again {
        CallRepetition::Apart => Some(make(false).await?),
        CallRepetition::Fresh => Some(make(true).await?),
        CallRepetition::Twice | CallRepetition::Alone => None,
    };
    for (index, call) in calls.iter().enumerate() {
        let first = one.call(call).await.answer;
        let second = match (&mut other, again) {
            (Some(other), _) => other.call(call).await.answer,
            (None, CallRepetition::Alone) => make(false).await?.call(call).await.answer,
            (None, _) => one.call(call).await.answer,
        };
        // To examine a kept instance, the fresh instance's answers are the expected ones.
        let (expected, came) = match again {
            CallRepetition::Apart | CallRepetition::Twice => (&first, &second),
            CallRepetition::Fresh | CallRepetition::Alone => (&second, &first),
        };
        compared.differs = came
            .differs(expected)
            .map(|(expected, came)| (index, expected, came));
        for answer in [first, second] {
            if let CallResult::Failed(crash) = answer {
                compared.crash.get_or_insert((index, crash));
            }
        }
        if compared.differs.is_some() || compared.crash.is_some() {
            break;
        }
    }
    Ok(compared)
}

/// Makes all calls in random order, in sequences, in two ways.
async fn sequences(
    exam: &mut Exam<'_>,
    law: Law,
    kind: RoleKind,
    config: &Value,
    cases: &[CallCase],
    again: CallRepetition,
) {
    exam.begin();
    let mut cases: Vec<&CallCase> = cases.iter().collect();
    exam.random(again.words()).shuffle(&mut cases);
    let mut sequences: Vec<Vec<&CallCase>> = cases.chunks(12).map(<[_]>::to_vec).collect();
    // The effects of counters and of growing state show only after many calls of one instance.
    if matches!(again, CallRepetition::Fresh | CallRepetition::Alone) {
        let long = cases.iter().cycle().take(exam.scale.long);
        sequences.push(long.copied().collect());
    }
    for cases in sequences {
        if exam.enough(&[law]) {
            return;
        }
        exam.case(law);
        let calls: Vec<Call> = cases.iter().map(|case| case.call.clone()).collect();
        let maker = exam.maker;
        let compared = match compare(maker, kind, config, &calls, again).await {
            Ok(compared) => compared,
            Err(refused) => return exam.unmade(config, &refused),
        };
        if let Some((index, crash)) = compared.crash
            && exam.count_crash(&crash)
        {
            let label = format!(
                "{}, as call {} of a sequence",
                cases[index].label,
                index + 1
            );
            exam.find_crash(
                &label,
                config,
                &json!({ "calls": &calls[..=index] }),
                &crash,
            );
        }
        let Some((index, expected, came)) = compared.differs else {
            continue;
        };
        let smallest = exam
            .shrink(calls, async |calls: &Vec<Call>| {
                let compared = compare(maker, kind, config, calls, again).await;
                compared.is_ok_and(|compared| compared.differs.is_some())
            })
            .await;
        // The finding comes from the smaller calls.
        let shown = compare(maker, kind, config, &smallest, again).await;
        let shown = shown.ok().and_then(|compared| compared.differs);
        let (_, expected, came) = shown.unwrap_or((index, expected, came));
        let input = json!({ "calls": smallest });
        exam.find(law, again.words(), config, &input, expected, came);
        // Further sequences would show the same.
        return;
    }
}

async fn tools(exam: &mut Exam<'_>, config: &Value) {
    let kind = RoleKind::ActionParser;
    let law = Law::Deterministic;
    exam.case(law);
    let one = Role::make(exam.maker, kind, config, false).await;
    let other = Role::make(exam.maker, kind, config, false).await;
    if let (Ok(one), Ok(other)) = (one, other)
        && let Some((expected, came)) = answer::unequal(&one.tools(), &other.tools())
    {
        exam.find(
            law,
            "`tools` of two fresh instances",
            config,
            &Value::Null,
            expected,
            came,
        );
    }
}
