//! Journals of version 1, in which each message has an event of its own: they are resumed, replayed and
//! forked like those of today.

use super::boundaries::{from_disk, running, timeless};
use super::histories::{forks_the_same, replays_the_same};
use super::*;
use crate::journal::{Record, read_bytes};

/// As mswea-host 0.1 wrote it: two actions of which a policy denies one, a malformed reply, a submission.
const JOURNAL: &str = include_str!("version_1.jsonl");

fn records() -> Vec<Record> {
    let log = read_bytes(JOURNAL.as_bytes()).unwrap();
    assert_eq!((log.unknown.len(), log.torn), (0, None));
    log.records
}

#[test]
fn it_folds_to_what_the_run_was() {
    let state = fold(&records());
    let texts: Vec<String> = state.messages.iter().map(|it| it.role.clone()).collect();
    let wanted = "system user assistant tool tool user assistant tool exit";
    assert_eq!(texts.join(" "), wanted);
    assert_eq!((state.submitted(), state.account.queries), ("done\n", 3));
    assert_eq!(state.ended.unwrap().exit_status, "Submitted");
}

/// Whether the action that submits is running at the end of these records.
fn is_submission_running(records: &[Record]) -> bool {
    let running = running(&fold(records));
    running.is_some_and(|(_, action)| action.command.starts_with("submit"))
}

#[tokio::test]
async fn it_goes_on_from_every_boundary() {
    let all = records();
    for end in 1..all.len() {
        let before = fold(&all[..end]);
        let recorded = before.messages.clone();
        if before.submission.is_some() {
            continue;
        }
        let journal = Arc::new(MemoryJournal::default());
        let ran = Arc::new(Mutex::new(Vec::new()));
        // The replies that were not recorded, and one more for a submission that was cut.
        let used = all[..end].iter();
        let used = used
            .filter(|it| matches!(it.event, Event::Reply { .. }))
            .count();
        let rest = [
            "calls:ls|rm",
            "text:what",
            "calls:submit done",
            "calls:submit done",
        ];
        let replies: Vec<String> = rest[used..].iter().map(|&it| it.to_owned()).collect();
        let parts = parts(&replies, ran.clone(), None);
        let context = Context::new(Arc::new(Silent), journal.clone(), Stop::never());
        let agent = Agent::new(parts, settings(RunLimits::default()), context, before);
        let began = Event::RunResumed {
            host_version: "2".into(),
            config: Value::Null,
            plugins: Value::Null,
        };
        agent.begin(&began).unwrap();
        let ended = agent.run().await;
        assert_eq!(ended.end, End::Submitted, "event {end}");
        // What was recorded stays, and every reply is paid once.
        let kept = ended.state.messages.iter().map(|it| timeless(it));
        let wanted: Vec<Value> = recorded.iter().map(|it| timeless(it)).collect();
        let kept: Vec<Value> = kept.take(wanted.len()).collect();
        assert_eq!(kept, wanted, "event {end}");
        let lost = is_submission_running(&all[..end]);
        let queries = 3 + u32::from(lost);
        assert_eq!(ended.account.queries, queries, "event {end}");
        let roles: Vec<&str> = ended
            .state
            .messages
            .iter()
            .map(|it| it.role.as_str())
            .collect();
        let whole = "system user assistant tool tool user assistant tool exit";
        if !lost && wanted.len() > 1 {
            assert_eq!(roles.join(" "), whole, "event {end}");
        }
        let mut both = all[..end].to_vec();
        both.extend(journal.records());
        let both = from_disk(&both);
        let state = fold(&both);
        assert_eq!(state.messages, ended.state.messages, "event {end}");
        let view: Vec<Message> = state.messages.iter().map(|it| (**it).clone()).collect();
        history::check_pairing(&view[..view.len() - 1], 0).unwrap();
        // A command that has run is not run again.
        let began =
            |event: &Event| matches!(event, Event::Action { action, .. } if action.command == "ls");
        let times = both.iter().filter(|it| began(&it.event)).count();
        assert_eq!(times, 1, "event {end}: {:?}", ran.lock().unwrap());
        replays_the_same(&both, Chain::default, &format!("version 1, event {end}")).await;
        forks_the_same(&both, &format!("version 1, event {end}"));
    }
}

#[tokio::test]
async fn it_is_replayed_and_forked() {
    replays_the_same(&records(), Chain::default, "version 1").await;
    forks_the_same(&records(), "version 1");
}
