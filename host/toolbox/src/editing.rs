//! The windowed edits, in three forms: a range of lines, search and replace, the whole window. An
//! edit that adds problems which a linter finds is refused; the refusal shows the window with the
//! edit and without it.

use std::fs::{File, Metadata};
use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use memchr::memmem;

use crate::answer::{TextParts, ToolRefusal, ToolResult, ToolText};
use crate::call::ToolInput;
use crate::lines::{LineText, as_in};
use crate::linting;
use crate::problems::EditSpan;
use crate::registry::Values;
use crate::storage::{self, NewContent};
use crate::window::FileWindow;

/// Asks the host to query the model again. The failed edit is in that query only, and not in the
/// history.
const RETRY: &str = "###SWE-AGENT-RETRY-WITH-OUTPUT###";

/// The line that ends a text on stdin.
const END: &[u8] = b"end_of_edit";

const CHECK: &str = "Check the result: that the indentation is right, that no line is there twice, and that what worked before \
still works. Edit the file again if it is not right.";

/// An edit that is ready to be made.
struct PlannedEdit {
    window: FileWindow,
    before: Vec<u8>,
    after: Vec<u8>,
    /// The replaced lines; none for an edit in several places.
    span: Option<EditSpan>,
    /// The line to which the window moves afterwards, counted from 0.
    line: Option<usize>,
    /// The exit code of a refusal.
    code: u8,
    /// The token that follows a refusal.
    token: Option<&'static str>,
}

impl PlannedEdit {
    /// Makes the edit and moves the window to it, unless the linter finds new problems.
    fn make(mut self) -> Result<FileWindow, ToolRefusal> {
        let path = self.window.path.clone();
        let trouble = |trouble: storage::FileTrouble| trouble.about(&path).coded(self.code);
        let candidate = NewContent::write(&path, &self.after).map_err(trouble)?;
        let values = Values::read()?;
        let problems = linting::new_problems(&values, &path, candidate.path(), self.span);
        if problems.is_empty() {
            candidate.keep().map_err(trouble)?;
            // The window needs the number of lines of the new content.
            self.window.show_content(&self.after)?;
            if let Some(line) = self.line {
                self.window.go_to(line as i64);
            }
            self.window.save()?;
            return Ok(self.window);
        }
        drop(candidate);
        let (first, end) = (self.window.first(), self.window.end());
        if let Some(line) = self.line.filter(|line| *line < first || *line >= end) {
            self.window.go_to(line as i64);
        }
        let after = self.window.show_content(&self.after)?;
        let before = self.window.show_content(&self.before)?;
        let problems = problems.iter().map(|problem| format!("- {}", problem.text));
        let rule = "-".repeat(48);
        let mut text = TextParts::default();
        text.line("The edit was NOT made, because it would bring in these errors:");
        text.line("").line("ERRORS:");
        text.line(problems.collect::<Vec<_>>().join("\n")).line("");
        text.line("The file as it would be with the edit:")
            .line(&rule);
        text.line(after).line(&rule).line("");
        text.line("The file as it is, without the edit:")
            .line(&rule);
        text.line(before).line(&rule).line("");
        text.line(
            "The file is unchanged. Correct the edit and run it again; the same edit would fail in the same way.",
        );
        let refusal = ToolRefusal::new(self.code, text.finish());
        Err(match self.token {
            Some(token) => refusal.and(token),
            None => refusal,
        })
    }
}

/// The open file and its content.
fn opened() -> Result<(FileWindow, Vec<u8>), ToolRefusal> {
    let window = FileWindow::of(None)?;
    let content = storage::text(&window.path).map_err(|trouble| trouble.about(&window.path))?;
    Ok((window, content))
}

fn with_window(message: &str, window: &FileWindow) -> Result<ToolText, ToolRefusal> {
    let mut text = TextParts::default();
    if !message.is_empty() {
        text.line(message);
    }
    text.line(window.show()?);
    Ok(text.finish())
}

/// The lines of a text by the model. A line end at the end of the text closes the last line; an
/// empty text has no lines.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() {
        return Vec::new();
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|byte| *byte == b'\n').collect()
}

