//! Makes text of models, commands and plugins safe to show.
//!
//! An escape sequence can move the cursor, set the window's title or the clipboard, or hide what a
//! command does, so none is passed on. Other characters that are not printable, and those that
//! change the direction of writing, are replaced by visible ones.

/// The text without complete escape sequences (most are colours), and with visible replacements
/// for other control characters. Tabs and newlines stay; a carriage return becomes a newline, so
/// that no line is overwritten.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if matches!(c, '\x1b' | '\u{9b}' | '\u{9d}' | '\u{90}')
            && let Some(after) = skip_sequence(rest)
        {
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c == '\r' {
            // One newline for `\r\n`, and one for the carriage returns of a progress bar.
            let after = rest.trim_start_matches('\r');
            if !after.starts_with('\n') {
                out.push('\n');
            }
            rest = after;
        } else {
            push_visible(&mut out, c, rest.chars().next());
        }
    }
    out
}

/// The text with visible replacements for all control characters but tabs and newlines, also for
/// those of escape sequences: for texts that are compared.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        push_visible(&mut out, c, chars.peek().copied());
    }
    out
}

/// As [`visible`], without carriage returns: for a piece of a text that continues. An escape
/// sequence may be cut in two, so its first character is shown, and its end is not guessed.
fn harmless_piece(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\r' {
            push_visible(&mut out, c, chars.peek().copied());
        }
    }
    out
}

/// Makes a text safe that arrives in pieces. An emoji at the end is held back, because the next
/// piece may continue it with a joiner.
#[derive(Debug, Default)]
pub struct SafePieces {
    held: String,
}

/// The most bytes that are held back: the emoji of a family consists of a few joined ones.
const LONGEST_HELD: usize = 64;

impl SafePieces {
    /// Adds a piece, and returns the text that can be shown now.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let may_go_on = |c: char| is_emoji(c) || c == JOINER;
        let settled = self.held.trim_end_matches(may_go_on).len();
        if self.held.len() - settled > LONGEST_HELD {
            return self.finish();
        }
        let held = self.held.split_off(settled);
        harmless_piece(&std::mem::replace(&mut self.held, held))
    }

    /// Returns the text that was held back.
    pub fn finish(&mut self) -> String {
        harmless_piece(&std::mem::take(&mut self.held))
    }
}

