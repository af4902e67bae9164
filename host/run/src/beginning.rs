//! The events with which the journal of a fork begins: those of the first steps of the other run.

use crate::state::State;
use mswea_core::Event;
use mswea_record::journal::Record;

/// The records of the first `step` steps of a run, and the records after them up to the next query.
pub fn first_steps(records: &[Record], step: u32) -> &[Record] {
    let is_later =
        |event: &Event| matches!(event, Event::QueryStarted { query, .. } if *query > step);
    let end = records
        .iter()
        .position(|record| is_later(&record.event))
        .unwrap_or(records.len());
    &records[..end]
}

/// The events of a fork's journal after its `RunStarted`, for a fork that continues where `records`
/// end. Folding them gives the same state as folding these records and a `RunResumed`, except for
/// the environment, the config and the work that was saved at an end: those are the fork's own.
pub fn of_fork(records: &[Record]) -> Vec<Event> {
    let mut state = State::default();
    let mut events = Vec::new();
    for record in records {
        match &record.event {
            Event::RunResumed { .. } => events.push(Event::Reopened {
                has_ended: state.has_ended(),
            }),
            // The message to the model about another environment stays at its place.
            Event::EnvironmentReady {
                replaced,
                message: message @ Some(_),
                ..
            } => events.push(Event::EnvironmentReady {
                handle: serde_json::Value::Null,
                replaced: replaced.clone(),
                message: message.clone(),
            }),
            event if is_of_steps(event) => events.push(event.clone()),
            _ => {}
        }
        state.apply(record.t, record.event.clone());
    }
    events.push(Event::Reopened {
        has_ended: state.has_ended(),
    });
    events
}

/// Whether an event belongs to a step, and not to a process or to the end of one.
fn is_of_steps(event: &Event) -> bool {
    match event {
        Event::RunStarted { .. }
        | Event::RunResumed { .. }
        | Event::EnvironmentReady { .. }
        | Event::SetUpDone { .. }
        | Event::SalvageStarted
        | Event::Salvaged { .. }
        | Event::ShadowDiverged { .. }
        | Event::ShadowEnded { .. }
        | Event::RunEnded { .. } => false,
        // It may have interrupted a step.
        Event::Ending { .. }
        | Event::Reopened { .. }
        | Event::Message { .. }
        | Event::Opening { .. }
        | Event::QueryStarted { .. }
        | Event::Retry { .. }
        | Event::Reply { .. }
        | Event::Accepted { .. }
        | Event::Rejected { .. }
        | Event::QueryFailed { .. }
        | Event::Asked { .. }
        | Event::AskReply { .. }
        | Event::Allowed { .. }
        | Event::Confirmed { .. }
        | Event::Action { .. }
        | Event::Output { .. }
        | Event::Rewritten { .. }
        | Event::Denied { .. }
        | Event::Observed { .. }
        | Event::Submitted { .. }
        | Event::Interrupted
        | Event::Answered { .. }
        | Event::PluginFault { .. } => true,
    }
}
