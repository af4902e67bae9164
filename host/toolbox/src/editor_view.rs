//! The views of `str_replace_editor`: numbered lines, the content of a folder, and excerpts that
//! are extended to the ends of a function, class or paragraph.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::answer::{ToolResult, ToolText};
use crate::filemap;
use crate::registry::Values;
use crate::storage::FileTrouble;

/// The largest number of characters of a file that are shown.
const MOST: usize = 16_000;

const CLIPPED: &str = "<response clipped><NOTE>The rest is left out. Find the line numbers of what you look for with `grep -n`, and \
view these lines with `view_range`.</NOTE>";

/// The lines that are shown of an edited file, counted from 1.
pub struct Excerpt {
    pub first: usize,
    pub last: usize,
    /// Whether the excerpt may be extended.
    pub grow: bool,
}

/// The lines of a text as these views count them: after the last line end there is an empty one.
pub fn lines(content: &[u8]) -> Vec<&[u8]> {
    let lines = content.split(|byte| *byte == b'\n');
    lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect()
}

/// At most [`MOST`] characters of a text.
fn clipped(text: String) -> String {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => text[..end].to_owned() + CLIPPED,
        None => text,
    }
}

/// Lines with their numbers, the first of which is `first`.
pub fn numbered(what: &str, content: &[u8], first: usize) -> ToolText {
    use std::fmt::Write as _;
    let lines = lines(content).join(&b'\n');
    let content = clipped(String::from_utf8_lossy(&lines).into_owned());
    let mut text = format!("These are the lines of {what}, numbered as by `cat -n`:\n");
    for (number, line) in (first..).zip(content.split('\n')) {
        let _ = writeln!(text, "{number:6}\t{line}");
    }
    text.into_bytes()
}

/// The lines of a file: those of `range`, or all, or an overview of a long one.
pub fn file(
    path: &Path,
    content: &[u8],
    range: Option<(usize, usize)>,
    values: &Values,
) -> ToolResult {
    let name = path.display().to_string();
    if let Some((first, last)) = range {
        let most = values.number("MAX_WINDOW_EXPANSION_VIEW", 0, 0)?;
        let lines = lines(content);
        let (first, last) = grown(&lines, first, last, most, is_python(path));
        return Ok(numbered(&name, &lines[first - 1..last].join(&b'\n'), first));
    }
    let long = String::from_utf8_lossy(content).chars().count() > MOST;
    if long && is_python(path) && values.switch("USE_FILEMAP") {
        let overview = String::from_utf8_lossy(&filemap::overview(content)).into_owned();
        return Ok(format!(
            "<NOTE>This file is too long to be shown whole: the bodies of long functions are left out. View them with `view_range`.</NOTE>\n{}\n<NOTE>That was the shortened form of the file. View the lines that you need with `view_range`.</NOTE>",
            clipped(overview)
        )
        .into_bytes());
    }
    Ok(numbered(&name, content, 1))
}

/// The lines around an edit.
pub fn excerpt(path: &Path, content: &[u8], shown: &Excerpt, values: &Values) -> ToolResult {
    let lines = lines(content);
    // After a replacement, the empty line after the last line end is not shown.
    let empty = shown.grow && lines.len() > 1 && lines.last() == Some(&&b""[..]);
    let total = lines.len() - usize::from(empty);
    let first = shown.first.min(total);
    let last = shown.last.clamp(first, total);
    let (first, last) = match shown.grow {
        true => {
            let most = values.number("MAX_WINDOW_EXPANSION_EDIT_CONFIRM", 0, 0)?;
            grown(&lines, first, last, most, is_python(path))
        }
        false => (first, last),
    };
    let what = format!("a part of {}", path.display());
    Ok(numbered(&what, &lines[first - 1..last].join(&b'\n'), first))
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// Moves both ends outwards, each by at most `most` lines, to a better place for the end of an
/// excerpt.
fn grown(lines: &[&[u8]], first: usize, last: usize, most: usize, python: bool) -> (usize, usize) {
    if most == 0 {
        return (first, last);
    }
    let up = (first.saturating_sub(most).max(1)..=first).rev();
    let down = last..=last.saturating_add(most).min(lines.len());
    let first = best_end(lines, up, python).unwrap_or(first).min(first);
    // A definition that begins below is not shown.
    let end = best_end(lines, down, python).unwrap_or(last);
    let end = if end > last && end < lines.len() {
        end - 1
    } else {
        end
    };
    (first, end.max(last))
}

/// The best line for the end of an excerpt: before a function or class begins or the file ends,
/// else after two empty lines, else at an empty line. Of several equally good lines, the nearest.
fn best_end(
    lines: &[&[u8]],
    candidates: impl Iterator<Item = usize>,
    python: bool,
) -> Option<usize> {
    let mut candidates = candidates.peekable();
    let mut best = (0, None);
    while let Some(line) = candidates.next() {
        let empty = |line: usize| lines[line - 1].is_empty();
        let worth = if line == 1 || line == lines.len() || python && begins(lines[line - 1]) {
            3
        } else if !empty(line) {
            0
        } else if candidates.peek().is_some_and(|next| empty(*next)) {
            2
        } else {
            1
        };
        if worth > best.0 {
            best = (worth, Some(line));
        }
    }
    best.1
}

/// Whether a definition of Python begins in this line: `def`, `class`, or a decorator.
fn begins(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let word = |word: &[u8]| {
        line.strip_prefix(word)
            .is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
    };
    line.starts_with(b"@") || word(b"def") || word(b"class")
}

/// The files and folders in a folder and in its subfolders, without hidden ones.
pub fn directory(path: &Path) -> ToolResult {
    let mut found = vec![path.to_owned()];
    let trouble = |error| FileTrouble::from(error).about(path).coded(7);
    for entry in entries(path).map_err(trouble)? {
        let inner = match entry.symlink_metadata() {
            // A folder that can't be read is named without its content.
            Ok(kind) if kind.is_dir() => entries(&entry).unwrap_or_default(),
            _ => Vec::new(),
        };
        found.push(entry);
        found.extend(inner);
    }
    let list: Vec<String> = found
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Ok(format!(
        "These are the files and directories in {}, two levels deep and without hidden ones:\n{}\n",
        path.display(),
        clipped(list.join("\n"))
    )
    .into_bytes())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, std::io::Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_bytes().starts_with(b".") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{grown, lines};

    #[test]
    fn an_excerpt_grows_to_a_better_end() {
        let text =
            b"import a\n\ndef f():\n    x = 1\n    y = 2\n\n\ndef g():\n    z = 3\n    return z\n";
        let lines = lines(text);
        for (first, last, most, python, result) in [
            (5, 5, 0, true, (5, 5)),
            (5, 5, 5, true, (3, 7)),
            (5, 5, 1, true, (5, 5)),
            (5, 5, 1, false, (5, 5)),
            (5, 5, 2, false, (5, 5)),
            (5, 5, 3, false, (2, 5)),
            (5, 5, 100, false, (1, 11)),
            (9, 9, 1, true, (8, 9)),
        ] {
            assert_eq!(
                grown(&lines, first, last, most, python),
                result,
                "{first} {last} {most} {python}"
            );
        }
    }
}
