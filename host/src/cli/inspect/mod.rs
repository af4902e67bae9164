//! `inspect`: shows recorded runs on the whole screen of a terminal, also while they continue. The
//! keys are those of mini-swe-agent's inspector, and more.
//!
//! No library is used: rows of text in a few colours, redrawn when they change, need none.

mod list_view;
mod run_view;
mod screen;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fancy_regex::Regex;
use mswea_core::StopSource;
use mswea_view::RunList;

use self::list_view::ListView;
use self::run_view::{RunPart, RunView};
use self::screen::WholeScreen;
use super::args::InspectArgs;
use super::atif::{secrets, secrets_read};
use super::exit::ExitCode;
use super::output::{self, Failure};
use super::person::keys::PressedKey;
use super::{signals, view};

/// The interval at which a continuing run is read again.
const LOOK: Duration = Duration::from_millis(500);

/// The interval at which a search shows its position.
const SEARCH_NOTE: Duration = Duration::from_millis(200);

/// The column where the right half of [`HELP`] begins.
const HELP_HALF: usize = 50;

/// The text for `?`.
const HELP: &str = "\
h l  left right   step before, next step          0 $   first, last step
j k  down up      scroll        Space  page down  g     jump to a step
H L               run before, next run            q     back, end
/ n N             search (regular expression), next, before
e E               next step with an error, the one before
t                 time, tokens and cost of all steps, as bars
r                 the record: request, reply and events, as they are
c                 config and plugins              d     changes of files
v                 thoughts of the model           y     copy (OSC 52)
p                 all of it in $PAGER             ?     this";

/// The lines of the help. On a narrow screen the keys of the right half have lines of their own.
fn help(width: usize) -> Vec<String> {
    let widest = HELP.lines().map(str::len).max().unwrap_or_default();
    if widest <= width {
        return HELP.lines().chain([""]).map(str::to_owned).collect();
    }
    let halves = HELP
        .lines()
        .flat_map(|line| match line.split_at_checked(HELP_HALF) {
            Some((left, right)) if left.ends_with("  ") => vec![left, right],
            _ => vec![line],
        });
    let mut lines = Vec::new();
    for half in halves {
        let mut line = String::new();
        for word in half.split_whitespace() {
            if !line.is_empty() && line.len() + 1 + word.len() > width {
                lines.push(std::mem::replace(&mut line, " ".to_owned()));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// The purpose of the text that is typed into the last line.
enum LineInput {
    Search,
    Filter,
    Jump,
}

/// The state of the screen.
struct Inspector {
    screen: WholeScreen,
    list: RunList,
    runs: ListView,
    open: Option<RunView>,
    input: Option<(LineInput, String)>,
    shows_help: bool,
    /// Whether there is only one run, so that there is no list to return to.
    is_single: bool,
}

/// Shows runs until the user quits.
pub(super) fn inspect(args: &InspectArgs) -> Result<ExitCode, Failure> {
    if !screen::is_there() {
        return Err(Failure::usage(
            "`inspect` needs a terminal: `mswea-host view` shows runs in a browser, `mswea-host export --to markdown` writes one as a text".to_owned(),
        ));
    }
    let roots = view::roots(&args.paths)?;
    let list = RunList::new(roots, secrets(), secrets_in_file);
    let mut runs = ListView::new(list.all());
    runs.note = last_warning();
    if runs.len() == 0 {
        return Err(Failure::usage(
            "no run is found: name a folder with runs in it or below, or the file of a run"
                .to_owned(),
        ));
    }
    let is_single = runs.len() == 1;
    give_back_in_a_panic();
    let taken = WholeScreen::take();
    let screen =
        taken.map_err(|error| Failure::usage(format!("the terminal can't be used: {error}")))?;
    watch_signals();
    let mut inspector = Inspector {
        screen,
        list,
        runs,
        open: None,
        input: None,
        shows_help: false,
        is_single,
    };
    if is_single {
        inspector.open()?;
    }
    inspector.run();
    drop(inspector);
    for warning in warnings().drain(..) {
        output::warning(&warning);
    }
    Ok(ExitCode::Submitted)
}

/// The warnings so far. They are printed after the screen was left.
fn warnings() -> MutexGuard<'static, Vec<String>> {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last warning; empty if there is none.
fn last_warning() -> String {
    warnings().last().cloned().unwrap_or_default()
}

/// The secrets in a file that the config of a run names.
fn secrets_in_file(path: PathBuf) -> Vec<String> {
    secrets_read(path).unwrap_or_else(|warning| {
        warnings().push(warning);
        Vec::new()
    })
}

/// Leaves the screen before the message of a panic is printed, because the release does not unwind.
fn give_back_in_a_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        screen::give_back();
        told(info);
    }));
}

