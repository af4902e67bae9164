//! SWE-agent's agents of the type `retry`: several attempts at one problem, which a model scores or
//! among which it chooses. This module only computes; it sends and runs nothing.

mod budget;
mod choice;
mod combined;
mod questions;
mod scores;
mod settings;

pub use budget::{AttemptBudget, AttemptTally, NoMore};
pub use choice::{candidates, chosen, preselected};
pub use combined::{ModelStats, combined};
pub use questions::{choice_question, review_question, try_questions};
pub use scores::{ScoreRules, best_of};
pub use settings::{
    AttemptJudge, AttemptsSettings, ChooserSettings, ReviewerSettings, StepsShown, attempts_of,
};
