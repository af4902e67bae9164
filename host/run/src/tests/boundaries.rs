//! Stops a run at every event boundary and continues it from its journal: the messages and the cost
//! equal those of the run that was not stopped, and no action runs twice.

use serde_json::json;

use super::lost::compare_until_lost;
pub(super) use super::lost::timeless;
use super::person::attended;
use super::*;
use mswea_core::{Clock, PersonMode};
use mswea_record::journal::{Record, read_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// A run: its replies, and whether the policies judge its actions.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) replies: Vec<String>,
    pub(super) limits: RunLimits,
    pub(super) rules: AgentRules,
    /// A history processor asks the model.
    pub(super) asks: bool,
    /// A person is asked about each step and each submission.
    pub(super) attended: bool,
}

/// The results of a run.
pub(super) struct Left {
    pub(super) records: Vec<Record>,
    pub(super) ended: Ended,
    pub(super) commands: Vec<String>,
}

pub(super) async fn go(run: &Recorded, state: State, replies: &[String]) -> Left {
    let is_new = state.run_id.is_empty();
    let clock = advancing(state.last.unwrap_or(7.0));
    let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
    let ran = Arc::new(Mutex::new(Vec::new()));
    let mut parts = parts(replies, ran.clone(), None);
    parts.pricing = Arc::new(OneDollar);
    if run.asks {
        parts.history = Chain::new(vec![Box::new(Asking::default())]);
    }
    if run.attended {
        parts.person = Arc::new(Steady);
    }
    let context = Context {
        clock,
        ..Context::new(Arc::new(Silent), journal.clone(), Stop::never())
    };
    let settings = RunSettings {
        rules: run.rules,
        ..settings(run.limits.clone())
    };
    let agent = Agent::new(parts, settings, context, state.clone());
    watch(&agent, state, journal.clone());
    let began = match is_new {
        true => started(),
        false => Event::RunResumed {
            host_version: "2".into(),
            config: json!({"is": "new"}),
            plugins: json!([]),
        },
    };
    agent.begin(&began).unwrap();
    let ended = agent.run().await;
    let commands = ran.lock().unwrap().clone();
    Left {
        records: journal.records(),
        ended,
        commands,
    }
}

