//! A run on the screen: one page with its steps, the record of the page, or the bars of all pages.

use std::time::{Duration, Instant};

use fancy_regex::Regex;
use mswea_view::{PageFigures, PageLine, RunLine, RunReader};

use super::screen::ScreenRow;
use crate::cli::front::{Colour, cut_to_columns, text_width};

/// Called before each page of a search; returns whether the search continues.
pub(super) type GoesOn<'a> = dyn FnMut(usize) -> bool + 'a;

/// The note about a search that was ended.
const ENDED: &str = "the search was ended";

/// How many bytes of a page are shown on the screen; the pager shows the whole page.
const MOST: usize = 1 << 20;
/// How long figures are computed between two checks for keys.
const SLICE: Duration = Duration::from_millis(30);
/// The width of a bar.
const BAR: usize = 10;

/// The displayed part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunPart {
    Page,
    /// The record of the page.
    Raw,
    /// The config and the plugins.
    Head,
    /// The changes of files.
    Patch,
    /// Time, tokens and cost of all pages.
    Bars,
}

/// A run on the screen.
pub(super) struct RunView {
    pub line: RunLine,
    pub reader: RunReader,
    pub shown: RunPart,
    pub page: usize,
    /// The first visible row.
    pub top: usize,
    pub thoughts: bool,
    pub note: String,
    search: Option<(String, Regex)>,
    /// The row of the match.
    mark: Option<usize>,
    rows: Vec<ScreenRow>,
    /// The part, page and width for which the rows were made.
    made: Option<(RunPart, usize, usize)>,
    figures: Vec<PageFigures>,
}

impl RunView {
    /// Opens a run.
    ///
    /// # Errors
    /// A message if the file can't be read as a run.
    pub fn open(line: RunLine, mut reader: RunReader) -> Result<Self, String> {
        reader.refresh()?;
        Ok(Self {
            line,
            reader,
            shown: RunPart::Page,
            page: 0,
            top: 0,
            thoughts: true,
            note: String::new(),
            search: None,
            mark: None,
            rows: Vec::new(),
            made: None,
            figures: Vec::new(),
        })
    }

    /// Reads the added events. If the last page is shown, a new page is shown next.
    pub fn refresh(&mut self) {
        let was_last = self.page + 1 >= self.reader.len();
        match self.reader.refresh() {
            Ok(true) => {
                self.made = None;
                // The last page may have changed.
                self.figures
                    .truncate(self.reader.len().min(self.figures.len()).saturating_sub(1));
                if was_last && self.page + 1 < self.reader.len() {
                    self.go(self.reader.len() - 1);
                }
            }
            Ok(false) => {}
            Err(why) => self.note = why,
        }
    }

    /// Shows the page with this index.
    pub fn go(&mut self, page: usize) {
        let page = page.min(self.reader.len().saturating_sub(1));
        if page != self.page {
            self.page = page;
            self.top = 0;
        }
        self.mark = None;
    }

    /// Shows another part of the run, or the page again.
    pub fn show(&mut self, shown: RunPart) {
        self.shown = if self.shown == shown {
            RunPart::Page
        } else {
            shown
        };
        self.top = 0;
        self.mark = None;
        self.made = None;
    }

    pub fn think(&mut self) {
        self.thoughts = !self.thoughts;
        self.made = None;
    }

    /// Scrolls, or selects another page where all pages are listed.
    pub fn scroll(&mut self, down: bool, by: usize, height: usize) {
        let moved = |from: usize| {
            if down {
                from.saturating_add(by)
            } else {
                from.saturating_sub(by)
            }
        };
        if self.shown == RunPart::Bars {
            return self.go(moved(self.page));
        }
        let last = self.rows.len().saturating_sub(height.saturating_sub(3));
        self.top = moved(self.top).min(last);
    }

