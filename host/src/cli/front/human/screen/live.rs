//! The last lines of the screen, which are redrawn: the current wait and, with a user who may type,
//! the typed text. Everything above them is printed once.

use std::time::{Duration, Instant};

use super::{RULE, Screen};
use crate::cli::front::look::Colour;
use crate::cli::front::words;
use crate::cli::front::wrap::{cut, width};
use mswea_core::Usage;

/// Moves to the beginning of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";
/// Clears the visible screen, and moves to its beginning.
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";
/// The terminal shows the output between these marks in one step (DEC mode 2026); other terminals
/// ignore them.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";
/// Clears everything from the beginning of the line on, in two steps: tmux keeps what is cleared
/// from the first column of the first row, so that the last lines would stay in the scrollback.
const CLEAR_REST: &str = "\x1b[K\x1b[C\x1b[J\r";
/// Makes the terminal put marks around pasted text.
const MARK_PASTES: &str = "\x1b[?2004h";
/// Switches off the modes that the program has switched on.
pub(in crate::cli) const RELEASE: &str = "\x1b[?2004l\x1b[?2026l";
/// The least time between two frames that show an arriving reply.
const PAUSE: Duration = Duration::from_millis(100);

/// The text that the user is typing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputView {
    /// Whether a question is open.
    pub is_asked: bool,
    /// The hint about the question, and the length of the text if it is not completely visible.
    pub hint: String,
    /// The mark before the first row.
    pub mark: String,
    /// The visible rows.
    pub rows: Vec<String>,
    /// The row of the cursor.
    pub row: usize,
    /// The column of the cursor.
    pub column: usize,
}

/// The last lines that were drawn.
#[derive(Debug)]
struct ShownLines {
    /// The widths of the rows above the row of the cursor.
    above: Vec<usize>,
    /// The column of the cursor.
    column: usize,
}

/// The state of the last lines.
#[derive(Debug, Default)]
pub(super) struct LiveLines {
    /// Whether the line that counts seconds is on the screen, without a user who types.
    counting: bool,
    /// The typed text; none without a user who may type.
    input: Option<InputView>,
    /// The mode of the run.
    mode: &'static str,
    /// The number of the step, and the account at its beginning.
    account: String,
    /// The number of tokens of the last request and its reply, and how many a request may have.
    context: u64,
    window: Option<u64>,
    /// When the run began.
    since: Option<Instant>,
    /// The unfinished line of an arriving reply.
    held: String,
    /// Whether the lines are on the screen.
    shown: Option<ShownLines>,
    /// Whether another program has the terminal.
    is_back: bool,
    /// Whether a frame has begun and not ended.
    in_frame: bool,
    /// The last frame, and the time when it was drawn.
    frame: String,
    drawn: Option<Instant>,
}

/// As many parts of a line (separated by dots) as fit, but at least the first one.
fn whole_parts(line: &str, room: usize) -> &str {
    if width(line, 0) <= room {
        return line;
    }
    let mut ends = line
        .rmatch_indices(" · ")
        .map(|(at, _)| &line[..at + " ·".len()]);
    ends.find(|part| width(part, 0) <= room).unwrap_or(line)
}

impl Screen {
    /// Sets how many tokens a request may have, if that is known.
    pub fn learn_window(&mut self, window: Option<u64>) {
        self.live.window = window;
    }