/// A clock that goes on by a quarter of a second whenever it is looked at.
pub(super) fn advancing(from: f64) -> Clock {
    let quarters = AtomicU64::new(0);
    Clock::new(move || {
        let quarters = quarters.fetch_add(1, Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let passed = quarters as f64 / 4.0;
        from + passed
    })
}

/// Has the living state compared with what the journal folds to from disk, after each event.
pub(super) fn watch(agent: &Agent, before: State, journal: Arc<MemoryJournal>) {
    let folded = Mutex::new((before, 0));
    let compare = move |living: &State| {
        let mut folded = folded.lock().unwrap();
        let (state, taken) = &mut *folded;
        let records = journal.records();
        for record in from_disk(&records[*taken..]) {
            state.apply(record.t, record.event.clone());
        }
        *taken = records.len();
        assert_eq!(living, state, "{:?}", records.last());
    };
    assert!(agent.recorder.watch.set(Box::new(compare)).is_ok());
}

pub(super) fn started() -> Event {
    Event::RunStarted {
        format: mswea_record::journal::FORMAT.into(),
        run_id: "r".into(),
        host_version: "1".into(),
        task: "t".into(),
        config: json!({}),
        plugins: json!([]),
        parent: None,
    }
}

/// The records as a file has them.
fn from_disk(records: &[Record]) -> Vec<Record> {
    let mut file = Vec::new();
    for (position, record) in records.iter().enumerate() {
        let mut line = json!(record.event);
        line["seq"] = json!(position + 1);
        line["t"] = json!(record.t);
        file.extend(line.to_string().bytes());
        file.push(b'\n');
    }
    read_bytes(&file).unwrap().records
}

fn generated(seed: u64, attended: bool) -> Recorded {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut replies = Vec::new();
    let mut count = 0;
    for _ in 0..random.u32(0..5) {
        let reply = match random.u8(0..8) {
            0 => "text:what".to_owned(),
            1 => "text:none".to_owned(),
            2 => "unused:none".to_owned(),
            3 => "text:fault".to_owned(),
            _ => {
                let kind = if random.u8(0..6) == 0 {
                    "retried"
                } else {
                    "calls"
                };
                let words = (0..random.u32(1..4)).map(|_| {
                    count += 1;
                    match random.u8(0..8) {
                        0 => "rm".to_owned(),
                        1 => "old".to_owned(),
                        2 => "policy-fault".to_owned(),
                        3 => "ask".to_owned(),
                        4 if attended => "submit refused".to_owned(),
                        _ => format!("c{count}"),
                    }
                });
                format!("{kind}:{}", words.collect::<Vec<_>>().join("|"))
            }
        };
        replies.push(reply);
    }
    replies.push(match random.u8(0..4) {
        0 => "error:authentication".to_owned(),
        1 => "calls:first|submit x|never".to_owned(),
        _ => "calls:submit x".to_owned(),
    });
    let limits = RunLimits {
        steps: if random.u8(0..4) == 0 { 2 } else { 0 },
        consecutive_format_errors: 3,
        ..RunLimits::default()
    };
    let asks = random.u8(0..3) == 0;
    Recorded {
        replies,
        limits,
        asks,
        attended,
        ..Recorded::default()
    }
}

/// The action that was running at the end of these records.
pub(super) fn running(state: &State) -> Option<(usize, Action)> {
    let (index, slot) = state.step()?.open()?;
    (slot.stage == Stage::Running).then(|| (index, slot.judged().clone()))
}

/// The messages without the observation of an interrupted action.
fn shape(state: &State, left_out: Option<&str>) -> Vec<Value> {
    let messages = state.messages.iter();
    let list = messages.map(|message| {
        let same = left_out.is_some() && message.tool_call_id.as_deref() == left_out;
        match same {
            true => json!("left out"),
            false => timeless(message),
        }
    });
    list.collect()
}

/// The dollars of all that was billed.
pub(super) fn charged(records: &[Record]) -> f64 {
    let costs = records.iter().filter_map(|record| match record.event {
        Event::Reply { cost, .. }
        | Event::AskReply { cost, .. }
        | Event::QueryFailed { cost, .. } => cost,
        _ => None,
    });
    costs.sum()
}

async fn goes_on(run: &Recorded, records: &[Record]) {
    let before = fold(records);
    let place = format!("event {}: {:?}", records.len(), run.replies);
    let rest = go(run, before.clone(), &["calls:submit y".to_owned()]).await;
    let mut all = records.to_vec();
    all.extend(rest.records);
    let found = fold(&all);
    assert_eq!(found.messages, rest.ended.state.messages, "{place}");
    assert_eq!(found.account, rest.ended.account, "{place}");
    assert_eq!(found.account.cost, charged(&all), "{place}");
    let is_limited = run.limits.steps > 0 && rest.ended.end == End::LimitsExceeded;
    assert!(is_limited || rest.ended.end == End::Submitted, "{place}");
    let kept = before.messages.iter().filter(|it| it.role != "exit");
    for (kept, found) in kept.zip(&found.messages) {
        assert_eq!(timeless(kept), timeless(found), "{place}");
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_anywhere_goes_on_as_if_it_were_not() {
    for seed in 0..120 {
        let run = generated(seed, seed % 2 == 1);
        let whole = go(&run, State::default(), &run.replies).await;
        let expected = fold(&whole.records);
        assert_eq!(expected.messages, whole.ended.state.messages, "seed {seed}");
        assert_eq!(expected.account, whole.ended.account, "seed {seed}");
        assert_eq!(
            expected.account.cost,
            charged(&whole.records),
            "seed {seed}"
        );
        let trajectory = fold(&whole.records).into_trajectory();
        assert_eq!(
            whole.ended.state.into_trajectory(),
            trajectory,
            "seed {seed}"
        );
        let disk = from_disk(&whole.records);
        for end in 1..whole.records.len() {
            let state = fold(&whole.records[..end]);
            assert_eq!(state, fold(&disk[..end]), "seed {seed}, event {end}");
            let events = || whole.records[..end].iter().map(|record| &record.event);
            let used = events()
                .filter(|it| matches!(it, Event::Reply { .. } | Event::QueryFailed { .. }))
                .count();
            let began: Vec<String> = events()
                .filter_map(|event| match event {
                    Event::Action { action, .. } => Some(action.command.clone()),
                    _ => None,
                })
                .collect();
            let interrupted = running(&state);
            let has_failed = matches!(events().next_back(), Some(Event::QueryFailed { .. }));
            if has_failed || state.end.as_ref().is_some_and(|end| *end != End::Submitted) {
                // A resumed run continues after such an end.
                let records = &whole.records[..end];
                goes_on(&run, records).await;
                continue;
            }
            let mut replies = run.replies[used..].to_vec();
            if interrupted.is_some() {
                // The interrupted action does not submit, so another one has to.
                replies.push("calls:submit x".to_owned());
            }
            let rest = go(&run, state, &replies).await;
            let place = format!("seed {seed}, event {end}: {:?}", run.replies);
            let mut all = whole.records[..end].to_vec();
            all.extend(rest.records.iter().cloned());
            let found = fold(&all);
            // Each action was begun once.
            let mut commands = began.clone();
            let own = |command: &&String| !["salvage", "cleanup"].contains(&command.as_str());
            commands.extend(rest.commands.iter().filter(own).cloned());
            let whole_commands: Vec<String> = whole.commands.iter().filter(own).cloned().collect();
            let lost = |(_, action): &(usize, Action)| action.command.starts_with("submit");
            if interrupted.as_ref().is_some_and(lost) {
                // The model gets this report; its later replies are not compared.
                let reports = rest.ended.state.messages.iter();
                let reports = reports.filter(|it| it.text().contains("it was not run again"));
                assert_eq!(reports.count(), 1, "{place}");
                let before = fold(&whole.records[..end]);
                compare_until_lost(
                    &before,
                    &began,
                    &found,
                    (&rest.records, &rest.commands),
                    &place,
                );
                continue;
            }
            if run.limits.steps == 0 || interrupted.is_none() {
                assert_eq!(commands, whole_commands, "{place}");
            }
            let id = interrupted
                .as_ref()
                .and_then(|(_, it)| it.tool_call_id.clone());
            let left_out = id.as_deref();
            assert_eq!(
                shape(&found, left_out),
                shape(&expected, left_out),
                "{place}"
            );
            assert_eq!(found.account.cost, expected.account.cost, "{place}");
            assert_eq!(found.account.queries, expected.account.queries, "{place}");
            assert_eq!(found.account.usage, expected.account.usage, "{place}");
            assert_eq!(
                found.account.questions, expected.account.questions,
                "{place}"
            );
        }
    }
}

/// Gives the same answer to the same question.
struct Steady;

#[async_trait]
impl Person for Steady {
    fn is_present(&self) -> bool {
        true
    }

    fn mode(&self) -> PersonMode {
        PersonMode::Confirm
    }

    async fn answer(&self, question: &Question) -> Option<Answer> {
        let say = |text: &str| Answer::Say { text: text.into() };
        Some(match question {
            Question::Confirm { action, .. } => match action.tool_call_id.as_deref() {
                Some("c0") => Answer::Edit {
                    command: "edited".into(),
                },
                Some("c1") => say("not this"),
                _ => Answer::Yes,
            },
            Question::Actions { actions } if actions.len() == 2 => say("one by one"),
            Question::Submission { submission } if submission == "refused" => say("go on"),
            Question::Limit { .. } => return None,
            _ => Answer::Yes,
        })
    }
}

/// Continues a run in memory from these records, with changed parts.
pub(super) async fn resumed(
    records: &[Record],
    replies: &[&str],
    is_replaced: bool,
    change: impl FnOnce(&mut Parts),
) -> (State, Vec<String>) {
    let replies: Vec<String> = replies.iter().map(|&reply| reply.to_owned()).collect();
    let journal = Arc::new(MemoryJournal::default());
    let ran = Arc::new(Mutex::new(Vec::new()));
    let mut parts = parts(&replies, ran.clone(), None);
    parts.executor = Box::new(Echo {
        ran: ran.clone(),
        stop: None,
        is_replaced,
    });
    change(&mut parts);
    let context = Context::new(Arc::new(Silent), journal.clone(), Stop::never());
    let settings = settings(RunLimits::default());
    let agent = Agent::new(parts, settings, context, fold(records));
    let began = Event::RunResumed {
        host_version: String::new(),
        config: Value::Null,
        plugins: Value::Null,
    };
    agent.begin(&began).unwrap();
    agent.run().await;
    let mut all = records.to_vec();
    all.extend(journal.records());
    let state = fold(&all);
    // Providers refuse a call without a result.
    let messages: Vec<Message> = state.messages.iter().map(|it| (**it).clone()).collect();
    let view = &messages[..messages.len() - 1];
    history::check_pairing(view, 0).unwrap();
    let commands = ran.lock().unwrap().clone();
    (state, commands)
}

pub(super) fn position(records: &[Record], found: impl Fn(&Event) -> bool) -> usize {
    records.iter().position(|it| found(&it.event)).unwrap()
}

#[tokio::test]
async fn a_new_environment_is_told_behind_the_observations() {
    let whole = run(&["calls:a|b|c", "calls:submit x"])
        .await
        .journal
        .records();
    let begins_b = |event: &Event| matches!(event, Event::Action { index: 1, .. });
    let end = position(&whole, begins_b) + 1;
    let (state, commands) = resumed(&whole[..end], &["calls:submit x"], true, |_| {}).await;
    let texts: Vec<String> = state.messages.iter().map(|it| it.text()).collect();
    assert!(texts[4].contains("it was not run again"), "{texts:?}");
    assert!(texts[6].contains("A new one has been made"), "{texts:?}");
    // No action runs in the new environment before the model was told of it.
    assert_eq!(commands, ["submit x", "salvage", "cleanup"]);
}

#[tokio::test]
async fn what_an_orderly_end_left_open_is_finished() {
    let limits = || RunLimits::default();
    // Outputs that could not be rendered in the first process.
    let failed = run_with(&["calls:a|b"], limits(), Box::new(BadTemplate)).await;
    assert_eq!(failed.ended.end.exit_status(), "TemplateError");
    let records = failed.journal.records();
    let (state, commands) = resumed(&records, &["calls:submit x"], false, |_| {}).await;
    assert_eq!(commands, ["submit x", "salvage", "cleanup"]);
    let texts: Vec<String> = state.messages.iter().map(|it| it.text()).collect();
    assert!(texts[3].contains("\na</output>"), "{texts:?}");

    // A reply that was paid and not parsed is used, and not requested again.
    let global = Arc::new(GlobalAccount::new(GlobalLimits {
        cost: 0.0,
        calls: 1,
    }));
    let plain = Box::new(Plain);
    let limited = run_beside(&["calls:submit x"], limits(), plain, global).await;
    assert_eq!(limited.ended.end.exit_status(), "RuntimeError");
    let records = limited.journal.records();
    let (state, commands) = resumed(&records, &[], false, |_| {}).await;
    assert_eq!((state.submitted(), state.account.queries), ("x", 1));
    assert_eq!(commands, ["submit x", "salvage", "cleanup"]);

    // A step that the user interrupted without an answer.
    let (ran, _) = attended(&["calls:a|stop-step|c"], limits(), Vec::new()).await;
    let records = ran.journal.records();
    let (state, _) = resumed(&records, &["calls:submit x"], false, |_| {}).await;
    assert_eq!(state.submitted(), "x");
}