/// [`harmless`] on one line: for names and short messages.
pub fn one_line(text: &str) -> String {
    let text = harmless(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Joins emoji into one.
const JOINER: char = '\u{200d}';

/// Whether a joiner beside this character joins emoji: pictures, arrows, the modifiers of colour and
/// of presentation. Between letters a joiner is an invisible character.
fn is_emoji(c: char) -> bool {
    matches!(
        c,
        '\u{1f000}'..='\u{1faff}'
            | '\u{2190}'..='\u{21ff}'
            | '\u{2600}'..='\u{27bf}'
            | '\u{2b00}'..='\u{2bff}'
            | '\u{fe0f}'
    )
}

fn push_visible(out: &mut String, c: char, next: Option<char>) {
    match c {
        '\n' | '\t' => out.push(c),
        JOINER if out.ends_with(is_emoji) && next.is_some_and(is_emoji) => out.push(c),
        '\0'..='\x1f' => out.push(picture(c as u32)),
        '\x7f' => out.push('\u{2421}'),
        // C1 controls; characters that change the direction of writing, with which the code that is
        // shown can differ from the code that runs; invisible characters, which a copy contains.
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => out.push_str(&format!("<U+{:04X}>", c as u32)),
        _ => out.push(c),
    }
}

/// The printable symbol of a C0 control character.
fn picture(code: u32) -> char {
    char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The text after the complete escape sequence that `text` begins with; none if the sequence is not
/// complete.
fn skip_sequence(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    let kind = match chars.next()? {
        '\x1b' => chars.next()?,
        '\u{9b}' => '[',
        '\u{9d}' => ']',
        _ => 'P',
    };
    match kind {
        '[' => {
            for c in chars.by_ref() {
                match c {
                    '\x20'..='\x3f' => {}
                    '\x40'..='\x7e' => return Some(chars.as_str()),
                    _ => return None,
                }
            }
            None
        }
        // Strings: they end with BEL or ST, and do not span lines.
        ']' | 'P' | 'X' | '^' | '_' => {
            while let Some(c) = chars.next() {
                match c {
                    '\x07' | '\u{9c}' => return Some(chars.as_str()),
                    '\x1b' => return chars.as_str().strip_prefix('\\'),
                    '\n' | '\r' => return None,
                    _ => {}
                }
            }
            None
        }
        // Selection of a character set: one more character.
        '(' | ')' | '*' | '+' | '#' | '%' => {
            chars.next().filter(char::is_ascii_graphic)?;
            Some(chars.as_str())
        }
        '\x30'..='\x7e' => Some(chars.as_str()),
        _ => None,
    }
}

/// Text without markup, for the content of an element of HTML and for a quoted attribute. It keeps control
/// characters: [`harmless`] takes them out.
pub fn as_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let vectors = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("größe ✓ 日本", "größe ✓ 日本"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[2J\x1b[Hgone", "gone"),
            ("\x1b[38;5;196;1mx", "x"),
            ("\x1b]0;title\x07x", "x"),
            ("\x1b]52;c;aGk=\x1b\\x", "x"),
            ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1bP1$r\x1b\\x", "x"),
            ("\x1b(Bx", "x"),
            ("\x1bcx", "x"),
            ("\u{9b}31mx", "x"),
            ("\x1b", "␛"),
            ("\x1b[31", "␛[31"),
            ("\x1b]0;endless", "␛]0;endless"),
            ("\x1b]0;two\nlines\x07", "␛]0;two\nlines␇"),
            ("\x1b[3\x1b[31m1m", "␛[31m"),
            ("a\x08b\0c\x7f", "a␈b␀c␡"),
            ("a\u{85}b", "a<U+0085>b"),
            ("a\u{202e}b", "a<U+202E>b"),
            ("a\u{200b}b", "a<U+200B>b"),
            (
                "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥",
                "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥",
            ),
            (
                "a\u{200d}b 👩\u{200d}b \u{200d}💻",
                "a<U+200D>b 👩<U+200D>b <U+200D>💻",
            ),
            ("👩\u{200d}\u{200d}💻", "👩<U+200D><U+200D>💻"),
            ("10%\r20%\r\r\n30%\rdone", "10%\n20%\n30%\ndone"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("end\r", "end\n"),
        ];
        for (text, expected) in vectors {
            assert_eq!(harmless(text), expected, "{text:?}");
        }
    }

    #[test]
    fn pieces_never_hold_a_control_character() {
        let whole = "\x1b]0;title\x07\x1b[31mred\r\n\u{9b}2J";
        for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
            let shown = format!(
                "{}{}",
                harmless_piece(&whole[..cut]),
                harmless_piece(&whole[cut..])
            );
            assert_eq!(shown, "␛]0;title␇␛[31mred\n<U+009B>2J");
        }
    }

    #[test]
    fn emoji_that_are_cut_in_pieces_come_out_whole() {
        for text in [
            "ok 👩\u{200d}👩\u{200d}👧 done",
            "👍",
            "❤\u{fe0f}\u{200d}🔥",
            "a\u{200d}b",
        ] {
            let mut pieces = SafePieces::default();
            let mut shown: String = text
                .chars()
                .map(|c| pieces.push(c.encode_utf8(&mut [0; 4])))
                .collect();
            shown += &pieces.finish();
            assert_eq!(shown, harmless(text));
        }
        // A long row of emoji is not held back.
        let many = "👍".repeat(100);
        assert!(SafePieces::default().push(&many).len() > 300);
    }

    #[test]
    fn every_character_comes_out_printable() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        for text in [
            harmless(&all),
            visible(&all),
            harmless_piece(&all),
            one_line(&all),
        ] {
            assert!(
                text.chars()
                    .all(|c| matches!(c, '\n' | '\t') || !c.is_control())
            );
        }
        assert_eq!(one_line(" a\x1b[1m \n\n b\t"), "a b");
    }

    #[test]
    fn texts_to_compare_keep_a_symbol_for_every_control_character() {
        assert_eq!(visible("a\x1b[31mb\r\n\tc\u{ad}"), "a␛[31mb␍\n\tc<U+00AD>");
    }
}
