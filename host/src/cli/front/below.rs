//! Lines that stay at the end of stderr and are redrawn: the table of a batch. Other output appears
//! above them.

use std::sync::Mutex;

use super::lock;
use super::wrap::{cut, width};

/// The terminal shows the output between these marks in one step (DEC mode 2026); other terminals
/// ignore them.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";

/// The lines that are on the screen.
static SHOWN: Mutex<ShownRows> = Mutex::new(ShownRows { rows: Vec::new() });

struct ShownRows {
    rows: Vec<String>,
}

/// Writes `text` above the lines. `write` writes to the terminal.
pub(super) fn above(text: &str, write: impl FnOnce(&str)) {
    let shown = lock(&SHOWN);
    match shown.rows.is_empty() || !text.ends_with('\n') {
        true => write(text),
        false => write(&format!(
            "{BEGIN_FRAME}{}{text}{}{END_FRAME}",
            shown.erased(columns()),
            shown.drawn()
        )),
    }
}

/// Replaces the lines; with an empty list, they are only removed.
pub(super) fn show(lines: &[String], write: impl FnOnce(&str)) {
    let mut shown = lock(&SHOWN);
    let columns = columns();
    let rows = lines.iter().map(|line| cut(line, columns - 1).to_owned());
    let rows: Vec<String> = rows.collect();
    if rows == shown.rows {
        return;
    }
    let erased = shown.erased(columns);
    shown.rows = rows;
    write(&format!(
        "{BEGIN_FRAME}{erased}{}{END_FRAME}",
        shown.drawn()
    ));
}

/// How many lines the terminal has.
pub(super) fn screen_rows() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(24, |it| it.ws_row.into())
}

fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(80, |it| usize::from(it.ws_col).max(2))
}

impl ShownRows {
    /// The sequence that moves to their beginning and clears them. A terminal that became narrower
    /// has wrapped them.
    fn erased(&self, columns: usize) -> String {
        let rows = self.rows.iter();
        let rows: usize = rows.map(|row| width(row, 0).div_ceil(columns).max(1)).sum();
        // Line by line, because at the top of the screen tmux keeps lines that are cleared in one
        // step.
        "\x1b[A\x1b[2K".repeat(rows) + if rows > 0 { "\r" } else { "" }
    }

    fn drawn(&self) -> String {
        self.rows.iter().map(|row| format!("{row}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_above() {
        let mut screen = String::new();
        let two = ["one".to_owned(), "two".to_owned()];
        show(&two, |text| screen.push_str(text));
        show(&two, |text| screen.push_str(text));
        assert_eq!(screen, format!("{BEGIN_FRAME}one\ntwo\n{END_FRAME}"));
        screen.clear();
        above("said\n", |text| screen.push_str(text));
        let erased = "\x1b[A\x1b[2K\x1b[A\x1b[2K\r";
        let expected = format!("{erased}said\none\ntwo\n");
        assert_eq!(screen, format!("{BEGIN_FRAME}{expected}{END_FRAME}"));
        screen.clear();
        show(&[], |text| screen.push_str(text));
        above("last\n", |text| screen.push_str(text));
        assert_eq!(screen, format!("{BEGIN_FRAME}{erased}{END_FRAME}last\n"));
        let wide = ShownRows {
            rows: vec!["x".repeat(50), String::new()],
        };
        assert_eq!(wide.erased(20).matches("\x1b[A").count(), 4);
    }
}
