//! All first-party tools for the model, as one small static program for any image: a windowed viewer and
//! editor, searches, `str_replace_editor`, `filemap`, the registry, submissions, images, debugging and network connections.
//!
//! The tool is the name by which the program is called, or the first argument. Results and refusals
//! are printed to stdout: the model reads it.
#![cfg(target_os = "linux")]

mod answer;
mod call;
mod connection;
mod disassembly;
mod editing;
mod editor;
mod editor_view;
mod filemap;
mod git;
mod image;
mod lines;
mod linting;
mod pattern;
mod places;
mod problems;
mod python;
mod registry;
mod searching;
mod sessions;
mod storage;
mod submitting;
mod undo;
mod unfinished;
#[cfg(panic = "abort")]
#[path = "../../helper/src/unwinding.rs"]
mod unwinding;
mod values;
mod viewer;
mod window;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use answer::ToolResult;
use call::ToolInput;

type ToolFunction = fn(&ToolInput) -> ToolResult;

/// The tools by their names. Three bundles call their tool `edit` and two call it `submit`; the longer names
/// tell them apart.
const TOOLS: [(&str, ToolFunction); 38] = [
    ("_connect", connection::client),
    ("_read_env", values::read),
    ("_state", viewer::state),
    ("_state_anthropic", viewer::state_of_editor),
    ("_state_diff_state", submitting::state_of_changes),
    ("_write_env", values::write),
    ("connect_exec", sessions::connect_exec),
    ("connect_sendline", sessions::connect_sendline),
    ("connect_start", sessions::connect_start),
    ("connect_stop", sessions::connect_stop),
    ("create", viewer::create),
    ("debug_add_breakpoint", sessions::debug_add_breakpoint),
    ("debug_continue", sessions::debug_continue),
    ("debug_exec", sessions::debug_exec),
    ("debug_start", sessions::debug_start),
    ("debug_step", sessions::debug_step),
    ("debug_stop", sessions::debug_stop),
    ("decompile", disassembly::decompile),
    ("disassemble", disassembly::disassemble),
    ("edit", editing::edit_range),
    ("edit_linting", editing::edit_range),
    ("edit_replace", editing::edit_replace),
    ("edit_rewrite", editing::edit_rewrite),
    ("exit_forfeit", submitting::forfeit),
    ("filemap", filemap::filemap),
    ("find_file", searching::find_file),
    ("goto", viewer::go_to),
    ("insert", editing::insert),
    ("open", viewer::open),
    ("scroll_down", viewer::scroll_down),
    ("scroll_up", viewer::scroll_up),
    ("search_dir", searching::search_dir),
    ("search_file", searching::search_file),
    ("str_replace_editor", editor::str_replace_editor),
    ("submit", submitting::submit),
    ("submit_flag", submitting::submit_flag),
    ("submit_with_reviews", submitting::submit_with_reviews),
    ("view_image", image::view_image),
];

/// The exit code if there is no such tool; shells use the same one.
const NO_TOOL: u8 = 127;

fn main() -> ExitCode {
    let mut words = env::args_os();
    let called = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let called = Path::new(&called).file_name().unwrap_or_default();
    let (tool, rest) = match (named(called), words.split_first()) {
        (Some(tool), _) => (Some(tool), words.as_slice()),
        (None, Some((first, rest))) => (named(first), rest),
        (None, None) => (None, &[][..]),
    };
    let Some(tool) = tool else {
        let names: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
        let usage = format!(
            "usage: mswea-toolbox TOOL [ARGUMENT]...\nThe tools are: {}",
            names.join(", ")
        );
        return print(usage.as_bytes(), NO_TOOL);
    };
    match tool(&ToolInput::new(rest.to_vec())) {
        // A state command prints nothing.
        Ok(text) if text.is_empty() => ExitCode::SUCCESS,
        Ok(text) => print(&text, 0),
        Err(refusal) => print(&refusal.text, refusal.code),
    }
}

fn named(name: &std::ffi::OsStr) -> Option<ToolFunction> {
    let (_, tool) = TOOLS.iter().find(|(tool, _)| *tool == name)?;
    Some(*tool)
}

fn print(text: &[u8], code: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    // A reader that has closed the pipe needs no more output.
    let _ = out
        .write_all(text)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    ExitCode::from(code)
}
