//! `str_replace_editor`: its arguments and its five commands. Each refusal has an exit code of its own.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::answer::{Readable, ToolRefusal, ToolResult};
use crate::call::{ToolInput, os};
use crate::editor_view::{self, Excerpt};
use crate::lines::{LineText, as_in, has_returns};
use crate::linting;
use crate::problems::EditSpan;
use crate::registry::Values;
use crate::storage::{self, FileTrouble, NewContent};
use crate::undo::EditHistory;

/// The number of lines that are shown on each side of an edit.
const AROUND: usize = 4;

const USAGE: &str = "usage: str_replace_editor <command> <path> [--file_text TEXT] [--view_range FIRST LAST] [--old_str TEXT] \
[--new_str TEXT] [--insert_line NUMBER]";

/// The arguments of the tool.
#[derive(Default)]
struct EditorCall {
    command: Vec<u8>,
    path: PathBuf,
    file_text: Option<Vec<u8>>,
    view_range: Option<Vec<Vec<u8>>>,
    old_str: Option<Vec<u8>>,
    new_str: Option<Vec<u8>>,
    insert_line: Option<Vec<u8>>,
}

impl EditorCall {
    fn read(words: &[OsString]) -> Result<Self, ToolRefusal> {
        let usage = |problem: String| ToolRefusal::new(2, format!("{USAGE}\nerror: {problem}"));
        let mut call = Self::default();
        let mut places = Vec::new();
        let mut words = words.iter().map(|word| word.as_bytes()).peekable();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix(b"--") else {
                places.push(word);
                continue;
            };
            let (name, mut value) = match memchr::memchr(b'=', option) {
                Some(end) => (&option[..end], Some(option[end + 1..].to_owned())),
                None => (option, None),
            };
            if name == b"view_range" {
                let mut range: Vec<Vec<u8>> = value.into_iter().collect();
                while range.len() < 2
                    && let Some(next) = words.next_if(|next| !next.starts_with(b"--"))
                {
                    range.push(next.to_owned());
                }
                call.view_range = Some(range);
                continue;
            }
            let field = match name {
                b"file_text" => &mut call.file_text,
                b"old_str" => &mut call.old_str,
                b"new_str" => &mut call.new_str,
                b"insert_line" => &mut call.insert_line,
                _ => return Err(usage(format!("there is no option `--{}`", Readable(name)))),
            };
            // A value may begin with a dash, too.
            if value.is_none() {
                value = words.next().map(<[u8]>::to_owned);
            }
            if value.is_none() {
                return Err(usage(format!("`--{}` has no value", Readable(name))));
            }
            *field = value;
        }
        let [command, path] = places[..] else {
            return Err(usage(
                "there must be a command and a path, with quotes around what has spaces".to_owned(),
            ));
        };
        call.command = command.to_owned();
        call.path = PathBuf::from(os(path));
        Ok(call)
    }

    fn needed<'a>(
        &self,
        value: &'a Option<Vec<u8>>,
        name: &str,
        code: u8,
    ) -> Result<&'a [u8], ToolRefusal> {
        value.as_deref().ok_or_else(|| {
            let command = Readable(&self.command);
            ToolRefusal::new(
                code,
                format!("The command `{command}` needs the parameter `{name}`."),
            )
        })
    }
}

/// `str_replace_editor COMMAND PATH ...`.
pub fn str_replace_editor(input: &ToolInput) -> ToolResult {
    let call = EditorCall::read(input.words())?;
    check_path(&call)?;
    match &*call.command {
        b"view" => view(&call),
        b"create" => create(&call),
        b"str_replace" => str_replace(&call),
        b"insert" => insert(&call),
        b"undo_edit" => undo_edit(&call),
        other => Err(ToolRefusal::new(
            5,
            format!(
                "There is no command `{}`. The commands are: view, create, str_replace, insert, undo_edit.",
                Readable(other)
            ),
        )),
    }
}

