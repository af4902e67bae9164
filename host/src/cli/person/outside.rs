//! Edits a text in the user's own editor (`$VISUAL`, `$EDITOR`).

use std::io::Write as _;
use std::process::Command;

use super::terminal;
use crate::cli::front::Desk;

/// The text after the user has edited it.
///
/// # Errors
/// A message with the reason why it could not be edited.
pub(super) fn edit(desk: &Desk, text: &str) -> Result<String, String> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|it| !it.trim().is_empty()))
        .ok_or("no editor is set: name one in the variable `EDITOR`")?;
    let file = tempfile::Builder::new()
        .prefix("mswea-")
        .suffix(".sh")
        .tempfile();
    let mut file = file.map_err(|error| format!("can't make a file for the editor: {error}"))?;
    let written = file
        .write_all(format!("{text}\n").as_bytes())
        .and_then(|()| file.flush());
    written.map_err(|error| format!("can't write a file for the editor: {error}"))?;
    desk.release();
    terminal::lend();
    // The variable may contain arguments, as in `code --wait`.
    let done = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status();
    if desk.is_live() {
        drop(terminal::take());
    }
    desk.redraw();
    match done {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the editor `{editor}` failed ({status})")),
        Err(error) => return Err(format!("the editor `{editor}` can't be started: {error}")),
    }
    let edited = std::fs::read_to_string(file.path());
    let edited = edited.map_err(|error| format!("can't read the edited file: {error}"))?;
    Ok(edited.trim_end_matches('\n').to_owned())
}
