//! Reads the keys of the user, on a thread of its own, and passes the text to the open question;
//! without one, to the function that handles text which is typed while the agent works.
//!
//! While a question handles an answer, no keys are read, because the question may give the terminal
//! to another program. Text that was typed before a question was shown does not answer it: it is
//! handled as typed without a question.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use tokio::sync::oneshot;

use super::editor::{Editor, EditorStep};
use super::keys::{KeyDecoder, PressedKey};
use super::terminal;
use crate::cli::front::{Desk, InputView};

/// How many rows of the typed text are visible.
const ROWS: usize = 8;
/// How many rows may be above it: an unfinished line, the current wait, the hint.
const OTHER_ROWS: usize = 4;
/// The interval at which the reader checks whether the terminal has changed.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};
/// The interval at which the reader checks whether the program is still in the background.
const AWAY: Duration = Duration::from_millis(200);

/// Checks without waiting.
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Whether input is available.
fn is_ready(patience: Option<&Timespec>) -> rustix::io::Result<bool> {
    let stdin = stdin();
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], patience) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A request for a text.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    /// One line with the effects of the answers.
    pub hint: String,
    /// The mark before the answer.
    pub mark: &'static str,
    /// The initial text.
    pub initial: String,
    /// Whether Enter begins a new line.
    pub is_multiline: bool,
}

/// The answer of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Text(String),
    /// Ctrl-D was pressed, or the terminal is gone.
    Eof,
}

type Unasked = Box<dyn Fn(String) + Send>;

struct ConsoleShared {
    state: Mutex<ConsoleState>,
    changed: Condvar,
    desk: Desk,
    is_live: bool,
}

#[derive(Default)]
struct ConsoleState {
    editor: Editor,
    /// The prompt that is waiting for an answer.
    open: Option<(Prompt, oneshot::Sender<Typed>)>,
    /// Whether the terminal has shown that prompt, so that typed text answers it.
    is_shown: bool,
    /// Whether a question is open.
    held: bool,
    /// Whether the input has ended.
    gone: bool,
    unasked: Option<Unasked>,
    decoder: KeyDecoder,
    /// Input that was read and not handled yet: keys, or the bytes of lines.
    keys: Vec<PressedKey>,
    line: Vec<u8>,
}

impl ConsoleState {
    /// Whether typed text can be handled: by a question, or by the function for text without one.
    fn is_free(&self) -> bool {
        !self.held || self.open.is_some()
    }
}

/// The reader of the user's input.
pub(super) struct KeyConsole {
    shared: Arc<ConsoleShared>,
}

/// While this exists, a question has the input.
pub(super) struct Held<'a>(&'a ConsoleShared);

impl KeyConsole {
    /// Begins to read.
    pub fn start(desk: Desk, history: Vec<String>) -> std::io::Result<Self> {
        let is_live = desk.is_live();
        // In the background, changing the terminal would stop the program.
        if is_live && terminal::is_ours() {
            terminal::take()?;
        }
        let shared = Arc::new(ConsoleShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            desk,
            is_live,
        });
        shared.lock().editor.remember(history);
        let own = shared.clone();
        let reader = thread::Builder::new().name("keys".to_owned());
        reader.spawn(move || own.read())?;
        shared.draw(&shared.lock());
        Ok(Self { shared })
    }

    /// Sets the function that gets text which is typed without a question.
    pub fn on_unasked(&self, unasked: impl Fn(String) + Send + 'static) {
        self.shared.lock().unasked = Some(Box::new(unasked));
    }

    /// Ends the reading.
    pub fn end(&self) {
        self.shared.close();
    }

    /// Begins a question.
    pub fn hold(&self) -> Held<'_> {
        self.shared.lock().held = true;
        Held(&self.shared)
    }
}

