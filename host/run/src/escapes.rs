//! Terminal sequences in outputs, which SWE-agent's shell removes.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// The text without terminal sequences: colours, movements of the cursor, window titles.
pub(crate) fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return text.into();
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(ESCAPE) {
        kept.push_str(&rest[..place]);
        let after = &rest[place + 1..];
        match sequence(after) {
            Some(length) => rest = &after[length..],
            None => {
                kept.push(ESCAPE);
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept.into()
}

/// The length of a sequence after its escape character; none if the text does not continue one.
fn sequence(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'[' => {
            let is = |from: u8, to: u8| move |byte: &&u8| (from..=to).contains(*byte);
            let parameters = bytes[1..].iter().take_while(is(b'0', b'?')).count();
            let between = bytes[1 + parameters..]
                .iter()
                .take_while(is(b' ', b'/'))
                .count();
            let end = 1 + parameters + between;
            bytes.get(end).filter(is(b'@', b'~')).map(|_| end + 1)
        }
        b']' => {
            let end = text.find([BELL, ESCAPE])?;
            match text[end..].starts_with(BELL) {
                true => Some(end + 1),
                // The sequence ends with an escape and a backslash.
                false => text[end + 1..].starts_with('\\').then_some(end + 2),
            }
        }
        b'@'..=b'_' => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_removed_and_texts_stay() {
        for (text, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m\n", "red\n"),
            ("\u{1b}[1;38;5;200mé\u{1b}[K", "é"),
            ("\u{1b}[?25l\u{1b}[2 qx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Mx", "x"),
            ("a\u{1b}", "a\u{1b}"),
            ("\u{1b}[31", "\u{1b}[31"),
            ("\u{1b}]no end", "\u{1b}]no end"),
            ("\u{1b}é", "\u{1b}é"),
        ] {
            assert_eq!(without_escapes(text), expected, "{text:?}");
        }
    }
}
