//! The functions that perform the needs of a run, one file for each kind.

pub(crate) mod asking;
mod closing;
mod judge;
mod observe;
mod parse;
mod patience;
mod person;
mod prepare;
mod query;
mod requery;
mod run;
mod sampling;

pub(crate) use judge::NOT_ALLOWED;