/// `edit START:END` with the text as an argument, or on stdin up to a line `end_of_edit`.
pub fn edit_range(input: &ToolInput) -> ToolResult {
    const USAGE: &str = "Usage: edit <start_line>:<end_line>\n<replacement_text>\nend_of_edit";
    let usage = |problem: &str| Err(ToolRefusal::one(format!("{USAGE}\nError: {problem}")));
    let (range, text) = match input.words() {
        [range] => (range, None),
        [range, text] => (range, Some(text.as_bytes().to_owned())),
        [] => return usage("There is no line range"),
        _ => return usage("There are more than two arguments"),
    };
    let range = range.to_string_lossy();
    let numbers = range.split_once(':').and_then(|(start, end)| {
        Some((
            storage::number(start.as_bytes())?,
            storage::number(end.as_bytes())?,
        ))
    });
    let Some((start, end)) = numbers else {
        return usage("The line range must be two numbers with a colon between them");
    };
    if start < 1 {
        return usage("Line numbers begin at 1");
    }
    // The line before the first one: nothing is replaced, the text is inserted.
    if end < start - 1 {
        return usage("<end_line> must not be smaller than <start_line>");
    }
    let text = match text {
        Some(text) => text,
        None if has_no_input() => return usage("There is no replacement text"),
        None => standard_input()?,
    };
    let (window, before) = opened()?;
    let parts = LineText::of(&before);
    let start = (start as usize - 1).min(parts.lines.len());
    let end = (end as usize).clamp(start, parts.lines.len());
    // An empty text of a call becomes an empty line on stdin.
    let new = if text == b"\n" {
        Vec::new()
    } else {
        lines(&text)
    };
    let after = parts.replaced(start, end, &new);
    let window = PlannedEdit {
        window,
        span: Some(EditSpan {
            start,
            end,
            new: new.len(),
        }),
        after,
        line: Some(start),
        code: 1,
        token: None,
        before: before.clone(),
    }
    .make()?;
    with_window(&format!("The file was changed. {CHECK}"), &window)
}

/// Whether nobody has written a text for stdin: an empty here-document is a text, a terminal and `/dev/null` are none.
fn has_no_input() -> bool {
    let input = io::stdin();
    let number = |meta: Metadata| meta.file_type().is_char_device().then(|| meta.rdev());
    let of = |file: io::Result<File>| file.and_then(|it| it.metadata()).ok().and_then(number);
    let given = of(input.as_fd().try_clone_to_owned().map(File::from));
    input.is_terminal() || given.is_some() && given == of(File::open("/dev/null"))
}

/// The text on stdin up to the line that ends it, or to the end of stdin.
fn standard_input() -> Result<Vec<u8>, ToolRefusal> {
    let mut text = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        let begin = text.len();
        let read = input.read_until(b'\n', &mut text);
        read.map_err(|error| ToolRefusal::one(format!("Error: The text can't be read: {error}")))?;
        let line = &text[begin..];
        if line.is_empty() || line.strip_suffix(b"\n").unwrap_or(line) == END {
            text.truncate(begin);
            return Ok(text);
        }
    }
}

/// `edit SEARCH REPLACE [ALL]`.
pub fn edit_replace(input: &ToolInput) -> ToolResult {
    const USAGE: &str = "Usage: edit <search> <replace> [<replace-all>]";
    let refused = |code, problem: String| Err(ToolRefusal::new(code, problem).and(RETRY));
    let (search, new, all) = match input.bytes()[..] {
        [search, new] => (search, new, false),
        [search, new, all] => match &*all.to_ascii_lowercase() {
            b"true" | b"1" | b"yes" => (search, new, true),
            b"false" | b"0" | b"no" | b"" => (search, new, false),
            _ => {
                return refused(
                    2,
                    format!("{USAGE}\nError: <replace-all> must be True or False"),
                );
            }
        },
        _ => {
            return refused(
                2,
                format!(
                    "{USAGE}\nError: There must be two or three arguments. Put quotes around each text."
                ),
            );
        }
    };
    if search == new {
        return refused(
            2,
            "The file is unchanged: the search text and its replacement are the same.".to_owned(),
        );
    }
    let (window, before) = opened().map_err(|refusal| refusal.and(RETRY))?;
    let shown_search = storage::short(search, 2000);
    let lines_of = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    let [find, put] = [search, new].map(|text| as_in(&before, text));
    let places: Vec<usize> = match find.is_empty() {
        // An empty file contains only the empty text.
        true if before.is_empty() => vec![0],
        true => {
            return refused(
                4,
                "The file is unchanged: the search text is empty.".to_owned(),
            );
        }
        false => memmem::find_iter(&before, &find).collect(),
    };
    let (from, to) = shown_bytes(&before, &window);
    let inside: Vec<usize> = places
        .iter()
        .copied()
        .filter(|at| *at >= from && at + find.len() <= to)
        .collect();
    let line_of = |place: usize| lines_of(&before[..place]);
    let chosen = if all { &places } else { &inside };
    if chosen.is_empty() {
        let mut text = TextParts::default();
        if places.is_empty() {
            text.line(format!(
                "The file is unchanged: the text `{shown_search}` is not in it."
            ));
            text.line("Check the spaces and the indentation of the search text; `open` shows the file again.");
        } else {
            text.line(format!("The file is unchanged: the text `{shown_search}` is not in the lines that are shown. It is elsewhere in the file:"));
            text.line("");
            for place in &places {
                text.line(format!("- line {}", line_of(*place) + 1));
            }
            text.line("")
                .line("Go to one of these lines with `goto` and run the edit again.");
        }
        return Err(ToolRefusal::new(3, text.finish()).and(RETRY));
    }
    if !all && chosen.len() > 1 {
        return refused(
            4,
            format!(
                "The file is unchanged: the text `{shown_search}` is more than once in the lines that are shown. Make it longer, for example by the lines around it."
            ),
        );
    }
    let mut after = Vec::with_capacity(before.len() + chosen.len() * put.len());
    let mut copied = 0;
    for place in chosen {
        after.extend_from_slice(&before[copied..*place]);
        after.extend_from_slice(&put);
        copied = place + find.len();
    }
    after.extend_from_slice(&before[copied..]);
    let line = line_of(chosen[0]);
    let count = chosen.len();
    let span = EditSpan {
        start: line,
        end: line + lines_of(&find) + 1,
        new: lines_of(&put) + 1,
    };
    let edit = PlannedEdit {
        window,
        span: (!all).then_some(span),
        after,
        // As in SWE-agent: one line further if all places are replaced.
        line: Some(line + usize::from(all)),
        code: 4,
        token: Some(RETRY),
        before: before.clone(),
    };
    let window = edit.make()?;
    let message = match (all, count) {
        (false, _) => "The text was replaced.".to_owned(),
        (true, 1) => "The text was replaced in 1 place.".to_owned(),
        (true, count) => format!("The text was replaced in {count} places."),
    };
    with_window(&format!("{message} {CHECK}"), &window)
}

