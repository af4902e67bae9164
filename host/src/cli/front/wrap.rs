//! Lines that fit the terminal: broken at words, with the indent of the first line.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns a text takes that begins in `column`.
pub(in crate::cli) fn width(text: &str, column: usize) -> usize {
    if !text.contains('\t') {
        return text.width();
    }
    let end = text.chars().fold(column, |column, c| match c {
        '\t' => (column / 8 + 1) * 8,
        c => column + c.width().unwrap_or(0),
    });
    end - column
}

/// The beginning of a text that fits into this many columns.
pub(in crate::cli) fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let over = text.char_indices().find(|(_, c)| {
        used += match c {
            '\t' => 8 - used % 8,
            c => c.width().unwrap_or(1),
        };
        used > columns
    });
    let part = &text[..over.map_or(text.len(), |(at, _)| at)];
    let fits = |part: &str| width(part, 0) <= columns;
    if fits(part) {
        return part;
    }
    // Some emoji take more columns than their characters, one by one.
    let ends: Vec<usize> = part.char_indices().map(|(at, _)| at).collect();
    let fitting = ends.partition_point(|end| fits(&part[..*end]));
    &part[..ends[fitting.saturating_sub(1)]]
}

/// Breaks one line that begins after `lead` columns. The following lines begin `indent` columns
/// after the indent of the line itself. A word that is longer than a line is not broken, so that it
/// can be copied. Without a number of columns, no line is broken.
pub(super) fn wrap(line: &str, lead: usize, indent: usize, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else {
        return vec![line.to_owned()];
    };
    if lead + width(line, lead) <= columns {
        return vec![line.to_owned()];
    }
    let mut flow = Flow::new(Some(columns));
    flow.column = lead;
    flow.indent = indent;
    let mut text = flow.push(line);
    text.push_str(&flow.finish());
    text.split('\n').map(str::to_owned).collect()
}

/// Breaks a text that arrives in pieces. The last word is held back until its end is known.
#[derive(Debug)]
pub(super) struct Flow {
    columns: Option<usize>,
    column: usize,
    /// The indent of the following lines, besides `hang`.
    indent: usize,
    /// The indent of the line itself, including the mark of a list item.
    hang: usize,
    /// Whether the line has a word.
    begun: bool,
    gap: String,
    word: String,
}

impl Flow {
    pub fn new(columns: Option<usize>) -> Self {
        Self {
            columns,
            column: 0,
            indent: 0,
            hang: 0,
            begun: false,
            gap: String::new(),
            word: String::new(),
        }
    }

    /// The text that can be shown after this piece has arrived.
    pub fn push(&mut self, text: &str) -> String {
        if self.columns.is_none() {
            return text.to_owned();
        }
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '\n' => {
                    self.place(&mut out);
                    out.push('\n');
                    *self = Self::new(self.columns);
                }
                ' ' | '\t' => {
                    self.place(&mut out);
                    self.gap.push(c);
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// The text that was held back.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.place(&mut out);
        out
    }

    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let gap = std::mem::take(&mut self.gap);
        let gap_width = width(&gap, self.column);
        let word_width = width(&word, self.column + gap_width);
        let columns = self.columns.unwrap_or(usize::MAX);
        if !self.begun {
            self.hang = gap_width;
            let number = word.trim_end_matches(['.', ')']);
            let is_numbered = number.len() + 1 == word.len()
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit());
            if is_numbered || matches!(&*word, "-" | "*" | "+" | "\u{2022}") {
                self.hang += word_width + 1;
            }
            // Deep indents would leave no room.
            self.hang = self.hang.min(columns / 2);
        } else if self.column + gap_width + word_width > columns {
            self.column = self.indent + self.hang;
            out.push('\n');
            out.push_str(&" ".repeat(self.column));
            out.push_str(&word);
            self.column += word_width;
            return;
        }
        self.begun = true;
        out.push_str(&gap);
        out.push_str(&word);
        self.column += gap_width + word_width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_words() {
        let vectors: [(&str, usize, usize, &[&str]); 12] = [
            ("short", 0, 0, &["short"]),
            ("exactly 20 columns!!", 0, 0, &["exactly 20 columns!!"]),
            ("exactly 21 columns!!!", 0, 0, &["exactly 21", "columns!!!"]),
            (
                "  keeps its own indent here",
                0,
                0,
                &["  keeps its own", "  indent here"],
            ),
            (
                "- an item of a list goes on",
                0,
                0,
                &["- an item of a list", "  goes on"],
            ),
            (
                "12. numbered, too, for sure",
                0,
                0,
                &["12. numbered, too,", "    for sure"],
            ),
            (
                "a command --with --many --flags",
                2,
                2,
                &["a command --with", "  --many --flags"],
            ),
            (
                "two  gaps   are kept in a line",
                0,
                0,
                &["two  gaps   are kept", "in a line"],
            ),
            (
                "https://example.com/a/long/address is whole",
                0,
                0,
                &["https://example.com/a/long/address", "is whole"],
            ),
            (
                "日本語の文字 は 二桁です",
                0,
                0,
                &["日本語の文字 は", "二桁です"],
            ),
            ("", 0, 0, &[""]),
            ("a\tb\tlonger enough", 0, 0, &["a\tb", "longer enough"]),
        ];
        for (line, lead, indent, expected) in vectors {
            assert_eq!(wrap(line, lead, indent, Some(20)), expected, "{line:?}");
            assert_eq!(wrap(line, lead, indent, None), [line]);
        }
    }

    #[test]
    fn pieces_come_to_the_same_as_the_whole() {
        let text = "The quick brown fox\n- jumps over the lazy dog, and over\n  the fence\n\nend";
        for columns in [20, 30, 200] {
            let whole: Vec<String> = text
                .lines()
                .flat_map(|line| wrap(line, 0, 0, Some(columns)))
                .collect();
            for size in 1..7 {
                let mut flow = Flow::new(Some(columns));
                let pieces: Vec<char> = text.chars().collect();
                let mut shown: String = pieces
                    .chunks(size)
                    .map(|piece| flow.push(&piece.iter().collect::<String>()))
                    .collect();
                shown += &flow.finish();
                assert_eq!(
                    shown.lines().collect::<Vec<_>>(),
                    whole,
                    "{columns}, {size}"
                );
            }
        }
        let mut flow = Flow::new(None);
        assert_eq!(flow.push("half a wo") + &flow.finish(), "half a wo");
    }

    #[test]
    fn widths() {
        for (text, column, expected) in [
            ("abc", 0, 3),
            ("日本", 0, 4),
            ("a\tb", 0, 9),
            ("\t", 7, 1),
            ("👩\u{200d}💻", 0, 2),
            ("e\u{301}", 0, 1),
        ] {
            assert_eq!(width(text, column), expected, "{text:?}");
        }
        assert_eq!(cut("日本語", 5), "日本");
        assert_eq!(cut("abc", 5), "abc");
    }
}
