//! Python's definitions of blanks and of words that a shell need not quote, on which SWE-agent's
//! rules depend.

/// Whether Python's `str.isspace`, `str.strip` and `\s` treat a character as blank.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// A text as one word of a shell: unchanged if it has no special character, else in single quotes.
pub fn quote(text: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match text.bytes().all(is_safe) && !text.is_empty() {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r#"'"'"'"#)),
    }
}

/// Whether SWE-agent accepts a text as an argument's name. With `whole` the whole text is checked,
/// which is what SWE-agent intends; it checks only the beginning.
pub fn is_name(text: &str, whole: bool) -> bool {
    let mut bytes = text.bytes();
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    bytes.next().is_some_and(starts) && (!whole || bytes.all(goes_on))
}

/// Searches for one text repeatedly, from positions that only grow: the last result is kept, so
/// that all searches together read the text once.
pub struct Finder<'t> {
    text: &'t str,
    needle: &'static str,
    found: Option<Option<usize>>,
}

impl<'t> Finder<'t> {
    /// A finder that has not searched yet.
    pub fn new(text: &'t str, needle: &'static str) -> Self {
        Self {
            text,
            needle,
            found: None,
        }
    }

    /// The first place at or after `from`, which must be a character boundary.
    pub fn next(&mut self, from: usize) -> Option<usize> {
        match self.found {
            Some(None) => None,
            Some(Some(at)) if at >= from => Some(at),
            _ => {
                let rest = self.text.get(from..).unwrap_or_default();
                let found = rest.find(self.needle).map(|at| at + from);
                self.found = Some(found);
                found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell() {
        for (text, word) in [
            ("", "''"),
            ("a", "a"),
            ("aZ09_@%+=:,./-", "aZ09_@%+=:,./-"),
            ("a b", "'a b'"),
            ("*.py", "'*.py'"),
            ("it's", r#"'it'"'"'s'"#),
            ("'", r#"''"'"''"#),
            ("é", "'é'"),
            ("a\nb", "'a\nb'"),
            ("~", "'~'"),
            ("$x", "'$x'"),
        ] {
            assert_eq!(quote(text), word, "{text:?}");
        }
    }

    #[test]
    fn names() {
        for (text, whole, begins) in [
            ("a", true, true),
            ("with-dash", true, true),
            ("with123numbers", true, true),
            ("_x", true, true),
            ("123x", false, false),
            ("-x", false, false),
            ("", false, false),
            ("a b", false, true),
        ] {
            assert_eq!(
                (is_name(text, true), is_name(text, false)),
                (whole, begins),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_finder_finds_what_a_search_finds() {
        let text = "ab aab é ab";
        let mut finder = Finder::new(text, "ab");
        for from in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let plain = text[from..].find("ab").map(|at| at + from);
            assert_eq!(finder.next(from), plain, "{from}");
        }
    }
}