    /// The displayed part as a text.
    pub fn text(&self) -> String {
        match self.shown {
            RunPart::Page => {
                let lines = self.reader.lines(self.page, self.thoughts).into_iter();
                lines
                    .map(|(kind, line)| format!("{}{line}\n", lead(kind)))
                    .collect()
            }
            RunPart::Raw => self.reader.raw(self.page),
            RunPart::Head => self.reader.head(),
            RunPart::Patch => self.patch(),
            RunPart::Bars => {
                let pages = 0..self.reader.len();
                pages
                    .map(|page| self.bar(page, &self.figures_of(page), 200) + "\n")
                    .collect()
            }
        }
    }

    fn patch(&self) -> String {
        match self.reader.patch(self.page) {
            Some((at, patch)) => format!(
                "changes of files as they were at the end of step {at}, where the run had ended:\n\n{patch}"
            ),
            None => "no changes of files are recorded up to this step: a journal has them only where the run ended, and not for each step".to_owned(),
        }
    }

    /// Searches for the next page with a failure.
    pub fn next_error(&mut self, backwards: bool, goes_on: &mut GoesOn<'_>) {
        let pages: Vec<usize> = match backwards {
            true => (0..self.page).rev().collect(),
            false => (self.page + 1..self.reader.len()).collect(),
        };
        for page in pages {
            if !goes_on(page) {
                ENDED.clone_into(&mut self.note);
                return;
            }
            if self.figures_of(page).has_error {
                return self.go(page);
            }
        }
        "no further step has an error".clone_into(&mut self.note);
    }

    /// Searches for an expression, beginning at the current place.
    pub fn find(&mut self, typed: &str, regex: Regex, width: usize, goes_on: &mut GoesOn<'_>) {
        self.search = Some((typed.to_owned(), regex));
        self.find_next(false, true, width, goes_on);
    }

    /// Shows the next match. `here`: a match on this page counts, too.
    pub fn find_next(
        &mut self,
        backwards: bool,
        here: bool,
        width: usize,
        goes_on: &mut GoesOn<'_>,
    ) {
        let Some((typed, regex)) = self.search.clone() else {
            self.note = "nothing was looked for: `/` does".to_owned();
            return;
        };
        self.shown = RunPart::Page;
        self.lay_out(width);
        let is_found = |text: &str| regex.is_match(text).unwrap_or(false);
        let count = self.rows.len();
        let rows: Vec<usize> = match (backwards, self.mark) {
            (false, Some(mark)) => (mark + 1..count).collect(),
            (true, Some(mark)) => (0..mark).rev().collect(),
            (false, None) => (if here { 0 } else { count }..count).collect(),
            (true, None) => Vec::new(),
        };
        if let Some(row) = rows.into_iter().find(|row| is_found(&self.rows[*row].1)) {
            return self.mark(row);
        }
        let pages: Vec<usize> = match backwards {
            true => (0..self.page).rev().collect(),
            false => (self.page + 1..self.reader.len()).collect(),
        };
        for page in pages {
            if !goes_on(page) {
                ENDED.clone_into(&mut self.note);
                return;
            }
            let lines = self.reader.lines(page, self.thoughts);
            if lines.iter().any(|(_, line)| is_found(line)) {
                self.go(page);
                self.lay_out(width);
                let found = |row: &usize| is_found(&self.rows[*row].1);
                let all = 0..self.rows.len();
                let row = if backwards {
                    all.rev().find(found)
                } else {
                    all.into_iter().find(found)
                };
                return self.mark(row.unwrap_or_default());
            }
        }
        self.note = format!(
            "`{typed}` is not found {} this place",
            if backwards { "before" } else { "after" }
        );
    }

    fn mark(&mut self, row: usize) {
        self.mark = Some(row);
        self.top = row.saturating_sub(2);
    }

    fn figures_of(&self, page: usize) -> PageFigures {
        match self.figures.get(page) {
            Some(figures) => *figures,
            None => self.reader.figures(page),
        }
    }

    /// Computes figures for a short time. Returns whether there are more to compute.
    pub fn work(&mut self) -> bool {
        let end = Instant::now() + SLICE;
        while self.figures.len() < self.reader.len() && Instant::now() < end {
            self.figures.push(self.reader.figures(self.figures.len()));
        }
        self.figures.len() < self.reader.len()
    }