fn check_path(call: &EditorCall) -> Result<(), ToolRefusal> {
    let path = &call.path;
    let shown = path.display();
    let refused = |code, text: String| Err(ToolRefusal::new(code, text));
    if !path.is_absolute() {
        let whole = env::current_dir().unwrap_or_default().join(path);
        return refused(
            6,
            format!(
                "The path {shown} is not absolute: it must begin with `/`. Perhaps {} is meant.",
                whole.display()
            ),
        );
    }
    if call.command == b"create" {
        if path.symlink_metadata().is_ok() {
            return refused(
                8,
                format!(
                    "There is something at {shown} already. The command `create` does not overwrite it; use `str_replace` or `insert`."
                ),
            );
        }
        return Ok(());
    }
    match path.metadata() {
        Ok(kind) if kind.is_dir() && call.command != b"view" => refused(
            9,
            format!("The path {shown} is a directory: only the command `view` can be used on it."),
        ),
        Ok(_) => Ok(()),
        Err(error) => match FileTrouble::from(error) {
            FileTrouble::Missing => refused(7, format!("There is nothing at the path {shown}.")),
            other => Err(other.about(path).coded(7)),
        },
    }
}

/// Reads the file; a failure has exit code 19.
fn read(path: &Path) -> Result<Vec<u8>, ToolRefusal> {
    storage::text(path).map_err(|trouble| trouble.about(path).coded(19))
}

/// A content with those lines as UTF-8 that are not: they are taken for Latin-1, in which every byte is a
/// character.
fn readable(content: Vec<u8>) -> Vec<u8> {
    if std::str::from_utf8(&content).is_ok() {
        return content;
    }
    let mut text = Vec::with_capacity(content.len() + content.len() / 8);
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        match std::str::from_utf8(line) {
            Ok(_) => text.extend_from_slice(line),
            Err(_) => {
                let line: String = line.iter().copied().map(char::from).collect();
                text.extend_from_slice(line.as_bytes());
            }
        }
    }
    text
}

/// What is searched in a file and what takes its place, in the file's encoding: Latin-1 if the file is not
/// UTF-8, unless it has the searched text in UTF-8. A text that Latin-1 can't hold stays as it is.
fn encoded(before: &[u8], find: Vec<u8>, put: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let is_utf8 = std::str::from_utf8(before).is_ok();
    if is_utf8 || !find.is_ascii() && memmem::find(before, &find).is_some() {
        return (find, put);
    }
    let latin = |text: Vec<u8>| {
        let bytes = std::str::from_utf8(&text).ok().and_then(|text| {
            text.chars()
                .map(|c| u8::try_from(c).ok())
                .collect::<Option<Vec<u8>>>()
        });
        bytes.unwrap_or(text)
    };
    (latin(find), latin(put))
}

fn written(path: &Path, trouble: &FileTrouble) -> ToolRefusal {
    trouble.about(path).coded(20)
}

fn create(call: &EditorCall) -> ToolResult {
    let text = call.needed(&call.file_text, "file_text", 1)?;
    let path = &call.path;
    if let Some(folder) = path.parent()
        && !folder.is_dir()
    {
        return Err(ToolRefusal::new(
            21,
            format!(
                "The directory {} does not exist. Make it first.",
                folder.display()
            ),
        ));
    }
    storage::replace(path, text).map_err(|trouble| written(path, &trouble))?;
    // The edits in the history are those of an earlier file at this path.
    EditHistory::of(path).forget();
    Ok(format!("The file {} was created.", path.display()).into_bytes())
}

fn view(call: &EditorCall) -> ToolResult {
    let path = &call.path;
    if path.is_dir() {
        if call.view_range.is_some() {
            return Err(ToolRefusal::new(
                10,
                "The parameter `view_range` can't be used with a directory.",
            ));
        }
        return editor_view::directory(path);
    }
    let content = readable(read(path)?);
    let values = Values::read()?;
    let range = match &call.view_range {
        None => None,
        Some(words) => Some(range_of(words, editor_view::lines(&content).len())?),
    };
    editor_view::file(path, &content, range, &values)
}

