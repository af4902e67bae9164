//! Reads the file `.env` in mini-swe-agent's config folder, in which its users keep their keys and
//! their default model. As with mini-swe-agent, a variable of the process has precedence. Commands
//! do not get these variables.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::output;
use mswea_files as regular_file;
use mswea_secrecy as secrecy;

/// Reads the file, if there is one.
pub fn load() {
    // A file that can't be read is ignored, because most users do not know that it is read.
    if let Some(path) = path() {
        let _ = read(&path);
    }
}

/// Reads a file in this format. A variable of the process has precedence.
///
/// # Errors
/// The system's error if it can't be read.
pub(super) fn read(path: &Path) -> std::io::Result<()> {
    read_those(path, |_| true, secrecy::var).map(drop)
}

/// The names of the variables in a file that the process did not have.
#[derive(Default)]
pub(super) struct ReadVariables {
    pub(super) taken: Vec<String>,
    pub(super) left_out: Vec<String>,
}

/// Reads the keys, tokens and passwords in a file of this format. The file may be a stranger's: its
/// `${NAME}` means variables of the file alone, so that it can't send a key of this process elsewhere.
///
/// # Errors
/// The system's error if it can't be read.
pub(super) fn read_secrets(path: &Path) -> std::io::Result<ReadVariables> {
    read_those(path, secrecy::looks_secret, |_| None)
}

/// Reads the variables whose names are accepted by `is_wanted`.
fn read_those(
    path: &Path,
    is_wanted: impl Fn(&str) -> bool,
    outside: impl Fn(&str) -> Option<String>,
) -> std::io::Result<ReadVariables> {
    let text = regular_file::read_text(path, regular_file::SETTINGS)?;
    let mut read = ReadVariables::default();
    let mut here = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        match parse(line) {
            Ok(Some((name, value))) => {
                let known = |name: &str| outside(name).or_else(|| here.get(name).cloned());
                let value = expanded(&value, known);
                here.insert(name.to_owned(), value.clone());
                let is_new = secrecy::var(name).is_none();
                let list = if is_wanted(name) {
                    secrecy::supply(name, &value);
                    &mut read.taken
                } else {
                    &mut read.left_out
                };
                if is_new {
                    list.push(name.to_owned());
                }
            }
            Ok(None) => {}
            Err(problem) => output::warning(&format!(
                "{}:{}: {problem}; the line is left out",
                path.display(),
                index + 1
            )),
        }
    }
    Ok(read)
}

/// The path of the file; none without a home.
pub(super) fn path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let folder = match folder("MSWEA_GLOBAL_CONFIG_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => match folder("XDG_CONFIG_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(folder("HOME")?).join(".config"),
        }
        .join("mini-swe-agent"),
    };
    Some(folder.join(".env"))
}

/// A line of such a file, as python-dotenv writes it and people edit it: `NAME='value'`.
fn parse(line: &str) -> Result<Option<(&str, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let Some((name, value)) = line.split_once('=') else {
        return Err("no `NAME=value`");
    };
    let name = name.trim();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_word) {
        return Err("no name of a variable stands before the `=`");
    }
    let value = value.trim();
    let value = match value.chars().next() {
        Some(quote @ ('\'' | '"')) => unquote(&value[1..], quote)?,
        // A comment needs a blank before it, because keys and addresses may contain a `#`.
        _ => match value.find(" #") {
            Some(end) => value[..end].trim_end().to_owned(),
            None => value.to_owned(),
        },
    };
    if value.contains('\0') {
        return Err("a null byte");
    }
    Ok(Some((name, value)))
}

/// The longest value, so that values of values end somewhere.
const LONGEST: usize = 64 * 1024;

/// A value with its `${NAME}` and `${NAME:-default}` replaced, also in quotes, as python-dotenv does it.
fn expanded(value: &str, known: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let inner = &rest[at + 2..];
        // In Python: `\$\{([^\}:]*)(?::-([^\}]*))?\}`.
        let name = &inner[..inner.find([':', '}']).unwrap_or(inner.len())];
        let after = &inner[name.len()..];
        let (default, length) = match (after.strip_prefix(":-"), after.starts_with('}')) {
            (Some(default), _) => match default.find('}') {
                Some(end) => (&default[..end], end + 3),
                None => break,
            },
            (None, true) => ("", 1),
            (None, false) => {
                out.push_str(&rest[..at + 2]);
                rest = inner;
                continue;
            }
        };
        out.push_str(&rest[..at]);
        out += &known(name).unwrap_or_else(|| default.to_owned());
        rest = &after[length..];
    }
    out += rest;
    out.truncate(out.floor_char_boundary(LONGEST));
    out
}

fn unquote(rest: &str, quote: char) -> Result<String, &'static str> {
    let mut value = String::new();
    let mut chars = rest.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => match chars.next() {
                Some(escaped) if escaped == quote || escaped == '\\' => value.push(escaped),
                Some('n') if quote == '"' => value.push('\n'),
                Some(other) => value.extend(['\\', other]),
                None => return Err("a quote that does not end"),
            },
            end if end == quote => return Ok(value),
            other => value.push(other),
        }
    }
    Err("a quote that does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_dotenv_reads_them() {
        for (line, expected) in [
            ("", Some(None)),
            ("  # A='b'", Some(None)),
            ("A='b'", Some(Some(("A", "b")))),
            ("export A_1 = b c ", Some(Some(("A_1", "b c")))),
            ("A=", Some(Some(("A", "")))),
            ("A=b#c # d", Some(Some(("A", "b#c")))),
            ("A=\"b\\n\\\"c\\\"\" # d", Some(Some(("A", "b\n\"c\"")))),
            ("A='b\\'c\\n'", Some(Some(("A", "b'c\\n")))),
            ("A='http://x/?a=b'", Some(Some(("A", "http://x/?a=b")))),
            ("A='b", None),
            ("just text", None),
            ("=b", None),
            ("A B=c", None),
        ] {
            let found = parse(line).ok();
            let found = found
                .as_ref()
                .map(|pair| pair.as_ref().map(|(name, value)| (*name, value.as_str())));
            assert_eq!(found, expected, "{line}");
        }
    }

    /// The results are those of python-dotenv 1.2.2.
    #[test]
    fn variables_in_values_are_replaced() {
        let known = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "E" => Some(String::new()),
            "N" => Some("${A}".to_owned()),
            _ => None,
        };
        for (value, expected) in [
            ("${A}", "a"),
            ("x${A}y${A}", "xaya"),
            ("${B}", ""),
            ("${B:-c}", "c"),
            ("${B:-}", ""),
            ("${A:-c}", "a"),
            ("${E:-c}", ""),
            ("${N}", "${A}"),
            ("${B:-${A}}", "${A}"),
            ("$A", "$A"),
            ("${A", "${A"),
            ("${A:c}", "${A:c}"),
            ("${A:c}${A}", "${A:c}a"),
            ("$${A}", "$a"),
            ("${B:-http://h/x}", "http://h/x"),
            ("${}", ""),
            ("${B:-c", "${B:-c"),
        ] {
            assert_eq!(expanded(value, known), expected, "{value}");
        }
    }
}
