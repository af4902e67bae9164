//! Which commands run without a question: those that match `agent.whitelist_actions`, and those whose
//! parts all begin with a prefix that the user has approved.

use fancy_regex::Regex;

/// The commands that need no question.
#[derive(Debug, Default)]
pub(super) struct Approval {
    whitelist: Vec<Regex>,
    prefixes: Vec<Vec<String>>,
}

impl Approval {
    /// Those that match one of these expressions at their beginning, as in Python's `re.match`.
    ///
    /// # Errors
    /// The expression that is none, and why.
    pub fn of(whitelist: &[String]) -> Result<Self, (String, String)> {
        let compile = |pattern: &String| {
            // A group of its own, so that `a|b` is one expression.
            let anchored = format!(r"\A(?:{pattern})");
            let compiled = Regex::new(pattern).and_then(|_| Regex::new(&anchored));
            compiled.map_err(|error| (pattern.clone(), error.to_string()))
        };
        Ok(Self {
            whitelist: whitelist.iter().map(compile).collect::<Result<_, _>>()?,
            prefixes: Vec::new(),
        })
    }

    /// Approves commands that begin with these words. Returns whether it is a prefix.
    pub fn approve(&mut self, prefix: &str) -> bool {
        let parts = parts(prefix);
        let Some([words]) = parts.as_deref() else {
            return false;
        };
        if words.is_empty() {
            return false;
        }
        self.prefixes.push(words.clone());
        true
    }

    /// Whether a command runs without a question.
    pub fn covers(&self, command: &str) -> bool {
        // An expression that gives up has not matched.
        let matches = |regex: &Regex| regex.is_match(command).unwrap_or(false);
        if self.whitelist.iter().any(matches) {
            return true;
        }
        let known = |words: &Vec<String>| {
            let mut prefixes = self.prefixes.iter();
            prefixes.any(|prefix| words.starts_with(prefix))
        };
        parts(command).is_some_and(|parts| parts.iter().all(known))
    }

    /// The prefix that is proposed for these commands: the first two words of the first part that is not
    /// covered.
    pub fn proposal<'a>(&self, commands: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut open = commands.into_iter().filter(|command| !self.covers(command));
        let parts = parts(open.next()?)?;
        let is_open = |words: &&Vec<String>| {
            let mut prefixes = self.prefixes.iter();
            !prefixes.any(|prefix| words.starts_with(prefix))
        };
        let words = parts.iter().find(is_open)?;
        // An option is no subcommand.
        let takes_two = words.get(1).is_some_and(|word| !word.starts_with('-'));
        let words = &words[..if takes_two { 2 } else { 1 }];
        let plain = |word: &String| {
            word.chars()
                .all(|c| !c.is_whitespace() && !matches!(c, '\'' | '"'))
        };
        words.iter().all(plain).then(|| words.join(" "))
    }
}

/// The words of each part of a flat command: parts are separated by `&&`, `;` and `|`. `None` if the
/// command has anything whose effect these words do not show: a substitution, a redirection, a group, a
/// job in the background, a second line.
fn parts(command: &str) -> Option<Vec<Vec<String>>> {
    let mut parts = vec![Vec::new()];
    let mut word: Option<String> = None;
    // To a shell, other characters that look blank are parts of a word.
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
            // An assignment in front of a command changes what it does.
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
