//! SWE-agent's agents of the type `retry`: several attempts at one problem, which a model scores or among
//! which it chooses. All of it is computed; nothing is sent or run here.

mod budget;
mod choice;
mod scores;

pub use budget::{AttemptBudget, AttemptTally, NoMore};
pub use choice::{candidates, chosen, preselected};
pub use scores::{ScoreRules, best_of};
