//! `closed_window`: of the windows on one file, only the last one stays.

use std::collections::HashMap;

use mswea_sdk::types::{ContentPart, Message};

use crate::engine::Rule;
use crate::item;

/// A window in a text: numbered lines of one file.
#[derive(Debug, PartialEq)]
struct Window {
    file: String,
    /// From the first numbered line to the end of the last one.
    from: usize,
    to: usize,
    lines: usize,
}

/// Whether a line begins with a number and a colon.
fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(':')
}

/// The file that a line's header names: `[File: FILE (12 lines total)]`. Of several beginnings and
/// ends, the first and the last count.
fn header(line: &str) -> Option<&str> {
    const BEGIN: &str = "[File:";
    const END: &str = "lines total)]";
    let mut begins = line.match_indices(BEGIN).map(|(at, _)| at + BEGIN.len());
    let blank = |at: &usize| line[*at..].starts_with(char::is_whitespace);
    // Most lines have no beginning, so the end is not searched.
    let from = begins.find(blank)?;
    let mut ends = line[from..].rmatch_indices(END);
    ends.find_map(|(at, _)| {
        let count = &line[from..from + at];
        let digits = count.trim_end();
        let before = digits.trim_end_matches(|c: char| c.is_ascii_digit());
        let file = before.strip_suffix('(')?;
        let is_spaced = digits.len() < count.len() && before.len() < digits.len();
        let file = file.strip_suffix(char::is_whitespace)?.trim();
        (is_spaced && !file.is_empty()).then_some(file)
    })
}

/// How windows are found.
struct Finder {
    compat: bool,
}

impl Finder {
    /// Whether a message may have windows.
    fn looks_at(&self, message: &Message) -> bool {
        match self.compat {
            true => message.role == "user" && !item::is_demo(message),
            false => item::is_observation(message),
        }
    }

    /// The windows of a text. A header's window ends where the next header begins; by SWE-agent's
    /// rule only the first header counts, for all numbered lines of the text.
    fn find(&self, text: &str) -> Vec<Window> {
        let mut windows: Vec<Window> = Vec::new();
        // Nearly no text has a window.
        if !text.contains("[File:") {
            return windows;
        }
        let mut file = match self.compat {
            true => text.split('\n').find_map(header),
            false => None,
        };
        let mut is_open = false;
        let mut end = 0;
        for line in text.split_inclusive('\n') {
            let from = end;
            end += line.len();
            if !is_numbered(line) {
                // A numbered line belongs to a file, whatever it contains.
                if let Some(other) = header(line).filter(|_| !self.compat) {
                    file = Some(other);
                    is_open = false;
                }
                continue;
            }
            let Some(file) = file else {
                continue;
            };
            match windows.last_mut().filter(|_| is_open) {
                Some(window) => {
                    window.to = end;
                    window.lines += 1;
                }
                None => windows.push(Window {
                    file: file.to_owned(),
                    from,
                    to: end,
                    lines: 1,
                }),
            }
            is_open = true;
        }
        windows
    }

    /// Whether SWE-agent would leave a message out, because it has numbered lines without a file.
    fn drops(&self, message: &Message) -> bool {
        let has = |is_it: fn(&str) -> bool| {
            let mut texts = message.content.iter().filter_map(ContentPart::as_text);
            texts.any(|text| text.split('\n').any(is_it))
        };
        self.compat
            && self.looks_at(message)
            && has(is_numbered)
            && !has(|line| header(line).is_some())
    }
}

/// All windows of a message, in order.
fn windows(finder: &Finder, message: &Message) -> impl Iterator<Item = (usize, Window)> {
    let is_looked_at = finder.looks_at(message);
    let parts = message.content.iter().enumerate();
    parts
        .filter(move |_| is_looked_at)
        .flat_map(move |(part, content)| {
            let found = content.as_text().map(|text| finder.find(text));
            found
                .unwrap_or_default()
                .into_iter()
                .map(move |w| (part, w))
        })
}

/// A window of the history: the message's index, and the window's index in it.
type Place = (usize, usize);

/// The rule, and the known windows.
pub struct ClosedWindow {
    finder: Finder,
    /// The windows of each file, in order; the last one is open.
    files: HashMap<String, Vec<Place>>,
    /// The message and the file of every window, in order.
    known: Vec<(usize, String)>,
}

impl ClosedWindow {
    /// A rule with an empty history.
    pub fn new(compat: bool) -> Self {
        Self {
            finder: Finder { compat },
            files: HashMap::new(),
            known: Vec::new(),
        }
    }
}

impl Rule for ClosedWindow {
    fn update(&mut self, history: &[Message], start: usize) -> Vec<usize> {
        let mut turned = Vec::new();
        while let Some((_, file)) = self.known.pop_if(|(index, _)| *index >= start) {
            let places = self.files.entry(file).or_default();
            places.pop();
            // The window that the removed one had closed is open again.
            turned.extend(places.last().map(|(index, _)| *index));
        }
        for (index, message) in history.iter().enumerate().skip(start) {
            for (number, (_, window)) in windows(&self.finder, message).enumerate() {
                self.known.push((index, window.file.clone()));
                let places = self.files.entry(window.file).or_default();
                turned.extend(places.last().map(|(index, _)| *index));
                places.push((index, number));
            }
        }
        turned
    }