/// The first and the last line, counted from 1.
fn range_of(words: &[Vec<u8>], total: usize) -> Result<(usize, usize), ToolRefusal> {
    let refused = |code, problem: String| {
        Err(ToolRefusal::new(
            code,
            format!("The parameter `view_range` is not valid: {problem}."),
        ))
    };
    let numbers: Option<Vec<i64>> = words.iter().map(|word| storage::number(word)).collect();
    let Some([first, last]) = numbers.as_deref() else {
        return refused(11, "it must be two whole numbers".to_owned());
    };
    let (first, last, total) = (*first, *last, total as i64);
    if first < 1 || first > total {
        return refused(
            12,
            format!("the file has the lines 1 to {total}, and the first number is {first}"),
        );
    }
    if last > total {
        return refused(
            13,
            format!("the file has the lines 1 to {total}, and the second number is {last}"),
        );
    }
    if last != -1 && last < first {
        return refused(
            14,
            format!("the second number, {last}, is smaller than the first one, {first}"),
        );
    }
    let last = if last == -1 { total } else { last };
    Ok((first as usize, last as usize))
}

fn str_replace(call: &EditorCall) -> ToolResult {
    let old = call.needed(&call.old_str, "old_str", 2)?;
    let path = &call.path;
    let shown = path.display();
    let before = read(path)?;
    let new = call.new_str.as_deref().unwrap_or_default();
    let (find, put) = encoded(&before, as_in(&before, old), as_in(&before, new));
    let places: Vec<usize> = match find.is_empty() {
        true if before.is_empty() => vec![0],
        true => Vec::new(),
        false => memmem::find_iter(&before, &find).collect(),
    };
    let unchanged = |code, text: String| {
        Err(ToolRefusal::new(
            code,
            format!("The file {shown} is unchanged: {text}"),
        ))
    };
    let line_of = |place: usize| memchr::memchr_iter(b'\n', &before[..place]).count();
    let short = storage::short(old, 2000);
    let place = match places[..] {
        [place] => place,
        [] if find.is_empty() => return unchanged(15, "`old_str` is empty.".to_owned()),
        [] => {
            return unchanged(
                15,
                format!("`old_str` is not in it as it is written here, with all spaces: `{short}`"),
            );
        }
        _ => {
            let mut lines: Vec<usize> = places.iter().map(|place| line_of(*place) + 1).collect();
            lines.dedup();
            return unchanged(
                16,
                format!(
                    "`old_str` is in it several times, beginning in the lines {lines:?}. Make it longer so that it is there once: `{short}`"
                ),
            );
        }
    };
    if find == put {
        return unchanged(
            161,
            format!("`old_str` and `new_str` are the same: `{short}`"),
        );
    }
    let after = [&before[..place], &put, &before[place + find.len()..]].concat();
    let start = line_of(place);
    let ends = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    let span = EditSpan {
        start,
        end: start + ends(&find) + 1,
        new: ends(&put) + 1,
    };
    let values = Values::read()?;
    let note = change(path, &before, &after, span, &values)?;
    let shown_lines = Excerpt {
        first: start.saturating_sub(AROUND).max(1),
        last: start + AROUND + ends(&put),
        grow: true,
    };
    edited(path, &after, &shown_lines, &values, &note)
}

