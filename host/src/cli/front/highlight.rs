//! Colours shell commands and Markdown with the terminal's 16 colours. The text itself is
//! unchanged: only colour sequences are inserted between its characters. The text must already be
//! free of control sequences.

use super::Look;
use super::look::Colour;

/// Words after which another command follows.
const KEYWORDS: [&str; 14] = [
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "case", "esac",
    "time", "!",
];

/// The syntactic place in a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ShellPlace {
    #[default]
    Words,
    /// Inside these quotes.
    Quotes(char),
    /// Inside a here-document that ends with this line.
    Document(String),
}

/// Colours a shell command that comes in pieces.
#[derive(Clone, Debug)]
pub(super) struct ShellPaint {
    look: Look,
    place: ShellPlace,
    /// Whether the next word is a command's name.
    is_name: bool,
    /// Whether a word may begin at the next character: only there, `#` begins a comment.
    is_start: bool,
    /// Whether the last character was a backslash, which joins the next line to this one.
    is_joined: bool,
    /// The number of open parentheses since `((`, where `<<` is a shift.
    arithmetic: usize,
    /// The end of the here-document that begins with the next line.
    document: Option<String>,
}

impl ShellPaint {
    pub fn new(look: Look) -> Self {
        Self {
            look,
            place: ShellPlace::Words,
            is_name: true,
            is_start: true,
            is_joined: false,
            arithmetic: 0,
            document: None,
        }
    }

    /// Colours a part of a line. Where a line is wrapped, its blanks are left out.
    pub fn piece(&mut self, text: &str) -> String {
        if !self.look.colour {
            return text.to_owned();
        }
        let mut out = String::new();
        let mut rest = text;
        if let ShellPlace::Document(end) = &self.place {
            if text.trim() == end {
                self.place = ShellPlace::Words;
                self.is_name = true;
                self.is_start = true;
            }
            return self.look.paint(Colour::Green, text);
        }
        if std::mem::take(&mut self.is_joined) {
            // The blank that was left out belongs to the word.
            self.is_start = false;
        }
        while !rest.is_empty() {
            let (len, colour) = self.token(rest);
            let (token, after) = rest.split_at(len);
            self.is_joined = token == "\\" && self.place == ShellPlace::Words;
            if !self.is_joined {
                let is_blank_or_sign = token.ends_with([' ', '\t', ';', '|', '&', '(']);
                self.is_start = is_blank_or_sign && !token.starts_with('\\');
            }
            match colour {
                Some(colour) => out.push_str(&self.look.paint(colour, token)),
                None => out.push_str(token),
            }
            rest = after;
        }
        self.is_start |= !self.is_joined;
        out
    }

    /// Ends a line.
    pub fn end_line(&mut self) {
        if self.place == ShellPlace::Words && !std::mem::take(&mut self.is_joined) {
            self.is_name = true;
            self.is_start = true;
            if let Some(end) = self.document.take() {
                self.place = ShellPlace::Document(end);
            }
        }
    }

    /// The length and the colour of the first token.
    fn token(&mut self, text: &str) -> (usize, Option<Colour>) {
        if let ShellPlace::Quotes(quote) = self.place {
            let end = closing(text, quote);
            if end.is_some() {
                self.place = ShellPlace::Words;
            }
            return (end.unwrap_or(text.len()), Some(Colour::Green));
        }
        let mut chars = text.chars();
        let first = chars.next().unwrap_or_default();
        match first {
            ' ' | '\t' => {
                let blanks = text.len() - text.trim_start_matches([' ', '\t']).len();
                (blanks, None)
            }
            '#' if self.is_start => (text.len(), Some(Colour::Dim)),
            '\'' | '"' => {
                self.is_name = false;
                self.place = ShellPlace::Quotes(first);
                match closing(&text[1..], first) {
                    Some(end) => {
                        self.place = ShellPlace::Words;
                        (1 + end, Some(Colour::Green))
                    }
                    None => (text.len(), Some(Colour::Green)),
                }
            }
            '<' if text.starts_with("<<") && !text.starts_with("<<<") && self.arithmetic == 0 => {
                let word = text[2..].trim_start_matches(['-', ' ']);
                let word = word.trim_start_matches(['\'', '"', '\\']);
                let end = word.find(|c: char| !c.is_alphanumeric() && c != '_');
                let word = &word[..end.unwrap_or(word.len())];
                self.document = (!word.is_empty()).then(|| word.to_owned());
                (2, Some(Colour::Yellow))
            }
            ';' | '|' | '&' | '(' | ')' | '{' | '}' | '<' | '>' | '`' => {
                self.is_name = !matches!(first, ')' | '}' | '<' | '>');
                match first {
                    '(' if self.arithmetic > 0 || text.starts_with("((") => self.arithmetic += 1,
                    ')' => self.arithmetic = self.arithmetic.saturating_sub(1),
                    _ => {}
                }
                (1, Some(Colour::Yellow))
            }
            '$' if chars.clone().next() == Some('(') => (1, Some(Colour::Yellow)),
            '$' => (1 + variable(chars.as_str()), Some(Colour::Magenta)),
            '\\' => (1 + chars.next().map_or(0, char::len_utf8), None),
            _ => {
                let is_end = |c: char| c.is_whitespace() || "'\"`;&|()<>{}$\\".contains(c);
                let end = text.find(is_end).unwrap_or(text.len());
                let word = &text[..end.max(first.len_utf8())];
                (word.len(), self.word(word))
            }
        }
    }

