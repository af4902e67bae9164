//! Runs actions on another machine, through `mswea-host runtime serve` there.
//!
//! `wire` is what client and server say to each other, `token` what the client shows.

mod token;
pub mod wire;

pub use token::AccessToken;
