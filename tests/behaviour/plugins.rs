//! Plugins, and what the host holds them to: hostile guests built from source, files that are
//! no plugins, what the user is told, and how a run goes on.

mod admission;
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
