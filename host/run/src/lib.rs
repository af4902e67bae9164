//! A run: a state that is computed from the run's events, a function that returns the next need of
//! a state, and the loop that performs these needs.
//!
//! This crate does not depend on WebAssembly, docker or HTTP. [`State::apply`] and [`next()`] do no
//! I/O; [`Agent`] is the loop.

pub mod history;

mod agent;
mod answers;
mod beginning;
mod calls;
mod caught;
mod demonstration;
mod escapes;
mod global;
mod inquiry;
mod r#loop;
mod multimodal;
mod needs;
mod next;
mod plain;
mod prompts;
mod recorder;
mod replay;
mod rules;
mod sampler;
mod settings;
mod state;
mod submission;
mod trajectory;
mod variables;

pub use agent::{Agent, Ended};
pub use answers::Answers;
pub use beginning::{first_steps, of_fork};
pub use caught::{bug, caught};
pub use demonstration::Demonstration;
pub use global::{GlobalAccount, GlobalLimits, LimitError};
pub use inquiry::Inquiry;

pub use multimodal::{BadRegex, Multimodal};
pub use next::{Need, Outside, next};
pub use prompts::{Prompts, TemplateTrial};
pub use replay::{Contradiction, ReplayEnd, ReplayPlan};
pub use rules::{AgentRules, Signal, StepRule, signal};
pub use sampler::{ActionSampler, ComparedSamples, Proposal, SAMPLED};
pub use settings::{Parts, RunLimits, RunSettings};
pub use state::{
    Environment, OpenStep, PaidReply, Phase, Raised, Salvaging, Slot, Stage, State,
    accepted_message, fold,
};
pub use submission::submission;
pub use variables::{Redact, Variables};

#[cfg(test)]
mod tests;
