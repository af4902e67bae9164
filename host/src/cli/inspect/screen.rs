//! The whole screen of a terminal: draws rows, and reads keys.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mswea_text::harmless;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize,
    tcsetattr,
};

use crate::cli::front::{Colour, Look, cut_to_columns};
use crate::cli::person::keys::{KeyDecoder, PressedKey};

/// Switches to the alternate screen, and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Switches back.
const LEAVE: &str = "\x1b[?2026l\x1b[?25h\x1b[?1049l";
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[H";
const END_FRAME: &str = "\x1b[J\x1b[?2026l";
/// The most bytes that are copied: terminals drop longer texts.
const COPIED: usize = 100_000;
/// The longest pause between the bytes of one key's sequence.
const SEQUENCE: Duration = Duration::from_millis(50);

/// The terminal's settings before the screen was taken; none while it is not taken.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether the pager has the terminal.
static PAGING: AtomicBool = AtomicBool::new(false);

/// A row with its colour.
pub(super) type ScreenRow = (Option<Colour>, String);

/// The screen of a terminal.
pub(super) struct WholeScreen {
    look: Look,
    decoder: KeyDecoder,
    /// The time at which the last bytes came from the terminal.
    last_read: Instant,
    /// The size and the rows that are on the screen.
    drawn: ((usize, usize), String),
}

/// Whether there is a terminal.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Restores the terminal. Returns whether the screen was taken.
pub(super) fn give_back() -> bool {
    let Ok(mut before) = BEFORE.try_lock() else {
        return false;
    };
    let Some(before) = before.take() else {
        return false;
    };
    put(LEAVE);
    let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    true
}

/// Whether the user is reading a text in the pager.
pub(super) fn is_paging() -> bool {
    PAGING.load(Ordering::Relaxed)
}

fn take() -> io::Result<()> {
    let now = tcgetattr(stdin())?;
    let mut keys = now.clone();
    keys.local_modes -=
        LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
    keys.input_modes -= InputModes::IXON | InputModes::ICRNL;
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    if let Ok(mut before) = BEFORE.lock() {
        *before = Some(now);
    }
    tcsetattr(stdin(), OptionalActions::Now, &keys)?;
    put(ENTER);
    Ok(())
}

/// Writes to the terminal. The loss of the terminal is noticed when it is read.
fn put(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl WholeScreen {
    /// Takes the screen of the terminal.
    ///
    /// # Errors
    /// [`io::Error`] if there is no terminal, or it can't be changed.
    pub fn take() -> io::Result<Self> {
        take()?;
        Ok(Self {
            look: Look::of_stdout(),
            decoder: KeyDecoder::default(),
            last_read: Instant::now(),
            drawn: Default::default(),
        })
    }

    /// The number of columns and rows.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(stdout()).ok();
        let size = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
        match size {
            (columns, rows) if columns > 0 && rows > 0 => (usize::from(columns), usize::from(rows)),
            _ => (80, 24),
        }
    }

    /// Draws these rows, unless they are already on the screen.
    pub fn draw(&mut self, rows: &[ScreenRow]) {
        let (columns, height) = self.size();
        let mut frame = String::new();
        for (index, (colour, text)) in rows.iter().take(height).enumerate() {
            let text = shown(text);
            let text = cut_to_columns(&text, columns);
            if index > 0 {
                frame.push_str("\r\n");
            }
            match colour {
                Some(colour) => frame.push_str(&self.look.paint(*colour, text)),
                None => frame.push_str(text),
            }
            frame.push_str("\x1b[K");
        }
        let drawn = ((columns, height), frame);
        if drawn != self.drawn {
            put(&format!("{BEGIN_FRAME}{}{END_FRAME}", drawn.1));
            self.drawn = drawn;
        }
    }

    /// Shows a text in the last row until the next call of [`Self::draw`].
    pub fn tell(&mut self, text: &str) {
        let (columns, height) = self.size();
        let text = self.look.paint(Colour::Dim, cut_to_columns(text, columns));
        put(&format!(
            "\x1b[?2026h\x1b[{height};1H{text}\x1b[K\x1b[?2026l"
        ));
        self.drawn = Default::default();
    }

    /// The keys that are pressed within this time; none at the end of the input.
    pub fn keys(&mut self, patience: Duration) -> Option<Vec<PressedKey>> {
        let input = stdin();
        let mut polled = [PollFd::new(&input, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(0),
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&patience)) {
            // The rest of a sequence may still come; an Escape that nothing follows is a key.
            Ok(0) if self.last_read.elapsed() < SEQUENCE => return Some(Vec::new()),
            Ok(0) => return Some(self.decoder.rest().into_iter().collect()),
            Err(rustix::io::Errno::INTR) => return Some(Vec::new()),
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut bytes = [0; 4096];
        match rustix::io::read(stdin(), &mut bytes) {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                self.last_read = Instant::now();
                Some(self.decoder.push(&bytes[..count]))
            }
        }
    }

    /// Makes the terminal put a text into the clipboard (OSC 52). Returns whether the text was
    /// complete.
    pub fn copy(&self, text: &str) -> bool {
        let part = &text[..text.floor_char_boundary(COPIED)];
        put(&format!("\x1b]52;c;{}\x07", STANDARD.encode(part)));
        part.len() == text.len()
    }

    /// Shows a text in the user's pager.
    ///
    /// # Errors
    /// [`io::Error`] if the pager can't be started, or the screen can't be taken again.
    pub fn page(&mut self, text: &str) -> io::Result<()> {
        let named = std::env::var("PAGER")
            .ok()
            .filter(|it| !it.trim().is_empty());
        PAGING.store(true, Ordering::Relaxed);
        give_back();
        let shown = Command::new("/bin/sh")
            .args(["-c", named.as_deref().unwrap_or("less")])
            .stdin(Stdio::piped())
            .spawn()
            .and_then(|mut pager| {
                if let Some(mut input) = pager.stdin.take() {
                    // The user may close the pager before the end of the text.
                    let _ = input.write_all(text.as_bytes());
                }
                pager.wait()
            });
        PAGING.store(false, Ordering::Relaxed);
        self.drawn = Default::default();
        take()?;
        match shown?.success() {
            true => Ok(()),
            false => Err(io::Error::other(
                "the pager failed: name one in the variable `PAGER`",
            )),
        }
    }
}

impl Drop for WholeScreen {
    fn drop(&mut self) {
        give_back();
    }
}

/// The text of a row without line ends and control sequences.
fn shown(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_row_is_one_row() {
        assert_eq!(
            shown("  X\u{1b}]0;HACKED\u{7}\u{1b}[2J  y\n\tz\r"),
            "  X  y  z "
        );
    }
}