/// Leaves the screen if a signal ends the program.
fn watch_signals() {
    std::thread::spawn(|| {
        let Ok(runtime) = output::runtime() else {
            return;
        };
        runtime.block_on(async {
            let (source, stop) = StopSource::new();
            let source = Arc::new(source);
            let interrupted = source.clone();
            let watched = signals::watch_with(source, move || {
                // In the pager, Ctrl-C belongs to the pager.
                if !screen::is_paging() {
                    interrupted.stop();
                }
            });
            if watched.is_err() {
                return;
            }
            stop.stopped().await;
            screen::give_back();
            std::process::exit(i32::from(ExitCode::Interrupted.code()));
        });
    });
}

/// Checks whether a search continues: Esc and Ctrl-C end it. A search that takes long shows its
/// position. Other keys that are pressed meanwhile are dropped.
fn going_on(screen: &mut WholeScreen) -> impl FnMut(usize) -> bool {
    let mut told = Instant::now();
    move |page| {
        if told.elapsed() >= SEARCH_NOTE {
            told = Instant::now();
            screen.tell(&format!("searching: step {page} · Esc ends it"));
        }
        let keys = screen.keys(Duration::ZERO);
        keys.is_some_and(|keys| {
            let ends = |key: &PressedKey| {
                matches!(
                    key,
                    PressedKey::Escape | PressedKey::Interrupt | PressedKey::Eof
                )
            };
            !keys.iter().any(ends)
        })
    }
}

impl Inspector {
    fn run(&mut self) {
        loop {
            let is_at_work = self.open.as_mut().is_some_and(RunView::work);
            self.draw();
            let patience = if is_at_work { Duration::ZERO } else { LOOK };
            let Some(keys) = self.screen.keys(patience) else {
                return;
            };
            if keys.is_empty()
                && !is_at_work
                && let Some(open) = &mut self.open
                && open.reader.may_grow()
            {
                open.refresh();
            }
            for key in keys {
                if !self.press(key) {
                    return;
                }
            }
        }
    }

    fn draw(&mut self) {
        let (width, height) = self.screen.size();
        let mut rows = match &mut self.open {
            Some(open) => open.rows(width, height),
            None => self.runs.rows(width, height),
        };
        if self.shows_help {
            for (row, line) in rows.iter_mut().skip(1).zip(help(width)) {
                *row = (None, line);
            }
        }
        if let (Some((what, text)), Some(last)) = (&self.input, rows.last_mut()) {
            let sign = match what {
                LineInput::Search => "search",
                LineInput::Filter => "filter",
                LineInput::Jump => "step",
            };
            last.1 = format!("{sign}: {text}_");
        }
        self.screen.draw(&rows);
    }

    /// Handles a key. Returns whether the program continues.
    fn press(&mut self, key: PressedKey) -> bool {
        // Letters that arrive together are separate keys: `/` or `?` changes the meaning of the
        // next one.
        if let PressedKey::Text(text) = &key
            && text.chars().nth(1).is_some()
        {
            let mut letters = text.chars().map(String::from);
            return letters.all(|letter| self.press(PressedKey::Text(letter)));
        }
        if let Some(open) = &mut self.open {
            open.note.clear();
        }
        self.runs.note.clear();
        if std::mem::take(&mut self.shows_help) {
            return true;
        }
        if self.input.is_some() {
            self.type_line(key);
            return true;
        }
        match key {
            PressedKey::Text(text) => text.chars().all(|c| self.letter(c)),
            PressedKey::Interrupt | PressedKey::Eof => false,
            PressedKey::Escape => self.letter('\u{1b}'),
            PressedKey::Left => self.letter('h'),
            PressedKey::Right => self.letter('l'),
            PressedKey::Up => self.letter('k'),
            PressedKey::Down => self.letter('j'),
            PressedKey::Home => self.letter('0'),
            PressedKey::End => self.letter('$'),
            PressedKey::PageDown => self.letter(' '),
            PressedKey::PageUp => self.letter('b'),
            PressedKey::Enter => self.letter('\r'),
            _ => true,
        }
    }