    fn is_shown(&self, message: &Message) -> bool {
        !self.finder.drops(message)
    }

    fn view(&self, history: &[Message], index: usize) -> Message {
        let mut message = history[index].clone();
        let found = windows(&self.finder, &history[index]).enumerate();
        let closed: Vec<(usize, Window)> = found
            .filter(|(number, (_, window))| {
                let last = self
                    .files
                    .get(&window.file)
                    .and_then(|places| places.last());
                last != Some(&(index, *number))
            })
            .map(|(_, window)| window)
            .collect();
        // From the end, so that earlier positions stay valid.
        for (part, window) in closed.into_iter().rev() {
            if let Some(ContentPart::Text(text)) = message.content.get_mut(part) {
                let note = format!("Outdated window with {} lines omitted...\n", window.lines);
                text.replace_range(window.from..window.to, &note);
            }
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_found() {
        let a = "[File: /a.py (2 lines total)]\n1:x\n2:y\n(end)\n";
        // text, whether `compat` applies, expected windows as file, text, lines
        type Found = &'static [(&'static str, &'static str, usize)];
        let vectors: [(String, Found, Found); 10] = [
            (
                a.to_owned(),
                &[("/a.py", "1:x\n2:y\n", 2)],
                &[("/a.py", "1:x\n2:y\n", 2)],
            ),
            (String::new(), &[], &[]),
            ("1:x\n".to_owned(), &[], &[]),
            ("[File: /a (1 lines total)]\nx: 1\n".to_owned(), &[], &[]),
            // Lines between numbered ones are part of the window; the last one may end the text.
            (
                "[File: a b (9 lines total)]\n1:x\n\nz\n22:".to_owned(),
                &[("a b", "1:x\n\nz\n22:", 2)],
                &[("a b", "1:x\n\nz\n22:", 2)],
            ),
            // A header of another tool, before the window.
            (
                "7:grep\n[File: a (1 lines total)]\n1:x\n".to_owned(),
                &[("a", "7:grep\n[File: a (1 lines total)]\n1:x\n", 2)],
                &[("a", "1:x\n", 1)],
            ),
            (
                "[File: a (1 lines total)]\n1:x\n[File: b (1 lines total)]\n2:y\n".to_owned(),
                &[("a", "1:x\n[File: b (1 lines total)]\n2:y\n", 2)],
                &[("a", "1:x\n", 1), ("b", "2:y\n", 1)],
            ),
            // A header without lines.
            (
                "[File: a (0 lines total)]\n[File: b (1 lines total)]\n2:y\n".to_owned(),
                &[("a", "2:y\n", 1)],
                &[("b", "2:y\n", 1)],
            ),
            ("[File: a (1 lines)]\n1:x".to_owned(), &[], &[]),
            // A numbered line belongs to a file, whatever it contains.
            (
                "[File: a (2 lines total)]\n1:[File: b (1 lines total)]\n2:x".to_owned(),
                &[("a", "1:[File: b (1 lines total)]\n2:x", 2)],
                &[("a", "1:[File: b (1 lines total)]\n2:x", 2)],
            ),
        ];
        for (text, compat, sane) in &vectors {
            for (is_compat, expected) in [(true, compat), (false, sane)] {
                let found = Finder { compat: is_compat }.find(text);
                let found: Vec<_> = found
                    .iter()
                    .map(|w| (w.file.as_str(), &text[w.from..w.to], w.lines))
                    .collect();
                assert_eq!(found, **expected, "{text:?}, compat {is_compat}");
            }
        }
    }

    #[test]
    fn headers() {
        for (line, expected) in [
            ("[File: /a.py (12 lines total)]", Some("/a.py")),
            (
                "$ open a [File:\t a b  (1  lines total)] now\r",
                Some("a b"),
            ),
            (
                "[File: a (1 lines total)] (2 lines total)]",
                Some("a (1 lines total)]"),
            ),
            ("[File: [File: a (1 lines total)]", Some("[File: a")),
            ("[File:x [File: a (1 lines total)]", Some("a")),
            ("[File: a (1 lines total)] (x lines total)]", Some("a")),
            ("[File:a (1 lines total)]", None),
            ("[File: (1 lines total)]", None),
            ("[File: a(1 lines total)]", None),
            ("[File: a ( lines total)]", None),
            ("[File: a (1lines total)]", None),
            ("(1 lines total)] [File: a", None),
            ("", None),
        ] {
            assert_eq!(header(line), expected, "{line}");
        }
        for (line, expected) in [
            ("1:", true),
            ("12:x\n", true),
            (" 1:x", false),
            (":x", false),
            ("1", false),
            ("", false),
        ] {
            assert_eq!(is_numbered(line), expected, "{line}");
        }
    }
}