    /// Records the length of the history from a reply's token counts.
    pub(super) fn measure(&mut self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.live.context = usage.input_tokens.saturating_add(usage.output_tokens);
        }
    }

    /// The used share of the context: `12 % of the context`; empty if that is not known.
    fn context(&self) -> String {
        let LiveLines {
            context, window, ..
        } = self.live;
        match window.filter(|window| *window > 0 && context > 0) {
            Some(window) => {
                format!("context {} %", context.saturating_mul(100).div_ceil(window))
            }
            None => String::new(),
        }
    }

    /// The use of the context, in full.
    pub fn context_account(&self) -> String {
        let used = words::plural(self.live.context, "token");
        match (self.live.context, self.live.window) {
            (0, _) => String::new(),
            (_, Some(window)) => format!("{}: {used} of {}", self.context(), words::number(window)),
            (_, None) => format!("context: {used}, of how many is not known for this model"),
        }
    }

    /// Enables typing.
    pub fn attend(&mut self, mode: &'static str) {
        self.live.mode = mode;
        self.attended.is_there = true;
        self.live.since.get_or_insert_with(Instant::now);
        if self.look.redraw && self.live.input.is_none() {
            self.live.input = Some(InputView::default());
            self.err.put(MARK_PASTES);
        }
    }

    /// Shows the typed text.
    pub fn input(&mut self, view: InputView) {
        if self.live.input.is_some() {
            if view.is_asked {
                // While the user is asked, the run does not wait for anything else: what ran was
                // interrupted.
                self.status = None;
            }
            self.live.input = Some(view);
            self.draw(Instant::now());
        }
    }

    /// Redraws the last lines after another program has used the terminal.
    pub fn redraw(&mut self) {
        if self.live.input.is_some() {
            self.err.put(MARK_PASTES);
            self.live.shown = None;
            self.live.is_back = false;
            self.live.frame.clear();
            self.draw(Instant::now());
        }
    }

    /// Leaves the last line to the program that has the terminal.
    pub fn step_back(&mut self) {
        if !std::mem::replace(&mut self.live.is_back, true) {
            self.live.shown = None;
        }
    }

    /// Clears the visible screen except for the last lines.
    pub fn clear(&mut self) {
        if self.live.input.is_some() {
            self.erase();
            self.err.put(CLEAR_SCREEN);
            self.draw(Instant::now());
        }
    }

    /// Prepares the terminal for another program: removes the last lines, and switches off the
    /// marks of pastes.
    pub fn release(&mut self) {
        if self.live.input.is_some() {
            self.erase();
            self.live.in_frame = false;
            self.err.put(RELEASE);
        }
    }

    /// Sets the text about a step that has begun.
    pub(super) fn count(&mut self, step: u32, cost: Option<f64>, tokens: u64) {
        let mut parts = vec![format!("step {step}")];
        parts.extend(cost.map(|cost| words::cost(Some(cost))));
        if tokens > 0 {
            parts.push(words::plural(tokens, "token"));
        }
        self.live.account = parts.join(" · ");
    }

    /// The account of the run: steps, cost, tokens, mode and time.
    pub fn account(&self) -> String {
        let time = self.live.since.map(|since| since.elapsed().as_secs());
        let time = time.map_or_else(String::new, |seconds| match seconds {
            0..60 => format!("{seconds} s"),
            60..3600 => format!("{} min", seconds / 60),
            _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        });
        let context = self.context();
        let parts = [self.live.account.as_str(), &context, self.live.mode, &time];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" · ")
    }

    /// Shows a piece of a reply. With a user who may type, an unfinished line is one of the last
    /// lines until it is complete.
    pub(super) fn stream(&mut self, shown: &str) {
        if self.live.input.is_none() {
            self.open = !shown.ends_with('\n');
            let text = self.coloured(shown, false);
            self.err.put(&text);
            return;
        }
        self.live.held.push_str(shown);
        let whole = self.live.held.rfind('\n').map_or(0, |at| at + 1);
        if whole > 0 {
            let rest = self.live.held.split_off(whole);
            let lines = std::mem::replace(&mut self.live.held, rest);
            self.erase();
            let lines = lines.lines().map(|line| self.coloured(line, true) + "\n");
            let text: String = lines.collect();
            self.err.put(&text);
        }
        self.open = !self.live.held.is_empty();
        let now = Instant::now();
        let is_due = self.live.drawn.is_none_or(|drawn| now >= drawn + PAUSE);
        if is_due || whole > 0 {
            self.draw(now);
        }
    }

    /// How long the last lines stay valid, if they change by themselves after `pause`.
    pub(super) fn frame_pause(&self, pause: Duration) -> Duration {
        match self.live.held.is_empty() {
            true => pause,
            false => pause.min(PAUSE),
        }
    }

    /// Ends an unfinished line.
    pub(super) fn end_line(&mut self) {
        if std::mem::take(&mut self.open) {
            self.erase();
            let held = std::mem::take(&mut self.live.held);
            let held = self.coloured(&held, true);
            self.err.put(&format!("{held}\n"));
        }
    }

    /// Draws the last lines.
    pub(super) fn draw(&mut self, now: Instant) {
        if !self.look.redraw || self.live.is_back {
            return;
        }
        match self.live.input.clone() {
            Some(input) => self.draw_all(&input, now),
            None => self.draw_line(now),
        }
    }

    /// Overwrites the line that counts seconds, unless a reply is being shown.
    fn draw_line(&mut self, now: Instant) {
        if self.open {
            return;
        }
        let Some(line) = self.status.as_ref().and_then(|status| status.line(now)) else {
            return;
        };
        // A line that wraps could not be overwritten.
        let columns = self.look.width.columns().unwrap_or(RULE);
        let line = self.look.paint(Colour::Dim, cut(&line, columns - 1));
        self.err.put_spare(&format!("{CLEAR_LINE}{line}"));
        self.live.counting = true;
    }

    fn draw_all(&mut self, input: &InputView, now: Instant) {
        let columns = self.look.width.columns().unwrap_or(RULE);
        let room = columns - 1;
        let mut rows: Vec<(String, Option<Colour>)> = Vec::new();
        if !self.live.held.is_empty() {
            rows.push((self.live.held.clone(), None));
        }
        if let Some(status) = &self.status {
            let what = status.footer(now);
            let line = format!("{what} · {}", self.account());
            rows.push((whole_parts(&line, room).to_owned(), Some(Colour::Dim)));
        }
        if !input.hint.is_empty() {
            rows.push((
                whole_parts(&input.hint, room).to_owned(),
                Some(Colour::Yellow),
            ));
        }
        let cursor_row = rows.len() + input.row;
        for (index, row) in input.rows.iter().enumerate() {
            let lead = match index {
                0 => input.mark.clone(),
                _ => " ".repeat(width(&input.mark, 0)),
            };
            rows.push((format!("{lead}{row}"), None));
        }
        let mut frame = String::new();
        let mut widths = Vec::with_capacity(rows.len());
        for (index, (row, colour)) in rows.iter().enumerate() {
            let row = cut(row, room);
            widths.push(width(row, 0));
            if index > 0 {
                frame.push_str("\r\n");
            }
            match colour {
                Some(colour) => frame.push_str(&self.look.paint(*colour, row)),
                None => frame.push_str(row),
            }
        }
        let up = rows.len().saturating_sub(1).saturating_sub(cursor_row);
        frame.push('\r');
        if up > 0 {
            frame.push_str(&format!("\x1b[{up}A"));
        }
        let column = input.column.min(room);
        if column > 0 {
            frame.push_str(&format!("\x1b[{column}C"));
        }
        if self.live.shown.is_some() && frame == self.live.frame {
            return;
        }
        self.erase();
        if !self.live.in_frame {
            self.err.put(BEGIN_FRAME);
        }
        self.err.put(&format!("{frame}{END_FRAME}"));
        self.live.in_frame = false;
        widths.truncate(cursor_row);
        self.live.shown = Some(ShownLines {
            above: widths,
            column,
        });
        self.live.frame = frame;
        self.live.drawn = Some(now);
    }

    /// Clears the last lines, so that a text can be printed.
    pub(super) fn erase(&mut self) {
        if std::mem::take(&mut self.live.counting) {
            self.err.put(CLEAR_LINE);
        }
        let Some(shown) = self.live.shown.take() else {
            return;
        };
        // A terminal that became narrower has wrapped the lines.
        let columns = self.look.width.columns().unwrap_or(RULE);
        let above = shown.above.iter();
        let above: usize = above.map(|width| width.div_ceil(columns).max(1)).sum();
        let above = above + shown.column / columns;
        let begin = match std::mem::replace(&mut self.live.in_frame, true) {
            true => "",
            false => BEGIN_FRAME,
        };
        let up = match above {
            0 => String::new(),
            above => format!("\x1b[{above}A"),
        };
        self.err.put(&format!("{begin}\r{up}{CLEAR_REST}"));
    }

    /// Disables typing.
    pub fn leave(&mut self) {
        self.close_line();
        self.erase();
        self.end_live();
    }

    /// Switches off the modes that the program has switched on.
    pub(super) fn end_live(&mut self) {
        if self.live.input.take().is_some() {
            self.live.in_frame = false;
            self.err.put(RELEASE);
        }
    }
}
