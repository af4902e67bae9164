//! The searches: `find_file`, `search_dir`, `search_file`.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::answer::{TextParts, ToolRefusal, ToolResult};
use crate::call::{ToolInput, os_string};
use crate::pattern::{self, LinePattern};
use crate::registry::Values;
use crate::storage::{self, FileTrouble};
use crate::window::NOTHING_OPEN;

/// The largest number of files with matches, or of lines, that is listed.
const MOST: usize = 100;

/// The folder to search, with links resolved: the second argument or the working directory.
fn folder(named: Option<&std::ffi::OsString>) -> Result<PathBuf, ToolRefusal> {
    let path = named.map_or(Path::new("."), Path::new);
    match fs::canonicalize(path) {
        Ok(real) if real.is_dir() => Ok(real),
        _ => Err(ToolRefusal::one(format!(
            "Directory {} not found",
            path.display()
        ))),
    }
}

/// All regular files below a folder, sorted, without following links; and the number of folders
/// that can't be read.
fn files(top: &Path, hidden: bool) -> (Vec<PathBuf>, usize) {
    let (mut found, mut unread) = (Vec::new(), 0);
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            unread += 1;
            continue;
        };
        for entry in entries.flatten() {
            if !hidden && entry.file_name().as_bytes().starts_with(b".") {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    (found, unread)
}

/// Adds a note about the folders that could not be read.
fn note_unread(text: &mut TextParts, count: usize) {
    if count > 0 {
        text.line(format!("({count} files or folders could not be read)"));
    }
}

/// `find_file NAME [FOLDER]`.
pub fn find_file(input: &ToolInput) -> ToolResult {
    let (name, top) = match input.words() {
        [name] => (name, None),
        [name, top] => (name, Some(top)),
        _ => return Err(ToolRefusal::one("Usage: find_file <file_name> [<dir>]")),
    };
    let top = folder(top)?;
    let name = name.to_string_lossy();
    let shown = top.display();
    // A path is compared with the ends of paths.
    let pattern = match name.contains('/') {
        true => format!(
            "*/{}",
            name.trim_start_matches("./").trim_start_matches('/')
        ),
        false => name.clone().into_owned(),
    };
    let pattern = pattern::names(&pattern)
        .ok_or_else(|| ToolRefusal::one(format!("The pattern `{name}` is too long")))?;
    let (files, unread) = files(&top, true);
    let found: Vec<&PathBuf> = files
        .iter()
        .filter(|file| {
            let whole = file.as_os_str().as_bytes();
            let own = file.file_name().unwrap_or_default().as_bytes();
            pattern.fits(if name.contains('/') { whole } else { own })
        })
        .collect();
    let mut text = TextParts::default();
    match found.len() {
        0 => text.line(format!("No file is named \"{name}\" in {shown}")),
        1 => text.line(format!("Found 1 file named \"{name}\" in {shown}:")),
        count => text.line(format!("Found {count} files named \"{name}\" in {shown}:")),
    };
    for file in found {
        text.line(file.as_os_str().as_bytes());
    }
    note_unread(&mut text, unread);
    Ok(text.finish())
}

/// `search_dir TERM [FOLDER]`.
pub fn search_dir(input: &ToolInput) -> ToolResult {
    let (term, top) = match input.words() {
        [term] => (term, None),
        [term, top] => (term, Some(top)),
        _ => return Err(ToolRefusal::one("Usage: search_dir <search_term> [<dir>]")),
    };
    let top = folder(top)?;
    let term = term.to_string_lossy();
    let pattern = LinePattern::of(&term);
    let (files, mut unread) = files(&top, false);
    let mut found = Vec::new();
    for file in files {
        match storage::text(&file) {
            Ok(content) => {
                let count = pattern.lines(&content).len();
                if count > 0 {
                    found.push((file, count));
                }
            }
            // A file that was removed meanwhile is skipped.
            Err(FileTrouble::Binary | FileTrouble::Missing) => {}
            Err(_) => unread += 1,
        }
    }
    let shown = top.display();
    let mut text = TextParts::default();
    note_plain(&mut text, &pattern);
    if found.len() > MOST {
        text.line(format!(
            "\"{term}\" is in {} files in {shown}, too many to list. Search for something more special, or in a smaller folder.",
            found.len()
        ));
    } else if found.is_empty() {
        text.line(format!("No line matches \"{term}\" in {shown}"));
    } else {
        let total: usize = found.iter().map(|(_, count)| count).sum();
        text.line(format!(
            "Found {} for \"{term}\" in {shown}:",
            matches(total)
        ));
        for (file, count) in found {
            let mut line = file.into_os_string().as_bytes().to_owned();
            line.extend_from_slice(format!(" ({})", matches(count)).as_bytes());
            text.line(line);
        }
        text.line(format!("End of the matches for \"{term}\" in {shown}"));
    }
    note_unread(&mut text, unread);
    Ok(text.finish())
}

/// `search_file TERM [FILE]`.
pub fn search_file(input: &ToolInput) -> ToolResult {
    const USAGE: &str = "Usage: search_file <search_term> [<file>]";
    let (term, file) = match input.words() {
        [term] if !term.is_empty() => (term, None),
        [term, file] if !term.is_empty() => (term, Some(file.clone())),
        _ => return Err(ToolRefusal::one(USAGE)),
    };
    let file = match file {
        Some(file) => file,
        None => {
            let open = Values::read()?.text("CURRENT_FILE");
            os_string(
                open.ok_or_else(|| ToolRefusal::one(NOTHING_OPEN))?
                    .into_bytes(),
            )
        }
    };
    let path = Path::new(&file);
    let path =
        fs::canonicalize(path).map_err(|error| FileTrouble::from(error).about(path).and(USAGE))?;
    let content = storage::text(&path).map_err(|trouble| trouble.about(&path))?;
    let term = term.to_string_lossy();
    let pattern = LinePattern::of(&term);
    let found: Vec<(usize, &[u8])> = pattern.lines(&content);
    let shown = path.display();
    let mut text = TextParts::default();
    note_plain(&mut text, &pattern);
    if found.len() > MOST {
        text.line(format!(
            "\"{term}\" is in {} lines of {shown}, too many to list. Search for something more special.",
            found.len()
        ));
    } else if found.is_empty() {
        text.line(format!("No line matches \"{term}\" in {shown}"));
    } else {
        text.line(format!(
            "Found {} for \"{term}\" in {shown}:",
            matches(found.len())
        ));
        for (number, line) in found {
            text.line([format!("Line {number}:").as_bytes(), line].concat());
        }
        text.line(format!("End of the matches for \"{term}\" in {shown}"));
    }
    Ok(text.finish())
}

fn note_plain(text: &mut TextParts, pattern: &LinePattern) {
    if let Some(problem) = &pattern.plain {
        text.line(format!(
            "(The term is taken as plain text, because as a basic regular expression {problem}.)"
        ));
    }
}

/// `1 matches` has the plural, too, for programs that parse it.
fn matches(count: usize) -> String {
    format!("{count} matches")
}
