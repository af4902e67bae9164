//! Tests and comparisons of plugins: [`conformance`] checks the laws that every plugin has to keep,
//! [`experiment`] compares plugins on recorded and live runs. Both use a plugin only through
//! [`mswea_core::Maker`].

pub mod conformance;
pub mod experiment;
