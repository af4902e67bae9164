//! The actions of a run's record at certain events.

use mswea_core::Event;

/// Whether commands may have run just before this event, which may have changed the journal.
pub(super) fn follows_commands(event: &Event) -> bool {
    matches!(
        event,
        Event::Opening { .. }
            | Event::Output { .. }
            | Event::Salvaged { .. }
            | Event::RunEnded { .. }
    )
}

/// Whether commands begin after this event.
pub(super) fn precedes_commands(event: &Event) -> bool {
    matches!(
        event,
        Event::EnvironmentReady { .. } | Event::Action { .. } | Event::SalvageStarted
    )
}

/// Whether the trajectory shows this event.
pub(super) fn is_in_trajectory(event: &Event) -> bool {
    matches!(
        event,
        Event::Opening { .. }
            | Event::Message { .. }
            | Event::Reply { .. }
            | Event::Rejected { .. }
            | Event::Observed { .. }
            | Event::Output { .. }
            | Event::Salvaged { .. }
            | Event::RunEnded { .. }
    )
}
