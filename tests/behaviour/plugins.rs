//! Plugins and the host's limits for them: misbehaving guests built from source, files that are not
//! plugins, the messages, and how a run continues.

mod admission;
mod body_pieces;
mod by_hand;
mod cache;
mod conformance;
mod experiments;
mod fallbacks;
mod files;
mod guests;
mod honesty;
mod interrupts;
mod kit;
mod limits;
mod memory;
mod names;
mod planted;
mod rendering;
mod settings;
mod world;