    fn letter(&mut self, c: char) -> bool {
        let (width, height) = self.screen.size();
        let some = height.saturating_sub(4).max(1);
        if c == '?' {
            self.shows_help = true;
            return true;
        }
        let Some(open) = &mut self.open else {
            match c {
                'q' | '\u{1b}' => return false,
                'j' => self.runs.go(true, 1),
                'k' => self.runs.go(false, 1),
                ' ' => self.runs.go(true, some),
                'b' => self.runs.go(false, some),
                '0' => self.runs.go(false, usize::MAX),
                '$' => self.runs.go(true, usize::MAX),
                's' => self.runs.sort(),
                'f' => self.runs.toggle_failed(),
                'r' => {
                    let runs = self.list.all();
                    self.runs.renew(runs);
                    self.runs.note = last_warning();
                }
                '/' => self.input = Some((LineInput::Filter, String::new())),
                '\r' | 'l' => {
                    if let Err(Failure { message, .. }) = self.open() {
                        self.runs.note = message;
                    }
                }
                _ => {}
            }
            return true;
        };
        let is_list = open.shown == RunPart::Bars;
        match c {
            'l' => open.go(open.page + 1),
            'h' => open.go(open.page.saturating_sub(1)),
            '0' => open.go(0),
            '$' => open.go(usize::MAX),
            'j' => open.scroll(true, 1, height),
            'k' => open.scroll(false, 1, height),
            ' ' => open.scroll(true, some, height),
            'b' => open.scroll(false, some, height),
            'e' => open.next_error(false, &mut going_on(&mut self.screen)),
            'E' => open.next_error(true, &mut going_on(&mut self.screen)),
            'n' => open.find_next(false, false, width, &mut going_on(&mut self.screen)),
            'N' => open.find_next(true, false, width, &mut going_on(&mut self.screen)),
            't' => open.show(RunPart::Bars),
            'r' => open.show(RunPart::Raw),
            'c' => open.show(RunPart::Head),
            'd' => open.show(RunPart::Patch),
            'v' => open.think(),
            '\r' if is_list => open.show(RunPart::Page),
            '/' => self.input = Some((LineInput::Search, String::new())),
            'g' => self.input = Some((LineInput::Jump, String::new())),
            'y' => {
                let is_all = self.screen.copy(&open.text());
                open.note = match is_all {
                    true => "copied".to_owned(),
                    false => "the beginning is copied: it is too long for the clipboard".to_owned(),
                };
            }
            'p' => {
                if let Err(error) = self.screen.page(&open.text()) {
                    open.note = error.to_string();
                }
            }
            'H' | 'L' => self.other_run(c == 'L'),
            'q' | '\u{1b}' if open.shown != RunPart::Page => open.show(RunPart::Page),
            'q' if self.is_single => return false,
            'q' | '\u{1b}' => self.close(),
            _ => {}
        }
        true
    }

    fn open(&mut self) -> Result<(), Failure> {
        let Some((line, reader)) = self.runs.lend() else {
            return Ok(());
        };
        self.screen
            .draw(&[(None, format!("reading {} ...", line.name))]);
        let mut open = RunView::open(line, reader).map_err(Failure::usage)?;
        let warning = last_warning();
        if !warning.is_empty() {
            open.note = warning;
        }
        self.open = Some(open);
        Ok(())
    }

    fn close(&mut self) {
        if self.is_single {
            return;
        }
        if let Some(open) = self.open.take() {
            self.runs.put_back(&open.line.name, open.reader);
        }
    }

    fn other_run(&mut self, down: bool) {
        let before = self.runs.at;
        self.close();
        self.runs.go(down, 1);
        if let Err(Failure { message, .. }) = self.open() {
            self.runs.note = message;
        } else if before == self.runs.at
            && let Some(open) = &mut self.open
        {
            open.note = "there is no further run".to_owned();
        }
    }

    fn type_line(&mut self, key: PressedKey) {
        let Some((what, mut text)) = self.input.take() else {
            return;
        };
        match key {
            PressedKey::Text(more) => text.push_str(&more),
            PressedKey::Backspace if text.is_empty() => return,
            PressedKey::Backspace => drop(text.pop()),
            PressedKey::KillToStart => text.clear(),
            PressedKey::Enter => return self.enter(&what, &text),
            PressedKey::Escape | PressedKey::Interrupt | PressedKey::Eof => return,
            _ => {}
        }
        self.input = Some((what, text));
    }

    fn enter(&mut self, what: &LineInput, text: &str) {
        let width = self.screen.size().0;
        let note = match (what, &mut self.open) {
            (LineInput::Jump, Some(open)) => match text.trim().parse() {
                Ok(page) => {
                    open.go(page);
                    return;
                }
                Err(_) => format!("`{text}` is no number of a step"),
            },
            (LineInput::Filter, _) if text.is_empty() => return self.runs.filter(None),
            (_, Some(open)) if text.is_empty() => {
                return open.find_next(false, false, width, &mut going_on(&mut self.screen));
            }
            (_, open) => match (Regex::new(&format!("(?i){text}")), open) {
                (Ok(regex), Some(open)) => {
                    return open.find(text, regex, width, &mut going_on(&mut self.screen));
                }
                (Ok(regex), None) => {
                    return self.runs.filter(Some((text.to_owned(), regex)));
                }
                (Err(error), _) => format!("no regular expression: {error}"),
            },
        };
        match &mut self.open {
            Some(open) => open.note = note,
            None => self.runs.note = note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_all_words_at_each_width() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        for width in [30, 40, 80, 120] {
            let lines = help(width);
            assert_eq!(words(&lines.join("\n")), words(HELP), "{width}");
            let widest = lines.iter().map(String::len).max();
            assert!(widest <= Some(width), "{width}: {lines:#?}");
        }
        // On a terminal of 24 rows, the whole help fits between the title and the last line.
        assert!(help(40).len() <= 22, "{:#?}", help(40));
    }
}
