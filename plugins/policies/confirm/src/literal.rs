//! Finds a text without which an expression can't match. Searching for this text first is fast, so
//! nearly no command has to be matched by the regular expression engine.
//!
//! The analysis is simple: every construct that is not certainly a required character ends the
//! text, and every construct that may change the meaning of characters ends the search.

/// The longest such text, if it is long enough to search for.
pub fn required(regex: &str) -> Option<String> {
    let chars: Vec<char> = regex.chars().collect();
    let mut longest = String::new();
    let mut run = String::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < chars.len() {
        let (literal, length) = match chars[at] {
            // Flags may make case or blanks irrelevant; other groups of that form are rare.
            '(' if chars.get(at + 1) == Some(&'?') && chars.get(at + 2) != Some(&':') => {
                return None;
            }
            '(' => {
                depth += 1;
                (None, 1)
            }
            ')' => {
                depth = depth.checked_sub(1)?;
                (None, 1)
            }
            // Either side may match; inside a group this is handled with the group.
            '|' if depth == 0 => return None,
            '[' => (None, class(&chars[at..])?),
            '\\' => match chars.get(at + 1)? {
                next if next.is_ascii_punctuation() => (Some(*next), 2),
                // `\b`, `\s` and similar; longer escapes are not handled.
                'b' | 'B' | 's' | 'S' | 'w' | 'W' | 'd' | 'D' | 'A' | 'z' => (None, 2),
                _ => return None,
            },
            '{' => {
                let close = chars[at..].iter().position(|c| *c == '}')?;
                (None, close + 1)
            }
            '.' | '^' | '$' | '*' | '+' | '?' | '|' => (None, 1),
            plain => (Some(plain), 1),
        };
        // A repeated character can be missing, or be there more than once.
        let repeated = matches!(chars.get(at + length), Some('*' | '+' | '?' | '{'));
        match literal.filter(|_| depth == 0 && !repeated) {
            Some(literal) => run.push(literal),
            None => run.clear(),
        }
        if run.len() > longest.len() {
            longest.clone_from(&run);
        }
        at += length;
    }
    (longest.len() > 1).then_some(longest)
}

/// The length of the class that a text begins with.
fn class(chars: &[char]) -> Option<usize> {
    let mut at = 1;
    if chars.get(at) == Some(&'^') {
        at += 1;
    }
    // At this position a closing bracket is a member of the class.
    if chars.get(at) == Some(&']') {
        at += 1;
    }
    loop {
        match chars.get(at)? {
            '\\' => at += 2,
            // A class inside a class is not handled.
            '[' => return None,
            ']' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_lite::Regex;

    #[test]
    fn texts() {
        for (regex, expected) in [
            (r"\bsudo\b", Some("sudo")),
            (r"^git\s+push\b", Some("push")),
            (r"rm\s+-rf", Some("-rf")),
            (r"ab?cd", Some("cd")),
            (r"abc+d", Some("ab")),
            (r"abc*", Some("ab")),
            (r"abc{2}de", Some("ab")),
            (r"(abc)de", Some("de")),
            (r"(?:a|b)cd", Some("cd")),
            (r"x\.y\|z", Some("x.y|z")),
            (r"[abc]de", Some("de")),
            (r"[]abc]de[^]f]", Some("de")),
            (r"[\]abc]de", Some("de")),
            (r"a.bc", Some("bc")),
            (r"(?i)abc", None),
            (r"(?x) ab c", None),
            (r"(?P<x>a)bc", None),
            (r"abc|def", None),
            (r"a", None),
            (r"\x41bc", None),
            (r"[[:alpha:]]bc", None),
            (r"ab)", None),
            ("", None),
            (r"\", None),
            (r"[", None),
            ("éé", Some("éé")),
        ] {
            assert_eq!(required(regex).as_deref(), expected, "{regex}");
        }
    }

    /// Every match contains the text.
    #[test]
    fn it_is_required() {
        let parts = [
            "a", "b", "c", "ab", "(", ")", "(?:", "|", "*", "+", "?", "[ab]", "[^c]", "{2}",
            "{0,1}", ".", r"\b", r"\w", r"\.", "^", "$", "(?i)", "[b-]", "é",
        ];
        let letters = ["a", "b", "c", "A", ".", "é", " ", "ab", "abc"];
        let mut state = 3_u64;
        let mut below = |end: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        let (mut good, mut matches) = (0, 0);
        for _ in 0..40_000 {
            let regex: String = (0..=below(8)).map(|_| parts[below(parts.len())]).collect();
            let Some(text) = required(&regex) else {
                continue;
            };
            let Ok(compiled) = Regex::new(&regex) else {
                continue;
            };
            good += 1;
            for _ in 0..20 {
                let given: String = (0..below(7))
                    .map(|_| letters[below(letters.len())])
                    .collect();
                if compiled.is_match(&given) {
                    matches += 1;
                    assert!(
                        given.contains(&text),
                        "{regex} matches {given} without {text}"
                    );
                }
            }
        }
        assert!(
            good > 1_000 && matches > 1_000,
            "{good} and {matches}: no good test"
        );
    }
}