    fn word(&mut self, word: &str) -> Option<Colour> {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        match self.is_name {
            true if is_assignment => Some(Colour::Cyan),
            true if KEYWORDS.contains(&word) => Some(Colour::Blue),
            true => {
                self.is_name = false;
                Some(Colour::Bold)
            }
            false if self.is_start && word.starts_with('-') => Some(Colour::Cyan),
            false => None,
        }
    }
}

/// The length of a quoted text, including its closing quote.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
    }
    None
}

/// The length of the name of a variable after its `$`.
fn variable(text: &str) -> usize {
    for (begin, end) in [('{', '}'), ('[', ']')] {
        if text.starts_with(begin) {
            return text.find(end).map_or(text.len(), |at| at + 1);
        }
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    match end.unwrap_or(text.len()) {
        // `$?`, `$@`
        0 => text
            .chars()
            .next()
            .filter(|c| "?@#*!$-".contains(*c))
            .map_or(0, char::len_utf8),
        end => end,
    }
}

/// Colours Markdown, line by line.
#[derive(Clone, Debug)]
pub(super) struct MarkdownPaint {
    look: Look,
    /// The fence that ends the block of code, and its colours.
    block: Option<(String, ShellPaint, bool)>,
}

impl MarkdownPaint {
    pub fn new(look: Look) -> Self {
        Self { look, block: None }
    }

    /// Colours a complete line, without its line end.
    pub fn line(&mut self, line: &str) -> String {
        let look = self.look;
        let text = line.trim_start_matches(' ');
        let fence: String = text
            .chars()
            .take_while(|c| matches!(c, '`' | '~'))
            .collect();
        if let Some((end, shell, is_shell)) = &mut self.block {
            if fence.starts_with(end.as_str()) && text.trim_end() == fence {
                self.block = None;
                return look.paint(Colour::Dim, line);
            }
            let shown = match is_shell {
                true => shell.piece(line),
                false => look.paint(Colour::Cyan, line),
            };
            shell.end_line();
            return shown;
        }
        if fence.len() >= 3 && fence.chars().all(|c| fence.starts_with(c)) {
            let language = text[fence.len()..].trim();
            let is_shell = language.ends_with("sh") || language.starts_with("mswea");
            self.block = Some((fence, ShellPaint::new(look), is_shell));
            return look.paint(Colour::Dim, line);
        }
        let hashes = text.len() - text.trim_start_matches('#').len();
        if (1..=6).contains(&hashes) && text[hashes..].starts_with(' ') {
            return look.paint(Colour::Bold, line);
        }
        if text.starts_with("> ") {
            return look.paint(Colour::Dim, line);
        }
        self.spans(line)
    }

    /// Colours code in backticks, and strong text.
    fn spans(&self, line: &str) -> String {
        let mut out = String::new();
        let mut rest = line;
        while let Some(at) = rest.find(['`', '*']) {
            let mark = match &rest[at..] {
                code if code.starts_with('`') => "`",
                strong if strong.starts_with("**") => "**",
                _ => "*",
            };
            let inner = at + mark.len();
            let end = rest[inner..].find(mark).map(|end| inner + end + mark.len());
            let (colour, end) = match (mark, end) {
                ("`", Some(end)) => (Some(Colour::Cyan), end),
                ("**", Some(end)) if end > inner + 2 => (Some(Colour::Bold), end),
                _ => (None, inner),
            };
            out.push_str(&rest[..at]);
            match colour {
                Some(colour) => out.push_str(&self.look.paint(colour, &rest[at..end])),
                None => out.push_str(&rest[at..end]),
            }
            rest = &rest[end..];
        }
        out + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOURS: Look = Look {
        live: true,
        redraw: true,
        colour: true,
        stdout_terminal: false,
        verbose: 0,
        width: crate::cli::front::look::Width::Any,
    };

    /// The colours as letters: `[b:ls] [c:-l]`.
    fn lettered(text: &str) -> String {
        let text = text.replace("\x1b[0m", "]");
        let letters = [
            ("1", "b"),
            ("2", "d"),
            ("32", "g"),
            ("33", "y"),
            ("34", "u"),
            ("35", "m"),
            ("36", "c"),
        ];
        letters.iter().fold(text, |text, (code, letter)| {
            text.replace(&format!("\x1b[{code}m"), &format!("[{letter}:"))
        })
    }

    fn bare(text: &str) -> String {
        let codes = ["0", "1", "2", "32", "33", "34", "35", "36"];
        codes.iter().fold(text.to_owned(), |text, code| {
            text.replace(&format!("\x1b[{code}m"), "")
        })
    }

    #[test]
    fn commands() {
        for (command, expected) in [
            ("ls -l 'a b' # all", "[b:ls] [c:-l] [g:'a b'] [d:# all]"),
            ("A=1 make a#b", "[c:A=1] [b:make] a#b"),
            (
                "cd x && git \"st $a\"",
                "[b:cd] x [y:&][y:&] [b:git] [g:\"st $a\"]",
            ),
            (
                "echo $HOME ${a:-b}c $? $",
                "[b:echo] [m:$HOME] [m:${a:-b}]c [m:$?] [m:$]",
            ),
            ("if x; then y >f", "[u:if] [b:x][y:;] [u:then] [b:y] [y:>]f"),
            ("echo $(ls -l)", "[b:echo] [y:$][y:(][b:ls] [c:-l][y:)]"),
            ("echo 'one\ntwo' three", "[b:echo] [g:'one]\n[g:two'] three"),
            (
                "cat <<'E' >f\n-x $y\nE\nls",
                "[b:cat] [y:<<][g:'E'] [y:>]f\n[g:-x $y]\n[g:E]\n[b:ls]",
            ),
            ("a\\ b", "[b:a]\\ b"),
            ("echo a\\ #; touch b", "[b:echo] a\\ #[y:;] [b:touch] b"),
            ("echo a\\\n#; touch b", "[b:echo] a\\\n#[y:;] [b:touch] b"),
            (
                "echo $((1<<E))\ntouch b",
                "[b:echo] [y:$][y:(][y:(][b:1][y:<][y:<]E[y:)][y:)]\n[b:touch] b",
            ),
            ("echo $[1<<E]\ntouch b", "[b:echo] [m:$[1<<E]]\n[b:touch] b"),
            ("日本 \u{1f600}'", "[b:日本] \u{1f600}[g:']"),
        ] {
            let mut paint = ShellPaint::new(COLOURS);
            let lines = command.split('\n').map(|line| {
                let shown = paint.piece(line);
                paint.end_line();
                shown
            });
            let shown = lines.collect::<Vec<_>>().join("\n");
            assert_eq!(bare(&shown), command);
            assert_eq!(lettered(&shown), expected, "{command}");
        }
        for (pieces, expected) in [
            (["echo a\\", "#; ls"], ["[b:echo] a\\", "#[y:;] [b:ls]"]),
            (["echo a", "# b; ls"], ["[b:echo] a", "[d:# b; ls]"]),
        ] {
            let mut paint = ShellPaint::new(COLOURS);
            assert_eq!(pieces.map(|piece| lettered(&paint.piece(piece))), expected);
        }
        let mut plain = ShellPaint::new(Look::default());
        assert_eq!(plain.piece("ls -l"), "ls -l");
    }

    #[test]
    fn markdown() {
        let text = "# One\nsome `code *x*`, **strong** and * not\n```bash\nls -l\n```\n~~~\n# no\n``` \n~~~\n> said\n- `open\n**";
        let mut paint = MarkdownPaint::new(COLOURS);
        let shown: Vec<String> = text.lines().map(|line| paint.line(line)).collect();
        let shown = shown.join("\n");
        assert_eq!(bare(&shown), text);
        assert_eq!(
            lettered(&shown),
            "[b:# One]\nsome [c:`code *x*`], [b:**strong**] and * not\n[d:```bash]\n[b:ls] [c:-l]\n[d:```]\n[d:~~~]\n[c:# no]\n[c:``` ]\n[d:~~~]\n[d:> said]\n- `open\n**"
        );
        let mut plain = MarkdownPaint::new(Look::default());
        assert_eq!(plain.line("# **a** `b`"), "# **a** `b`");
    }
}
