//! The user who attends a run, as a role: answers questions that only a person can decide.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::Action;

/// A question to the user.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variant explains its fields")]
pub enum Question {
    /// A policy requires that the user confirms an action, for this reason.
    Confirm {
        policy: String,
        action: Action,
        reason: String,
    },
    /// The user interrupted the step; its remaining actions do not run.
    Interrupted,
    /// The model submitted this.
    Submission { submission: String },
    /// The step limit or the cost limit is reached.
    Limit,
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variant explains its fields")]
pub enum Answer {
    /// Yes: the action runs, the submission counts, the run goes on.
    Yes,
    /// No, for this reason: the action does not run, the run ends.
    No { reason: String },
    /// The model gets this text, and the run goes on.
    Say { text: String },
    /// Yes, but with this command: it runs instead of the action's own. Only for
    /// [`Question::Confirm`]; else as `Yes`.
    Edit { command: String },
    /// The limits are raised by these numbers, and the run goes on.
    Raise { steps: i64, cost: f64 },
}

/// Answers the questions of a run.
#[async_trait]
pub trait Person: Send + Sync {
    /// Whether a user attends the run. If not, only [`Question::Confirm`] is asked, and a stop of
    /// the step ends the run.
    fn is_present(&self) -> bool;

    /// Waits for the answer; `None` if no user can answer.
    async fn answer(&self, question: &Question) -> Option<Answer>;
}

/// The person of an unattended run: answers nothing, at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

#[async_trait]
impl Person for Nobody {
    fn is_present(&self) -> bool {
        false
    }

    async fn answer(&self, _: &Question) -> Option<Answer> {
        None
    }
}
