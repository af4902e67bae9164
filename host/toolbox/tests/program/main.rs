//! Tests of the toolbox as a program, as a model uses it: in a folder of its own, with the programs of this
//! machine and with hardly any.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used)]

mod container;
mod desk;
mod editor;
mod edits;
mod files;
mod lints;
mod searches;
mod small;
mod viewer;
