//! The user who attends a run, as a role: answers questions that only a person can decide.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Action, Output};

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
    /// These actions of a step are about to run.
    Actions { actions: Vec<Action> },
    /// The model is about to be queried, and the user may give a command in its place.
    Turn,
    /// The user interrupted the step; its remaining actions do not run.
    Interrupted,
    /// The model submitted this.
    Submission { submission: String },
    /// The step limit or the cost limit is reached.
    Limit { account: SpentOfLimits },
}

/// The limits of a run that a user may raise, and what of them is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpentOfLimits {
    /// The queries so far.
    pub queries: i64,
    /// Their limit; zero or less means none.
    pub query_limit: i64,
    /// The dollars so far.
    pub cost: f64,
    /// Their limit; zero or less means none.
    pub cost_limit: f64,
}

/// How much of a run the user decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersonMode {
    /// The actions of each step wait for the user.
    Confirm,
    /// Actions run at once.
    #[default]
    Yolo,
    /// The user gives the commands in the place of the model.
    Human,
}

impl PersonMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Confirm, Self::Yolo, Self::Human];

    /// The value of `agent.mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Yolo => "yolo",
            Self::Human => "human",
        }
    }
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
    /// Yes, but with these commands in the place of the actions' own. Only for
    /// [`Question::Actions`]; else as `Yes`.
    EditAll { commands: Vec<String> },
    /// This command runs in the place of a query. Only for [`Question::Turn`]; else as `Yes`.
    Act { command: String },
    /// No: the user goes on alone, in [`PersonMode::Human`].
    TakeOver,
    /// The limits are raised by these numbers, and the run goes on.
    Raise { steps: i64, cost: f64 },
}

/// A shell script that the user has run in the environment, apart from the agent's commands: it is no part
/// of the run's record.
pub struct Errand {
    /// The script.
    pub script: String,
    /// Gets its output.
    pub done: Box<dyn FnOnce(Output) + Send>,
}

/// The shell scripts that remember the files of the environment, so that changes can be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMemory {
    /// Remembers the files as they are.
    pub remember: String,
    /// Removes what was remembered.
    pub forget: String,
}

/// Answers the questions of a run.
#[async_trait]
pub trait Person: Send + Sync {
    /// Whether a user attends the run. If not, only [`Question::Confirm`] is asked, and a stop of
    /// the step ends the run.
    fn is_present(&self) -> bool;

    /// The current mode, which decides whether [`Question::Actions`] and [`Question::Turn`] are asked.
    fn mode(&self) -> PersonMode {
        PersonMode::Yolo
    }

    /// Whether [`Person::said`] would return something.
    fn has_message(&self) -> bool {
        false
    }

    /// The user's messages to the model since the last call, without having been asked.
    fn said(&self) -> Option<String> {
        None
    }

    /// How the files are remembered before the actions of each step; none: they are not.
    fn memory(&self) -> Option<FileMemory> {
        None
    }

    /// Waits for the next errand. The loop does it while a question is open, or before the next query.
    async fn errand(&self) -> Errand {
        std::future::pending().await
    }

    /// The run is about to end; nothing is asked any more.
    fn leave(&self) {}

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