impl Held<'_> {
    /// Asks for a text. Text that is typed before the terminal shows the question does not answer
    /// it.
    pub async fn ask(&self, prompt: Prompt) -> Typed {
        let answer = {
            let mut state = self.0.lock();
            // A text of several lines may be begun before it is asked for: Enter does not send it.
            if !prompt.is_multiline {
                self.0.settle(&mut state);
            }
            if state.gone {
                return Typed::Eof;
            }
            let (sender, answer) = oneshot::channel();
            state.editor.is_multiline = prompt.is_multiline;
            if !prompt.initial.is_empty() {
                state.editor.set(&prompt.initial);
            }
            if !self.0.is_live {
                self.0.desk.ask_plainly(&prompt.hint, prompt.mark);
            }
            state.is_shown = prompt.is_multiline;
            state.open = Some((prompt, sender));
            self.0.draw(&state);
            answer
        };
        self.0.changed.notify_all();
        answer.await.unwrap_or(Typed::Eof)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.held = false;
        if state.open.take().is_some() {
            // The question was withdrawn, so its unfinished answer is dropped.
            state.editor.set("");
        }
        state.editor.is_multiline = false;
        self.0.draw(&state);
        drop(state);
        self.0.changed.notify_all();
    }
}

impl ConsoleShared {
    fn lock(&self) -> MutexGuard<'_, ConsoleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) {
        let (mut was_here, mut was_away) = (false, false);
        loop {
            let mut state = self.lock();
            while !state.is_free() {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if state.gone {
                return;
            }
            if !state.keys.is_empty() {
                self.press(&mut state);
                continue;
            }
            drop(state);
            // The terminal stops a program that reads in the background.
            if terminal::is_away() {
                // A shell gives the terminal to a program a moment after it has started it.
                was_away = was_here;
                if was_here {
                    self.desk.step_back();
                }
                thread::sleep(AWAY);
                continue;
            }
            was_here = true;
            if self.is_live && terminal::take().is_err() {
                self.close();
                return;
            }
            if std::mem::take(&mut was_away) {
                self.desk.redraw();
            }
            match is_ready(Some(&LOOK)) {
                Ok(false) => {
                    self.draw(&self.lock());
                    continue;
                }
                Ok(true) => {}
                Err(_) => {
                    self.close();
                    return;
                }
            }
            let mut state = self.lock();
            if state.gone {
                // The input belongs to another reader now.
                return;
            }
            // Meanwhile, a question may have begun and read the input, or the program may have been
            // put into the background.
            if !state.is_free() || !is_ready(Some(&NOW)).unwrap_or(true) || terminal::is_away() {
                continue;
            }
            state.is_shown |= self.desk.is_written();
            if !state.is_shown {
                // A long command is still being printed, or the terminal is stopped (Ctrl-S).
                let open = state.open.take();
                self.settle(&mut state);
                state.open = open;
                continue;
            }
            let count = self.take_in(&mut state);
            let is_idle = state.open.is_none();
            drop(state);
            match count {
                None => {
                    self.close();
                    return;
                }
                Some(0) if is_idle => thread::sleep(AWAY),
                Some(_) => {}
            }
        }
    }

    /// Reads the available input. Returns the number of bytes: zero is a Ctrl-D in a terminal that
    /// edits lines itself. None: the input has ended.
    fn take_in(&self, state: &mut ConsoleState) -> Option<usize> {
        let mut bytes = [0; 4096];
        match terminal::read(&mut bytes) {
            // No input is available any more.
            Ok(None) => Some(0),
            Ok(Some(0)) if self.is_live => Some(0),
            Ok(Some(count)) if self.is_live => {
                let keys = state.decoder.push(&bytes[..count]);
                state.keys.extend(keys);
                Some(count)
            }
            Ok(Some(0)) => {
                self.end_of_input(state);
                Some(0)
            }
            Ok(Some(count)) => {
                state.line.extend_from_slice(&bytes[..count]);
                self.lines(state);
                Some(count)
            }
            Err(_) => None,
        }
    }

    /// Handles the input so far as typed without a question.
    fn settle(&self, state: &mut ConsoleState) {
        loop {
            while !state.keys.is_empty() {
                self.press(state);
            }
            self.lines(state);
            let is_more = terminal::is_ours() && is_ready(Some(&NOW)).unwrap_or(false);
            // The reader will find the end of the input, too.
            if !is_more || self.take_in(state).is_none_or(|count| count == 0) {
                return;
            }
        }
    }

