//! Finds commands that bash can certainly parse and that need no syntax check: a check starts
//! another bash.

/// The words that begin or end a compound command.
const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "select", "function", "in", "time", "coproc",
];

/// Whether a command has only words of plain characters and quoted texts, and `&&`, `||`, `|`, `;`
/// and line ends between commands. Many commands that bash can parse are not plain.
pub fn is_plain(text: &str) -> bool {
    let mut rest = text;
    // Whether the current command has a word, and whether an operator needs another command after
    // it.
    let (mut has_word, mut needs_more) = (false, false);
    while let Some(next) = rest.chars().next() {
        match next {
            ' ' | '\t' => rest = &rest[1..],
            '\n' => {
                has_word = false;
                rest = &rest[1..];
            }
            ';' | '&' | '|' => {
                let two = rest.get(..2).unwrap_or_default();
                let (length, is_joined) = match (next, two) {
                    (_, "&&" | "||") => (2, true),
                    ('|', two) if two != "|&" => (1, true),
                    (';', two) if two != ";;" && two != ";&" => (1, false),
                    _ => return false,
                };
                if !has_word {
                    return false;
                }
                (has_word, needs_more) = (false, is_joined);
                rest = &rest[length..];
            }
            _ => {
                let Some(length) = word(rest) else {
                    return false;
                };
                if RESERVED.contains(&&rest[..length]) {
                    return false;
                }
                (has_word, needs_more) = (true, false);
                rest = &rest[length..];
            }
        }
    }
    !needs_more
}

/// The length of the word at the beginning of a text; none if the word is not plain.
fn word(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' => break,
            b'\'' => 2 + text[at + 1..].find('\'')?,
            b'"' => {
                let inner = &bytes[at + 1..];
                let length = inner.iter().position(|&byte| byte == b'"')?;
                let is_good = |index: usize| match inner[index] {
                    b'\\' | b'`' => false,
                    b'$' => inner.get(index + 1).is_some_and(|&it| is_name(it)),
                    _ => true,
                };
                if !(0..length).all(is_good) {
                    return None;
                }
                2 + length
            }
            b'$' if bytes.get(at + 1).is_some_and(|&it| is_name(it)) => 2,
            byte if is_name(byte) || b"-./=:,+@%^~*?".contains(&byte) => 1,
            _ => return None,
        };
    }
    (at > 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn plain_commands_can_be_read() {
        for (text, expected) in [
            ("true", true),
            ("", true),
            (" \n", true),
            ("ls -la src/*.rs", true),
            ("grep -rn \"foo $BAR\" 'a (b' | head -20", true),
            (
                "cd x && python -m pytest a/b.py::c || echo no; pwd\nA=1 env",
                true,
            ),
            ("a &&\n b", true),
            ("echo it\\'s", false),
            ("echo 'é'", true),
            ("echo é", false),
            ("echo 'a", false),
            ("echo \"a", false),
            ("echo \"$(x\"", false),
            ("a &&", false),
            ("| a", false),
            ("a ; ; b", false),
            ("a;; b", false),
            ("a |& b", false),
            ("a & b", false),
            ("a &&\n\n&& b", false),
            ("if true", false),
            ("time", false),
            ("a > b", false),
            ("a (", false),
            ("{ a", false),
            ("[[ a", false),
            ("! a", false),
            ("# 'a", false),
            ("$'a", false),
            ("a=(b", false),
            ("echo $", false),
        ] {
            assert_eq!(is_plain(text), expected, "{text:?}");
        }
    }

    /// Bash can parse every plain text.
    #[test]
    fn bash_can_read_what_is_plain() {
        let parts = [
            "a", "if", "in", " ", "\n", ";", "&", "|", "'", "\"", "$", "b=1", "(", "{", "\\", "!",
            "#", ">", "x", "do", "[[", "-c", "$Z",
        ];
        // A few thousand generated texts, the same ones in each test run.
        let mut seed = 7_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        let mut plain = Vec::new();
        for _ in 0..60_000 {
            let text: String = (0..=next(9)).map(|_| parts[next(parts.len())]).collect();
            if is_plain(&text) {
                plain.push(text);
            }
        }
        plain.sort();
        plain.dedup();
        assert!(plain.len() > 500, "{}", plain.len());
        for texts in plain.chunks(200) {
            // One bash checks many texts, each separately, from its arguments.
            let script =
                "for text; do bash -n -c -- \"$text\" || { printf '%s' \"$text\"; exit 1; }; done";
            let mut bash = Command::new("bash");
            let done = bash
                .args(["-c", script, "bash"])
                .args(texts)
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    }
}
