//! The windowed viewer: `open`, `goto`, `scroll_up`, `scroll_down`, `create`, and its state.

use std::env;
use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::answer::{TextParts, ToolRefusal, ToolResult};
use crate::call::ToolInput;
use crate::registry::{ObjectFile, Values};
use crate::storage::{self, FileTrouble};
use crate::window::{FileWindow, real};

/// `open [PATH [LINE]]`.
pub fn open(input: &ToolInput) -> ToolResult {
    const USAGE: &str = "Usage: open \"<path>\" [<line_number>]";
    let (path, line) = match input.words() {
        [] => {
            return match FileWindow::of(None) {
                Ok(window) => window.show(),
                Err(refusal) => Err(refusal.and(USAGE)),
            };
        }
        [path] => (path, None),
        [path, line] => (path, Some(line)),
        _ => {
            return Err(ToolRefusal::one(format!(
                "{USAGE}\nError: There are more than two arguments. Put quotes around a path that has spaces."
            )));
        }
    };
    let mut window = FileWindow::of(Some(Path::new(path)))?;
    let mut text = TextParts::default();
    let line = match line.map(|line| storage::number(line.as_encoded_bytes())) {
        None => window.first() as i64,
        Some(None) => {
            return Err(ToolRefusal::one(format!(
                "{USAGE}\nError: <line_number> must be a number"
            )));
        }
        Some(Some(line)) => {
            let total = window.total() as i64;
            if line > total {
                text.line(format!(
                    "Warning: <line_number> ({line}) is larger than the number of lines of the file ({total})"
                ));
                text.line(format!("Warning: Line {total} is shown instead"));
            } else if line < 1 {
                text.line(format!("Warning: <line_number> ({line}) is smaller than 1"));
                text.line("Warning: Line 1 is shown instead");
            }
            line.min(total).max(1)
        }
    };
    window.go_to(line - 1);
    let shown = window.show()?;
    window.save()?;
    text.line(shown);
    Ok(text.finish())
}

/// `goto LINE`.
pub fn go_to(input: &ToolInput) -> ToolResult {
    const USAGE: &str = "Usage: goto <line_number>";
    let line = match input.words() {
        [line] => line.as_encoded_bytes(),
        [] => return Err(ToolRefusal::one(USAGE)),
        _ => {
            return Err(ToolRefusal::one(format!(
                "{USAGE}\nError: There is more than one line number"
            )));
        }
    };
    let Some(line) = storage::number(line) else {
        return Err(ToolRefusal::one(format!(
            "{USAGE}\nError: <line_number> must be a number"
        )));
    };
    let mut window = FileWindow::of(None)?;
    if line > window.total() as i64 {
        return Err(ToolRefusal::one(format!(
            "Error: <line_number> must be less than or equal to {}",
            window.total()
        )));
    }
    window.go_to(line.saturating_sub(1));
    moved(&window)
}

/// `scroll_up`.
pub fn scroll_up(_: &ToolInput) -> ToolResult {
    let mut window = FileWindow::of(None)?;
    window.scroll(false);
    moved(&window)
}

/// `scroll_down`.
pub fn scroll_down(_: &ToolInput) -> ToolResult {
    let mut window = FileWindow::of(None)?;
    window.scroll(true);
    moved(&window)
}

fn moved(window: &FileWindow) -> ToolResult {
    window.save()?;
    window.show()
}

/// `create PATH`.
pub fn create(input: &ToolInput) -> ToolResult {
    let [path] = input.words() else {
        return Err(ToolRefusal::one(
            "Usage: create <filename>\nError: There must be one argument. Put quotes around a name that has spaces.",
        ));
    };
    let path = Path::new(path);
    if fs::symlink_metadata(path).is_ok() {
        return Err(ToolRefusal::one(format!(
            "Error: {} exists already. Use the `open` command to see it.",
            path.display()
        )));
    }
    let trouble = |error| FileTrouble::from(error).about(path);
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder).map_err(|error| FileTrouble::from(error).about(folder))?;
    }
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    drop(made.map_err(trouble)?);
    let mut window = FileWindow::of(Some(path))?;
    window.go_to(0);
    moved(&window)
}

/// `_state`: writes the path of the open file and the working directory into the state.
pub fn state(_: &ToolInput) -> ToolResult {
    let open = Values::read()?.text("CURRENT_FILE");
    let open = open.map_or_else(
        || "n/a".to_owned(),
        |path| real(Path::new(&path)).to_string_lossy().into_owned(),
    );
    ObjectFile::state().change(|state| {
        state.insert("open_file".to_owned(), open.into());
        state.insert("working_dir".to_owned(), folder().into());
    })?;
    Ok(Vec::new())
}

/// `_state_anthropic`: writes the working directory into the state.
pub fn state_of_editor(_: &ToolInput) -> ToolResult {
    ObjectFile::state().change(|state| {
        state.insert("working_dir".to_owned(), folder().into());
    })?;
    Ok(Vec::new())
}

/// The working directory; empty if it was removed.
fn folder() -> String {
    env::current_dir().map_or_else(
        |_| String::new(),
        |folder| folder.to_string_lossy().into_owned(),
    )
}