    /// Handles keys up to the first one that completes a text.
    fn press(&self, state: &mut ConsoleState) {
        let mut keys = std::mem::take(&mut state.keys).into_iter();
        for key in keys.by_ref() {
            let is_clear = key == PressedKey::Clear;
            let edit = state.editor.press(key);
            match edit {
                EditorStep::Changed if is_clear => self.desk.clear(),
                EditorStep::Changed => {}
                EditorStep::Sent(text) => {
                    self.send(state, Typed::Text(text));
                    break;
                }
                EditorStep::Eof => {
                    self.send(state, Typed::Eof);
                    break;
                }
            }
        }
        state.keys = keys.collect();
        self.draw(state);
    }

    fn send(&self, state: &mut ConsoleState, typed: Typed) {
        match (state.open.take(), typed) {
            (Some((prompt, answer)), typed) => {
                if let (true, Typed::Text(text)) = (self.is_live, &typed) {
                    self.desk.typed(prompt.mark, text);
                }
                let _ = answer.send(typed);
            }
            (None, Typed::Text(text)) => {
                if self.is_live && !text.trim().is_empty() {
                    self.desk.typed("> ", &text);
                }
                if let Some(unasked) = &state.unasked {
                    unasked(text);
                }
            }
            (None, Typed::Eof) => {}
        }
    }

    /// Handles lines of a terminal that edits them itself.
    fn lines(&self, state: &mut ConsoleState) {
        let is_multiline = |state: &ConsoleState| {
            let open = state.open.as_ref();
            open.is_some_and(|(prompt, _)| prompt.is_multiline)
        };
        while !is_multiline(state) {
            let Some(end) = state.line.iter().position(|byte| *byte == b'\n') else {
                return;
            };
            let text: Vec<u8> = state.line.drain(..=end).collect();
            let text = String::from_utf8_lossy(&text).trim_end().to_owned();
            let was_answer = state.open.is_some();
            self.send(state, Typed::Text(text));
            if was_answer {
                return;
            }
        }
    }

    /// Handles Ctrl-D in a terminal that edits lines itself: it ends a text of several lines.
    fn end_of_input(&self, state: &mut ConsoleState) {
        if state.open.is_none() {
            return;
        }
        let text = String::from_utf8_lossy(&state.line).trim_end().to_owned();
        state.line.clear();
        let typed = match text.is_empty() {
            true => Typed::Eof,
            false => Typed::Text(text),
        };
        self.send(state, typed);
    }

    /// Called at the end of the input.
    fn close(&self) {
        let mut state = self.lock();
        state.gone = true;
        if let Some((_, answer)) = state.open.take() {
            let _ = answer.send(Typed::Eof);
        }
        self.desk.leave();
    }

    fn draw(&self, state: &ConsoleState) {
        if !self.is_live || state.gone {
            return;
        }
        let (hint, mark) = match &state.open {
            Some((prompt, _)) => (prompt.hint.clone(), prompt.mark),
            None if state.held => (String::new(), ""),
            None => (String::new(), "> "),
        };
        let columns = self.desk.columns();
        let rows =
            rustix::termios::tcgetwinsize(stdin()).map_or(0, |size| usize::from(size.ws_row));
        // Rows above the visible screen can't be redrawn. Zero: the terminal does not report its
        // size.
        let most = match rows {
            0 => ROWS,
            rows => rows.saturating_sub(OTHER_ROWS).clamp(1, ROWS),
        };
        let view = state.editor.view(columns, mark.len(), most);
        let hint = match view.lines > most {
            true => format!("({} lines) {hint}", view.lines),
            false => hint,
        };
        self.desk.input(InputView {
            is_asked: state.open.is_some(),
            hint,
            mark: mark.to_owned(),
            rows: view.rows,
            row: view.row,
            column: view.column,
        });
    }
}
