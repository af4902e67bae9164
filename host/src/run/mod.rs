//! A run: the loop over the roles, its limits, its ends and its prompts.
//!
//! Nothing in here knows wasm, docker or HTTP. [`Agent`] is the loop itself and is meant to be
//! read in one sitting.

mod account;
mod agent;
mod asking;
mod calls;
mod global;
mod interrupt;
mod judging;
mod multimodal;
mod patience;
mod plain;
mod prompts;
mod submission;
mod variables;

pub use account::{Account, Limits, Pricing};
pub use agent::{Agent, Ended, Parts, Settings};
pub use global::{GlobalAccount, GlobalLimits, LimitError};
pub use interrupt::Interrupt;
pub use multimodal::{BadRegex, Multimodal};
pub use prompts::Prompts;
pub use submission::{MARK, submission};
pub use variables::{Redact, Variables};

#[cfg(test)]
mod tests;
