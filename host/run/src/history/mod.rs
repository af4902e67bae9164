//! The view of the history that is sent to the model: the chain of processors, and the rule that
//! tool calls and their results stay paired.

mod chain;
mod pairing;

pub use chain::{Chain, ChainFault};
pub use pairing::check as check_pairing;
