//! A run whose submitting action was interrupted, and which has gone on.

use serde_json::json;

use super::boundaries::charged;
use super::*;
use mswea_record::journal::Record;

/// A message without the time at which it was made.
pub(super) fn timeless(message: &Message) -> Value {
    let mut message = message.clone();
    message.extra.shift_remove("timestamp");
    json!(message)
}

/// The action that submits was interrupted, so the run has gone on with a further reply: what was there stays,
/// no action that had run runs again, and everything is paid once.
pub(super) fn compare_until_lost(
    before: &State,
    began: &[String],
    found: &State,
    rest: (&[Record], &[String]),
    place: &str,
) {
    let (records, commands) = rest;
    let kept = found.messages.iter().map(|it| timeless(it));
    let wanted: Vec<Value> = before.messages.iter().map(|it| timeless(it)).collect();
    let kept: Vec<Value> = kept.take(wanted.len()).collect();
    assert_eq!(kept, wanted, "{place}");
    // The reply that was added for the test submits, too.
    let again = commands.iter().filter(|it| began.contains(it));
    let again: Vec<&String> = again.filter(|it| !it.starts_with("submit")).collect();
    assert!(again.is_empty(), "{place}: {again:?}");
    let is_query = |it: &&Record| matches!(it.event, Event::QueryStarted { .. });
    let queries = records.iter().filter(is_query).count();
    let cost = before.account.cost + charged(records);
    assert_eq!(
        found.account.queries as usize,
        before.account.queries as usize + queries,
        "{place}"
    );
    assert_eq!(found.account.cost, cost, "{place}");
}
