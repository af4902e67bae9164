//! Runs of several processes, which are killed, stopped, limited, attended by a person and moved to other
//! environments: the living state is what the journal folds to from disk after each event, a replay
//! makes the same messages at each boundary, and a fork begins with what a resumed run goes on with.

use serde_json::json;

use super::boundaries::{advancing, started, timeless, watch};
use super::*;
use crate::beginning::{first_steps, of_fork};
use mswea_record::journal::Record;

/// Answers by chance, as far as it has answers left.
struct Fickle(Mutex<(fastrand::Rng, u32)>);

#[async_trait]
impl Person for Fickle {
    fn is_present(&self) -> bool {
        true
    }

    async fn answer(&self, question: &Question) -> Option<Answer> {
        let mut state = self.0.lock().unwrap();
        let (random, left) = &mut *state;
        *left = left.checked_sub(1)?;
        let text = format!("said {left}");
        Some(match (question, random.u8(0..5)) {
            (Question::Limit { .. }, _) => Answer::Raise {
                steps: 2,
                cost: 0.0,
            },
            (Question::Interrupted, 0) | (_, 1) => Answer::Yes,
            (Question::Confirm { .. }, 2) => Answer::No {
                reason: String::new(),
            },
            (Question::Confirm { .. }, 3) => Answer::Edit { command: text },
            (Question::Confirm { .. }, _) => Answer::No { reason: text },
            _ => Answer::Say { text },
        })
    }
}

/// The answers of the model in one process; the last answers submit.
fn replies(random: &mut fastrand::Rng) -> Vec<String> {
    let mut count = 0;
    let mut replies: Vec<String> = (0..random.u32(0..6))
        .map(|_| match random.u8(0..10) {
            0 => "text:what".to_owned(),
            1 => "text:none".to_owned(),
            2 => "unused:none".to_owned(),
            3 => "text:fault".to_owned(),
            4 => "error:network".to_owned(),
            _ => {
                let words: Vec<String> = (0..random.u32(1..4))
                    .map(|_| {
                        count += 1;
                        match random.u8(0..10) {
                            0 => "rm".to_owned(),
                            1 => "old".to_owned(),
                            2 => "policy-fault".to_owned(),
                            3 => "ask".to_owned(),
                            4 => "stop-step".to_owned(),
                            _ => format!("c{count}"),
                        }
                    })
                    .collect();
                let kind = if random.bool() { "calls" } else { "retried" };
                format!("{kind}:{}", words.join("|"))
            }
        })
        .collect();
    replies.extend((0..20).map(|_| "calls:a|submit x|b".to_owned()));
    replies
}

/// One process of a run.
async fn process(random: &mut fastrand::Rng, state: State) -> Vec<Record> {
    let (source, stop) = StopSource::new();
    let clock = advancing(state.last.unwrap_or(7.0) + 100.0);
    let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
    let ran = Arc::new(Mutex::new(Vec::new()));
    let mut parts = parts(&replies(random), ran.clone(), None);
    parts.executor = Box::new(Echo {
        ran,
        stop: Some(source),
        is_replaced: random.bool(),
    });
    parts.history = processors();
    if random.bool() {
        parts.person = Arc::new(Fickle(Mutex::new((random.fork(), 6))));
    }
    let context = Context {
        clock,
        ..Context::new(Arc::new(Silent), journal.clone(), stop)
    };
    let limits = RunLimits {
        steps: if random.u8(0..3) == 0 { 4 } else { 0 },
        consecutive_format_errors: 2,
        wall_time_seconds: if random.u8(0..6) == 0 { 10 } else { 0 },
        ..RunLimits::default()
    };
    let began = match state.run_id.is_empty() {
        true => started(),
        false => resumed(),
    };
    let agent = Agent::new(parts, settings(limits), context, state.clone());
    watch(&agent, state, journal.clone());
    agent.begin(&began).unwrap();
    agent.run().await;
    journal.records()
}

fn processors() -> Chain {
    Chain::new(vec![Box::new(Asking {
        fails: true,
        ..Asking::default()
    })])
}

fn resumed() -> Event {
    Event::RunResumed {
        host_version: "1".into(),
        config: json!({}),
        plugins: json!([]),
    }
}

