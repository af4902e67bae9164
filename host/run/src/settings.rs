//! The parts of a run, and its settings.

use std::sync::Arc;
use std::time::Duration;

use super::global::GlobalAccount;
use super::rules::AgentRules;
use super::sampler::ActionSampler;
use super::{Multimodal, Prompts};
use crate::history::Chain;
use mswea_core::{Executor, Formatter, Model, Onlooker, Parser, Person, Policy, Pricing};

/// The parts of a run.
pub struct Parts {
    /// Answers queries.
    pub model: Box<dyn Model>,
    /// Finds actions.
    pub parser: Box<dyn Parser>,
    /// Formats observations.
    pub formatter: Box<dyn Formatter>,
    /// Changes the view.
    pub history: Chain,
    /// Judge actions, in order.
    pub policies: Vec<Box<dyn Policy>>,
    /// Runs actions.
    pub executor: Box<dyn Executor>,
    /// Answers questions that only a person can decide.
    pub person: Arc<dyn Person>,
    /// Computes the cost of replies.
    pub pricing: Arc<dyn Pricing>,
    /// The account that all runs of the process share.
    pub global: Arc<GlobalAccount>,
    /// Makes the first messages and the feedback.
    pub prompts: Prompts,
    /// Finds images in messages that were made from templates.
    pub multimodal: Option<Multimodal>,
    /// Observers, which get the inputs and the results of the roles, without influence on the run.
    pub onlookers: Vec<Box<dyn Onlooker>>,
}

/// The limits of a run; zero or less means none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunLimits {
    /// Queries, and questions of history processors.
    pub steps: i64,
    /// Dollars.
    pub cost: f64,
    /// Seconds.
    pub wall_time_seconds: i64,
    /// Malformed replies in a row.
    pub consecutive_format_errors: i64,
    /// Commands in a row that exceed their time.
    pub consecutive_timeouts: i64,
    /// Seconds of all commands together.
    pub execution_seconds: f64,
}

/// The settings of a run.
#[derive(Clone, Debug, Default)]
pub struct RunSettings {
    /// The limits.
    pub limits: RunLimits,
    /// The rules that the run follows.
    pub rules: AgentRules,
    /// Whether there are policies, which judge every action.
    pub has_policies: bool,
    /// Whether a user attends the run. The user is asked before the run ends by a limit or a
    /// submission.
    pub has_person: bool,
    /// The time limit of one action; less if the run's time ends earlier.
    pub action_timeout: Duration,
    /// The command that runs at every end of a run, while the environment exists.
    pub salvage_command: Option<String>,
    /// Whether the user has set the salvage command. Then the executor's own command is not used.
    pub salvage_is_explicit: bool,
    /// Shell text before the salvage command, unless the user has set that command: it passes the
    /// names of the files that the host itself writes in `"$@"`.
    pub salvage_prologue: String,
    /// The time limit of the salvage command.
    pub salvage_timeout: Duration,
    /// Whether to warn once that the cost limit has no effect if a price is unknown.
    pub warn_unknown_cost: bool,
    /// Whether the tool call that submits and those after it get no result, as with the agent class
    /// `default` of mini-swe-agent.
    pub bare_submission: bool,
    /// The sampler, if the model is asked for several replies.
    pub sampler: Option<ActionSampler>,
}
