//! Decides which commands run without a question: those that match `agent.whitelist_actions`, and
//! those whose parts all begin with a prefix that the user has approved, for this run or in the
//! file of approvals. A command that this file denies always leads to a question.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mswea_expression::Expression;

use crate::cli::dotenv;

/// The header of a new file of approvals.
const HEAD: &str = "\
# Beginnings of commands that run without a question where each step waits (confirm mode).
# Every part of a command that is joined with `&&`, `;` or `|` has to begin with one of them.
# `!` in front: commands with these words are asked about, whatever else allows them.
";

/// The commands that need no question.
#[derive(Debug, Default)]
pub(super) struct Approval {
    whitelist: Vec<Expression>,
    prefixes: Vec<Vec<String>>,
    denied: Vec<Vec<String>>,
    /// The prefixes that were approved for this run.
    of_run: Vec<String>,
}

/// The path of the file of approvals, which applies to all runs; none without a home.
pub(super) fn file() -> Option<PathBuf> {
    Some(dotenv::path()?.with_file_name("approvals"))
}

/// Adds a prefix to the file of approvals. Its other lines stay as they are.
///
/// # Errors
/// The system's error if the file can't be read or written; it is then unchanged.
pub(super) fn keep(file: &Path, prefix: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // A link is resolved, so that its target is changed.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => HEAD.to_owned(),
        Err(error) => return Err(error),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(prefix.trim());
    text.push('\n');
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(folder))?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

impl Approval {
    /// Approves commands that match one of these expressions at their beginning, as in Python's
    /// `re.match`.
    ///
    /// # Errors
    /// The invalid expression, and the mistake in it.
    pub fn of(whitelist: &[String]) -> Result<Self, (String, String)> {
        let compile = |pattern: &String| {
            Expression::new(pattern).map_err(|error| (pattern.clone(), error.to_string()))
        };
        Ok(Self {
            whitelist: whitelist.iter().map(compile).collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// Reads the file of approvals. A missing file approves nothing.
    ///
    /// # Errors
    /// A message with the mistake in the file, or the reason why it can't be read.
    pub fn read(&mut self, file: &Path) -> Result<(), String> {
        let shown = file.display();
        let text = match mswea_files::read_text(file, mswea_files::SETTINGS) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("can't read the approvals in `{shown}`: {error}")),
        };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (words, list) = match line.strip_prefix('!') {
                Some(denied) => (words(denied), &mut self.denied),
                None => (words(line), &mut self.prefixes),
            };
            let words = words.ok_or_else(|| {
                format!(
                    "`{shown}` has `{line}` in line {}, which is not the beginning of one plain command: write one, such as `git status`, or `!git push`",
                    index + 1
                )
            })?;
            list.push(words);
        }
        Ok(())
    }

    /// Approves commands that begin with these words. Returns whether they are a valid prefix.
    pub fn approve(&mut self, prefix: &str) -> bool {
        let words = words(prefix);
        let is_prefix = words.is_some();
        self.prefixes.extend(words);
        if is_prefix {
            self.of_run.push(prefix.to_owned());
        }
        is_prefix
    }

    /// The prefixes that were approved since the start.
    pub fn of_run(&self) -> &[String] {
        &self.of_run
    }

    /// Whether the command contains words that the file of approvals denies, in their order, but at
    /// any place: with options between them, partly quoted, or as the path of a program. Denying
    /// too much costs only a question.
    fn denies(&self, command: &str) -> bool {
        let is_end = |c: char| c.is_whitespace() || "'\"`;&|()<>{}$".contains(c);
        let plain = command.replace("\\\n", "").replace(['\\', '\'', '"'], "");
        let parts = parts(command).unwrap_or_default();
        self.denied.iter().any(|denied| {
            is_in_order(denied, command.split(is_end))
                || is_in_order(denied, plain.split(is_end))
                || is_in_order(denied, parts.iter().flatten().map(String::as_str))
        })
    }