    fn lay_out(&mut self, width: usize) {
        let wanted = (self.shown, self.page, width);
        if self.made == Some(wanted) {
            return;
        }
        let lines = match self.shown {
            RunPart::Page => self.reader.lines(self.page, self.thoughts),
            RunPart::Bars => Vec::new(),
            shown => {
                let text = self.text();
                text.lines()
                    .map(|line| (of_patch(shown, line), line.to_owned()))
                    .collect()
            }
        };
        self.rows.clear();
        let mut bytes = 0;
        for (kind, line) in lines {
            if bytes > MOST {
                let note = "(this is long: `p` shows all of it in a pager)";
                self.rows.push((Some(Colour::Yellow), note.to_owned()));
                break;
            }
            bytes += line.len();
            let text = format!("{}{}", lead(kind), line.replace('\t', "    "));
            for row in folded(&text, width) {
                self.rows.push((colour(kind), row));
            }
        }
        self.made = Some(wanted);
    }

    /// The rows for the screen.
    pub fn rows(&mut self, width: usize, height: usize) -> Vec<ScreenRow> {
        let room = height.saturating_sub(3).max(1);
        let (is_running, word) = self.reader.now();
        let pages = self.reader.len();
        let title = format!(
            "{} · {}{}",
            self.line.name,
            if is_running { "running: " } else { "" },
            word
        );
        let mut rows = vec![(Some(Colour::Bold), title)];
        if self.shown == RunPart::Bars {
            let first = (self.page + 1).saturating_sub(room);
            let own: Vec<ScreenRow> = (first..pages.min(first + room))
                .map(|page| {
                    let text = self.bar(page, &self.figures_of(page), width);
                    let colour = (page == self.page).then_some(Colour::Bold);
                    (colour, text)
                })
                .collect();
            rows.extend(own);
        } else {
            self.lay_out(width);
            self.top = self.top.min(self.rows.len().saturating_sub(1));
            let visible = self.rows.iter().enumerate().skip(self.top).take(room);
            rows.extend(visible.map(|(index, row)| match self.mark == Some(index) {
                true => (Some(Colour::Reversed), row.1.clone()),
                false => row.clone(),
            }));
        }
        rows.resize(room + 1, (None, String::new()));
        rows.push((Some(Colour::Cyan), self.account(width)));
        let more = self.rows.len().saturating_sub(self.top + room);
        let help = match (&*self.note, self.shown) {
            ("", RunPart::Bars) => "j/k: choose · Enter: open · t: back · ?: help".to_owned(),
            ("", _) if more > 0 => format!("{more} more lines · ?: help"),
            ("", _) => "?: help".to_owned(),
            (note, _) => note.to_owned(),
        };
        rows.push((Some(Colour::Dim), help));
        rows
    }

    /// The figures of the page.
    fn account(&self, width: usize) -> String {
        let figures = self.figures_of(self.page);
        let mut parts = vec![format!(
            "step {} of {}",
            self.page,
            self.reader.len().saturating_sub(1)
        )];
        if let Some(seconds) = figures.model_seconds {
            parts.push(format!("model {seconds:.1} s"));
        }
        if figures.command_seconds > 0.0 {
            parts.push(format!("commands {:.1} s", figures.command_seconds));
        }
        if figures.input > 0 || figures.output > 0 {
            parts.push(format!("{} + {} tokens", figures.input, figures.output));
        }
        if let Some(cost) = figures.cost {
            parts.push(format!("${cost:.4}"));
        }
        if let Some((view, history)) = figures.view {
            parts.push(format!(
                "the model saw {} of {history} messages",
                view.messages
            ));
        }
        cut_to_columns(&parts.join(" · "), width).to_owned()
    }