/// The offsets in the file at which the shown lines begin and end.
fn shown_bytes(content: &[u8], window: &FileWindow) -> (usize, usize) {
    let start_of = |line: usize| match line {
        0 => 0,
        line => memchr::memchr_iter(b'\n', content)
            .nth(line - 1)
            .map_or(content.len(), |place| place + 1),
    };
    (start_of(window.first()), start_of(window.end()))
}

/// `insert TEXT [LINE]`.
pub fn insert(input: &ToolInput) -> ToolResult {
    const USAGE: &str = "Usage: insert <text> [<line>]";
    let refused = |problem: String| {
        let refusal = ToolRefusal::new(2, format!("{USAGE}\nError: {problem}"));
        Err(refusal.and(RETRY))
    };
    let (text, line) = match input.bytes()[..] {
        [text] => (text, None),
        [text, line] => match storage::number(line) {
            Some(line) => (text, Some(line)),
            None => return refused("<line> must be a number".to_owned()),
        },
        _ => {
            return refused(
                "There must be one or two arguments. Put quotes around the text.".to_owned(),
            );
        }
    };
    let (window, before) = opened().map_err(|refusal| refusal.and(RETRY))?;
    let parts = LineText::of(&before);
    let total = parts.lines.len();
    let line = match line.map(usize::try_from) {
        None => total,
        Some(Ok(line)) if line <= total => line,
        Some(_) => return refused(format!("<line> must be from 0 (the beginning) to {total}")),
    };
    let new = lines(text);
    let after = parts.replaced(line, line, &new);
    let window = PlannedEdit {
        window,
        span: Some(EditSpan {
            start: line,
            end: line,
            new: new.len(),
        }),
        after,
        line: Some(line),
        code: 4,
        token: Some(RETRY),
        before: before.clone(),
    }
    .make()?;
    with_window("", &window)
}

/// `edit TEXT`: replaces the lines that are shown.
pub fn edit_rewrite(input: &ToolInput) -> ToolResult {
    let [text] = input.bytes()[..] else {
        return Err(ToolRefusal::new(
            2,
            "Usage: edit <text>\nError: There must be one argument. Put quotes around the text.",
        ));
    };
    let (window, before) = opened()?;
    let new = lines(text);
    let (start, end) = (window.first(), window.end());
    let after = LineText::of(&before).replaced(start, end, &new);
    PlannedEdit {
        window,
        span: Some(EditSpan {
            start,
            end,
            new: new.len(),
        }),
        after,
        line: None,
        code: 4,
        token: None,
        before: before.clone(),
    }
    .make()?;
    Ok(b"The lines were replaced.".to_vec())
}