    /// Whether a command runs without a question.
    pub fn covers(&self, command: &str) -> bool {
        if self.denies(command) {
            return false;
        }
        // An expression whose search is aborted counts as no match.
        let matches = |one: &Expression| one.begins(command) == Ok(true);
        if self.whitelist.iter().any(matches) {
            return true;
        }
        let known = |words: &Vec<String>| {
            let mut prefixes = self.prefixes.iter();
            prefixes.any(|prefix| words.starts_with(prefix))
        };
        parts(command).is_some_and(|parts| parts.iter().all(known))
    }

    /// The prefix that is proposed for these commands: the first two words of the first part that
    /// is not covered.
    pub fn proposal<'a>(&self, commands: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut open = commands.into_iter().filter(|command| !self.covers(command));
        let next = open.next().filter(|command| !self.denies(command))?;
        let parts = parts(next)?;
        let is_open = |words: &&Vec<String>| {
            let mut prefixes = self.prefixes.iter();
            !prefixes.any(|prefix| words.starts_with(prefix))
        };
        let words = parts.iter().find(is_open)?;
        // An option is not a subcommand.
        let takes_two = words.get(1).is_some_and(|word| !word.starts_with('-'));
        let words = &words[..if takes_two { 2 } else { 1 }];
        let plain = |word: &String| {
            word.chars()
                .all(|c| !c.is_whitespace() && !matches!(c, '\'' | '"'))
        };
        words.iter().all(plain).then(|| words.join(" "))
    }
}

/// Whether all these words occur in this order. The last part of a path also counts as a word.
fn is_in_order<'a>(words: &[String], mut found: impl Iterator<Item = &'a str>) -> bool {
    words.iter().all(|word| {
        found.any(|it| it == word || it.rsplit_once('/').is_some_and(|(_, name)| name == word))
    })
}

/// The words of one simple command; none if the text is anything else.
fn words(prefix: &str) -> Option<Vec<String>> {
    match parts(prefix)?.as_slice() {
        [words] if !words.is_empty() => Some(words.clone()),
        _ => None,
    }
}