    /// A line of the list of pages.
    fn bar(&self, page: usize, figures: &PageFigures, width: usize) -> String {
        let most = |of: fn(&PageFigures) -> f64| self.figures.iter().map(of).fold(0.0, f64::max);
        let seconds = |it: &PageFigures| it.model_seconds.unwrap_or_default() + it.command_seconds;
        let tokens = PageFigures::tokens;
        let cost = |it: &PageFigures| it.cost.unwrap_or_default();
        let lines = self.reader.lines(page, false);
        let wanted = |kind: PageLine| {
            lines
                .iter()
                .find(|(it, _)| *it == kind)
                .map(|(_, text)| text.as_str())
        };
        let words = wanted(PageLine::Call)
            .or(wanted(PageLine::Text))
            .unwrap_or_default();
        let sign = if figures.has_error { '!' } else { ' ' };
        let text = format!(
            "{page:>5}{sign} {:>7.1} s {} {:>8} tok {} {:>8} {} {words}",
            seconds(figures),
            bar(seconds(figures), most(seconds)),
            figures.input.saturating_add(figures.output),
            bar(tokens(figures), most(tokens)),
            figures
                .cost
                .map_or_else(|| "-".to_owned(), |cost| format!("${cost:.4}")),
            bar(cost(figures), most(cost)),
        );
        cut_to_columns(&text, width).to_owned()
    }
}

/// A bar of eighths of a column.
fn bar(value: f64, most: f64) -> String {
    const PARTS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let share = if most > 0.0 {
        (value / most).clamp(0.0, 1.0)
    } else {
        0.0
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a few columns"
    )]
    let eighths = (share * (BAR * 8) as f64).round() as usize;
    let cells = (0..BAR).map(|cell| PARTS[eighths.saturating_sub(cell * 8).min(8)]);
    cells.collect()
}

/// The rows of a line, which is wrapped at the width of the screen.
fn folded(line: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut rest = line;
    loop {
        let row = cut_to_columns(rest, width.max(2));
        rows.push(row.to_owned());
        rest = &rest[row.len()..];
        if rest.is_empty() || row.is_empty() {
            return rows;
        }
    }
}

fn of_patch(shown: RunPart, line: &str) -> PageLine {
    match line.as_bytes().first() {
        Some(b'+') if shown == RunPart::Patch => PageLine::Output,
        Some(b'-') if shown == RunPart::Patch => PageLine::Trouble,
        Some(b'd' | b'@' | b'i') if shown == RunPart::Patch => PageLine::Title,
        _ => PageLine::Text,
    }
}

/// The prefix of a line.
fn lead(kind: PageLine) -> &'static str {
    match kind {
        PageLine::Call => "$ ",
        PageLine::Note => "* ",
        _ => "",
    }
}

fn colour(kind: PageLine) -> Option<Colour> {
    match kind {
        PageLine::Title => Some(Colour::Cyan),
        PageLine::Text => None,
        PageLine::Thought => Some(Colour::Dim),
        PageLine::Call => Some(Colour::Bold),
        PageLine::Output => Some(Colour::Green),
        PageLine::Trouble => Some(Colour::Red),
        PageLine::Note => Some(Colour::Yellow),
    }
}

/// Pads a text to this width.
pub(super) fn padded(text: &str, width: usize) -> String {
    let text = cut_to_columns(text, width);
    format!(
        "{text}{}",
        " ".repeat(width.saturating_sub(text_width(text, 0)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_rows() {
        assert_eq!(bar(0.0, 0.0), " ".repeat(BAR));
        assert_eq!(bar(1.0, 1.0), "█".repeat(BAR));
        assert_eq!(bar(1.0, 20.0), format!("▌{}", " ".repeat(BAR - 1)));
        assert_eq!(folded("日本語a", 4), ["日本", "語a"]);
        assert_eq!(folded("", 4), [""]);
        assert_eq!(padded("日本", 5), "日本 ");
        assert_eq!(padded("a\u{2764}\u{fe0f}", 3), "a\u{2764}\u{fe0f}");
        assert_eq!(padded("a\u{2764}\u{fe0f}", 2), "a\u{2764}");
        assert_eq!(padded("a\tb", 4), "a   ");
    }
}
