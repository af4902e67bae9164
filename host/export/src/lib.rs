//! Recorded runs in the formats of other programs, and as pages: a run becomes a [`Conversation`],
//! and each format is a function of it.

mod asciinema;
mod atif;
mod conversation;
mod html;
mod images;
mod markdown;
mod patches;
mod readable;
mod records;
mod redact;
mod sweagent;
#[cfg(test)]
mod tests;
mod time;

pub use asciinema::to_asciinema;
pub use atif::{from_atif, is_atif, to_atif, to_jsonl};
pub use conversation::{
    Conversation, ConversationStep, RecordedCall, ShownResult, StepSource, TokenIds,
};
pub use html::to_html;
pub use images::embedded;
pub use markdown::to_markdown;
pub use readable::readable;
pub use records::{ConversationReader, from_records};
pub use redact::SecretValues;
pub use sweagent::{
    from_sweagent, is_sweagent, replayed_config, replayed_model, steps_of_history, to_sweagent,
};
pub use time::{from_iso, iso};
