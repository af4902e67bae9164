//! Plugins, and what the host holds them to: hostile guests built from source, files that are
//! no plugins, what the user is told, and how a run goes on.

mod cache;
mod conformance;
mod fallbacks;
mod files;
mod guests;
mod limits;
mod memory;
mod names;
mod settings;
mod world;