/// The words of each part of a simple command line; `&&`, `;` and `|` separate parts. `None` if the
/// text contains anything whose effect these words do not show: a substitution, a redirection, a
/// group, a background job, a second line.
fn parts(command: &str) -> Option<Vec<Vec<String>>> {
    let mut parts = vec![Vec::new()];
    let mut word: Option<String> = None;
    // For a shell, other blank characters are parts of a word.
    let command = command.trim_matches([' ', '\t', '\n']);
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        c => word.push(c),
                    }
                }
            }
            ' ' | '\t' => parts.last_mut()?.extend(word.take()),
            ';' | '|' | '&' => {
                if c == '&' && chars.next()? != '&' {
                    return None;
                }
                if c != '&' && matches!(chars.peek(), Some('|' | '&' | ';')) {
                    return None;
                }
                parts.last_mut()?.extend(word.take());
                if parts.last()?.is_empty() {
                    return None;
                }
                parts.push(Vec::new());
            }
            '$' | '`' | '\\' | '<' | '>' | '(' | ')' | '{' | '}' | '#' | '!' | '\n' | '\r' => {
                return None;
            }
            // An assignment before a command changes the command's effect.
            '=' if parts.last()?.is_empty() => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    parts.last_mut()?.extend(word.take());
    if parts.len() > 1 && parts.last()?.is_empty() {
        parts.pop();
    }
    (!parts.iter().any(Vec::is_empty)).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitelists_match_at_the_beginning() {
        for (pattern, command, expected) in [
            ("echo.*", "echo one\necho two", true),
            ("echo", "  echo", false),
            ("ls|cat", "cat x", true),
            ("ls|cat", "rm; cat x", false),
            ("^git (status|diff)$", "git status", true),
            ("^git (status|diff)$", "git push", false),
            ("(?!rm)", "rm x", false),
        ] {
            let approval = Approval::of(&[pattern.to_owned()]).unwrap();
            assert_eq!(approval.covers(command), expected, "{pattern} {command:?}");
        }
        assert!(Approval::of(&["(".to_owned()]).is_err());
    }

    #[test]
    fn every_part_has_to_begin_with_an_approved_prefix() {
        let mut approval = Approval::default();
        assert!(approval.approve("git status") && approval.approve("ls"));
        for not in ["", "ls; rm", "ls $(rm)", "A=1"] {
            assert!(!approval.approve(not), "{not}");
        }
        for (command, expected) in [
            ("git status", true),
            ("git status -s", true),
            ("git 'status' -s", true),
            ("git stash", false),
            ("git statusx", false),
            ("ls && git status; ls | ls", true),
            ("ls;", true),
            ("ls && rm x", false),
            ("ls; rm x", false),
            ("ls | sh", false),
            ("ls || rm x", false),
            ("ls & rm x", false),
            ("ls |& ls", false),
            ("ls > file", false),
            ("ls $(rm x)", false),
            ("ls `rm x`", false),
            ("ls \"$(rm x)\"", false),
            ("ls \"a b\" 'c; d'", true),
            ("ls 'a", false),
            ("ls <<EOF\nEOF", false),
            ("ls\nrm x", false),
            ("ls \\\nx", false),
            (" ls\n", true),
            ("\u{3000}ls", false),
            ("\u{b}ls", false),
            ("(ls)", false),
            ("{ ls; }", false),
            ("PATH=. ls", false),
            ("ls # x", false),
            ("", false),
        ] {
            assert_eq!(approval.covers(command), expected, "{command:?}");
        }
    }

    #[test]
    fn the_file_of_approvals_is_added_to_and_denies() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub/approvals");
        let read = || {
            let mut approval =
                Approval::of(&["curl .*", "(?s)(/usr/bin/)?git .*"].map(str::to_owned)).unwrap();
            approval.read(&file).map(|()| approval)
        };
        assert!(!read().unwrap().covers("ls"));
        keep(&file, "ls").unwrap();
        assert!(read().unwrap().covers("ls -l"));
        assert!(
            fs::read_to_string(&file)
                .unwrap()
                .starts_with("# Beginnings")
        );
        fs::write(&file, "# mine\ngit\n! git push\n!curl -d").unwrap();
        keep(&file, "cargo test").unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, "# mine\ngit\n! git push\n!curl -d\ncargo test\n");
        for (command, expected) in [
            ("git status && cargo test", true),
            ("git push", false),
            ("git 'push'", false),
            ("git -C . push", false),
            ("git \"pu\"sh", false),
            ("git pu\\sh", false),
            ("git \\\npush", false),
            ("/usr/bin/git push", false),
            ("git $'pu'sh", false),
            ("git status 'pushes'", true),
            ("git status; git push --force", false),
            ("curl x", true),
            ("curl -d @file x", false),
            ("curl $(git push)", false),
        ] {
            assert_eq!(read().unwrap().covers(command), expected, "{command:?}");
        }
        assert_eq!(read().unwrap().proposal(["git push"]), None);
        fs::write(&file, "ls\nls | sh\n").unwrap();
        let error = read().unwrap_err();
        assert!(error.contains("`ls | sh` in line 2"), "{error}");
    }

    #[test]
    fn proposals() {
        let mut approval = Approval::default();
        for (commands, expected) in [
            (vec!["git status -s"], Some("git status")),
            (vec!["ls -la"], Some("ls")),
            (vec!["cd x && make test"], Some("cd x")),
            (vec!["echo $(rm)"], None),
            (vec!["sed 's/a b/'"], None),
        ] {
            let proposal = approval.proposal(commands.iter().copied());
            let expected = expected.map(str::to_owned);
            assert_eq!(proposal, expected, "{commands:?}");
        }
        approval.approve("cd x");
        assert_eq!(
            approval.proposal(["cd x && make test"]),
            Some("make test".to_owned())
        );
        assert_eq!(approval.proposal(["cd x", "ls"]), Some("ls".to_owned()));
    }
}