fn insert(call: &EditorCall) -> ToolResult {
    let line = call.needed(&call.insert_line, "insert_line", 3)?;
    let new = call.needed(&call.new_str, "new_str", 4)?;
    let path = &call.path;
    let before = read(path)?;
    let total = editor_view::lines(&before).len();
    let line = storage::number(line)
        .and_then(|line| usize::try_from(line).ok())
        .filter(|line| *line <= total);
    let Some(line) = line else {
        return Err(ToolRefusal::new(
            17,
            format!(
                "The parameter `insert_line` is not valid: {} must be from 0 to {total}, which is the number of lines of {}.",
                Readable(call.insert_line.as_deref().unwrap_or_default()),
                path.display()
            ),
        ));
    };
    let (_, new) = encoded(&before, Vec::new(), new.to_owned());
    let new: Vec<&[u8]> = new.split(|byte| *byte == b'\n').collect();
    let after = inserted(&before, line, &new);
    let span = EditSpan {
        start: line,
        end: line,
        new: new.len(),
    };
    let values = Values::read()?;
    let note = change(path, &before, &after, span, &values)?;
    let shown_lines = Excerpt {
        first: (line + 1).saturating_sub(AROUND).max(1),
        last: line + new.len() + AROUND,
        grow: false,
    };
    edited(path, &after, &shown_lines, &values, &note)
}

/// The text with new lines inserted after its line `line`. The empty text after the last line end
/// counts as a line, as in the views.
fn inserted(before: &[u8], line: usize, new: &[&[u8]]) -> Vec<u8> {
    let parts = LineText::of(before);
    let real = parts.lines.len();
    if line < real || line == real && parts.ended {
        return parts.replaced(line, line, new);
    }
    // After text without a line end, or after the empty text at the end: no line end is added.
    let separator: &[u8] = if has_returns(before) { b"\r\n" } else { b"\n" };
    let mut after = before.to_owned();
    for line in new {
        after.extend_from_slice(separator);
        after.extend_from_slice(line);
    }
    after
}

/// Writes the new content and keeps the old content for `undo_edit`; returns the problems that a
/// linter finds.
fn change(
    path: &Path,
    before: &[u8],
    after: &[u8],
    span: EditSpan,
    values: &Values,
) -> Result<String, ToolRefusal> {
    let trouble = |trouble: FileTrouble| written(path, &trouble);
    let candidate = NewContent::write(path, after).map_err(trouble)?;
    let problems = match values.switch("USE_LINTER") {
        true => linting::new_problems(values, path, candidate.path(), Some(span)),
        false => Vec::new(),
    };
    // The old content is kept first: an edit that can't be undone is not made.
    let history = EditHistory::of(path);
    history.push(before)?;
    if let Err(error) = candidate.keep() {
        history.pop()?;
        return Err(trouble(error));
    }
    if problems.is_empty() {
        return Ok(String::new());
    }
    let list: Vec<String> = problems
        .iter()
        .map(|problem| format!("- line {}: {}", problem.line, problem.text))
        .collect();
    Ok(format!(
        "\n\n<NOTE>The edit was made, but a linter finds errors that were not there before.</NOTE>\n\n<ERRORS>\n{}\n</ERRORS>\n\nCheck the edit: its indentation, and lines that are there twice. A linter can be wrong; edit the file again if it is right.",
        list.join("\n")
    ))
}

fn edited(path: &Path, after: &[u8], lines: &Excerpt, values: &Values, note: &str) -> ToolResult {
    let mut text = format!("The file {} was edited. ", path.display()).into_bytes();
    let after = readable(after.to_owned());
    text.extend(editor_view::excerpt(path, &after, lines, values)?);
    text.extend_from_slice(
        b"Check that the edit is as it should be, and edit the file again if it is not.",
    );
    text.extend_from_slice(note.as_bytes());
    Ok(text)
}

fn undo_edit(call: &EditorCall) -> ToolResult {
    let path = &call.path;
    let history = EditHistory::of(path);
    let Some(content) = history.last()? else {
        return Err(ToolRefusal::new(
            18,
            format!(
                "There is no edit of {} that could be undone.",
                path.display()
            ),
        ));
    };
    storage::replace(path, &content).map_err(|trouble| written(path, &trouble))?;
    history.pop()?;
    let mut text = format!("The last edit of {} was undone. ", path.display()).into_bytes();
    text.extend(editor_view::numbered(
        &path.display().to_string(),
        &readable(content),
        1,
    ));
    Ok(text)
}