async fn history(seed: u64) -> Vec<Record> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut records: Vec<Record> = Vec::new();
    for _ in 0..random.u8(1..5) {
        let new = process(&mut random, fold(&records)).await;
        let kept = match random.bool() {
            // The host is killed.
            true => random.usize(1..=new.len()),
            false => new.len(),
        };
        records.extend_from_slice(&new[..kept]);
        for (position, record) in records.iter_mut().enumerate() {
            record.seq = position as u64 + 1;
        }
        if fold(&records).submission.is_some() {
            break;
        }
    }
    records
}

fn comparable(messages: &[Arc<Message>]) -> Vec<Value> {
    let kept = messages.iter().filter(|it| it.role != "exit");
    kept.map(|it| timeless(it)).collect()
}

/// A replay of these records makes their messages, at each boundary.
async fn replays_the_same(records: &[Record], history: impl Fn() -> Chain, place: &str) {
    replays_under(AgentRules::Mini, records, history, place).await;
}

/// The same for a run under these rules.
pub(super) async fn replays_under(
    rules: AgentRules,
    records: &[Record],
    history: impl Fn() -> Chain,
    place: &str,
) {
    for end in 1..=records.len() {
        let records = &records[..end];
        let journal = Arc::new(MemoryJournal::default());
        let mut parts = parts(&[], Arc::default(), None);
        parts.history = history();
        let context = Context::new(Arc::new(Silent), journal, Stop::never());
        let agent = Agent::new(
            parts,
            RunSettings {
                rules,
                ..settings(RunLimits::default())
            },
            context,
            State::default(),
        );
        agent.begin(&started()).unwrap();
        let plan = ReplayPlan {
            drafts: false,
            is_whole: true,
        };
        let replayed = agent.replay(records, plan).await;
        let place = format!("{place}, event {end}: {:?}", records.last());
        assert_eq!(replayed.stopped, None, "{place}");
        assert_eq!(replayed.contradiction, None, "{place}");
        let recorded = fold(records).messages;
        assert_eq!(
            comparable(&replayed.messages),
            comparable(&recorded),
            "{place}"
        );
    }
}

/// A state without what belongs to a process, an end or a moment.
fn of_steps(state: State) -> State {
    let mut state = State {
        run_id: String::new(),
        config: Value::Null,
        plugins: Value::Null,
        host_version: String::new(),
        task: String::new(),
        started: None,
        last: None,
        environment: Default::default(),
        execution_seconds: 0.0,
        command_begun: 0.0,
        salvage: None,
        salvaging: Default::default(),
        ..state
    };
    state.account.seconds = 0.0;
    state.account.last = None;
    state
}

/// A fork at each step begins with what the run itself would go on with.
pub(super) fn forks_the_same(records: &[Record], place: &str) {
    for step in 0..=fold(records).account.queries {
        let part = first_steps(records, step);
        let mut whole = fold(part);
        if whole.submission.is_some() {
            continue;
        }
        whole.apply(0.0, resumed());
        let mut forked = State::default();
        forked.apply(0.0, started());
        for event in of_fork(part) {
            forked.apply(0.0, event);
        }
        assert!(!forked.environment.is_ready, "{place}, step {step}");
        assert_eq!(of_steps(forked), of_steps(whole), "{place}, step {step}");
    }
}

#[tokio::test]
async fn a_history_of_several_processes_is_replayed_and_forked() {
    for seed in 0..30 {
        let records = history(seed).await;
        let place = format!("seed {seed}");
        replays_the_same(&records, processors, &place).await;
        forks_the_same(&records, &place);
    }
}

#[tokio::test]
async fn a_fork_is_replayed_and_forked_again() {
    for seed in 0..10 {
        let records = history(seed).await;
        let step = fold(&records).account.queries / 2;
        let part = first_steps(&records, step);
        if fold(part).submission.is_some() {
            continue;
        }
        let journal = MemoryJournal::default();
        journal.record(&started()).unwrap();
        for event in of_fork(part) {
            journal.record(&event).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all = journal.records();
        // A process that is killed at once, and one that goes on.
        all.extend(process(&mut random, fold(&all)).await);
        let place = format!("fork of seed {seed}");
        replays_the_same(&all, processors, &place).await;
        forks_the_same(&all, &place);
    }
}
